//! The JSON Schema of scenario and workload files, made from the structs and their docs.
//!
//! It is the one list of keys, types and ranges: editors complete from it, `shape` checks files by
//! it. Spans, bytes and bit rates keep their range in `x-minimum` and `x-maximum`, since JSON Schema
//! cannot compare text. Leans on the structs of the sections.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::Settings;
use super::only::{OF_BOTH, ONLY, RunsIn};

/// Sections that only the simulator understands: a workload has none of them.
pub(super) const SIMULATOR_SECTIONS: &[&str] = &["server", "disk", "network", "raft"];

/// The JSON Schema of a scenario file (`docs/scenario.schema.json`).
pub fn scenario_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = settings_schema().clone();
        let mut properties = schema["properties"].clone();
        if let Some(properties) = properties.as_object_mut() {
            properties.retain(|name, _| !OF_BOTH.contains(&name.as_str()));
        }
        let table = |description: &str, properties: Value| {
            serde_json::json!({
                "description": description, "type": "object",
                "additionalProperties": false, "properties": properties,
            })
        };
        let worlds = RunsIn::ALL.map(|world| {
            let (word, said) = (world.word(), properties.clone());
            (
                word.to_owned(),
                table("What is said for this world alone.", said),
            )
        });
        let worlds = Value::from(Map::from_iter(worlds));
        schema["properties"][ONLY] = table(
            "What is said for one world alone, laid over the rest of the file there.",
            worlds,
        );
        schema
    })
}

/// The schema of what a file says in one of the worlds.
pub(super) fn settings_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = schemars::schema_for!(Settings).to_value();
        without_null(&mut schema);
        schema["title"] = "tidegate scenario".into();
        schema
    })
}

/// The JSON Schema of a workload file (`docs/workload.schema.json`): a scenario without the
/// sections that only the simulator understands.
pub fn workload_schema() -> Value {
    let mut schema = scenario_schema().clone();
    schema["title"] = "tidegate workload".into();
    schema["description"] = "A load shape for a live cluster.".into();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !SIMULATOR_SECTIONS.contains(&name.as_str()));
    }
    let live = &mut schema["properties"][ONLY]["properties"][RunsIn::Live.word()];
    if let Some(properties) = live["properties"].as_object_mut() {
        properties.retain(|name, _| !SIMULATOR_SECTIONS.contains(&name.as_str()));
    }
    keep_used_definitions(&mut schema);
    schema
}

/// Takes out `null`: TOML has none, and an absent key stands for it.
fn without_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, value| name != "default" || !value.is_null());
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_mut_slice() {
                    let only = only.take();
                    object.insert("type".to_owned(), only);
                }
            }
            merge_single_choice(object);
            if let Some(Value::Object(default)) = object.get_mut("default") {
                default.retain(|_, value| !value.is_null());
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Makes `anyOf: [something, null]` that something.
fn merge_single_choice(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else {
        return;
    };
    choices.retain(|choice| choice["type"] != "null");
    if let [Value::Object(only)] = choices.as_mut_slice() {
        let only = std::mem::take(only);
        object.remove("anyOf");
        object.extend(only);
    }
}

fn keep_used_definitions(schema: &mut Value) {
    let mut used = BTreeSet::new();
    let mut to_visit = vec![schema["properties"].clone()];
    while let Some(value) = to_visit.pop() {
        match value {
            Value::Object(object) => {
                if let Some(name) = object.get("$ref").and_then(definition_name)
                    && used.insert(name.to_owned())
                {
                    to_visit.push(schema["$defs"][name].clone());
                }
                to_visit.extend(object.into_iter().map(|(_, value)| value));
            }
            Value::Array(items) => to_visit.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    if let Some(definitions) = schema["$defs"].as_object_mut() {
        definitions.retain(|name, _| used.contains(name));
    }
}

/// The name in a reference such as `#/$defs/Span`.
pub(super) fn definition_name(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix("#/$defs/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_no_word_about_the_simulator() {
        let workload = workload_schema();
        for section in SIMULATOR_SECTIONS {
            assert!(scenario_schema()["properties"].get(section).is_some());
            assert!(workload["properties"].get(section).is_none());
        }
        let only = &workload["properties"][ONLY]["properties"];
        for section in SIMULATOR_SECTIONS {
            assert!(only["sim"]["properties"].get(section).is_some());
            assert!(only["live"]["properties"].get(section).is_none());
        }
        assert!(workload["$defs"].get("FrameKind").is_some());
    }

    #[test]
    fn no_key_may_be_null() {
        assert!(!scenario_schema().to_string().contains("null"));
    }
}
