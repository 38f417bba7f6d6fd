//! `docs/server-tests.md` goes through nats-server's own tests: whatever the page names of ours is there,
//! and no test of the server stands there without a word on what covers it.
//!
//! Sources are parsed with `syn`. Each rule is shown to object at the end of this file.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;

use serde_json::Value;

use common::known::tests_of;
use common::tree::{files, read, top};

/// The page.
const PAGE: &str = "docs/server-tests.md";
/// How each of its tables begins.
const HEADER: &str = "| Test | What it shows | Covered by |";
/// Where a test of the server has no counterpart here, the reason follows these words.
const EXEMPT: [&str; 2] = ["*does not apply*", "*do not apply*"];
/// The recordings that are replayed against the model.
const REPLAYED: &[&str] = &[
    "tests/vectors/r1-2.15.1.json",
    "tests/vectors/r3-2.15.1.json",
];

/// What the page may name.
#[derive(Default)]
struct Known {
    tests: BTreeSet<String>,
    cases: BTreeSet<String>,
}

fn tree() -> Known {
    let mut known = Known::default();
    for folder in ["src", "tests"] {
        for name in files(folder, "rs") {
            let file = syn::parse_file(&read(&name)).unwrap();
            known.tests.extend(tests_of(&name, &file).into_keys());
        }
    }
    for name in REPLAYED {
        let file: Value = serde_json::from_str(&read(name)).unwrap();
        let cases = file["cases"].as_array().unwrap().iter();
        let named = cases.map(|case| case["name"].as_str().unwrap().to_owned());
        known.cases.extend(named);
    }
    known
}

/// The rows of the page: line, and what stands in each cell.
fn rows(page: &str) -> Vec<(usize, Vec<&str>)> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for (line, row) in (1..).zip(page.lines()) {
        in_table = row == HEADER || (in_table && row.starts_with('|'));
        if in_table && row != HEADER && !row.starts_with("|---") {
            let inner = row.trim_matches('|').split('|').map(str::trim);
            rows.push((line, inner.collect()));
        }
    }
    rows
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What is wrong with the page, one line each.
fn check(page: &str, known: &Known) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (line, cells) in rows(page) {
        let [test, shows, covered] = cells[..] else {
            findings.push(format!("{PAGE}:{line}: {} cells; there are 3", cells.len()));
            continue;
        };
        if !seen.insert(test) {
            findings.push(format!("{PAGE}:{line}: {test} is there twice"));
        }
        if shows.is_empty() {
            findings.push(format!("{PAGE}:{line}: {test} shows nothing"));
        }
        let reason = EXEMPT.iter().find_map(|words| covered.split_once(words));
        let is_exempt = reason.is_some_and(|(_, reason)| reason.trim_matches(':').len() > 10);
        if quoted(covered).next().is_none() && !is_exempt {
            findings.push(format!("{PAGE}:{line}: {test} has no cover, and no reason"));
        }
        let absent = quoted(covered).filter(|name| !is_there(name, known));
        findings.extend(absent.map(|name| format!("{PAGE}:{line}: `{name}` is not there")));
    }
    findings
}

fn is_there(name: &str, known: &Known) -> bool {
    match name.split_once('/') {
        Some(("sims", _)) => top().join(name).is_file(),
        _ if name.contains("::") => known.tests.contains(name),
        _ if ["fi-", "at-", "dg-"]
            .iter()
            .any(|kind| name.starts_with(kind)) =>
        {
            known.cases.contains(name)
        }
        // A word of the configuration.
        _ => name.contains(' '),
    }
}

#[test]
fn every_test_of_the_server_is_covered_or_says_why_not() {
    let findings = check(&read(PAGE), &tree());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// All that stands in tables is read, and what stands above them is there, too.
#[test]
fn the_page_is_read_whole() {
    let page = read(PAGE);
    let tables = page.lines().filter(|line| line.starts_with('|')).count();
    let heads = page.lines().filter(|line| *line == HEADER).count();
    assert_eq!(heads, 3);
    assert_eq!(rows(&page).len(), tables - 2 * heads);
    assert_eq!(rows(&page).len(), 82);
    let known = tree();
    let above = page.lines().filter(|line| !line.starts_with('|'));
    let tests = above.flat_map(quoted).filter(|name| name.contains(".rs::"));
    let named: Vec<&str> = tests.filter(|name| !name.contains("file.rs")).collect();
    assert_eq!(named.len(), 2);
    assert!(named.iter().all(|name| is_there(name, &known)), "{named:?}");
}

// -- every rule objects -----------------------------------------------------------------------

const GOOD: &str = "\
| Test | What it shows | Covered by |
|---|---|---|
| `One` | A thing. | `a::tests::b`, `fi-a` |
| `Two` | Another. | *does not apply*: there is no such thing |
";

fn findings(from: &str, to: &str) -> Vec<String> {
    let known = Known {
        tests: BTreeSet::from(["a::tests::b".to_owned()]),
        cases: BTreeSet::from(["fi-a".to_owned()]),
    };
    assert!(GOOD.contains(from), "{from}");
    check(&GOOD.replace(from, to), &known)
}

#[test]
fn the_good_page_is_good() {
    assert_eq!(findings("Two", "Two"), [] as [&str; 0]);
}

#[test]
fn each_rule_objects() {
    for (from, to, what) in [
        (
            "`a::tests::b`",
            "`a::tests::c`",
            "`a::tests::c` is not there",
        ),
        ("`fi-a`", "`fi-b`", "`fi-b` is not there"),
        ("`fi-a`", "`sims/nats/none.toml`", "is not there"),
        ("`fi-a`", "`word`", "`word` is not there"),
        ("Two", "One", "is there twice"),
        ("Another.", "", "shows nothing"),
        (": there is no such thing", "", "no cover, and no reason"),
        ("*does not apply*", "some day", "no cover, and no reason"),
        ("`fi-a` |", "`fi-a` | more |", "4 cells"),
    ] {
        let findings = findings(from, to);
        assert!(
            findings.iter().any(|line| line.contains(what)),
            "{to}: {findings:?}"
        );
    }
}
