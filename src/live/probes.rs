//! Probes of a live run: each with a connection of its own, all on a thread of their own, so that the
//! publishers' work does not count as the server's.
//!
//! Leans on `load` for what a probe does, and on `target`, `fleet`, `clock` and `alarm`.

use std::future::Future;
use std::thread::JoinHandle;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::alarm::Alarms;
use super::clock::Clock;
use super::connect::Connector;
use super::error::LiveError;
use super::fleet::LiveWorld;
use super::target::Target;
use crate::client::Witness;
use crate::event::Event;
use crate::load::{Prober, Timed};
use crate::machine::Time;
use crate::nats::error_code::ErrorCode;
use crate::scenario::{Scenario, Settings};

/// The probes of a run, connected.
pub(super) struct Probes {
    /// The stream that some of them purge.
    other: Option<String>,
    thread: Option<Thread>,
}

struct Thread {
    /// Says when the run begins.
    begin: oneshot::Sender<Clock>,
    /// Says that the publishers are done.
    publishing: oneshot::Sender<()>,
    events: mpsc::UnboundedReceiver<Event>,
    handle: JoinHandle<u64>,
}

impl Probes {
    /// Connects the probes of a file, and makes the stream that some of them purge.
    ///
    /// # Errors
    /// A connection cannot be opened, or there is a stream of that name already.
    pub(super) async fn connect(scenario: &Scenario, target: &Target) -> Result<Self, LiveError> {
        let settings = &scenario.settings;
        let other = settings.other_stream();
        let thread = match settings.probes.len() {
            0 => None,
            _ => Some(Thread::start(settings.clone(), target.connector().clone()).await?),
        };
        // Last: what fails before leaves nothing behind.
        if let Some(name) = &other {
            make(target, name).await?;
        }
        Ok(Self { other, thread })
    }

    /// Asks while `publishing` goes on, and tells the world; then waits for what is not answered yet,
    /// where the publishing came to its end. Gives what came of it, and the number of messages that
    /// probes had stored.
    pub(super) async fn beside<T>(
        &mut self,
        world: &LiveWorld<'_>,
        publishing: impl Future<Output = T>,
        is_whole: impl FnOnce(&T) -> bool,
    ) -> (T, u64) {
        let Some(mut thread) = self.thread.take() else {
            return (publishing.await, 0);
        };
        // It is gone if that fails, and has nothing to say.
        let _ = thread.begin.send(world.clock());
        let mut publishing = std::pin::pin!(publishing);
        let published = loop {
            tokio::select! {
                biased;
                Some(event) = thread.events.recv() => world.tell(world.now(), event),
                published = &mut publishing => break published,
            }
        };
        let _ = thread.publishing.send(());
        if !is_whole(&published) {
            return (published, 0);
        }
        while let Some(event) = thread.events.recv().await {
            world.tell(world.now(), event);
        }
        let stored = thread.handle.join().unwrap_or_default();
        (published, stored)
    }

    /// Removes the stream that was made for probes.
    ///
    /// # Errors
    /// The server does not.
    pub(super) async fn remove(&self, target: &Target) -> Result<(), LiveError> {
        if let Some(name) = &self.other {
            let delete = format!("STREAM.DELETE.{name}");
            let call = "removing the stream of probes";
            target.connection().call(call, &delete, &json!({})).await?;
        }
        Ok(())
    }
}

async fn make(target: &Target, name: &str) -> Result<(), LiveError> {
    let connection = target.connection();
    let info = format!("STREAM.INFO.{name}");
    let there = connection
        .call("reading the stream of probes", &info, &json!({}))
        .await;
    match there {
        Ok(_) => {
            return Err(LiveError::OtherStream {
                stream: name.to_owned(),
                difference: "it is there already, and a probe would purge it".to_owned(),
            });
        }
        // Only this says that there is none.
        Err(LiveError::Api { code, .. })
            if code == u64::from(ErrorCode::StreamNotFound.number()) => {}
        Err(error) => return Err(error),
    }
    let create = format!("STREAM.CREATE.{name}");
    let config = json!({ "name": name, "subjects": [name], "storage": "memory" });
    let made = connection.call("making the stream of probes", &create, &config);
    made.await.map(drop)
}

impl Thread {
    async fn start(settings: Settings, connector: Connector) -> Result<Self, LiveError> {
        let (begin, begun) = oneshot::channel();
        let (publishing, published) = oneshot::channel::<()>();
        let (told, events) = mpsc::unbounded_channel();
        let (ready, is_ready) = oneshot::channel();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else { return 0 };
            runtime.block_on(async {
                let probers = prepare(&settings, &connector).await;
                let (probers, problem) = match probers {
                    Ok(probers) => (probers, Ok(())),
                    Err(problem) => (Vec::new(), Err(problem)),
                };
                // Whoever asked is gone, and so is the run.
                let _ = ready.send(problem);
                let Ok(clock) = begun.await else { return 0 };
                let alarms = Alarms::default();
                let world = ProbeWorld {
                    clock,
                    alarms,
                    told,
                };
                ask(probers, &world, published).await
            })
        };
        let handle = std::thread::Builder::new().name("probes".to_owned());
        let handle = handle.spawn(work).map_err(|error| {
            LiveError::system("no thread for probes".to_owned(), error.to_string())
        })?;
        match is_ready.await {
            Ok(ready) => ready?,
            Err(_) => {
                let what = "no runtime for probes".to_owned();
                return Err(LiveError::system(what, String::new()));
            }
        }
        Ok(Self {
            begin,
            publishing,
            events,
            handle,
        })
    }
}

async fn prepare(settings: &Settings, connector: &Connector) -> Result<Vec<Prober>, LiveError> {
    let mut probers = Vec::with_capacity(settings.probes.len());
    for id in 0..settings.probes.len() as u32 {
        let connection = connector.connect().await?;
        let prober = Prober::prepare(connection.client, &connection.api_prefix, settings, id).await;
        probers.push(prober.map_err(|reason| LiveError::Unreachable {
            servers: connector.shown().to_owned(),
            reason: format!("probe {id}: {reason}"),
        })?);
    }
    Ok(probers)
}

/// Runs all probes to their end; gives the number of messages that they had stored.
async fn ask(probers: Vec<Prober>, world: &ProbeWorld, published: oneshot::Receiver<()>) -> u64 {
    let (ended, end) = tokio::sync::watch::channel(false);
    let all = probers.into_iter().map(|prober| {
        let mut end = end.clone();
        let publishing = async move {
            // An end without a word is an end too.
            let _ = end.wait_for(|is_over| *is_over).await;
        };
        prober.run(world, publishing)
    });
    let end_publishing = async {
        let _ = published.await;
        let _ = ended.send(true);
    };
    let (stored, ()) = tokio::join!(join_all(all), end_publishing);
    stored.iter().sum()
}

/// The world as probes see it: the clock of the run, and a way to its observers.
struct ProbeWorld {
    clock: Clock,
    alarms: Alarms,
    told: mpsc::UnboundedSender<Event>,
}

impl Witness for ProbeWorld {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn now_roughly(&self) -> Time {
        self.clock.now()
    }

    /// Told to observers a little later, at the moment when the run hears of it.
    fn tell(&self, _at: Time, event: Event) {
        // Nobody listens once the run is broken off.
        let _ = self.told.send(event);
    }
}

impl Timed for ProbeWorld {
    async fn until(&self, at: Time) {
        self.alarms.until(&self.clock, at).await;
    }
}
