//! A client that is nothing but a socket: it says what it is told to, and hears what comes.
//!
//! Leans on the standard library. Taken in by `#[path]`.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECT: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\
                       \"no_responders\":true,\"protocol\":1}\r\n";

/// A connection.
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
    heard: Vec<u8>,
}

impl Raw {
    /// A connection that has said nothing yet.
    pub(crate) fn silent(address: &str) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            heard: Vec::new(),
        }
    }

    /// A connection with its greetings exchanged.
    pub(crate) fn connect(address: &str) -> Self {
        let mut raw = Self::silent(address);
        raw.say(CONNECT);
        raw.sync();
        raw
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// Publishes.
    pub(crate) fn publish(&mut self, subject: &str, reply: &str, payload: &str) {
        let bytes = payload.len();
        self.say(&format!("PUB {subject} {reply} {bytes}\r\n{payload}\r\n"));
    }

    /// Waits until all that was said has been heard.
    pub(crate) fn sync(&mut self) {
        self.say("PING\r\n");
        self.until("PONG\r\n");
    }

    /// All that comes up to and with `end`.
    pub(crate) fn until(&mut self, end: &str) -> String {
        let mut looked = 0;
        loop {
            let found = self.heard[looked..]
                .windows(end.len())
                .position(|window| window == end.as_bytes());
            if let Some(at) = found {
                let rest = self.heard.split_off(looked + at + end.len());
                let text = std::mem::replace(&mut self.heard, rest);
                return String::from_utf8_lossy(&text).into_owned();
            }
            looked = self.heard.len().saturating_sub(end.len());
            let more = self.more(PATIENCE);
            assert!(
                more.is_some_and(|more| more > 0),
                "closed or not in time: {end:?} after {}",
                String::from_utf8_lossy(&self.heard)
            );
        }
    }

    /// The payload of the next message.
    pub(crate) fn message(&mut self) -> String {
        loop {
            let line = self.until("\r\n");
            let mut words = line.split_whitespace();
            match words.next() {
                Some("MSG" | "HMSG") => {
                    let bytes: usize = words.next_back().unwrap().parse().unwrap();
                    let heads = if line.starts_with('H') {
                        words.next_back().unwrap().parse().unwrap()
                    } else {
                        0
                    };
                    while self.heard.len() < bytes + 2 {
                        assert!(self.more(PATIENCE).is_some_and(|more| more > 0), "{line}");
                    }
                    let rest = self.heard.split_off(bytes + 2);
                    let text = std::mem::replace(&mut self.heard, rest);
                    return String::from_utf8_lossy(&text[heads..bytes]).into_owned();
                }
                Some("PING") => self.say("PONG\r\n"),
                _ => {}
            }
        }
    }

    /// Whether nothing comes for so long, and the connection stays.
    pub(crate) fn is_quiet(&mut self, span: Duration) -> bool {
        self.heard.is_empty() && self.more(span).is_none()
    }

    /// Whether the server greets, in place of closing the connection.
    pub(crate) fn is_greeted(&mut self) -> bool {
        self.more(PATIENCE).is_some_and(|more| more > 0)
    }

    /// Whether the server closes the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        loop {
            match self.more(PATIENCE) {
                Some(0) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// Reads once: how many bytes; none at the end of the connection, nothing if nothing came.
    fn more(&mut self, patience: Duration) -> Option<usize> {
        let mut buffer = [0; 1 << 16];
        self.socket.set_read_timeout(Some(patience)).unwrap();
        match self.socket.read(&mut buffer) {
            Ok(count) => {
                self.heard.extend_from_slice(&buffer[..count]);
                Some(count)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                None
            }
            Err(_) => Some(0),
        }
    }
}
