//! Streams of one random case after the other go by different names of one letter, and are told of as
//! the stream of the vector format.
//!
//! A stream in files that is created anew right after it was deleted may begin with what the former
//! one left behind: while its folder is still being removed, another of the name cannot be moved out
//! of the way (`filestore.go`, `Delete`). A name of the same length leaves all sizes as they are. Leans
//! on `vector`.

use serde_json::{Map, Value};

use super::super::vector::{Outgoing, STREAM};
use crate::nats::header::{EXPECTED_STREAM, SUBJECT};

/// Names in turn: one comes again after so many cases.
const NAMES: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// The header of a direct get's answer that names the stream.
const ANSWERED_STREAM: &str = "Nats-Stream";

/// The subjects of direct gets.
const DIRECT_GET: &str = "$JS.API.DIRECT.GET.";
/// Where JSON stands as text.
const RAW: &str = "body_raw";

/// What the stream of a case is called on the server.
#[derive(Clone, Debug)]
pub(super) struct Name(String);

impl Name {
    /// That of the vector format.
    pub(super) fn of_format() -> Self {
        Self(STREAM.to_owned())
    }

    /// That of the case of this number.
    pub(super) fn in_turn(number: usize) -> Self {
        let letter = NAMES.chars().nth(number % NAMES.len());
        Self(letter.map_or_else(|| STREAM.to_owned(), String::from))
    }

    /// A subject, with tokens that name the stream.
    pub(super) fn subject(&self, subject: &str) -> String {
        let tokens = subject.split('.');
        let named = tokens.map(|token| {
            if token == STREAM {
                self.0.as_str()
            } else {
                token
            }
        });
        named.collect::<Vec<_>>().join(".")
    }

    /// The body of a call, which may be a configuration.
    pub(super) fn body(&self, body: &[u8]) -> Vec<u8> {
        let config = serde_json::from_slice::<Map<String, Value>>(body);
        match config {
            Ok(mut config) if config.get("name").is_some_and(|name| name == STREAM) => {
                config.insert("name".to_owned(), Value::from(self.0.clone()));
                Value::Object(config).to_string().into_bytes()
            }
            _ => body.to_vec(),
        }
    }

    /// A message, whose headers may name the stream.
    pub(super) fn message(&self, message: &Outgoing) -> Outgoing {
        let mut message = message.clone();
        for (name, value) in message.headers.iter_mut().flatten() {
            if name == EXPECTED_STREAM && value == STREAM {
                value.clone_from(&self.0);
            }
        }
        message
    }

    /// A reply, an advisory or what is stored, as the format tells it.
    pub(super) fn told(&self, mut told: Value) -> Value {
        self.tell(&mut told);
        told
    }

    fn tell(&self, told: &mut Value) {
        match told {
            Value::Array(line) => {
                if let [Value::String(name), Value::String(value)] = &mut line[..] {
                    self.tell_header(name, value);
                } else {
                    line.iter_mut().for_each(|value| self.tell(value));
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    if key == "stream" && *value == self.0 {
                        *value = Value::from(STREAM);
                    } else if let (RAW, Value::String(text)) = (key.as_str(), &mut *value) {
                        let told = |name: &str| format!("\"stream\":\"{name}\"");
                        *text = text.replace(&told(&self.0), &told(STREAM));
                    } else {
                        self.tell(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn tell_header(&self, name: &str, value: &mut String) {
        let names_stream = [EXPECTED_STREAM, ANSWERED_STREAM].contains(&name);
        if names_stream && *value == self.0 {
            STREAM.clone_into(value);
        }
        // That nobody listens is told with the subject.
        if let (SUBJECT, Some(rest)) = (name, value.strip_prefix(DIRECT_GET))
            && let Some(more) = rest.strip_prefix(&self.0)
            && (more.is_empty() || more.starts_with('.'))
        {
            *value = format!("{DIRECT_GET}{STREAM}{more}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_stream_is_renamed_wherever_it_is_named() {
        let name = Name("Q".to_owned());
        assert_eq!(name.subject("STREAM.MSG.GET.S"), "STREAM.MSG.GET.Q");
        assert_eq!(
            name.subject("$JS.API.DIRECT.GET.S.t.S2"),
            "$JS.API.DIRECT.GET.Q.t.S2"
        );
        assert_eq!(
            name.body(br#"{"name":"S","sealed":true}"#),
            br#"{"name":"Q","sealed":true}"#
        );
        assert_eq!(name.body(br#"{"seq":3}"#), br#"{"seq":3}"#);
        assert_eq!(name.body(b"{ no json"), b"{ no json");
        let told = name.told(json!({
            "to": "dg", "body": { "stream": "Q", "seq": 1 },
            "headers": [["Nats-Stream", "Q"], ["Nats-Subject", "$JS.API.DIRECT.GET.Q.t.Q"]],
        }));
        let expected = json!({
            "to": "dg", "body": { "stream": "S", "seq": 1 },
            "headers": [["Nats-Stream", "S"], ["Nats-Subject", "$JS.API.DIRECT.GET.S.t.Q"]],
        });
        assert_eq!(told, expected);
        assert_eq!(
            name.told(json!({ "stream": "Q" })),
            json!({ "stream": "S" })
        );
    }

    #[test]
    fn names_come_in_turn_and_are_of_one_length() {
        let names: Vec<String> = (0..70).map(|number| Name::in_turn(number).0).collect();
        assert!(names.iter().all(|name| name.len() == STREAM.len()));
        assert_eq!(names[0], names[62]);
        assert_ne!(names[0], names[1]);
    }
}
