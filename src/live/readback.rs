//! Reads the stream back after a run and hands each message to the comparison.
//!
//! Everything from the last sequence before the run to the end is read; no more than a few thousand
//! messages are held at a time. Leans on `reading`, `verify`, `target` and the payloads of `load`.

use std::collections::BTreeMap;

use serde_json::json;

use super::error::LiveError;
use super::fleet::LiveWorld;
use super::reading::{Reading, Stored};
use super::target::Target;
use super::verify::{Allowances, ReadBack, Reader};
use crate::client::Witness;
use crate::event::{Event, PublisherId};
use crate::load::{IDENTIFIED_BYTES, PayloadContent};
use crate::nats::header::{MESSAGE_ID, ROLLUP, TTL};
use crate::nats::{BatchSequence, StreamSequence};
use crate::scenario::{Discard, PayloadSize, Publishers, Settings, StreamSettings};

/// Messages that are still on their way when publishers give up may come later: the end of the
/// stream is looked at again, at most so often.
const ROUNDS: u32 = 5;

/// Reads back what the run left in the stream of `target`, and tells each message as an event of
/// the moment it is read. Probes had `probed` messages stored, which are passed over.
///
/// # Errors
/// The stream cannot be read.
pub(super) async fn read_back(
    target: &Target,
    settings: &Settings,
    content: &PayloadContent,
    (world, probed): (&LiveWorld<'_>, u64),
) -> Result<ReadBack, LiveError> {
    let shorts = Shorts::new(&settings.publishers);
    let mut reader = Reader::default();
    let mut reading = Reading::new(target);
    let mut read_to = target.last_sequence();
    for _ in 0..ROUNDS {
        let end = last_sequence(target).await?;
        if end <= read_to {
            break;
        }
        let mut take = |message: &Stored| match settings.is_of_probe(&message.subject) {
            true => reader.of_probe(),
            false => take(message, content, &shorts, &mut reader, world),
        };
        reading.range(read_to + 1, end, &mut take).await?;
        read_to = end;
    }
    let claims = world.claims();
    // Probes delete and purge what they published, and nothing else.
    let gone = probed.saturating_sub(reader.probes());
    let between = read_to.saturating_sub(target.last_sequence());
    let mut result = reader.finish(
        &claims,
        &shorts.expected(&claims),
        |publisher| shorts.has(publisher),
        allowances(settings),
        between.saturating_sub(gone),
    );
    if !target.created() {
        // somebody else may write to a stream that is not ours
        result.complete = result.foreign == 0;
    }
    Ok(result)
}

async fn last_sequence(target: &Target) -> Result<u64, LiveError> {
    let info = format!("STREAM.INFO.{}", target.stream());
    let connection = target.connection();
    let answer = connection
        .call("reading the stream", &info, &json!({}))
        .await?;
    Ok(answer["state"]["last_seq"].as_u64().unwrap_or(0))
}

fn take(
    message: &Stored,
    content: &PayloadContent,
    shorts: &Shorts,
    reader: &mut Reader,
    world: &LiveWorld<'_>,
) {
    if let Some(bucket) = shorts.bucket(&message.subject) {
        return reader.short(bucket);
    }
    let Some(identity) = content.read(&message.payload) else {
        return reader.foreign();
    };
    let found = reader.identified(identity, &world.claims());
    let Some(batch) = found else {
        return;
    };
    let bytes = u32::try_from(message.payload.len()).unwrap_or(u32::MAX);
    let event = Event::Stored {
        batch,
        bytes,
        digest: content.digest(identity, bytes),
        sequence: BatchSequence(u64::from(identity.sequence)),
        stream_sequence: StreamSequence(message.sequence),
    };
    world.tell(world.now(), event);
}

/// Publishers whose messages are too short to name themselves, by the subjects that they share.
struct Shorts {
    /// Subject to bucket.
    buckets: BTreeMap<String, u32>,
    /// Publisher to bucket.
    publishers: BTreeMap<u32, u32>,
}

impl Shorts {
    fn new(groups: &[Publishers]) -> Self {
        let mut shorts = Self {
            buckets: BTreeMap::new(),
            publishers: BTreeMap::new(),
        };
        let members = groups
            .iter()
            .flat_map(|group| std::iter::repeat_n(group, group.count as usize));
        let mut next = 0;
        for (publisher, group) in (0..).zip(members) {
            let smallest = match group.payload {
                PayloadSize::Fixed(bytes) => bytes.0,
                PayloadSize::Range(range) => range.min.0,
            };
            if smallest >= u64::from(IDENTIFIED_BYTES) {
                continue;
            }
            let names = group.subjects_of(publisher).names;
            let shared = names.iter().find_map(|name| shorts.buckets.get(name));
            let bucket = shared.copied().unwrap_or_else(|| {
                next += 1;
                next
            });
            for name in names {
                shorts.buckets.insert(name, bucket);
            }
            shorts.publishers.insert(publisher, bucket);
        }
        shorts
    }

    fn has(&self, publisher: PublisherId) -> bool {
        self.publishers.contains_key(&publisher.0)
    }

    fn bucket(&self, subject: &str) -> Option<u32> {
        self.buckets.get(subject).copied()
    }

    fn expected(&self, claims: &super::claims::Claims) -> BTreeMap<u32, u64> {
        let mut expected = BTreeMap::new();
        for (publisher, bucket) in &self.publishers {
            *expected.entry(*bucket).or_default() += claims.published_by(*publisher);
        }
        expected
    }
}

fn allowances(settings: &Settings) -> Allowances {
    let StreamSettings {
        discard,
        max_messages,
        max_bytes,
        max_messages_per_subject,
        ..
    } = &settings.stream;
    let limited = max_messages.is_some() || max_bytes.is_some();
    let drops = *discard == Discard::Old && (limited || max_messages_per_subject.is_some());
    let per_subject =
        max_messages_per_subject.is_some() && !settings.stream.discard_new_per_subject;
    let rules = || settings.publishers.iter().flat_map(|group| &group.headers);
    let removes = rules().any(|rule| [ROLLUP, TTL].contains(&rule.name.as_str()));
    Allowances {
        evicts: drops || per_subject || removes,
        deduplicates: rules().any(|rule| rule.name == MESSAGE_ID),
    }
}
