//! Experimental rules for flow: what they change, in worlds where it matters.

mod common;

use tidegate::measure::Totals;

/// Four publishers whose windows do not fit into the ingest queue, under this rule.
fn crowded(policy: &str, more: &str) -> Totals {
    let text = format!(
        "format = 1\nabout = \"A small ingest queue.\"\n{more}\
         [server]\ningest_messages = 700\nflow_policy = \"{policy}\"\n\
         [[publishers]]\ncount = 4\nflow = 125\noutstanding_acks = 3\ngap = \"ok\"\nmessages = 5_000\n"
    );
    let seen = common::run(&text, 1).seen;
    assert!(seen.findings.violations.is_empty(), "{policy}");
    seen.summary.totals
}

#[test]
fn flow_by_the_ingest_queue_keeps_messages_out_of_a_full_one() {
    let usual = crowded("even-share", "").lost.unwrap_or_default();
    let careful = crowded("ingest-queue", "").lost.unwrap_or_default();
    assert!(usual > 1_000, "{usual} lost");
    assert!(
        careful * 4 < usual,
        "{careful} lost, {usual} by the even share"
    );
}

#[test]
fn it_does_so_with_replicas_too() {
    let replicated = "[stream]\nreplicas = 3\n";
    let usual = crowded("even-share", replicated).lost.unwrap_or_default();
    let careful = crowded("ingest-queue", replicated).lost.unwrap_or_default();
    assert!(usual > 100, "{usual} lost");
    assert!(
        careful * 2 < usual,
        "{careful} lost, {usual} by the even share"
    );
}

#[test]
fn a_rule_that_looks_at_raft_is_the_even_share_without_replicas() {
    assert_eq!(crowded("raft-backlog", ""), crowded("even-share", ""));
}

#[test]
fn flow_by_the_backlog_of_raft_grants_less_where_there_is_one() {
    let slow = "[stream]\nreplicas = 3\n[network]\nroute_latency = \"20ms\"\n";
    let usual = crowded("even-share", slow);
    let careful = crowded("raft-backlog", slow);
    assert!(careful.flow_acks > usual.flow_acks, "{careful:?} {usual:?}");
}
