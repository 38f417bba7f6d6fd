//! Made-up runs for tests and for looking at: publishers, acks and trouble of a set shape.
//!
//! With `TIDEGATE_LOOK=folder` the test below leaves charts and pages in that folder.

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use super::result::tests::settings;
use super::{Cost, RunRecord, RunResult, Stall, Violation, World, replay_command};
use crate::event::{BatchNumber, Event, Observer as _, Outcome, PublisherId};
use crate::machine::Time;
use crate::measure::{
    Generator, Group, LeaderChange, Options, Recorder, ServerFigures, ServerSeries, Spent,
    latency_histogram,
};
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};
use crate::scenario::WarmUp;
use crate::units::Span;

/// The shape of a made-up run.
pub(super) struct Shape {
    pub(super) publishers: u32,
    pub(super) seconds: f64,
    /// Messages that each publisher sends per second, all in all.
    pub(super) rate: f64,
    pub(super) latency_us: f64,
    pub(super) trouble: bool,
}

/// A generator that took 0.9 s of a core for 180,000 messages, and woke late once in ten.
pub(super) fn generator() -> Generator {
    let spent = Spent {
        publishing_ns: 1_000_000_000,
        cpu_ns: 900_000_000,
        waited_for_core_ns: Some(5_000_000),
    };
    let mut lag = latency_histogram();
    lag.saturating_record_n(50_000, 9);
    lag.saturating_record(2_000_000);
    Generator::new(spent, 180_000, &lag, Some(3)).below(240_000.0)
}

/// Records a run of this shape.
pub(super) fn record(shape: &Shape) -> RunRecord {
    let end = Time::from_nanos((shape.seconds * 1e9) as u64);
    let warm_up = Time::from_nanos((shape.seconds * 5e7) as u64);
    let mut recorder = Recorder::new(Options {
        warm_up: Some(warm_up),
        load_changes: Vec::new(),
        groups: vec![Group {
            name: "steady".to_owned(),
            publishers: shape.publishers,
            note: shape
                .trouble
                .then(|| "acks are taken in inside calls only".to_owned()),
        }],
        server_watched: true,
    });
    play(shape, end, &mut recorder);
    let summary = recorder.finish(end);
    let mut settings = settings();
    settings.warm_up = WarmUp::Known(Span(warm_up));
    let mut record = RunRecord {
        cost: Cost::new(
            1_700_000_000,
            summary.totals.published,
            end.as_nanos(),
            Some(34 << 20),
        ),
        summary,
        replay: replay_command(World::Sim, "sims/nats/steady.toml", 7, &[]),
        ..super::result::tests::record()
    };
    if shape.trouble {
        add_trouble(&mut record, &mut settings, shape.seconds);
    }
    record.settings = settings;
    record
}

fn add_trouble(record: &mut RunRecord, settings: &mut crate::scenario::Settings, seconds: f64) {
    let at = |part: f64| (seconds * part * 1e9) as u64;
    settings.faults = serde_json::from_value(serde_json::json!([
        { "action": "drop", "frame": "flow-ack", "nth": 3 },
        { "action": "cut", "from": format!("{}ns", at(0.55)), "until": format!("{}ns", at(0.65)) },
        { "action": "hold", "from": format!("{}ns", at(0.55)), "until": format!("{}ns", at(0.65)) },
        { "action": "slow", "delay": "1ms", "from": format!("{}ns", at(0.57)), "until": format!("{}ns", at(0.62)) },
    ]))
    .unwrap();
    record.summary.leader_changes = vec![LeaderChange {
        at_ns: at(0.3),
        leader: Some("n2".to_owned()),
    }];
    record.stalls = vec![Stall {
        publisher: 1,
        batch: 1,
        at_ns: at(0.9),
        release: "flow ack 4711, which was dropped at the server's output".to_owned(),
    }];
    record.violations = vec![Violation {
        judge: "gate".to_owned(),
        clause: "fast.flow.gate".to_owned(),
        at_ns: at(0.42),
        publisher: Some(0),
        batch: Some(0),
        message: "sent 201 while shut at 200 on <subject>\u{1b}[2J".to_owned(),
    }];
    record.notes = vec!["The modelled server is uncalibrated.".to_owned()];
    record.servers = servers(seconds);
}

/// A server that never answers, a leader, and a follower that stands still for a tenth of the run.
fn servers(seconds: f64) -> Vec<ServerSeries> {
    let figures = |number: u64, look: u64| ServerFigures {
        cpu_percent: Some((40 + 5 * number + look % 7) as f64),
        memory_bytes: Some((30 + number + look / 4) << 20),
        slow_consumers: Some(look / 20),
        leads: Some(number == 1),
        raft_lag: Some(if number == 1 { 0 } else { look % 11 }),
        ..ServerFigures::default()
    };
    let server = |number: u64| {
        let url = format!("127.0.0.1:{}", 8_222 + number);
        let mut series = ServerSeries::new(format!("server {number}"), url);
        for look in 0..40 {
            let part = look as f64 / 40.0;
            let is_silent = number == 0 || (number == 2 && (0.55..0.65).contains(&part));
            let said = if is_silent {
                ServerFigures::default()
            } else {
                figures(number, look)
            };
            series.push((seconds * part * 1e9) as u64, said);
        }
        series
    };
    (0..3).map(server).collect()
}

/// Sends, acks after a varying latency, and gaps now and then.
struct Player<'a> {
    shape: &'a Shape,
    recorder: &'a mut Recorder,
    random: ChaCha12Rng,
    later: BTreeMap<(u64, u64), Event>,
    order: u64,
}

impl Player<'_> {
    fn see(&mut self, at: u64, event: &Event) {
        self.recorder.see(Time::from_nanos(at), event);
    }

    fn see_later(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.later.insert((at, self.order), event);
    }

    fn chance(&mut self, of: u32) -> bool {
        self.shape.trouble && self.random.random_range(0..of) == 0
    }

    fn publish(&mut self, now: u64, batch: BatchNumber, sequence: BatchSequence) {
        let late = self.random.random_range(0.0..1.0_f64).powi(6) * 4.0;
        let intended = now.saturating_sub((late * self.shape.latency_us * 1e3) as u64);
        let bytes = 1_024;
        let published = Event::Published {
            batch,
            operation: Operation::Append,
            bytes,
            sequence,
            intended: Time::from_nanos(intended),
        };
        self.see(now, &published);
        let stored = Event::Stored {
            batch,
            bytes,
            digest: 0,
            sequence,
            stream_sequence: StreamSequence(1),
        };
        self.see(now, &stored);
    }

    /// What follows from a message that was sent at this part of the run.
    fn follow(&mut self, now: u64, batch: BatchNumber, sequence: BatchSequence, part: f64) {
        let tail = self.random.random_range(0.0..1.0_f64).powi(40) * 30.0;
        let cut = self.shape.trouble && (0.55..0.65).contains(&part);
        let slow = if cut { 12.0 } else { 1.0 };
        let wave = 1.0 + 0.4 * (part * 25.0).sin();
        let latency = (self.shape.latency_us * 1e3 * wave * slow * (1.0 + tail)) as u64;
        let flow = if part < 0.5 { 50 } else { 25 };
        if sequence.0.is_multiple_of(u64::from(flow)) {
            let ack = Event::AckSeen {
                batch,
                flow,
                sequence,
            };
            self.see_later(now + latency, ack);
        }
        if self.chance(2_000) {
            let gap = Event::GapSeen {
                batch,
                expected: sequence,
                received: BatchSequence(sequence.0 + 3),
            };
            self.see_later(now + 1_000, gap);
        }
        if self.chance(3_000) {
            self.see(now, &Event::Blocked { batch });
            self.see_later(now + 4 * latency, Event::Unblocked { batch });
        }
    }

    fn catch_up(&mut self, now: u64) {
        while let Some(entry) = self.later.first_entry().filter(|next| next.key().0 <= now) {
            let at = entry.key().0;
            let event = entry.remove();
            self.see(at, &event);
        }
    }
}

fn play(shape: &Shape, end: Time, recorder: &mut Recorder) {
    let publishers = u64::from(shape.publishers);
    let step = 1e9 / (shape.rate * publishers as f64);
    let total = (end.as_nanos() as f64 / step) as u64;
    let mut player = Player {
        shape,
        recorder,
        random: ChaCha12Rng::seed_from_u64(7),
        later: BTreeMap::new(),
        order: 0,
    };
    for number in 0..shape.publishers {
        let started = Event::BatchStarted {
            publisher: PublisherId(number),
            batch: BatchNumber(number),
            flow: 100,
            outstanding_acks: 2,
            gap: GapMode::Ok,
        };
        player.see(0, &started);
    }
    for index in 0..total {
        let now = (index as f64 * step) as u64;
        let part = index as f64 / total as f64;
        player.catch_up(now);
        let batch = BatchNumber((index % publishers) as u32);
        let sequence = BatchSequence(index / publishers + 1);
        player.publish(now, batch, sequence);
        player.follow(now, batch, sequence, part);
        if shape.trouble && [0.2, 0.21, 0.75].contains(&part) {
            let server = None;
            player.see(now, &Event::Fault { fault: 0, server });
        }
    }
    for number in 0..shape.publishers {
        let ended = Event::BatchEnded {
            batch: BatchNumber(number),
            outcome: Outcome::Committed,
            code: 0,
            acknowledged: BatchSequence(0),
        };
        player.see(end.as_nanos(), &ended);
    }
}

/// Shapes that charts and pages must stand: short and long, small and large, calm and not.
pub(super) fn shapes() -> Vec<(&'static str, Shape)> {
    let calm = |publishers, seconds, rate, latency_us| Shape {
        publishers,
        seconds,
        rate,
        latency_us,
        trouble: false,
    };
    vec![
        ("calm", calm(10, 10.0, 2_000.0, 250.0)),
        (
            "trouble",
            Shape {
                trouble: true,
                ..calm(10, 10.0, 2_000.0, 900.0)
            },
        ),
        ("long", calm(3, 36_000.0, 2.0, 2_000_000.0)),
        ("many", calm(3_000, 60.0, 2.0, 90_000.0)),
        ("short", calm(1, 0.004, 200_000.0, 40.0)),
        ("one", calm(1, 0.000_05, 20_000.0, 40.0)),
    ]
}

#[test]
fn every_shape_gives_charts_and_a_page() {
    let look = std::env::var_os("TIDEGATE_LOOK").map(std::path::PathBuf::from);
    for (name, shape) in shapes() {
        let result = RunResult::new(record(&shape));
        let sent: u64 = result.series.published.iter().sum();
        assert_eq!(sent, result.totals.published, "{name}");
        let page = super::page(&result).unwrap();
        let terminal = super::table(&result, true);
        if let Some(folder) = &look {
            for (extension, text) in [("html", &page), ("txt", &terminal)] {
                let path = folder.join(name).with_extension(extension);
                super::write_atomically(&path, text.as_bytes()).unwrap();
            }
        }
        for chart in super::chart::all(&result) {
            let svg = chart.svg().unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
            if let Some(folder) = &look {
                let path = folder.join(format!("{name}-{}", chart.name));
                super::write_atomically(&path.with_extension("svg"), svg.as_bytes()).unwrap();
                chart.write_png(&path.with_extension("png")).unwrap();
            }
        }
    }
}

#[test]
fn absurd_numbers_in_a_file_are_drawn_somehow_and_never_panic() {
    let shapes = shapes();
    let (_, shape) = shapes.iter().find(|(name, _)| *name == "short").unwrap();
    let sane = RunResult::new(record(shape));
    for extreme in [0, 1, u64::MAX] {
        let mut result = sane.clone();
        let series = &mut result.series;
        for column in [
            &mut series.published,
            &mut series.acknowledged,
            &mut series.missing,
            &mut series.errors,
            &mut series.in_flight_max,
        ] {
            column.fill(extreme);
        }
        for mean in [f64::MAX, -1.0, f64::MIN_POSITIVE] {
            result.series.in_flight_mean.fill(mean);
            result.series.blocked_mean.fill(mean);
            result.series.ack_latency_ns.p50.fill(Some(extreme));
            result.series.bucket_ns = extreme;
            result.series.end_ns = extreme;
            result.duration_ns = extreme;
            result.totals.missing = extreme;
            result.totals.errors = [(1, extreme), (2, extreme)].into();
            result.ack_latency_ns.count = extreme.max(1);
            result.ack_latency_ns.max = extreme;
            result.gap_rate = mean;
            let page = super::page(&result).unwrap();
            assert!(page.ends_with("</html>\n"));
            assert!(!super::table(&result, false).is_empty());
        }
    }
}
