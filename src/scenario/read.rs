//! Reading: from a path or a text to a checked [`Scenario`], with `--set` changes.
//!
//! A file goes through four doors, and each names file, line and key: it is text, it is TOML, it
//! has the right shape (`shape`), its keys agree with each other (`check`). Leans on those.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::check::{check_keys_written, check_settings};
use super::error::{InputError, Problem};
use super::lines::{Lines, line_at, value_and_lines};
use super::moments::{Moments, MomentsError};
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
    /// The file is missing, unreadable, not UTF-8 or above 1 MiB, [`Scenario::parse`] refuses it, or a
    /// file that it names is missing or wrong.
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
            Ok(text) => {
                let mut scenario = Self::parse_for(path, text, world)?;
                scenario.folder = Some(
                    Path::new(path)
                        .parent()
                        .unwrap_or_else(|| Path::new(""))
                        .into(),
                );
                scenario.read_moments()?;
                Ok(scenario)
            }
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

    /// Parses and checks `text`, as the simulator reads it; errors name `file`. Files that it names are
    /// not read: there is no folder to look for them in.
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
            folder: None,
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
        let refuse = |problem: Problem| problem.into_error(&all, None);
        let settings = settings_from(value).map_err(refuse)?;
        check_keys_written(&written_by(&settings, changes)).map_err(refuse)?;
        let mut changed = Self {
            settings,
            ..self.clone()
        };
        changed.changes.append(&mut made);
        changed.read_moments()?;
        *self = changed;
        Ok(())
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
            folder: None,
            changes: Vec::new(),
        })
    }

    /// Reads the files of moments that groups replay, if this scenario has a folder.
    fn read_moments(&mut self) -> Result<(), InputError> {
        let Some(folder) = self.folder.clone() else {
            return Ok(());
        };
        for index in 0..self.settings.publishers.len() {
            let Some(timestamps) = &self.settings.publishers[index].timestamps else {
                continue;
            };
            let how = timestamps.read();
            let moments = Moments::read(&folder, &how).map_err(|error| match error {
                MomentsError::File(message) => {
                    let groups = KeyPath::root().key("publishers");
                    let path = groups.index(index).key("timestamps");
                    self.refuse(Problem::new(path, message))
                }
                MomentsError::Line(line, message) => InputError {
                    file: shown_file(&folder.join(&how.file).to_string_lossy()),
                    line: Some(line),
                    key: None,
                    message,
                },
            })?;
            self.settings.publishers[index].moments = Some(moments);
        }
        Ok(())
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

/// What `changes` write, beside the client of each group: a key that goes with another client would be
/// passed over in silence.
fn written_by<S: AsRef<str>>(settings: &Settings, changes: &[S]) -> Value {
    let groups = settings.publishers.iter();
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

#[cfg(test)]
mod tests {
    use super::*;

    const REPLAYS: &str = "format = 1\nabout = \"x\"\n[[publishers]]\nname = \"a\"\n[[publishers]]\n\
                           arrival = \"replay\"\ntimestamps = \"moments.txt\"\n";

    fn folder(moments: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("moments.txt"), moments).unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, REPLAYS).unwrap();
        let file = file.to_str().unwrap().to_owned();
        (folder, file)
    }

    fn played(scenario: &Scenario) -> Vec<u64> {
        let moments = scenario.settings.publishers[1].moments.as_ref();
        moments.unwrap().ns.to_vec()
    }

    #[test]
    fn a_file_of_moments_is_read_beside_the_scenario_and_hashed_with_it() {
        let (folder, file) = folder("0\n1us\n");
        let scenario = Scenario::read(&file).unwrap();
        assert_eq!(played(&scenario), [0, 1_000]);
        let hash = |scenario: &Scenario| config_hash(&scenario.settings.clone().with_digests());
        let before = hash(&scenario);
        assert_eq!(before, hash(&Scenario::read(&file).unwrap()));
        std::fs::write(folder.path().join("moments.txt"), "0\n2us\n").unwrap();
        assert_ne!(before, hash(&Scenario::read(&file).unwrap()));
        // what a result keeps is valid without the file
        let kept = scenario.settings.with_digests();
        let again = Scenario::from_settings("x", &kept).unwrap();
        assert_eq!(again.settings, kept);
    }

    #[test]
    fn a_set_reads_the_file_that_it_names() {
        let (folder, file) = folder("0\n1us\n");
        std::fs::write(folder.path().join("other.txt"), "5\n").unwrap();
        let mut scenario = Scenario::read(&file).unwrap();
        scenario.apply_set(&["seed=3"]).unwrap();
        assert_eq!(played(&scenario), [0, 1_000]);
        scenario
            .apply_set(&["publishers.1.timestamps={ file = \"other.txt\", unit = \"ns\" }"])
            .unwrap();
        assert_eq!(played(&scenario), [5]);
        let before = scenario.clone();
        let error = scenario.apply_set(&["publishers.1.timestamps=gone.txt"]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("with --set publishers.1.timestamps=gone.txt: publishers[1].timestamps: \"gone.txt\" cannot be read"), "{error}");
        assert_eq!(scenario, before);
    }

    #[test]
    fn a_wrong_file_of_moments_is_named_with_its_line_and_a_missing_one_by_its_key() {
        let (folder, file) = folder("0\nsoon\n");
        let error = Scenario::read(&file).unwrap_err().to_string();
        let wanted = format!(
            "{}:2: \"soon\" is no moment",
            folder.path().join("moments.txt").display()
        );
        assert!(error.starts_with(&wanted), "{error}");
        std::fs::remove_file(folder.path().join("moments.txt")).unwrap();
        let error = Scenario::read(&file).unwrap_err().to_string();
        assert!(
            error.contains("x.toml:7: publishers[1].timestamps: \"moments.txt\" cannot be read"),
            "{error}"
        );
    }

    #[test]
    fn one_world_may_have_a_file_of_moments_of_its_own() {
        let (_folder, file) = folder("0\n");
        let only = format!("{REPLAYS}[[only.live.publishers]]\nmessages = 5\n");
        std::fs::write(&file, only).unwrap();
        assert_eq!(played(&Scenario::read(&file).unwrap()), [0]);
        let live = Scenario::read_for(&file, RunsIn::Live).unwrap();
        assert_eq!(live.settings.publishers[0].moments, None);
    }
}
