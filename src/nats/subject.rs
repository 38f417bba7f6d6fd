//! Subjects and filters: what is valid, and which filter takes which subject.
//!
//! A subject is tokens joined by dots. In a filter the token `*` stands for exactly one token and
//! a last token `>` for one or more; `a*` and `>b` are ordinary tokens, there and in subjects.
//! Everything compares bytes: case counts. Leans on nothing of ours. Rules: NATS documentation,
//! "Subject-Based Messaging"; edge cases as nats-server 2.15.1 decides them.

/// The filter token that stands for exactly one token.
pub const WILDCARD_ONE: &str = "*";
/// The last filter token that stands for one or more tokens.
pub const WILDCARD_REST: &str = ">";

/// Why a text is no subject or no filter. Tokens are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubjectError {
    /// No text at all.
    #[error("is empty")]
    Empty,
    /// Nothing before the first dot, after the last, or between two.
    #[error("has an empty token at position {position}")]
    EmptyToken {
        /// Which token.
        position: usize,
    },
    /// Space, tab, line feed, form feed or carriage return: none can stand in a protocol line.
    #[error("has white space in the token at position {position}")]
    WhiteSpace {
        /// Which token.
        position: usize,
    },
    /// A publish names one subject, so it takes no wildcards.
    #[error("has a wildcard at position {position}")]
    Wildcard {
        /// Which token.
        position: usize,
    },
    /// `>` covers all that follows and so must be last.
    #[error("goes on after the `>` at position {position}")]
    AfterRest {
        /// Which token is the `>`.
        position: usize,
    },
}

/// The tokens of a subject or filter, in order; the empty text has one, empty token.
pub fn tokens(subject: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
    subject.split('.')
}

/// Checks a subject to publish to.
///
/// nats-server answers a bad one with `-ERR 'Invalid Publish Subject'` and routes it all the same.
///
/// # Errors
/// Says which rule the first bad token breaks.
pub fn check_publish(subject: &str) -> Result<(), SubjectError> {
    check_tokens(subject)?;
    match tokens(subject).position(is_wildcard) {
        Some(index) => Err(SubjectError::Wildcard {
            position: index + 1,
        }),
        None => Ok(()),
    }
}

/// Checks a filter: a subject of a stream, a subscription or an expected-subject header.
///
/// # Errors
/// Says which rule the first bad token breaks.
pub fn check_filter(filter: &str) -> Result<(), SubjectError> {
    check_tokens(filter)?;
    let last = tokens(filter).count() - 1;
    match tokens(filter).position(|token| token == WILDCARD_REST) {
        Some(index) if index < last => Err(SubjectError::AfterRest {
            position: index + 1,
        }),
        Some(_) | None => Ok(()),
    }
}

/// Whether a filter holds no wildcard, so that it takes one subject only.
pub fn is_literal(filter: &str) -> bool {
    !tokens(filter).any(is_wildcard)
}

/// Whether `filter` takes `subject`. Both may be any text.
///
/// A wildcard in the subject is an ordinary token here. A subject with an empty token is taken by
/// nothing, not even by `>`: nats-server answers it with status 503.
pub fn matches(filter: &str, subject: &str) -> bool {
    let mut subject = tokens(subject);
    let mut filter = tokens(filter);
    loop {
        match (filter.next(), subject.next()) {
            (None, None) => return true,
            (None, Some(_)) | (Some(_), None) => return false,
            (Some(_), Some("")) | (Some(""), Some(_)) => return false,
            (Some(WILDCARD_REST), Some(_)) => {
                return filter.next().is_none() && !subject.any(str::is_empty);
            }
            (Some(WILDCARD_ONE), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            (Some(_), Some(_)) => return false,
        }
    }
}

/// Whether some subject is taken by both filters. Both must be valid.
pub fn overlap(left: &str, right: &str) -> bool {
    let mut left = tokens(left);
    let mut right = tokens(right);
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (None, Some(_)) | (Some(_), None) => return false,
            (Some(WILDCARD_REST), Some(_)) | (Some(_), Some(WILDCARD_REST)) => return true,
            (Some(WILDCARD_ONE), Some(_)) | (Some(_), Some(WILDCARD_ONE)) => {}
            (Some(one), Some(other)) if one == other => {}
            (Some(_), Some(_)) => return false,
        }
    }
}

/// What of a server's own a filter takes: a stream may have it with `no_ack` only, for its acks would
/// answer the server's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfServer {
    /// All there is.
    Everything,
    /// Something of JetStream: `$JS.>`, `$JSC.>`, `$NRG.>`.
    JetStream,
    /// Something of the system: `$SYS.>`, but for what lies within `$SYS.ACCOUNT.>`.
    System,
}

impl OfServer {
    /// What `filter`, which must be valid, takes of the server's own, by `checkStreamCfg` in
    /// nats-server's `stream.go`.
    pub fn in_filter(filter: &str) -> Option<Self> {
        let jetstream = ["$JS.>", "$JSC.>", "$NRG.>"];
        if filter == WILDCARD_REST {
            Some(Self::Everything)
        } else if jetstream.iter().any(|own| overlap(own, filter)) {
            Some(Self::JetStream)
        } else if overlap("$SYS.>", filter) && !filter.starts_with("$SYS.ACCOUNT.") {
            Some(Self::System)
        } else {
            None
        }
    }

    /// How nats-server refuses it to a stream without `no_ack` (error 10052).
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Everything => "capturing all subjects requires no-ack to be true",
            Self::JetStream => "subjects that overlap with jetstream api require no-ack to be true",
            Self::System => "subjects that overlap with system api require no-ack to be true",
        }
    }
}

fn is_wildcard(token: &str) -> bool {
    matches!(token, WILDCARD_ONE | WILDCARD_REST)
}

/// What subjects and filters have in common.
fn check_tokens(subject: &str) -> Result<(), SubjectError> {
    if subject.is_empty() {
        return Err(SubjectError::Empty);
    }
    for (token, position) in tokens(subject).zip(1..) {
        if token.is_empty() {
            return Err(SubjectError::EmptyToken { position });
        }
        if token.contains([' ', '\t', '\n', '\x0c', '\r']) {
            return Err(SubjectError::WhiteSpace { position });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_subjects() {
        for good in [
            "a",
            "a.b.c",
            "$JS.API.X",
            "a*",
            "a.>b",
            "**",
            ">>",
            "é.ü",
            "-",
        ] {
            assert_eq!(check_publish(good), Ok(()), "{good}");
        }
        for (bad, error) in [
            ("", SubjectError::Empty),
            (".", SubjectError::EmptyToken { position: 1 }),
            (".a", SubjectError::EmptyToken { position: 1 }),
            ("a.", SubjectError::EmptyToken { position: 2 }),
            ("a..b", SubjectError::EmptyToken { position: 2 }),
            (" ", SubjectError::WhiteSpace { position: 1 }),
            ("a.b c", SubjectError::WhiteSpace { position: 2 }),
            ("a.b\r", SubjectError::WhiteSpace { position: 2 }),
            ("a\n.b", SubjectError::WhiteSpace { position: 1 }),
            ("a\x0c", SubjectError::WhiteSpace { position: 1 }),
            ("a\t", SubjectError::WhiteSpace { position: 1 }),
            ("*", SubjectError::Wildcard { position: 1 }),
            ("a.*.c", SubjectError::Wildcard { position: 2 }),
            ("a.b.>", SubjectError::Wildcard { position: 3 }),
        ] {
            assert_eq!(check_publish(bad), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn filters() {
        for good in ["a", "*", ">", "a.*.c", "a.*.>", "*.*", "a.>b", "x.*y"] {
            assert_eq!(check_filter(good), Ok(()), "{good}");
        }
        for (bad, error) in [
            ("", SubjectError::Empty),
            ("x..y", SubjectError::EmptyToken { position: 2 }),
            ("x.>.", SubjectError::EmptyToken { position: 3 }),
            ("x.>.y", SubjectError::AfterRest { position: 2 }),
            (">.>", SubjectError::AfterRest { position: 1 }),
            ("x y", SubjectError::WhiteSpace { position: 1 }),
        ] {
            assert_eq!(check_filter(bad), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn matching() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("a", &["a"], &["", "A", "b", "a.a", "a.", "aa"]),
            ("a.b", &["a.b"], &["a", "a.b.c", "a.B", "ab"]),
            ("*", &["a", "*", ">"], &["", "a.b", "."]),
            ("a.*", &["a.b", "a.*", "a.>"], &["a", "a.", "a.b.c", "b.b"]),
            ("*.b", &["a.b", "b.b"], &["b", ".b", "a.b.b"]),
            ("a.*.c", &["a.b.c"], &["a.c", "a..c", "a.b.b", "a.b.c.d"]),
            (">", &["a", "a.b.c"], &["", ".", "a.", "a..b", ".a"]),
            (
                "a.>",
                &["a.b", "a.b.c", "a.*"],
                &["a", "a.", "a..b", "a.b.", "b.a"],
            ),
            ("a.*.>", &["a.b.c", "a.b.c.d"], &["a.b", "a..c"]),
            // A wildcard is a whole token, or none.
            ("a*", &["a*"], &["ab", "a"]),
            ("a.>b", &["a.>b"], &["a.b", "a.c.b"]),
            // No filters, and so without a subject.
            ("a.>.c", &[], &["a.b", "a.b.c", "a.>.c"]),
            ("a..b", &[], &["a..b", "a.x.b"]),
        ];
        for (filter, taken, left) in cases {
            for subject in *taken {
                assert!(matches(filter, subject), "{filter} takes {subject}");
            }
            for subject in *left {
                assert!(!matches(filter, subject), "{filter} leaves {subject}");
            }
        }
    }

    #[test]
    fn overlapping() {
        for (left, right, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a.b", false),
            ("a.*", "a.b", true),
            ("a.*", "*.b", true),
            ("a.*.c", "*.b.*", true),
            ("a.*", "b.*", false),
            ("a.>", "a.*.c", true),
            ("a.>", "a", false),
            ("a.b.>", "a.*", false),
            ("*.>", "a.>", true),
            (">", "a", true),
            ("x.>y", "x.z", false),
        ] {
            assert_eq!(overlap(left, right), expected, "{left} and {right}");
            assert_eq!(overlap(right, left), expected, "{right} and {left}");
        }
    }

    /// As nats-server 2.15.1 answers `STREAM.CREATE`.
    #[test]
    fn what_is_the_servers_own() {
        use OfServer::{Everything, JetStream, System};
        for (filter, expected) in [
            (">", Some(Everything)),
            ("$JS.API.>", Some(JetStream)),
            ("$JS.x", Some(JetStream)),
            ("*.API.>", Some(JetStream)),
            ("*.*", Some(JetStream)),
            ("$JSC.x", Some(JetStream)),
            ("$NRG.x", Some(JetStream)),
            ("$SYS.REQ.x", Some(System)),
            ("$SYS.>", Some(System)),
            ("$SYS.ACCOUNT.>", None),
            ("$SYS", None),
            ("$JS", None),
            ("*", None),
            ("$KV.b.>", None),
            ("_INBOX.>", None),
            ("a.$JS.b", None),
        ] {
            assert_eq!(OfServer::in_filter(filter), expected, "{filter}");
        }
    }

    #[test]
    fn literal_filters_hold_no_whole_wildcard_token() {
        assert!(is_literal("a.b*.>c"));
        assert!(!is_literal("a.*"));
        assert!(!is_literal("a.>"));
    }
}
