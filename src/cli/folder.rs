//! The folder of the results: how it is called, and that it goes again if nothing came into it.
//!
//! Leans on `report` and `scenario`.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use xxhash_rust::xxh3::xxh3_64;

use super::Failure;
use crate::report::{RunLane, Unfinished, World, place, resolved};
use crate::scenario::{Scenario, config_hash};

/// The result of a run, or of several, in their folder.
pub(super) const RESULT_FILE: &str = "result.json";

/// What is to run, as far as its folder is called after it.
pub(super) struct Ran<'a> {
    /// In which world.
    pub(super) world: World,
    /// How it is simulated, if it is.
    pub(super) lane: Option<RunLane>,
    /// Each file, with `--set` done.
    pub(super) files: &'a [&'a Scenario],
    /// First and last seed of the first file.
    pub(super) seeds: (u64, u64),
    /// `--set`, as given.
    pub(super) set: &'a [String],
}

impl Ran<'_> {
    /// The folder below `results`, whose WORLD is `live`, `sim`, or `wire` in that lane: `NAME-WORLD-seedN`, `NAME-WORLD-seedsA-B` for several seeds of one
    /// file, `several-WORLD-DIGITS` for several files.
    ///
    /// With `--set`, eight digits of the configuration hash follow; and eight over the name of the
    /// file where `results` has the folder already, and in it the result of another file. So only
    /// what is run again replaces a result.
    pub(super) fn folder(&self, results: &Path) -> PathBuf {
        let world = place(self.world, self.lane);
        let (first, last) = self.seeds;
        let [file] = self.files else {
            let names = self.files.iter().map(|one| one.file.as_str());
            let words: Vec<&str> = names.chain(self.set.iter().map(String::as_str)).collect();
            let all = format!("{}\n{first} {last}", words.join("\n"));
            return results.join(format!(
                "several-{world}-{}",
                digits(xxh3_64(all.as_bytes()))
            ));
        };
        let stem = Path::new(&file.file).file_stem();
        let stem = stem.map_or_else(|| "run".into(), |stem| stem.to_string_lossy());
        let mut name = if first == last {
            format!("{stem}-{world}-seed{first}")
        } else {
            format!("{stem}-{world}-seeds{first}-{last}")
        };
        if !self.set.is_empty() {
            let hash = config_hash(&resolved(self.world, file.settings.clone()));
            name = format!("{name}-{}", digits(hash));
        }
        let path = results.join(&name);
        if holds_another(&path, &file.file) {
            let hash = xxh3_64(file.file.as_bytes());
            return results.join(format!("{name}-{}", digits(hash)));
        }
        path
    }
}

/// The first eight hexadecimal digits of a hash, as results show it.
fn digits(hash: u64) -> String {
    format!("{:08x}", hash >> 32)
}

/// Whether the folder has the result of another file than `file`, or of nobody knows what.
fn holds_another(folder: &Path, file: &str) -> bool {
    let Ok(result) = File::open(folder.join(RESULT_FILE)) else {
        return false;
    };
    let same = |known: String| plain(&known) == plain(file);
    match serde_json::from_reader::<_, Known>(BufReader::new(result)) {
        Ok(known) => !known.file.or(known.runs.0).is_some_and(same),
        Err(_) => true,
    }
}

/// `./a` is `a`.
fn plain(file: &str) -> PathBuf {
    let parts = Path::new(file).components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

/// What a result says of the file it comes from.
#[derive(Deserialize)]
struct Known {
    file: Option<String>,
    #[serde(default)]
    runs: FirstOf,
}

/// The file of the first of several runs; the others are passed over.
#[derive(Default)]
struct FirstOf(Option<String>);

impl<'de> Deserialize<'de> for FirstOf {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Runs;
        impl<'de> Visitor<'de> for Runs {
            type Value = FirstOf;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of runs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut runs: A) -> Result<FirstOf, A::Error> {
                let first: Option<Known> = runs.next_element()?;
                while runs.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstOf(first.and_then(|run| run.file)))
            }
        }
        deserializer.deserialize_seq(Runs)
    }
}

/// The folder of the results. One that was made for them goes again if nothing came into it.
pub(super) struct Folder {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Made for these results.
    made: Option<Unfinished>,
}

impl Folder {
    /// Makes the folder, unless it is there, and finds out whether it can be written.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let refused = |why: String| {
            Failure::Surroundings(format!(
                "{}: {why}; choose another folder with --out DIR",
                path.display()
            ))
        };
        let is_new = !path.exists();
        if !is_new && !path.is_dir() {
            return Err(refused("is no folder".to_owned()));
        }
        std::fs::create_dir_all(path)
            .map_err(|error| refused(format!("cannot be made: {error}")))?;
        // Made first, so that it is taken away again if nothing can be written there.
        let folder = Self {
            path: path.to_owned(),
            made: is_new.then(|| Unfinished::new(path)),
        };
        tempfile::tempfile_in(path)
            .and_then(|mut file| file.write_all(b"?"))
            .map_err(|error| refused(format!("cannot be written to: {error}")))?;
        Ok(folder)
    }

    /// The result file in it.
    pub(super) fn result(&self) -> PathBuf {
        self.path.join(RESULT_FILE)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.made.is_some() {
            // Only an empty folder can be removed this way.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "format = 1\nabout = \"x\"\n[[publishers]]\n";

    fn file(name: &str) -> Scenario {
        Scenario::parse(name, TEXT).unwrap()
    }

    fn name(results: &Path, files: &[&Scenario], seeds: (u64, u64), set: &[String]) -> String {
        let ran = Ran {
            world: World::Sim,
            lane: Some(RunLane::Event),
            files,
            seeds,
            set,
        };
        let folder = ran.folder(results);
        let name = folder.strip_prefix(results).unwrap();
        name.to_str().unwrap().to_owned()
    }

    #[test]
    fn folders_are_named_after_what_ran() {
        let top = tempfile::tempdir().unwrap();
        let name = |files: &[&str], seeds| {
            let files: Vec<Scenario> = files.iter().map(|name| file(name)).collect();
            let files: Vec<&Scenario> = files.iter().collect();
            name(top.path(), &files, seeds, &[])
        };
        assert_eq!(name(&["a/x.toml"], (7, 7)), "x-sim-seed7");
        assert_eq!(name(&["a/x.toml"], (1, 20)), "x-sim-seeds1-20");
        assert_eq!(name(&[".."], (1, 1)), "run-sim-seed1");
        // Other files, or other seeds, never share a folder.
        let several = name(&["a/x.toml", "b/x.toml"], (1, 1));
        assert!(several.starts_with("several-sim-") && several.len() == 20);
        assert_ne!(several, name(&["b/x.toml", "a/x.toml"], (1, 1)));
        assert_ne!(several, name(&["a/x.toml", "b/x.toml"], (1, 2)));
    }

    #[test]
    fn another_file_or_other_settings_get_another_folder() {
        let top = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            let folder = top.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(RESULT_FILE), text).unwrap();
        };
        let (a, b) = (file("a/x.toml"), file("b/x.toml"));
        let of = |file: &Scenario, seeds| name(top.path(), &[file], seeds, &[]);
        write("x-sim-seed1", r#"{ "seed": 1, "file": "./a/x.toml" }"#);
        assert_eq!(of(&a, (1, 1)), "x-sim-seed1");
        let other = of(&b, (1, 1));
        assert!(other.starts_with("x-sim-seed1-"), "{other}");
        write(&other, r#"{ "file": "b/x.toml" }"#);
        assert_eq!(of(&b, (1, 1)), other);
        let set = r#"{ "runs": [{ "file": "a/x.toml" }, { "file": "z" }], "summary": {} }"#;
        write("x-sim-seeds1-2", set);
        assert_eq!(of(&a, (1, 2)), "x-sim-seeds1-2");
        assert!(of(&b, (1, 2)).starts_with("x-sim-seeds1-2-"));
        for unknown in ["", "{}", "[1]", "{ \"runs\": [] }"] {
            write("x-sim-seed3", unknown);
            assert!(of(&a, (3, 3)).starts_with("x-sim-seed3-"), "{unknown}");
        }
        let mut changed = a.clone();
        let set = ["publishers.0.flow=7".to_owned()];
        changed.apply_set(&set).unwrap();
        let folder = name(top.path(), &[&changed], (1, 1), &set);
        assert!(
            folder.starts_with("x-sim-seed1-") && folder.len() == 20,
            "{folder}"
        );
    }

    #[test]
    fn an_empty_folder_goes_again() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("new");
        drop(Folder::open(&path).unwrap());
        assert!(!path.exists());
        let folder = Folder::open(&path).unwrap();
        std::fs::write(folder.result(), "{}").unwrap();
        drop(folder);
        assert!(path.exists());
        std::fs::remove_file(path.join(RESULT_FILE)).unwrap();
        drop(Folder::open(&path).unwrap());
        assert!(path.exists(), "an older folder stays, empty or not");
    }
}
