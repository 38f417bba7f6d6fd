//! What a command of runs leaves: result file, charts, page, and a table or JSON on stdout.
//!
//! Runs are written as they come in, so that any number of them takes no more memory than a few.
//! Leans on `report`.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;

use super::exit::Failure;
use super::folder::{Folder, Ran};
use super::print;
use super::report::{ChartFiles, write_run};
use crate::report::{self, AtomicFile, ResultFile, RunResult, SetTable, SetWriter};

/// Failed runs named on the terminal.
const SHOWN: usize = 10;

/// How results are told.
pub(super) struct Wanted<'a> {
    /// `--out`.
    pub(super) folder: Option<&'a Path>,
    /// `--json`.
    pub(super) json: bool,
    /// What is to run: results go to a folder of this name without `--out`.
    pub(super) ran: Ran<'a>,
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
    pub(super) fn open(wanted: &Wanted<'_>) -> Result<Self, Failure> {
        let folder = match (wanted.folder, wanted.json) {
            (None, true) => None,
            (Some(named), _) => Some(named.to_owned()),
            (None, false) => Some(wanted.ran.folder(Path::new("results"))),
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

fn cannot_write(folder: Option<&Folder>, error: &io::Error) -> Failure {
    let what = folder.map_or_else(
        || "a temporary file".to_owned(),
        |folder| folder.result().display().to_string(),
    );
    Failure::Surroundings(format!("{what}: cannot be written: {error}"))
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
