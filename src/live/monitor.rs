//! What servers say of themselves while a run goes on, asked at their monitoring ports.
//!
//! On a thread of its own: neither the publishers nor their clock notice. A server that is down, stands still or
//! talks nonsense is a hole in its series, and never the end of a run. Leans on `told` for what answers say, on
//! `clock`.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use super::clock::Clock;
use super::told::{Answers, lag_of};
use crate::measure::{ServerFigures, ServerSeries};

/// Most bytes of an answer: a server with more to say is not asked in this way.
const LARGEST_ANSWER: u64 = 4 << 20;
/// Longest wait for the answers of a server; shorter where it is asked more often.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait for the addresses of a server, once, before it is asked.
const LOOKUP: Duration = Duration::from_secs(5);
/// What is asked; of connections only those to which most is to be written.
const PATHS: [&str; 3] = [
    "varz",
    "jsz?accounts=true&streams=true",
    "connz?sort=pending&limit=256",
];

/// A server to be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Monitored {
    /// What it is called in results; `None`: as it calls itself.
    pub(super) name: Option<String>,
    /// Its monitoring port, such as `http://127.0.0.1:8222`.
    pub(super) url: String,
}

/// Servers that are asked.
pub(super) struct Monitor {
    end: oneshot::Sender<()>,
    thread: JoinHandle<Vec<ServerSeries>>,
}

impl Monitor {
    /// Asks `servers` about themselves and `stream`, each `every`, from now on by the time of `clock`; `None` if
    /// there are none, or the system has no thread.
    pub(super) fn start(
        servers: Vec<Monitored>,
        stream: String,
        every: Duration,
        clock: Clock,
    ) -> Option<Self> {
        if servers.is_empty() {
            return None;
        }
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let work = move || {
            let said = runtime.block_on(ask(&servers, &stream, every, clock, ended));
            // A system that still looks a name up is not waited for.
            runtime.shutdown_background();
            said
        };
        let thread = std::thread::Builder::new().name("monitor".to_owned());
        let thread = thread.spawn(work).ok()?;
        Some(Self { end, thread })
    }

    /// What they said.
    pub(super) fn finish(self) -> Vec<ServerSeries> {
        // It listens until it has heard this.
        let _ = self.end.send(());
        self.thread.join().unwrap_or_default()
    }
}

async fn ask(
    servers: &[Monitored],
    stream: &str,
    every: Duration,
    clock: Clock,
    mut ended: oneshot::Receiver<()>,
) -> Vec<ServerSeries> {
    let named = servers.iter().map(|server| {
        let name = server.name.clone().unwrap_or_default();
        ServerSeries::new(name, server.url.clone())
    });
    let mut all: Vec<ServerSeries> = named.collect();
    let found = join_all(servers.iter().map(|server| Place::find(&server.url)));
    let places = tokio::select! {
        biased;
        _ = &mut ended => return named_by_place(all),
        places = found => places,
    };
    let patience = every.min(PATIENCE);
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Of so many ticks one is a look.
    let (mut ticks_each, mut left) = (1_u64, 0);
    loop {
        tokio::select! {
            biased;
            _ = &mut ended => break,
            _ = ticks.tick() => {}
        }
        if left > 0 {
            left -= 1;
            continue;
        }
        left = ticks_each - 1;
        let at_ns = clock.now().as_nanos();
        let look = join_all(places.iter().map(|place| answers(place.as_ref(), patience)));
        let look = tokio::select! {
            biased;
            _ = &mut ended => break,
            look = look => look,
        };
        for (series, said) in all.iter_mut().zip(&look) {
            series.push(at_ns, figures(said.as_ref(), stream, &look));
            if series.name.is_empty() {
                series.name = said.as_ref().and_then(Answers::server).unwrap_or_default();
            }
        }
        if all.iter().any(ServerSeries::is_full) {
            all.iter_mut().for_each(ServerSeries::thin_out);
            ticks_each = ticks_each.saturating_mul(2);
        }
    }
    named_by_place(all)
}

/// Who has not said what it is called has the name of its port.
fn named_by_place(mut all: Vec<ServerSeries>) -> Vec<ServerSeries> {
    for series in &mut all {
        if series.name.is_empty() {
            series.name.clone_from(&series.monitor);
        }
    }
    all
}

/// What one server said, and of its replica whoever leads.
fn figures(said: Option<&Answers>, stream: &str, look: &[Option<Answers>]) -> ServerFigures {
    let Some(said) = said else {
        return ServerFigures::default();
    };
    ServerFigures {
        raft_lag: said
            .server()
            .and_then(|name| lag_of(&name, stream, look.iter().flatten())),
        ..said.figures(stream)
    }
}

/// A monitoring port, looked up.
struct Place<'a> {
    authority: &'a str,
    base: &'a str,
    addresses: Vec<SocketAddr>,
}

impl<'a> Place<'a> {
    /// Looks a monitoring port up; `None` if that leads nowhere in time.
    async fn find(url: &'a str) -> Option<Self> {
        let (authority, base) = parts(url)?;
        let looking = tokio::time::timeout(LOOKUP, lookup_host(authority));
        Some(Self {
            authority,
            base,
            addresses: looking.await.ok()?.ok()?.collect(),
        })
    }
}

/// The answers of a server; `None` if it does not give the first.
async fn answers(place: Option<&Place<'_>>, patience: Duration) -> Option<Answers> {
    let place = place?;
    let all = PATHS.map(|path| async move {
        let got = tokio::time::timeout(patience, get(place, path)).await;
        got.ok()?.ok()
    });
    let [varz, jsz, connz] = all;
    let (varz, jsz, connz) = tokio::join!(varz, jsz, connz);
    Answers::read(&varz?, jsz.as_deref(), connz.as_deref())
}

/// An answer over HTTP, head and body.
async fn get(place: &Place<'_>, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(&place.addresses[..]).await?;
    let (authority, base) = (place.authority, place.base);
    // By HTTP/1.0 the body ends with the connection.
    let request = format!("GET {base}/{path} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream
        .take(LARGEST_ANSWER + 1)
        .read_to_end(&mut answer)
        .await?;
    if answer.len() as u64 > LARGEST_ANSWER {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(answer)
}

/// Host with port, and what stands before paths, of the URL of a monitoring port.
fn parts(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((authority, base.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;

    #[test]
    fn a_url_has_an_authority_and_may_have_a_base() {
        assert_eq!(parts("http://[::1]:8222"), Some(("[::1]:8222", "")));
        assert_eq!(parts("http://a:1/nats/"), Some(("a:1", "/nats")));
        assert_eq!(parts("nats://a:1"), None);
    }

    /// One that answers, one that accepts and is silent, one that is not there.
    #[tokio::test]
    async fn who_does_not_answer_is_a_hole_and_nobody_waits_long() {
        let well = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let monitored = |address: std::net::SocketAddr| Monitored {
            name: None,
            url: format!("http://{address}"),
        };
        let servers = vec![
            monitored(well.local_addr().unwrap()),
            monitored(silent.local_addr().unwrap()),
            monitored(gone.local_addr().unwrap()),
        ];
        drop(gone);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = well.accept().await.unwrap();
                let mut request = [0; 256];
                let _ = stream.read(&mut request).await.unwrap();
                let said = b"HTTP/1.0 200 OK\r\n\r\n{\"server_name\":\"n\",\"mem\":7}";
                stream.write_all(said).await.unwrap();
            }
        });
        let clock = Clock::start();
        let every = Duration::from_millis(50);
        let monitor = Monitor::start(servers, "S".to_owned(), every, clock).unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let before = clock.now();
        let all = monitor.finish();
        assert!(clock.now() - before < Time::from_millis(200));
        let looks = all[0].at_ns.len();
        assert!(looks >= 2, "{all:?}");
        assert!(
            all.iter()
                .all(|series| series.is_whole() && series.at_ns.len() == looks)
        );
        assert_eq!(
            (all[0].name.as_str(), all[0].memory_bytes[0]),
            ("n", Some(7))
        );
        assert_eq!(all[0].slow_consumers[0], None, "it did not say");
        assert_eq!(
            [all[1].memory_bytes[0], all[2].memory_bytes[0]],
            [None, None]
        );
        assert_eq!(all[1].name, all[1].monitor);
    }
}
