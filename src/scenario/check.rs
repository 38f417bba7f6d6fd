//! Agreement: what each key allows by itself and several keys together contradict.
//!
//! Ranges are checked before, by `shape`.
//! Leans on the settings structs, `subjects`, and the names of `judge`.

use serde_json::Value;

use super::client_checks;
use super::error::Problem;
use super::fault_checks::check_fault;
use super::load_checks::{check_arrivals, check_payload, check_times};
use super::path::KeyPath;
use super::probe_checks::check_probes;
use super::shown::shown;
use super::sizes::check_sizes;
use super::subjects::{check_group_subjects, check_stream_subjects};
use super::{
    BugOf, ClientKind, Discard, Expect, ExpectedVerdict, Gate, ProfileWord, Publishers,
    RaftSettings, ServerSettings, Settings, StreamSettings, Timestamps, TimestampsFile, WarmUp,
};
use crate::judge::Judges;
use crate::nats::error_code::ErrorCode;
use crate::nats::header::MESSAGE_ID;
use crate::nats::version::ServerVersion;

/// Most publishers of a run, all groups together.
const MOST_PUBLISHERS: u64 = 100_000;
/// So long a name may be that a number follows.
const LONGEST_NAME_OF_SEVERAL: usize = 250;
/// Bare statuses that a publisher may see in place of an error code.
const STATUSES: &[u16] = &[429, 503];

pub(super) type Checked = Result<(), Problem>;

pub(super) fn refuse(path: KeyPath, message: impl Into<String>) -> Checked {
    Err(Problem::new(path, message))
}

impl Settings {
    /// The same with the sections that only the simulator understands filled in, so that a result
    /// shows the model that it comes from.
    pub fn with_modelled_defaults(&self) -> Self {
        Self {
            server: Some(self.server.clone().unwrap_or_default()),
            disk: Some(self.disk.clone().unwrap_or_default()),
            network: Some(self.network.clone().unwrap_or_default()),
            raft: Some(self.raft.clone().unwrap_or_default()),
            ..self.clone()
        }
    }

    /// The same with the digests of the files that were read in place of what they hold, so that a result
    /// shows what was played.
    pub fn with_digests(mut self) -> Self {
        for group in &mut self.publishers {
            if let (Some(timestamps), Some(moments)) = (&mut group.timestamps, group.moments.take())
            {
                let digest = Some(moments.digest());
                let read = timestamps.read();
                *timestamps = Timestamps::Read(TimestampsFile { digest, ..read });
            }
        }
        self
    }

    /// Publishers of all groups together.
    pub fn publisher_count(&self) -> u64 {
        self.publishers
            .iter()
            .map(|group| u64::from(group.count))
            .sum()
    }
}

/// Keys that may not even be written beside others, whatever they say.
pub(super) fn check_keys_written(file: &Value) -> Checked {
    let groups = file["publishers"].as_array();
    for (index, group) in groups.into_iter().flatten().enumerate() {
        let path = group_path(index);
        let written = |key: &str| group.get(key).is_some();
        client_checks::check_keys(group, &path)?;
        if group["client"] == "jetstream-extra" {
            if written("gate") {
                let message = "goes with client = \"core\" only; jetstream-extra has its own gate";
                return refuse(path.key("gate"), message);
            }
            if written("profile") {
                return refuse(path.key("profile"), "goes with client = \"core\" only");
            }
        }
        if group["profile"] == "jetstream-extra" && written("gate") {
            let message =
                "goes with profile = \"adr-50\" only; that of jetstream-extra has its gate";
            return refuse(path.key("gate"), message);
        }
    }
    Ok(())
}

/// Everything that settings in range can still get wrong.
pub(super) fn check_settings(settings: &Settings) -> Checked {
    if settings.about.contains(['\n', '\r']) {
        return refuse(key("about"), "has several lines; allowed is one");
    }
    check_warm_up(settings)?;
    check_stream(&settings.stream)?;
    let mut first = 0;
    for (index, group) in settings.publishers.iter().enumerate() {
        let path = group_path(index);
        check_group(group, settings, &path)?;
        check_group_subjects(group, first, &settings.stream, &path)?;
        first += u64::from(group.count);
    }
    let publishers = settings.publisher_count();
    if publishers > MOST_PUBLISHERS {
        let message = format!("count {publishers} in all; allowed are {MOST_PUBLISHERS}");
        return refuse(key("publishers"), message);
    }
    for (index, fault) in settings.faults.iter().enumerate() {
        check_fault(fault, publishers, &settings.stream, &fault_path(index))?;
    }
    check_probes(settings)?;
    check_defects(settings)?;
    if let Some(live) = &settings.live {
        live.check()?;
    }
    if let Some(raft) = &settings.raft {
        check_raft(raft)?;
    }
    check_expect(&settings.expect)
}

fn check_warm_up(settings: &Settings) -> Checked {
    match settings.warm_up {
        WarmUp::Known(span) if span >= settings.time_limit => {
            let message = format!(
                "{span} leaves nothing to measure; it must be shorter than time_limit, {}",
                settings.time_limit
            );
            refuse(key("warm_up"), message)
        }
        WarmUp::Found(_) if !settings.faults.is_empty() => {
            let message = "\"auto\" finds where a run is steady, and faults are what disturbs it; say \
                           how long the warm-up is";
            refuse(key("warm_up"), message)
        }
        WarmUp::Known(_) | WarmUp::Found(_) => Ok(()),
    }
}

fn key(name: &str) -> KeyPath {
    KeyPath::root().key(name)
}

fn group_path(index: usize) -> KeyPath {
    key("publishers").index(index)
}

fn fault_path(index: usize) -> KeyPath {
    key("faults").index(index)
}

fn check_stream(stream: &StreamSettings) -> Checked {
    let path = key("stream");
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
    if let Some(c) = stream.name.chars().find(|&c| forbidden(c)) {
        let message = format!(
            "\"{}\" contains {c:?}; a stream name has no white space and none of . * > / \\",
            shown(&stream.name)
        );
        return refuse(path.key("name"), message);
    }
    check_stream_subjects(stream, &path.key("subjects"))?;
    if stream.count > 1 && stream.name.len() > LONGEST_NAME_OF_SEVERAL {
        let message = format!(
            "{} characters are too many for {} streams, which have their numbers behind it; allowed are \
             {LONGEST_NAME_OF_SEVERAL}",
            stream.name.len(),
            stream.count
        );
        return refuse(path.key("name"), message);
    }
    if stream.discard_new_per_subject {
        let path = path.key("discard_new_per_subject");
        if stream.discard != Discard::New {
            return refuse(path, "needs discard = \"new\"");
        }
        if stream.max_messages_per_subject.is_none() {
            return refuse(
                path,
                "needs max_messages_per_subject, the limit that it is about",
            );
        }
    }
    Ok(())
}

fn check_group(group: &Publishers, settings: &Settings, path: &KeyPath) -> Checked {
    if group.client == ClientKind::JetstreamExtra && group.gate == Gate::BeforePublish {
        let message = "goes with client = \"core\" only; jetstream-extra has its own gate";
        return refuse(path.key("gate"), message);
    }
    if group.profile == ProfileWord::JetstreamExtra && group.gate == Gate::BeforePublish {
        let message = "goes with profile = \"adr-50\" only; that of jetstream-extra has its gate";
        return refuse(path.key("gate"), message);
    }
    let core_only = [
        ("profile", group.profile != ProfileWord::Adr),
        ("idle_ping", group.idle_ping.is_some()),
        ("errors_count_as_acks", group.errors_count_as_acks),
    ];
    if group.client == ClientKind::JetstreamExtra
        && let Some((name, _)) = core_only.iter().find(|(_, written)| *written)
    {
        return refuse(path.key(name), "goes with client = \"core\" only");
    }
    client_checks::check_atomic(group, settings, path)?;
    check_arrivals(group, path)?;
    check_times(group, settings, path)?;
    check_pauses(group, path)?;
    check_headers(group, path)?;
    check_payload(group, path)?;
    check_sizes(group, path)
}

fn check_pauses(group: &Publishers, path: &KeyPath) -> Checked {
    let mut earlier = 0;
    for (index, pause) in group.pauses.iter().enumerate() {
        let path = path.key("pauses").index(index).key("after");
        if pause.after <= earlier {
            let message = format!(
                "{} is not above {earlier}, where the pause before it is; pauses go up",
                pause.after
            );
            return refuse(path, message);
        }
        if pause.after > group.messages {
            let message = format!(
                "{} is out of range; allowed are 1 to {}, the messages of a batch",
                pause.after, group.messages
            );
            return refuse(path, message);
        }
        earlier = pause.after;
    }
    Ok(())
}

fn check_headers(group: &Publishers, path: &KeyPath) -> Checked {
    for (index, rule) in group.headers.iter().enumerate() {
        let path = path.key("headers").index(index);
        if rule.from > rule.to {
            let message = format!("{} is above to, {}", rule.from, rule.to);
            return refuse(path.key("from"), message);
        }
        if rule.to > group.messages {
            let message = format!(
                "{} is out of range; allowed are up to {}, the messages of a batch",
                rule.to, group.messages
            );
            return refuse(path.key("to"), message);
        }
        if !rule.name.chars().all(|c| c.is_ascii_graphic() && c != ':') {
            let message = "is no header name; allowed are visible ASCII characters but `:`";
            return refuse(path.key("name"), message);
        }
        if group.message_ids && rule.name == MESSAGE_ID {
            let message = "sets the message id, and so does message_ids = true; keep one";
            return refuse(path.key("name"), message);
        }
        if rule.value.contains(['\r', '\n']) {
            return refuse(path.key("value"), "has several lines; allowed is one");
        }
    }
    Ok(())
}

fn check_raft(raft: &RaftSettings) -> Checked {
    for (what, min, max) in [
        (
            "election_timeout",
            raft.election_timeout_min,
            raft.election_timeout_max,
        ),
        (
            "campaign_timeout",
            raft.campaign_timeout_min,
            raft.campaign_timeout_max,
        ),
    ] {
        if max < min {
            let path = key("raft").key(&format!("{what}_max"));
            return refuse(path, format!("{max} is below {what}_min, {min}"));
        }
    }
    Ok(())
}

fn check_defects(settings: &Settings) -> Checked {
    let defects = settings.server.iter().flat_map(|server| &server.defects);
    let core = settings
        .publishers
        .iter()
        .any(|group| group.client == ClientKind::Core);
    for (index, defect) in defects.enumerate() {
        let path = key("server").key("defects").index(index);
        match defect.bug_of() {
            BugOf::Publisher if !core => {
                return refuse(
                    path,
                    "is a bug of the core client, and no group uses that client",
                );
            }
            BugOf::Raft(_) if settings.stream.replicas == 1 => {
                return refuse(path, "is a bug of RAFT, and the stream has replicas = 1");
            }
            BugOf::Server(_) | BugOf::Raft(_) | BugOf::Publisher | BugOf::Simulator => {}
        }
    }
    settings.server.as_ref().map_or(Ok(()), check_repaired)
}

/// What is repaired must be there, and stay so.
fn check_repaired(server: &ServerSettings) -> Checked {
    for (index, defect) in server.repaired.iter().enumerate() {
        let path = key("server").key("repaired").index(index);
        if !defect.is_in(server.version.into()) {
            let version = ServerVersion::from(server.version);
            return refuse(path, format!("is no bug of nats-server {version}"));
        }
        if server.defects.contains(defect) {
            return refuse(path, "is switched on by server.defects");
        }
    }
    Ok(())
}

fn check_expect(expect: &Expect) -> Checked {
    let path = key("expect");
    let ranges = [
        ("pings", expect.pings_min, expect.pings_max),
        ("gaps", expect.gaps_min, expect.gaps_max),
    ];
    for (name, least, most) in ranges {
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            let message = format!("{least} is above {name}_max, {most}");
            return refuse(path.key(&format!("{name}_min")), message);
        }
    }
    let known = |code: u16| ErrorCode::from_number(code).is_some() || STATUSES.contains(&code);
    if let Some(index) = expect.errors.iter().position(|&code| !known(code)) {
        let message = format!(
            "{} is no error that a publisher can see; allowed are {}",
            expect.errors[index],
            known_codes()
        );
        return refuse(path.key("errors").index(index), message);
    }
    let unknown = |judge: &String| !Judges::NAMES.contains(&judge.as_str());
    if let Some(index) = expect.judges.iter().position(unknown) {
        let message = format!(
            "\"{}\" is no judge; allowed are {}",
            shown(&expect.judges[index]),
            Judges::NAMES.join(", ")
        );
        return refuse(path.key("judges").index(index), message);
    }
    if !expect.judges.is_empty() && expect.verdict != ExpectedVerdict::Violation {
        let message = "names judges that must object, so verdict must be \"violation\"";
        return refuse(path.key("judges"), message);
    }
    if expect.stalls.is_some_and(|stalls| stalls > 0) && expect.verdict == ExpectedVerdict::Pass {
        let message = "expects stalls, so verdict cannot be \"pass\"; set it to \"stall\"";
        return refuse(path.key("stalls"), message);
    }
    Ok(())
}

fn known_codes() -> String {
    let codes = ErrorCode::ALL.iter().map(|code| code.number());
    let mut codes: Vec<u16> = STATUSES.iter().copied().chain(codes).collect();
    codes.sort_unstable();
    // A number may stand for several texts.
    codes.dedup();
    let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
    codes.join(", ")
}
