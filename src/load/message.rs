//! Messages as clients take them: subject, headers and payload of what a plan wants published.
//!
//! Payloads are cut from buffers that are used again once their payloads are gone, so that a message
//! costs no allocation of its own. Leans on `payload`, `plan` and `client`.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use async_nats::header::HeaderMap;
use async_nats::{HeaderName, HeaderValue, Subject};
use bytes::{Bytes, BytesMut};

use super::{Identity, PayloadContent, Planned};
use crate::client::Message;
use crate::nats::header::MESSAGE_ID;
use crate::scenario::{Publishers, Settings};

/// Payloads are cut from buffers, or from one for each where they are larger. Those of all publishers
/// together have so many bytes, and each is of a size within [`BUFFER_BYTES`]: small enough that the
/// buffers under way stay in the cache of the core.
const BUFFERS_BYTES: usize = 1 << 20;
/// Smallest and largest buffer.
const BUFFER_BYTES: RangeInclusive<usize> = 1 << 10..=16 << 10;
/// Buffers that are kept for use again have so many bytes in those of all publishers together: a fleet of a
/// thousand would else hold what each of them once had under way.
const BYTES_KEPT: usize = 8 << 20;
/// So many buffers of a publisher are kept, whatever their size: the last has payloads under way while one
/// before it is filled; and the most is more than the widest window of small messages fills.
const BUFFERS_KEPT: RangeInclusive<usize> = 2..=64;

/// What the messages of all publishers of a run have in common.
#[derive(Clone)]
pub struct MessagesOfRun {
    /// Distinguishes the message ids of this run from those of any other on the same stream.
    run: u64,
    content: PayloadContent,
    streams: u32,
    buffer_bytes: usize,
    /// Of one publisher.
    bytes_kept: usize,
}

impl MessagesOfRun {
    /// For a run of this file that is called `run`.
    pub fn new(settings: &Settings, run: u64) -> Self {
        let publishers = usize::try_from(settings.publisher_count()).unwrap_or(usize::MAX);
        let publishers = publishers.max(1);
        let (least, most) = BUFFER_BYTES.into_inner();
        Self {
            run,
            content: PayloadContent::new(run),
            streams: settings.stream.count,
            buffer_bytes: (BUFFERS_BYTES / publishers).clamp(least, most),
            bytes_kept: BYTES_KEPT / publishers,
        }
    }
}

/// Makes the messages of one publisher.
pub struct MessageMaker {
    publisher: u32,
    common: MessagesOfRun,
    subjects: Vec<Subject>,
    message_ids: bool,
    headers: Vec<HeaderLine>,
    buffer: BytesMut,
    /// Buffers that are used up, oldest first.
    spent: VecDeque<BytesMut>,
}

struct HeaderLine {
    from: u64,
    to: u64,
    name: HeaderName,
    value: HeaderValue,
}

impl MessageMaker {
    /// A maker for publisher number `publisher`.
    ///
    /// # Errors
    /// A header rule of the group has a name or value that no header can have: a sentence that says
    /// which.
    pub fn new(group: &Publishers, publisher: u32, common: MessagesOfRun) -> Result<Self, String> {
        let headers = group
            .headers
            .iter()
            .map(|rule| {
                Ok(HeaderLine {
                    from: u64::from(rule.from),
                    to: u64::from(rule.to),
                    name: rule
                        .name
                        .parse()
                        .map_err(|_| format!("`{}` cannot name a header", rule.name))?,
                    value: rule.value.parse().map_err(|_| {
                        format!("the value of header `{}` cannot be sent", rule.name)
                    })?,
                })
            })
            .collect::<Result<_, String>>()?;
        // names live as long as the process: cloning a static subject counts no references
        let names = group
            .subjects_of(publisher, common.streams)
            .names
            .into_iter();
        let subjects = names.map(|name| Subject::from_static(Box::leak(name.into_boxed_str())));
        Ok(Self {
            publisher,
            common,
            subjects: subjects.collect(),
            message_ids: group.message_ids,
            headers,
            buffer: BytesMut::new(),
            spent: VecDeque::new(),
        })
    }

    /// The message that `planned` stands for.
    pub fn make(&mut self, planned: &Planned) -> Message {
        Message {
            subject: self.subjects[planned.subject as usize].clone(),
            payload: self.payload(planned),
            headers: self.headers(planned),
        }
    }

    fn payload(&mut self, planned: &Planned) -> Bytes {
        let bytes = planned.bytes as usize;
        if self.buffer.capacity() < bytes {
            self.next_buffer(bytes.max(self.common.buffer_bytes));
        }
        let identity = Identity {
            publisher: self.publisher,
            batch: planned.batch,
            sequence: u32::try_from(planned.sequence.0).unwrap_or(u32::MAX),
        };
        let content = &self.common.content;
        content.append(identity, bytes, &mut self.buffer);
        self.buffer.split().freeze()
    }

    /// Takes the oldest used buffer if all its payloads are gone, or a new one.
    fn next_buffer(&mut self, bytes: usize) {
        let oldest = self.spent.pop_front();
        let used_up = std::mem::take(&mut self.buffer);
        let (fewest, most) = BUFFERS_KEPT.into_inner();
        let kept = (self.common.bytes_kept / bytes.max(1)).clamp(fewest, most);
        // one too many is gone with its last payload
        if self.spent.len() < kept {
            self.spent.push_back(used_up);
        }
        if let Some(mut oldest) = oldest {
            if oldest.try_reclaim(bytes) {
                self.buffer = oldest;
                return;
            }
            self.spent.push_back(oldest);
        }
        self.buffer = BytesMut::with_capacity(bytes);
    }

    fn headers(&self, planned: &Planned) -> Option<HeaderMap> {
        if self.headers.is_empty() && !self.message_ids {
            return None;
        }
        let sequence = planned.sequence.0;
        let mut map = None;
        if self.message_ids {
            let map = map.get_or_insert_with(HeaderMap::new);
            let (run, publisher) = (self.common.run, self.publisher);
            let id = format!("{run:016x}-{publisher}-{}-{sequence}", planned.batch);
            map.insert(MESSAGE_ID, id);
        }
        let lines = self.headers.iter();
        for line in lines.filter(|line| (line.from..=line.to).contains(&sequence)) {
            map.get_or_insert_with(HeaderMap::new)
                .append(line.name.clone(), line.value.clone());
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::nats::BatchSequence;
    use crate::scenario::HeaderRule;
    use std::collections::BTreeSet;

    fn planned(sequence: u64, bytes: u32) -> Planned {
        Planned {
            batch: 2,
            sequence: BatchSequence(sequence),
            bytes,
            subject: 0,
            last: false,
            intended: Time::ZERO,
        }
    }

    fn maker(group: &Publishers) -> MessageMaker {
        MessageMaker::new(group, 4, common()).unwrap()
    }

    fn common() -> MessagesOfRun {
        MessagesOfRun {
            run: 9,
            content: PayloadContent::new(9),
            streams: 1,
            buffer_bytes: *BUFFER_BYTES.end(),
            bytes_kept: BYTES_KEPT,
        }
    }

    #[test]
    fn payloads_name_their_message_and_do_not_share_bytes() {
        let mut maker = maker(&Publishers::default());
        let sizes = [16, 100, 0, 65_536, 70_000, 65_530, 20];
        let messages: Vec<_> = (1..)
            .zip(sizes)
            .map(|(sequence, bytes)| maker.make(&planned(sequence, bytes)))
            .collect();
        for ((sequence, bytes), message) in (1..).zip(sizes).zip(messages) {
            assert_eq!(message.payload.len(), bytes as usize);
            let expected = (bytes >= 16).then_some(Identity {
                publisher: 4,
                batch: 2,
                sequence,
            });
            assert_eq!(PayloadContent::new(9).read(&message.payload), expected);
        }
    }

    #[test]
    fn buffers_are_used_again_when_their_payloads_are_gone() {
        let mut maker = maker(&Publishers::default());
        let mut make = |count: u64| -> Vec<_> {
            let messages = 1..=count;
            messages
                .map(|sequence| maker.make(&planned(sequence, 1_000)).payload)
                .collect()
        };
        let places = |payloads: &[Bytes]| -> BTreeSet<_> {
            payloads.iter().map(|payload| payload.as_ptr()).collect()
        };
        let held = make(100);
        let first = places(&held);
        assert_eq!(
            first.len(),
            100,
            "payloads under way have bytes of their own"
        );
        drop(held);
        let later = make(100);
        assert!(places(&later).intersection(&first).count() > 50);
        for (sequence, payload) in (1..).zip(&later) {
            let identity = PayloadContent::new(9).read(payload);
            assert_eq!(identity.map(|identity| identity.sequence), Some(sequence));
        }
    }

    #[test]
    fn a_publisher_of_many_keeps_few_bytes() {
        let common = MessagesOfRun {
            buffer_bytes: *BUFFER_BYTES.start(),
            bytes_kept: 8 << 10,
            ..common()
        };
        let mut maker = MessageMaker::new(&Publishers::default(), 4, common).unwrap();
        for bytes in [1_000, 4_000, 100_000] {
            let make = |sequence| maker.make(&planned(sequence, bytes)).payload;
            drop((1..100).map(make).collect::<Vec<_>>());
            // and the one in work
            maker.make(&planned(100, bytes));
            let kept = maker.spent.len();
            assert!(
                (2..=8).contains(&kept),
                "{kept} buffers for messages of {bytes} B"
            );
        }
    }

    #[test]
    fn subjects_and_headers_follow_the_rules() {
        let rule = |from, to, value: &str| HeaderRule {
            from,
            to,
            name: "X-Test".to_owned(),
            value: value.to_owned(),
        };
        let group = Publishers {
            subjects: 2,
            message_ids: true,
            headers: vec![rule(2, 3, "a"), rule(3, 9, "b")],
            ..Publishers::default()
        };
        let mut maker = maker(&group);
        let values = |message: &Message| {
            let headers = message.headers.as_ref().unwrap();
            headers
                .get_all("X-Test")
                .map(|value| value.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        let first = maker.make(&Planned {
            subject: 1,
            ..planned(1, 16)
        });
        let third = maker.make(&planned(3, 16));
        assert_eq!(first.subject.as_str(), "tidegate.4.1");
        assert!(values(&first).is_empty());
        assert_eq!(values(&third), ["a", "b"]);
        let id = |message: &Message| {
            let headers = message.headers.as_ref().unwrap();
            headers.get(MESSAGE_ID).unwrap().as_str().to_owned()
        };
        assert_eq!(id(&first), "0000000000000009-4-2-1");
        assert_ne!(id(&first), id(&third));
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused() {
        let group = Publishers {
            headers: vec![HeaderRule {
                from: 1,
                to: 1,
                name: "bad name\n".to_owned(),
                value: String::new(),
            }],
            ..Publishers::default()
        };
        let refused = MessageMaker::new(&group, 0, common());
        assert!(refused.err().unwrap().contains("cannot name a header"));
    }
}
