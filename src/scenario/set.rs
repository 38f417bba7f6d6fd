//! `--set key=value`: one change to a file that is already parsed.
//!
//! Leans on `path`, `schema` and `shape` for the words of its errors.

use serde_json::{Map, Value};

use super::error::Problem;
use super::lines::value_and_lines;
use super::path::{KeyPath, Step};
use super::schema::{definition_name, settings_schema};
use super::shape::unknown;
use super::shown::shown;

/// Makes the change `key=value` in `file`; gives the key.
pub(super) fn change(file: &mut Value, change: &str) -> Result<KeyPath, Problem> {
    let parts = change
        .split_once('=')
        .and_then(|(key, value)| Some((KeyPath::parse(key)?, value)));
    let Some((path, text)) = parts else {
        let message = "is not key=value; write for example publishers.0.flow=50";
        return Err(Problem::new(KeyPath::root(), message));
    };
    if let [Step::Key(first), ..] = path.steps()
        && first == "only"
    {
        let message = "--set changes what this world reads: name the key itself, without only.sim or only.live";
        return Err(Problem::new(path, message));
    }
    let slot = descend(file, &path)?;
    *slot = value_of(text).map_err(|problem| Problem::new(path.clone(), problem))?;
    Ok(path)
}

/// TOML if it is, else the bare text.
///
/// # Errors
/// It is TOML, and of a kind that no key has; in words.
fn value_of(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let document = format!("value = {text}");
    let parsed = toml_edit::Document::parse(document.as_str());
    match parsed.ok().filter(|parsed| parsed.as_table().len() == 1) {
        None => Ok(Value::from(text)),
        Some(parsed) => {
            let read = value_and_lines(&document, parsed.as_table());
            match read {
                Ok((value, _)) => Ok(value.get("value").cloned().unwrap_or_default()),
                // By itself it is held to what its key takes.
                Err((problem, _)) if problem.path == KeyPath::root().key("value") => {
                    Ok(Value::from(text))
                }
                Err((problem, _)) => Err(problem.message),
            }
        }
    }
}

/// The place that `path` names, made where a table or an optional key is still absent.
fn descend<'a>(file: &'a mut Value, path: &KeyPath) -> Result<&'a mut Value, Problem> {
    let mut here = KeyPath::root();
    let mut schema = settings_schema();
    let mut value = file;
    for (position, step) in path.steps().iter().enumerate() {
        match step {
            Step::Key(name) => {
                if resolved(schema).get("items").is_some() {
                    return Err(no_item(&here, path, position));
                }
                let Some(known) = table_of(schema, name) else {
                    return Err(no_way(&here, path, "has no keys"));
                };
                let Some(below) = known.get(name) else {
                    return Err(unknown(name, known, &here));
                };
                schema = below;
                here = here.key(name);
                if !value.is_object() {
                    *value = Value::Object(Map::new());
                }
                value = &mut value[name.as_str()];
            }
            Step::Index(index) => {
                let schema_of_items = items_of(schema);
                let (Some(below), Value::Array(items)) = (schema_of_items, value) else {
                    return Err(no_way(&here, path, "is not a list"));
                };
                schema = below;
                let length = items.len();
                let Some(item) = items.get_mut(*index) else {
                    let has = match length {
                        0 => "is empty".to_owned(),
                        1 => "has one item; allowed is [0]".to_owned(),
                        _ => format!("has {length} items; allowed are [0] to [{}]", length - 1),
                    };
                    return Err(no_way(&here, path, &has));
                };
                here = here.index(*index);
                value = item;
            }
        }
    }
    Ok(value)
}

/// A list was asked for a key.
fn no_item(here: &KeyPath, path: &KeyPath, position: usize) -> Problem {
    // A key goes behind the number; what was meant as a number, in its place.
    let is_key = |step: &Step| match step {
        Step::Key(name) => name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() > 1,
        Step::Index(_) => false,
    };
    let meant_as_number = path.steps().get(position).is_none_or(|step| !is_key(step));
    let rest = position + usize::from(meant_as_number);
    let rest = path.steps().iter().skip(rest);
    let example = rest.fold(here.index(0), |path, step| match step {
        Step::Key(name) => path.key(name),
        Step::Index(index) => path.index(*index),
    });
    let why = format!(
        "is a list; its items are counted from 0, as in `{}`",
        example.dotted()
    );
    no_way(here, path, &why)
}

fn no_way(here: &KeyPath, path: &KeyPath, why: &str) -> Problem {
    let message = format!("no such key: `{}` {why}", shown(&here.to_string()));
    Problem::new(path.clone(), message)
}

fn resolved(schema: &'static Value) -> &'static Value {
    match schema.get("$ref").and_then(definition_name) {
        Some(name) => resolved(&settings_schema()["$defs"][name]),
        None => schema,
    }
}

/// What the items of a list are, or of the list among several forms.
fn items_of(schema: &'static Value) -> Option<&'static Value> {
    let schema = resolved(schema);
    let mut choices = schema["anyOf"].as_array().into_iter().flatten();
    schema.get("items").or_else(|| choices.find_map(items_of))
}

/// The keys of a table; among several forms, of the first that knows `name`, or else of the first.
fn table_of(schema: &'static Value, name: &str) -> Option<&'static Map<String, Value>> {
    let schema = resolved(schema);
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut tables = choices.iter().filter_map(|choice| table_of(choice, name));
        let first = tables.clone().next();
        return tables.find(|table| table.contains_key(name)).or(first);
    }
    schema["properties"].as_object()
}
