//! One live run, from a prepared target to what was found in the stream.
//!
//! Leans on `fleet` and `readback`.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::chaos::Chaos;
use super::cluster::Cluster;
use super::error::LiveError;
use super::fleet::{Ended, Fleet, LiveWorld, Published, PublisherFailure};
use super::interrupt::Interrupts;
use super::local::LocalServers;
use super::monitor::{Monitor, Monitored, Said};
use super::probes::Probes;
use super::readback::read_back;
use super::target::Target;
use super::verify::ReadBack;
use crate::client::Witness;
use crate::event::Observer;
use crate::load::PayloadContent;
use crate::machine::Time;
use crate::measure::{Generator, ServerSeries};
use crate::scenario::{IDENTIFIED, LiveSettings, Publishers, Scenario};
use crate::seed::Seed;

/// So long may publishers go on without a server: one that restarts is back by then.
const WITHOUT_SERVER: Duration = Duration::from_secs(10);

/// How a live run is done.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// Seed of arrivals and sizes.
    pub seed: Seed,
    /// Read the stream back and compare.
    pub read_back: bool,
    /// The servers, if they are our own: their death ends the run.
    pub own_servers: Option<&'a LocalServers>,
    /// Tells the user what is waited for.
    pub say: fn(&str),
}

impl RunOptions<'_> {
    /// Ends when servers of our own are gone.
    async fn servers_gone(&self) -> LiveError {
        match self.own_servers {
            Some(servers) => servers.gone().await,
            None => std::future::pending().await,
        }
    }
}

/// What came out, besides the events.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveOutcome {
    /// How the publishing ended.
    pub ended: Ended,
    /// Version of the server, as it says.
    pub server_version: String,
    /// The servers, without credentials.
    pub servers: String,
    /// When publishing ended.
    pub published_until: Time,
    /// What the generator took and had left; `None` when it did not come to publish.
    pub generator: Option<Generator>,
    /// What the servers said of themselves while it went on.
    pub monitored: Vec<ServerSeries>,
    /// What a reader of the result should know.
    pub notes: Vec<String>,
    /// Publishers that an error ended.
    pub failures: Vec<PublisherFailure>,
    /// What the stream has; `None` when it was not read, or a signal came meanwhile.
    pub read_back: Option<ReadBack>,
}

impl LiveOutcome {
    /// Whether the run ended before its file says, so that results are partial.
    pub const fn is_partial(&self) -> bool {
        match self.ended {
            Ended::Complete => false,
            Ended::TimeLimit | Ended::Signal(_) => true,
        }
    }
}

/// Runs `scenario` against `target` and tells everything to `observers`.
///
/// A signal, or the time limit of the file, lets publishers end their batches; the outcome says so.
///
/// # Errors
/// The publishers cannot connect, or the stream cannot be read back; the events told so far stand.
pub async fn run(
    scenario: &Scenario,
    target: &Target,
    observers: &mut [&mut dyn Observer],
    options: &RunOptions<'_>,
    interrupts: &mut Interrupts,
) -> Result<LiveOutcome, LiveError> {
    let settings = &scenario.settings;
    check_payloads(scenario, target)?;
    // the stream may hold messages of other runs, even of the same seed
    let run = xxh3_64(target.connection().client.new_inbox().as_bytes());
    let fleet = Fleet::connect(
        settings,
        &scenario.file,
        options.seed,
        run,
        target.connector(),
    );
    let fleet = tokio::select! {
        biased;
        signal = interrupts.next() => return Ok(cut_short(target, signal)),
        fleet = fleet => fleet?,
    };
    let cluster = tokio::select! {
        biased;
        signal = interrupts.next() => return Ok(cut_short(target, signal)),
        cluster = cluster(scenario, target, options) => cluster?,
    };
    let mut probes = Probes::connect(scenario, target).await?;
    let ran = play(
        scenario,
        (fleet, run),
        (target, cluster),
        &mut probes,
        observers,
        (options, interrupts),
    )
    .await;
    let removed = probes.remove(target).await;
    let mut outcome = ran?;
    // What was measured stands.
    outcome.notes.extend(removed.err().map(|error| {
        format!("the stream that probes purged may still be there; remove it by hand: {error}")
    }));
    Ok(outcome)
}

/// The run itself: publishing, with probes and faults beside it, and reading back.
async fn play(
    scenario: &Scenario,
    (fleet, run): (Fleet, u64),
    (target, cluster): (&Target, Option<Cluster<'_>>),
    probes: &mut Probes,
    observers: &mut [&mut dyn Observer],
    (options, interrupts): (&RunOptions<'_>, &mut Interrupts),
) -> Result<LiveOutcome, LiveError> {
    let settings = &scenario.settings;
    let mut observers: Vec<&mut dyn Observer> = observers
        .iter_mut()
        .map(|observer| &mut **observer as _)
        .collect();
    let world = LiveWorld::new(settings, &mut observers).saying(options.say);
    let lost = async {
        tokio::select! {
            biased;
            gone = options.servers_gone() => gone,
            lost = target.connection().lost_for(WITHOUT_SERVER) => lost,
        }
    };
    let chaos = cluster
        .as_ref()
        .map(|cluster| Chaos::new(&settings.faults, cluster, &world));
    let live = settings.live.clone().unwrap_or_default();
    let monitor = Monitor::start(
        monitored(&live, options.own_servers),
        target.first_stream().to_owned(),
        Duration::from_nanos(live.monitor_every.0.as_nanos()),
        world.clock(),
    );
    let publishing = fleet.run(settings, &world, lost, interrupts);
    let is_whole = |published: &Published| published.is_whole();
    let (published, probed) = tokio::select! {
        biased;
        published = probes.beside(&world, publishing, is_whole) => published,
        Err(error) = made(chaos.as_ref()) => return Err(error),
    };
    if let Some(lost) = published.lost {
        return Err(lost);
    }
    let mut ended = published.ended;
    let published_until = world.now();
    let said = monitor.map_or_else(Said::default, Monitor::finish);
    let generator = Some(world.generator(published.spent));
    if let Some(chaos) = chaos.as_ref().filter(|_| !published.hurried) {
        tokio::select! {
            biased;
            signal = interrupts.next() => return Ok(LiveOutcome {
                published_until,
                generator,
                monitored: said.series,
                notes: said.notes,
                failures: published.failures,
                ..cut_short(target, signal)
            }),
            healed = chaos.heal() => healed?,
        }
    }
    let mut found = None;
    let mut unread = None;
    if options.read_back && !published.hurried {
        let content = PayloadContent::new(run);
        tokio::select! {
            biased;
            signal = interrupts.next() => ended = Ended::Signal(signal),
            result = read_back(target, settings, &content, (&world, probed)) => match result {
                Ok(result) => found = Some(result),
                // Who broke the run off knows that it is partial; what was measured stands.
                Err(error) if matches!(ended, Ended::Signal(_)) => unread = Some(error),
                Err(error) => return Err(error),
            },
            gone = options.servers_gone() => return Err(gone),
            lost = target.connection().lost() => return Err(lost),
        }
    }
    let mut notes = chaos.map_or_else(Vec::new, Chaos::into_notes);
    notes.extend(said.notes);
    notes.extend(settings.publishers.iter().filter_map(only_counted));
    notes.extend(unread.map(|error| format!("the stream was not read back: {error}")));
    Ok(LiveOutcome {
        ended,
        failures: published.failures,
        published_until,
        generator,
        monitored: said.series,
        read_back: found,
        notes,
        ..cut_short(target, 0)
    })
}

/// The servers that are asked about themselves: our own, or those that the file names.
fn monitored(live: &LiveSettings, own: Option<&LocalServers>) -> Vec<Monitored> {
    match own {
        Some(own) => own.monitored().collect(),
        None => {
            let named = live.monitor.iter().map(|url| Monitored {
                name: None,
                url: url.clone(),
            });
            named.collect()
        }
    }
}

/// A run with replicas or faults needs to know who leads.
async fn cluster<'a>(
    scenario: &Scenario,
    target: &Target,
    options: &RunOptions<'a>,
) -> Result<Option<Cluster<'a>>, LiveError> {
    let settings = &scenario.settings;
    if settings.stream.replicas == 1 && settings.faults.is_empty() {
        return Ok(None);
    }
    Cluster::connect(target, options.own_servers)
        .await
        .map(Some)
}

/// Ends when a fault cannot be made.
async fn made(chaos: Option<&Chaos<'_, '_>>) -> Result<std::convert::Infallible, LiveError> {
    match chaos {
        Some(chaos) => chaos.run().await,
        None => std::future::pending().await,
    }
}

/// That messages of a group cannot be told apart where the stream is read back, if so.
fn only_counted(group: &Publishers) -> Option<String> {
    let smallest = group.payload.smallest();
    (smallest < IDENTIFIED).then(|| {
        format!(
            "{}: payloads may be as small as {smallest}, and below {IDENTIFIED} none has room for what names its \
             message: those are only counted by subject when the stream is read back",
            group.name
        )
    })
}

fn cut_short(target: &Target, signal: u8) -> LiveOutcome {
    LiveOutcome {
        ended: Ended::Signal(signal),
        server_version: target.connection().version.clone(),
        servers: target.connector().shown().to_owned(),
        published_until: Time::ZERO,
        generator: None,
        monitored: Vec::new(),
        notes: Vec::new(),
        failures: Vec::new(),
        read_back: None,
    }
}

/// A message above the server's limit would end the connection, not the message: servers may be
/// configured to take less than files may ask for.
fn check_payloads(scenario: &Scenario, target: &Target) -> Result<(), LiveError> {
    let most = target.connection().max_payload as u64;
    for (index, group) in scenario.settings.publishers.iter().enumerate() {
        let largest = group.largest_message().0;
        if largest > most {
            return Err(LiveError::Scenario {
                file: scenario.file.clone(),
                message: format!(
                    "publishers[{index}].payload: messages have up to {largest} bytes with their \
                     headers; this server takes {most} (max_payload)"
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{PayloadSize, SizeRange};
    use crate::units::Bytes;

    #[test]
    fn a_group_whose_messages_may_be_too_short_to_name_themselves_is_named() {
        let from = |least: u64| {
            only_counted(&Publishers {
                name: "short".to_owned(),
                payload: PayloadSize::Range(SizeRange {
                    min: Bytes(least),
                    max: Bytes(100),
                }),
                ..Publishers::default()
            })
        };
        assert_eq!(from(16), None);
        let note = from(15).unwrap();
        assert!(
            note.starts_with("short: payloads may be as small as 15B")
                && note.contains("only counted"),
            "{note}"
        );
    }
}
