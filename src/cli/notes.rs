//! What a reader of a result should know besides its numbers.
//!
//! Leans on `live` and `sim`, and on `client` for how batches end.

use crate::client::BatchEnd;
use crate::event::Outcome;
use crate::live::{Ended, LiveOutcome, PublisherFailure, ReadBack};
use crate::nats::error_code::ErrorCode;
use crate::sim::SimOutcome;

/// Why a run is partial that a signal ended.
pub(super) const BY_SIGNAL: &str = "a signal ended the run";

/// What a reader of a simulated result should know.
pub(super) fn sim_notes(outcome: &SimOutcome) -> Vec<String> {
    let by_signal = outcome.partial.then(|| BY_SIGNAL.to_owned());
    let excused = outcome.seen.findings.excused.first().map(|first| {
        format!(
            "promises of RAFT were broken because machines lost power and disk.sync = \"never\" let \
             them keep entries unsynced, which is no violation; the first: {}: {}",
            first.judge, first.message
        )
    });
    by_signal.into_iter().chain(excused).collect()
}

/// What a reader of a live result should know.
pub(super) fn notes(outcome: &LiveOutcome) -> Vec<String> {
    let mut notes = vec![format!(
        "nats-server {} at {}",
        outcome.server_version, outcome.servers
    )];
    notes.extend(outcome.notes.iter().cloned());
    notes.extend(outcome.failures.iter().map(failure_note));
    match outcome.ended {
        Ended::Complete => {}
        Ended::TimeLimit => notes.push("the time limit of the file ended the run".to_owned()),
        Ended::Signal(_) => notes.push(BY_SIGNAL.to_owned()),
    }
    notes.push(match &outcome.read_back {
        None => "the stream was not read back".to_owned(),
        Some(found) => read_back_note(found),
    });
    notes
}

/// How a publisher came to grief, with the code and what its client said.
fn failure_note(failure: &PublisherFailure) -> String {
    let BatchEnd {
        outcome,
        code,
        acknowledged,
        detail,
    } = &failure.end;
    let what = match outcome {
        Outcome::TimedOut => "gave up: no reply came within its ack timeout",
        Outcome::Refused => "was refused its batch by the server",
        Outcome::NoResponders => "found nobody who takes its messages",
        Outcome::ClientError => "was stopped by an error of its client",
        Outcome::EndedByServer => "had its batch ended by the server",
        Outcome::Interrupted => "was interrupted",
        Outcome::Abandoned => "left its batch",
        Outcome::Committed => "committed its batch",
    };
    let mut note = format!(
        "publisher {} ({}) {what}",
        failure.publisher.0, failure.group
    );
    match (*code, ErrorCode::from_number(*code)) {
        (0, _) => {}
        (code, Some(error)) => note.push_str(&format!(" (error {code}, {})", error.text())),
        (code, None) => note.push_str(&format!(" (status {code})")),
    }
    note.push_str(&format!("; acknowledged up to message {acknowledged}"));
    if !detail.is_empty() {
        note.push_str(&format!("; the client says \"{detail}\""));
    }
    note
}

/// What the stream has, and whether it is what publishers were told.
fn read_back_note(found: &ReadBack) -> String {
    let findings = found.findings.len() as u64 + found.more_findings;
    let mut note = format!(
        "read back: {} stored, {} lost, {} stored again, {} out of order",
        found.stored, found.lost, found.duplicates, found.out_of_order
    );
    if !found.complete || found.foreign > 0 || found.evicted > 0 {
        note.push_str(&format!(
            "; {} messages of others, {} dropped by the stream at its limits",
            found.foreign, found.evicted
        ));
    }
    if found.only_counted > 0 {
        note.push_str(&format!(
            "; {} too short to name themselves are counted by subject",
            found.only_counted
        ));
    }
    if found.false_gaps > 0 {
        note.push_str(&format!(
            "; {} batches were told of gaps that are none, as a leader does that stood still (server bug \
             deposed-leader-speaks)",
            found.false_gaps
        ));
    }
    match findings {
        0 => note.push_str("; this agrees with what publishers were told"),
        1 => note.push_str("; 1 contradiction to what publishers were told"),
        _ => note.push_str(&format!(
            "; {findings} contradictions to what publishers were told"
        )),
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::PublisherId;
    use crate::nats::BatchSequence;

    #[test]
    fn a_failure_is_one_clear_sentence() {
        let note = |outcome, code, detail: &str| {
            failure_note(&PublisherFailure {
                publisher: PublisherId(3),
                group: "late".to_owned(),
                end: BatchEnd {
                    outcome,
                    code,
                    acknowledged: BatchSequence(40),
                    detail: detail.to_owned(),
                },
            })
        };
        assert_eq!(
            note(Outcome::TimedOut, 0, ""),
            "publisher 3 (late) gave up: no reply came within its ack timeout; acknowledged up to \
             message 40"
        );
        let refused = note(Outcome::Refused, 10_211, "");
        assert!(
            refused.starts_with(
                "publisher 3 (late) was refused its batch by the server (error 10211, "
            ),
            "{refused}"
        );
        let broken = note(Outcome::ClientError, 503, "broken pipe");
        assert!(
            broken.contains("error of its client (status 503)")
                && broken.ends_with("the client says \"broken pipe\""),
            "{broken}"
        );
    }
}
