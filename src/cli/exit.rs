//! Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 surroundings, 129, 130 and 143 signals.
//!
//! Leans on `scenario` for input errors.

use std::process::ExitCode;

use crate::scenario::InputError;

/// Why a command did not end with 0. Printed on stderr, then mapped to the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The run did not do what its file expects (exit code 1).
    #[error("{0}")]
    Unexpected(String),
    /// Bad usage or bad input (exit code 2).
    #[error("{0}")]
    Usage(String),
    /// A file is wrong (exit code 2).
    #[error(transparent)]
    Input(#[from] InputError),
    /// The surroundings: no server, a broken peer, a port taken, a full disk (exit code 3).
    #[error("{0}")]
    Surroundings(String),
    /// Ended by a signal after the partial result was written (128 + its number).
    #[error("interrupted{}", left.as_ref().map_or_else(|| " before anything was measured".to_owned(), |left| format!("; {left}")))]
    Signal {
        /// Number of the signal.
        number: u8,
        /// What the command leaves, in words; none when there was no result yet.
        left: Option<String>,
    },
}

impl Failure {
    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Unexpected(_) => 1,
            Self::Usage(_) | Self::Input(_) => 2,
            Self::Surroundings(_) => 3,
            Self::Signal { number, .. } => 128 + number,
        })
    }
}
