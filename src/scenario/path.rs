//! Paths of keys, such as `publishers[0].flow`, and the line of a TOML text on which each stands.
//!
//! Leans on nothing of ours.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml_edit::{Item, Table, TableLike};

use super::error::{Problem, shown};

/// The way from the top of a file to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyPath(Vec<Step>);

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into an array, from 0.
    Index(usize),
}

impl KeyPath {
    pub(super) const fn root() -> Self {
        Self(Vec::new())
    }

    /// The path of `name` in the table at this path.
    pub(super) fn key(&self, name: &str) -> Self {
        self.with(Step::Key(name.to_owned()))
    }

    /// The path of item `index` in the array at this path.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    pub(super) const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Parses `publishers.0.flow` or `publishers[0].flow`; `None` if a step is empty.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let dotted = text.replace('[', ".").replace(']', "");
        let step = |step: &str| match step.parse() {
            Ok(index) => Step::Index(index),
            Err(_) => Step::Key(step.to_owned()),
        };
        let steps: Vec<&str> = dotted.split('.').map(str::trim).collect();
        let empty = steps.iter().any(|step| step.is_empty());
        (!empty).then(|| Self(steps.into_iter().map(step).collect()))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if position == 0 => f.write_str(&shown(name))?,
                Step::Key(name) => write!(f, ".{}", shown(name))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// The line on which each key of a file stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// Whether `path`, as text, is written.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The line, from 1, of `path`; the line of what is around it where it is not written itself.
    pub(super) fn of(&self, path: &KeyPath) -> Option<usize> {
        (0..=path.0.len()).rev().find_map(|length| {
            let around = KeyPath(path.0[..length].to_vec());
            self.0.get(&around.to_string()).copied()
        })
    }
}

/// What a TOML document says, as a JSON value, and where it says it.
///
/// # Errors
/// Dates, and numbers that are not finite: no key takes them.
pub(super) fn value_and_lines(
    text: &str,
    root: &Table,
) -> Result<(Value, Lines), (Problem, usize)> {
    let mut walk = Walk {
        newlines: text.match_indices('\n').map(|(at, _)| at).collect(),
        lines: Lines::default(),
    };
    walk.lines.0.insert(String::new(), 1);
    let value = walk.table(root, &KeyPath::root())?;
    Ok((value, walk.lines))
}

/// The line, from 1, of the byte at `offset`.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

struct Walk {
    newlines: Vec<usize>,
    lines: Lines,
}

impl Walk {
    /// Remembers that `path` starts where `span` does.
    fn note(&mut self, path: &KeyPath, span: Option<Range<usize>>) {
        if let Some(span) = span {
            let line = 1 + self.newlines.partition_point(|&at| at < span.start);
            self.lines.0.insert(path.to_string(), line);
        }
    }

    fn table(&mut self, table: &dyn TableLike, path: &KeyPath) -> Result<Value, (Problem, usize)> {
        let mut object = Map::new();
        for (name, item) in table.iter() {
            let path = path.key(name);
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            self.note(&path, key_span.or_else(|| item.span()));
            object.insert(name.to_owned(), self.item(item, &path)?);
        }
        Ok(Value::Object(object))
    }

    fn item(&mut self, item: &Item, path: &KeyPath) -> Result<Value, (Problem, usize)> {
        match item {
            Item::None => Ok(Value::Null),
            Item::Value(value) => self.value(value, path),
            Item::Table(table) => self.table(table, path),
            Item::ArrayOfTables(tables) => {
                let mut items = Vec::new();
                for (index, table) in tables.iter().enumerate() {
                    let path = path.index(index);
                    self.note(&path, table.span());
                    items.push(self.table(table, &path)?);
                }
                Ok(Value::Array(items))
            }
        }
    }

    fn value(
        &mut self,
        value: &toml_edit::Value,
        path: &KeyPath,
    ) -> Result<Value, (Problem, usize)> {
        Ok(match value {
            toml_edit::Value::String(text) => Value::from(text.value().as_str()),
            toml_edit::Value::Integer(number) => Value::from(*number.value()),
            toml_edit::Value::Boolean(truth) => Value::from(*truth.value()),
            toml_edit::Value::Float(number) => match Number::from_f64(*number.value()) {
                Some(number) => Value::Number(number),
                None => return Err(self.refuse(path, "infinity and nan are not allowed")),
            },
            toml_edit::Value::Datetime(_) => {
                return Err(self.refuse(
                    path,
                    "a date or time of day is not allowed; a span of time is text such as \"10s\"",
                ));
            }
            toml_edit::Value::InlineTable(table) => self.table(table, path)?,
            toml_edit::Value::Array(array) => {
                let mut items = Vec::new();
                for (index, value) in array.iter().enumerate() {
                    let path = path.index(index);
                    self.note(&path, value.span());
                    items.push(self.value(value, &path)?);
                }
                Value::Array(items)
            }
        })
    }

    fn refuse(&self, path: &KeyPath, message: &str) -> (Problem, usize) {
        let line = self.lines.of(path).unwrap_or(1);
        (Problem::new(path.clone(), message), line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about = \"x\"\n[stream]\nname = \"S\"\n[[publishers]]\nflow = 1\n[[publishers]]\npayload = { min = \"1B\",\n max = \"2B\" }\npauses = [\n {after = 1},\n {after = 2},\n]\n";

    fn line(path: &str) -> usize {
        let document = toml_edit::Document::parse(TEXT).unwrap();
        let (_, lines) = value_and_lines(TEXT, &document).unwrap();
        lines.of(&KeyPath::parse(path).unwrap()).unwrap()
    }

    #[test]
    fn a_path_leads_to_its_line() {
        assert_eq!(line("about"), 1);
        assert_eq!(line("stream.name"), 3);
        assert_eq!(line("publishers.0.flow"), 5);
        assert_eq!(line("publishers[1]"), 6);
        assert_eq!(line("publishers[1].payload.max"), 8);
        assert_eq!(line("publishers[1].pauses[1].after"), 11);
    }

    #[test]
    fn what_is_not_written_is_looked_up_above() {
        assert_eq!(line("stream.replicas"), 2);
        assert_eq!(line("publishers[1].flow"), 6);
        assert_eq!(line("publishers[7].flow"), 4);
        assert_eq!(line("server.version"), 1);
    }

    #[test]
    fn a_document_becomes_the_same_value() {
        let document = toml_edit::Document::parse(TEXT).unwrap();
        let (value, _) = value_and_lines(TEXT, &document).unwrap();
        let direct: Value = toml::from_str(TEXT).unwrap();
        assert_eq!(value, direct);
    }

    #[test]
    fn dates_and_infinities_are_refused_where_they_stand() {
        for text in ["a = 1\nb = inf", "a = 1\nb = 1979-05-27", "a = 1\nb = -nan"] {
            let document = toml_edit::Document::parse(text).unwrap();
            let (problem, line) = value_and_lines(text, &document).unwrap_err();
            assert_eq!((problem.path.to_string().as_str(), line), ("b", 2));
        }
    }

    #[test]
    fn a_path_prints_as_it_is_read() {
        for path in ["about", "publishers[0].flow", "a.b[3][4].c"] {
            assert_eq!(KeyPath::parse(path).unwrap().to_string(), path);
        }
        assert_eq!(
            KeyPath::parse("publishers.0.flow"),
            KeyPath::parse("publishers[0].flow")
        );
        assert_eq!(KeyPath::parse("a..b"), None);
        assert_eq!(KeyPath::parse(""), None);
    }
}
