//! The command line: one file per command, exit codes in one place.
//!
//! Leans on every floor below.

mod conform;
mod cost;
mod exit;
mod interrupt;
mod live;
mod output;
mod progress;
mod record;
mod report;
mod server;
mod sim;

pub use exit::Failure;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

const ABOUT: &str = "\
tidegate answers three questions about NATS JetStream batch publishing (ADR-50): which flow and
outstanding-ack settings to use, why a publisher stalled, and how much a cluster takes. The same
files run in a deterministic simulator and against real servers.";

/// Simulates and load-tests NATS JetStream batch publishing (ADR-50)
#[derive(Parser)]
#[command(name = "tidegate", version, propagate_version = true, long_about = ABOUT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run scenario files in the deterministic simulator
    Sim(sim::SimArguments),
    /// Run files with real clients against real servers
    Live(live::LiveArguments),
    /// Replay recorded exchanges against the server model or a real server
    Conform(conform::ConformArguments),
    /// Make charts and one self-contained page for each run of some result files
    Report(report::ReportArguments),
    /// Find or fetch the nats-server that local runs use
    Server(server::ServerArguments),
    /// Print shell completions
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the trace of one run (used by --check-determinism)
    #[command(hide = true)]
    Trace(sim::TraceArguments),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Usage errors end with 2 by themselves, help and version with 0.
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Text of files and servers may be in it: no control character reaches the terminal.
            for line in format!("tidegate: {failure}").lines() {
                eprintln!("{}", crate::report::printable(line));
            }
            failure.exit_code()
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Sim(arguments) => sim::sim(arguments),
        Command::Live(arguments) => live::live(arguments),
        Command::Conform(arguments) => conform::conform(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Server(arguments) => server::server(arguments),
        Command::Completions { shell } => {
            let command = &mut Arguments::command();
            clap_complete::generate(*shell, command, "tidegate", &mut std::io::stdout());
            Ok(())
        }
        Command::Trace(arguments) => sim::trace(arguments),
    }
}
