//! Subjects of a file: well formed, and the publishers' within the stream's.
//!
//! Leans on the settings structs and on `nats::subject`.

use std::ops::Range;

use super::error::Problem;
use super::path::KeyPath;
use super::shown::shown;
use super::stream::STREAM;
use super::{Publishers, StreamSettings};
use crate::nats::subject::OfServer;

/// Most comparisons for one group that finding uncovered subjects one by one may take: files are
/// untrusted, and a thousand groups of them must not take long.
const MOST_COMPARISONS: u64 = 100_000;
/// Where replies to publishers go.
const INBOX: &str = "_INBOX.";
/// Stands for the publisher's number.
const PUBLISHER: &str = "{publisher}";
/// Where several streams are meant, their subjects are apart by this.
const SEVERAL: &str =
    "of several streams each needs subjects of its own: say {stream}, which becomes its number";

/// Checks `stream.subjects`.
pub(super) fn check_stream_subjects(
    stream: &StreamSettings,
    path: &KeyPath,
) -> Result<(), Problem> {
    for (index, filter) in stream.subjects.iter().enumerate() {
        let path = path.index(index);
        if stream.count > 1 && !filter.split('.').any(|token| token == STREAM) {
            let message = format!("\"{}\" has no token {{stream}}; {SEVERAL}", shown(filter));
            return Err(Problem::new(path, message));
        }
        if let Some(why) = malformed(filter, true) {
            let message = format!("\"{}\" is no subject: {why}", shown(filter));
            return Err(Problem::new(path, message));
        }
        if let Some(own) = OfServer::in_filter(filter).filter(|_| !stream.no_ack) {
            let what = match own {
                OfServer::Everything => "everything".to_owned(),
                own => format!("what belongs to {}", words_for(own)),
            };
            let message = format!(
                "\"{}\" takes {what}, which servers allow with no_ack = true only",
                shown(filter)
            );
            return Err(Problem::new(path, message));
        }
        if filter.starts_with(INBOX) {
            let message = format!("\"{}\" takes the replies to publishers", shown(filter));
            return Err(Problem::new(path, message));
        }
        if stream.subjects[..index].contains(filter) {
            let message = format!("\"{}\" is listed twice", shown(filter));
            return Err(Problem::new(path, message));
        }
    }
    Ok(())
}

/// Checks that each subject of `group`, whose publishers are numbered from `first`, is well formed
/// and goes into its stream; or that none goes into any, where the group says so.
pub(super) fn check_group_subjects(
    group: &Publishers,
    first: u64,
    stream: &StreamSettings,
    path: &KeyPath,
) -> Result<(), Problem> {
    let path = path.key("subject");
    let plain = group.subject.replace(PUBLISHER, "0").replace(STREAM, "0");
    if let Some(why) = malformed(&plain, false) {
        let message = format!(
            "\"{}\" is no subject to publish to: {why}",
            shown(&group.subject)
        );
        return Err(Problem::new(path, message));
    }
    let first_subject = match group.subjects {
        1 => plain,
        _ => format!("{plain}.0"),
    };
    let whose = match OfServer::in_filter(&first_subject) {
        Some(own) => Some(words_for(own)),
        None => first_subject.starts_with(INBOX).then_some("replies"),
    };
    if let Some(whose) = whose {
        let message = format!(
            "\"{}\" is no subject to publish to: it belongs to {whose}",
            shown(&group.subject)
        );
        return Err(Problem::new(path, message));
    }
    let distinct = match (
        group.subject.contains(PUBLISHER),
        group.subject.contains(STREAM),
    ) {
        (true, _) => u64::from(group.count),
        (false, true) => u64::from(group.count.min(stream.count)),
        (false, false) if group.outside_stream => 1,
        // The streams of two publishers differ even if their subjects do not.
        (false, false) => u64::from(group.count.min(stream.count)),
    };
    let Some(odd) = first_on_the_other_side(group, first..first + distinct, stream) else {
        return Ok(());
    };
    let filters = stream.subjects.iter().take(5);
    let filters: Vec<String> = filters.map(|one| shown(one)).collect();
    let filters = filters.join(", ");
    let message = match group.outside_stream {
        false => format!(
            "\"{}\" does not go into the stream; stream.subjects takes {filters}",
            shown(&odd)
        ),
        true => format!(
            "\"{}\" may go into the stream, which takes {filters}; with outside_stream = true no \
             subject of the group does",
            shown(&odd)
        ),
    };
    Err(Problem::new(path, message))
}

/// A subject of the group that is in the stream where it should be outside, or outside where it
/// should be in.
fn first_on_the_other_side(
    group: &Publishers,
    numbers: Range<u64>,
    stream: &StreamSettings,
) -> Option<String> {
    // Outside means outside of all streams.
    let anywhere = stream.subjects.iter().map(|one| one.replace(STREAM, "*"));
    let anywhere: Vec<String> = match group.outside_stream {
        true => anywhere.collect(),
        false => stream.subjects.clone(),
    };
    let covered = |subject: &str| anywhere.iter().any(|filter| covers(filter, subject));
    // Placeholders match wildcards only: if that is enough, it is enough for every number.
    let any = match group.subjects {
        1 => group.subject.clone(),
        _ => format!("{}.{{index}}", group.subject),
    };
    if covered(&any) {
        return group.outside_stream.then_some(any);
    }
    let count = numbers.end - numbers.start;
    if count * u64::from(group.subjects) * stream.subjects.len() as u64 > MOST_COMPARISONS {
        return Some(any);
    }
    numbers
        .filter_map(|number| u32::try_from(number).ok())
        .find_map(|number| {
            let own = stream.subjects_of(number % stream.count);
            let covered = |subject: &str| match group.outside_stream {
                true => covered(subject),
                false => own.iter().any(|filter| covers(filter, subject)),
            };
            let mut names = group.subjects_of(number, stream.count).names.into_iter();
            names.find(|subject| covered(subject) == group.outside_stream)
        })
}

/// What of a server's own it is, for people.
const fn words_for(own: OfServer) -> &'static str {
    match own {
        OfServer::Everything => "everybody",
        OfServer::JetStream => "JetStream itself ($JS.>, $JSC.>, $NRG.>)",
        OfServer::System => "the system ($SYS.>)",
    }
}

/// Whether a subject is malformed, and why.
fn malformed(subject: &str, wildcards: bool) -> Option<&'static str> {
    if subject.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("it contains white space or control characters");
    }
    let tokens: Vec<&str> = subject.split('.').collect();
    if tokens.iter().any(|token| token.is_empty()) {
        return Some("a token between dots is empty");
    }
    let is_wildcard = |token: &&str| matches!(*token, "*" | ">");
    if !wildcards && tokens.iter().any(is_wildcard) {
        return Some("wildcards are for stream.subjects");
    }
    let early = tokens.iter().rev().skip(1).any(|token| *token == ">");
    early.then_some("`>` must be the last token")
}

/// Whether `filter` takes `subject`, token by token.
fn covers(filter: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in filter.split('.') {
        match (wanted, tokens.next()) {
            (">", Some(_)) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (wanted, Some(token)) if wanted == token => {}
            (_, Some(_)) => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::path::KeyPath;
    use super::*;

    #[test]
    fn filters_cover_by_token() {
        for (filter, subject, covered) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("*.b", "a.b", true),
            ("a.b.c", "a.b", false),
        ] {
            assert_eq!(covers(filter, subject), covered, "{filter} {subject}");
        }
    }

    fn odd(
        outside_stream: bool,
        subject: &str,
        count: u32,
        subjects: u32,
        filters: &[&str],
    ) -> Option<String> {
        odd_of(1, outside_stream, subject, count, subjects, filters)
    }

    fn odd_of(
        streams: u32,
        outside_stream: bool,
        subject: &str,
        count: u32,
        subjects: u32,
        filters: &[&str],
    ) -> Option<String> {
        let group = Publishers {
            subject: subject.to_owned(),
            count,
            subjects,
            outside_stream,
            ..Publishers::default()
        };
        let stream = StreamSettings {
            count: streams,
            subjects: filters.iter().map(ToString::to_string).collect(),
            ..StreamSettings::default()
        };
        let check = check_group_subjects(&group, 0, &stream, &KeyPath::root());
        let message = check.err()?.message;
        Some(message.split('"').nth(1).unwrap_or_default().to_owned())
    }

    #[test]
    fn every_publisher_must_be_covered() {
        let uncovered = |subject: &str, count, subjects, filters: &[&str]| {
            odd(false, subject, count, subjects, filters)
        };
        assert_eq!(uncovered("t.{publisher}", 100_000, 1, &["t.*"]), None);
        assert_eq!(uncovered("t.{publisher}", 2, 1, &["t.0", "t.1"]), None);
        assert_eq!(
            uncovered("t.{publisher}", 3, 1, &["t.0", "t.1"]).unwrap(),
            "t.2"
        );
        assert_eq!(uncovered("t", 3, 2, &["t.0"]).unwrap(), "t.1");
        assert_eq!(uncovered("t", 3, 1_000_000, &["t.>"]), None);
        assert_eq!(
            uncovered("t", 1, 1_000_000, &["t.*.x", "t", "t.0"]).unwrap(),
            "t.{index}"
        );
        assert_eq!(uncovered("u", 1, 1, &["t.>"]).unwrap(), "u");
    }

    #[test]
    fn no_publisher_outside_the_stream_may_be_covered() {
        let covered = |subject: &str, count, subjects, filters: &[&str]| {
            odd(true, subject, count, subjects, filters)
        };
        assert_eq!(covered("u", 1, 1, &["t.>"]), None);
        assert_eq!(covered("t.{publisher}", 3, 1, &["t.3"]), None);
        assert_eq!(covered("t.{publisher}", 4, 1, &["t.3"]).unwrap(), "t.3");
        assert_eq!(covered("t", 1, 2, &["t.1"]).unwrap(), "t.1");
        assert_eq!(
            covered("t.{publisher}", 3, 1, &["t.*"]).unwrap(),
            "t.{publisher}"
        );
        // more than is looked at one by one
        assert_eq!(covered("t", 1, 1_000_000, &["u"]).unwrap(), "t.{index}");
    }

    #[test]
    fn each_publisher_goes_into_a_stream_of_its_own_of_several() {
        let odd =
            |outside, subject: &str, filters: &[&str]| odd_of(3, outside, subject, 10, 1, filters);
        assert_eq!(
            odd(false, "t.{stream}.{publisher}", &["t.{stream}.>"]),
            None
        );
        assert_eq!(odd(false, "t.{stream}", &["t.{stream}"]), None);
        // Publisher 1 is one of stream 1.
        assert_eq!(odd(false, "t.0", &["t.{stream}"]).unwrap(), "t.0");
        assert_eq!(odd(false, "t.{publisher}", &["t.{stream}"]).unwrap(), "t.3");
        assert_eq!(odd(true, "u.{stream}", &["t.{stream}"]), None);
        assert_eq!(odd(true, "t.5", &["t.{stream}"]).unwrap(), "t.5");
    }

    #[test]
    fn several_streams_need_subjects_of_their_own() {
        let stream = |filter: &str| StreamSettings {
            count: 2,
            subjects: vec![filter.to_owned()],
            ..StreamSettings::default()
        };
        let check = |filter| check_stream_subjects(&stream(filter), &KeyPath::root());
        assert!(check("a.{stream}.>").is_ok());
        for filter in ["a.>", "a.x{stream}"] {
            assert!(check(filter).is_err_and(|problem| problem.message.contains("{stream}")));
        }
    }

    #[test]
    fn subjects_are_well_formed_or_say_why() {
        assert_eq!(malformed("a.b", false), None);
        assert_eq!(malformed("a.*.>", true), None);
        for (subject, wildcards) in [
            ("a..b", true),
            ("", true),
            (".a", true),
            ("a b", true),
            ("a.>.b", true),
            ("a.*", false),
            ("a.>", false),
        ] {
            assert!(malformed(subject, wildcards).is_some(), "{subject}");
        }
    }
}
