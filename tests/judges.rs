//! Every judge objects to the defect it is there for, in a running world, and is silent without.

mod common;

use tidegate::judge::Judges;

/// Two publishers, a few hundred messages, and no fault: a world in which nothing goes wrong.
const CALM: &str = r#"
format = 1
about = "Two publishers, nothing goes wrong."
time_limit = "60s"
[[publishers]]
count = 2
flow = 10
outstanding_acks = 2
ack_timeout = "1s"
messages = 400
"#;

/// A flow ack that is lost at the second publisher's window edge: its pings must save it.
const LOST_ACK: &str = r#"
[[faults]]
action = "drop"
frame = "flow-ack"
nth = 5
count = 3
"#;

/// The judges that object to `text`.
fn objections(text: &str) -> Vec<&'static str> {
    let mut names: Vec<_> = common::run(text, 1)
        .seen
        .findings
        .violations
        .iter()
        .map(|violation| violation.judge)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn with_defect(world: &str, defect: &str) -> String {
    format!("{world}\n[server]\ndefects = [\"{defect}\"]\n")
}

#[test]
fn no_judge_objects_where_nothing_is_wrong() {
    let none: [&str; 0] = [];
    assert_eq!(objections(CALM), none);
    assert_eq!(objections(&format!("{CALM}{LOST_ACK}")), none);
}

#[test]
fn each_defect_is_found_by_its_judge() {
    let cases = [
        (
            "ack-before-store",
            CALM.to_owned(),
            "acks-cover-what-they-claim",
        ),
        (
            "pub-ack-counts-one-more",
            CALM.to_owned(),
            "pub-ack-agrees-with-the-stream",
        ),
        ("store-twice", CALM.to_owned(), "nothing-stored-twice"),
        (
            "ack-half-as-often",
            CALM.to_owned(),
            "acks-come-as-often-as-promised",
        ),
        (
            "publisher-ignores-gate",
            CALM.to_owned(),
            "nothing-sent-through-a-shut-gate",
        ),
        (
            "publisher-waits-for-ever",
            format!("{CALM}{LOST_ACK}"),
            "every-publisher-ends",
        ),
    ];
    let mut found = Vec::new();
    for (defect, world, judge) in cases {
        let objecting = objections(&with_defect(&world, defect));
        assert!(
            objecting.contains(&judge),
            "{defect}: {objecting:?} object, {judge} does not"
        );
        found.push(judge);
    }
    found.sort_unstable();
    let mut all = Judges::OF_EVENTS;
    all.sort_unstable();
    assert_eq!(found, all, "a judge without a defect that makes it object");
}
