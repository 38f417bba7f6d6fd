//! The result of a conform run, as JSON and as text for people.
//!
//! Leans on `run`.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::run::Outcome;

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Cases in the files.
    pub cases: usize,
    /// Cases that came out as recorded.
    pub passed: usize,
    /// Cases that did not, in the order of the files.
    pub failed: Vec<Failed>,
    /// Cases that were not run.
    pub skipped: Vec<Skipped>,
    /// The run ended early, and only the cases run until then are counted.
    #[serde(skip_serializing_if = "is_whole")]
    pub partial: bool,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_whole(partial: &bool) -> bool {
    !*partial
}

/// A case that did not come out as recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failed {
    /// Its name; with several files, the file stands before it.
    pub name: String,
    /// Index of the step, from 0; `null`: the creation of the stream.
    pub step: Option<usize>,
    /// What was recorded.
    pub expected: Value,
    /// What came.
    pub got: Value,
}

/// A case that was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its name; with several files, the file stands before it.
    pub name: String,
    /// Why.
    pub why: String,
}

impl Summary {
    /// Counts one case.
    pub fn add(&mut self, name: String, outcome: Outcome) {
        self.cases += 1;
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(difference) => self.failed.push(Failed {
                name,
                step: difference.step,
                expected: difference.expected,
                got: difference.got,
            }),
            Outcome::Skipped(why) => self.skipped.push(Skipped { name, why }),
        }
    }

    /// Whether no case came out otherwise than recorded.
    pub const fn is_conform(&self) -> bool {
        self.failed.is_empty()
    }
}

/// Skipped cases named for each reason where not all are.
const NAMED: usize = 3;

/// The differences, the skipped cases by reason, and one line of numbers.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, usize::MAX)
    }
}

/// A summary that names only the first of many skipped cases.
struct Brief<'a>(&'a Summary);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, NAMED)
    }
}

impl Summary {
    /// The same text with only the first skipped cases of each reason by name.
    pub fn brief(&self) -> impl fmt::Display + '_ {
        Brief(self)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, most: usize) -> fmt::Result {
        for failed in &self.failed {
            let name = escaped(&failed.name);
            match failed.step {
                Some(step) => writeln!(f, "FAILED  {name}  step {step}")?,
                None => writeln!(f, "FAILED  {name}  creation of the stream")?,
            }
            list(f, "expected", &failed.expected)?;
            list(f, "got", &failed.got)?;
        }
        let mut reasons: Vec<&str> = Vec::new();
        for skipped in &self.skipped {
            if !reasons.contains(&skipped.why.as_str()) {
                reasons.push(&skipped.why);
            }
        }
        for why in reasons {
            let same = self.skipped.iter().filter(|skipped| skipped.why == why);
            let names: Vec<String> = same.map(|skipped| escaped(&skipped.name)).collect();
            let shown = names.get(..most).unwrap_or(&names);
            write!(
                f,
                "skipped {} ({}): {}",
                names.len(),
                escaped(why),
                shown.join(", ")
            )?;
            match names.len() - shown.len() {
                0 => writeln!(f)?,
                more => writeln!(f, " and {more} more")?,
            }
        }
        write!(
            f,
            "{} {}: {} passed, {} failed, {} skipped",
            self.cases,
            if self.cases == 1 { "case" } else { "cases" },
            self.passed,
            self.failed.len(),
            self.skipped.len()
        )?;
        if self.partial {
            f.write_str("; ended early, the rest was not run")?;
        }
        Ok(())
    }
}

/// One line for each reply, so that the eye finds the difference.
fn list(f: &mut fmt::Formatter<'_>, title: &str, value: &Value) -> fmt::Result {
    writeln!(f, "  {title}")?;
    let replies = value.get("expect").and_then(Value::as_array);
    match replies {
        Some(replies) => {
            for reply in replies {
                writeln!(f, "    {}", escaped(&reply.to_string()))?;
            }
            if let Some(advisories) = value.get("advisories") {
                writeln!(f, "    advisories {}", escaped(&advisories.to_string()))?;
            }
            Ok(())
        }
        None => writeln!(f, "    {}", escaped(&value.to_string())),
    }
}

/// Text of a server or a file, without characters that steer a terminal.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let is_control = c.is_control();
            let plain = (!is_control).then_some(c);
            plain
                .into_iter()
                .chain(is_control.then(|| c.escape_default()).into_iter().flatten())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_summary_counts_what_it_does_not_name() {
        let mut summary = Summary::default();
        for name in ["a", "b", "c", "d", "e"] {
            summary.add(name.to_owned(), Outcome::Skipped("no cluster".to_owned()));
        }
        summary.add("f".to_owned(), Outcome::Skipped("too old".to_owned()));
        summary.add("g".to_owned(), Outcome::Passed);
        assert_eq!(
            summary.brief().to_string(),
            "skipped 5 (no cluster): a, b, c and 2 more\nskipped 1 (too old): f\n\
             7 cases: 1 passed, 0 failed, 6 skipped"
        );
        assert!(
            summary
                .to_string()
                .contains("(no cluster): a, b, c, d, e\n")
        );
    }
}
