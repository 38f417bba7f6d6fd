//! How large the messages of a group get: no connection takes one above its server's `max_payload`.
//!
//! Payload ranges are checked before, by `shape`. Leans on the settings structs and on
//! `nats::header` for what headers take.

use super::error::Problem;
use super::path::KeyPath;
use super::{PayloadSize, Publishers};
use crate::nats::MAX_PAYLOAD_BYTES;
use crate::nats::header::{Headers, MESSAGE_ID};
use crate::units::Bytes;

/// Bytes of the longest message id: the run in 16 hexadecimal digits, then publisher, batch and
/// sequence, of which none has more than ten digits.
const MESSAGE_ID_BYTES: usize = 16 + 3 * (1 + 10);

/// Checks that each message of the group, headers included, is one that servers take by default.
pub(super) fn check_sizes(group: &Publishers, path: &KeyPath) -> Result<(), Problem> {
    let (payload, headers) = (group.largest_payload(), group.largest_header_block());
    let most = Bytes(MAX_PAYLOAD_BYTES as u64);
    if payload.0 + headers <= most.0 {
        return Ok(());
    }
    let path = path.key("payload");
    let path = match &group.payload {
        PayloadSize::Fixed(_) => path,
        PayloadSize::Range(_) | PayloadSize::Spread(_) => path.key("max"),
        PayloadSize::Weighted(sizes) => {
            let largest = sizes.iter().position(|one| one.size == payload);
            path.index(largest.unwrap_or(0)).key("size")
        }
    };
    let message = format!(
        "{payload} and {headers} bytes of headers are more than the {most} of a message that servers \
         take (max_payload)"
    );
    Err(Problem::new(path, message))
}

impl Publishers {
    /// Most bytes of header block and payload of one message.
    pub fn largest_message(&self) -> Bytes {
        Bytes(self.largest_payload().0 + self.largest_header_block())
    }

    /// The largest payload; where nothing bounds it, the largest that goes with its headers.
    pub fn largest_payload(&self) -> Bytes {
        let most = (MAX_PAYLOAD_BYTES as u64).saturating_sub(self.largest_header_block());
        self.payload.largest(Bytes(most))
    }

    /// Most bytes of headers on one message; 0 without any.
    fn largest_header_block(&self) -> u64 {
        let own = match self.message_ids {
            true => Headers::line_bytes(MESSAGE_ID, MESSAGE_ID_BYTES),
            false => 0,
        };
        match own + self.largest_lines() {
            0 => 0,
            lines => (Headers::EMPTY_BYTES + lines) as u64,
        }
    }

    /// Most bytes that rules put on one message: lines are added where a rule begins and taken away
    /// behind its end.
    fn largest_lines(&self) -> usize {
        let mut steps = Vec::with_capacity(2 * self.headers.len());
        for rule in &self.headers {
            let bytes = Headers::line_bytes(&rule.name, rule.value.len());
            steps.push((u64::from(rule.from), true, bytes));
            steps.push((u64::from(rule.to) + 1, false, bytes));
        }
        steps.sort_unstable();
        let (mut now, mut most) = (0, 0);
        for (_, begins, bytes) in steps {
            now = if begins { now + bytes } else { now - bytes };
            most = most.max(now);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::HeaderRule;

    fn rule(from: u32, to: u32, value: usize) -> HeaderRule {
        HeaderRule {
            from,
            to,
            name: "A".to_owned(),
            value: "x".repeat(value),
        }
    }

    fn group(payload: u64, headers: Vec<HeaderRule>) -> Publishers {
        Publishers {
            payload: PayloadSize::Fixed(Bytes(payload)),
            headers,
            ..Publishers::default()
        }
    }

    #[test]
    fn only_headers_on_the_same_message_add_up() {
        let bytes = |headers| group(0, headers).largest_message().0;
        assert_eq!(bytes(vec![]), 0);
        // `NATS/1.0` CRLF, `A: ` and the value CRLF, CRLF.
        assert_eq!(bytes(vec![rule(1, 9, 100)]), 12 + 105);
        let apart = vec![rule(1, 4, 100), rule(5, 9, 10), rule(10, 10, 50)];
        assert_eq!(bytes(apart), 12 + 105);
        let together = vec![rule(1, 5, 100), rule(5, 9, 10), rule(9, 12, 200)];
        assert_eq!(bytes(together), 12 + 15 + 205);
    }

    #[test]
    fn a_message_may_be_as_large_as_servers_take_and_no_larger() {
        let most = MAX_PAYLOAD_BYTES as u64;
        let refused = |group: &Publishers| {
            let problem = check_sizes(group, &KeyPath::root()).err();
            problem.map(|problem| problem.path.to_string())
        };
        assert_eq!(refused(&group(most, vec![])), None);
        assert_eq!(refused(&group(most - 18, vec![rule(1, 1, 1)])), None);
        let large = group(most - 17, vec![rule(1, 1, 1)]);
        assert_eq!(refused(&large).unwrap(), "payload");
        let with_ids = Publishers {
            message_ids: true,
            ..group(most, vec![])
        };
        assert_eq!(refused(&with_ids).unwrap(), "payload");
    }
}
