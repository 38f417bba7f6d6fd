//! Clients of others against `tidegate serve`: the NATS command line tool and the Python client.
//!
//! Leans on Go and on Python, with which the clients are installed once, below `target/`: without
//! them a test says aloud that it did nothing. The JavaScript client is in `tests/examples.rs`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/served.rs"]
mod served;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use served::{Done, Served, is_there, run, tell_skipped};

const NATS_CLI: &str = "github.com/nats-io/natscli/nats";
const NATS_CLI_VERSION: &str = "v0.5.0";
const NATS_PY_VERSION: &str = "2.12.0";
/// Longest time for an install: it may have to build on a busy machine.
const INSTALL_PATIENCE: Duration = Duration::from_secs(600);
/// Longest time for one command of a client.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for a client, kept from run to run.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("clients")
        .join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The NATS command line tool; installed if it is not there yet.
fn nats_cli() -> PathBuf {
    let folder = folder(&format!("natscli-{NATS_CLI_VERSION}"));
    let tool = folder.join("nats");
    let version = Command::new(&tool).arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return tool;
    }
    let install = run(
        Command::new("go")
            .args(["install", &format!("{NATS_CLI}@{NATS_CLI_VERSION}")])
            .env("GOBIN", &folder),
        INSTALL_PATIENCE,
    );
    assert!(install.ok, "go install: {}", install.err);
    tool
}

/// The tool at work, with a home of its own: no context of the user's counts.
struct Nats {
    tool: PathBuf,
    home: tempfile::TempDir,
    url: String,
}

impl Nats {
    fn run(&self, words: &str) -> Done {
        let mut command = Command::new(&self.tool);
        command
            .args(["--no-context", "--server", &self.url])
            .args(words.split_whitespace())
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.home.path())
            .env_remove("NATS_URL");
        run(&mut command, PATIENCE)
    }

    /// What a command that does well has to say.
    fn well(&self, words: &str) -> String {
        let done = self.run(words);
        assert!(done.ok, "nats {words}: {} {}", done.out, done.err);
        done.out + &done.err
    }

    fn json(&self, words: &str) -> Value {
        let out = self.well(&format!("{words} --json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    fn messages(&self, stream: &str) -> Value {
        self.json(&format!("stream info {stream}"))["state"]["messages"].clone()
    }
}

#[test]
fn the_nats_command_line_tool_finds_a_server_there() {
    const TEST: &str = "the_nats_command_line_tool_finds_a_server_there";
    if !is_there("go", "version") {
        return tell_skipped(TEST, "no Go here");
    }
    let tool = nats_cli();
    let (mut served, _directory) = Served::with("");
    let nats = Nats {
        tool,
        home: tempfile::tempdir().unwrap(),
        url: served.url.clone(),
    };

    // Streams: the file's, and one of its own, with the settings that the tool chooses.
    let added = nats.well("stream add OWN --subjects own.> --defaults --allow-batch");
    assert!(added.contains("Stream OWN was created"), "{added}");
    let info = nats.json("stream info OWN");
    assert_eq!(info["config"]["subjects"], json!(["own.>"]));
    assert_eq!(info["config"]["allow_direct"], true);
    let mut names = nats.json("stream ls --names");
    names.as_array_mut().unwrap().sort_by_key(Value::to_string);
    assert_eq!(names, json!(["OWN", "S"]));

    // Messages: to nobody, to a stream without a word, and with its ack.
    let heard = nats.well("pub nobody hello");
    assert!(heard.contains("Published 5 bytes"), "{heard}");
    nats.well("pub own.core hello");
    let acked = nats.well("pub own.acked hello --jetstream");
    assert!(
        acked.contains("Stored in Stream: OWN Sequence: 2"),
        "{acked}"
    );
    let refused = nats.run("pub nobody hello --jetstream");
    assert!(!refused.ok, "{}", refused.err);
    assert_eq!(nats.messages("OWN"), 2);
    let read = nats.well("stream get OWN 2");
    assert!(
        read.contains("own.acked") && read.contains("hello"),
        "{read}"
    );

    // Fast batches: of the file's stream, and of one that the tool makes.
    let fast = "bench js pub fast t.bench --clients 2 --msgs 3000 --size 64 --no-progress";
    let told = nats.well(&format!("{fast} --stream S --batch 100"));
    assert!(told.contains("msgs/sec"), "{told}");
    assert_eq!(nats.messages("S"), 3_000);
    let fast = fast.replace("t.bench", "bench");
    nats.well(&format!("{fast} --stream BENCH --create"));
    assert_eq!(nats.messages("BENCH"), 3_000);

    nats.well("stream purge OWN --force");
    assert_eq!(nats.messages("OWN"), 0);
    for stream in ["OWN", "BENCH"] {
        nats.well(&format!("stream rm {stream} --force"));
    }
    assert_eq!(nats.json("stream ls --names"), json!(["S"]));
    let (code, told) = served.stop(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(
        told.contains("6000 stored") && told.contains("2 plain stored"),
        "{told}"
    );
}

/// Python with nats-py, in a place of its own; installed if it is not there yet.
fn nats_py() -> PathBuf {
    let folder = folder(&format!("nats-py-{NATS_PY_VERSION}"));
    let python = folder.join("bin").join("python");
    let installed = Command::new(&python).args(["-c", "import nats"]).output();
    if installed.is_ok_and(|output| output.status.success()) {
        return python;
    }
    let mut make = Command::new("python3");
    let made = run(make.args(["-m", "venv"]).arg(&folder), INSTALL_PATIENCE);
    assert!(made.ok, "python3 -m venv: {}", made.err);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check"])
        .arg(format!("nats-py=={NATS_PY_VERSION}"));
    let installed = run(&mut pip, INSTALL_PATIENCE);
    assert!(installed.ok, "pip install: {}", installed.err);
    python
}

#[test]
fn the_python_client_finds_a_server_there() {
    const TEST: &str = "the_python_client_finds_a_server_there";
    if !is_there("python3", "--version") {
        return tell_skipped(TEST, "no Python here");
    }
    let python = nats_py();
    let (served, _directory) = Served::with("");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/nats_py.py");
    let done = run(Command::new(python).args([program, &served.url]), PATIENCE);
    assert!(done.ok, "{}", done.err);
    let seen: Value = serde_json::from_str(&done.out).unwrap();
    let expected = json!({
        "version": 2,
        "reply": "pong 1",
        "nobody": true,
        "created": "PY",
        // A message, its duplicate, and another.
        "acks": [1, 1, true, 2],
        "messages": 2,
        "stored": ["two", "one"],
        "consumer": 10_012,
        "deleted": true,
        "gone": 10_059,
    });
    assert_eq!(seen, expected, "{}", done.err);
}
