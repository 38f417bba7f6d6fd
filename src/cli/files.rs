//! File names on the command line.
//!
//! Leans on nothing of ours.

use std::path::{Path, PathBuf};

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

/// Whether a file that an option names can be made without harm: its folder is there, since a name
/// that is only mistyped should make none, and it is none of the `inputs`.
///
/// # Errors
/// It is one of the inputs, or its folder is not there.
pub(super) fn check_output(option: &str, target: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let itself = target.canonicalize().ok();
    let same = |file: &&PathBuf| itself.is_some() && file.canonicalize().ok() == itself;
    if let Some(file) = inputs.iter().find(same) {
        return Err(Failure::Usage(format!(
            "{option} would overwrite {}, a file that is read; name another",
            file.display()
        )));
    }
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(Failure::Surroundings(format!(
                "{}: cannot be written: there is no folder {}; make it first",
                target.display(),
                folder.display()
            )))
        }
        Some(_) | None => Ok(()),
    }
}
