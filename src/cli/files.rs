//! File names on the command line.
//!
//! Leans on nothing of ours.

use std::path::PathBuf;

use super::Failure;

/// The names as text: results, errors and replay commands name files, and they are text.
///
/// # Errors
/// A name is not UTF-8.
pub(super) fn named(files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let name = |file: &PathBuf| match file.to_str() {
        Some(name) => Ok(name.to_owned()),
        None => Err(Failure::Usage(format!(
            "{}: this name is not UTF-8 text, and results have to name the file; rename it, or \
             make a link to it",
            file.display()
        ))),
    };
    files.iter().map(name).collect()
}
