//! A `tidegate serve` under test: started on a free port of 127.0.0.1, killed when dropped.
//!
//! Leans on the binary. Taken in by `#[path]`, so that a test that wants no more has no more.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Between two looks at a command.
const LOOK: Duration = Duration::from_millis(10);

/// A server under test.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// Where it listens.
    pub(crate) url: String,
    stdout: BufReader<ChildStdout>,
}

impl Served {
    /// Serves with these arguments, of which the first is the file.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("serve")
            .args(arguments)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Some(url) = line.trim().strip_prefix("listening on ") else {
            let mut stderr = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut stderr);
            panic!("{line:?} {stderr}");
        };
        // Which stream takes which subjects.
        stdout.read_line(&mut String::new()).unwrap();
        Self {
            url: url.to_owned(),
            child,
            stdout,
        }
    }

    /// With a file that holds one stream and `more`.
    pub(crate) fn with(more: &str) -> (Self, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), more);
        (Self::start(&[&path]), directory)
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("nats://").unwrap()
    }

    /// Stops it by a signal: exit code and the rest of stdout.
    pub(crate) fn stop(&mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// What it wrote to stderr; once it has ended.
    pub(crate) fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).unwrap();
        }
        text
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file with one stream `S` on `t.>`, two publishers, and more.
pub(crate) fn file(directory: &Path, more: &str) -> String {
    let text = format!(
        "format = 1\nabout = \"served\"\n[stream]\nname = \"S\"\nsubjects = [\"t.>\"]\n\
         [[publishers]]\ncount = 2\nsubject = \"t.a\"\n{more}"
    );
    let path = directory.join("served.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Says on the terminal, past the test harness, that a test had nothing to test; where CI wants the
/// clients of others to be there, it fails.
pub(crate) fn tell_skipped(test: &str, why: &str) {
    let text = format!("SKIPPED {test}: {why}\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    let is_wanted = std::env::var_os("TIDEGATE_TEST_CLIENTS").is_some_and(|value| value == "all");
    assert!(!is_wanted, "{text}");
}

/// Whether a program runs here and tells its version by `argument`.
pub(crate) fn is_there(program: &str, argument: &str) -> bool {
    let version = Command::new(program).arg(argument).output();
    version.is_ok_and(|output| output.status.success())
}

/// How a command ended.
pub(crate) struct Done {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command that must end within `patience`.
pub(crate) fn run(command: &mut Command, patience: Duration) -> Done {
    let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let looks = patience.as_millis() / LOOK.as_millis();
    let status = (0..looks).find_map(|_| {
        let status = child.try_wait().unwrap();
        if status.is_none() {
            std::thread::park_timeout(LOOK);
        }
        status
    });
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let [out, err] = [out, err].map(|mut file| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let ok = status.unwrap_or_else(|| panic!("{command:?} does not end: {out} {err}"));
    Done {
        ok: ok.success(),
        out,
        err,
    }
}
