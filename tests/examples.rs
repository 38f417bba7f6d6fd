//! The examples in other languages, run against the served model as their readers would.
//!
//! Leans on the binary, and on Node.js with npm for the JavaScript client: without them its test says
//! aloud that it did nothing.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/served.rs"]
mod served;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use served::{Served, is_there, run, tell_skipped};

/// Longest time for a command, the install included.
const PATIENCE: Duration = Duration::from_secs(300);

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
    let installed = run(
        Command::new("npm")
            .args(["install", "--no-package-lock", "--no-audit", "--no-fund"])
            .current_dir(folder.path()),
        PATIENCE,
    );
    assert!(installed.ok, "npm install: {}", installed.err);
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
        let mut node = Command::new("node");
        node.args(["publish.mjs", &served.url])
            .current_dir(folder.path());
        let done = run(&mut node, PATIENCE);
        assert_eq!(done.out.trim(), expected, "{}", done.err);
    }
}
