//! The messages of a stream in their order, by whichever way the server has to read them.
//!
//! An ordered consumer, unless the server refuses consumers; then batched direct gets, where the
//! stream allows them; else one call of the API for each message. Leans on `target`, async-nats and
//! jetstream-extra.

use std::fmt::Display;
use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{ConsumerErrorKind, RawMessageErrorKind};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use jetstream_extra::batch_fetch::{BatchFetchErrorKind, BatchFetchExt as _};
use serde_json::json;

use super::error::{LiveError, clean};
use super::target::Target;

/// In words, for errors.
const CALL: &str = "reading the stream back";
/// Longest wait for the next message.
const PATIENCE: Duration = Duration::from_secs(15);
/// Messages without a turn for others.
const MESSAGES_PER_TURN: u32 = 256;
/// Messages asked for by one direct get.
const MESSAGES_PER_GET: usize = 1_000;
/// Bytes after which a direct get ends early: what is under way stays small.
const BYTES_PER_GET: usize = 4 << 20;
/// API calls that are under way at a time.
const CALLS_AT_A_TIME: usize = 64;

/// A message of the stream.
pub(super) struct Stored {
    /// Its stream sequence.
    pub(super) sequence: u64,
    /// Its subject.
    pub(super) subject: Subject,
    /// Its payload.
    pub(super) payload: Bytes,
}

/// How messages are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By an ordered consumer.
    Consumer,
    /// By batched direct gets.
    Direct,
    /// By one API call for each message.
    Calls,
}

/// Reads ranges of one stream.
pub(super) struct Reading<'a> {
    target: &'a Target,
    stream: &'a str,
    way: Way,
    turn: u32,
}

impl<'a> Reading<'a> {
    /// A reading of `stream` at the servers of `target`.
    pub(super) const fn new(target: &'a Target, stream: &'a str) -> Self {
        Self {
            target,
            stream,
            way: Way::Consumer,
            turn: 0,
        }
    }

    /// Hands the messages from sequence `from` to `to` that are there to `take`, in their order.
    ///
    /// # Errors
    /// The server gives no more of them, or none in time.
    pub(super) async fn range(
        &mut self,
        from: u64,
        to: u64,
        take: &mut impl FnMut(&Stored),
    ) -> Result<(), LiveError> {
        let mut next = from;
        if self.way == Way::Consumer {
            if let Some(consumer) = self.consumer(from).await? {
                return self.by_consumer(consumer, to, take).await;
            }
            self.way = Way::Direct;
        }
        let info = format!("STREAM.INFO.{}", self.stream);
        let connection = self.target.connection();
        let info = connection.call(CALL, &info, &json!({})).await?;
        // Before the first message there may be a long nothing.
        next = next.max(info["state"]["first_seq"].as_u64().unwrap_or(0));
        if info["config"]["allow_direct"] != true {
            self.way = Way::Calls;
        }
        if self.way == Way::Direct {
            next = self.by_direct_gets(next, to, take).await;
        }
        self.by_calls(next, to, take).await
    }

    /// A consumer of what follows from `from`; `None` if the server refuses to make one.
    async fn consumer(&self, from: u64) -> Result<Option<Consumer<OrderedConfig>>, LiveError> {
        let jetstream = &self.target.connection().jetstream;
        let created = jetstream
            .create_consumer_on_stream(
                OrderedConfig {
                    deliver_policy: DeliverPolicy::ByStartSequence {
                        start_sequence: from,
                    },
                    ..OrderedConfig::default()
                },
                self.stream,
            )
            .await;
        match created {
            Ok(consumer) => Ok(Some(consumer)),
            Err(error) => match error.kind() {
                ConsumerErrorKind::JetStream(_) => Ok(None),
                _ => Err(failed(&error)),
            },
        }
    }

    async fn by_consumer(
        &mut self,
        consumer: Consumer<OrderedConfig>,
        to: u64,
        take: &mut impl FnMut(&Stored),
    ) -> Result<(), LiveError> {
        if consumer.cached_info().num_pending == 0 {
            return Ok(());
        }
        let mut messages: Ordered = consumer.messages().await.map_err(|error| failed(&error))?;
        loop {
            let next = tokio::time::timeout(PATIENCE, messages.next());
            let message = match next.await {
                Ok(Some(message)) => message.map_err(|error| failed(&error))?,
                Ok(None) => return Err(failed(&"the consumer ended early")),
                Err(_) => return Err(self.no_answer()),
            };
            let info = message.info().map_err(|error| failed(&error))?;
            let (sequence, pending) = (info.stream_sequence, info.pending);
            if sequence <= to {
                take(&Stored {
                    sequence,
                    subject: message.subject.clone(),
                    payload: message.payload.clone(),
                });
            }
            if sequence >= to || pending == 0 {
                return Ok(());
            }
            self.pause().await;
        }
    }

    /// As far as direct gets lead; gives the sequence to go on from. Why they lead no further is
    /// for an API call to say: it has the better words.
    async fn by_direct_gets(&mut self, from: u64, to: u64, take: &mut impl FnMut(&Stored)) -> u64 {
        let jetstream = &self.target.connection().jetstream;
        let mut next = from;
        while next <= to {
            let get = jetstream
                .get_batch(self.stream, MESSAGES_PER_GET)
                .sequence(next)
                .max_bytes(BYTES_PER_GET);
            let Ok(mut messages) = get.send().await else {
                return next;
            };
            let before = next;
            while let Some(message) = messages.next().await {
                let message = match message {
                    Ok(message) => message,
                    // Nothing from there on to the end of the stream.
                    Err(error) if error.kind() == BatchFetchErrorKind::NoMessages => return to + 1,
                    Err(_) => return next,
                };
                next = message.sequence + 1;
                if message.sequence > to {
                    return next;
                }
                take(&message.into());
                self.pause().await;
            }
            if next == before {
                return next;
            }
        }
        next
    }

    async fn by_calls(
        &mut self,
        from: u64,
        to: u64,
        take: &mut impl FnMut(&Stored),
    ) -> Result<(), LiveError> {
        let jetstream = &self.target.connection().jetstream;
        let log = jetstream.get_stream_no_info(self.stream).await;
        let log = log.map_err(|error| failed(&error))?;
        let get = async |sequence| (sequence, log.get_raw_message(sequence).await);
        let mut answers = stream::iter(from..=to).map(get).buffered(CALLS_AT_A_TIME);
        while let Some((sequence, answer)) = answers.next().await {
            match answer {
                Ok(message) => take(&message.into()),
                Err(error) => match error.kind() {
                    RawMessageErrorKind::NoMessageFound => {}
                    // Asked again for the server's own words.
                    RawMessageErrorKind::JetStream(_) => {
                        let get = format!("STREAM.MSG.GET.{}", self.stream);
                        let sequence = json!({ "seq": sequence });
                        let again = self.target.connection().call(CALL, &get, &sequence).await;
                        return Err(again.err().unwrap_or_else(|| failed(&error)));
                    }
                    RawMessageErrorKind::InvalidSubject | RawMessageErrorKind::Other => {
                        return Err(failed(&error));
                    }
                },
            }
            self.pause().await;
        }
        Ok(())
    }

    /// Gives others a turn now and then.
    async fn pause(&mut self) {
        self.turn += 1;
        if self.turn == MESSAGES_PER_TURN {
            self.turn = 0;
            tokio::task::yield_now().await;
        }
    }

    fn no_answer(&self) -> LiveError {
        LiveError::NoAnswer {
            server: self.target.connector().shown().to_owned(),
            call: CALL,
            seconds: PATIENCE.as_secs(),
        }
    }
}

impl From<StreamMessage> for Stored {
    fn from(message: StreamMessage) -> Self {
        Self {
            sequence: message.sequence,
            subject: message.subject,
            payload: message.payload,
        }
    }
}

fn failed(reason: &dyn Display) -> LiveError {
    let text = reason.to_string();
    let (words, code) = words_and_code(&text);
    LiveError::Api {
        call: CALL,
        code,
        description: clean(words),
    }
}

/// An error of the server as async-nats prints it, ending in `(code 500, error code 10012)`; of
/// anything else the code is 0.
fn words_and_code(text: &str) -> (&str, u64) {
    let split = || {
        let (words, codes) = text.strip_suffix(')')?.rsplit_once(" (code ")?;
        let (_, code) = codes.split_once(", error code ")?;
        Some((words, code.parse().ok()?))
    };
    split().unwrap_or((text, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_server_is_told_once() {
        let told = failed(&"no consumer (code 500, error code 10012)").to_string();
        assert_eq!(
            told,
            "reading the stream back failed: no consumer (error 10012)"
        );
        let other = failed(&"timed out (after a while)").to_string();
        assert_eq!(
            other,
            "reading the stream back failed: timed out (after a while)"
        );
    }
}
