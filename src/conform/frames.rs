//! From cases to frames, and from frames to the words of vector files.
//!
//! Leans on `inbox` and `observe`.

use bytes::Bytes;
use serde_json::Value;

use super::inbox::Inbox;
use super::observe;
use super::run::{Seen, Stop};
use super::vector::{Case, INBOX, Outgoing, StepKind};
use crate::nats::header::Headers;
use crate::nats::wire::{Message, Publish, Token};

/// Where the server tells of abandoned atomic batches.
const ADVISORY_SUBJECTS: &str = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>";
/// Id of the subscription to them.
const ADVISORY_SUBSCRIPTION: &str = "2";

/// What the client of a case subscribes to: filter and subscription id.
pub(super) fn subscriptions(case: &Case) -> Vec<(String, String)> {
    let mut all = vec![
        (format!("{INBOX}>"), "1".to_owned()),
        (
            ADVISORY_SUBJECTS.to_owned(),
            ADVISORY_SUBSCRIPTION.to_owned(),
        ),
    ];
    let outside = outside_inbox(case).into_iter();
    all.extend(
        outside
            .zip(3..)
            .map(|(subject, id)| (subject, id.to_string())),
    );
    all
}

/// Reply subjects of the case that the inbox subscription does not see.
fn outside_inbox(case: &Case) -> Vec<String> {
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

/// A direct get, to be answered on the inbox.
pub(super) fn direct_get(subject: &str, body: &[u8]) -> Result<Publish, Stop> {
    let invalid = || Stop::Surroundings(format!("`{subject}` is no subject"));
    Ok(Publish {
        subject: Token::new(subject).ok_or_else(invalid)?,
        reply: Token::new(&format!("{INBOX}dg")),
        header: None,
        payload: Bytes::copy_from_slice(body),
    })
}

/// The body of an API call as it is sent.
pub(super) fn body_text(body: &Value) -> String {
    match body {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        body => body.to_string(),
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
pub(super) fn seen(inbox: &mut Inbox) -> Seen {
    let (advisories, replies): (Vec<Message>, Vec<Message>) =
        inbox.messages.drain(..).partition(is_advisory);
    let reply = |message: &Message| {
        let header = message.header.as_deref();
        observe::reply(message.subject.as_str(), header, &message.payload)
    };
    let mut replies: Vec<Value> = replies.iter().map(reply).collect();
    if inbox.closed || !inbox.errors.is_empty() {
        replies.push(observe::protocol_error(&inbox.errors, inbox.closed));
        inbox.errors.clear();
    }
    Seen {
        replies,
        advisories: advisories
            .iter()
            .map(|message| observe::advisory(&message.payload))
            .collect(),
    }
}
