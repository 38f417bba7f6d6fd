//! An overloaded open loop does not hide what it could not send.

mod common;

use tidegate::measure::Totals;

fn totals(publishers: &str) -> Totals {
    let text = format!("format = 1\nabout = \"x\"\n[[publishers]]\n{publishers}");
    common::run(&text, 1).seen.summary.totals
}

#[test]
fn a_backlog_at_the_stop_was_offered() {
    let totals = totals(
        "arrival = \"constant\"\nrate_per_second = 1_000_000\nmessages = 4_000_000\nstop = \"100ms\"",
    );
    assert_eq!(totals.offered, 100_000);
    assert!(totals.published < totals.offered, "{totals:?}");
}

#[test]
fn a_backlog_at_the_time_limit_was_offered() {
    let text = "format = 1\nabout = \"x\"\ntime_limit = \"100ms\"\n[[publishers]]\n\
                arrival = \"constant\"\nrate_per_second = 1_000_000\nmessages = 4_000_000\n";
    let totals = common::run(text, 1).seen.summary.totals;
    assert_eq!(totals.offered, 100_000);
    assert!(totals.published < totals.offered, "{totals:?}");
}

#[test]
fn no_more_than_the_messages_of_the_file_are_offered() {
    let totals = totals(
        "arrival = \"poisson\"\nrate_per_second = 1_000_000\nmessages = 1_000\nbatches = 20\nstop = \"50ms\"",
    );
    assert_eq!(totals.offered, 20_000);
    assert!(totals.published < totals.offered, "{totals:?}");
}

#[test]
fn loops_that_keep_up_or_are_closed_offer_what_they_publish() {
    for text in [
        "messages = 5_000_000\nstop = \"20ms\"",
        "arrival = \"constant\"\nrate_per_second = 1_000\nmessages = 1_000\nstop = \"300ms\"",
    ] {
        let totals = totals(text);
        assert_eq!(totals.offered, totals.published, "{text}");
        assert!(totals.offered > 0);
    }
}
