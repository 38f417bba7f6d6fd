//! The examples in other languages, run against the served model as their readers would.
//!
//! Leans on the binary, and on Node.js with npm for the JavaScript client: without them its test says
//! aloud that it did nothing.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/served.rs"]
mod served;

use std::path::{Path, PathBuf};
use std::process::Command;

use served::{Served, is_there, tell_skipped};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

#[test]
fn a_javascript_client_meets_a_lost_flow_ack() {
    const TEST: &str = "a_javascript_client_meets_a_lost_flow_ack";
    if !is_there("node", "--version") || !is_there("npm", "--version") {
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
        let arguments = [&[file.to_str().unwrap()], more].concat();
        let served = Served::start(&arguments);
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
