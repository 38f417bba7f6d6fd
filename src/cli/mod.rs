//! The command line: one file per command, exit codes in one place.
//!
//! Leans on every floor below.

mod conform;
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
enum Command {
    /// Replay recorded exchanges against the server model or a real server
    Conform(conform::ConformArguments),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Command::Conform(arguments) => conform::conform(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tidegate: {failure}");
            failure.exit_code()
        }
    }
}
