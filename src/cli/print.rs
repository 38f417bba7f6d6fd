//! Writing to stdout and stderr: a reader who has gone is no error, and never a panic.
//!
//! `println!` and `eprintln!` panic there, so no other file of the command line uses them.

use std::io::{self, ErrorKind, IsTerminal as _, Read, Write as _};

use super::Failure;
use crate::report::printable;

/// Writes `text` to stdout.
///
/// # Errors
/// When it cannot be written. A closed pipe is no error: its reader has had enough, and the exit
/// code still says how the run went.
pub(super) fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Copies `from` to stdout.
///
/// # Errors
/// As [`out`], and when `from` cannot be read.
pub(super) fn copy(from: &mut dyn Read) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(io::copy(from, &mut stdout).and_then(|_| stdout.flush()))
}

/// What came of writing to stdout.
pub(super) fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Surroundings(format!(
            "stdout cannot be written: {error}"
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Tells the user something on stderr, with the name of the program before it.
pub(super) fn note(text: &str) {
    log(&format!("tidegate: {text}"));
}

/// Writes lines to stderr. Text of files and servers may be in them: no control character reaches
/// the terminal. Nobody can be told if it fails.
pub(super) fn log(text: &str) {
    let mut stderr = io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(stderr, "{}", printable(line));
    }
}

/// Whether stdout takes colour: a terminal that can, and a user who wants.
pub(super) fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused && !is_dumb()
}

/// Whether the terminal can do no more than print.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
