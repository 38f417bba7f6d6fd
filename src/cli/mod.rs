//! The command line: one file per command, exit codes in one place.
//!
//! Leans on every floor below.

// A closed pipe makes these macros panic: see `print`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod access;
mod compare;
mod conform;
mod cost;
mod crew;
mod determinism;
mod exit;
mod explore;
mod files;
mod folder;
mod generator;
mod interrupt;
mod lane;
mod live;
mod notes;
mod output;
mod print;
mod progress;
mod record;
mod report;
mod serve;
mod server;
mod servers;
mod sim;
mod trace;

use interrupt::Interrupt;

pub use exit::Failure;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

const ABOUT: &str = "\
tidegate answers three questions about NATS JetStream batch publishing (ADR-50): which flow and
outstanding-ack settings to use, why a publisher stalled, and how much a cluster takes. The same
files run in a deterministic simulator and against real servers.";

const EXAMPLES: &str = "\
Examples:
  tidegate sim sims/nats/quickstart.toml
  tidegate live sims/nats/quickstart.toml --local 1
  tidegate conform tests/vectors/*.json
  tidegate serve sims/nats/quickstart.toml
  tidegate report results/*/
  tidegate compare results/before results/after
  tidegate server fetch";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish
  tidegate completions zsh > \"${fpath[1]}/_tidegate\"";

/// Simulate and load-test NATS JetStream batch publishing (ADR-50)
#[derive(Parser)]
#[command(name = "tidegate", version, propagate_version = true, long_about = ABOUT, after_help = EXAMPLES)]
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
    /// Serve the modelled server of a file on a real socket
    Serve(serve::ServeArguments),
    /// Make charts and one self-contained page for each run of some result files
    Report(report::ReportArguments),
    /// Hold runs against others: how much changed, how sure that is, and whether it got worse
    Compare(compare::CompareArguments),
    /// Find or fetch the nats-server that local runs use
    Server(server::ServerArguments),
    /// Print shell completions
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the trace of one run (used by --check-determinism)
    #[command(hide = true)]
    Trace(determinism::TraceArguments),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Usage errors end with 2 by themselves, help and version with 0.
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print::note(&failure.to_string());
            failure.exit_code()
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Sim(arguments) => sim::sim(arguments),
        Command::Live(arguments) => live::live(arguments),
        Command::Conform(arguments) => conform::conform(arguments),
        Command::Serve(arguments) => serve::serve(arguments),
        Command::Report(arguments) => {
            Interrupt::end_at_once()?;
            report::run(arguments)
        }
        Command::Compare(arguments) => {
            Interrupt::end_at_once()?;
            compare::run(arguments)
        }
        Command::Server(arguments) => server::server(arguments),
        Command::Completions { shell } => {
            let command = &mut Arguments::command();
            // Into memory, where writing does not fail: a closed pipe would be a panic.
            let mut script = Vec::new();
            clap_complete::generate(*shell, command, "tidegate", &mut script);
            print::out(&String::from_utf8_lossy(&script))
        }
        Command::Trace(arguments) => {
            Interrupt::end_at_once()?;
            determinism::trace(arguments)
        }
    }
}
