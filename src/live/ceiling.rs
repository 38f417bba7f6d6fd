//! What the generator does at the most: the fleet of a run at full speed against the sink.
//!
//! Leans on `fleet`, `sink` and `watch`; the watchers of a run are part of its cost.

use std::future::pending;

use super::connect::Connector;
use super::error::LiveError;
use super::fleet::{Ended, Fleet, LiveWorld};
use super::interrupt::Interrupts;
use super::sink::Sink;
use crate::machine::Time;
use crate::scenario::{Arrival, Publishers, Scenario, Settings, WarmUp};
use crate::seed::Seed;
use crate::units::Span;
use crate::watch::Watch;

/// So long it publishes.
const SPAN: Time = Time::from_millis(250);
/// The sink takes so long to answer at the very most.
const PATIENCE: Time = Time::from_secs(5);
/// More publishers change little, and connecting them takes time.
const PUBLISHERS_MOST: u64 = 256;

/// The ceilings of the fleets that were measured by this process.
#[derive(Default)]
pub struct Ceilings {
    known: Vec<(Vec<Publishers>, f64)>,
}

impl Ceilings {
    /// Messages per second of CPU time of the fleet of `scenario`, at full speed with its sizes, flows and
    /// clients, and with everyone watching; or the number of the signal that came meanwhile. Takes a
    /// quarter of a second, once for each fleet.
    ///
    /// # Errors
    /// The sink cannot be started or reached, or a publisher had trouble with it.
    pub async fn measure(
        &mut self,
        scenario: &Scenario,
        seed: Seed,
        interrupts: &mut Interrupts,
    ) -> Result<Result<f64, u8>, LiveError> {
        let settings = at_full_speed(&scenario.settings);
        let mut known = self.known.iter();
        if let Some((_, ceiling)) = known.find(|(fleet, _)| *fleet == settings.publishers) {
            return Ok(Ok(*ceiling));
        }
        let measured = measure(&settings, &scenario.file, seed, interrupts).await?;
        if let Ok(ceiling) = measured {
            self.known.push((settings.publishers, ceiling));
        }
        Ok(measured)
    }
}

async fn measure(
    settings: &Settings,
    file: &str,
    seed: Seed,
    interrupts: &mut Interrupts,
) -> Result<Result<f64, u8>, LiveError> {
    let sink = Sink::start()?;
    let connector = Connector::new(&[sink.url()])?;
    let fleet = Fleet::connect(settings, file, seed, seed.0, &connector).await?;
    let mut watch = Watch::new(settings, false, None);
    let observers: &mut [&mut dyn crate::event::Observer] = &mut [&mut watch];
    let world = LiveWorld::new(settings, observers);
    let published = fleet.run(settings, &world, pending(), interrupts).await;
    if let Ended::Signal(signal) = published.ended {
        return Ok(Err(signal));
    }
    if let Some(failure) = published.failures.first() {
        let end = &failure.end;
        let what = format!("publisher {} of the sink failed", failure.publisher.0);
        return Err(LiveError::system(
            what,
            format!("{:?} {}", end.outcome, end.detail),
        ));
    }
    Ok(Ok(published
        .spent
        .messages_per_cpu_second(world.published())))
}

/// The same fleet without a schedule.
fn at_full_speed(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let all: u64 = settings
        .publishers
        .iter()
        .map(|group| u64::from(group.count))
        .sum();
    for group in &mut settings.publishers {
        let kept = u64::from(group.count) * PUBLISHERS_MOST / all.max(PUBLISHERS_MOST);
        group.count = u32::try_from(kept.max(1)).unwrap_or(group.count);
        group.arrival = Arrival::Closed;
        group.rate_per_second = None;
        group.rates.clear();
        group.burst = 1;
        group.burst_rate_per_second = None;
        group.timestamps = None;
        group.moments = None;
        group.start = Span(Time::ZERO);
        group.stagger = Span(Time::ZERO);
        group.stop = None;
        group.stop_stagger = Span(Time::ZERO);
        group.on_for = None;
        group.off_for = None;
        group.pauses.clear();
        group.batches = 0;
        group.ack_timeout = group.ack_timeout.max(Span(PATIENCE));
    }
    settings.warm_up = WarmUp::default();
    settings.time_limit = Span(SPAN);
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "format = 1\nabout = \"Slow.\"\n[[publishers]]\ncount = 2\nflow = 7\n\
                    messages = 50\npayload = \"64B\"\narrival = \"constant\"\nrate_per_second = 1\n\
                    start = \"1m\"\nstop = \"2m\"\n[[publishers]]\nclient = \"jetstream-extra\"\n\
                    messages = 50\ncommit = \"message\"\n[[publishers]]\nclient = \"atomic\"\n\
                    messages = 50\n[stream]\nallow_atomic = true\n";
        Scenario::parse("slow.toml", text).unwrap()
    }

    #[tokio::test]
    async fn a_fleet_of_all_kinds_of_batches_reaches_a_ceiling_and_it_is_measured_once() {
        let mut ceilings = Ceilings::default();
        let mut interrupts = Interrupts::new().unwrap();
        let scenario = scenario();
        let mut measure = async || {
            let measured = ceilings.measure(&scenario, Seed(1), &mut interrupts).await;
            measured.unwrap().unwrap()
        };
        let ceiling = measure().await;
        // The file asks for two messages a second.
        assert!(ceiling > 1_000.0, "{ceiling}");
        assert_eq!(measure().await, ceiling);
        assert_eq!(ceilings.known.len(), 1);
    }

    #[test]
    fn a_large_fleet_is_measured_by_a_part_of_it() {
        let mut settings = scenario().settings;
        settings.publishers[0].count = 10_000;
        let fleet = at_full_speed(&settings).publishers;
        assert_eq!((fleet[0].count, fleet[1].count), (255, 1));
        assert_eq!((fleet[0].flow, fleet[0].messages), (7, 50));
    }
}
