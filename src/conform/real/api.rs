//! JetStream API calls to a real server, over a connection of their own.
//!
//! Leans on `connection`.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::connection::{Address, Connection};
use super::super::run::Stop;
use crate::nats::wire::{ClientFrame, Publish, Token};

/// Answers come there, apart from the inbox of any case.
const INBOX: &str = "_TIDEGATE_CONFORM";

/// Makes API calls, one after the other.
pub(super) struct ApiClient {
    connection: Connection,
    calls: u64,
}

impl ApiClient {
    /// Connects to a server with JetStream.
    pub(super) async fn connect(address: &Address) -> Result<Self, Stop> {
        let mut connection = Connection::open(address).await?;
        if connection.inbox.info.get("jetstream") != Some(&Value::Bool(true)) {
            let host = &address.host;
            return Err(Stop::Surroundings(format!("{host} has no JetStream")));
        }
        connection.subscribe(&format!("{INBOX}.>"), "1")?;
        connection.fence().await?;
        Ok(Self {
            connection,
            calls: 0,
        })
    }

    /// What the server said of itself.
    pub(super) const fn info(&self) -> &Value {
        &self.connection.inbox.info
    }

    /// Calls `$JS.API.<subject>` and waits for the answer.
    pub(super) async fn call(
        &mut self,
        subject: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<Value, Stop> {
        let broken = |what: &str| Stop::Surroundings(format!("$JS.API.{subject}: {what}"));
        let api_subject = Token::new(&format!("$JS.API.{subject}"));
        self.calls += 1;
        let inbox = format!("{INBOX}.{}", self.calls);
        let connection = &mut self.connection;
        connection.inbox.messages.clear();
        connection.send(&ClientFrame::Publish(Publish {
            subject: api_subject.ok_or_else(|| broken("not a subject"))?,
            reply: Token::new(&inbox),
            header: None,
            payload: Bytes::copy_from_slice(body),
        }));
        let answered = async {
            loop {
                let mut messages = connection.inbox.messages.iter();
                if let Some(answer) = messages.find(|answer| answer.subject.as_str() == inbox) {
                    return Ok(answer.payload.clone());
                }
                if connection.inbox.closed {
                    return Err(broken("the server closed the connection"));
                }
                connection.turn().await?;
            }
        };
        let answer = tokio::time::timeout(patience, answered)
            .await
            .map_err(|_| broken("no answer"))??;
        read_answer(&answer).map_err(|error| broken(&error))
    }
}

/// The JSON of an answer.
pub(in super::super) fn read_answer(payload: &[u8]) -> Result<Value, String> {
    if payload.is_empty() {
        // Status 503 without a body: nobody serves the API yet.
        return Ok(json!({ "error": { "code": 503, "description": "no responders" } }));
    }
    serde_json::from_slice(payload).map_err(|error| error.to_string())
}
