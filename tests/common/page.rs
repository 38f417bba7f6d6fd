//! Pages of `docs/` that list things and name what of ours shows each: reading their tables, and what
//! there is that they may name.

use std::collections::BTreeSet;

use serde_json::Value;

use super::known::tests_of;
use super::tree::{files, read, top};

/// The recordings that are replayed against the model.
const REPLAYED: [&str; 5] = [
    "tests/vectors/r1-2.14.0.json",
    "tests/vectors/r1-2.14.6.json",
    "tests/vectors/r1-2.15.1.json",
    "tests/vectors/r3-2.15.1.json",
    "tests/vectors/found-2.15.1.json",
];

/// How the names of recorded exchanges begin.
const KINDS: [&str; 5] = ["fi-", "at-", "dg-", "api-", "plain-"];

/// What a page may name.
#[derive(Default)]
pub(crate) struct Known {
    /// Tests, as `module::tests::name` or `tests/file.rs::name`.
    pub(crate) tests: BTreeSet<String>,
    /// Recorded exchanges.
    pub(crate) cases: BTreeSet<String>,
}

impl Known {
    /// All that the project has.
    pub(crate) fn of_the_tree() -> Self {
        let mut known = Self::default();
        for folder in ["src", "tests"] {
            for name in files(folder, "rs") {
                let file = syn::parse_file(&read(&name)).expect("a source that parses");
                known.tests.extend(tests_of(&name, &file).into_keys());
            }
        }
        for name in REPLAYED {
            let file: Value = serde_json::from_str(&read(name)).expect("recordings in JSON");
            let cases = file["cases"].as_array().expect("cases").iter();
            let named = cases.map(|case| case["name"].as_str().expect("a name").to_owned());
            known.cases.extend(named);
        }
        known
    }

    /// Whether a name that shows something is that of a test, a recorded exchange or a scenario.
    pub(crate) fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            Some(("sims", _)) => top().join(name).is_file(),
            _ if name.contains("::") => self.tests.contains(name),
            _ if KINDS.iter().any(|kind| name.starts_with(kind)) => self.cases.contains(name),
            // A word of the configuration.
            _ => name.contains(' '),
        }
    }
}

/// The rows of all tables of a page that begin with `header`: line, and what stands in each cell.
pub(crate) fn rows<'a>(page: &'a str, header: &str) -> Vec<(usize, Vec<&'a str>)> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for (line, row) in (1..).zip(page.lines()) {
        in_table = row == header || (in_table && row.starts_with('|'));
        if in_table && row != header && !row.starts_with("|---") {
            let inner = row.trim_matches('|').split('|').map(str::trim);
            rows.push((line, inner.collect()));
        }
    }
    rows
}

/// What stands between backticks.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What is wrong with the cell that names what shows a thing: nothing is named, without a reason behind
/// one of the words `exempt`; or what is named is not there.
pub(crate) fn check_shown(cell: &str, exempt: &[&str], known: &Known) -> Vec<String> {
    let reason = exempt.iter().find_map(|words| cell.split_once(words));
    let is_exempt = reason.is_some_and(|(_, reason)| reason.trim_matches(':').len() > 10);
    let absent = quoted(cell).filter(|name| !known.has(name));
    let mut findings: Vec<String> = absent
        .map(|name| format!("`{name}` is not there"))
        .collect();
    if quoted(cell).next().is_none() && !is_exempt {
        findings.push("has no cover, and no reason".to_owned());
    }
    findings
}
