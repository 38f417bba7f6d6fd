//! Lawful worlds with faults: whatever is lost, doubled, late, refused or abandoned, no judge
//! objects, because neither server nor publisher does anything wrong.

mod common;

use std::fmt::Write as _;

use tidegate::judge::Stall;

const HEAD: &str = "format = 1\nabout = \"lawful\"\ntime_limit = \"60s\"\n";

/// Runs `text` and insists that no judge objects; the stalls, for those that care.
fn lawful(text: &str) -> Vec<Stall> {
    let findings = common::run(text, 1).seen.findings;
    assert!(
        findings.violations.is_empty(),
        "{text}\n{:#?}",
        findings.violations[0]
    );
    findings.stalls
}

/// The releases of the stalls of `text`.
fn releases(text: &str) -> Vec<String> {
    lawful(text)
        .into_iter()
        .map(|stall| stall.release)
        .collect()
}

#[test]
fn frames_lost_doubled_or_late_make_no_judge_object() {
    let frames = [
        "message",
        "eob",
        "ping",
        "flow-ack",
        "gap",
        "flow-error",
        "pub-ack",
    ];
    let actions = [
        ("drop", ""),
        ("duplicate", ""),
        ("delay", "delay = \"700ms\"\n"),
    ];
    let mut worlds = 0;
    for frame in frames {
        for (action, more) in actions {
            for nth in [1, 4, 10] {
                for gap in ["ok", "fail"] {
                    for (commit, gate) in [("eob", "after-publish"), ("message", "before-publish")]
                    {
                        lawful(&format!(
                            "{HEAD}[[publishers]]\ncount = 2\nflow = 5\noutstanding_acks = 2\ngap = \"{gap}\"\n\
                             gate = \"{gate}\"\ncommit = \"{commit}\"\nmessages = 43\nbatches = 2\n\
                             ack_timeout = \"1s\"\n\
                             headers = [{{ from = 17, to = 19, name = \"Nats-Expected-Last-Sequence\", value = \"9\" }}]\n\
                             [[faults]]\naction = \"{action}\"\nframe = \"{frame}\"\nnth = {nth}\ncount = 2\n{more}"
                        ));
                        worlds += 1;
                    }
                }
            }
        }
    }
    assert_eq!(worlds, 252);
}

#[test]
fn refused_messages_make_no_judge_object() {
    let refusals = [
        ("Nats-Msg-Id", "same"),
        ("Nats-Required-Api-Level", "99"),
        ("Nats-Rollup", "bad"),
        ("Nats-TTL", "5"),
    ];
    for (name, value) in refusals {
        for gap in ["ok", "fail"] {
            for commit in ["eob", "message", "none"] {
                for (from, to) in [(1, 1), (5, 5), (6, 15), (40, 40), (1, 40)] {
                    for (flow, more) in [(3, ""), (10, "errors_count_as_acks = true\n"), (600, "")]
                    {
                        for no_ack in [false, true] {
                            lawful(&format!(
                                "{HEAD}[stream]\nno_ack = {no_ack}\n[[publishers]]\ncount = 2\nflow = {flow}\n{more}\
                                 gap = \"{gap}\"\ncommit = \"{commit}\"\nmessages = 40\nbatches = 2\n\
                                 ack_timeout = \"1s\"\n\
                                 headers = [{{ from = {from}, to = {to}, name = \"{name}\", value = \"{value}\" }}]\n"
                            ));
                        }
                    }
                }
            }
        }
    }
}

/// With replicas a duplicate is known before what comes before it is stored.
#[test]
fn duplicates_of_messages_in_flight_make_no_judge_object() {
    for gap in ["ok", "fail"] {
        for (from, to) in [(2, 4), (8, 30), (95, 100)] {
            lawful(&format!(
                "{HEAD}[stream]\nreplicas = 3\n[[publishers]]\nflow = 10\ngap = \"{gap}\"\nmessages = 100\n\
                 headers = [{{ from = {from}, to = {to}, name = \"Nats-Msg-Id\", value = \"same\" }}]\n"
            ));
        }
    }
}

#[test]
fn what_is_under_way_when_the_last_publisher_is_done_is_not_lost() {
    let text = format!("{HEAD}[[publishers]]\nmessages = 150\ncommit = \"none\"\n");
    let totals = common::run(&text, 1).seen.summary.totals;
    assert_eq!(
        (totals.published, totals.stored, totals.lost),
        (150, Some(150), Some(0))
    );
}

#[test]
fn a_batch_is_judged_after_its_publisher_has_left() {
    let text = format!(
        "{HEAD}[server]\ndefects = [\"store-twice\"]\n[[publishers]]\nmessages = 150\nflow = 200\ncommit = \"none\"\n\
         [[publishers]]\nname = \"other\"\nsubject = \"tidegate.b.{{publisher}}\"\nmessages = 10\n\
         arrival = \"constant\"\nrate_per_second = 10\n"
    );
    let violations = common::run(&text, 1).seen.findings.violations;
    assert!(
        violations
            .iter()
            .any(|violation| violation.judge == "nothing-stored-twice"),
        "{violations:?}"
    );
}

#[test]
fn a_slow_link_with_a_large_window_times_nobody_out() {
    // The flow shrinks while seconds of messages are under way; acks keep coming.
    let text = format!(
        "{HEAD}[network]\nbandwidth = \"1Mbit/s\"\n[[publishers]]\nflow = 500\nmessages = 3000\n\
         [[publishers]]\nname = \"late\"\nsubject = \"tidegate.late.{{publisher}}\"\ncount = 20\nstart = \"500ms\"\n\
         messages = 300\narrival = \"constant\"\nrate_per_second = 20\n"
    );
    assert_eq!(lawful(&text), []);
    let endings = common::run(&text, 1).seen.summary.totals.batches.endings;
    assert_eq!(endings.len(), 1, "{endings:?}: all committed");
}

#[test]
fn a_stall_is_seen_whatever_pings_are_under_way() {
    for latency in ["1ms", "20ms", "200ms"] {
        let text = format!(
            "{HEAD}[network]\nlatency = \"{latency}\"\n[[publishers]]\nflow = 5\ngap = \"ok\"\nmessages = 40\n\
             ack_timeout = \"1s\"\n\
             headers = [{{ from = 6, to = 30, name = \"Nats-Expected-Last-Sequence\", value = \"999999\" }}]\n"
        );
        let found = releases(&text);
        assert_eq!(found.len(), 1, "{latency}");
        assert!(
            found[0].contains("one more message that the server accepts"),
            "{}",
            found[0]
        );
    }
}

#[test]
fn a_stall_is_seen_when_a_gap_ends_the_wait_at_a_gate() {
    let mut text = format!(
        "{HEAD}[[publishers]]\nflow = 10\noutstanding_acks = 1\nmessages = 50\nack_timeout = \"1s\"\n"
    );
    let faults = [
        ("message", "nth = 9"),
        ("pub-ack", "nth = 1"),
        ("ping", "count = 100"),
    ];
    for (frame, which) in faults {
        let _ = write!(
            text,
            "[[faults]]\naction = \"drop\"\nframe = \"{frame}\"\n{which}\n"
        );
    }
    let found = releases(&text);
    assert_eq!(found, ["none: the PubAck was sent once, and is lost"]);
}

#[test]
fn the_release_of_a_stall_names_its_cause() {
    // Message 3 is lost and reported; much later a whole window is refused: that is what stalls.
    let stalled = |faults: &str| {
        format!(
            "{HEAD}[[publishers]]\nflow = 5\ngap = \"ok\"\nmessages = 300\nack_timeout = \"1s\"\n\
             headers = [{{ from = 206, to = 230, name = \"Nats-Expected-Last-Sequence\", value = \"999999\" }}]\n\
             {faults}"
        )
    };
    for faults in [
        "[[faults]]\naction = \"drop\"\nframe = \"message\"\nnth = 3\n",
        "[[faults]]\naction = \"drop\"\nframe = \"ping\"\ncount = 100\n",
    ] {
        let found = releases(&stalled(faults));
        assert_eq!(found.len(), 1, "{faults}");
        assert!(
            found[0].contains("refused ones up to"),
            "{faults}: {}",
            found[0]
        );
    }
}

#[test]
fn a_commit_that_arrived_is_not_called_lost() {
    let text = format!(
        "{HEAD}[[publishers]]\nflow = 10\ncommit = \"message\"\nmessages = 12\nack_timeout = \"1s\"\n\
         headers = [{{ from = 12, to = 12, name = \"Nats-Expected-Last-Msg-Id\", value = \"nope\" }}]\n\
         [[faults]]\naction = \"drop\"\nframe = \"pub-ack\"\n"
    );
    let found = common::run(&text, 1).seen.findings.stalls;
    assert!(found[0].release.contains("pending"), "{}", found[0].release);
}

#[test]
fn a_cut_counts_wherever_it_stands_and_leaves_a_free_link() {
    let text = |faults: &str| {
        format!(
            "{HEAD}[[publishers]]\ngap = \"ok\"\narrival = \"constant\"\nrate_per_second = 10\nmessages = 100\n\
             flow = 500\n{faults}"
        )
    };
    let cut = "[[faults]]\naction = \"cut\"\nfrom = \"2s\"\nuntil = \"3s\"\n";
    let hold = "[[faults]]\naction = \"hold\"\nfrom = \"1s\"\nuntil = \"4s\"\n";
    let dropped = |faults: String| common::run(&text(&faults), 1).seen.summary.totals.dropped;
    assert_eq!(
        dropped(format!("{hold}{cut}")),
        dropped(format!("{cut}{hold}"))
    );

    // Bytes that are lost in a cut do not keep the link busy afterwards.
    let slow = format!(
        "{HEAD}[network]\nbandwidth = \"1Mbit/s\"\n[[publishers]]\ngap = \"ok\"\nflow = 500\n\
         outstanding_acks = 3\nmessages = 3000\n\
         [[faults]]\naction = \"cut\"\nfrom = \"100ms\"\nuntil = \"200ms\"\n"
    );
    let endings = common::run(&slow, 1).seen.summary.totals.batches.endings;
    assert_eq!(endings.len(), 1);
    assert_eq!(endings[0].code, 0, "{endings:?}");
}

#[test]
fn a_late_copy_holds_nothing_up() {
    let text = format!(
        "{HEAD}[[publishers]]\narrival = \"constant\"\nrate_per_second = 10\nmessages = 20\nflow = 5\n\
         [[faults]]\naction = \"duplicate\"\nframe = \"flow-ack\"\ndelay = \"3s\"\n"
    );
    let slowest = common::run(&text, 1).seen.summary.ack_latency_ns.max;
    assert!(slowest < 1_000_000_000, "{slowest}");
}

#[test]
fn a_publisher_more_changes_nothing_for_the_others() {
    let text = |more: &str| {
        format!(
            "{HEAD}[network]\njitter = \"5ms\"\n[[publishers]]\nflow = 10\nmessages = 50\nbatches = 0\nstop = \"2s\"\n{more}"
        )
    };
    let late = "[[publishers]]\nname = \"late\"\nstart = \"30s\"\nmessages = 1\n";
    let first = |more: &str| {
        common::run(&text(more), 1).seen.summary.groups[0]
            .ack_latency_ns
            .clone()
    };
    assert_eq!(first(""), first(late));
}
