//! `tidegate report`: charts and one page for each run of some result files.
//!
//! Leans on `report`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};

use super::Failure;
use super::folder::RESULT_FILE;
use super::print;
use crate::report::chart::{self, ChartError};
use crate::report::{
    ResultFile, RunResult, latency_log, page, place, series_csv, series_parquet, write_atomically,
};
use crate::scenario::InputError;

/// Largest result file that is read.
const LARGEST_BYTES: u64 = 1 << 30;

const EXAMPLES: &str = "\
Examples:
  tidegate report results/quickstart-sim-seed1
  tidegate report results/*/ --out pages --charts none
  tidegate report results/quickstart-live-seed1 --data parquet

Pages and charts are named FILE-WORLD-seedN, with a number behind it where there are several of that
name. stdout is the path of each page, one a line.

Exit codes: 0 all pages are written, 2 bad usage or a file that is no result, 3 something cannot be
written, 129, 130 and 143 ended by a signal.";

/// Make charts and one self-contained page for each run of some result files
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportArguments {
    /// Result files as written by sim and live, or the folders that they are in
    #[arg(required = true, value_name = "RESULT", value_hint = ValueHint::AnyPath)]
    results: Vec<PathBuf>,
    /// Folder for pages and charts
    #[arg(long, value_name = "DIR", default_value = "report", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// Chart files to write beside the page, which holds the charts anyhow
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ChartFiles::All)]
    charts: ChartFiles,
    /// Figures over time to write for other tools
    #[arg(long, value_enum, value_name = "KIND", default_value_t = DataFiles::None)]
    data: DataFiles,
}

/// Figures over time to write
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DataFiles {
    /// All of them
    All,
    /// BASE-series.csv
    Csv,
    /// BASE-series.parquet
    Parquet,
    /// BASE-latency.hlog: ack latencies as an HdrHistogram interval log
    Hlog,
    /// None of them
    None,
}

/// Chart files to write
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ChartFiles {
    /// SVG and PNG
    All,
    /// SVG only
    Svg,
    /// PNG only
    Png,
    /// The page alone
    None,
}

/// Runs the command. Prints the path of each page on stdout.
///
/// # Errors
/// Bad input when a file is no result, surroundings when something cannot be written. Everything is
/// read before anything is written.
pub(super) fn run(arguments: &ReportArguments) -> Result<(), Failure> {
    let mut files = Vec::with_capacity(arguments.results.len());
    for path in &arguments.results {
        files.push(read(path)?);
    }
    let mut names = Names::default();
    let mut pages = 0;
    for run in files.iter().flat_map(ResultFile::runs) {
        let base = arguments.out.join(names.take(&name_of(run)));
        write_data(run, &base, arguments.data)?;
        let page = write_run(run, &base, arguments.charts)?;
        print::out(&format!("{}\n", page.display()))?;
        pages += 1;
    }
    let word = if pages == 1 { "page" } else { "pages" };
    print::note(&format!("{pages} {word} in {}", arguments.out.display()));
    Ok(())
}

/// Reads a result file, or the one in a folder.
pub(super) fn read(path: &Path) -> Result<ResultFile, Failure> {
    let path = if path.is_dir() {
        &path.join(RESULT_FILE)
    } else {
        path
    };
    let name = path.display().to_string();
    let bad = |message: String| InputError {
        file: name.clone(),
        line: None,
        key: None,
        message,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|why| bad(format!("cannot be read: {why}")))?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(bad("is larger than 1 GiB, the largest result that is read".to_owned()).into());
    }
    let text = String::from_utf8(bytes).map_err(|_| bad("no text: a result is JSON".to_owned()))?;
    Ok(ResultFile::parse(&name, &text)?)
}

/// Writes the charts as `BASE-NAME.svg` and `.png`, and last the page as `BASE.html`: who finds the
/// page finds the charts.
pub(super) fn write_run(
    run: &RunResult,
    base: &Path,
    charts: ChartFiles,
) -> Result<PathBuf, Failure> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::Surroundings(format!("cannot write {}: {why}", path.display()))
    };
    for chart in chart::all(run) {
        let name = |extension: &str| with_suffix(base, &format!("-{}.{extension}", chart.name));
        if matches!(charts, ChartFiles::All | ChartFiles::Svg) {
            let path = name("svg");
            let svg = chart.svg().map_err(|why| cannot(&path, &why))?;
            write_atomically(&path, svg.as_bytes()).map_err(|why| cannot(&path, &why))?;
        }
        if matches!(charts, ChartFiles::All | ChartFiles::Png) {
            let path = name("png");
            chart.write_png(&path).map_err(|why| cannot(&path, &why))?;
        }
    }
    let path = with_suffix(base, ".html");
    let text = page(run).map_err(|why: ChartError| cannot(&path, &why))?;
    write_atomically(&path, text.as_bytes()).map_err(|why| cannot(&path, &why))?;
    Ok(path)
}

/// Writes the figures over time as `BASE-series.csv` and the like.
fn write_data(run: &RunResult, base: &Path, kind: DataFiles) -> Result<(), Failure> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::Surroundings(format!("cannot write {}: {why}", path.display()))
    };
    let wants = |one| kind == DataFiles::All || kind == one;
    if wants(DataFiles::Csv) {
        let path = with_suffix(base, "-series.csv");
        write_atomically(&path, series_csv(run).as_bytes()).map_err(|why| cannot(&path, &why))?;
    }
    if wants(DataFiles::Parquet) {
        let path = with_suffix(base, "-series.parquet");
        let file = series_parquet(run).map_err(|why| cannot(&path, &why))?;
        write_atomically(&path, &file).map_err(|why| cannot(&path, &why))?;
    }
    if wants(DataFiles::Hlog) {
        let path = with_suffix(base, "-latency.hlog");
        match latency_log(run).map_err(|why| cannot(&path, &why))? {
            Some(log) => write_atomically(&path, &log).map_err(|why| cannot(&path, &why))?,
            None => print::note(&format!(
                "{}: an earlier version kept no latencies over time; there is no log",
                run.file
            )),
        }
    }
    Ok(())
}

fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// `FILE-WORLD-seedN`, as the folder of the run is called.
fn name_of(run: &RunResult) -> String {
    let stem = stem_of(Path::new(&run.file));
    format!("{stem}-{}-seed{}", place(run.world, run.lane), run.seed)
}

/// The name of a file without folder and extension, fit for a file name anywhere.
fn stem_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    let safe = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = stem
        .unwrap_or_default()
        .chars()
        .map(safe)
        .take(80)
        .collect();
    match name.trim_start_matches('.') {
        "" => "result".to_owned(),
        name => name.to_owned(),
    }
}

/// Gives each name once: a second taker gets a number behind it.
#[derive(Default)]
struct Names {
    taken: std::collections::BTreeSet<String>,
}

impl Names {
    fn take(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2_u64;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_given_once() {
        assert_eq!(stem_of(Path::new("../a/b c$.json")), "b-c-");
        assert_eq!(stem_of(Path::new("..")), "result");
        assert_eq!(stem_of(Path::new("a/.hidden")), "hidden");
        let mut names = Names::default();
        assert_eq!(names.take("run"), "run");
        assert_eq!(names.take("run"), "run-2");
        assert_eq!(names.take("run-2"), "run-2-2");
    }

    #[test]
    fn each_run_of_a_set_gets_a_page_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RESULT_FILE);
        let runs = [1, 2, 2].map(|seed| {
            let mut record = crate::report::empty_record();
            record.seed = seed;
            RunResult::new(record)
        });
        let set = crate::report::RunSet::new(runs.to_vec()).unwrap();
        ResultFile::Set(Box::new(set)).write(&path).unwrap();
        let out = folder.path().join("out");
        let arguments = ReportArguments {
            results: vec![folder.path().to_owned()],
            out: out.clone(),
            charts: ChartFiles::Svg,
            data: DataFiles::All,
        };
        run(&arguments).unwrap();
        for page in ["1", "2", "2-2"] {
            let page = out.join(format!("steady-sim-seed{page}.html"));
            assert!(page.is_file(), "{}", page.display());
        }
        // Three pages, and five charts and three files of data each.
        assert_eq!(out.read_dir().unwrap().count(), 27);
    }

    #[test]
    fn what_cannot_be_read_is_bad_input() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("binary.json");
        std::fs::write(&binary, [0xff, 0xfe]).unwrap();
        let newer = folder.path().join("newer.json");
        std::fs::write(&newer, "{\"format\": 9}").unwrap();
        // A folder without a result, too.
        let bare = folder.path().join("bare");
        std::fs::create_dir(&bare).unwrap();
        for path in [binary, newer, folder.path().join("absent.json"), bare] {
            let arguments = ReportArguments {
                results: vec![path.clone()],
                out: folder.path().join("out"),
                charts: ChartFiles::None,
                data: DataFiles::None,
            };
            let failure = run(&arguments).unwrap_err();
            assert!(matches!(failure, Failure::Input(_)), "{failure}");
            assert!(failure.to_string().starts_with(&path.display().to_string()));
        }
        assert!(!folder.path().join("out").exists());
    }
}
