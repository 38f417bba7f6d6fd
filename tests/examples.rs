//! The examples in other languages, run against the served model as their readers would.
//!
//! Leans on the binary, and on Node.js with npm for the JavaScript client: without them its test says
//! aloud that it did nothing.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// Says on the terminal, past the test harness, that a test had nothing to test.
fn tell_skipped(test: &str, why: &str) {
    let text = format!("SKIPPED {test}: {why}\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

fn is_there(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// A served file; ended when dropped.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(file: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("serve")
            .arg(file)
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        Self {
            url: url.to_owned(),
            child,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_javascript_client_meets_a_lost_flow_ack() {
    const TEST: &str = "a_javascript_client_meets_a_lost_flow_ack";
    if !is_there("node") || !is_there("npm") {
        tell_skipped(TEST, "no Node.js with npm here");
        return;
    }
    // A copy, for the install writes into its folder.
    let folder = tempfile::tempdir().unwrap();
    for file in ["package.json", "publish.mjs"] {
        std::fs::copy(example("javascript").join(file), folder.path().join(file)).unwrap();
    }
    let installed = Command::new("npm")
        .args(["install", "--no-package-lock", "--no-audit", "--no-fund"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "npm install: {stderr}");
    let file = example("javascript").join("lost-flow-ack.toml");
    for (more, expected) in [
        (&[][..], r#"{"outcome":"timed out","sent":10,"acked":5}"#),
        (
            &["--set", "faults.0.nth=1000000"],
            r#"{"outcome":"committed","count":25}"#,
        ),
    ] {
        let served = Served::start(&file, more);
        let output = Command::new("node")
            .arg("publish.mjs")
            .arg(&served.url)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stdout.trim(), expected, "{stderr}");
    }
}
