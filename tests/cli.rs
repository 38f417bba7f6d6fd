//! The command line, as a user sees it: the binary itself, its output, its files, its exit codes.
//!
//! Each test works in a folder of its own. Live tests take the nats-server that `tidegate server
//! fetch` finds, on 127.0.0.1.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tidegate::live::{LocalServers, Options, Surroundings, find_server};

/// Longest wait for anything; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at something that is to happen.
const LOOK: Duration = Duration::from_millis(5);

const SMALL: &str = "about = \"Ten messages\"\nformat = 1\n[[publishers]]\nmessages = 10\n\
                     payload = \"128B\"\n[expect]\nstored = 10\n";
/// Runs for minutes unless it is stopped.
const ENDLESS: &str = "about = \"On and on\"\nformat = 1\ntime_limit = \"24h\"\n[[publishers]]\n\
                       messages = 100_000\nbatches = 0\nstop = \"23h\"\npayload = \"128B\"\n";

/// A folder to work in, and the binary to work with.
struct Bench {
    folder: tempfile::TempDir,
}

/// What a command came to.
struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let bench = Self::new();
        for (name, text) in files {
            let path = bench.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Done {
        wait(self.command(arguments).spawn().unwrap())
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }
}

impl Done {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        let Self { out, err, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{out}\nstderr:\n{err}");
        assert!(!err.contains("panicked"), "{err}");
        self
    }

    fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}\n{}", self.out))
    }
}

/// Waits for the end of `child`, and takes it down if that does not come.
fn wait(mut child: Child) -> Done {
    fn gather(pipe: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<Vec<u8>> {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            let _ = sender.send(bytes);
        });
        receiver
    }
    let (out, err) = (gather(child.stdout.take()), gather(child.stderr.take()));
    let mut left = PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if left.is_zero() {
            child.kill().unwrap();
            panic!("it hangs");
        }
        std::thread::park_timeout(LOOK);
        left = left.saturating_sub(LOOK);
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done {
        code: status.code(),
        out: text(out.recv().unwrap()),
        err: text(err.recv().unwrap()),
    }
}

fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let mut left = PATIENCE;
    while !happened() {
        assert!(!left.is_zero(), "{what} does not happen");
        std::thread::park_timeout(LOOK);
        left = left.saturating_sub(LOOK);
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.unwrap().success());
}

/// The arguments of the command that an output says would repeat a run.
fn replay_of(text: &str) -> Vec<String> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("tidegate "))
        .unwrap_or_else(|| panic!("no replay command in {text}"));
    line.split(' ').map(str::to_owned).collect()
}

fn project(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

// -- sim: what it says and leaves -------------------------------------------------------------

#[test]
fn a_run_leaves_result_charts_and_page() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let done = bench.run(&["sim", "small.toml"]).expect(0);
    assert!(
        done.out.starts_with("PASS  sim small.toml seed 1\n"),
        "{}",
        done.out
    );
    assert!(done.out.ends_with("results in results/small-sim-seed1\n"));
    assert_eq!(done.err, "");
    assert!(!done.out.contains('\x1b'), "no colour in a pipe");
    let folder = bench.path("results/small-sim-seed1");
    for name in ["result.json", "report.html", "report-latency.svg"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    let names = folder.read_dir().unwrap();
    let hidden = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with('.')
    });
    assert_eq!(hidden.count(), 0, "no temporary file stays");
}

#[test]
fn a_result_holds_the_model_that_it_comes_from() {
    let with_section = format!("{SMALL}[network]\n");
    let bench = Bench::with(&[("small.toml", SMALL), ("same.toml", &with_section)]);
    let small = bench
        .run(&["sim", "small.toml", "--json"])
        .expect(0)
        .document();
    assert_eq!(small["config"]["server"]["flow_total"], 500);
    assert_eq!(small["config"]["disk"]["sync"], "never");
    assert_eq!(small["config"]["network"]["latency"], "100us");
    let same = bench
        .run(&["sim", "same.toml", "--json"])
        .expect(0)
        .document();
    assert_eq!(small["config_hash"], same["config_hash"]);
    assert_eq!(small["trace_hash"], same["trace_hash"]);
    let set = [
        "sim",
        "small.toml",
        "--json",
        "--set",
        "network.latency=1ms",
    ];
    let other = bench.run(&set).expect(0).document();
    assert_ne!(small["config_hash"], other["config_hash"]);
}

#[test]
fn the_exit_code_says_whether_the_file_was_right() {
    let stall = project("sims/nats/window-of-one.toml");
    let bench = Bench::with(&[("wrong.toml", &SMALL.replace("stored = 10", "stored = 11"))]);
    bench.run(&["sim", &stall, "--json"]).expect(0);
    let done = bench
        .run(&[
            "sim",
            "wrong.toml",
            "--seed",
            "7",
            "--set",
            "about=it's late",
        ])
        .expect(1);
    assert!(
        done.out.contains("stored: expected 11, got 10"),
        "{}",
        done.out
    );
    assert!(
        done.out
            .contains("\nreplay  tidegate sim wrong.toml --seed 7 ")
    );
    assert!(
        done.err
            .ends_with("\n  tidegate sim wrong.toml --seed 7 --set 'about=it'\\''s late'\n"),
        "{}",
        done.err
    );
    let done = bench
        .run(&["sim", "wrong.toml", "--seeds", "2..3", "--json"])
        .expect(1);
    let replay = replay_of(&done.err);
    assert_eq!(replay, ["sim", "wrong.toml", "--seed", "2"]);
    let again = bench.run(&replay).expect(1);
    assert!(again.out.contains("wrong.toml seed 2"), "{}", again.out);
}

#[test]
fn seeds_have_both_ends_and_come_in_order() {
    let bench = Bench::with(&[("small.toml", SMALL), ("x/small.toml", SMALL)]);
    let arguments = ["sim", "small.toml", "x/small.toml", "--seeds", "3..5"];
    let more = ["--jobs", "2", "--json", "--out", "o"];
    let done = bench.run(&[&arguments[..], &more].concat()).expect(0);
    let document = done.document();
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<_> = runs
        .iter()
        .map(|run| (run["file"].as_str().unwrap(), run["seed"].as_u64().unwrap()))
        .collect();
    let expected = ["small.toml", "x/small.toml"]
        .into_iter()
        .flat_map(|file| (3..=5).map(move |seed| (file, seed)));
    assert_eq!(names, expected.collect::<Vec<_>>());
    assert_eq!(document["format"], 1);
    assert_eq!(document["summary"]["runs"], 6);
    assert_eq!(document["summary"]["partial"], false);
    assert_eq!(bench.json("o/result.json"), document);
    assert!(runs[0]["series"]["acknowledged"].as_array().unwrap().len() > 1);
    // Equal names of two files: one set, one folder, no run lost.
    let done = bench.run(&arguments).expect(0);
    assert!(done.out.contains("6 runs: 6 as expected"), "{}", done.out);
    let (_, folder) = done.out.trim_end().rsplit_once("results in ").unwrap();
    assert!(folder.starts_with("results/several-sim-"), "{folder}");
    let result = format!("{folder}/result.json");
    let pages = bench
        .run(&["report", &result, "--charts", "none"])
        .expect(0);
    assert_eq!(pages.out.lines().count(), 6);
    assert!(pages.out.contains("report/small-sim-seed5-2.html\n"));
}

#[test]
fn only_the_same_file_with_the_same_settings_replaces_a_result() {
    let bench = Bench::with(&[("small.toml", SMALL), ("x/small.toml", SMALL)]);
    let folder = |arguments: &[&str]| {
        let done = bench.run(&[&["sim"], arguments].concat()).expect(0);
        let (_, folder) = done.out.trim_end().rsplit_once("results in ").unwrap();
        folder.to_owned()
    };
    let first = folder(&["small.toml"]);
    assert_eq!(first, "results/small-sim-seed1");
    let others = [
        folder(&["x/small.toml"]),
        folder(&["small.toml", "--set", "publishers.0.flow=5"]),
        folder(&["small.toml", "--set", "publishers.0.flow=6"]),
        folder(&["small.toml", "--seeds", "1..2"]),
        folder(&["small.toml", "--seeds", "1..3"]),
    ];
    assert_eq!(folder(&["./small.toml"]), first);
    assert_eq!(folder(&["x/small.toml"]), others[0]);
    assert_eq!(others[3], "results/small-sim-seeds1-2");
    let folders = bench.path("results").read_dir().unwrap().count();
    assert_eq!(folders, 6, "{others:?}");
    assert_eq!(
        bench.json("results/small-sim-seed1/result.json")["file"],
        "./small.toml"
    );
}

#[test]
fn a_seed_is_the_file_s_else_one() {
    let bench = Bench::with(&[
        ("small.toml", SMALL),
        ("nine.toml", &SMALL.replace("format", "seed = 9\nformat")),
    ]);
    for (arguments, seed) in [
        (&["small.toml"][..], 1),
        (&["nine.toml"], 9),
        (&["nine.toml", "--seed", "4"], 4),
        (&["nine.toml", "--set", "seed=5"], 5),
    ] {
        let arguments = [&["sim", "--json"], arguments].concat();
        let done = bench.run(&arguments).expect(0);
        assert_eq!(done.document()["seed"], seed, "{arguments:?}");
    }
}

#[test]
fn json_alone_is_one_document_and_leaves_no_folder() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    for seeds in ["1..1", "1..2"] {
        let done = bench.run(&["sim", "small.toml", "--json", "--seeds", seeds]);
        done.expect(0).document();
    }
    let names = bench.folder.path().read_dir().unwrap().count();
    assert_eq!(names, 1, "only the file is there");
}

#[test]
fn a_large_set_leaves_out_figures_over_time() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    bench
        .run(&["sim", "small.toml", "--seeds", "1..101", "--out", "o"])
        .expect(0);
    let set = bench.json("o/result.json");
    let runs = set["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 101);
    assert_eq!(runs[100]["seed"], 101);
    assert_eq!(runs[0]["series"]["acknowledged"], serde_json::json!([]));
    assert_eq!(runs[0]["totals"]["stored"], 10);
    assert_eq!(set["summary"]["ack_latency_ns"]["count"], 1_010);
}

#[test]
fn a_trace_is_whole_and_of_one_run() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let done = bench.run(&["sim", "small.toml", "--trace", "t.txt", "--json"]);
    done.expect(0).document();
    let trace = std::fs::read_to_string(bench.path("t.txt")).unwrap();
    assert!(trace.lines().count() > 20);
    assert!(trace.contains("BatchEnded") && trace.ends_with('\n'));
    let printed = bench.run(&["trace", "small.toml", "--seed", "1"]).expect(0);
    assert_eq!(printed.out, trace);
    let two = bench.run(&["sim", "small.toml", "--trace", "t.txt", "--seeds", "1..2"]);
    assert!(two.expect(2).err.contains("one file and one seed"));
}

#[test]
fn determinism_is_checked_run_by_run() {
    let bench = Bench::with(&[("-odd name.toml", SMALL)]);
    let done = bench
        .run(&[
            "sim",
            "--check-determinism",
            "--seeds",
            "1..2",
            "--",
            "-odd name.toml",
        ])
        .expect(0);
    assert_eq!(done.out.lines().count(), 2);
    assert!(done.out.contains("seed 2: ") && done.out.contains("equal in two threads"));
    let done = bench
        .run(&[
            "sim",
            "--check-determinism",
            "--json",
            "--",
            "-odd name.toml",
        ])
        .expect(0);
    let checked = &done.document()["checked"][0];
    assert_eq!(checked["equal"], true);
    assert!(checked["events"].as_u64().unwrap() > 20);
    bench
        .run(&[
            "sim",
            "--check-determinism",
            "--out",
            "o",
            "--",
            "-odd name.toml",
        ])
        .expect(2);
}

// -- bad input and usage ----------------------------------------------------------------------

#[test]
fn bad_input_is_one_clear_line() {
    let bench = Bench::with(&[
        ("small.toml", SMALL),
        ("empty.toml", ""),
        ("big.toml", &"#".repeat((1 << 20) + 1)),
        (
            "fits.toml",
            &format!("{SMALL}{}\n", "#".repeat((1 << 20) - 200)),
        ),
        ("typo.toml", &SMALL.replace("messages =", "mesages =")),
        (
            "judge.toml",
            &format!("{SMALL}verdict = \"violation\"\njudges = [\"order\"]\n"),
        ),
        (
            "extra.toml",
            &SMALL.replace("payload", "client = \"jetstream-extra\"\npayload"),
        ),
        ("newer.toml", "format = 2\n"),
        ("newer.json", "{\"format\": 2}"),
        (
            "fault.toml",
            &format!("{SMALL}[[faults]]\naction = \"drop\"\nframe = \"message\"\n"),
        ),
        ("network.toml", &format!("{SMALL}[network]\n")),
        ("three.toml", &format!("{SMALL}[stream]\nreplicas = 3\n")),
    ]);
    bench.run(&["sim", "fits.toml", "--json"]).expect(0);
    let flow = "publishers[0].flow: \"99999999999999999999\" is not a whole number, 1 to 65535";
    let table: &[(&[&str], &[&str])] = &[
        (&["sim", "absent.toml"], &["absent.toml: cannot be read: "]),
        (&["sim", "."], &[".: cannot be read: "]),
        (
            &["sim", "empty.toml"],
            &["empty.toml:1: format: is missing"],
        ),
        (&["sim", "big.toml"], &["big.toml: is larger than 1 MiB"]),
        (
            &["sim", "typo.toml"],
            &[
                "typo.toml:4: publishers[0].mesages: ",
                "did you mean `messages`?",
            ],
        ),
        (
            &["sim", "judge.toml"],
            &["judge.toml:9: expect.judges[0]: ", "nothing-stored-twice"],
        ),
        (
            &["sim", "newer.toml"],
            &["newer.toml:1: format: 2 is newer"],
        ),
        (
            &["sim", "extra.toml", "--lane", "event"],
            &[
                "extra.toml:5: publishers[0].client: ",
                "--lane wire",
                "--set publishers.0.client=core",
            ],
        ),
        (
            &[
                "sim",
                "small.toml",
                "--set",
                "publishers.0.flow=99999999999999999999",
            ],
            &[flow],
        ),
        (
            &["sim", "small.toml", "--set", "publishers.0.flow=1e999"],
            &["is not a whole number"],
        ),
        (
            &["sim", "small.toml", "--set", "nothing"],
            &["--set nothing: is not key=value"],
        ),
        (
            &["sim", "small.toml", "--set", "publishers.7.flow=1"],
            &["--set publishers.7.flow=1: "],
        ),
        (&["sim", "small.toml", "absent.toml"], &["absent.toml: "]),
        (&["live", "absent.toml"], &["absent.toml: cannot be read: "]),
        (
            &["live", "fault.toml"],
            &["is for the simulator only; say it under [[only.sim.faults]]"],
        ),
        (
            &["live", "network.toml", "--strict"],
            &["network.toml:8: network: is for the simulator"],
        ),
        (
            &["live", "small.toml", "--servers", ""],
            &["--servers: an address is empty"],
        ),
        (
            &["live", "small.toml", "--servers", "nats://a b"],
            &["--servers nats://a b: this is no server URL"],
        ),
        (
            &["live", "three.toml", "--local", "1"],
            &["three.toml:9: stream.replicas: 3 replicas need as many servers"],
        ),
        (&["live", "three.toml"], &["start three with --local 3"]),
        (
            &["live", "small.toml", "--set", "stream.replicas=5"],
            &["small.toml with --set stream.replicas=5: stream.replicas: "],
        ),
        (&["conform", "empty.toml"], &["empty.toml:1: "]),
        (&["conform", "newer.json"], &["newer.json: format: "]),
        (&["conform", "."], &[".: cannot be read: "]),
        (
            &["conform", "newer.json", "--record", "x"],
            &["--record needs a real server"],
        ),
        (
            &["conform", "newer.json", "--server-version", "x"],
            &["`x` is no version of nats-server"],
        ),
        (&["report", "empty.toml"], &["empty.toml:1: no JSON"]),
        (
            &["report", "newer.json"],
            &["newer.json: format: 2 is newer"],
        ),
        (&["report", "."], &["./result.json: cannot be read: "]),
        (
            &["server", "fetch", "--version", "../../x"],
            &["`../../x` is no version"],
        ),
    ];
    for (arguments, parts) in table {
        let done = bench.run(arguments).expect(2);
        assert_eq!(done.out, "", "{arguments:?}");
        assert_eq!(done.err.lines().count(), 1, "{arguments:?}: {}", done.err);
        assert!(done.err.starts_with("tidegate: "), "{}", done.err);
        for part in *parts {
            assert!(done.err.contains(part), "{arguments:?}: {}", done.err);
        }
    }
    assert!(!bench.path("results").exists() && !bench.path("report").exists());
}

#[test]
fn bad_usage_says_what_is_allowed() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let table: &[(&[&str], &str)] = &[
        (&[], "Usage: tidegate <COMMAND>"),
        (&["simm"], "unrecognized subcommand"),
        (&["sim"], "<FILE>..."),
        (&["sim", "small.toml", "--seeds", "5..1"], "A not above B"),
        (&["sim", "small.toml", "--seeds", "1.."], "A..B"),
        (
            &["sim", "small.toml", "--seeds", "0..99999999"],
            "at most 1000000 seeds",
        ),
        (
            &["sim", "small.toml", "--seed", "1", "--seeds", "1..2"],
            "cannot be used with",
        ),
        (
            &["sim", "small.toml", "--seed", "99999999999999999999"],
            "--seed <N>",
        ),
        (&["sim", "small.toml", "--seed=-1"], "--seed <N>"),
        (&["sim", "small.toml", "--jobs", "0"], "1..=1024"),
        (&["sim", "small.toml", "--lane", "bytes"], "event, wire"),
        (
            &["sim", "small.toml", "--substrate", "turmoil"],
            "add --lane wire",
        ),
        (
            &["live", "small.toml", "--local", "2"],
            "allowed are 1 and 3",
        ),
        (
            &["live", "small.toml", "--local", "1", "--servers", "x"],
            "cannot be used with",
        ),
        (
            &["conform", "small.toml", "--against", "http://x"],
            "none of `model`, `serve` and `local`",
        ),
        // Before anything else is looked at.
        (
            &["conform", "absent.json", "--against", "modell"],
            "none of `model`, `serve` and `local`, and `modell` is no server URL",
        ),
        (&["report"], "<RESULT>..."),
        (
            &["completions", "csh"],
            "bash, elvish, fish, powershell, zsh",
        ),
    ];
    for (arguments, part) in table {
        let done = bench.run(arguments).expect(2);
        assert_eq!(done.out, "", "{arguments:?}");
        assert!(done.err.contains(part), "{arguments:?}: {}", done.err);
    }
}

#[cfg(unix)]
#[test]
fn a_name_that_is_no_text_is_refused_or_taken() {
    use std::os::unix::ffi::OsStringExt as _;
    let bench = Bench::new();
    let name = OsString::from_vec(b"\xff.toml".to_vec());
    std::fs::write(bench.folder.path().join(&name), SMALL).unwrap();
    for command in ["sim", "live"] {
        let done = bench.run(&[OsStr::new(command), &name]).expect(2);
        assert!(
            done.err.contains("this name is not UTF-8 text"),
            "{}",
            done.err
        );
    }
    std::fs::write(bench.path("small.toml"), SMALL).unwrap();
    let folder = OsString::from_vec(b"out\xff".to_vec());
    let arguments = ["sim", "small.toml", "--out"].map(OsStr::new);
    let arguments = [&arguments[..], &[&folder]].concat();
    bench.run(&arguments).expect(0);
    let result = bench.folder.path().join(&folder).join("result.json");
    bench
        .run(&[OsStr::new("report"), result.as_os_str()])
        .expect(0);
}

#[test]
fn every_command_has_help_with_examples_in_one_style() {
    let bench = Bench::new();
    let commands: &[&[&str]] = &[
        &[],
        &["sim"],
        &["live"],
        &["conform"],
        &["report"],
        &["compare"],
        &["server"],
        &["server", "fetch"],
        &["completions"],
    ];
    for command in commands {
        for flag in ["--help", "-h"] {
            let done = bench.run(&[command, &[flag][..]].concat()).expect(0);
            let (usage, examples) = done.out.split_once("\nExamples:\n").unwrap();
            assert!(examples.starts_with("  "), "{command:?}");
            assert!(examples.contains(&format!("tidegate {}", command.join(" "))));
            let options = usage.split_once("\nUsage: ").unwrap().1;
            for line in options.lines().skip(1) {
                assert!(
                    !line.ends_with('.') || line.ends_with("..."),
                    "{command:?} {flag}: {line}"
                );
                assert!(line.chars().count() <= 100, "{line}");
            }
            if !command.is_empty() && flag == "-h" {
                let first = usage.lines().next().unwrap();
                assert!(!first.ends_with('.'), "{first}");
            }
        }
    }
    assert!(!bench.run(&["--help"]).out.contains("  trace "));
    let version = bench.run(&["--version"]).expect(0).out;
    assert_eq!(version, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_there_for_each_shell() {
    let bench = Bench::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = bench.run(&["completions", shell]).expect(0).out;
        assert!(script.contains("check-determinism"), "{shell}");
    }
}

// -- the surroundings -------------------------------------------------------------------------

#[test]
fn a_folder_that_cannot_be_written_is_found_before_the_run() {
    let bench = Bench::with(&[("endless.toml", ENDLESS), ("file", "")]);
    for out in ["file", "file/below", "endless.toml/x"] {
        for seeds in ["1..1", "1..2"] {
            // The run would take for ever: the error comes first.
            let done = bench.run(&["sim", "endless.toml", "--out", out, "--seeds", seeds]);
            let err = done.expect(3).err;
            assert!(err.contains(out) && err.contains("--out DIR"), "{err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
    for trace in ["file/t", "absent/t"] {
        let done = bench.run(&["sim", "endless.toml", "--trace", trace]);
        let err = done.expect(3).err;
        let start = format!("tidegate: {trace}: cannot be written: there is no folder ");
        assert!(err.starts_with(&start), "{err}");
    }
    assert!(!bench.path("absent").exists());
    assert!(
        !bench.path("results").exists() || bench.path("results").read_dir().unwrap().count() == 0
    );
    let done = bench.run(&[
        "conform",
        &project("tests/vectors/r1-2.15.1.json"),
        "--against",
        "nats://127.0.0.1:1",
        "--record",
        "file/r",
    ]);
    assert!(done.expect(3).err.contains("file/r: cannot be written: "));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_costs_nothing_that_can_be_saved() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let arguments = ["sim", "small.toml", "--trace", "/dev/full", "--json"];
    let done = bench.run(&arguments).expect(3);
    assert_eq!(done.document()["verdict"], "pass");
    assert!(
        done.err
            .contains("/dev/full: cannot be written: No space left")
    );
    let full = || {
        std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let result = "small.json";
    let small = bench.run(&["sim", "small.toml", "--json"]).expect(0).out;
    std::fs::write(bench.path(result), small).unwrap();
    for arguments in [
        &["sim", "small.toml", "--seeds", "1..2"][..],
        &["sim", "small.toml", "--json"],
        &["sim", "small.toml", "--seeds", "1..2", "--json"],
        &["sim", "small.toml", "--check-determinism"],
        &["trace", "small.toml", "--seed", "1"],
        &["report", result, "--charts", "none"],
        &["completions", "bash"],
    ] {
        let mut command = bench.command(arguments);
        let done = wait(command.stdout(full()).spawn().unwrap()).expect(3);
        assert!(
            done.err.contains("stdout cannot be written: No space left"),
            "{arguments:?}"
        );
        // A full stderr changes nothing.
        let mut command = bench.command(arguments);
        wait(command.stderr(full()).spawn().unwrap()).expect(0);
    }
    let arguments = ["sim", "small.toml", "--seeds", "1..2", "--out", "told"];
    let mut command = bench.command(&arguments);
    wait(command.stdout(full()).spawn().unwrap()).expect(3);
    let set = bench.json("told/result.json");
    assert_eq!(set["summary"]["runs"], 2, "the file stands all the same");
    use std::os::unix::fs::FileTypeExt as _;
    let device = Path::new("/dev/full").metadata().unwrap();
    assert!(
        device.file_type().is_char_device(),
        "a device is not replaced"
    );
}

#[test]
fn a_reader_who_goes_is_no_error() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let vectors = project("tests/vectors/r3-2.15.1.json");
    let result = "small.json";
    let small = bench.run(&["sim", "small.toml", "--json"]).expect(0).out;
    std::fs::write(bench.path(result), small).unwrap();
    let wrong = ["sim", "small.toml", "--json", "--set", "expect.stored=11"];
    for (arguments, code) in [
        (&["sim", "small.toml"][..], 0),
        (&wrong, 1),
        (&["sim", "small.toml", "--json"], 0),
        (&["sim", "small.toml", "--json", "--seeds", "1..3"], 0),
        (&["sim", "small.toml", "--check-determinism"], 0),
        (&["trace", "small.toml", "--seed", "1"], 0),
        (&["report", result, "--charts", "none"], 0),
        (&["conform", &vectors], 0),
        (&["completions", "zsh"], 0),
        (&["sim", "--help"], 0),
        (&["--version"], 0),
        (&["sim", "absent.toml"], 2),
    ] {
        // Both pipes are closed before the command can write: nothing may panic.
        let mut child = bench.command(arguments).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(wait(child).code, Some(code), "{arguments:?}");
        let mut child = bench.command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        wait(child).expect(code);
    }
}

#[cfg(unix)]
#[test]
fn a_terminal_gets_colour_unless_it_is_refused() {
    // `script` gives a terminal; where it is not there, nothing can be said.
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let run = |name: &str, value: &str| {
        let inner = format!("{} sim small.toml", env!("CARGO_BIN_EXE_tidegate"));
        let mut command = Command::new("script");
        command
            .args(["-qec", &inner, "/dev/null"])
            .current_dir(bench.folder.path())
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .env(name, value)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Some(wait(command.spawn().ok()?))
    };
    let Some(plain) = run("OTHER", "1") else {
        eprintln!("skipped: no program `script`");
        return;
    };
    assert!(plain.out.contains("\x1b[1;32mPASS"), "{}", plain.out);
    assert!(run("NO_COLOR", "").unwrap().out.contains("\x1b[1;32mPASS"));
    assert!(!run("NO_COLOR", "1").unwrap().out.contains("\x1b[1;32m"));
    assert!(!run("TERM", "dumb").unwrap().out.contains('\x1b'));
}

// -- signals ----------------------------------------------------------------------------------

#[test]
fn a_signal_leaves_the_partial_result() {
    let bench = Bench::with(&[("endless.toml", ENDLESS)]);
    for (name, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let child = bench
            .command(&["sim", "endless.toml", "--out", name])
            .spawn()
            .unwrap();
        // The folder is made after the signals are caught.
        until("the start", || bench.path(name).is_dir());
        signal(&child, name);
        let done = wait(child).expect(code);
        assert!(
            done.out.starts_with("PARTIAL  sim endless.toml seed 1"),
            "{}",
            done.out
        );
        assert!(
            done.err.contains(&format!("is in {name}, marked partial")),
            "{}",
            done.err
        );
        let result = bench.json(&format!("{name}/result.json"));
        assert_eq!(result["partial"], true);
        assert_eq!(result["expected"], false);
        let page = std::fs::read_to_string(bench.path(&format!("{name}/report.html"))).unwrap();
        assert!(page.contains("<title>endless.toml, seed 1: partial</title>"));
    }
}

#[test]
fn a_signal_in_a_set_leaves_what_is_finished_and_the_partial_run() {
    let bench = Bench::with(&[("small.toml", SMALL), ("endless.toml", ENDLESS)]);
    // Its result is larger than what waits in memory to be written.
    let first = project("sims/nats/quickstart.toml");
    let arguments = [
        "sim",
        &first,
        "endless.toml",
        "small.toml",
        "--jobs",
        "1",
        "--out",
        "o",
    ];
    let child = bench.command(&arguments).spawn().unwrap();
    let length = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().metadata().map(|data| data.len())
    };
    // What is written of the first run waits in a temporary file.
    until("the end of the first run", || {
        let files = bench.path("o").read_dir().ok();
        files.is_some_and(|mut files| {
            files.any(|file| length(file).is_ok_and(|bytes| bytes > 2_000))
        })
    });
    signal(&child, "INT");
    let done = wait(child).expect(130);
    assert!(
        done.out.contains("2 of 3 runs (partial: ended early)"),
        "{}",
        done.out
    );
    let set = bench.json("o/result.json");
    let runs = set["runs"].as_array().unwrap();
    let partial: Vec<_> = runs.iter().map(|run| run["partial"].as_bool()).collect();
    assert_eq!(partial, [Some(false), Some(true)]);
    assert_eq!(set["summary"]["partial"], true);
    assert_eq!(set["summary"]["expected"], 1);
    assert_eq!(set["summary"]["unexpected"], 1);
    assert_eq!(bench.path("o").read_dir().unwrap().count(), 1);
}

#[test]
fn a_trace_never_overwrites_the_file_that_is_run() {
    let bench = Bench::with(&[("small.toml", SMALL)]);
    let arguments = ["sim", "small.toml", "--trace", "./small.toml", "--out", "o"];
    let child = bench.command(&arguments).spawn().unwrap();
    let done = wait(child).expect(2);
    assert!(done.err.contains("would overwrite"), "{}", done.err);
    assert_eq!(
        std::fs::read_to_string(bench.path("small.toml")).unwrap(),
        SMALL
    );
}

#[test]
fn a_recording_never_overwrites_the_file_that_it_comes_from() {
    let bench = Bench::new();
    let vectors = project("tests/vectors/r3-2.15.1.json");
    std::fs::copy(vectors, bench.path("cases.json")).unwrap();
    let before = std::fs::read(bench.path("cases.json")).unwrap();
    let arguments = ["conform", "cases.json", "--against", "local", "--record"];
    for (target, code) in [("./cases.json", 2), ("absent/cases.json", 3)] {
        let done = bench
            .run(&[&arguments[..], &[target]].concat())
            .expect(code);
        assert_eq!(done.err.lines().count(), 1, "{}", done.err);
        assert_eq!(done.out, "");
    }
    assert_eq!(std::fs::read(bench.path("cases.json")).unwrap(), before);
}

#[test]
fn a_second_signal_ends_at_once() {
    let bench = Bench::with(&[("endless.toml", ENDLESS)]);
    let child = bench
        .command(&["sim", "endless.toml", "--out", "o"])
        .spawn()
        .unwrap();
    until("the start", || bench.path("o").is_dir());
    signal(&child, "TERM");
    signal(&child, "INT");
    let done = wait(child);
    // The first may have been enough by the time of the second.
    assert!(
        [Some(130), Some(143)].contains(&done.code),
        "{:?}",
        done.code
    );
}

#[test]
fn nothing_half_written_stays_after_a_second_signal() {
    let bench = Bench::with(&[("endless.toml", ENDLESS)]);
    for (out, more) in [
        ("set", &["--seeds", "1..2"][..]),
        ("traced", &["--trace", "t"]),
    ] {
        let arguments = ["sim", "endless.toml", "--out", out];
        let child = bench
            .command(&[&arguments[..], more].concat())
            .spawn()
            .unwrap();
        until("the start", || bench.path(out).is_dir());
        signal(&child, "TERM");
        signal(&child, "INT");
        wait(child);
        // The first may have been enough by the time of the second: then there is a result.
        for folder in [bench.folder.path(), &bench.path(out)] {
            let names = folder.read_dir().into_iter().flatten();
            for name in names.map(|entry| entry.unwrap().file_name()) {
                assert!(!name.to_string_lossy().starts_with('.'), "{name:?}");
            }
        }
        let left = bench.path(out).read_dir();
        let is_empty = left.is_ok_and(|mut names| names.next().is_none());
        assert!(!is_empty, "an empty folder stays");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_hangup_that_is_ignored_from_the_start_stays_ignored() {
    let bench = Bench::with(&[("endless.toml", ENDLESS)]);
    let inner = format!(
        "trap '' HUP; exec {} sim endless.toml --out o",
        env!("CARGO_BIN_EXE_tidegate")
    );
    let child = Command::new("sh")
        .args(["-c", &inner])
        .current_dir(bench.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the start", || bench.path("o").is_dir());
    signal(&child, "HUP");
    signal(&child, "TERM");
    wait(child).expect(143);
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_a_check_of_determinism() {
    let bench = Bench::with(&[("endless.toml", ENDLESS)]);
    let arguments = ["sim", "endless.toml", "--check-determinism"];
    let child = bench.command(&arguments).spawn().unwrap();
    // Signals are caught before the threads begin that are compared.
    let threads = format!("/proc/{}/task", child.id());
    until("the comparison", || {
        let threads = std::fs::read_dir(&threads);
        threads.is_ok_and(|threads| threads.count() > 1)
    });
    signal(&child, "INT");
    let done = wait(child).expect(130);
    assert!(done.err.contains("0 runs were compared"), "{}", done.err);
}

// -- report and conform -----------------------------------------------------------------------

#[test]
fn report_makes_pages_and_says_where() {
    let bench = Bench::with(&[("small.toml", SMALL), ("file", "")]);
    bench.run(&["sim", "small.toml", "--out", "a"]).expect(0);
    bench.run(&["sim", "small.toml", "--out", "b"]).expect(0);
    let results = ["report", "a/result.json", "b/result.json"];
    let done = bench
        .run(&[&results[..], &["--out", "pages", "--charts", "svg"]].concat())
        .expect(0);
    assert_eq!(
        done.out,
        "pages/small-sim-seed1.html\npages/small-sim-seed1-2.html\n"
    );
    assert_eq!(done.err, "tidegate: 2 pages in pages\n");
    assert!(bench.path("pages/small-sim-seed1-2.html").is_file());
    let done = bench
        .run(&[&results[..], &["--out", "file"]].concat())
        .expect(3);
    assert!(done.err.contains("cannot write file/"), "{}", done.err);
    let cut = std::fs::read_to_string(bench.path("a/result.json")).unwrap();
    std::fs::write(bench.path("cut.json"), &cut[..cut.len() / 2]).unwrap();
    bench
        .run(&["report", "a/result.json", "cut.json", "--out", "none"])
        .expect(2);
    assert!(
        !bench.path("none").exists(),
        "all is read before anything is written"
    );
}

#[test]
fn compare_says_by_its_exit_code_whether_something_got_worse() {
    let text = "about = \"Open loop\"\nformat = 1\n[[publishers]]\nmessages = 20_000\n\
                arrival = \"poisson\"\nrate_per_second = 20_000.0\nflow = 50\n";
    let bench = Bench::with(&[("open.toml", text), ("empty/none", "")]);
    for (seed, flow) in [("1", "50"), ("2", "50"), ("1", "200"), ("2", "200")] {
        let flow = format!("publishers.0.flow={flow}");
        let out = format!("{flow}/{seed}");
        let run = [
            "sim",
            "open.toml",
            "--seed",
            seed,
            "--set",
            &flow,
            "--out",
            &out,
        ];
        bench.run(&run).expect(0);
    }
    let (few, many) = ("publishers.0.flow=50", "publishers.0.flow=200");
    let worse = bench
        .run(&["compare", few, many, "--out", "seen"])
        .expect(1);
    assert!(
        worse
            .out
            .starts_with("WORSE  publishers.0.flow=200 (2 sim runs)"),
        "{}",
        worse.out
    );
    assert!(
        worse
            .err
            .contains("worse than the baseline: publishers.0.flow=200")
    );
    for file in [
        "comparison.html",
        "comparison.json",
        "compare-latency.svg",
        "compare-latency.png",
    ] {
        assert!(bench.path("seen").join(file).is_file(), "{file}");
    }
    let back = bench
        .run(&["compare", many, few, "--judge", "ack-p50,ack-p99", "--json"])
        .expect(0);
    let document: Value = serde_json::from_str(&back.out).unwrap();
    assert_eq!(document["candidates"][0]["finding"], "better");
    assert_eq!(document["candidates"][0]["side"]["runs"], 2);
    // A single run of each; a tolerance that the interval cannot keep makes it unclear.
    let one = "publishers.0.flow=50/1/result.json";
    let other = "publishers.0.flow=50/2";
    let close = ["compare", one, other, "--tolerance", "0%"];
    bench.run(&close).expect(0);
    let strict = bench.run(&[&close[..], &["--strict"]].concat()).expect(1);
    assert!(
        strict.err.contains("not sure that it is no worse"),
        "{}",
        strict.err
    );
    for (arguments, part) in [
        (&["compare", one, "empty"][..], "empty/result.json"),
        (
            &["compare", one, one, "--judge", "speed"],
            "allowed are throughput",
        ),
        (
            &["compare", one, one, "--tolerance", "200%"],
            "0% to below 100%",
        ),
        (&["compare", one], "CANDIDATE"),
        (&["compare", one, one, one, one, one, one, one], "CANDIDATE"),
    ] {
        let refused = bench.run(arguments).expect(2);
        assert!(refused.err.contains(part), "{}", refused.err);
    }
}

#[test]
fn conform_holds_the_model_to_recordings() {
    let bench = Bench::new();
    let vectors = project("tests/vectors/r1-2.15.1.json");
    let done = bench.run(&["conform", &vectors, "--json"]).expect(0);
    let summary = done.document();
    assert_eq!(summary["passed"], 183);
    assert_eq!(done.err, "", "nothing failed");
    // Most of it from a server that is not modelled.
    let text = std::fs::read_to_string(&vectors).unwrap();
    let mut old: Value = serde_json::from_str(&text).unwrap();
    for case in old["cases"].as_array_mut().unwrap().iter_mut().skip(1) {
        case["server_version"] = "2.13.0".into();
    }
    std::fs::write(bench.path("old.json"), old.to_string()).unwrap();
    let brief = bench.run(&["conform", "old.json"]).expect(0);
    assert!(brief.out.contains(" more\n") && brief.out.lines().count() < 20);
    assert!(brief.out.contains("1 passed, 0 failed, 182 skipped"));
    let verbose = bench.run(&["conform", "old.json", "-v"]).expect(0);
    assert!(verbose.err.contains("ok      fi-"), "progress is on stderr");
    assert!(!verbose.out.contains(" more\n"));
    // A recording that is wrong in one case.
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array_mut().unwrap();
    let case = cases
        .iter_mut()
        .find(|case| case["name"] == "fi-single-commit")
        .unwrap();
    case["steps"][1]["expect"][0]["body"]["count"] = 2.into();
    std::fs::write(bench.path("wrong.json"), file.to_string()).unwrap();
    let done = bench.run(&["conform", "wrong.json"]);
    let done = done.expect(1);
    let replay = replay_of(&done.err);
    assert_eq!(replay, ["conform", "wrong.json"]);
    assert!(
        done.out.contains("FAILED  fi-single-commit  step 1"),
        "{}",
        done.out
    );
}

#[test]
fn conform_without_a_server_is_about_the_surroundings() {
    let bench = Bench::new();
    let vectors = project("tests/vectors/r1-2.15.1.json");
    let arguments = ["conform", &vectors, "--against", "nats://127.0.0.1:1"];
    bench.run(&arguments).expect(3);
    let done = bench.run(&[&arguments[..], &["--json"]].concat()).expect(3);
    assert_eq!(done.document()["partial"], true);
    bench
        .run(&[&arguments[..], &["--record", "r.json"]].concat())
        .expect(3);
    assert!(!bench.path("r.json").exists());
    assert_eq!(bench.folder.path().read_dir().unwrap().count(), 0);
}

// -- live -------------------------------------------------------------------------------------

const LIVE: &str = "about = \"A hundred messages\"\nformat = 1\n[stream]\nname = \"CLI\"\n\
                    subjects = [\"cli.>\"]\n[[publishers]]\nsubject = \"cli.x\"\nmessages = 100\n\
                    payload = \"64B\"\n[expect]\nstored = 100\nlost = 0\n";

fn server() -> PathBuf {
    static SERVER: OnceLock<PathBuf> = OnceLock::new();
    let find = || find_server(None, &Surroundings::of_process(), &mut |_| {});
    SERVER.get_or_init(|| find().unwrap().path).clone()
}

fn local_servers() -> LocalServers {
    local_servers_with("")
}

/// One with these lines in its configuration.
fn local_servers_with(extra_config: &str) -> LocalServers {
    let options = Options {
        extra_config: extra_config.to_owned(),
        ..Options::new(server())
    };
    LocalServers::start(1, &options).unwrap()
}

/// A file whose publisher goes on for half a minute unless it is stopped.
fn long_live() -> String {
    LIVE.replace(
        "messages = 100",
        "messages = 1_000\nbatches = 0\nstop = \"30s\"",
    )
    .replace("stored = 100\n", "")
        + "\n"
}

/// What the stream has to say, by the wire protocol itself.
fn ask(url: &str, subject: &str, body: &str) -> Option<Value> {
    let address = url.strip_prefix("nats://").unwrap();
    let stream = std::net::TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let length = body.len();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB _INBOX.1 1\r\nPUB {subject} _INBOX.1 {length}\r\n{body}\r\n"
    )
    .ok()?;
    let mut line = String::new();
    loop {
        line.clear();
        lines.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        if line.starts_with("MSG ") {
            line.clear();
            lines.read_line(&mut line).ok()?;
            return serde_json::from_str(line.trim()).ok();
        }
    }
}

/// Waits until the stream of a live run has messages.
fn until_messages(url: &str) {
    until("the first message", || {
        let info = ask(url, "$JS.API.STREAM.INFO.CLI", "");
        info.is_some_and(|info| info["state"]["messages"].as_u64() > Some(0))
    });
}

#[test]
fn a_live_run_agrees_with_what_is_read_back() {
    let bench = Bench::with(&[("live.toml", LIVE)]);
    let mut command = bench.command(&[
        "live",
        "live.toml",
        "--local",
        "1",
        "--out",
        "o",
        "--seed",
        "3",
    ]);
    let done = wait(command.env("NATS_SERVER", server()).spawn().unwrap()).expect(0);
    assert!(
        done.out.contains("stored                  100"),
        "{}",
        done.out
    );
    assert!(
        done.out
            .contains("this agrees with what publishers were told")
    );
    let result = bench.json("o/result.json");
    assert_eq!(result["world"], "live");
    assert_eq!(result["seed"], 3);
    assert_eq!(result["totals"]["stored"], 100);
    assert_eq!(result["totals"]["lost"], 0);
    assert_eq!(result["trace_hash"], Value::Null);
    assert_eq!(result["config"]["server"], Value::Null);
    assert_eq!(
        result["replay"],
        "tidegate live live.toml --seed 3 --local 1"
    );
}

#[test]
fn scenarios_without_faults_do_live_what_they_expect() {
    let bench = Bench::new();
    let files = std::fs::read_dir(project("sims/nats")).unwrap();
    let mut files: Vec<String> = files
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".toml"))
        .filter(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            // Those with long pauses take as long live; there is one server, of one version.
            ![
                "[[faults]]",
                "defects = ",
                "pauses = ",
                "replicas = ",
                "version = ",
            ]
            .iter()
            .any(|word| text.contains(word))
        })
        .collect();
    files.sort();
    let arguments = ["live", "--json", "--strict"].map(str::to_owned);
    let mut command = bench.command(&[&arguments[..], &files].concat());
    let done = wait(command.env("NATS_SERVER", server()).spawn().unwrap()).expect(0);
    let document = done.document();
    assert!(files.len() >= 6, "{files:?}");
    assert_eq!(document["summary"]["expected"], files.len());
    let run = |name: &str| {
        let index = files.iter().position(|file| file.contains(name)).unwrap();
        document["runs"][index].clone()
    };
    let refused = run("too-many-batches");
    assert_eq!(refused["totals"]["errors"]["10211"], 1);
    let note = refused["notes"][1].as_str().unwrap();
    assert!(
        note.contains("was refused its batch by the server (error 10211"),
        "{note}"
    );
    let stalled = run("reject-the-window");
    assert_eq!(stalled["verdict"], "stall");
    let release = stalled["stalls"][0]["release"].as_str().unwrap();
    assert!(
        release.starts_with("one more message that the server accepts"),
        "{release}"
    );
}

#[test]
fn a_stream_that_is_another_one_is_bad_input() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let bench = Bench::with(&[("live.toml", LIVE)]);
    let other = "{\"name\":\"CLI\",\"subjects\":[\"cli.>\"],\"storage\":\"memory\"}";
    let made = ask(&url, "$JS.API.STREAM.CREATE.CLI", other).unwrap();
    assert!(made["error"].is_null(), "{made}");
    let arguments = ["live", "live.toml", "--servers", &url];
    let done = bench.run(&arguments).expect(2);
    assert!(done.err.contains("stream CLI exists and"), "{}", done.err);
    servers.stop().unwrap();
}

#[test]
fn a_server_that_is_killed_ends_the_run_and_the_stream_is_named() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let file = long_live().replace("messages = 1_000", "messages = 1_000\nack_timeout = \"1s\"");
    let bench = Bench::with(&[("live.toml", &file)]);
    let arguments = ["live", "live.toml", "--servers", &url, "--out", "o"];
    let child = bench.command(&arguments).spawn().unwrap();
    until_messages(&url);
    servers.stop().unwrap();
    let done = wait(child).expect(3);
    assert!(
        done.err.contains("stream CLI may still be there"),
        "{}",
        done.err
    );
    assert!(done.err.contains("the connection is lost"), "{}", done.err);
    let result = bench.json("o/result.json");
    assert_eq!(result["partial"], true);
    assert_eq!(result["expected"], false);
    // The load would go on for half a minute.
    let ended_s = result["duration_ns"].as_u64().unwrap() / 1_000_000_000;
    assert!(ended_s < 29, "{ended_s} s");
}

#[test]
fn a_stream_that_cannot_be_made_is_for_the_file_to_change() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let other = "{\"name\":\"OTHER\",\"subjects\":[\"cli.*\"]}";
    let made = ask(&url, "$JS.API.STREAM.CREATE.OTHER", other).unwrap();
    assert!(made["error"].is_null(), "{made}");
    let bench = Bench::with(&[("live.toml", LIVE)]);
    for (set, why) in [
        (
            "seed=1",
            "stream CLI cannot be made: its subjects overlap those of stream OTHER; choose others",
        ),
        (
            "stream.replicas=3",
            "stream CLI cannot be made: replicas > 1 not supported in non-clustered mode; set \
             stream.replicas to 1",
        ),
    ] {
        let arguments = ["live", "live.toml", "--servers", &url, "--set", set];
        let done = bench.run(&arguments).expect(2);
        assert!(done.err.contains(why), "{}", done.err);
    }
    servers.stop().unwrap();
}

#[test]
fn a_live_run_that_is_not_as_expected_can_be_repeated() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let bench = Bench::with(&[("live.toml", LIVE)]);
    let with_password = url.replace("nats://", "nats://me:secret@");
    let arguments = ["live", "live.toml", "--set", "expect.stored=7", "--servers"];
    let done = bench
        .run(&[&arguments[..], &[&with_password, "--json"]].concat())
        .expect(1);
    assert!(!done.out.contains("secret") && !done.err.contains("secret"));
    let replay = replay_of(&done.err);
    assert_eq!(
        replay.join(" "),
        format!("live live.toml --seed 1 --set expect.stored=7 --servers {url}")
    );
    bench.run(&replay).expect(1);
    servers.stop().unwrap();
}

#[test]
fn a_message_that_vanishes_makes_a_violation() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let bench = Bench::with(&[("live.toml", &long_live().replace("30s", "3s"))]);
    let arguments = ["live", "live.toml", "--servers", &url, "--json"];
    let child = bench.command(&arguments).spawn().unwrap();
    until_messages(&url);
    let deleted = ask(&url, "$JS.API.STREAM.MSG.DELETE.CLI", "{\"seq\":1}");
    assert_eq!(deleted.unwrap()["success"], true);
    let result = wait(child).expect(1).document();
    assert_eq!(result["verdict"], "violation");
    assert_eq!(result["totals"]["lost"], 1);
    let violation = &result["violations"][0];
    assert_eq!(violation["judge"], "the-stream-has-what-acks-cover");
    assert!(
        violation["message"]
            .as_str()
            .unwrap()
            .starts_with("message 1: ")
    );
    let notes = result["notes"].to_string();
    assert!(
        notes.contains("1 contradiction to what publishers were told"),
        "{notes}"
    );
    servers.stop().unwrap();
}

#[test]
fn a_stream_that_others_publish_to_stays() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let bench = Bench::with(&[("live.toml", &long_live().replace("30s", "3s"))]);
    let arguments = ["live", "live.toml", "--servers", &url, "--json"];
    let child = bench.command(&arguments).spawn().unwrap();
    until_messages(&url);
    assert!(ask(&url, "cli.x", "not of this run").unwrap()["seq"].is_u64());
    let result = wait(child).document();
    let notes = result["notes"].to_string();
    assert!(notes.contains("it stays"), "{notes}");
    let info = ask(&url, "$JS.API.STREAM.INFO.CLI", "").unwrap();
    assert!(info["error"].is_null(), "{info}");
    servers.stop().unwrap();
}

#[test]
fn a_conformance_run_without_a_case_is_not_green() {
    let bench = Bench::with(&[]);
    let recorded = project("tests/vectors/r1-2.14.0.json");
    let mut command = bench.command(&["conform", &recorded, "--against", "local"]);
    // The server at hand is of another version than the recording.
    command.env("NATS_SERVER", server());
    let done = wait(command.spawn().unwrap()).expect(3);
    assert!(done.err.contains("no case could be run"), "{}", done.err);
}

#[test]
fn a_signal_leaves_the_partial_result_of_a_live_run() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let bench = Bench::with(&[("long.toml", &long_live())]);
    for (name, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let arguments = ["live", "long.toml", "--servers", &url, "--out", name];
        let child = bench.command(&arguments).spawn().unwrap();
        until_messages(&url);
        signal(&child, name);
        wait(child).expect(code);
        let result = bench.json(&format!("{name}/result.json"));
        assert_eq!(result["partial"], true);
        assert!(result["totals"]["published"].as_u64().unwrap() > 0);
        let info = ask(&url, "$JS.API.STREAM.INFO.CLI", "").unwrap();
        assert_eq!(info["error"]["code"], 404, "the stream is removed");
    }
    servers.stop().unwrap();
}

#[cfg(unix)]
#[test]
fn a_signal_while_servers_start_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt;
    // A server that has a version and is never ready.
    let script = "#!/bin/sh\n[ \"$1\" = -c ] && exec sleep 600\necho nats-server: v2.15.1\n";
    let bench = Bench::with(&[("live.toml", LIVE), ("server", script)]);
    let server = bench.path("server");
    std::fs::set_permissions(&server, PermissionsExt::from_mode(0o755)).unwrap();
    let temporary = bench.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = bench.command(&["live", "live.toml", "--local", "3", "--out", "o"]);
        command
            .env("NATS_SERVER", &server)
            .env("TMPDIR", &temporary);
        let child = command.spawn().unwrap();
        until("the start of three servers", || {
            let log = |folder: std::fs::DirEntry| folder.path().join("n2/server.log").is_file();
            let folders = temporary.read_dir().unwrap();
            folders.flatten().any(log)
        });
        signal(&child, name);
        let done = wait(child).expect(code);
        assert_eq!(
            done.err,
            "tidegate: a signal came while servers were starting; they are stopped first, which takes some \
             seconds\ntidegate: interrupted before anything was measured\n"
        );
        assert_eq!(done.out, "");
        assert!(!bench.path("o").exists(), "no folder stays");
        assert_eq!(temporary.read_dir().unwrap().count(), 0);
    }
}

/// Stands between clients and the server at `url`: what the server answers waits from the request
/// for a stream until it is let through.
fn slow_to_create(url: &str) -> (String, Arc<AtomicBool>, Arc<AtomicBool>) {
    let upstream = url.strip_prefix("nats://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("nats://{}", listener.local_addr().unwrap());
    let (asked, open) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (seen, gate) = (Arc::clone(&asked), Arc::clone(&open));
    type Look = Box<dyn Fn(&[u8]) + Send>;
    let pump = |mut from: TcpStream, mut to: TcpStream, look: Look| {
        std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                look(&bytes[..length]);
                if to.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&upstream).unwrap();
            let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let (asks, held, gate) = (Arc::clone(&seen), Arc::clone(&seen), Arc::clone(&gate));
            let notice = move |bytes: &[u8]| {
                if String::from_utf8_lossy(bytes).contains("STREAM.CREATE.") {
                    asks.store(true, Ordering::SeqCst);
                }
            };
            let hold = move |_: &[u8]| {
                while held.load(Ordering::SeqCst) && !gate.load(Ordering::SeqCst) {
                    std::thread::park_timeout(LOOK);
                }
            };
            pump(client, server, Box::new(notice));
            pump(back, forth, Box::new(hold));
        }
    });
    (address, asked, open)
}

#[test]
fn a_signal_while_the_stream_is_made_leaves_no_stream() {
    let servers = local_servers();
    let url = servers.urls()[0].clone();
    let (slow, asked, open) = slow_to_create(&url);
    let bench = Bench::with(&[("live.toml", LIVE)]);
    let child = bench
        .command(&["live", "live.toml", "--servers", &slow])
        .spawn()
        .unwrap();
    until("the request for a stream", || asked.load(Ordering::SeqCst));
    let made =
        || ask(&url, "$JS.API.STREAM.INFO.CLI", "").is_some_and(|info| info["error"].is_null());
    until("the stream", made);
    signal(&child, "INT");
    // Time for the signal to be heard before the answer; if it is not, nothing is left all the same.
    std::thread::park_timeout(Duration::from_millis(200));
    open.store(true, Ordering::SeqCst);
    let done = wait(child).expect(130);
    assert!(
        done.err
            .contains("interrupted before anything was measured"),
        "{}",
        done.err
    );
    assert!(!made(), "the stream is removed");
    assert!(!bench.path("results/live-live-seed1").exists());
    servers.stop().unwrap();
}

#[test]
fn a_failing_second_file_does_not_cost_the_first() {
    let servers = local_servers_with("max_payload: 65536\n");
    let url = servers.urls()[0].clone();
    let big = LIVE
        .replace("64B", "128KiB")
        .replace("messages = 100", "messages = 1");
    let bench = Bench::with(&[("live.toml", LIVE), ("big.toml", &big)]);
    let arguments = [
        "live",
        "live.toml",
        "big.toml",
        "--servers",
        &url,
        "--out",
        "o",
    ];
    let done = bench.run(&arguments).expect(2);
    let why = "big.toml: publishers[0].payload: messages have up to 131072 bytes with their headers; \
               this server takes 65536 (max_payload)";
    assert!(done.err.contains(why), "{}", done.err);
    let set = bench.json("o/result.json");
    assert_eq!(set["summary"]["runs"], 1);
    assert_eq!(set["summary"]["partial"], true);
    servers.stop().unwrap();
}

#[test]
fn no_server_or_a_hostile_one_is_about_the_surroundings() {
    let bench = Bench::with(&[("live.toml", LIVE)]);
    let done = bench
        .run(&["live", "live.toml", "--servers", "nats://127.0.0.1:1"])
        .expect(3);
    assert!(
        done.err
            .contains("no NATS server answers at nats://127.0.0.1:1")
    );
    assert!(
        !bench.path("results/live-live-seed1").exists(),
        "no empty folder stays"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"INFO {\x1b[2J\r\n"));
        }
    });
    let done = bench
        .run(&["live", "live.toml", "--servers", &url])
        .expect(3);
    assert!(!done.err.contains('\x1b'), "{:?}", done.err);
    let mut command = bench.command(&["live", "live.toml"]);
    let absent = bench.path("no-server");
    let done = wait(command.env("NATS_SERVER", absent).spawn().unwrap()).expect(3);
    assert!(done.err.contains("NATS_SERVER names "), "{}", done.err);
}
