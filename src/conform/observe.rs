//! What arrives, in the words of vector files: replies, advisories, and lines of the protocol.
//!
//! Leans on `vector`. What differs from run to run is taken out or marked here, once for comparing
//! and for recording.

use serde_json::{Map, Value, json};

use super::vector::{INBOX, VOLATILE};
use crate::nats::header::HeaderBlock;

/// Fields of a body that say where the server runs.
const SURROUNDINGS: &[&str] = &["client", "cluster", "domain", "server"];
/// Fields of an advisory that differ from run to run.
const ADVISORY_VOLATILE: &[&str] = &["id", "timestamp"];
/// Headers of a reply that differ from run to run.
const HEADER_VOLATILE: &[&str] = &["Nats-Time-Stamp"];
/// Longer payloads are recorded by their length alone.
const PAYLOAD_SHOWN_MAX: usize = 40;

/// A reply as an `expect` lists it.
pub(super) fn reply(subject: &str, header: Option<&[u8]>, payload: &[u8]) -> Value {
    let mut entry = Map::new();
    let inside = subject.strip_prefix(INBOX);
    entry.insert("to".into(), json!(inside.unwrap_or(subject)));
    if let Some(header) = header {
        put_header(&mut entry, header);
    }
    let object = || serde_json::from_slice::<Map<String, Value>>(payload).ok();
    if payload.is_empty() {
        entry.insert("empty".into(), Value::Bool(true));
    } else if let Some(mut body) = object() {
        if inside.is_some() {
            SURROUNDINGS.iter().for_each(|key| {
                body.remove(*key);
            });
            entry.insert("body".into(), Value::Object(body));
        } else {
            entry.insert("body_raw".into(), json!(String::from_utf8_lossy(payload)));
        }
    } else {
        let shown = payload.len() <= PAYLOAD_SHOWN_MAX;
        let text = shown.then(|| String::from_utf8_lossy(payload));
        entry.insert("payload".into(), json!(text));
        entry.insert("payload_len".into(), json!(payload.len()));
    }
    Value::Object(entry)
}

/// The body of an advisory.
pub(super) fn advisory(payload: &[u8]) -> Value {
    match serde_json::from_slice::<Map<String, Value>>(payload) {
        Ok(mut body) => {
            SURROUNDINGS.iter().for_each(|key| {
                body.remove(*key);
            });
            for key in ADVISORY_VOLATILE {
                if let Some(value) = body.get_mut(*key) {
                    *value = json!(VOLATILE);
                }
            }
            Value::Object(body)
        }
        Err(_) => json!(String::from_utf8_lossy(payload)),
    }
}

/// The entry of a connection on which the server complained, or which it closed.
pub(super) fn protocol_error(lines: &[String], closed: bool) -> Value {
    let connection = if closed {
        "closed by the server"
    } else {
        "open"
    };
    json!({ "protocol_error": lines, "connection": connection })
}

/// A stored message as `stored` lists it.
pub(super) fn stored_message(
    sequence: u64,
    subject: &str,
    header: &[u8],
    payload_bytes: usize,
) -> Value {
    let mut entry = Map::new();
    entry.insert("seq".into(), json!(sequence));
    entry.insert("subject".into(), json!(subject));
    entry.insert("len".into(), json!(payload_bytes));
    if !header.is_empty() {
        match HeaderBlock::parse(header) {
            Ok(block) if block.headers.is_empty() => {}
            Ok(block) => {
                entry.insert("headers".into(), json!(block.headers.lines()));
            }
            Err(error) => {
                entry.insert("header_error".into(), json!(error.to_string()));
            }
        }
    }
    Value::Object(entry)
}

/// A block that breaks the form is told as such: no recording has that key.
fn put_header(entry: &mut Map<String, Value>, header: &[u8]) {
    let block = match HeaderBlock::parse(header) {
        Ok(block) => block,
        Err(error) => {
            entry.insert("header_error".into(), json!(error.to_string()));
            return;
        }
    };
    if let Some(status) = block.status {
        let description = (!status.description.is_empty()).then_some(status.description);
        entry.insert("status".into(), json!(status.code));
        entry.insert("desc".into(), json!(description));
    }
    if !block.headers.is_empty() {
        let lines = block.headers.lines().iter().map(|(name, value)| {
            if HEADER_VOLATILE.contains(&name.as_str()) {
                json!([name, VOLATILE])
            } else {
                json!([name, value])
            }
        });
        entry.insert("headers".into(), lines.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_loses_its_surroundings() {
        let payload = br#"{"stream":"S","domain":"D","seq":1}"#;
        let expected = json!({ "to": "A.1", "body": { "stream": "S", "seq": 1 } });
        assert_eq!(reply("_INBOX.A.1", None, payload), expected);
    }

    #[test]
    fn a_status_keeps_its_text_and_headers() {
        let header = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 2\r\nEmpty:\r\n\r\n";
        let expected = json!({
            "to": "dg", "status": 204, "desc": "EOB", "empty": true,
            "headers": [["Nats-Num-Pending", "2"], ["Empty", ""]],
        });
        assert_eq!(reply("_INBOX.dg", Some(header), b""), expected);
        let expected = json!({ "to": "r", "status": 503, "desc": null, "empty": true });
        assert_eq!(
            reply("_INBOX.r", Some(b"NATS/1.0 503\r\n\r\n"), b""),
            expected
        );
    }

    #[test]
    fn a_payload_is_shown_up_to_forty_bytes() {
        let short = reply("_INBOX.dg", None, &[b'1'; 40]);
        assert_eq!(short["payload"], json!("1".repeat(40)));
        let long = reply("_INBOX.dg", None, &[b'1'; 41]);
        assert_eq!(
            long,
            json!({ "to": "dg", "payload": null, "payload_len": 41 })
        );
    }

    #[test]
    fn json_outside_the_inbox_stays_text() {
        let expected = json!({ "to": "ZZ", "body_raw": "{\"seq\":0}" });
        assert_eq!(reply("ZZ", None, b"{\"seq\":0}"), expected);
    }
}
