//! Connections to the servers under test, and API calls over them, with one clear error each.
//!
//! Leans on `error`, `client` and async-nats.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, RequestErrorKind, ServerAddr,
};
use serde_json::Value;
use tokio::sync::Notify;

use super::access::{Access, Identity, with_credentials};
use super::clock::Clock;
use super::error::{LiveError, OLDEST_SERVER, clean, without_credentials};
use super::links::Links;
use super::probe::major_minor;
use crate::client::connection_of_a_publisher;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// For connections that streams are read back by: async-nats's own choice.
const READ_BUFFER_BYTES: u16 = u16::MAX;
/// For those of publishers, which hear little but acks; there may be thousands.
const READ_BUFFER_BYTES_OF_PUBLISHER: u16 = 8 << 10;
/// A connection that is down for so long is lost: its client found no server to go on with.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// Between two looks at a connection.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A cluster that has just lost or not yet found its leader answers calls with this error.
const TEMPORARILY_UNAVAILABLE: u64 = 10_008;
const UNAVAILABLE_RETRIES: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Opens connections to the same servers.
#[derive(Clone)]
pub struct Connector {
    addresses: Vec<ServerAddr>,
    access: Access,
    shown: String,
    trouble: Arc<Trouble>,
    detour: Option<Arc<Detour>>,
}

/// The doors by which publishers get to the servers, where faults of links are about them.
struct Detour {
    /// Of publishers with doors of their own, by number.
    named: BTreeMap<u32, Vec<ServerAddr>>,
    others: Vec<ServerAddr>,
}

/// When a connection went down, unless it is up.
#[derive(Default)]
struct Link {
    down: Mutex<Option<Clock>>,
}

/// What servers complained about on any connection.
#[derive(Default)]
struct Trouble {
    last: Mutex<Option<String>>,
    news: Notify,
}

impl Connector {
    /// A connector to any of `servers`, as URLs. Credentials of the first URL that has some count for
    /// all: `user:password@`, or a token as `token@`.
    ///
    /// # Errors
    /// One of them is no URL of a server.
    pub fn new(servers: &[String]) -> Result<Self, LiveError> {
        let addresses = servers.iter().map(|server| address(server));
        Ok(Self {
            addresses: addresses.collect::<Result<_, _>>()?,
            access: Access::default(),
            shown: without_credentials(servers),
            trouble: Arc::default(),
            detour: None,
        })
    }

    /// Lets publishers go by the doors for them, if there are any.
    ///
    /// # Errors
    /// None that a door can give.
    pub(super) fn by(self, links: Option<&Links>) -> Result<Self, LiveError> {
        let Some(links) = links else { return Ok(self) };
        let addresses = |doors: Vec<SocketAddr>| {
            let doors = doors.iter().map(|door| address(&format!("nats://{door}")));
            doors.collect::<Result<Vec<_>, _>>()
        };
        let named = links.named().map(|number| {
            let doors = addresses(links.for_publisher(Some(number)))?;
            Ok((number, doors))
        });
        let detour = Detour {
            named: named.collect::<Result<_, LiveError>>()?,
            others: addresses(links.for_publisher(None))?,
        };
        Ok(Self {
            detour: Some(Arc::new(detour)),
            ..self
        })
    }

    /// How many file descriptors a connection of a publisher takes here: a door takes two more.
    pub(super) const fn descriptors(&self) -> u64 {
        if self.detour.is_some() { 3 } else { 1 }
    }

    /// Gets in like this, instead of as the addresses say.
    #[must_use]
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// A connector to the same servers that does not hear what they complain about here.
    pub(super) fn alike(&self) -> Self {
        Self {
            trouble: Arc::default(),
            ..self.clone()
        }
    }

    /// The servers, without credentials.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// A new connection to a server that takes fast batches.
    ///
    /// # Errors
    /// Nobody answers, it is no NATS server, it refuses the credentials, or it is too old.
    pub async fn connect(&self) -> Result<Connection, LiveError> {
        self.connect_to(self.addresses.clone(), READ_BUFFER_BYTES)
            .await
    }

    /// As [`Connector::connect`]; for the publisher of this number: the servers are tried in turn, as
    /// publishers spread over them in the simulator, by the door that is the publisher's.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub(super) async fn connect_publisher(&self, number: u32) -> Result<Connection, LiveError> {
        let mut addresses = match &self.detour {
            Some(detour) => detour.named.get(&number).unwrap_or(&detour.others),
            None => &self.addresses,
        }
        .clone();
        let first = number as usize % addresses.len().max(1);
        addresses.rotate_left(first);
        self.connect_to(addresses, READ_BUFFER_BYTES_OF_PUBLISHER)
            .await
    }

    async fn connect_to(
        &self,
        addresses: Vec<ServerAddr>,
        read_bytes: u16,
    ) -> Result<Connection, LiveError> {
        let (trouble, link) = (Arc::clone(&self.trouble), Arc::<Link>::default());
        let heard = Arc::clone(&link);
        let options = connection_of_a_publisher(self.options()?)
            .connection_timeout(CONNECT_PATIENCE)
            .read_buffer_capacity(read_bytes)
            .retain_servers_order()
            .request_timeout(Some(CALL_PATIENCE))
            .event_callback(move |event| {
                let (trouble, link) = (Arc::clone(&trouble), Arc::clone(&heard));
                async move {
                    trouble.hear(&event);
                    link.hear(&event);
                }
            });
        let all = CONNECT_PATIENCE * u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let connecting = options.connect(addresses);
        let client = match tokio::time::timeout(all + Duration::from_secs(1), connecting).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(self.classify(&error)),
            Err(_) => return Err(self.unreachable("no greeting came in time".to_owned())),
        };
        let info = client.server_info();
        if major_minor(&info.version).is_none_or(|version| version < OLDEST_SERVER) {
            return Err(LiveError::OldServer {
                server: self.shown.clone(),
                version: clean(&info.version),
            });
        }
        Ok(Connection {
            jetstream: jetstream::with_prefix(client.clone(), &self.access.api_prefix),
            client,
            api_prefix: self.access.api_prefix.clone(),
            version: info.version,
            max_payload: info.max_payload,
            shown: self.shown.clone(),
            trouble: Arc::clone(&self.trouble),
            link,
        })
    }

    fn options(&self) -> Result<ConnectOptions, LiveError> {
        let options = self
            .access
            .options()
            .map_err(|why| LiveError::Credentials {
                servers: self.shown.clone(),
                reason: clean(&why.to_string()),
            })?;
        Ok(match self.access.identity {
            Identity::Addresses => with_credentials(options, &self.addresses),
            Identity::User { .. }
            | Identity::Token(_)
            | Identity::Nkey(_)
            | Identity::Credentials(_) => options,
        })
    }

    fn unreachable(&self, reason: String) -> LiveError {
        LiveError::Unreachable {
            servers: self.shown.clone(),
            reason,
        }
    }

    fn classify(&self, error: &ConnectError) -> LiveError {
        let reason = describe(error);
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                LiveError::Credentials {
                    servers: self.shown.clone(),
                    reason,
                }
            }
            ConnectErrorKind::TimedOut => self.unreachable(format!(
                "no NATS greeting within {} s",
                CONNECT_PATIENCE.as_secs()
            )),
            ConnectErrorKind::Io if !is_of_the_network(error) => LiveError::Protocol {
                server: self.shown.clone(),
                reason,
            },
            ConnectErrorKind::Io
            | ConnectErrorKind::ServerParse
            | ConnectErrorKind::Dns
            | ConnectErrorKind::Tls
            | ConnectErrorKind::MaxReconnects => self.unreachable(reason),
        }
    }
}

/// A connection to one of the servers.
#[derive(Clone)]
pub struct Connection {
    /// The connection.
    pub client: Client,
    /// JetStream over it.
    pub jetstream: Context,
    /// Version of the server.
    pub version: String,
    /// Largest payload that the server takes, in bytes.
    pub max_payload: usize,
    /// What subjects of the JetStream API begin with.
    pub api_prefix: String,
    shown: String,
    trouble: Arc<Trouble>,
    link: Arc<Link>,
}

impl Connection {
    /// The same connection for one more publisher: unanswered JetStream publishes are counted apart.
    pub(super) fn shared(&self) -> Self {
        Self {
            jetstream: jetstream::with_prefix(self.client.clone(), &self.api_prefix),
            ..self.clone()
        }
    }

    /// Whether the server survives a ping before the first reply of a batch: from 2.15 on.
    pub fn takes_early_pings(&self) -> bool {
        major_minor(&self.version).is_some_and(|version| version >= (2, 15))
    }

    /// Ends when the connection is lost: down for 2 s, with no server to go on with.
    pub async fn lost(&self) -> LiveError {
        self.lost_for(LOST_AFTER).await
    }

    /// Ends when the connection has been down for `span`.
    pub async fn lost_for(&self, span: Duration) -> LiveError {
        while !self.link.is_down_for(span) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        LiveError::Unreachable {
            servers: self.shown.clone(),
            reason: "the connection is lost".to_owned(),
        }
    }

    /// Makes an API call, `call` in words and `subject` after the prefix of the API, and gives its answer.
    ///
    /// # Errors
    /// JetStream is off, a permission is missing, nothing came in time, the connection is lost, or
    /// the answer is an error.
    pub async fn call(
        &self,
        call: &'static str,
        subject: &str,
        body: &Value,
    ) -> Result<Value, LiveError> {
        let mut attempt = 0;
        loop {
            let answer = self.call_once(call, subject, body).await;
            attempt += 1;
            match answer {
                Err(LiveError::Api { code, .. })
                    if code == TEMPORARILY_UNAVAILABLE && attempt < UNAVAILABLE_RETRIES =>
                {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                other => return other,
            }
        }
    }

    async fn call_once(
        &self,
        call: &'static str,
        subject: &str,
        body: &Value,
    ) -> Result<Value, LiveError> {
        self.trouble.forget();
        let subject = format!("{}.{subject}", self.api_prefix);
        let request = self.client.request(subject, body.to_string().into());
        let answer = tokio::select! {
            biased;
            answer = request => answer,
            reason = self.trouble.next_violation() => return Err(LiveError::Permission(reason)),
            lost = self.lost() => return Err(lost),
        };
        let message = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => LiveError::JetStreamOff {
                server: self.shown.clone(),
                reason: format!("nobody answers {call}"),
            },
            RequestErrorKind::TimedOut => LiveError::NoAnswer {
                server: self.shown.clone(),
                call,
                seconds: CALL_PATIENCE.as_secs(),
            },
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => LiveError::Api {
                call,
                code: 0,
                description: clean(&error.to_string()),
            },
        })?;
        let answer: Value =
            serde_json::from_slice(&message.payload).map_err(|error| LiveError::Protocol {
                server: self.shown.clone(),
                reason: format!("the answer to {call} is no JSON ({error})"),
            })?;
        match answer.get("error") {
            Some(error) => Err(self.refused(call, error)),
            None => Ok(answer),
        }
    }

    fn refused(&self, call: &'static str, error: &Value) -> LiveError {
        /// JetStream is not enabled, on the server or for the account.
        const OFF: [u64; 2] = [10_039, 10_076];
        let code = error["err_code"].as_u64().unwrap_or(0);
        let description = clean(error["description"].as_str().unwrap_or("no reason given"));
        if OFF.contains(&code) {
            return LiveError::JetStreamOff {
                server: self.shown.clone(),
                reason: description,
            };
        }
        LiveError::Api {
            call,
            code,
            description,
        }
    }
}

impl Link {
    fn hear(&self, event: &async_nats::Event) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            async_nats::Event::Connected => *down = None,
            async_nats::Event::Disconnected | async_nats::Event::Closed => {
                down.get_or_insert_with(Clock::start);
            }
            _ => {}
        }
    }

    fn is_down_for(&self, span: Duration) -> bool {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        down.is_some_and(|down| down.is_past(span))
    }
}

impl Trouble {
    fn hear(&self, event: &async_nats::Event) {
        if let async_nats::Event::ServerError(error) = event {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(clean(&error.to_string()));
            self.news.notify_waiters();
        }
    }

    fn forget(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Ends when a server reports that a permission is missing.
    async fn next_violation(&self) -> String {
        loop {
            let news = self.news.notified();
            let last = self
                .last
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(last) = last
                && last.to_ascii_lowercase().contains("permissions violation")
            {
                return last;
            }
            news.await;
        }
    }
}

/// A server of this URL.
fn address(server: &str) -> Result<ServerAddr, LiveError> {
    server.parse().map_err(|error| LiveError::Unreachable {
        servers: without_credentials(&[server.to_owned()]),
        reason: format!("this is no server URL such as nats://127.0.0.1:4222 ({error})"),
    })
}

fn describe(error: &ConnectError) -> String {
    match std::error::Error::source(error) {
        Some(source) => clean(&source.to_string()),
        None => clean(&error.to_string()),
    }
}

/// Whether the operating system reported it; otherwise what came is no NATS protocol.
fn is_of_the_network(error: &ConnectError) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|error| error.raw_os_error().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_url_is_refused_without_its_credentials() {
        let servers = ["http://me:secret@host".to_owned()];
        let error = Connector::new(&servers).err().unwrap().to_string();
        assert!(
            error.contains("no server URL") && !error.contains("secret"),
            "{error}"
        );
    }
}
