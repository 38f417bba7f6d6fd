//! Comparisons of made-up runs whose difference is known.

use super::*;
use crate::report::synthetic::{self, Shape};

/// A run whose slices are independent of one another.
fn run(latency_us: f64, rate: f64) -> RunResult {
    let mut run = waving(latency_us, rate);
    let series = &mut run.series;
    let latency = &mut series.ack_latency_ns;
    shuffle(&mut series.acknowledged);
    shuffle(&mut latency.hdr_histogram_v2);
    shuffle(&mut latency.p50);
    shuffle(&mut latency.p99);
    run
}

/// A run in which latency goes up and down a few times: made-up runs do.
fn waving(latency_us: f64, rate: f64) -> RunResult {
    RunResult::new(synthetic::record(&Shape {
        publishers: 4,
        seconds: 10.0,
        rate,
        latency_us,
        trouble: false,
    }))
}

/// The same order for columns of the same length.
fn shuffle<T: Clone>(column: &mut [T]) {
    let old = column.to_vec();
    let mut order: Vec<usize> = (0..old.len()).collect();
    order.sort_by_key(|index| xxhash_rust::xxh3::xxh3_64(&index.to_le_bytes()));
    for (place, index) in order.into_iter().enumerate() {
        column[place] = old[index].clone();
    }
}

fn side(name: &str, runs: Vec<RunResult>) -> Side {
    Side {
        name: name.to_owned(),
        runs,
    }
}

fn of(baseline: Vec<RunResult>, candidate: Vec<RunResult>) -> Candidate {
    let candidates = [side("new", candidate)];
    let comparison = compare(&side("old", baseline), &candidates, &Rules::default());
    comparison.candidates.into_iter().next().unwrap()
}

fn row(candidate: &Candidate, metric: Metric) -> &Row {
    let mut rows = candidate.rows.iter();
    rows.find(|row| row.metric == metric).unwrap()
}

/// Runs that differ from `one` in their rate, by these factors.
fn at_rates(one: &RunResult, factors: &[f64]) -> Vec<RunResult> {
    let runs = factors.iter().map(|factor| {
        let mut run = one.clone();
        run.throughput.messages_per_second *= factor;
        run
    });
    runs.collect()
}

#[test]
fn a_run_against_itself_is_the_same() {
    let one = run(250.0, 2_000.0);
    let rules = Rules {
        tolerance: 0.15,
        ..Rules::default()
    };
    let itself = [side("new", vec![one.clone()])];
    let found = compare(&side("old", vec![one]), &itself, &rules)
        .candidates
        .remove(0);
    assert_eq!(found.finding, Finding::Same, "{:?}", found.rows);
    for row in &found.rows {
        assert_eq!(row.change, 0.0);
        if row.judged {
            assert_eq!(row.basis, Basis::Slices);
            let [low, high] = row.interval.unwrap();
            assert!(low <= 0.0 && (0.0..0.15).contains(&high), "{row:?}");
        }
    }
    let p50 = row(&found, Metric::AckP50);
    assert_eq!(p50.chance_faster, Some(0.5));
    assert!(found.notes.iter().any(|note| note.contains("one run")));
}

#[test]
fn slower_acks_are_worse_and_faster_ones_are_better() {
    let (fast, slow) = (run(20_000.0, 10_000.0), run(30_000.0, 10_000.0));
    let found = of(vec![fast.clone()], vec![slow.clone()]);
    assert_eq!(found.finding, Finding::Worse, "{:#?}", found.rows);
    let p50 = row(&found, Metric::AckP50);
    let [low, high] = p50.interval.unwrap();
    assert!(low < p50.change && p50.change < high, "{p50:?}");
    assert_eq!(p50.finding, Finding::Worse);
    assert!(p50.chance_faster.unwrap() < 0.5);
    let back = of(vec![slow], vec![fast]);
    assert_eq!(back.finding, Finding::Better);
    let sum = row(&back, Metric::AckP50).chance_faster.unwrap() + p50.chance_faster.unwrap();
    assert!((sum - 1.0).abs() < 1e-5);
}

#[test]
fn several_runs_are_compared_by_their_spread() {
    let one = run(250.0, 2_000.0);
    let base = at_rates(&one, &[0.98, 1.0, 1.02, 1.01]);
    let slower = of(base.clone(), at_rates(&one, &[0.88, 0.9, 0.91, 0.9]));
    let rate = row(&slower, Metric::Throughput);
    assert_eq!((rate.basis, rate.finding), (Basis::Runs, Finding::Worse));
    assert!((rate.change + 0.105).abs() < 0.01, "{rate:?}");
    assert!(rate.hedges_g.unwrap() < -3.0);
    assert_eq!(slower.finding, Finding::Worse);
    // As far apart in the middle, and too scattered to be sure.
    let scattered = of(base, at_rates(&one, &[0.6, 1.2, 0.7, 1.1]));
    let rate = row(&scattered, Metric::Throughput);
    assert_eq!(rate.finding, Finding::Unclear);
    assert_eq!(scattered.finding, Finding::Unclear);
    let told = scattered
        .notes
        .iter()
        .filter(|note| !note.contains("there already"));
    assert_eq!(told.count(), 0, "{:?}", scattered.notes);
}

#[test]
fn a_change_within_the_tolerance_is_none() {
    let one = run(250.0, 2_000.0);
    let base = at_rates(&one, &[0.999, 1.0, 1.001]);
    let found = of(base.clone(), at_rates(&one, &[0.979, 0.98, 0.981]));
    assert_eq!(row(&found, Metric::Throughput).finding, Finding::Same);
    let rules = Rules {
        tolerance: 0.01,
        ..Rules::default()
    };
    let strict = [side("new", at_rates(&one, &[0.979, 0.98, 0.981]))];
    let strict = compare(&side("old", base), &strict, &rules);
    assert_eq!(strict.candidates[0].finding, Finding::Worse);
}

#[test]
fn runs_that_go_wrong_are_worse_however_fast() {
    let one = run(250.0, 2_000.0);
    let mut wrong = one.clone();
    wrong.expected = false;
    let found = of(vec![one.clone()], vec![wrong.clone()]);
    assert_eq!(found.finding, Finding::Worse);
    let told = "1 of 1 runs of the candidate did not do what their file expects";
    assert!(
        found.notes.iter().any(|note| note == told),
        "{:?}",
        found.notes
    );
    assert_ne!(of(vec![wrong], vec![one]).finding, Finding::Worse);
}

#[test]
fn what_is_too_short_to_be_sure_of_is_unclear() {
    let mut short = run(250.0, 2_000.0);
    short.window.until_ns = short.window.from_ns + 3 * short.series.bucket_ns;
    let found = of(vec![short.clone()], vec![short.clone()]);
    assert_eq!(found.finding, Finding::Unclear);
    assert_eq!(row(&found, Metric::Throughput).interval, None);
    // Only a few waves: the slices say little of their own.
    let waves = waving(250.0, 2_000.0);
    let found = of(vec![waves.clone()], vec![waves]);
    assert_eq!(row(&found, Metric::AckP50).interval, None);
    // A file of an earlier version.
    short.series.ack_latency_ns.hdr_histogram_v2.clear();
    assert_eq!(
        of(vec![short.clone()], vec![short]).finding,
        Finding::Unclear
    );
}

#[test]
fn a_lost_message_is_never_within_the_tolerance() {
    let clean = run(250.0, 2_000.0);
    let mut lossy = clean.clone();
    lossy.gap_rate = 0.001;
    let rules = Rules {
        judged: vec![Metric::GapRate],
        ..Rules::default()
    };
    let sides = [side("new", vec![lossy.clone(), lossy])];
    let found = compare(&side("old", vec![clean.clone(), clean]), &sides, &rules);
    assert_eq!(found.candidates[0].finding, Finding::Worse);
}

#[test]
fn a_judged_figure_that_vanishes_does_not_pass() {
    let one = run(250.0, 2_000.0);
    let mut silent = one.clone();
    silent.throughput.messages_per_second = 0.0;
    silent.ack_latency_ns.count = 0;
    let found = of(vec![one.clone()], vec![silent.clone()]);
    assert_eq!(found.finding, Finding::Worse);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("not measured in every run"))
    );
    assert_eq!(
        of(vec![silent.clone()], vec![one.clone()]).finding,
        Finding::Unclear
    );
    let rules = Rules {
        judged: vec![Metric::AckP50, Metric::StallShare],
        ..Rules::default()
    };
    let sides = [side("new", vec![silent.clone(), silent])];
    let found = compare(&side("old", vec![one.clone(), one]), &sides, &rules);
    assert_eq!(found.candidates[0].finding, Finding::Unclear);
}

#[test]
fn a_simulated_run_that_stands_twice_is_named() {
    let one = run(250.0, 2_000.0);
    let found = of(vec![one.clone(), one.clone()], vec![one.clone(), one]);
    let told = found
        .notes
        .iter()
        .filter(|note| note.contains("there already"));
    assert_eq!(told.count(), 2, "{:?}", found.notes);
}

#[test]
fn settings_that_differ_are_named() {
    let one = run(250.0, 2_000.0);
    let mut other = one.clone();
    other.config.publishers[0].flow = 50;
    other.config_hash = "other".to_owned();
    let found = of(vec![one.clone()], vec![other]);
    let told = "settings differ: publishers.0.flow 100 became 50";
    assert!(
        found.notes.iter().any(|note| note == told),
        "{:?}",
        found.notes
    );
    let mut live = one.clone();
    live.world = World::Live;
    let found = of(vec![one], vec![live]);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("sim, the candidate in live"))
    );
}

#[test]
fn every_shape_is_compared_and_drawn() {
    let results: Vec<Side> = synthetic::shapes()
        .iter()
        .map(|(name, shape)| side(name, vec![RunResult::new(synthetic::record(shape))]))
        .collect();
    let (baseline, candidates) = results.split_first().unwrap();
    let comparison = compare(baseline, candidates, &Rules::default());
    let sides: Vec<&Side> = results.iter().collect();
    let page = comparison_page(&comparison, &sides).unwrap();
    assert!(!page.contains("NaN") && !page.contains("inf "));
    let text = comparison_table(&comparison, false);
    assert_eq!(
        text.matches("against calm (1 sim run)").count(),
        candidates.len()
    );
    let json = serde_json::to_string(&comparison).unwrap();
    assert_eq!(
        serde_json::from_str::<Comparison>(&json).unwrap(),
        comparison
    );
    if let Some(folder) = std::env::var_os("TIDEGATE_LOOK").map(std::path::PathBuf::from) {
        std::fs::write(folder.join("comparison.html"), &page).unwrap();
        std::fs::write(folder.join("comparison.txt"), &text).unwrap();
    }
}

#[test]
fn names_cannot_leave_their_place_on_the_page() {
    let evil = "</script><svg onload=alert(1)>\u{1b}[2J";
    let one = run(250.0, 2_000.0);
    let (base, new) = (side(evil, vec![one.clone()]), side(evil, vec![one]));
    let comparison = compare(&base, std::slice::from_ref(&new), &Rules::default());
    let page = comparison_page(&comparison, &[&base, &new]).unwrap();
    assert!(!page.contains("onload=alert(1)>") && !page.contains('\u{1b}'));
    assert!(!comparison_table(&comparison, false).contains('\u{1b}'));
}
