//! What a TOML text says, and the line on which each key of it stands.
//!
//! Leans on `error` and `path`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml_edit::{Item, Table, TableLike};

use super::error::Problem;
use super::path::KeyPath;

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
        path.upwards()
            .find_map(|around| self.0.get(&around.to_string()).copied())
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
                None => {
                    return Err(self.refuse(
                        path,
                        "infinity and nan are not allowed; write a finite number",
                    ));
                }
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
}
