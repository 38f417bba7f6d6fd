//! A look at a server before a real client connects: who it is, and whether its API answers.
//!
//! Speaks as little of the NATS protocol as that takes, blocking, with a deadline and a bound on
//! everything read. Leans on `error`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::error::clean;

/// Longest line and largest payload that is read.
const LARGEST: u64 = 1 << 20;

/// A connection for a few requests.
pub(super) struct Probe {
    reader: BufReader<TcpStream>,
    info: Value,
}

impl Probe {
    /// Connects and reads who answers; no step waits longer than `patience`.
    ///
    /// # Errors
    /// One sentence: nobody listens, or what comes is no NATS greeting.
    pub(super) fn connect(address: SocketAddr, patience: Duration) -> Result<Self, String> {
        let stream =
            TcpStream::connect_timeout(&address, patience).map_err(|error| error.to_string())?;
        stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)))
            .map_err(|error| error.to_string())?;
        let mut probe = Self {
            reader: BufReader::new(stream),
            info: Value::Null,
        };
        let line = probe.line()?;
        let body = line
            .strip_prefix("INFO ")
            .ok_or_else(|| format!("the greeting is `{}`", clean(&line)))?;
        probe.info = serde_json::from_str(body)
            .map_err(|_| format!("the greeting is `{}`", clean(&line)))?;
        probe.send("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n")?;
        Ok(probe)
    }

    /// `server_name` of the greeting.
    pub(super) fn server_name(&self) -> &str {
        self.info["server_name"].as_str().unwrap_or_default()
    }

    /// Sends one API request and gives its answer.
    ///
    /// # Errors
    /// One sentence: nobody serves the subject, nothing came in time, or no JSON came.
    pub(super) fn request(&mut self, subject: &str, body: &Value) -> Result<Value, String> {
        const INBOX: &str = "_INBOX.probe";
        let body = body.to_string();
        let length = body.len();
        self.send(&format!(
            "SUB {INBOX} 1\r\nUNSUB 1 1\r\nPUB {subject} {INBOX} {length}\r\n{body}\r\n"
        ))?;
        loop {
            let line = self.line()?;
            let mut words = line.split_ascii_whitespace();
            let (headers, bytes) = match words.next().unwrap_or_default() {
                "PING" => {
                    self.send("PONG\r\n")?;
                    continue;
                }
                "MSG" => (0, number(words.next_back())?),
                "HMSG" => {
                    let bytes = number(words.next_back())?;
                    (number(words.next_back())?, bytes)
                }
                "-ERR" => return Err(format!("the server says {}", clean(&line))),
                _ => continue,
            };
            if bytes > LARGEST || headers > bytes {
                return Err(format!("an answer of {bytes} bytes"));
            }
            let mut payload = vec![0; bytes as usize + 2];
            self.reader
                .read_exact(&mut payload)
                .map_err(|error| error.to_string())?;
            let json = &payload[headers as usize..bytes as usize];
            if json.is_empty() {
                return Err(format!("nobody serves {subject}"));
            }
            return serde_json::from_slice(json)
                .map_err(|error| format!("the answer is no JSON: {error}"));
        }
    }

    fn send(&mut self, text: &str) -> Result<(), String> {
        self.reader
            .get_mut()
            .write_all(text.as_bytes())
            .map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let read = (&mut self.reader)
            .take(LARGEST)
            .read_until(b'\n', &mut line)
            .map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("the connection was closed".to_owned());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

fn number(word: Option<&str>) -> Result<u64, String> {
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| "a message without its size".to_owned())
}

/// `major.minor` of a server version such as `2.15.1` or `2.15.0-dev`.
pub(super) fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answer(bytes: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(bytes).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        address
    }

    fn connect(bytes: &'static [u8]) -> Result<Probe, String> {
        Probe::connect(answer(bytes), Duration::from_secs(5))
    }

    #[test]
    fn a_greeting_is_read_and_an_answer_too() {
        let bytes = b"INFO {\"server_name\":\"n0\",\"version\":\"2.15.1\"} \r\nPING\r\nMSG _INBOX.probe 1 9\r\n{\"a\":\"b\"}\r\n";
        let mut probe = connect(bytes).unwrap();
        assert_eq!(probe.server_name(), "n0");
        let answer = probe.request("x", &Value::Null).unwrap();
        assert_eq!(answer["a"], "b");
    }

    #[test]
    fn what_is_no_greeting_is_an_error() {
        for bytes in [
            b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
            b"INFO {\"server_name\":\r\n",
            b"\xff\xfe\x00\n",
            b"",
        ] {
            let error = connect(bytes);
            if bytes.is_empty() {
                continue;
            }
            assert!(error.err().unwrap().contains("greeting"), "{bytes:?}");
        }
    }

    #[test]
    fn broken_answers_are_errors() {
        for (bytes, expected) in [
            (
                b"INFO {}\r\nMSG _INBOX.probe 1 x\r\n".as_slice(),
                "without its size",
            ),
            (
                b"INFO {}\r\nMSG _INBOX.probe 1 99999999999\r\n",
                "an answer of",
            ),
            (b"INFO {}\r\nMSG _INBOX.probe 1 2\r\nxx\r\n", "no JSON"),
            (
                b"INFO {}\r\nHMSG _INBOX.probe 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
                "nobody serves",
            ),
            (
                b"INFO {}\r\nHMSG _INBOX.probe 1 17 16\r\nNATS/1.0 503\r\n\r\n\r\n",
                "an answer of",
            ),
            (
                b"INFO {}\r\n-ERR 'Authorization Violation'\r\n",
                "Authorization",
            ),
        ] {
            let error = connect(bytes).unwrap().request("x", &Value::Null);
            let error = error.err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major_minor("2.15.1"), Some((2, 15)));
        assert_eq!(major_minor("v2.14.0-RC.1"), Some((2, 14)));
        assert_eq!(major_minor("2"), None);
        assert_eq!(major_minor(""), None);
    }
}
