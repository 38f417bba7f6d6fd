//! What is wrong with a file: where, in one sentence, with what is allowed.
//!
//! Leans on `path`.

use super::path::KeyPath;

/// Bad input: one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default(), key.as_ref().map(|key| format!(": {key}")).unwrap_or_default())]
pub struct InputError {
    /// The file, as given by the user.
    pub file: String,
    /// Line, from 1.
    pub line: Option<usize>,
    /// The key, as a dotted path.
    pub key: Option<String>,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// Something wrong at a key, before file and line are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) path: KeyPath,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(path: KeyPath, message: impl Into<String>) -> Self {
        Self {
            path,
            message: message.into(),
        }
    }

    /// The error for the user, in `file` at `line`.
    pub(super) fn into_error(self, file: &str, line: Option<usize>) -> InputError {
        InputError {
            file: file.to_owned(),
            line,
            key: (!self.path.is_root()).then(|| self.path.to_string()),
            message: self.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_and_key() {
        let path = KeyPath::root().key("publishers").index(0).key("flow");
        let problem = Problem::new(path, "0 is out of range; allowed are 1 to 65535");
        assert_eq!(
            problem
                .clone()
                .into_error("sims/x.toml", Some(12))
                .to_string(),
            "sims/x.toml:12: publishers[0].flow: 0 is out of range; allowed are 1 to 65535"
        );
        let bare = Problem::new(KeyPath::root(), "is not UTF-8");
        assert_eq!(bare.into_error("x", None).to_string(), "x: is not UTF-8");
    }
}
