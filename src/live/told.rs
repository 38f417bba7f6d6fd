//! What the answers of a monitoring port say: `/varz`, `/jsz` and `/connz` of nats-server, read with
//! indulgence.
//!
//! Only fields that are wanted are read, of however many streams a server tells. Whatever is missing or of
//! another kind is not known. Field names are those of nats-server's `server/monitor.go`; those with `omitempty`
//! are zero where the object around them is there. Leans on `lenient`, the figures of `measure` and the crate
//! `httparse`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::clean;
use super::lenient::{Kind, Maybe, objects};
use crate::measure::ServerFigures;

/// The answers of a server at one look: what they say of it and of one stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Answers {
    server: Option<String>,
    figures: ServerFigures,
    /// Who follows, if it leads, and how many append entries each is behind.
    followers: Option<Vec<(String, u64)>>,
}

/// Why there are no [`Answers`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoAnswers {
    /// Not what is said over HTTP when all is well: its status, where there is one.
    #[error("it does not answer like a monitoring port{}", .0.map(|code| format!(": status {code}")).unwrap_or_default())]
    Http(Option<u16>),
    /// What was said is not of a nats-server.
    #[error("its answer is not that of a nats-server")]
    Nonsense,
}

impl Answers {
    /// Reads answers over HTTP, head and body, for what they say of the server and of `stream`.
    ///
    /// # Errors
    /// The first is none of a server; what is wrong with the others is only not known.
    pub fn read(
        varz: &[u8],
        jsz: Option<&[u8]>,
        connz: Option<&[u8]>,
        stream: &str,
    ) -> Result<Self, NoAnswers> {
        let Maybe(varz) = serde_json::from_slice(body(varz)?).map_err(|_| NoAnswers::Nonsense)?;
        let varz: Varz = varz.ok_or(NoAnswers::Nonsense)?;
        let jsz: Jsz = read_object(jsz).unwrap_or_default();
        let connz: Connz = read_object(connz).unwrap_or_default();
        let named = varz.server_name.0.filter(|name| !name.is_empty());
        let server = named.map(|name| clean(&name));
        let cluster = jsz.cluster_of(stream).unwrap_or_default();
        let leads = cluster
            .leader
            .0
            .map(|leader| Some(clean(&leader)) == server);
        let jetstream = varz.jetstream.0.unwrap_or_default();
        let api = jetstream.stats.0.and_then(|stats| stats.api.0);
        let figures = ServerFigures {
            cpu_percent: varz.cpu.0.filter(|cpu| (0.0..1e6).contains(cpu)),
            memory_bytes: known(varz.mem),
            slow_consumers: known(varz.slow_consumers),
            connections: known(varz.connections),
            pending_bytes: connz.connections.0.map(|all| {
                let pending = all.into_iter().filter_map(|one| known(one.pending_bytes));
                pending.fold(0, u64::saturating_add).min(MOST)
            }),
            // With `omitempty`.
            api_in_flight: api.as_ref().map(|api| known(api.inflight).unwrap_or(0)),
            api_requests: api.and_then(|api| known(api.total)),
            leads,
            raft_lag: None,
        };
        let replicas = cluster.replicas.0.unwrap_or_default().into_iter();
        // With `omitempty`.
        let behind = |one: Replica| Some((clean(&one.name.0?), known(one.lag).unwrap_or(0)));
        let followers = (leads == Some(true)).then(|| replicas.filter_map(behind).collect());
        Ok(Self {
            server,
            figures,
            followers,
        })
    }

    /// What the server calls itself.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// What it says of itself and of the stream; how far its replica is behind only a leader knows.
    pub const fn figures(&self) -> ServerFigures {
        self.figures
    }
}

/// How many append entries the replica of each server is behind, by its name, as whoever says that he leads
/// says: none for himself. Of several who say so the first counts.
pub fn lags_of<'a>(look: impl IntoIterator<Item = &'a Answers>) -> BTreeMap<&'a str, u64> {
    let mut lags = BTreeMap::new();
    for said in look {
        let Some(followers) = &said.followers else {
            continue;
        };
        let itself = said.server().map(|name| (name, 0));
        let followers = followers.iter().map(|(name, lag)| (name.as_str(), *lag));
        for (name, lag) in itself.into_iter().chain(followers) {
            lags.entry(name).or_insert(lag);
        }
    }
    lags
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Varz {
    server_name: Maybe<String>,
    cpu: Maybe<f64>,
    mem: Maybe<u64>,
    slow_consumers: Maybe<u64>,
    connections: Maybe<u64>,
    jetstream: Maybe<JetStream>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JetStream {
    stats: Maybe<Stats>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    api: Maybe<Api>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Api {
    total: Maybe<u64>,
    inflight: Maybe<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jsz {
    account_details: Maybe<Vec<Account>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Account {
    stream_detail: Maybe<Vec<Stream>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stream {
    name: Maybe<String>,
    cluster: Maybe<Replicas>,
}

/// The replicas of a stream, as a server sees them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Replicas {
    leader: Maybe<String>,
    replicas: Maybe<Vec<Replica>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Replica {
    name: Maybe<String>,
    lag: Maybe<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Connz {
    connections: Maybe<Vec<Connection>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Connection {
    pending_bytes: Maybe<u64>,
}

objects!(
    Varz, JetStream, Stats, Api, Jsz, Account, Stream, Replicas, Replica, Connz, Connection
);

impl Jsz {
    fn cluster_of(self, stream: &str) -> Option<Replicas> {
        let accounts = self.account_details.0?.into_iter();
        let streams = accounts.flat_map(|account| account.stream_detail.0.unwrap_or_default());
        let mut found = streams.filter(|detail| detail.name.0.as_deref() == Some(stream));
        // another account may have one of the same name, without replicas
        found.find_map(|detail| detail.cluster.0)
    }
}

fn read_object<T: Kind>(answer: Option<&[u8]>) -> Option<T> {
    let Maybe(read) = serde_json::from_slice(body(answer?).ok()?).ok()?;
    read
}

/// The body of an answer that says that all is well.
fn body(answer: &[u8]) -> Result<&[u8], NoAnswers> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    match head.parse(answer) {
        Ok(httparse::Status::Complete(length)) if head.code == Some(200) => {
            Ok(answer.get(length..).unwrap_or_default())
        }
        Ok(httparse::Status::Complete(_)) => Err(NoAnswers::Http(head.code)),
        Ok(httparse::Status::Partial) | Err(_) => Err(NoAnswers::Http(None)),
    }
}

/// No figure of a result is larger.
const MOST: u64 = 1 << 53;

fn known(Maybe(number): Maybe<u64>) -> Option<u64> {
    number.filter(|number| *number <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARZ: &[u8] = br#"{"server_name": "n1", "cpu": 12.5, "mem": 7, "slow_consumers": 0,
        "connections": 2, "jetstream": {"stats": {"api": {"total": 5}}}}"#;

    #[test]
    fn only_a_whole_answer_that_is_well_has_a_body() {
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Ok(&b"{}"[..]));
        let refused = body(b"HTTP/1.0 404 Not Found\r\n\r\n{}");
        assert_eq!(refused, Err(NoAnswers::Http(Some(404))));
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b"), Err(NoAnswers::Http(None)));
        assert_eq!(body(b"INFO {}\r\n"), Err(NoAnswers::Http(None)));
    }

    fn http(body: &[u8]) -> Vec<u8> {
        [b"HTTP/1.0 200 OK\r\n\r\n", body].concat()
    }

    fn read(varz: &[u8], jsz: Option<&[u8]>) -> Result<Answers, NoAnswers> {
        let jsz = jsz.map(http);
        Answers::read(&http(varz), jsz.as_deref(), Some(b"nonsense"), "S")
    }

    fn jsz(leader: &str, replicas: &str) -> Vec<u8> {
        format!(
            r#"{{"account_details": [{{"stream_detail": [{{"name": "OTHER"}},
                {{"name": "S", "cluster": {{"leader": "{leader}", "replicas": {replicas}}}}}]}}]}}"#
        )
        .into_bytes()
    }

    #[test]
    fn what_is_not_said_is_not_known() {
        let said = read(VARZ, None).unwrap();
        let figures = said.figures();
        assert_eq!(figures.cpu_percent, Some(12.5));
        assert_eq!(figures.slow_consumers, Some(0));
        assert_eq!(
            (figures.api_requests, figures.api_in_flight),
            (Some(5), Some(0))
        );
        assert_eq!((figures.pending_bytes, figures.leads), (None, None));
        let silent = read(b"{\"mem\": -1, \"cpu\": \"x\"}", None).unwrap();
        assert_eq!(silent.figures(), ServerFigures::default());
        assert_eq!(read(b"[]", None), Err(NoAnswers::Nonsense));
        assert_eq!(read(b"{", None), Err(NoAnswers::Nonsense));
    }

    #[test]
    fn the_leader_tells_how_far_each_replica_is_behind() {
        let replicas = r#"[{"name": "n2", "lag": 40}, {"name": "n3"}]"#;
        let leader = read(VARZ, Some(&jsz("n1", replicas))).unwrap();
        assert_eq!(leader.figures().leads, Some(true));
        let follower = br#"{"server_name": "n2"}"#;
        let follower = read(follower, Some(&jsz("n1", "[]"))).unwrap();
        assert_eq!(follower.figures().leads, Some(false));
        let look = [follower, leader];
        let lags = [("n1", 0), ("n2", 40), ("n3", 0)];
        assert_eq!(lags_of(&look), BTreeMap::from(lags));
        assert_eq!(lags_of(&look[..1]), BTreeMap::new(), "nobody leads");
    }

    #[test]
    fn what_is_of_another_kind_spoils_nothing_around_it() {
        let odd = r#"[7, {"name": "n2", "lag": [1]}, {"name": {}, "lag": 3}, null]"#;
        let varz = br#"{"server_name": "n1", "cpu": true, "mem": {"a": [1]}, "connections": 3, "more": [{}],
            "jetstream": {"stats": {"api": []}}}"#;
        let said = read(varz, Some(&jsz("n1", odd))).unwrap();
        let figures = said.figures();
        assert_eq!((figures.connections, figures.memory_bytes), (Some(3), None));
        assert_eq!((figures.cpu_percent, figures.api_in_flight), (None, None));
        assert_eq!(lags_of([&said]), BTreeMap::from([("n1", 0), ("n2", 0)]));
    }

    #[test]
    fn pending_bytes_are_those_of_all_connections() {
        let connz = http(br#"{"connections": [{"pending_bytes": 3}, {"pending_bytes": -1}, {"pending_bytes": 4}]}"#);
        let said = Answers::read(&http(VARZ), None, Some(&connz), "S").unwrap();
        assert_eq!(said.figures().pending_bytes, Some(7));
    }
}
