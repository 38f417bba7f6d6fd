//! Core NATS of the crate async-nats: messages without a reply subject, so that nobody answers any.
//!
//! What slows it down is its connection alone. The stream may lose its messages unheard, most of all
//! when they come faster than it stores them; only what is read back says what it has. Leans on
//! `client`.

use async_nats::Client;
use async_nats::client::traits::Publisher as _;
use async_nats::message::OutboundMessage;

use super::{BatchClient, BatchEnd, BatchSettings, Message, Next, Source, Teller, Turn, Witness};
use crate::event::Outcome;
use crate::machine::Time;
use crate::nats::{BatchSequence, Operation};

/// Messages that are counted together, without an answer to any.
pub struct PublishClient<'w, W> {
    connection: Client,
    teller: Teller<'w, W>,
    sent: BatchSequence,
}

impl<'w, W: Witness> PublishClient<'w, W> {
    /// One that has sent nothing.
    pub fn new(connection: &Client, settings: &BatchSettings, world: &'w W) -> Self {
        Self {
            connection: connection.clone(),
            teller: Teller::new(world, settings.batch),
            sent: BatchSequence(0),
        }
    }

    async fn send(&mut self, message: Message, intended: Time) -> Result<(), BatchEnd> {
        let sequence = self.sent.next();
        let bytes = message.payload.len();
        let outbound = OutboundMessage {
            subject: message.subject,
            reply: None,
            payload: message.payload,
            headers: message.headers,
        };
        let taken = self.connection.publish_message(outbound).await;
        let at = self.teller.now_roughly();
        if let Err(error) = taken {
            return Err(self.failed(&error.to_string()));
        }
        let operation = Operation::Append;
        self.teller
            .published(at, operation, sequence, bytes, intended);
        self.sent = sequence;
        Ok(())
    }

    /// All that was sent is on its way; nobody says that it arrives.
    async fn leave(&self) -> BatchEnd {
        match self.connection.flush().await {
            Ok(()) => {
                let at = self.teller.now();
                self.teller.ended(at, Outcome::Abandoned, 0, String::new())
            }
            Err(error) => self.failed(&error.to_string()),
        }
    }

    fn failed(&self, reason: &str) -> BatchEnd {
        let at = self.teller.now();
        self.teller
            .ended(at, Outcome::ClientError, 0, reason.to_owned())
    }
}

impl<W: Witness> BatchClient for PublishClient<'_, W> {
    async fn publish(mut self, source: &mut impl Source) -> BatchEnd {
        let mut turn = Turn::new();
        let mut now = self.teller.now();
        loop {
            match source.next(now, BatchSequence(0)) {
                Next::Offer(message, intended) | Next::Commit(message, intended) => {
                    if let Err(end) = self.send(message, intended).await {
                        return end;
                    }
                }
                Next::CommitEob | Next::Abandon => return self.leave().await,
                Next::Wait(until) => source.until(until).await,
            }
            if turn.is_over() {
                tokio::task::yield_now().await;
            }
            now = self.teller.now_roughly();
        }
    }
}
