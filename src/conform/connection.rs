//! One TCP connection to a real server, at the level of frames.
//!
//! Leans on `inbox` and tokio. Reading and writing go on at the same time, so that neither
//! side can wait for the other for ever, and what came before the server closed is not lost.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::run::Stop;
use crate::nats::wire::{ClientFrame, Line, Token};

/// A server that does not answer the handshake or a ping by then counts as broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a server listens, and who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host and port.
    pub host: String,
    /// User name, or token if there is no password.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
}

impl Address {
    /// From `nats://[user[:password]@]host[:port]`; the scheme may be left out where a dot or colon
    /// shows that a server is meant.
    ///
    /// # Errors
    /// It is no such URL: a sentence that says what one looks like.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = match url.split_once("://") {
            None if !url.contains(['.', ':']) => {
                return Err(format!("`{url}` is no server URL; nats://HOST:PORT is one"));
            }
            None => url,
            Some(("nats", rest)) => rest,
            Some((scheme, _)) => return Err(format!("`{scheme}` is not supported; use nats://")),
        };
        let (credentials, host) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((credentials, host)) => (Some(credentials), host),
        };
        let host = host.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', ' ', ',']) {
            return Err(format!("`{url}` is no server URL; nats://HOST:PORT is one"));
        }
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let (user, password) = match credentials.map(|text| text.split_once(':')) {
            None => (None, None),
            Some(None) => (credentials.map(str::to_owned), None),
            Some(Some((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
        };
        Ok(Self {
            host: if has_port {
                host.to_owned()
            } else {
                format!("{host}:4222")
            },
            user,
            password,
        })
    }

    fn connect_options(&self) -> Value {
        let mut options = connect_options();
        match (&self.user, &self.password) {
            (None, _) => {}
            (Some(token), None) => options["auth_token"] = json!(token),
            (Some(user), Some(password)) => {
                options["user"] = json!(user);
                options["pass"] = json!(password);
            }
        }
        options
    }
}

/// What every client of ours says of itself.
pub(super) fn connect_options() -> Value {
    json!({
        "verbose": false,
        "pedantic": false,
        "headers": true,
        "no_responders": true,
        "protocol": 1,
        "name": "tidegate conform",
        "lang": "rust",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// A connection whose handshake is done.
pub(super) struct Connection {
    stream: TcpStream,
    outgoing: BytesMut,
    /// What the server said.
    pub(super) inbox: Inbox,
    pings: u64,
}

impl Connection {
    /// Connects and waits until the server has taken the options.
    pub(super) async fn open(address: &Address) -> Result<Self, Stop> {
        let host = &address.host;
        let unreachable = |why: &dyn std::fmt::Display| {
            Stop::Surroundings(format!("no NATS server at {host}: {why}"))
        };
        let stream = timeout(PATIENCE, TcpStream::connect(host))
            .await
            .map_err(|_| unreachable(&"no answer"))?
            .map_err(|error| unreachable(&error))?;
        stream
            .set_nodelay(true)
            .map_err(|error| unreachable(&error))?;
        let mut connection = Self {
            stream,
            outgoing: BytesMut::new(),
            inbox: Inbox::new(),
            pings: 0,
        };
        let handshake = async {
            while connection.inbox.info.is_null() && !connection.inbox.closed {
                connection.turn().await?;
            }
            let options = address.connect_options().to_string();
            connection.send(&ClientFrame::Connect(line(&options)?));
            connection.fence().await
        };
        let in_time = timeout(PATIENCE, handshake).await;
        in_time.map_err(|_| unreachable(&"no handshake"))??;
        if connection.inbox.closed || !connection.inbox.errors.is_empty() {
            let errors = connection.inbox.errors.join(", ");
            return Err(unreachable(&format!("refused: {errors}")));
        }
        Ok(connection)
    }

    /// Queues a frame; it leaves with the next call that waits.
    pub(super) fn send(&mut self, frame: &ClientFrame) {
        frame.encode(&mut self.outgoing);
    }

    /// Subscribes.
    pub(super) fn subscribe(&mut self, subject: &str, id: &str) -> Result<(), Stop> {
        let invalid = || Stop::Surroundings(format!("`{subject}` cannot be subscribed to"));
        self.send(&ClientFrame::Subscribe {
            subject: Token::new(subject).ok_or_else(invalid)?,
            queue: None,
            subscription: Token::new(id).ok_or_else(invalid)?,
        });
        Ok(())
    }

    /// Waits until the server has read all that was sent so far, or has closed.
    pub(super) async fn fence(&mut self) -> Result<(), Stop> {
        self.send(&ClientFrame::Ping);
        self.pings += 1;
        let reached = async {
            while self.inbox.pongs < self.pings && !self.inbox.closed {
                self.turn().await?;
            }
            Ok(())
        };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| {
            Err(Stop::Surroundings(
                "the server does not answer a ping".to_owned(),
            ))
        })
    }

    /// Reads until nothing has come for `quiet`.
    pub(super) async fn read_until_quiet(&mut self, quiet: Duration) -> Result<(), Stop> {
        while !self.inbox.closed {
            match timeout(quiet, self.turn()).await {
                Ok(turned) => turned?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Reads or writes once, whichever is possible first.
    pub(super) async fn turn(&mut self) -> Result<(), Stop> {
        let (mut reader, mut writer) = self.stream.split();
        let writes = !self.outgoing.is_empty();
        tokio::select! {
            biased;
            read = reader.read_buf(self.inbox.buffer()) => match read {
                Ok(0) => self.inbox.closed = true,
                Ok(_) => self.inbox.take_frames(&mut self.outgoing)?,
                Err(error) => self.end(&error)?,
            },
            written = writer.write(&self.outgoing), if writes => match written {
                Ok(count) => self.outgoing.advance(count),
                // The server went away; what it said before is still to be read.
                Err(_) => self.outgoing.clear(),
            },
        }
        Ok(())
    }

    fn end(&mut self, error: &io::Error) -> Result<(), Stop> {
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => {
                self.inbox.closed = true;
                Ok(())
            }
            _ => Err(Stop::Surroundings(format!("connection lost: {error}"))),
        }
    }
}

pub(super) fn line(text: &str) -> Result<Line, Stop> {
    Line::new(text).ok_or_else(|| Stop::Surroundings("options with a line end".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_give_host_port_and_credentials() {
        let address = Address::parse("nats://me:secret@localhost").unwrap();
        assert_eq!(address.host, "localhost:4222");
        assert_eq!(address.user.as_deref(), Some("me"));
        assert_eq!(address.password.as_deref(), Some("secret"));
        assert_eq!(Address::parse("127.0.0.1:5").unwrap().host, "127.0.0.1:5");
        assert!(Address::parse("tls://x").is_err());
        assert!(Address::parse("nats://").is_err());
        assert!(Address::parse("modell").is_err());
        assert_eq!(Address::parse("nats://foo").unwrap().host, "foo:4222");
        assert!(Address::parse("a:1,b:2").is_err());
    }
}
