//! What servers say of themselves while a run goes on, asked at their monitoring ports.
//!
//! On a thread of its own: neither the publishers nor their clock notice. A server that is down, stands still or
//! talks nonsense is a hole in its series, and never the end of a run; of one that never answers a note says why.
//! Leans on `told` for what answers say, on `clock`.

use std::collections::BTreeMap;
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
use super::told::{Answers, lags_of};
use crate::machine::Time;
use crate::measure::{ServerFigures, ServerSeries};
use crate::units::{Bytes, Span};

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
    thread: JoinHandle<Said>,
}

/// What servers said in a run.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Of each server.
    pub(super) series: Vec<ServerSeries>,
    /// Who never answered, and why.
    pub(super) notes: Vec<String>,
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
    pub(super) fn finish(self) -> Said {
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
) -> Said {
    let mut all: Vec<Asked> = servers.iter().map(Asked::new).collect();
    let found = join_all(servers.iter().map(|server| Place::find(&server.url)));
    let places = tokio::select! {
        biased;
        _ = &mut ended => {
            let unfound = Err("the run was over before its address was found".to_owned());
            all.iter_mut().for_each(|asked| asked.hear(&unfound));
            return said(all);
        }
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
        let look = join_all(places.iter().map(|place| answers(place, patience, stream)));
        let look = tokio::select! {
            biased;
            _ = &mut ended => break,
            look = look => look,
        };
        let lags = lags_of(look.iter().flatten());
        for (asked, said) in all.iter_mut().zip(&look) {
            asked.hear(said);
            asked.series.push(at_ns, figures(said.as_ref().ok(), &lags));
        }
        if all.iter().any(|asked| asked.series.is_full()) {
            all.iter_mut().for_each(|asked| asked.series.thin_out());
            ticks_each = ticks_each.saturating_mul(2);
        }
    }
    said(all)
}

/// A server while it is asked.
struct Asked {
    series: ServerSeries,
    /// Why it has not answered so far; `None` once it has.
    silent: Option<String>,
}

impl Asked {
    fn new(server: &Monitored) -> Self {
        let name = server.name.clone().unwrap_or_default();
        Self {
            series: ServerSeries::new(name, server.url.clone()),
            silent: Some(String::new()),
        }
    }

    fn hear(&mut self, said: &Result<Answers, String>) {
        match said {
            Ok(said) => {
                self.silent = None;
                if self.series.name.is_empty() {
                    self.series.name = said.server().unwrap_or_default().to_owned();
                }
            }
            Err(why) => {
                if let Some(silent) = &mut self.silent {
                    silent.clone_from(why);
                }
            }
        }
    }
}

/// What all said. Who has not said what it is called has the name of its port.
fn said(all: Vec<Asked>) -> Said {
    let mut said = Said::default();
    for Asked { mut series, silent } in all {
        let monitor = &series.monitor;
        // A run may be over before anybody was asked.
        if let Some(why) = silent.filter(|why| !why.is_empty()) {
            let who = match series.name.as_str() {
                "" => String::new(),
                name => format!(" of {name}"),
            };
            said.notes.push(format!(
                "the monitoring port{who} at {monitor} never answered, and there are no figures of its server: {why}"
            ));
        }
        if series.name.is_empty() {
            series.name.clone_from(&series.monitor);
        }
        said.series.push(series);
    }
    said
}

/// What one server said, and of its replica whoever leads.
fn figures(said: Option<&Answers>, lags: &BTreeMap<&str, u64>) -> ServerFigures {
    let Some(said) = said else {
        return ServerFigures::default();
    };
    ServerFigures {
        raft_lag: said.server().and_then(|name| lags.get(name).copied()),
        ..said.figures()
    }
}

/// A monitoring port, looked up.
struct Place<'a> {
    authority: &'a str,
    base: &'a str,
    addresses: Vec<SocketAddr>,
}

impl<'a> Place<'a> {
    /// Looks a monitoring port up.
    ///
    /// # Errors
    /// That leads nowhere in time; in words.
    async fn find(url: &'a str) -> Result<Self, String> {
        let (authority, base) = parts(url).ok_or("it has no address")?;
        let looking = tokio::time::timeout(LOOKUP, lookup_host(authority)).await;
        let found = looking.map_err(|_| "its address was not found in time")?;
        let found = found.map_err(|error| format!("its address was not found: {error}"))?;
        Ok(Self {
            authority,
            base,
            addresses: found.collect(),
        })
    }
}

/// The answers of a server.
///
/// # Errors
/// It does not give the first; why, in words.
async fn answers(
    place: &Result<Place<'_>, String>,
    patience: Duration,
    stream: &str,
) -> Result<Answers, String> {
    let place = place.as_ref().map_err(Clone::clone)?;
    let all = PATHS.map(|path| async move {
        let got = tokio::time::timeout(patience, get(place, path)).await;
        let late = |_| {
            format!(
                "nothing within {}",
                Span(Time::from_nanos(patience.as_nanos() as u64))
            )
        };
        got.map_err(late)?.map_err(|error| error.to_string())
    });
    let [varz, jsz, connz] = all;
    let (varz, jsz, connz) = tokio::join!(varz, jsz, connz);
    let (jsz, connz) = (jsz.ok(), connz.ok());
    Answers::read(&varz?, jsz.as_deref(), connz.as_deref(), stream)
        .map_err(|error| error.to_string())
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
        let what = format!("its answer is larger than {}", Bytes(LARGEST_ANSWER));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
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

    #[test]
    fn a_url_has_an_authority_and_may_have_a_base() {
        assert_eq!(parts("http://[::1]:8222"), Some(("[::1]:8222", "")));
        assert_eq!(parts("http://a:1/nats/"), Some(("a:1", "/nats")));
        assert_eq!(parts("nats://a:1"), None);
    }

    /// One that answers, one that accepts and is silent, one that is not there, one that is no such port.
    #[tokio::test]
    async fn who_does_not_answer_is_a_hole_and_nobody_waits_long() {
        let well = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
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
            monitored(other.local_addr().unwrap()),
        ];
        drop(gone);
        let saying = |listener: tokio::net::TcpListener, said: &'static [u8]| async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 256];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(said).await.unwrap();
            }
        };
        let said = b"HTTP/1.0 200 OK\r\n\r\n{\"server_name\":\"n\",\"mem\":7}";
        tokio::spawn(saying(well, said));
        tokio::spawn(saying(other, b"INFO {}\r\n"));
        let clock = Clock::start();
        let every = Duration::from_millis(50);
        let monitor = Monitor::start(servers, "S".to_owned(), every, clock).unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let before = clock.now();
        let Said { series: all, notes } = monitor.finish();
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
        let whys = [
            "nothing within 50ms",
            "refused",
            "does not answer like a monitoring port",
        ];
        assert_eq!(notes.len(), whys.len(), "{notes:?}");
        for ((note, series), why) in notes.iter().zip(&all[1..]).zip(whys) {
            let who = format!("the monitoring port at {} never answered", series.monitor);
            assert!(note.starts_with(&who) && note.contains(why), "{note}");
        }
    }
}
