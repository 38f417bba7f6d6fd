//! What the answers of a monitoring port say: `/varz`, `/jsz` and `/connz` of nats-server, read with
//! indulgence.
//!
//! Whatever is missing or of another kind is not known. Field names are those of nats-server's
//! `server/monitor.go`; those with `omitempty` are zero where the object around them is there. Leans on the figures
//! of `measure` and on the crate `httparse`.

use serde_json::Value;

use super::error::clean;
use crate::measure::ServerFigures;

/// The answers of a server at one look.
#[derive(Clone, PartialEq, Debug)]
pub struct Answers {
    varz: Value,
    jsz: Value,
    connz: Value,
}

impl Answers {
    /// Reads answers over HTTP, head and body; `None` if the first is none of a server.
    pub fn read(varz: &[u8], jsz: Option<&[u8]>, connz: Option<&[u8]>) -> Option<Self> {
        let read = |answer: &[u8]| serde_json::from_slice(body(answer)?).ok();
        let varz: Value = read(varz)?;
        varz.is_object().then(|| Self {
            varz,
            jsz: jsz.and_then(read).unwrap_or_default(),
            connz: connz.and_then(read).unwrap_or_default(),
        })
    }

    /// What the server calls itself.
    pub fn server(&self) -> Option<String> {
        let name = self.varz["server_name"].as_str()?;
        (!name.is_empty()).then(|| clean(name))
    }

    /// What it says of itself and of `stream`; how far its replica is behind only a leader knows.
    pub fn figures(&self, stream: &str) -> ServerFigures {
        let number = |name: &str| known(&self.varz[name]);
        let api = &self.varz["jetstream"]["stats"]["api"];
        let pending = self.connz["connections"].as_array();
        let leader = self.replicas_of(stream).map(|cluster| &cluster["leader"]);
        ServerFigures {
            cpu_percent: self.varz["cpu"]
                .as_f64()
                .filter(|cpu| (0.0..1e6).contains(cpu)),
            memory_bytes: number("mem"),
            slow_consumers: number("slow_consumers"),
            connections: number("connections"),
            pending_bytes: pending.map(|all| {
                let pending = all.iter().filter_map(|one| known(&one["pending_bytes"]));
                pending.fold(0, u64::saturating_add).min(MOST)
            }),
            api_requests: known(&api["total"]),
            // With `omitempty`.
            api_in_flight: api
                .is_object()
                .then(|| known(&api["inflight"]).unwrap_or(0)),
            leads: leader
                .and_then(Value::as_str)
                .map(|leader| Some(clean(leader)) == self.server()),
            raft_lag: None,
        }
    }

    /// The replicas of a stream, as this server sees them.
    fn replicas_of(&self, stream: &str) -> Option<&Value> {
        let accounts = self.jsz["account_details"].as_array()?;
        let streams = accounts
            .iter()
            .filter_map(|account| account["stream_detail"].as_array());
        let found = streams.flatten().find(|detail| detail["name"] == stream)?;
        found["cluster"].is_object().then(|| &found["cluster"])
    }
}

/// How many append entries the replica of the server `name` is behind, as whoever says that he leads
/// says: none for himself.
pub fn lag_of<'a>(
    name: &str,
    stream: &str,
    look: impl Iterator<Item = &'a Answers>,
) -> Option<u64> {
    let mut lags = look.filter_map(|said| {
        if said.figures(stream).leads != Some(true) {
            return None;
        }
        if said.server().as_deref() == Some(name) {
            return Some(0);
        }
        let mut replicas = said.replicas_of(stream)?["replicas"].as_array()?.iter();
        let own = replicas.find(|one| one["name"].as_str().map(clean).as_deref() == Some(name))?;
        // With `omitempty`.
        Some(known(&own["lag"]).unwrap_or(0))
    });
    lags.next()
}

/// The body of an answer that says that all is well.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    match head.parse(answer).ok()? {
        httparse::Status::Complete(length) if head.code == Some(200) => answer.get(length..),
        httparse::Status::Complete(_) | httparse::Status::Partial => None,
    }
}

/// No figure of a result is larger.
const MOST: u64 = 1 << 53;

fn known(value: &Value) -> Option<u64> {
    value.as_u64().filter(|number| *number <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARZ: &[u8] = br#"{"server_name": "n1", "cpu": 12.5, "mem": 7, "slow_consumers": 0,
        "connections": 2, "jetstream": {"stats": {"api": {"total": 5}}}}"#;

    #[test]
    fn only_a_whole_answer_that_is_well_has_a_body() {
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Some(&b"{}"[..]));
        assert_eq!(body(b"HTTP/1.0 404 Not Found\r\n\r\n{}"), None);
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b"), None);
        assert_eq!(body(b"INFO {}\r\n"), None);
    }

    fn http(body: &[u8]) -> Vec<u8> {
        [b"HTTP/1.0 200 OK\r\n\r\n", body].concat()
    }

    fn read(varz: &[u8], jsz: Option<&[u8]>) -> Option<Answers> {
        let jsz = jsz.map(http);
        Answers::read(&http(varz), jsz.as_deref(), Some(b"nonsense"))
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
        let figures = said.figures("S");
        assert_eq!(figures.cpu_percent, Some(12.5));
        assert_eq!(figures.slow_consumers, Some(0));
        assert_eq!(
            (figures.api_requests, figures.api_in_flight),
            (Some(5), Some(0))
        );
        assert_eq!((figures.pending_bytes, figures.leads), (None, None));
        let silent = read(b"{\"mem\": -1, \"cpu\": \"x\"}", None).unwrap();
        assert_eq!(silent.figures("S"), ServerFigures::default());
        assert_eq!(read(b"[]", None), None);
    }

    #[test]
    fn the_leader_tells_how_far_each_replica_is_behind() {
        let replicas = r#"[{"name": "n2", "lag": 40}, {"name": "n3"}]"#;
        let leader = read(VARZ, Some(&jsz("n1", replicas))).unwrap();
        assert_eq!(leader.figures("S").leads, Some(true));
        let follower = br#"{"server_name": "n2"}"#;
        let follower = read(follower, Some(&jsz("n1", "[]"))).unwrap();
        assert_eq!(follower.figures("S").leads, Some(false));
        let look = [follower, leader];
        let lag = |name| lag_of(name, "S", look.iter());
        assert_eq!(
            [lag("n1"), lag("n2"), lag("n3")],
            [Some(0), Some(40), Some(0)]
        );
        assert_eq!(lag("n4"), None);
        assert_eq!(lag_of("n2", "S", look[..1].iter()), None, "nobody leads");
        assert_eq!(lag_of("n2", "T", look.iter()), None);
    }
}
