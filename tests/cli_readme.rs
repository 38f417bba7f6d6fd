//! What README.md shows is what its commands print, to the last digit.
//!
//! A `sh` block that a `text` block follows is run in a folder of its own, and compared with it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;
use std::process::Command;

use common::tree::{read, top};

/// The line of a run that differs from machine to machine.
const OF_THE_MACHINE: &str = "cost ";

/// Commands with what README.md shows of their output: the two blocks stand in one section.
fn shown(text: &str) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    let mut script: Option<String> = None;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\n```") {
        let (kind, after) = after.split_once('\n').unwrap();
        let (block, after) = after.split_once("\n```").unwrap();
        if before.contains("\n## ") {
            script = None;
        }
        match (kind, script.take()) {
            ("sh", _) => script = Some(block.to_owned()),
            ("text", Some(script)) => shown.push((script, block.to_owned())),
            _ => {}
        }
        rest = after;
    }
    shown
}

/// What `script` prints in a folder with the files of the project.
fn printed(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sims", "workloads"] {
        std::os::unix::fs::symlink(top().join(name), folder.path().join(name)).unwrap();
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .args([
            "-euc",
            &script.replace("cargo run --release --", "tidegate"),
        ])
        .current_dir(folder.path())
        .env(
            "PATH",
            format!("{}:{path}", binary.parent().unwrap().display()),
        )
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with(OF_THE_MACHINE));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_the_readme_shows_is_what_its_commands_print() {
    let shown = shown(&read("README.md"));
    assert_eq!(shown.len(), 5, "{shown:?}");
    for (script, output) in shown {
        assert_eq!(printed(&script), output, "{script}");
    }
}
