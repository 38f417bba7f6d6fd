//! A JSON object read key by key, with the place of every offence.
//!
//! Leans on nothing of ours.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Something that is not of the format.
#[derive(Debug)]
pub(super) struct Bad {
    /// From the inside out.
    place: Vec<String>,
    /// What is wrong and what is allowed.
    pub(super) message: String,
}

impl Bad {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            place: Vec::new(),
            message: message.into(),
        }
    }

    /// The same, seen from outside of `place`.
    pub(super) fn within(mut self, place: &str) -> Self {
        self.place.push(place.to_owned());
        self
    }

    /// The whole place, from the outside in.
    pub(super) fn place(&self) -> Option<String> {
        let parts: Vec<&str> = self.place.iter().rev().map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }
}

/// An object of which every key must be asked for.
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    asked: BTreeSet<&'a str>,
}

impl<'a> Object<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, Bad> {
        match value {
            Value::Object(map) => Ok(Self {
                map,
                asked: BTreeSet::new(),
            }),
            _ => Err(Bad::new("an object is needed")),
        }
    }

    pub(super) const fn map_itself(&self) -> &'a Map<String, Value> {
        self.map
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub(super) fn optional(&mut self, key: &str) -> Option<&'a Value> {
        let (key, value) = self.map.get_key_value(key)?;
        self.asked.insert(key);
        Some(value)
    }

    /// The key may stand there, and whatever it says is not looked at.
    pub(super) fn skip(&mut self, key: &str) {
        let _ = self.optional(key);
    }

    pub(super) fn required(&mut self, key: &str) -> Result<&'a Value, Bad> {
        self.optional(key)
            .ok_or_else(|| Bad::new("missing").within(key))
    }

    pub(super) fn optional_text(&mut self, key: &str) -> Result<Option<&'a str>, Bad> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Bad::new("a text is needed").within(key)),
        }
    }

    pub(super) fn text(&mut self, key: &str) -> Result<&'a str, Bad> {
        self.optional_text(key)?
            .ok_or_else(|| Bad::new("missing").within(key))
    }

    pub(super) fn optional_number(&mut self, key: &str) -> Result<Option<u64>, Bad> {
        match self.optional(key) {
            None => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| Bad::new("a whole number, 0 or more, is needed").within(key)),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<u64, Bad> {
        self.optional_number(key)?
            .ok_or_else(|| Bad::new("missing").within(key))
    }

    pub(super) fn list(&mut self, key: &str) -> Result<&'a Vec<Value>, Bad> {
        match self.required(key)? {
            Value::Array(list) => Ok(list),
            _ => Err(Bad::new("a list is needed").within(key)),
        }
    }

    pub(super) fn map(&mut self, key: &str) -> Result<&'a Map<String, Value>, Bad> {
        match self.required(key)? {
            Value::Object(map) => Ok(map),
            _ => Err(Bad::new("an object is needed").within(key)),
        }
    }

    /// Every key was asked for.
    pub(super) fn finish(&self) -> Result<(), Bad> {
        match self
            .map
            .keys()
            .find(|key| !self.asked.contains(key.as_str()))
        {
            None => Ok(()),
            Some(key) => Err(Bad::new(format!("unknown key `{}`", key.escape_debug()))),
        }
    }
}
