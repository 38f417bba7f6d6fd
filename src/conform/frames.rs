//! From cases to frames, and from frames to the words of vector files.
//!
//! Leans on `connection` and `observe`.

use bytes::Bytes;
use serde_json::Value;

use super::super::connection::Connection;
use super::super::observe;
use super::super::run::Seen;
use super::super::vector::{Case, INBOX, Outgoing, StepKind};
use super::ADVISORY_SUBSCRIPTION;
use crate::nats::header::Headers;
use crate::nats::wire::{Message, Publish, Token};

/// Reply subjects of the case that the inbox subscription does not see.
pub(super) fn outside_inbox(case: &Case) -> Vec<String> {
    let mut subjects = std::collections::BTreeSet::new();
    for step in &case.steps {
        let StepKind::Publish(messages) = &step.kind else {
            continue;
        };
        let replies = messages.iter().filter_map(|message| message.reply.as_ref());
        let outside = replies.map(Token::as_str).filter(|reply| {
            let is_subject = reply.split('.').all(|token| !token.is_empty());
            is_subject && !reply.starts_with(INBOX) && !reply.contains(['*', '>'])
        });
        subjects.extend(outside.map(str::to_owned));
    }
    subjects.into_iter().collect()
}

pub(super) fn publish(message: &Outgoing) -> Publish {
    let header = message.headers.as_ref().map(|lines| {
        let mut block = Vec::new();
        Headers::new(lines.clone()).write_to(&mut block);
        Bytes::from(block)
    });
    Publish {
        subject: message.subject.clone(),
        reply: message.reply.clone(),
        header,
        payload: Bytes::from(vec![message.filler; message.payload_bytes]),
    }
}

fn is_advisory(message: &Message) -> bool {
    message.subscription.as_str() == ADVISORY_SUBSCRIPTION
}

pub(super) fn count_advisories(messages: &[Message]) -> usize {
    messages
        .iter()
        .filter(|message| is_advisory(message))
        .count()
}

/// Takes what came, in the words of vector files.
pub(super) fn seen(connection: &mut Connection) -> Seen {
    let (advisories, replies): (Vec<Message>, Vec<Message>) =
        connection.messages.drain(..).partition(is_advisory);
    let reply = |message: &Message| {
        let header = message.header.as_deref();
        observe::reply(message.subject.as_str(), header, &message.payload)
    };
    let mut replies: Vec<Value> = replies.iter().map(reply).collect();
    if connection.closed || !connection.errors.is_empty() {
        replies.push(observe::protocol_error(
            &connection.errors,
            connection.closed,
        ));
        connection.errors.clear();
    }
    Seen {
        replies,
        advisories: advisories
            .iter()
            .map(|message| observe::advisory(&message.payload))
            .collect(),
    }
}
