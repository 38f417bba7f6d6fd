//! The shape of a file: known keys, types, words, ranges, lengths, all taken from the JSON Schema.
//!
//! What passes here turns into `Settings` without an error. What only several keys together can
//! get wrong is left to `check`. Leans on `schema` and `units`.

use serde_json::{Map, Value};

use super::error::Problem;
use super::path::KeyPath;
use super::schema::{definition_name, settings_schema};
use super::shown::shown;
use crate::units::{BitRate, Bytes, Span};

/// Checks a whole file.
pub(super) fn check_shape(file: &Value) -> Result<(), Problem> {
    check_format(file)?;
    let schema = settings_schema();
    walk(file, schema, schema, &KeyPath::root())
}

/// A newer format may know keys that we do not: say that first.
fn check_format(file: &Value) -> Result<(), Problem> {
    match file["format"].as_i64() {
        Some(format) if format > 1 => Err(Problem::new(
            KeyPath::root().key("format"),
            format!("{format} is newer than this tidegate reads; allowed is 1"),
        )),
        _ => Ok(()),
    }
}

/// Checks `value` by `schema`; `bounds` is the schema at the key, which holds the range when
/// `schema` is what it refers to.
fn walk(value: &Value, schema: &Value, bounds: &Value, path: &KeyPath) -> Result<(), Problem> {
    if let Some(name) = schema.get("$ref").and_then(definition_name) {
        if let Some(quantity) = Quantity::named(name) {
            return check_quantity(value, quantity, bounds, path);
        }
        return walk(value, &settings_schema()["$defs"][name], bounds, path);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return match fitting(value, choices) {
            Some(choice) => walk(value, choice, bounds, path).map_err(|problem| Problem {
                message: problem.message + &or_words(choices),
                ..problem
            }),
            None => Err(unfit(value, schema, path)),
        };
    }
    if let Some(words) = words(schema) {
        return check_word(value, schema, &words, path);
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(object)) => check_object(object, schema, path),
        (Some("array"), Value::Array(items)) => {
            check_length(items.len(), schema, ("minItems", "maxItems"), "items", path)?;
            items.iter().enumerate().try_for_each(|(index, item)| {
                walk(item, &schema["items"], &schema["items"], &path.index(index))
            })
        }
        (Some("string"), Value::String(text)) => {
            let length = text.chars().count();
            check_length(
                length,
                schema,
                ("minLength", "maxLength"),
                "characters",
                path,
            )
        }
        (Some("boolean"), Value::Bool(_)) => Ok(()),
        (Some("integer"), Value::Number(number)) if !number.is_f64() => {
            check_number(value, schema, path)
        }
        (Some("number"), Value::Number(_)) => check_number(value, schema, path),
        _ => Err(unfit(value, schema, path)),
    }
}

fn check_object(
    object: &Map<String, Value>,
    schema: &Value,
    path: &KeyPath,
) -> Result<(), Problem> {
    let Some(known) = schema["properties"].as_object() else {
        return Ok(());
    };
    for (name, value) in object {
        match known.get(name) {
            // An absent key, when the file comes from a parsed one.
            Some(_) if value.is_null() => {}
            Some(schema) => walk(value, schema, schema, &path.key(name))?,
            None => return Err(unknown(name, known, path)),
        }
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if object.get(name).is_none_or(Value::is_null) {
            let needed = expected(&known[name]);
            let message = format!("is missing; it must be {needed}");
            return Err(Problem::new(path.key(name), message));
        }
    }
    Ok(())
}

/// The problem of a key that nobody knows, with the nearest one that somebody does.
pub(super) fn unknown(name: &str, known: &Map<String, Value>, path: &KeyPath) -> Problem {
    let message = match nearest(name, known.keys().map(String::as_str)) {
        Some(key) => format!("unknown key; did you mean `{key}`?"),
        None => {
            let known: Vec<&str> = known.keys().map(String::as_str).collect();
            format!("unknown key; known here are {}", known.join(", "))
        }
    };
    Problem::new(path.key(name), message)
}

/// The one of `known` that is so much like `written` that it may be meant.
fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let written: String = written.chars().take(64).collect();
    let known = known.map(|word| (strsim::jaro_winkler(&written, word), word));
    let alike = known.filter(|(likeness, _)| *likeness >= ALIKE);
    let nearest = alike.max_by(|left, right| left.0.total_cmp(&right.0));
    nearest.map(|(_, word)| word)
}

/// The choice that `value` is meant as: of its kind, and of several tables the one that knows most of
/// its keys.
fn fitting<'a>(value: &Value, choices: &'a [Value]) -> Option<&'a Value> {
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        _ => "",
    };
    let of_kind = choices
        .iter()
        .filter(|choice| match resolved(choice)["type"].as_str() {
            Some(taken @ ("object" | "array")) => taken == kind,
            _ => kind.is_empty(),
        });
    of_kind.min_by_key(|choice| match words(resolved(choice)) {
        Some(words) if words.contains(&value) => 0,
        Some(_) => usize::MAX,
        None => 1 + unknown_keys(value, resolved(choice)),
    })
}

/// How many keys of `value` a table of this schema does not know.
fn unknown_keys(value: &Value, schema: &Value) -> usize {
    let known = schema["properties"].as_object();
    let written = value.as_object().into_iter().flat_map(Map::keys);
    let is_unknown = |key: &&String| known.is_none_or(|known| !known.contains_key(*key));
    written.filter(is_unknown).count()
}

/// The words that stand beside a quantity.
fn or_words(choices: &[Value]) -> String {
    let words = choices.iter().filter_map(|choice| words(resolved(choice)));
    words
        .map(|words| format!(" or {}", listed(&words)))
        .collect()
}

/// The schema, or what it refers to.
fn resolved(schema: &Value) -> &Value {
    let name = schema.get("$ref").and_then(definition_name);
    name.map_or(schema, |name| &settings_schema()["$defs"][name])
}

/// The words or numbers of an enumeration.
fn words(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(words) = schema["enum"].as_array() {
        return Some(words.iter().collect());
    }
    let choices = schema["oneOf"].as_array()?;
    Some(
        choices
            .iter()
            .filter_map(|choice| choice.get("const"))
            .collect(),
    )
}

fn check_word(
    value: &Value,
    schema: &Value,
    words: &[&Value],
    path: &KeyPath,
) -> Result<(), Problem> {
    if words.contains(&value) {
        return Ok(());
    }
    let found = found(value);
    let message = match schema[LISTED_IN].as_str() {
        Some(page) => {
            let known = words.iter().filter_map(|word| word.as_str());
            let written = value.as_str().unwrap_or_default();
            let meant = nearest(written, known);
            let meant = meant.map_or_else(String::new, |word| format!("did you mean \"{word}\"? "));
            format!(
                "{found} is not allowed; {meant}{page} lists the {} words",
                words.len()
            )
        }
        None => format!("{found} is not allowed; allowed are {}", listed(words)),
    };
    Err(Problem::new(path.clone(), message))
}

/// The key of a schema that names the page which lists its words: they are too many for a line.
const LISTED_IN: &str = "x-listed-in";

fn listed(words: &[&Value]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.join(", ")
}

fn check_length(
    length: usize,
    schema: &Value,
    (least, most): (&str, &str),
    what: &str,
    path: &KeyPath,
) -> Result<(), Problem> {
    let least = schema[least].as_u64().unwrap_or(0);
    let most = schema[most].as_u64().unwrap_or(u64::MAX);
    if (least..=most).contains(&(length as u64)) {
        return Ok(());
    }
    let allowed = if least == most {
        format!("exactly {least}")
    } else {
        format!("{least} to {most}")
    };
    let message = format!("has {length} {what}; allowed are {allowed}");
    Err(Problem::new(path.clone(), message))
}

fn check_number(value: &Value, schema: &Value, path: &KeyPath) -> Result<(), Problem> {
    let fits = match (value.as_i64(), whole_range(schema)) {
        (Some(whole), Some((least, most))) => (least..=most).contains(&i128::from(whole)),
        _ => value.as_f64().is_some_and(|number| {
            let above = schema["exclusiveMinimum"].as_f64();
            let least = schema["minimum"].as_f64();
            let most = schema["maximum"].as_f64();
            above.is_none_or(|above| number > above)
                && least.is_none_or(|least| number >= least)
                && most.is_none_or(|most| number <= most)
        }),
    };
    if fits {
        return Ok(());
    }
    let message = format!("{value} is out of range; allowed are {}", range(schema));
    Err(Problem::new(path.clone(), message))
}

/// The range of a whole number, both ends included.
fn whole_range(schema: &Value) -> Option<(i128, i128)> {
    if schema["type"] != "integer" {
        return None;
    }
    let end = |name: &str| {
        let end = &schema[name];
        end.as_u64()
            .map(i128::from)
            .or_else(|| end.as_i64().map(i128::from))
            .or_else(|| end.as_f64().map(|end| end as i128))
    };
    let widest = match schema["format"].as_str() {
        Some("uint8") => i128::from(u8::MAX),
        Some("uint16") => i128::from(u16::MAX),
        Some("uint32") => i128::from(u32::MAX),
        _ => i128::from(u64::MAX),
    };
    Some((
        end("minimum").unwrap_or(0),
        end("maximum").unwrap_or(widest),
    ))
}

fn range(schema: &Value) -> String {
    match whole_range(schema) {
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least} to {most}"),
        None => match schema["exclusiveMinimum"].as_f64() {
            Some(above) => format!("numbers above {above} up to {}", schema["maximum"]),
            None => format!(
                "numbers from {} to {}",
                schema["minimum"], schema["maximum"]
            ),
        },
    }
}

/// A value that is written as text with a unit.
#[derive(Clone, Copy)]
enum Quantity {
    Span,
    Bytes,
    BitRate,
}

impl Quantity {
    fn named(definition: &str) -> Option<Self> {
        match definition {
            "Span" => Some(Self::Span),
            "Bytes" => Some(Self::Bytes),
            "BitRate" => Some(Self::BitRate),
            _ => None,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Span => "a span of time in quotes, such as \"250us\", \"10s\" or \"2m\"",
            Self::Bytes => "a number of bytes in quotes, such as \"128B\", \"1KiB\" or \"64MiB\"",
            Self::BitRate => "a bit rate in quotes, such as \"10Gbit/s\"",
        }
    }

    /// The amount in nanoseconds, bytes or bits per second.
    fn amount(self, text: &str) -> Result<u64, String> {
        Ok(match self {
            Self::Span => text.parse::<Span>()?.0.as_nanos(),
            Self::Bytes => text.parse::<Bytes>()?.0,
            Self::BitRate => text.parse::<BitRate>()?.0,
        })
    }
}

fn check_quantity(
    value: &Value,
    quantity: Quantity,
    bounds: &Value,
    path: &KeyPath,
) -> Result<(), Problem> {
    let refuse = |message: String| Err(Problem::new(path.clone(), message));
    let unfit = || format!("{} is not {}", found(value), quantity.words());
    let Some(text) = value.as_str() else {
        return refuse(unfit());
    };
    let Ok(amount) = quantity.amount(text) else {
        return refuse(unfit());
    };
    let end = |name: &str| {
        let text = bounds[name].as_str()?;
        Some((text, quantity.amount(text).ok()?))
    };
    match (end("x-minimum"), end("x-maximum")) {
        (Some((least, from)), Some((most, to))) if !(from..=to).contains(&amount) => {
            refuse(format!(
                "{} is out of range; allowed are {least} to {most}",
                shown(text)
            ))
        }
        _ => Ok(()),
    }
}

/// The problem of a value that ought to be a table.
pub(super) fn not_a_table(value: &Value, path: &KeyPath) -> Problem {
    Problem::new(path.clone(), format!("{} is not a table", found(value)))
}

fn unfit(value: &Value, schema: &Value, path: &KeyPath) -> Problem {
    let message = format!("{} is not {}", found(value), expected(schema));
    Problem::new(path.clone(), message)
}

/// What stands in the file, in short.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("\"{}\"", shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
    }
}

/// What a schema takes, in words.
fn expected(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(definition_name) {
        return match Quantity::named(name) {
            Some(quantity) => quantity.words().to_owned(),
            None => expected(&settings_schema()["$defs"][name]),
        };
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choices: Vec<String> = choices.iter().map(expected).collect();
        return choices.join(" or ");
    }
    if let Some(page) = schema[LISTED_IN].as_str() {
        return format!("one of the words that {page} lists");
    }
    if let Some(words) = words(schema) {
        return format!("one of {}", listed(&words));
    }
    match schema["type"].as_str() {
        Some("integer") => format!("a whole number, {}", range(schema)),
        Some("number") => format!("a number; allowed are {}", range(schema)),
        Some("string") => "text in quotes".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("a list; each item is {}", expected(&schema["items"])),
        _ => "a table".to_owned(),
    }
}
