//! Two pages that say what real servers do, `docs/server-bugs.md` and `docs/observed.md`: they name every
//! word of the code, and what they name is there.
//!
//! Sources are parsed with `syn`. Each rule is shown to object at the end of this file.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate::nats::version::ServerVersion;
use tidegate::scenario::Defect;

use common::page::{Known, check_shown, quoted, rows};
use common::tree::{files, read};

const BUGS: &str = "docs/server-bugs.md";
const BUGS_HEADER: &str =
    "| Word | Trigger | What a publisher sees | Versions | Source | Shown in |";
/// The page of the language says in short what each bug is.
const WORDS: &str = "docs/scenarios.md";
const WORDS_HEADER: &str = "| Word | What it does | In |";
const OBSERVED: &str = "docs/observed.md";
const OBSERVED_HEADER: &str = "| Observed | Held by |";
const EXEMPT: [&str; 1] = ["*not modelled*"];

/// Bugs of no real server.
const MADE_UP: [&str; 8] = [
    "ack-before-store",
    "pub-ack-counts-one-more",
    "store-twice",
    "ack-half-as-often",
    "publisher-ignores-gate",
    "publisher-waits-for-ever",
    "unseeded-draw",
    "hash-order",
];

/// The words of the code that stand for bugs of real servers.
fn words() -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&read("docs/scenario.schema.json")).unwrap();
    let all = schema["$defs"]["Defect"]["oneOf"].as_array().unwrap();
    let words = all.iter().map(|one| one["const"].as_str().unwrap());
    let real = words.filter(|word| !MADE_UP.contains(word));
    real.map(str::to_owned).collect()
}

/// Which bug each scenario says that it shows.
fn scenarios() -> BTreeMap<String, String> {
    let names = files("sims", "toml").into_iter();
    let shown = names.filter_map(|name| {
        let text = read(&name);
        let word = text.lines().find_map(|line| line.strip_prefix("# bug: "));
        word.map(|word| (name, word.to_owned()))
    });
    shown.collect()
}

/// Whether a cell on versions says what the code says of this word.
fn is_right(versions: &str, word: &str) -> bool {
    let defect: Defect = serde_json::from_value(word.into()).unwrap();
    let own = ServerVersion::ALL.into_iter();
    let own = own.filter(|version| defect.is_in(*version));
    let own: Vec<String> = own.map(|version| version.to_string()).collect();
    match versions {
        "all" => own.len() == ServerVersion::ALL.len(),
        "before 2.14.0" => own.is_empty(),
        _ if versions.ends_with(", by a race") => own.is_empty(),
        _ => versions.split(", ").eq(own.iter().map(String::as_str)),
    }
}

/// What is wrong with the page of bugs.
fn check_bugs(page: &str, known: &Known, shown: &BTreeMap<String, String>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut missing = words();
    for (line, cells) in rows(page, BUGS_HEADER) {
        let mut find = |what: String| findings.push(format!("{BUGS}:{line}: {what}"));
        let [word, trigger, sees, versions, source, tests] = cells[..] else {
            find(format!("{} cells; there are 6", cells.len()));
            continue;
        };
        let word = word.trim_matches('`');
        if !missing.remove(word) {
            find(format!("{word} is no word, or is there twice"));
            continue;
        }
        if [trigger, sees, source].contains(&"") {
            find(format!("{word} has an empty cell"));
        }
        if !is_right(versions, word) {
            find(format!("{word} is not in {versions}"));
        }
        let wrong = check_shown(tests, &[], known).into_iter();
        wrong.for_each(|what| find(format!("{word}: {what}")));
        for (name, _) in shown.iter().filter(|(_, of)| *of == word) {
            if !quoted(tests).any(|listed| listed == name) {
                find(format!("{word} is shown by {name}, too"));
            }
        }
    }
    findings.extend(
        missing
            .into_iter()
            .map(|word| format!("{BUGS}: {word} is not there")),
    );
    findings
}

/// What is wrong with the table of words in the page of the language.
fn check_words(page: &str) -> Vec<String> {
    let mut missing = words();
    let mut findings = Vec::new();
    for (line, cells) in rows(page, WORDS_HEADER) {
        let word = cells[0].trim_matches(['`', '"']);
        if !missing.remove(word) || !is_right(cells[2], word) {
            findings.push(format!("{WORDS}:{line}: {word} is not in {}", cells[2]));
        }
    }
    findings.extend(
        missing
            .into_iter()
            .map(|word| format!("{WORDS}: {word} is not there")),
    );
    findings
}

/// What is wrong with the page of what was observed.
fn check_observed(page: &str, known: &Known) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (line, cells) in rows(page, OBSERVED_HEADER) {
        let mut find = |what: String| findings.push(format!("{OBSERVED}:{line}: {what}"));
        let [observed, held] = cells[..] else {
            find(format!("{} cells; there are 2", cells.len()));
            continue;
        };
        if observed.is_empty() || !seen.insert(observed) {
            find("says nothing new".to_owned());
        }
        check_shown(held, &EXEMPT, known).into_iter().for_each(find);
    }
    findings
}

#[test]
fn every_bug_is_shown() {
    let known = Known::of_the_tree();
    let mut findings = check_bugs(&read(BUGS), &known, &scenarios());
    findings.extend(check_words(&read(WORDS)));
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn every_observation_is_held_to() {
    let findings = check_observed(&read(OBSERVED), &Known::of_the_tree());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// No row of a table is overlooked, and none is gone.
#[test]
fn the_pages_are_read_whole() {
    for (page, header, others) in [(BUGS, BUGS_HEADER, 12), (OBSERVED, OBSERVED_HEADER, 0)] {
        let text = read(page);
        let lines = text.lines().filter(|line| line.starts_with("| ")).count();
        let heads = text.lines().filter(|line| *line == header).count();
        let others = if others > 0 { others + 1 } else { 0 };
        assert_eq!(rows(&text, header).len(), lines - heads - others, "{page}");
    }
    assert_eq!(words().len(), rows(&read(BUGS), BUGS_HEADER).len());
    assert!(rows(&read(OBSERVED), OBSERVED_HEADER).len() > 60);
    assert!(scenarios().len() > 10);
}

// -- every rule objects -----------------------------------------------------------------------

fn small() -> Known {
    Known {
        tests: BTreeSet::from(["a::tests::b".to_owned()]),
        cases: BTreeSet::from(["fi-a".to_owned()]),
    }
}

fn bugs() -> String {
    let row = |word: &str| {
        let race = if word == "dedup-cleanup-race" {
            "2.14.0, by a race"
        } else {
            ""
        };
        let defect: Defect = serde_json::from_value(word.into()).unwrap();
        let own: Vec<String> = ServerVersion::ALL
            .into_iter()
            .filter(|version| defect.is_in(*version))
            .map(|version| version.to_string())
            .collect();
        let versions = match own.len() {
            0 if race.is_empty() => "before 2.14.0".to_owned(),
            0 => race.to_owned(),
            3 => "all".to_owned(),
            _ => own.join(", "),
        };
        format!("| `{word}` | A thing. | Another. | {versions} | read | `a::tests::b` |\n")
    };
    let rows: String = words().iter().map(|word| row(word)).collect();
    format!("{BUGS_HEADER}\n|---|---|---|---|---|---|\n{rows}")
}

#[test]
fn each_rule_on_bugs_objects() {
    let none = BTreeMap::new();
    assert_eq!(check_bugs(&bugs(), &small(), &none), [""; 0]);
    let ghost = "| `ghost-batch` | A thing. | Another. | all | read | `a::tests::b` |";
    assert!(bugs().contains(ghost));
    for (to, what) in [
        ("", "ghost-batch is not there"),
        (
            "| `ghost` | A thing. | Another. | all | read | `a::tests::b` |",
            "ghost is no word",
        ),
        (
            "| `ghost-batch` | | Another. | all | read | `a::tests::b` |",
            "has an empty cell",
        ),
        (
            "| `ghost-batch` | A thing. | Another. | 2.14.0 | read | `a::tests::b` |",
            "ghost-batch is not in 2.14.0",
        ),
        (
            "| `ghost-batch` | A thing. | Another. | all | read | |",
            "has no cover",
        ),
        (
            "| `ghost-batch` | A thing. | Another. | all | read | `a::tests::c` |",
            "`a::tests::c` is not there",
        ),
        ("| `ghost-batch` | A thing. |", "2 cells"),
    ] {
        let findings = check_bugs(&bugs().replace(ghost, to), &small(), &none);
        let is_found = findings.iter().any(|line| line.contains(what));
        assert!(is_found, "{what}: {findings:?}");
    }
    let shown = BTreeMap::from([("sims/x.toml".to_owned(), "ghost-batch".to_owned())]);
    let findings = check_bugs(&bugs(), &small(), &shown);
    assert!(findings[0].ends_with("ghost-batch is shown by sims/x.toml, too"));
}

#[test]
fn each_rule_on_observations_objects() {
    let good = format!("{OBSERVED_HEADER}\n|---|---|\n| A thing. | `fi-a` |\n");
    assert_eq!(check_observed(&good, &small()), [""; 0]);
    for (from, to, what) in [
        ("`fi-a`", "`fi-b`", "`fi-b` is not there"),
        ("`fi-a`", "", "has no cover"),
        ("`fi-a`", "*not modelled*", "has no cover"),
        ("A thing.", "", "says nothing new"),
        ("`fi-a` |", "`fi-a` | more |", "3 cells"),
    ] {
        let findings = check_observed(&good.replace(from, to), &small());
        let is_found = findings.iter().any(|line| line.contains(what));
        assert!(is_found, "{what}: {findings:?}");
    }
}
