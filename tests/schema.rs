//! The JSON Schemas in `docs/` are those of the code, and `docs/scenarios.md` explains each key.
//!
//! `TIDEGATE_WRITE_SCHEMAS=1 cargo test --test schema` writes the schemas anew; `make fix` does that.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::report::{Comparison, ResultFile};
use tidegate::scenario::{Scenario, scenario_schema, workload_schema};

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name)
}

/// Compares the file with the schema, or writes it where that is asked for.
fn check(name: &str, schema: &Value) {
    let path = document(name);
    let wanted = format!("{}\n", serde_json::to_string_pretty(schema).unwrap());
    if std::env::var_os("TIDEGATE_WRITE_SCHEMAS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/{name} is not current; run `make fix` and commit what it changes"
    );
}

#[test]
fn the_scenario_schema_is_current() {
    check("scenario.schema.json", scenario_schema());
}

#[test]
fn the_workload_schema_is_current() {
    check("workload.schema.json", &workload_schema());
}

#[test]
fn the_result_schema_is_current() {
    let schema = schemars::schema_for!(ResultFile);
    check("result.schema.json", schema.as_value());
}

#[test]
fn the_comparison_schema_is_current() {
    let schema = schemars::schema_for!(Comparison);
    check("comparison.schema.json", schema.as_value());
}

/// Sections of the document, by the name of the struct that they explain.
const SECTIONS: &[(&str, &str)] = &[
    ("tidegate scenario", "## Top of the file"),
    ("StreamSettings", "## `[stream]`"),
    ("Publishers", "## `[[publishers]]`"),
    ("RateChange", "### `rates`"),
    ("TimestampsFile", "### `timestamps`"),
    ("SizeRange", "### `payload`"),
    ("WeightedSize", "#### A list with weights"),
    ("SizeSpread", "#### Around a median"),
    ("Pause", "### `pauses`"),
    ("HeaderRule", "### `headers`"),
    ("ServerSettings", "## `[server]`"),
    ("DiskSettings", "## `[disk]`"),
    ("NetworkSettings", "## `[network]`"),
    ("RaftSettings", "## `[raft]`"),
    ("Probe", "## `[[probes]]`"),
    ("Fault", "## `[[faults]]`"),
    ("LiveSettings", "## `[live]`"),
    ("Expect", "## `[expect]`"),
];

/// Keys whose range in a file is narrower than their type: the document names what bounds them.
const BOUNDED_BY_OTHERS: &[&str] = &["after", "from", "to", "publisher"];

/// The text of `document` under `heading`, up to the next heading of the same or a higher level.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let start = document
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("docs/scenarios.md has no heading `{heading}`"));
    let body = &document[start + heading.len() + 2..];
    let level = heading.bytes().take_while(|&byte| byte == b'#').count();
    let end = (1..=level)
        .filter_map(|level| body.find(&format!("\n{} ", "#".repeat(level))))
        .min();
    &body[..end.unwrap_or(body.len())]
}

/// What `document` leaves out of `schema`.
fn unexplained(document: &str, schema: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    let definitions = schema["$defs"].as_object().unwrap();
    let top = ("tidegate scenario", schema);
    let tables = definitions
        .iter()
        .map(|(name, schema)| (name.as_str(), schema));
    let tables = tables.filter(|(_, schema)| schema["type"] == "object");
    for (name, table) in std::iter::once(top).chain(tables) {
        let heading = SECTIONS.iter().find(|(section, _)| *section == name);
        let Some((_, heading)) = heading else {
            missing.push(format!("a section for {name}"));
            continue;
        };
        let text = section(document, heading);
        for (key, schema) in table["properties"].as_object().unwrap() {
            let row = format!("\n| `{key}` | ");
            match text
                .split_once(&row)
                .and_then(|(_, row)| row.lines().next())
            {
                Some(row) => missing.extend(untold(key, row, schema, heading)),
                None => missing.push(format!("`{key}` under {heading}")),
            }
        }
    }
    let words = definitions.values().flat_map(|schema| {
        let choices = schema["oneOf"].as_array().into_iter().flatten();
        choices.filter_map(|choice| choice["const"].as_str())
    });
    let words: BTreeSet<&str> = words.collect();
    missing.extend(
        words
            .into_iter()
            .filter(|word| !document.contains(&format!("`\"{word}\"`")))
            .map(|word| format!("the word `\"{word}\"`")),
    );
    missing
}

/// What the row of `key` (default | allowed | meaning) says differently from its schema.
fn untold(key: &str, row: &str, schema: &Value, heading: &str) -> Vec<String> {
    let cells: Vec<&str> = row.split(" | ").collect();
    let mut missing = Vec::new();
    let mut look_for = |cell: &str, what: &Value| {
        // Zero prints in its smallest unit; people write seconds.
        let wanted = what.to_string().replace("\"0ns\"", "\"0s\"");
        let told = match what {
            Value::Number(_) => cell
                .split(|c: char| !c.is_ascii_digit())
                .any(|word| word == wanted),
            _ => cell.contains(&wanted),
        };
        if !what.is_null() && !told {
            missing.push(format!("{what} in the row of `{key}` under {heading}"));
        }
    };
    if schema["default"].is_array() && schema["default"] == serde_json::json!([]) {
        look_for(&format!("\"{}\"", cells[0]), &"none".into());
    } else if !schema["default"].is_object() {
        look_for(cells[0], &schema["default"]);
    }
    for end in ["minimum", "maximum", "x-minimum", "x-maximum", "maxLength"] {
        if !BOUNDED_BY_OTHERS.contains(&key) && schema.get("enum").is_none() && schema[end] != 0 {
            look_for(cells[1], &schema[end]);
        }
    }
    missing
}

#[test]
fn every_example_of_the_document_is_a_good_file() {
    let document = std::fs::read_to_string(document("scenarios.md")).unwrap();
    let mut examples = 0;
    for example in document.split("```toml\n").skip(1) {
        let example = example.split("```").next().unwrap();
        let head = "format = 1\nabout = \"x\"\n";
        let text = match example {
            whole if whole.starts_with("about") && whole.contains("[[publishers]]") => {
                whole.to_owned()
            }
            top if top.starts_with("format") => format!("{top}[[publishers]]\n"),
            sections if sections.contains("[[publishers]]") => format!("{head}{sections}"),
            stream if stream.starts_with("[stream]") => {
                format!("{head}{stream}[[publishers]]\nsubject = \"orders.a\"\n")
            }
            sections if sections.starts_with('[') => format!("{head}{sections}[[publishers]]\n"),
            keys => format!("{head}[[publishers]]\n{keys}"),
        };
        if let Err(error) = Scenario::parse("docs/scenarios.md", &text) {
            panic!("{error}\n{text}");
        }
        examples += 1;
    }
    assert!(examples > 8, "{examples}");
}

#[test]
fn the_document_explains_every_key_and_word() {
    let document = std::fs::read_to_string(document("scenarios.md")).unwrap();
    assert_eq!(unexplained(&document, scenario_schema()), [""; 0]);
}

#[test]
fn a_key_that_is_not_explained_is_noticed() {
    let document = std::fs::read_to_string(document("scenarios.md")).unwrap();
    let mut schema = scenario_schema().clone();
    schema["$defs"]["Fault"]["properties"]["surprise"] = Value::Bool(true);
    assert_eq!(
        unexplained(&document, &schema),
        ["`surprise` under ## `[[faults]]`"]
    );
    let mut schema = scenario_schema().clone();
    schema["$defs"]["Publishers"]["properties"]["flow"]["default"] = 10.into();
    schema["$defs"]["Publishers"]["properties"]["flow"]["maximum"] = 60_000.into();
    assert_eq!(
        unexplained(&document, &schema),
        [
            "10 in the row of `flow` under ## `[[publishers]]`",
            "60000 in the row of `flow` under ## `[[publishers]]`"
        ]
    );
    // A word that is no default, so that only the list of words misses it.
    let without = document.replace("`\"poisson\"`", "poisson");
    assert_eq!(
        unexplained(&without, scenario_schema()),
        ["the word `\"poisson\"`"]
    );
}
