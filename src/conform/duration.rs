//! How long a run against real servers takes, roughly: nearly all of it is quiet time.
//!
//! Leans on `vector`.

use std::time::Duration;

use super::vector::{Case, StepKind, VectorFile};
use super::{Against, groups};

/// Quiet time behind an expectation, on average: most are cut short on one server, and none on
/// several. With what the server needs, as measured with the recordings of `tests/vectors/`.
const QUIET_R1: Duration = Duration::from_millis(55);
const QUIET_R3: Duration = Duration::from_millis(280);
/// Until a replicated stream is ready.
const OPENING_R3: Duration = Duration::from_millis(500);
/// Until servers of our own are ready.
const START_R1: Duration = Duration::from_secs(1);
const START_R3: Duration = Duration::from_secs(6);

/// About so long takes a run of all cases, on an idle machine; nothing against the model. Less where
/// cases are skipped.
pub fn expected_duration(files: &[VectorFile], against: &Against) -> Duration {
    let cases = files.iter().flat_map(|file| &file.cases);
    match against {
        Against::Model => Duration::ZERO,
        Against::Server(_) => cases.map(of_case).sum(),
        Against::Local | Against::Served => on_servers_of_our_own(cases),
    }
}

fn of_case(case: &Case) -> Duration {
    let (quiet, opening) = if case.replicas > 1 {
        (QUIET_R3, OPENING_R3)
    } else {
        (QUIET_R1, Duration::ZERO)
    };
    let steps = case.steps.iter().map(|step| match step.kind {
        StepKind::Wait(milliseconds) => Duration::from_millis(milliseconds),
        StepKind::Expect { .. } => quiet,
        StepKind::Publish(_)
        | StepKind::Update { .. }
        | StepKind::Api { .. }
        | StepKind::DirectGet { .. }
        | StepKind::Stored(_) => Duration::ZERO,
    });
    opening + steps.sum::<Duration>()
}

/// Cases of one kind of server share as many as run side by side.
fn on_servers_of_our_own<'a>(cases: impl Iterator<Item = &'a Case>) -> Duration {
    // One case of the kind, how many there are, all of them, and the longest.
    let mut kinds: Vec<(&Case, u32, Duration, Duration)> = Vec::new();
    for case in cases {
        let span = of_case(case);
        let same = kinds.iter_mut().find(|(one, ..)| {
            one.server_version == case.server_version
                && one.replicas == case.replicas
                && one.server_batch_limits == case.server_batch_limits
        });
        match same {
            Some((_, count, all, longest)) => {
                *count += 1;
                *all += span;
                *longest = span.max(*longest);
            }
            None => kinds.push((case, 1, span, span)),
        }
    }
    let of_kind = |(case, count, all, longest): &(&Case, u32, Duration, Duration)| {
        let shards = u32::try_from(groups::side_by_side(case.replicas)).unwrap_or(1);
        let start = if case.replicas > 1 {
            START_R3
        } else {
            START_R1
        };
        start + (*all / shards.min(*count)).max(*longest)
    };
    kinds.iter().map(of_kind).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conform::{Address, parse};

    fn file(name: &str) -> VectorFile {
        let path = format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
        parse(name, &std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_recordings_take_about_as_long_as_they_were_measured_to() {
        let single = [file("r1-2.15.1.json")];
        let cluster = [file("r3-2.15.1.json")];
        let server = Against::Server(Address::parse("nats://127.0.0.1:4222").unwrap());
        assert_eq!(expected_duration(&single, &Against::Model), Duration::ZERO);
        for (files, against, measured) in [
            (&single, &Against::Local, 29),
            (&single, &server, 59),
            (&cluster, &Against::Local, 69),
        ] {
            let expected = expected_duration(files, against).as_secs();
            let near = measured * 2 / 3..=measured * 3 / 2;
            assert!(near.contains(&expected), "{expected} s, not {measured} s");
        }
    }
}
