//! The file of moments that a group replays: read, checked, and what of it results keep.
//!
//! A text file with a moment on each line. It comes from outside, so its size, its length and each line
//! are checked; an error names the file and the line. Leans on the keys of `arrival` and on `units`.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::arrival::{MomentOrigin, TimestampsFile};
use super::shown::shown;
use crate::units::Span;

/// Largest file that is read: 64 MiB.
const LARGEST_BYTES: u64 = 64 << 20;
/// Most moments of a file.
const MOST_MOMENTS: usize = 4_000_000;
/// No moment is later: 24 h, the longest run.
const LATEST_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// The moments of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Nanoseconds since the start of the publisher, going up; at least one.
    pub ns: Arc<[u64]>,
    /// A digest of the contents of the file: XXH3.
    digest: u64,
}

/// What is wrong with a file of moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MomentsError {
    /// The file as a whole, in a sentence about it.
    File(String),
    /// A line of it, from 1.
    Line(usize, String),
}

impl Moments {
    /// Reads the file that `how` names, in `folder` unless it says where it is from the root on.
    ///
    /// # Errors
    /// The file is missing, no regular one, unreadable or above 64 MiB, or [`Moments::parse`] refuses it.
    pub(super) fn read(folder: &Path, how: &TimestampsFile) -> Result<Self, MomentsError> {
        let unreadable = |error: std::io::Error| {
            MomentsError::File(format!("\"{}\" cannot be read: {error}", shown(&how.file)))
        };
        let path = folder.join(&how.file);
        // Before it is opened: a pipe would wait for somebody who writes.
        if !fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(MomentsError::File(format!(
                "\"{}\" is no regular file, and only those are read, up to 64 MiB",
                shown(&how.file)
            )));
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        Self::parse(&bytes, how)
    }

    /// The moments of a file with these contents.
    ///
    /// A line is a number, which counts what `how.unit` says, or a span of time with a unit of its own.
    /// White space around it, empty lines, what follows `#`, and a byte order mark of UTF-8 mean nothing.
    ///
    /// # Errors
    /// The file is above 64 MiB, has no moment or more than 4,000,000, is not UTF-8 text, a line is no
    /// moment or before the one above it or later than 24 h, the file does not have its digest, or it
    /// begins anew before it has ended.
    pub fn parse(bytes: &[u8], how: &TimestampsFile) -> Result<Self, MomentsError> {
        let refuse = |message: String| Err(MomentsError::File(message));
        let file = shown(&how.file);
        if bytes.len() as u64 > LARGEST_BYTES {
            return refuse(format!(
                "\"{file}\" is larger than 64 MiB, the largest allowed"
            ));
        }
        let ns = moments_of(bytes, how)?;
        let Some(last) = ns.last() else {
            return refuse(format!("\"{file}\" has no moment; at least one is needed"));
        };
        if let Some(every) = how.repeat_every
            && every.0.as_nanos() <= *last
        {
            let last = Span(crate::machine::Time::from_nanos(*last));
            return refuse(format!(
                "repeat_every, {every}, is not after the last moment of \"{file}\", {last}"
            ));
        }
        let moments = Self {
            ns: ns.into(),
            digest: xxh3_64(bytes),
        };
        match &how.digest {
            Some(digest) if *digest != moments.digest() => refuse(format!(
                "\"{file}\" has the digest {}, and not {}",
                moments.digest(),
                shown(digest)
            )),
            Some(_) | None => Ok(moments),
        }
    }

    /// Sixteen hexadecimal digits over the contents of the file.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.digest)
    }
}

fn moments_of(bytes: &[u8], how: &TimestampsFile) -> Result<Vec<u64>, MomentsError> {
    let mut moments: Vec<u64> = Vec::new();
    let mut origin = None;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let refuse = |message: String| Err(MomentsError::Line(number, message));
        let Ok(line) = std::str::from_utf8(line) else {
            return refuse("is not UTF-8 text".to_owned());
        };
        let text = line.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        if moments.len() == MOST_MOMENTS {
            return refuse(format!(
                "is one moment too many; allowed are {MOST_MOMENTS}"
            ));
        }
        let Some(moment) = Span::with_bare(text, how.unit.nanoseconds()) else {
            return refuse(format!(
                "\"{}\" is no moment; allowed are a number, in the unit that the scenario says, and a \
                 span of time such as 250us, to the nanosecond",
                shown(text)
            ));
        };
        let origin = *origin.get_or_insert(match how.origin {
            MomentOrigin::Start => 0,
            MomentOrigin::First => moment.0.as_nanos(),
        });
        let since = moment.0.as_nanos().checked_sub(origin);
        let Some(since) = since.filter(|since| moments.last().is_none_or(|last| last <= since))
        else {
            return refuse(format!("{} is before the moment above it", shown(text)));
        };
        if since > LATEST_NS {
            return refuse(format!(
                "{} is later than 24h; where moments are dates, origin = \"first\" counts them from the \
                 first one",
                shown(text)
            ));
        }
        moments.push(since);
    }
    Ok(moments)
}

#[cfg(test)]
mod tests {
    use super::super::arrival::{MomentUnit, Timestamps};
    use super::*;
    use crate::machine::Time;

    fn how() -> TimestampsFile {
        Timestamps::File("moments.txt".to_owned()).read()
    }

    #[test]
    fn lines_are_seconds_or_spans_and_comments_mean_nothing() {
        let text = b"# from an access log\n0\n0.000250 # the second\r\n\n 1ms\n1.5\n2s";
        let moments = Moments::parse(text, &how()).unwrap();
        assert_eq!(
            *moments.ns,
            [0, 250_000, 1_000_000, 1_500_000_000, 2_000_000_000]
        );
        assert_eq!(moments.digest().len(), 16);
    }

    #[test]
    fn a_byte_order_mark_means_nothing_to_moments() {
        let moments = Moments::parse(b"\xef\xbb\xbf0\n1\n", &how()).unwrap();
        assert_eq!(*moments.ns, [0, 1_000_000_000]);
        let error = Moments::parse(b"0\n\xef\xbb\xbf1\n", &how()).unwrap_err();
        assert!(matches!(error, MomentsError::Line(2, _)), "{error:?}");
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for name in ["folder", "pipe", "/dev/zero"] {
            let how = TimestampsFile {
                file: name.to_owned(),
                ..how()
            };
            let error = Moments::read(folder.path(), &how).unwrap_err();
            let MomentsError::File(message) = error else {
                panic!("{error:?}");
            };
            assert!(
                message.starts_with(&format!("\"{name}\" is no regular file")),
                "{message}"
            );
        }
    }

    #[test]
    fn dates_count_from_the_first() {
        let how = TimestampsFile {
            unit: MomentUnit::Ns,
            origin: MomentOrigin::First,
            ..how()
        };
        let text = b"1700000000000000500\n1700000000000000500\n1700000000000001500\n";
        let moments = Moments::parse(text, &how).unwrap();
        assert_eq!(*moments.ns, [0, 0, 1_000]);
    }

    #[test]
    fn the_digest_is_of_the_contents_and_must_be_right_where_it_is_said() {
        let digest = Moments::parse(b"0\n1\n", &how()).unwrap().digest();
        assert_ne!(Moments::parse(b"0\n2\n", &how()).unwrap().digest(), digest);
        let pinned = TimestampsFile {
            digest: Some(digest.clone()),
            ..how()
        };
        assert!(Moments::parse(b"0\n1\n", &pinned).is_ok());
        let error = Moments::parse(b"0\n2\n", &pinned).unwrap_err();
        let MomentsError::File(message) = error else {
            panic!("{error:?}");
        };
        assert!(message.contains(&digest), "{message}");
    }

    #[test]
    fn a_wrong_file_is_told_by_its_line() {
        let table: &[(&[u8], usize, &str)] = &[
            (b"0\n1 hour\n", 2, "\"1 hour\" is no moment"),
            (b"1\n\n-1\n", 3, "\"-1\" is no moment"),
            (b"0.0000000001", 1, "is no moment"),
            (b"2\n1\n", 2, "1 is before the moment above it"),
            (b"0\n\xff\n", 2, "is not UTF-8"),
            (b"1700000000\n", 1, "is later than 24h"),
            (b"99999999999999999999\n", 1, "is no moment"),
        ];
        for (bytes, line, words) in table {
            let error = Moments::parse(bytes, &how()).unwrap_err();
            let MomentsError::Line(at, message) = &error else {
                panic!("{error:?}");
            };
            assert_eq!(at, line, "{message}");
            assert!(message.contains(words), "{message}");
        }
        let empty = Moments::parse(b"# nothing\n", &how()).unwrap_err();
        assert!(matches!(empty, MomentsError::File(message) if message.contains("has no moment")));
        let again = TimestampsFile {
            repeat_every: Some(Span(Time::from_secs(1))),
            ..how()
        };
        assert!(Moments::parse(b"0\n0.9\n", &again).is_ok());
        let error = Moments::parse(b"0\n1\n", &again).unwrap_err();
        assert!(
            matches!(error, MomentsError::File(message) if message.contains("repeat_every, 1s"))
        );
    }

    #[test]
    fn too_many_moments_are_refused() {
        let text = "1\n".repeat(MOST_MOMENTS + 1);
        let error = Moments::parse(text.as_bytes(), &how()).unwrap_err();
        assert!(matches!(error, MomentsError::Line(line, _) if line == MOST_MOMENTS + 1));
    }
}
