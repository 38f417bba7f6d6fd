//! Result files: written whole or not at all, read back strictly.
//!
//! A file holds one run, or several with a summary over them. Leans on `result`, `set`,
//! `plausible` and `atomic`.

use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{FORMAT, RunResult, RunSet, plausible, write_atomically};
use crate::scenario::InputError;

/// What a result file holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ResultFile {
    /// One run.
    Run(Box<RunResult>),
    /// Several runs.
    Set(Box<RunSet>),
}

impl ResultFile {
    /// The runs that the file holds.
    pub fn runs(&self) -> &[RunResult] {
        match self {
            Self::Run(run) => std::slice::from_ref(&**run),
            Self::Set(set) => &set.runs,
        }
    }

    /// The runs themselves.
    pub fn into_runs(self) -> Vec<RunResult> {
        match self {
            Self::Run(run) => vec![*run],
            Self::Set(set) => set.runs,
        }
    }

    /// The file as JSON, with a line end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("results have text keys only, so they can be written");
        text.push('\n');
        text
    }

    /// Writes the file under a temporary name and renames it.
    ///
    /// # Errors
    /// When the folder cannot be made or the file not written; the old file then stands untouched.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_atomically(path, self.to_json().as_bytes())
    }

    /// Reads what [`ResultFile::write`] wrote; `file` is what errors call it.
    ///
    /// # Errors
    /// When the text is no JSON, no result, or of a newer format.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        let error = |line: usize, message: String| InputError {
            file: file.to_owned(),
            line: (line > 0).then_some(line),
            key: None,
            message,
        };
        let value: Value = serde_json::from_str(text)
            .map_err(|why| error(why.line(), format!("no JSON: {}", without_place(&why))))?;
        check_format(&value).map_err(|message| InputError {
            key: Some("format".to_owned()),
            ..error(0, message)
        })?;
        // Read from the text again, so that an error has its line.
        let read = if value.get("runs").is_some() {
            serde_json::from_str(text).map(|set| Self::Set(Box::new(set)))
        } else {
            serde_json::from_str(text).map(|run| Self::Run(Box::new(run)))
        };
        let result = read.map_err(|why| {
            let message = format!("no result of tidegate: {}", without_place(&why));
            error(why.line(), message)
        })?;
        let values = match &result {
            Self::Run(_) => std::slice::from_ref(&value),
            Self::Set(_) => value["runs"].as_array().map_or(&[][..], Vec::as_slice),
        };
        for (run, value) in result.runs().iter().zip(values) {
            plausible::check(run, value).map_err(|(key, message)| InputError {
                key: Some(key),
                ..error(0, message)
            })?;
        }
        Ok(result)
    }
}

/// `format` must be there and one that this version reads.
fn check_format(value: &Value) -> Result<(), String> {
    let format = value
        .get("format")
        .and_then(Value::as_u64)
        .ok_or("missing; a result of tidegate has `\"format\": 1`")?;
    match u32::try_from(format) {
        Ok(1..=FORMAT) => Ok(()),
        Ok(0) => Err("0 is no format; the first is 1".to_owned()),
        _ => Err(format!(
            "{format} is newer than this tidegate ({}), which reads up to {FORMAT}",
            env!("CARGO_PKG_VERSION")
        )),
    }
}

/// The message of a JSON error without the line and column that it ends with.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::result::tests::record;

    fn result() -> RunResult {
        RunResult::new(record())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/result.json");
        let one = ResultFile::Run(Box::new(result()));
        one.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(ResultFile::parse("result.json", &text).unwrap(), one);
        let set = ResultFile::Set(Box::new(RunSet::new(vec![result(), result()]).unwrap()));
        set.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(ResultFile::parse("result.json", &text).unwrap(), set);
        let left: Vec<_> = path.parent().unwrap().read_dir().unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays");
    }

    #[test]
    fn what_is_no_result_is_refused_with_its_place() {
        let whole = ResultFile::Run(Box::new(result())).to_json();
        let cases = [
            ("", "r.json:1: no JSON: EOF while parsing a value"),
            ("{\n]", "r.json:2: no JSON: key must be a string"),
            (
                "{}",
                "r.json: format: missing; a result of tidegate has `\"format\": 1`",
            ),
            ("[]", "r.json: format: missing"),
            ("{\"format\": 0}", "r.json: format: 0 is no format"),
            ("{\"format\": 2}", "r.json: format: 2 is newer than"),
            ("{\"format\": 99999999999}", "is newer than"),
            (
                "{\"format\": 1}",
                "r.json:1: no result of tidegate: missing",
            ),
        ];
        for (text, part) in cases {
            let error = ResultFile::parse("r.json", text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let more = whole.replacen("\"seed\"", "\"seeed\": 1, \"seed\"", 1);
        let error = ResultFile::parse("r.json", &more).unwrap_err().to_string();
        assert!(error.contains("unknown field `seeed`"), "{error}");
    }

    #[test]
    fn what_the_types_cannot_say_is_checked() {
        let mut run = result();
        run.series.gaps.push(1);
        let text = ResultFile::Run(Box::new(run)).to_json();
        let error = ResultFile::parse("r.json", &text).unwrap_err().to_string();
        assert_eq!(error, "r.json: series: its columns differ in length");
        let mut run = result();
        run.ack_latency_ns.count = 1;
        let text = ResultFile::Run(Box::new(run)).to_json();
        let error = ResultFile::parse("r.json", &text).unwrap_err().to_string();
        assert!(error.starts_with("r.json: ack_latency_ns: "), "{error}");
    }
}
