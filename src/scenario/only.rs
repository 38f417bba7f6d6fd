//! `[only.sim]` and `[only.live]`: what a file says for one of the two worlds alone.
//!
//! Such a table is laid over the file in its world: tables key by key, everything else in place of what
//! the file says otherwise. Leans on `path` and `shape` for the words of its errors.

use serde_json::{Map, Value};

use super::error::Problem;
use super::path::KeyPath;
use super::shape::{not_a_table, unknown};

/// The key of the tables.
pub(super) const ONLY: &str = "only";
/// What is the same in both worlds.
pub(super) const OF_BOTH: [&str; 2] = ["format", "about"];

/// A world that a file runs in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunsIn {
    /// The simulator, and a served model.
    Sim,
    /// Real servers.
    Live,
}

impl RunsIn {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sim, Self::Live];

    /// Its word in a file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Live => "live",
        }
    }

    /// Where a file says what is for this world alone.
    pub(super) fn path(self) -> KeyPath {
        KeyPath::root().key(ONLY).key(self.word())
    }
}

/// A file as one world reads it.
pub(super) struct Merged {
    pub(super) value: Value,
    /// The keys that come from the table of this world.
    pub(super) keys: Vec<KeyPath>,
}

/// The file `base`, from which `only` was taken, as it is read in `world`.
///
/// # Errors
/// `only` is no table, has another key than the worlds, or says what is the same in both.
pub(super) fn merged(base: &Value, only: Option<&Value>, world: RunsIn) -> Result<Merged, Problem> {
    let mut merged = Merged {
        value: base.clone(),
        keys: Vec::new(),
    };
    let Some(only) = only else {
        return Ok(merged);
    };
    let root = KeyPath::root().key(ONLY);
    let tables = only.as_object().ok_or_else(|| not_a_table(only, &root))?;
    let words = RunsIn::ALL.map(|world| (world.word().to_owned(), Value::Null));
    let known = Map::from_iter(words);
    if let Some(name) = tables.keys().find(|name| !known.contains_key(*name)) {
        return Err(unknown(name, &known, &root));
    }
    let Some(over) = tables.get(world.word()) else {
        return Ok(merged);
    };
    let path = world.path();
    let said = over.as_object().ok_or_else(|| not_a_table(over, &path))?;
    if let Some(name) = OF_BOTH.into_iter().find(|name| said.contains_key(*name)) {
        let message = "is the same in both worlds; say it at the top of the file";
        return Err(Problem::new(path.key(name), message));
    }
    lay_over(&mut merged.value, over, &KeyPath::root(), &mut merged.keys);
    Ok(merged)
}

fn lay_over(base: &mut Value, over: &Value, path: &KeyPath, keys: &mut Vec<KeyPath>) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, over) in over {
                let base = base.entry(name.clone()).or_insert(Value::Null);
                lay_over(base, over, &path.key(name), keys);
            }
        }
        (base, over) => {
            *base = over.clone();
            keys.push(path.clone());
        }
    }
}

impl Merged {
    /// Where the file says what is wrong, if a table of `world` says it.
    pub(super) fn in_file(keys: &[KeyPath], world: RunsIn, problem: Problem) -> Problem {
        let says = |key: &KeyPath| key.is_around(&problem.path);
        if !keys.iter().any(says) {
            return problem;
        }
        Problem {
            path: world.path().join(&problem.path),
            ..problem
        }
    }
}
