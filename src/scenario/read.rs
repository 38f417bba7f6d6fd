//! Reading: from a path or a text to a checked [`Scenario`], with `--set` changes.
//!
//! A file goes through four doors, and each names file, line and key: it is text, it is TOML, it
//! has the right shape (`shape`), its keys agree with each other (`check`). Leans on those.

use std::fs::File;
use std::io::Read;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::check::{check_keys_written, check_settings};
use super::error::{InputError, Problem};
use super::lines::{Lines, line_at, value_and_lines};
use super::only::{Merged, ONLY, RunsIn, merged};
use super::path::KeyPath;
use super::set;
use super::shape::check_shape;
use super::shown::shown;
use super::{Scenario, Settings};

/// Largest file that is read.
const LARGEST_BYTES: u64 = 1 << 20;

impl Scenario {
    /// Reads and checks the file at `path`, as the simulator reads it.
    ///
    /// # Errors
    /// The file is missing, unreadable, not UTF-8 or above 1 MiB, or [`Scenario::parse`] refuses it.
    pub fn read(path: &str) -> Result<Self, InputError> {
        Self::read_for(path, RunsIn::Sim)
    }

    /// Reads and checks the file at `path`, as it is read in this world.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn read_for(path: &str, world: RunsIn) -> Result<Self, InputError> {
        let refuse = |message: String| InputError {
            file: shown_file(path),
            line: None,
            key: None,
            message,
        };
        let unreadable = |error: std::io::Error| refuse(format!("cannot be read: {error}"));
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        if bytes.len() as u64 > LARGEST_BYTES {
            return Err(refuse(
                "is larger than 1 MiB, the largest file allowed".to_owned(),
            ));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse_for(path, text, world),
            Err(error) => {
                let line = 1 + bytes[..error.valid_up_to()]
                    .iter()
                    .filter(|&&byte| byte == b'\n')
                    .count();
                Err(InputError {
                    line: Some(line),
                    ..refuse("is not UTF-8 text".to_owned())
                })
            }
        }
    }

    /// Parses and checks `text`, as the simulator reads it; errors name `file`.
    ///
    /// # Errors
    /// The text is not TOML, a key is unknown, missing or out of its range, or keys contradict each
    /// other. The error says which, where, and what is allowed.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        Self::parse_for(file, text, RunsIn::Sim)
    }

    /// Parses and checks `text`, as it is read in this world; what it says for the other one alone is
    /// checked, too.
    ///
    /// # Errors
    /// As [`Scenario::parse`].
    pub fn parse_for(file: &str, text: &str, world: RunsIn) -> Result<Self, InputError> {
        let file = shown_file(file);
        let document = toml_edit::Document::parse(text).map_err(|error| InputError {
            file: file.clone(),
            line: error.span().map(|span| line_at(text, span.start)),
            key: None,
            message: format!("is not valid TOML: {}", one_line(error.message())),
        })?;
        let (mut base, lines) = value_and_lines(text, document.as_table())
            .map_err(|(problem, line)| problem.into_error(&file, Some(line)))?;
        let only = base.as_object_mut().and_then(|base| base.remove(ONLY));
        let read_in = |world: RunsIn| {
            let merged = merged(&base, only.as_ref(), world)
                .map_err(|problem| located(problem, &file, &lines))?;
            let keys = merged.keys;
            let settings = check_keys_written(&merged.value)
                .and_then(|()| settings_from(merged.value))
                .map_err(|problem| Merged::in_file(&keys, world, problem))
                .map_err(|problem| located(problem, &file, &lines))?;
            Ok((settings, keys))
        };
        let (settings, keys) = read_in(world)?;
        if only.is_some() {
            for other in RunsIn::ALL.into_iter().filter(|other| *other != world) {
                read_in(other)?;
            }
        }
        Ok(Self {
            file,
            settings,
            lines,
            runs_in: world,
            only: keys,
            changes: Vec::new(),
        })
    }

    /// Changes keys, as `--set key=value` does: the key is a dotted path such as
    /// `publishers.0.flow`, the value TOML or bare text. All changes are made, then the whole is
    /// checked again.
    ///
    /// # Errors
    /// A change is no `key=value`, names an unknown key, or leads to what [`Scenario::parse`] would
    /// refuse. Nothing is changed then.
    pub fn apply_set<S: AsRef<str>>(&mut self, changes: &[S]) -> Result<(), InputError> {
        if changes.is_empty() {
            return Ok(());
        }
        let origin = |change: &str| format!("--set {}", shown(change));
        let all: Vec<String> = changes.iter().map(|set| origin(set.as_ref())).collect();
        let all = format!("{} with {}", self.file, all.join(" "));
        let mut value = serde_json::to_value(&self.settings).map_err(|error| {
            Problem::new(KeyPath::root(), error.to_string()).into_error(&all, None)
        })?;
        let mut made = Vec::with_capacity(changes.len());
        for change in changes {
            let origin = origin(change.as_ref());
            let path = set::change(&mut value, change.as_ref())
                .map_err(|problem| problem.into_error(&origin, None))?;
            made.push((path, origin));
        }
        self.settings = settings_from(value).map_err(|problem| problem.into_error(&all, None))?;
        check_keys_written(&self.written_by(changes))
            .map_err(|problem| problem.into_error(&all, None))?;
        self.changes.append(&mut made);
        Ok(())
    }

    /// What `changes` write, beside the client of each group: a key that goes with another client would be
    /// passed over in silence.
    fn written_by<S: AsRef<str>>(&self, changes: &[S]) -> Value {
        let groups = self.settings.publishers.iter();
        let clients: Vec<Value> = groups
            .map(|group| json!({ "client": group.client.word() }))
            .collect();
        let mut written = json!({ "publishers": clients });
        for change in changes {
            // What has no place here is not about clients.
            let _ = set::change(&mut written, change.as_ref());
        }
        written
    }

    /// Whether the file itself says `key`, a dotted path such as `stream.replicas`, rather than
    /// leave it at its default.
    pub fn says(&self, key: &str) -> bool {
        let only = format!("{}.{key}", self.runs_in.path().dotted());
        self.lines.has(key) || self.lines.has(&only)
    }

    /// A scenario that no file stands behind; errors name `file` and no line.
    ///
    /// # Errors
    /// As [`Scenario::parse`] for ranges and contradictions.
    pub fn from_settings(file: &str, settings: &Settings) -> Result<Self, InputError> {
        let file = shown_file(file);
        let settings = serde_json::to_value(settings)
            .map_err(|error| Problem::new(KeyPath::root(), error.to_string()))
            .and_then(settings_from)
            .map_err(|problem| problem.into_error(&file, None))?;
        Ok(Self {
            file,
            settings,
            lines: Lines::default(),
            runs_in: RunsIn::Sim,
            only: Vec::new(),
            changes: Vec::new(),
        })
    }

    /// The error for a `problem` of this scenario: where the file says it, or which `--set` does.
    pub(super) fn refuse(&self, problem: Problem) -> InputError {
        let mut changes = self.changes.iter().rev();
        match changes.find(|(path, _)| path.meets(&problem.path)) {
            Some((_, set)) => problem.into_error(&format!("{} with {set}", self.file), None),
            None => {
                let problem = Merged::in_file(&self.only, self.runs_in, problem);
                located(problem, &self.file, &self.lines)
            }
        }
    }
}

/// A hash of what a file says, however it is written: XXH3 over its JSON with sorted keys.
///
/// Two runs with the same hash had the same configuration, defaults included.
pub fn config_hash(settings: &Settings) -> u64 {
    let mut text = String::new();
    // Settings hold no maps with odd keys, so this cannot fail; Null then hashes as such.
    write_sorted(
        &serde_json::to_value(settings).unwrap_or_default(),
        &mut text,
    );
    xxh3_64(text.as_bytes())
}

/// Writes JSON with object keys in byte order, whatever order the map keeps.
fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (name, value) in entries {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_sorted(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

/// Checks shape and agreement, and makes settings of it.
fn settings_from(value: Value) -> Result<Settings, Problem> {
    check_shape(&value)?;
    let settings: Settings = serde_json::from_value(value)
        .map_err(|error| Problem::new(KeyPath::root(), error.to_string()))?;
    check_settings(&settings)?;
    Ok(settings)
}

fn located(problem: Problem, file: &str, lines: &Lines) -> InputError {
    let line = lines.of(&problem.path);
    problem.into_error(file, line)
}

/// The name of a file, safe to print, however long.
fn shown_file(file: &str) -> String {
    file.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

fn one_line(message: &str) -> String {
    let lines: Vec<String> = message.lines().map(shown).collect();
    lines.join(", ")
}
