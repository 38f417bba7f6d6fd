//! What a reader of a live result should know besides its numbers.
//!
//! Leans on `live`.

use crate::live::{Ended, LiveOutcome, ReadBack};

/// What a reader of the result should know besides the numbers.
pub(super) fn notes(outcome: &LiveOutcome) -> Vec<String> {
    let mut notes = vec![format!(
        "nats-server {} at {}",
        outcome.server_version, outcome.servers
    )];
    for failure in &outcome.failures {
        let end = &failure.end;
        notes.push(format!(
            "publisher {} ({}) ended with {:?}: {}",
            failure.publisher.0, failure.group, end.outcome, end.detail
        ));
    }
    if outcome.ended == Ended::TimeLimit {
        notes.push("the time limit of the file ended the run".to_owned());
    }
    notes.push(match &outcome.read_back {
        None => "the stream was not read back".to_owned(),
        Some(found) => read_back_note(found),
    });
    notes
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
    match findings {
        0 => note.push_str("; this agrees with what publishers were told"),
        1 => note.push_str("; 1 contradiction to what publishers were told"),
        _ => note.push_str(&format!(
            "; {findings} contradictions to what publishers were told"
        )),
    }
    note
}
