//! The file of `--trace`: a line for each event, written under a temporary name until it is whole.
//!
//! Leans on the trace writer of `sim` and on `report` for files.

use std::io::{BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};

use super::exit::Failure;
use crate::report::AtomicFile;
use crate::sim::determinism::TraceWriter;

/// The file of `--trace`.
pub(super) struct Trace {
    pub(super) writer: TraceWriter<BufWriter<AtomicFile>>,
    path: PathBuf,
}

impl Trace {
    /// # Errors
    /// The file cannot be made.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let file = AtomicFile::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self {
            writer: TraceWriter::new(BufWriter::new(file)),
            path: path.to_owned(),
        })
    }

    /// Puts the whole file in its place.
    ///
    /// # Errors
    /// The first error of writing.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let file = self.writer.finish().and_then(|buffer| {
            let file = buffer.into_inner().map_err(IntoInnerError::into_error)?;
            file.commit()
        });
        file.map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Surroundings(format!("{}: cannot be written: {error}", path.display()))
}
