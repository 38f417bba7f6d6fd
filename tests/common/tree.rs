//! The files of the project, as tests read them.

use std::path::{Path, PathBuf};

/// The folder of the project.
pub(crate) fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names below the top of all files under `folder` with this extension, in order.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![top().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path.strip_prefix(top()).expect("a path below the top");
                let name = name.to_str().expect("names of the project are text");
                found.push(name.replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}

/// The text of a file, by its name below the top.
#[track_caller]
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
