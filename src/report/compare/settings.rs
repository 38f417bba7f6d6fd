//! In which settings two runs differ.
//!
//! Leans on `result`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::report::RunResult;

/// Settings told that differ; the rest is counted.
const DIFFERENCES: usize = 12;

/// The settings in which two runs differ, in one sentence; none if they do not.
pub(super) fn differing_settings(base: &RunResult, new: &RunResult) -> Option<String> {
    if base.world != new.world {
        return Some(format!(
            "the baseline ran in {}, the candidate in {}: the model of the one stands for the surroundings of the other",
            base.world.as_str(),
            new.world.as_str()
        ));
    }
    if base.config_hash == new.config_hash {
        return None;
    }
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (run, leaves) in [(base, &mut before), (new, &mut after)] {
        let config = serde_json::to_value(&run.config)
            .expect("settings have text keys only, so they can be written");
        gather_leaves(&config, "", leaves);
    }
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let told = |leaves: &BTreeMap<String, String>, key: &String| {
        leaves
            .get(key)
            .cloned()
            .unwrap_or_else(|| "none".to_owned())
    };
    let mut differing: Vec<String> = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| format!("{key} {} became {}", told(&before, key), told(&after, key)))
        .collect();
    let more = differing.len().saturating_sub(DIFFERENCES);
    differing.truncate(DIFFERENCES);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    Some(format!("settings differ: {}{more}", differing.join(", ")))
}

/// Every value of a document that is no list or table, by its dotted path.
fn gather_leaves(value: &Value, path: &str, leaves: &mut BTreeMap<String, String>) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                gather_leaves(value, &below(key), leaves);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                gather_leaves(value, &below(&index.to_string()), leaves);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            leaves.insert(path.to_owned(), value.to_string());
        }
    }
}
