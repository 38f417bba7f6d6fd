//! What a finished command leaves: result file, charts, page, and a table or JSON on stdout.
//!
//! Leans on `report`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::report::{ChartFiles, write_run};
use crate::report::{self, ResultFile, RunResult, RunSet};

/// Where results go, and how they are told.
pub(super) struct Output {
    folder: Option<PathBuf>,
    json: bool,
}

impl Output {
    /// Results in `folder`, or in one named after the run; `json`: one document on stdout.
    pub(super) const fn new(folder: Option<PathBuf>, json: bool) -> Self {
        Self { folder, json }
    }

    /// Writes everything and tells the user; fails if a run did not do what its file expects.
    pub(super) fn tell(&self, mut results: Vec<RunResult>) -> Result<(), Failure> {
        let unexpected: Vec<String> = results
            .iter()
            .filter(|result| !result.expected)
            .map(|result| result.replay.clone())
            .collect();
        let folder = self
            .folder
            .clone()
            .unwrap_or_else(|| default_folder(&results));
        let file = if results.len() == 1 {
            let result = results.remove(0);
            self.leave_one(&folder, &result)?;
            ResultFile::Run(Box::new(result))
        } else {
            let set =
                RunSet::new(results).map_err(|error| Failure::Surroundings(error.to_string()))?;
            write(&folder.join("result.json"), |path| {
                ResultFile::Set(Box::new(set.clone())).write(path)
            })?;
            ResultFile::Set(Box::new(set))
        };
        self.print(&file, &folder);
        if unexpected.is_empty() {
            return Ok(());
        }
        let mut message = match unexpected.len() {
            1 => "the run did not do what its file expects; it runs again with".to_owned(),
            count => {
                format!("{count} runs did not do what their file expects; they run again with")
            }
        };
        for replay in unexpected.iter().take(SHOWN) {
            message.push_str("\n  ");
            message.push_str(replay);
        }
        if unexpected.len() > SHOWN {
            message.push_str("\n  and more, named in result.json");
        }
        Err(Failure::Unexpected(message))
    }

    /// Result file, charts and page of one run.
    fn leave_one(&self, folder: &Path, result: &RunResult) -> Result<(), Failure> {
        // The result first: nothing that fails later may cost what was measured.
        let path = folder.join("result.json");
        write(&path, |path| {
            ResultFile::Run(Box::new(result.clone())).write(path)
        })?;
        write_run(result, &folder.join("report"), ChartFiles::All)?;
        Ok(())
    }

    fn print(&self, file: &ResultFile, folder: &Path) {
        if self.json {
            print!("{}", file.to_json());
            return;
        }
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        match file {
            ResultFile::Run(result) => print!("{}", report::table(result, colour)),
            ResultFile::Set(set) => print!("{}", report::set_table(set, colour)),
        }
        let what = match file {
            ResultFile::Run(_) => "result, charts and page in",
            ResultFile::Set(_) => "results in",
        };
        println!("\n{what} {}", folder.display());
    }
}

/// Failed runs named on the terminal.
const SHOWN: usize = 10;

/// `results/NAME-seedN`, or `results/NAME` for several seeds of one file, or `results/several`.
fn default_folder(results: &[RunResult]) -> PathBuf {
    let stem = |result: &RunResult| {
        Path::new(&result.file).file_stem().map_or_else(
            || "run".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    };
    let name = match results {
        [] => "nothing".to_owned(),
        [only] => format!("{}-{}-seed{}", stem(only), only.world.as_str(), only.seed),
        [first, rest @ ..] if rest.iter().all(|other| other.file == first.file) => {
            format!("{}-{}", stem(first), first.world.as_str())
        }
        _ => "several".to_owned(),
    };
    Path::new("results").join(name)
}

fn write(path: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), Failure> {
    write(path).map_err(|error| {
        Failure::Surroundings(format!("{}: cannot be written: {error}", path.display()))
    })
}
