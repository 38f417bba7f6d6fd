//! What a stream holds, read back by API calls, as a `stored` step lists it.
//!
//! Leans on `observe`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::observe;
use super::run::Stop;
use super::vector::STREAM;

/// Most messages that are read back.
const STORED_MAX: u64 = 100_000;

/// Makes one API call: subject behind `$JS.API.`, body.
pub(super) type Call<'a> = dyn FnMut(&str, &[u8]) -> Result<Value, Stop> + 'a;

/// Reads the stream back with `call`.
pub(super) fn stored(call: &mut Call<'_>) -> Result<Value, Stop> {
    let broken = |what: &str| Stop::Surroundings(format!("cannot read the stream back: {what}"));
    let info = call(&format!("STREAM.INFO.{STREAM}"), b"")?;
    let Some(state) = info.get("state") else {
        return Ok(json!({ "error": info.get("error") }));
    };
    let number = |key: &str| state.get(key).and_then(Value::as_u64);
    let (first, last) = (number("first_seq"), number("last_seq"));
    let first = first.ok_or_else(|| broken("no first_seq"))?;
    let last = last.ok_or_else(|| broken("no last_seq"))?;
    if last.saturating_sub(first) >= STORED_MAX {
        return Err(broken(&format!("more than {STORED_MAX} messages")));
    }
    let mut messages = Vec::new();
    for sequence in first.max(1)..=last {
        let request = json!({ "seq": sequence }).to_string();
        let subject = format!("STREAM.MSG.GET.{STREAM}");
        let answer = call(&subject, request.as_bytes())?;
        let Some(message) = answer.get("message") else {
            continue;
        };
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        let bytes = |key: &str| {
            STANDARD
                .decode(text(key))
                .map_err(|e| broken(&e.to_string()))
        };
        messages.push(observe::stored_message(
            sequence,
            text("subject"),
            &bytes("hdrs")?,
            bytes("data")?.len(),
        ));
    }
    Ok(json!({
        "messages": state.get("messages"),
        "first_seq": first,
        "last_seq": last,
        "num_deleted": state.get("num_deleted"),
        "msgs": messages,
    }))
}
