//! The command line: one file per command, exit codes in one place.
//!
//! Leans on every floor below.

mod exit;

pub use exit::Failure;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulates and load-tests NATS JetStream batch publishing (ADR-50).
#[derive(Parser)]
#[command(name = "tidegate", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {}
}
