//! What a command of runs leaves: result file, charts, page, and a table or JSON on stdout.
//!
//! Runs are written as they come in, so that any number of them takes no more memory than a few.
//! Leans on `report`.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::print;
use super::report::{ChartFiles, write_run};
use crate::report::{self, AtomicFile, ResultFile, RunResult, SetTable, SetWriter, Unfinished};

/// Failed runs named on the terminal.
const SHOWN: usize = 10;

/// How results are told.
pub(super) struct Wanted<'a> {
    /// `--out`.
    pub(super) folder: Option<&'a Path>,
    /// `--json`.
    pub(super) json: bool,
    /// Where results go without `--out`; see [`default_folder`].
    pub(super) default_folder: PathBuf,
    /// How many runs there will be.
    pub(super) runs: usize,
}

/// Results on their way out.
pub(super) struct Output {
    // Before the folder, which can go only when nothing of a set in work is in it.
    kept: Kept,
    /// Nothing goes to a folder with `--json` alone.
    folder: Option<Folder>,
    json: bool,
}

enum Kept {
    One(Option<Box<RunResult>>),
    Several(Box<Several>),
}

/// A set in work.
struct Several {
    writer: SetWriter<BufWriter<Spool>>,
    table: SetTable,
}

/// What finished output leaves.
#[derive(Default)]
pub(super) struct Told {
    left: Option<String>,
    unexpected: Vec<String>,
}

impl Output {
    /// Makes the folder, and finds out whether it can be written before a long run.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub(super) fn open(wanted: Wanted<'_>) -> Result<Self, Failure> {
        let folder = match (wanted.folder, wanted.json) {
            (None, true) => None,
            (Some(named), _) => Some(named.to_owned()),
            (None, false) => Some(wanted.default_folder),
        };
        let folder = folder.as_deref().map(Folder::open).transpose()?;
        let kept = if wanted.runs == 1 {
            Kept::One(None)
        } else {
            let spool = match &folder {
                Some(folder) => AtomicFile::create(&folder.result()).map(Spool::Beside),
                None => tempfile::tempfile().map(Spool::Nameless),
            };
            let writer =
                spool.and_then(|spool| SetWriter::new(BufWriter::new(spool), wanted.runs as u64));
            Kept::Several(Box::new(Several {
                writer: writer.map_err(|error| cannot_write(folder.as_ref(), &error))?,
                table: SetTable::new(print::colour()),
            }))
        };
        Ok(Self {
            kept,
            folder,
            json: wanted.json,
        })
    }

    /// Takes the next result.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn add(&mut self, result: RunResult) -> Result<(), Failure> {
        match &mut self.kept {
            Kept::One(kept) => *kept = Some(Box::new(result)),
            Kept::Several(several) => {
                several.table.add(&result);
                let added = several.writer.add(&result);
                added.map_err(|error| cannot_write(self.folder.as_ref(), &error))?;
            }
        }
        Ok(())
    }

    /// Writes what is left to write and tells the user. `partial`: runs are missing.
    ///
    /// # Errors
    /// Something cannot be written; what can be is.
    pub(super) fn finish(self, partial: bool) -> Result<Told, Failure> {
        let Self { folder, json, kept } = self;
        let left = folder.as_ref().map_or_else(
            || "on stdout".to_owned(),
            |folder| format!("in {}", folder.path.display()),
        );
        let unexpected = match kept {
            // Nothing was measured: nothing is left, no folder either.
            Kept::One(None) => return Ok(Told::default()),
            Kept::Several(several) if several.writer.runs() == 0 => return Ok(Told::default()),
            Kept::One(Some(result)) => finish_one(folder.as_ref(), json, result)?,
            Kept::Several(several) => finish_several(folder.as_ref(), json, *several, partial)?,
        };
        if !json {
            print::out(&format!("\nresults {left}\n"))?;
        }
        Ok(Told {
            left: Some(format!(
                "what was measured so far is {left}, marked partial"
            )),
            unexpected,
        })
    }
}

fn finish_one(
    folder: Option<&Folder>,
    json: bool,
    result: Box<RunResult>,
) -> Result<Vec<String>, Failure> {
    let unexpected = if result.expected {
        Vec::new()
    } else {
        vec![result.replay.clone()]
    };
    let table = report::table(&result, print::colour());
    // The result first: nothing that fails later may cost what was measured. And the user sees it
    // even where it cannot be written.
    let kept = folder.map_or(Ok(()), |folder| {
        ResultFile::Run(result.clone())
            .write(&folder.result())
            .map_err(|error| cannot_write(Some(folder), &error))?;
        write_run(&result, &folder.path.join("report"), ChartFiles::All).map(|_| ())
    });
    let text = if json {
        ResultFile::Run(result).to_json()
    } else {
        table
    };
    let told = print::out(&text);
    kept.and(told).map(|()| unexpected)
}

fn finish_several(
    folder: Option<&Folder>,
    json: bool,
    several: Several,
    partial: bool,
) -> Result<Vec<String>, Failure> {
    let cannot = |error: io::Error| cannot_write(folder, &error);
    let (summary, spool) = several.writer.finish(partial).map_err(cannot)?;
    let mut spool = spool
        .into_inner()
        .map_err(|error| cannot(error.into_error()))?;
    let told = if json {
        spool
            .rewind()
            .map_err(cannot)
            .and_then(|()| print::copy(&mut spool))
    } else {
        print::out(&several.table.finish(&summary))
    };
    // The file stands whether or not anybody could be told.
    match spool {
        Spool::Beside(file) => file.commit().map_err(cannot)?,
        Spool::Nameless(_) => {}
    }
    told.map(|()| summary.replay)
}

impl Told {
    /// How the command ends; `signal` is the one that ended it early.
    ///
    /// # Errors
    /// The signal, or runs that did not do what their file expects.
    pub(super) fn outcome(self, signal: Option<u8>) -> Result<(), Failure> {
        if let Some(number) = signal {
            let left = self.left;
            return Err(Failure::Signal { number, left });
        }
        if self.unexpected.is_empty() {
            return Ok(());
        }
        let mut message = match self.unexpected.len() {
            1 => "a run did not do what its file expects; it runs again with".to_owned(),
            count => {
                format!("{count} runs did not do what their files expect; they run again with")
            }
        };
        for replay in self.unexpected.iter().take(SHOWN) {
            message.push_str("\n  ");
            message.push_str(replay);
        }
        if self.unexpected.len() > SHOWN {
            message.push_str("\n  and more, named in the result");
        }
        Err(Failure::Unexpected(message))
    }
}

/// `results/NAME-WORLD-seedN`, or `results/NAME-WORLD` for several seeds of one file, or
/// `results/several-WORLD`.
pub(super) fn default_folder(world: report::World, files: &[&str], seed: Option<u64>) -> PathBuf {
    let world = world.as_str();
    let name = match files {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            let stem = Path::new(first).file_stem();
            let stem = stem.map_or_else(|| "run".into(), |stem| stem.to_string_lossy());
            match seed {
                Some(seed) => format!("{stem}-{world}-seed{seed}"),
                None => format!("{stem}-{world}"),
            }
        }
        _ => format!("several-{world}"),
    };
    Path::new("results").join(name)
}

fn cannot_write(folder: Option<&Folder>, error: &io::Error) -> Failure {
    let what = folder.map_or_else(
        || "a temporary file".to_owned(),
        |folder| folder.result().display().to_string(),
    );
    Failure::Surroundings(format!("{what}: cannot be written: {error}"))
}

/// The folder of the results. One that was made for them goes again if nothing came into it.
struct Folder {
    path: PathBuf,
    /// Made for these results.
    made: Option<Unfinished>,
}

impl Folder {
    fn open(path: &Path) -> Result<Self, Failure> {
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

    fn result(&self) -> PathBuf {
        self.path.join("result.json")
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

/// Where a set is gathered.
enum Spool {
    Beside(AtomicFile),
    Nameless(File),
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside(file) => file.write(bytes),
            Self::Nameless(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Beside(file) => file.flush(),
            Self::Nameless(file) => file.flush(),
        }
    }
}

impl io::Read for Spool {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Beside(file) => file.read(bytes),
            Self::Nameless(file) => file.read(bytes),
        }
    }
}

impl io::Seek for Spool {
    fn seek(&mut self, position: io::SeekFrom) -> io::Result<u64> {
        match self {
            Self::Beside(file) => file.seek(position),
            Self::Nameless(file) => file.seek(position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::World;

    #[test]
    fn folders_are_named_after_what_ran() {
        let name = |files: &[&str], seed| {
            let folder = default_folder(World::Sim, files, seed);
            folder.to_str().unwrap().to_owned()
        };
        assert_eq!(name(&["a/x.toml"], Some(7)), "results/x-sim-seed7");
        assert_eq!(name(&["a/x.toml"], None), "results/x-sim");
        assert_eq!(name(&["x.toml", "x.toml"], None), "results/x-sim");
        // Equal names of different files never share a folder.
        assert_eq!(name(&["a/x.toml", "b/x.toml"], None), "results/several-sim");
        assert_eq!(name(&[".."], Some(1)), "results/run-sim-seed1");
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
        std::fs::remove_file(path.join("result.json")).unwrap();
        drop(Folder::open(&path).unwrap());
        assert!(path.exists(), "an older folder stays, empty or not");
    }
}
