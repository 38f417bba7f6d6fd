//! Which keys of a group go with which client.
//!
//! Leans on the settings structs.

use serde::Deserialize as _;
use serde_json::Value;

use super::check::{Checked, refuse};
use super::path::KeyPath;
use super::{ClientKind, Commit, Publishers, Settings};

/// Keys about fast ingest.
const OF_FAST_INGEST: [&str; 7] = [
    "flow",
    "outstanding_acks",
    "gap",
    "gate",
    "profile",
    "idle_ping",
    "errors_count_as_acks",
];

/// Messages that the crate jetstream-extra puts into an atomic batch at the most.
const EXTRA_MESSAGES_MAX: u32 = 1_000;

/// Keys that may not even be written beside this client. A word that is no client is refused
/// elsewhere.
pub(super) fn check_keys(group: &Value, path: &KeyPath) -> Checked {
    let client = group.get("client").unwrap_or(&Value::Null);
    let client = ClientKind::deserialize(client).unwrap_or(ClientKind::Core);
    let written = |key: &&str| group.get(*key).is_some();
    let word = client.word();
    if !client.is_fast_ingest()
        && let Some(key) = OF_FAST_INGEST.iter().find(|key| written(key))
    {
        let message = format!(
            "is about fast ingest, and client = \"{word}\" does none; it goes with \"core\" and, \
             as far as that has it, \"jetstream-extra\""
        );
        return refuse(path.key(key), message);
    }
    if client != ClientKind::JetstreamAsync && written(&"in_flight") {
        let message = "goes with client = \"jetstream-async\" only";
        return refuse(path.key("in_flight"), message);
    }
    if !client.commits() && written(&"commit") {
        let message = format!(
            "says how a batch ends, and client = \"{word}\" sends none; it goes with \"core\", \
             \"jetstream-extra\", \"atomic\" and \"jetstream-extra-atomic\""
        );
        return refuse(path.key("commit"), message);
    }
    if client == ClientKind::Publish && written(&"ack_timeout") {
        let message = "client = \"publish\" waits for no ack";
        return refuse(path.key("ack_timeout"), message);
    }
    Ok(())
}

/// What the server would refuse each atomic batch for.
pub(super) fn check_atomic(group: &Publishers, settings: &Settings, path: &KeyPath) -> Checked {
    if !group.client.is_atomic() {
        return Ok(());
    }
    let word = group.client.word();
    if !settings.stream.allow_atomic {
        let message = format!("\"{word}\" needs stream.allow_atomic = true");
        return refuse(path.key("client"), message);
    }
    let server = settings.server.clone().unwrap_or_default();
    let (most, whose) = match group.client {
        ClientKind::JetstreamExtraAtomic if server.atomic_batch_messages > EXTRA_MESSAGES_MAX => {
            (EXTRA_MESSAGES_MAX, "crate puts")
        }
        _ => (server.atomic_batch_messages, "server takes"),
    };
    if group.messages > most {
        let message = format!(
            "{} is out of range for client = \"{word}\"; allowed are 1 to {most}, the most that the \
             {whose} into one batch",
            group.messages
        );
        return refuse(path.key("messages"), message);
    }
    if group.client == ClientKind::JetstreamExtraAtomic && group.commit == Commit::Eob {
        let message = format!(
            "\"eob\" is nothing that client = \"{word}\" can send; allowed are \"message\" and \"none\""
        );
        return refuse(path.key("commit"), message);
    }
    if group.client == ClientKind::JetstreamExtraAtomic && group.message_ids {
        let message = format!("client = \"{word}\" takes no message with an id into a batch");
        return refuse(path.key("message_ids"), message);
    }
    Ok(())
}
