//! What can go wrong around a live run: one sentence for each, with what to do about it.
//!
//! Text that comes from a peer is shortened and cleaned before it is shown. Leans on nothing of
//! ours.

/// The lowest server that takes fast batches.
pub(super) const OLDEST_SERVER: (u32, u32) = (2, 14);

/// Why a live run could not be done, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LiveError {
    /// The file asks for what a live run cannot do.
    #[error("{file}: {message}")]
    Scenario {
        /// The file.
        file: String,
        /// What it asks for, and what to do.
        message: String,
    },
    /// Nobody answers.
    #[error("no NATS server answers at {servers}: {reason}")]
    Unreachable {
        /// The addresses tried, without credentials.
        servers: String,
        /// What was tried and seen.
        reason: String,
    },
    /// Somebody answers who is no NATS server, or a broken one.
    #[error("{server} does not speak the NATS protocol: {reason}")]
    Protocol {
        /// The address, without credentials.
        server: String,
        /// What came instead.
        reason: String,
    },
    /// The server wants other credentials.
    #[error("{servers} refuses these credentials: {reason}")]
    Credentials {
        /// The addresses tried, without credentials.
        servers: String,
        /// What the server said.
        reason: String,
    },
    /// The server does not know fast batches.
    #[error(
        "the server at {server} is nats-server {version}; fast batches need {}.{} or later",
        OLDEST_SERVER.0,
        OLDEST_SERVER.1
    )]
    OldServer {
        /// The address, without credentials.
        server: String,
        /// What it calls itself.
        version: String,
    },
    /// The server, or the account, has no JetStream.
    #[error("JetStream is off at {server}, or for this account: {reason}")]
    JetStreamOff {
        /// The address, without credentials.
        server: String,
        /// What was seen.
        reason: String,
    },
    /// A permission is missing.
    #[error("the account may not do this: {0}")]
    Permission(String),
    /// A stream of this name does not take fast batches.
    #[error(
        "stream {stream} exists and does not take fast batches; set allow_batched on it, or choose another name with --set stream.name=NAME"
    )]
    NoBatches {
        /// Its name.
        stream: String,
    },
    /// A stream of this name is not what the file describes.
    #[error(
        "stream {stream} exists and differs from the file: {difference}; change the file, or choose another name with --set stream.name=NAME"
    )]
    OtherStream {
        /// Its name.
        stream: String,
        /// The first difference.
        difference: String,
    },
    /// Streams of the run could not be removed.
    #[error(
        "{} may still be there; remove {} by hand: {reason}",
        named(streams),
        it_or_them(streams)
    )]
    Remains {
        /// Their names.
        streams: Vec<String>,
        /// Why the first was not removed.
        reason: String,
    },
    /// The server does not make the stream that the file describes.
    #[error("stream {stream} cannot be made: {reason}")]
    RefusedStream {
        /// Its name.
        stream: String,
        /// What the server said, and what to do.
        reason: String,
    },
    /// An API call was refused.
    #[error("{call} failed: {description}{}", in_brackets(*code))]
    Api {
        /// The call, in words.
        call: &'static str,
        /// `err_code`; 0 without one.
        code: u64,
        /// What the server said.
        description: String,
    },
    /// An API call was not answered.
    #[error("no JetStream answers at {server} within {seconds} s ({call})")]
    NoAnswer {
        /// The address, without credentials.
        server: String,
        /// The call, in words.
        call: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// A server of our own did not come up.
    #[error("the local nats-server did not start: {reason}{}", tail(log))]
    LocalServer {
        /// What was seen.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// Servers of our own ended while they were used.
    #[error(
        "the nats-server that was started for this run died: {how}{}",
        tail(log)
    )]
    ServerDied {
        /// What was seen.
        how: String,
        /// The end of its log.
        log: String,
    },
    /// Starting servers was given up from outside.
    #[error("starting nats-server was given up")]
    Stopped,
    /// Not the version of a nats-server.
    #[error("`{0}` is no version of nats-server; allowed is one such as 2.15.1")]
    Version(String),
    /// No usable nats-server was found or fetched.
    #[error("no usable nats-server: {0}")]
    NoServer(String),
    /// The operating system refuses something.
    #[error("{what}: {reason}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        reason: String,
    },
}

impl LiveError {
    /// The operating system refused `what`.
    pub(crate) fn system(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::System {
            what: what.into(),
            reason: reason.to_string(),
        }
    }
}

fn named(streams: &[String]) -> String {
    let word = if streams.len() == 1 {
        "stream"
    } else {
        "streams"
    };
    format!("{word} {}", streams.join(", "))
}

const fn it_or_them(streams: &[String]) -> &'static str {
    if streams.len() == 1 { "it" } else { "them" }
}

fn in_brackets(code: u64) -> String {
    match code {
        0 => String::new(),
        code => format!(" (error {code})"),
    }
}

fn tail(log: &str) -> String {
    if log.is_empty() {
        String::new()
    } else {
        format!("\nthe end of its log:\n{log}")
    }
}

/// Text from a peer, fit to be shown: control characters are dots, and it is short.
pub(crate) fn clean(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .map(|character| {
            if character.is_control() {
                '.'
            } else {
                character
            }
        })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Server URLs without the credentials in them, for messages and results.
pub(crate) fn without_credentials(servers: &[String]) -> String {
    let shown: Vec<_> = servers
        .iter()
        .map(|server| {
            let (scheme, rest) = server.split_once("://").unwrap_or(("", server));
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            if scheme.is_empty() {
                clean(host)
            } else {
                clean(&format!("{scheme}://{host}"))
            }
        })
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_named_with_how_long_was_waited() {
        let silent = LiveError::NoAnswer {
            server: "nats://127.0.0.1:4222".to_owned(),
            call: "reading the stream",
            seconds: 10,
        };
        assert_eq!(
            silent.to_string(),
            "no JetStream answers at nats://127.0.0.1:4222 within 10 s (reading the stream)"
        );
    }

    #[test]
    fn every_stream_that_remains_is_named() {
        let remains = |names: &[&str]| {
            let streams = names.iter().map(|name| (*name).to_owned()).collect();
            let reason = "no".to_owned();
            LiveError::Remains { streams, reason }.to_string()
        };
        assert_eq!(
            remains(&["A"]),
            "stream A may still be there; remove it by hand: no"
        );
        assert_eq!(
            remains(&["A", "B"]),
            "streams A, B may still be there; remove them by hand: no"
        );
    }

    #[test]
    fn credentials_are_never_shown() {
        let servers = ["nats://me:se@cret@host:4222", "token@other", "third:1"];
        let servers: Vec<_> = servers.map(str::to_owned).into();
        assert_eq!(
            without_credentials(&servers),
            "nats://host:4222, other, third:1"
        );
    }

    #[test]
    fn text_from_a_peer_is_short_and_without_control_characters() {
        assert_eq!(clean("a\x1b[2Jb\r\n"), "a.[2Jb..");
        assert_eq!(clean(&"x".repeat(5_000)).chars().count(), 201);
    }
}
