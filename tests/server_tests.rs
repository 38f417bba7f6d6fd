//! `docs/server-tests.md` goes through nats-server's own tests: whatever the page names of ours is there,
//! and no test of the server stands there without a word on what covers it.
//!
//! Sources are parsed with `syn`. Each rule is shown to object at the end of this file.

mod common;

use std::collections::BTreeSet;

use common::page::{Known, check_shown, quoted, rows};
use common::tree::read;

/// The page.
const PAGE: &str = "docs/server-tests.md";
/// How each of its tables begins.
const HEADER: &str = "| Test | What it shows | Covered by |";
/// Where a test of the server has no counterpart here, the reason follows these words.
const EXEMPT: [&str; 2] = ["*does not apply*", "*do not apply*"];

/// What is wrong with the page, one line each.
fn check(page: &str, known: &Known) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (line, cells) in rows(page, HEADER) {
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
        let wrong = check_shown(covered, &EXEMPT, known).into_iter();
        findings.extend(wrong.map(|what| format!("{PAGE}:{line}: {test}: {what}")));
    }
    findings
}

#[test]
fn every_test_of_the_server_is_covered_or_says_why_not() {
    let findings = check(&read(PAGE), &Known::of_the_tree());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// All that stands in tables is read, and what stands above them is there, too.
#[test]
fn the_page_is_read_whole() {
    let page = read(PAGE);
    let tables = page.lines().filter(|line| line.starts_with('|')).count();
    let heads = page.lines().filter(|line| *line == HEADER).count();
    assert_eq!(heads, 3);
    assert_eq!(rows(&page, HEADER).len(), tables - 2 * heads);
    assert_eq!(rows(&page, HEADER).len(), 82);
    let known = Known::of_the_tree();
    let above = page.lines().filter(|line| !line.starts_with('|'));
    let tests = above.flat_map(quoted).filter(|name| name.contains(".rs::"));
    let named: Vec<&str> = tests.filter(|name| !name.contains("file.rs")).collect();
    assert_eq!(named.len(), 2);
    assert!(named.iter().all(|name| known.has(name)), "{named:?}");
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
