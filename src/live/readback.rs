//! Reads the streams back after a run and hands each message to the comparison.
//!
//! Everything from the last sequence before the run to the end is read; no more than a few thousand
//! messages are held at a time. Leans on `reading`, `verify`, `target` and the payloads of `load`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::error::LiveError;
use super::fleet::LiveWorld;
use super::reading::{Reading, Stored};
use super::target::{Target, TargetStream};
use super::verify::{Allowances, ReadBack, Reader};
use crate::client::Witness;
use crate::event::{Event, PublisherId};
use crate::load::{IDENTIFIED_BYTES, PayloadContent};
use crate::nats::header::{MESSAGE_ID, ROLLUP, TTL};
use crate::nats::{BatchSequence, StreamSequence};
use crate::scenario::{Discard, Publishers, Settings, StreamSettings};

/// Messages that are still on their way when publishers give up may come later: the ends of the streams are
/// looked at again until they stay where they are for so long, and at most so often.
const STABLE: Duration = Duration::from_millis(300);
const ROUNDS: u32 = 20;

/// Reads back what the run left in the streams of `target`, and tells each message as an event of
/// the moment it is read. Probes had `probed` messages stored, which are passed over.
///
/// # Errors
/// A stream cannot be read.
pub(super) async fn read_back(
    target: &Target,
    settings: &Settings,
    content: &PayloadContent,
    (world, probed): (&LiveWorld<'_>, u64),
) -> Result<ReadBack, LiveError> {
    let shorts = Shorts::new(&settings.publishers, settings.stream.count);
    let mut reader = Reader::default();
    let streams = target.streams().iter();
    let mut ends: Vec<_> = streams.map(|stream| End::new(target, stream)).collect();
    let mut take = |message: &Stored| match settings.is_of_probe(&message.subject) {
        true => reader.of_probe(),
        false => take(message, content, &shorts, &mut reader, world),
    };
    let is_stable = read_to_the_end(&mut ends, &mut take).await?;
    let between: u64 = ends.iter().map(End::between).sum();
    let claims = world.claims();
    // Probes delete and purge what they published, and nothing else.
    let gone = probed.saturating_sub(reader.probes());
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
    result.complete &= is_stable;
    Ok(result)
}

/// Reads what came into the streams since the run began, until nothing more comes; whether that is so.
async fn read_to_the_end(
    ends: &mut [End<'_>],
    take: &mut impl FnMut(&Stored),
) -> Result<bool, LiveError> {
    for _ in 0..ROUNDS {
        let mut has_more = false;
        for end in &mut *ends {
            has_more |= end.read_on(take).await?;
        }
        if !has_more {
            return Ok(true);
        }
        tokio::time::sleep(STABLE).await;
    }
    Ok(false)
}

/// How far one stream was read.
struct End<'a> {
    target: &'a Target,
    stream: &'a TargetStream,
    reading: Reading<'a>,
    read_to: u64,
}

impl<'a> End<'a> {
    const fn new(target: &'a Target, stream: &'a TargetStream) -> Self {
        Self {
            target,
            stream,
            reading: Reading::new(target, stream.name.as_str()),
            read_to: stream.last_sequence,
        }
    }

    /// Reads on to where the stream ends now; whether there was more.
    async fn read_on(&mut self, take: &mut impl FnMut(&Stored)) -> Result<bool, LiveError> {
        let end = last_sequence(self.target, &self.stream.name).await?;
        if end <= self.read_to {
            return Ok(false);
        }
        self.reading.range(self.read_to + 1, end, take).await?;
        self.read_to = end;
        Ok(true)
    }

    /// Sequences since the run began.
    const fn between(&self) -> u64 {
        self.read_to.saturating_sub(self.stream.last_sequence)
    }
}

async fn last_sequence(target: &Target, stream: &str) -> Result<u64, LiveError> {
    let info = format!("STREAM.INFO.{stream}");
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
    fn new(groups: &[Publishers], streams: u32) -> Self {
        let mut shorts = Self {
            buckets: BTreeMap::new(),
            publishers: BTreeMap::new(),
        };
        let members = groups
            .iter()
            .flat_map(|group| std::iter::repeat_n(group, group.count as usize));
        let mut next = 0;
        for (publisher, group) in (0..).zip(members) {
            if group.payload.smallest().0 >= u64::from(IDENTIFIED_BYTES) {
                continue;
            }
            let names = group.subjects_of(publisher, streams).names;
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
