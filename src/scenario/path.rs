//! Paths of keys, such as `publishers[0].flow`.
//!
//! Leans on `shown`.

use std::fmt;

use super::shown::shown;

/// The way from the top of a file to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyPath(Vec<Step>);

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into an array, from 0.
    Index(usize),
}

impl Step {
    fn dotted(&self) -> String {
        match self {
            Self::Key(name) => shown(name),
            Self::Index(index) => index.to_string(),
        }
    }
}

impl KeyPath {
    pub(super) const fn root() -> Self {
        Self(Vec::new())
    }

    /// The path of `name` in the table at this path.
    pub(super) fn key(&self, name: &str) -> Self {
        self.with(Step::Key(name.to_owned()))
    }

    /// The path of item `index` in the array at this path.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    pub(super) const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// This path, then what is around it, up to the top of the file.
    pub(super) fn upwards(&self) -> impl Iterator<Item = Self> {
        let lengths = (0..=self.0.len()).rev();
        lengths.map(|length| Self(self.0[..length].to_vec()))
    }

    /// Whether one of the two is the other, or around it.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .all(|(mine, theirs)| mine == theirs)
    }

    /// Whether it is `other`, or around it.
    pub(super) fn is_around(&self, other: &Self) -> bool {
        self.0.len() <= other.0.len() && self.meets(other)
    }

    /// The path of `below`, seen from this one.
    pub(super) fn join(&self, below: &Self) -> Self {
        Self(self.0.iter().chain(&below.0).cloned().collect())
    }

    /// As `--set` takes it: `publishers.0.flow`.
    pub(super) fn dotted(&self) -> String {
        let steps: Vec<String> = self.0.iter().map(Step::dotted).collect();
        steps.join(".")
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Parses `publishers.0.flow` or `publishers[0].flow`; `None` if a step is empty.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let dotted = text.replace('[', ".").replace(']', "");
        let step = |step: &str| match step.parse::<usize>() {
            Ok(index) if index.to_string() == step => Step::Index(index),
            Ok(_) | Err(_) => Step::Key(step.to_owned()),
        };
        let steps: Vec<&str> = dotted.split('.').map(str::trim).collect();
        let empty = steps.iter().any(|step| step.is_empty());
        (!empty).then(|| Self(steps.into_iter().map(step).collect()))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if position == 0 => f.write_str(&shown(name))?,
                Step::Key(name) => write!(f, ".{}", shown(name))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_as_it_is_read() {
        for path in ["about", "publishers[0].flow", "a.b[3][4].c"] {
            assert_eq!(KeyPath::parse(path).unwrap().to_string(), path);
        }
        assert_eq!(
            KeyPath::parse("publishers.0.flow"),
            KeyPath::parse("publishers[0].flow")
        );
        assert_eq!(KeyPath::parse("a[3].b").unwrap().dotted(), "a.3.b");
        assert_eq!(KeyPath::parse("a..b"), None);
        assert_eq!(KeyPath::parse(""), None);
    }
}
