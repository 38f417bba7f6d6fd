//! Tests of the whole way from text to settings: what is taken, what is refused, and the words.
//!
//! Leans on every file of `scenario`.

use serde_json::{Value, json};

use super::schema::settings_schema;
use super::*;
use crate::machine::Time;
use crate::units::{BitRate, Bytes, Span};

const SMALL: &str = "format = 1\nabout = \"x\"\n[[publishers]]\n";

fn error(text: &str) -> String {
    Scenario::parse("f.toml", text).unwrap_err().to_string()
}

/// The error of the small file with `more` lines at its end, which start at line 4.
fn error_with(more: &str) -> String {
    error(&format!("{SMALL}{more}"))
}

#[test]
fn a_small_file_has_the_documented_defaults() {
    let scenario = Scenario::parse("f.toml", SMALL).unwrap();
    assert_eq!(scenario.file, "f.toml");
    let settings = &scenario.settings;
    assert_eq!(settings.publishers, [Publishers::default()]);
    assert_eq!(settings.stream, StreamSettings::default());
    assert_eq!(
        (settings.seed, settings.time_limit),
        (1, Span(Time::from_secs(600)))
    );
    assert_eq!(settings.server, None);
    assert_eq!(settings.publisher_count(), 1);
}

#[test]
fn a_full_file_means_what_it_says() {
    let text = include_str!("tests/full.toml");
    let settings = Scenario::parse("full.toml", text).unwrap().settings;
    let rates = &settings.publishers[0].rates;
    assert_eq!((rates[0].per_second, rates[0].ramp), (1000.0, false));
    assert_eq!((rates[1].per_second, rates[1].ramp), (5000.5, true));
    assert_eq!(
        settings.publishers[0].payload,
        PayloadSize::Range(SizeRange {
            min: Bytes(64),
            max: Bytes(1024)
        })
    );
    assert_eq!(
        settings.publishers[0].pauses[0].span,
        Span(Time::from_secs(2))
    );
    assert_eq!(
        settings.publishers[1].payload,
        PayloadSize::Fixed(Bytes(128))
    );
    assert_eq!(settings.stream.max_bytes, Some(Bytes(1 << 30)));
    assert_eq!(settings.network.unwrap().bandwidth, BitRate(1_000_000_000));
    assert_eq!(settings.server.unwrap().defects, [Defect::StoreTwice]);
    assert_eq!(settings.faults[1].action, FaultAction::Cut);
    assert_eq!(settings.expect.errors, [10208]);
}

#[test]
fn errors_name_file_line_key_fault_and_remedy() {
    let table: &[(&str, &str)] = &[
        (
            "flow = 0",
            "f.toml:4: publishers[0].flow: 0 is out of range; allowed are 1 to 65535",
        ),
        (
            "\nflow = 70000",
            "f.toml:5: publishers[0].flow: 70000 is out of range; allowed are 1 to 65535",
        ),
        (
            "flow = \"ten\"",
            "f.toml:4: publishers[0].flow: \"ten\" is not a whole number, 1 to 65535",
        ),
        (
            "flow = 1.5",
            "f.toml:4: publishers[0].flow: 1.5 is not a whole number, 1 to 65535",
        ),
        (
            "fow = 1",
            "f.toml:4: publishers[0].fow: unknown key; did you mean `flow`?",
        ),
        (
            "rat_per_second = 1",
            "f.toml:4: publishers[0].rat_per_second: unknown key; did you mean `rate_per_second`?",
        ),
        (
            "gap = \"fial\"",
            "f.toml:4: publishers[0].gap: \"fial\" is not allowed; allowed are \"ok\", \"fail\"",
        ),
        (
            "message_ids = 1",
            "f.toml:4: publishers[0].message_ids: 1 is not true or false",
        ),
        (
            "messages = 4294967296",
            "f.toml:4: publishers[0].messages: 4294967296 is out of range; allowed are 1 to 4294967295",
        ),
        (
            "ack_timeout = \"10\"",
            "f.toml:4: publishers[0].ack_timeout: \"10\" is not a span of time in quotes, such as \"250us\", \"10s\" or \"2m\"",
        ),
        (
            "ack_timeout = 10",
            "f.toml:4: publishers[0].ack_timeout: 10 is not a span of time in quotes, such as \"250us\", \"10s\" or \"2m\"",
        ),
        (
            "ack_timeout = \"2h\"",
            "f.toml:4: publishers[0].ack_timeout: 2h is out of range; allowed are 1ms to 1h",
        ),
        (
            "payload = \"1GiB\"",
            "f.toml:4: publishers[0].payload: 1GiB is out of range; allowed are 0B to 1MiB",
        ),
        (
            "payload = 1024",
            "f.toml:4: publishers[0].payload: 1024 is not a number of bytes in quotes, such as \"128B\", \"1KiB\" or \"64MiB\"",
        ),
        (
            "payload = { min = \"1B\" }",
            "f.toml:4: publishers[0].payload.max: is missing; it must be a number of bytes in quotes, such as \"128B\", \"1KiB\" or \"64MiB\"",
        ),
        (
            "rate_per_second = 0\narrival = \"poisson\"",
            "f.toml:4: publishers[0].rate_per_second: 0 is out of range; allowed are numbers above 0 up to 10000000",
        ),
        (
            "rate_per_second = nan",
            "f.toml:4: publishers[0].rate_per_second: infinity and nan are not allowed",
        ),
        (
            "pauses = [\n{ after = 1 },\n]",
            "f.toml:5: publishers[0].pauses[0].for: is missing; it must be a span of time in quotes, such as \"250us\", \"10s\" or \"2m\"",
        ),
        (
            "[stream]\nreplicas = 2",
            "f.toml:5: stream.replicas: 2 is not allowed; allowed are 1, 3, 5",
        ),
        (
            "[stream]\nsubjects = []",
            "f.toml:5: stream.subjects: has 0 items; allowed are 1 to 1000",
        ),
        (
            "[stream]\nsubjects = \"a\"",
            "f.toml:5: stream.subjects: \"a\" is not a list; each item is text in quotes",
        ),
        (
            "[server]\nversion = \"3.0.0\"",
            "f.toml:5: server.version: \"3.0.0\" is not allowed; allowed are \"2.14.0\", \"2.14.6\", \"2.15.1\"",
        ),
        (
            "[expect]\nverdict = \"passed\"",
            "f.toml:5: expect.verdict: \"passed\" is not allowed; allowed are \"pass\", \"violation\", \"stall\", \"failed\"",
        ),
        (
            "[server]\nrepaired = [\"ghostbatch\"]",
            "f.toml:5: server.repaired[0]: \"ghostbatch\" is not allowed; did you mean \"ghost-batch\"? \
             docs/server-bugs.md lists the 43 words",
        ),
        (
            "[server]\ndefects = [\"zzz\"]",
            "f.toml:5: server.defects[0]: \"zzz\" is not allowed; docs/server-bugs.md lists the 43 words",
        ),
        (
            "[server]\ndefects = \"store-twice\"",
            "f.toml:5: server.defects: \"store-twice\" is not a list; each item is one of the words that \
             docs/server-bugs.md lists",
        ),
        (
            "[[faults]]",
            "f.toml:4: faults[0].action: is missing; it must be one of \"drop\", \"delay\", \"duplicate\", \"cut\"",
        ),
        ("flow = ", "f.toml:4: is not valid TOML: "),
    ];
    for (more, expected) in table {
        let error = error_with(more);
        assert!(
            error.starts_with(expected),
            "{more}\n  gives {error}\n  not   {expected}"
        );
    }
}

#[test]
fn the_head_of_a_file_is_checked() {
    let table: &[(&str, &str)] = &[
        (
            "",
            "f.toml:1: format: is missing; it must be a whole number, 1",
        ),
        (
            "format = 2\nnew = 1",
            "f.toml:1: format: 2 is newer than this tidegate reads; allowed is 1",
        ),
        (
            "format = 0\nabout = \"x\"\npublishers = []",
            "f.toml:1: format: 0 is out of range; allowed are 1",
        ),
        (
            "format = 1\nabout = \"x\"",
            "f.toml:1: publishers: is missing; it must be a list; each item is a table",
        ),
        (
            "format = 1\nabout = \"x\"\npublishers = []",
            "f.toml:3: publishers: has 0 items; allowed are 1 to 1000",
        ),
        ("format = 1\nformat = 1", "f.toml:2: is not valid TOML: "),
        (
            "format = 1\nabout = \"a\\nb\"\n[[publishers]]",
            "f.toml:2: about: has several lines; allowed is one",
        ),
        (
            "\"\\u001b[2J\" = 1",
            "f.toml:1: \\u{1b}[2J: unknown key; known here are about, ",
        ),
    ];
    for (text, expected) in table {
        let error = error(text);
        assert!(
            error.starts_with(expected),
            "{text}\n  gives {error}\n  not   {expected}"
        );
    }
}

#[test]
fn keys_that_contradict_each_other_are_refused() {
    let cut = "[[faults]]\naction = \"cut\"\nfrom = \"1s\"\n";
    let drop = "[[faults]]\naction = \"drop\"\nframe = \"ping\"\n";
    let kill = "[[faults]]\naction = \"kill\"\nfrom = \"1s\"\n";
    let table: &[(&str, &str)] = &[
        (
            "rate_per_second = 5",
            "publishers[0].rate_per_second: needs an open loop",
        ),
        (
            "arrival = \"poisson\"",
            "publishers[0].arrival: an open loop needs rate_per_second",
        ),
        (
            "rates = [{ at = \"0s\", per_second = 1 }]",
            "publishers[0].rates: needs an open loop with a rate",
        ),
        (
            "arrival = \"constant\"\nrate_per_second = 1\nrates = [{ at = \"0s\", per_second = 1 }]",
            "publishers[0].rates: says what rate_per_second says",
        ),
        (
            "arrival = \"constant\"\nrates = [{ at = \"1s\", per_second = 1 }, { at = \"1s\", per_second = 2 }]",
            "publishers[0].rates[1].at: 1s is not after 1s, where the change before it is; changes go up, to 24h",
        ),
        (
            "arrival = \"constant\"\nrates = []",
            "publishers[0].arrival: an open loop needs rate_per_second, or rates with at least one change",
        ),
        (
            "arrival = \"replay\"\ntimestamps = { file = \"x\", digest = \"abc\" }",
            "publishers[0].timestamps.digest: has 3 characters; allowed are exactly 16",
        ),
        (
            "on_for = \"1s\"\noff_for = \"1s\"",
            "publishers[0].on_for: ends a batch, and with batches = 1, the default, no publisher comes back",
        ),
        (
            "arrival = \"constant\"\nrates = [{ at = \"0s\", per_second = 1, ramp = true }]",
            "publishers[0].rates[0].ramp: a ramp takes time",
        ),
        (
            "arrival = \"constant\"\nrates = [{ at = \"0s\", per_second = 0.0001 }]",
            "publishers[0].rates[0].per_second: 0.0001 is out of range; allowed are 0, and 0.001 to",
        ),
        (
            "arrival = \"constant\"\nrates = [{ at = \"0s\", per_second = 0 }]",
            "publishers[0].rates: are all 0",
        ),
        ("burst = 2", "publishers[0].burst: needs an open loop"),
        (
            "stop_stagger = \"1s\"",
            "publishers[0].stop_stagger: needs stop",
        ),
        ("on_for = \"1s\"", "publishers[0].on_for: needs off_for"),
        ("off_for = \"1s\"", "publishers[0].off_for: needs on_for"),
        (
            "count = 5\nstagger = \"3s\"\nstop = \"5s\"\nstop_stagger = \"1s\"",
            "publishers[0].stop: the last publisher would stop at 9s, which is not after its start, 12s",
        ),
        (
            "arrival = \"constant\"\nrate_per_second = 10\nburst_rate_per_second = 20",
            "publishers[0].burst_rate_per_second: needs burst",
        ),
        (
            "arrival = \"constant\"\nrate_per_second = 10\nburst = 5\nburst_rate_per_second = 10",
            "publishers[0].burst_rate_per_second: 10 is not above the rate, 10",
        ),
        (
            "arrival = \"poisson\"\nrate_per_second = 0.0001\nburst = 5",
            "publishers[0].burst: needs rate_per_second to be 0.001",
        ),
        (
            "arrival = \"replay\"",
            "publishers[0].arrival: \"replay\" needs timestamps",
        ),
        (
            "timestamps = \"x.txt\"",
            "publishers[0].timestamps: goes with arrival = \"replay\" only",
        ),
        (
            "arrival = \"replay\"\ntimestamps = \"x.txt\"\nrate_per_second = 1",
            "publishers[0].rate_per_second: needs an open loop with a rate: arrival = \"constant\" or \
             \"poisson\"; \"replay\" has its moments",
        ),
        (
            "arrival = \"replay\"\ntimestamps = { file = \"x\", digest = \"0123456789ABCDEF\" }",
            "publishers[0].timestamps.digest: is no digest; allowed are 16 characters of 0 to 9 and a to f",
        ),
        (
            "arrival = \"replay\"\ntimestamps = { file = \"x\", shared = \"deal\" }",
            "publishers[0].timestamps.shared: unknown key; did you mean `share`?",
        ),
        (
            "payload = { median = \"1KiB\", p99 = \"512B\" }",
            "publishers[0].payload.p99: 512B is below median, 1KiB",
        ),
        (
            "payload = { median = \"1KiB\", p99 = \"5KiB\", max = \"4KiB\" }",
            "publishers[0].payload.p99: 5KiB is above max, 4KiB",
        ),
        (
            "payload = { median = \"1KiB\", p99 = \"5KiB\", min = \"2KiB\" }",
            "publishers[0].payload.min: 2KiB is above median, 1KiB",
        ),
        (
            "payload = { median = \"1KiB\" }",
            "publishers[0].payload.p99: is missing",
        ),
        (
            "payload = { median = \"1KiB\", p90 = \"5KiB\" }",
            "publishers[0].payload.p90: unknown key; did you mean `p99`?",
        ),
        ("payload = []", "publishers[0].payload: has 0 items"),
        (
            "payload = [{ size = \"128B\", weight = 0 }]",
            "publishers[0].payload[0].weight: 0 is out of range; allowed are 1 to 1000000",
        ),
        (
            "payload = [{ size = \"1KiB\" }, { size = \"1MiB\" }]\nmessage_ids = true",
            "publishers[0].payload[1].size: 1MiB and ",
        ),
        (
            "client = \"jetstream-extra\"\ngate = \"before-publish\"",
            "publishers[0].gate: goes with client",
        ),
        (
            "client = \"jetstream-extra\"\nprofile = \"adr-50\"",
            "publishers[0].profile: goes with client",
        ),
        (
            "profile = \"jetstream-extra\"\ngate = \"after-publish\"",
            "publishers[0].gate: goes with profile",
        ),
        (
            "client = \"publish\"\nflow = 100",
            "publishers[0].flow: is about fast ingest, and client = \"publish\" does none",
        ),
        (
            "client = \"atomic\"\ngap = \"ok\"",
            "publishers[0].gap: is about fast ingest, and client = \"atomic\" does none",
        ),
        (
            "client = \"jetstream-sync\"\nin_flight = 2",
            "publishers[0].in_flight: goes with client = \"jetstream-async\" only",
        ),
        (
            "client = \"jetstream-async\"\ncommit = \"eob\"",
            "publishers[0].commit: says how a batch ends, and client = \"jetstream-async\" sends none",
        ),
        (
            "client = \"publish\"\nack_timeout = \"1s\"",
            "publishers[0].ack_timeout: client = \"publish\" waits for no ack",
        ),
        (
            "client = \"atomic\"",
            "publishers[0].client: \"atomic\" needs stream.allow_atomic = true",
        ),
        (
            "client = \"atomic\"\nmessages = 1001\n[stream]\nallow_atomic = true",
            "publishers[0].messages: 1001 is out of range for client = \"atomic\"; allowed are 1 to 1000",
        ),
        (
            "client = \"atomic\"\nmessages = 3\n[stream]\nallow_atomic = true\n[server]\natomic_batch_messages = 2",
            "publishers[0].messages: 3 is out of range for client = \"atomic\"; allowed are 1 to 2",
        ),
        (
            "client = \"jetstream-extra-atomic\"\ncommit = \"message\"\nmessages = 1001\n[stream]\n\
             allow_atomic = true\n[server]\natomic_batch_messages = 5000",
            "publishers[0].messages: 1001 is out of range for client = \"jetstream-extra-atomic\"; allowed \
             are 1 to 1000, the most that the crate puts into one batch",
        ),
        (
            "client = \"jetstream-extra-atomic\"\nmessages = 10\n[stream]\nallow_atomic = true",
            "publishers[0].commit: \"eob\" is nothing that client = \"jetstream-extra-atomic\" can send; \
             allowed are \"message\" and \"none\"",
        ),
        (
            "client = \"jetstream-extra-atomic\"\ncommit = \"message\"\nmessages = 10\nmessage_ids = true\n\
             [stream]\nallow_atomic = true",
            "publishers[0].message_ids: client = \"jetstream-extra-atomic\" takes no message with an id",
        ),
        (
            "outside_stream = true",
            "publishers[0].subject: \"tidegate.{publisher}\" may go into the stream",
        ),
        (
            "client = \"jetstream-extra\"\ngate = \"after-publish\"",
            "publishers[0].gate: goes with client",
        ),
        (
            "subject = \"orders.1\"",
            "publishers[0].subject: \"orders.1\" does not go into the stream; stream.subjects takes tidegate.>",
        ),
        (
            "subject = \"tidegate.>\"",
            "publishers[0].subject: \"tidegate.>\" is no subject to publish to",
        ),
        (
            "subject = \"tidegate..a\"",
            "publishers[0].subject: \"tidegate..a\" is no subject",
        ),
        (
            "batches = 0",
            "publishers[0].batches: 0 means \"until stop\"",
        ),
        (
            "stop = \"1s\"\nstart = \"1s\"",
            "publishers[0].stop: 1s is not after the start of the first publisher, 1s; allowed are later times, up to 24h",
        ),
        (
            "start = \"10m\"",
            "publishers[0].start: the last publisher would start at 10m",
        ),
        (
            "stagger = \"1s\"\ncount = 1000",
            "publishers[0].stagger: the last publisher",
        ),
        (
            "payload = { min = \"2KiB\", max = \"1KiB\" }",
            "publishers[0].payload.min: 2KiB is above max, 1KiB",
        ),
        (
            "pauses = [{ after = 5, for = \"1s\" }, { after = 5, for = \"1s\" }]",
            "publishers[0].pauses[1].after: 5 is not above 5",
        ),
        (
            "messages = 5\npauses = [{ after = 6, for = \"1s\" }]",
            "publishers[0].pauses[0].after: 6 is out of range; allowed are 1 to 5",
        ),
        (
            "headers = [{ from = 2, to = 1, name = \"A\", value = \"\" }]",
            "publishers[0].headers[0].from: 2 is above to, 1",
        ),
        (
            "messages = 5\nheaders = [{ from = 2, to = 6, name = \"A\", value = \"\" }]",
            "publishers[0].headers[0].to: 6 is out of range",
        ),
        (
            "headers = [{ from = 1, to = 1, name = \"A:\", value = \"\" }]",
            "publishers[0].headers[0].name: is no header name",
        ),
        (
            "headers = [{ from = 1, to = 1, name = \"A\", value = \"a\\r\\nB: c\" }]",
            "publishers[0].headers[0].value: has several lines",
        ),
        (
            "payload = \"1MiB\"\nheaders = [{ from = 1, to = 1, name = \"A\", value = \"b\" }]",
            "publishers[0].payload: 1MiB and 18 bytes of headers are more than the 1MiB",
        ),
        (
            "message_ids = true\nheaders = [{ from = 1, to = 1, name = \"Nats-Msg-Id\", value = \"\" }]",
            "publishers[0].headers[0].name: sets the message id",
        ),
        (
            "count = 60000\n[[publishers]]\ncount = 60000",
            "publishers: count 120000 in all; allowed are 100000",
        ),
        (
            "[stream]\nname = \"A.B\"",
            "stream.name: \"A.B\" contains '.'",
        ),
        (
            "[stream]\nsubjects = [\"tidegate.>\", \"tidegate.>\"]",
            "stream.subjects[1]: \"tidegate.>\" is listed twice",
        ),
        (
            "[stream]\nsubjects = [\">\"]",
            "stream.subjects[0]: \">\" takes everything",
        ),
        (
            "[stream]\nsubjects = [\"$JS.API.>\", \"tidegate.>\"]",
            "stream.subjects[0]: \"$JS.API.>\" takes what belongs to JetStream itself ($JS.>, $JSC.>, $NRG.>), which servers allow with no_ack = true only",
        ),
        (
            "[stream]\nsubjects = [\"tidegate.>\", \"$SYS.x\"]",
            "stream.subjects[1]: \"$SYS.x\" takes what belongs to the system ($SYS.>), which",
        ),
        (
            "[stream]\nsubjects = [\"_INBOX.>\"]",
            "stream.subjects[0]: \"_INBOX.>\" takes the replies to publishers",
        ),
        (
            "subject = \"$JS\"\nsubjects = 2\n[stream]\nsubjects = [\">\"]\nno_ack = true",
            "publishers[0].subject: \"$JS\" is no subject to publish to: it belongs to JetStream itself",
        ),
        (
            "subject = \"$JS.API.{publisher}\"\noutside_stream = true",
            "publishers[0].subject: \"$JS.API.{publisher}\" is no subject to publish to: it belongs to",
        ),
        (
            "subject = \"_INBOX.a\"\noutside_stream = true",
            "publishers[0].subject: \"_INBOX.a\" is no subject to publish to: it belongs to replies",
        ),
        (
            "[stream]\ndiscard_new_per_subject = true",
            "stream.discard_new_per_subject: needs discard",
        ),
        (
            "[stream]\ndiscard = \"new\"\ndiscard_new_per_subject = true",
            "stream.discard_new_per_subject: needs max_messages_per_subject",
        ),
        (
            &format!("{cut}until = \"1s\""),
            "faults[0].until: 1s is not after from, 1s; allowed are later times, up to 24h",
        ),
        ("[[faults]]\naction = \"cut\"", "faults[0].from: is missing"),
        (
            &format!("{cut}frame = \"ping\""),
            "faults[0].frame: does not go with action \"cut\", which takes publisher, from, until",
        ),
        (&format!("{cut}nth = 1"), "faults[0].nth: does not go with"),
        (
            &format!("{cut}count = 2"),
            "faults[0].count: does not go with",
        ),
        (
            &format!("{cut}place = \"route\""),
            "faults[0].place: does not go with",
        ),
        (
            &format!("{cut}publisher = 1"),
            "faults[0].publisher: 1 is out of range; allowed are 0 to 0",
        ),
        (
            &format!("{drop}delay = \"1s\""),
            "faults[0].delay: does not go with action \"drop\"",
        ),
        (
            &format!("{drop}from = \"1s\""),
            "faults[0].from: does not go with action \"drop\"",
        ),
        (
            "[[faults]]\naction = \"drop\"",
            "faults[0].frame: is missing",
        ),
        (
            "[[faults]]\naction = \"delay\"\nframe = \"ping\"",
            "faults[0].delay: is missing",
        ),
        (
            "[[faults]]\naction = \"delay\"\nframe = \"ping\"\ndelay = \"0s\"",
            "faults[0].delay: 0 delays nothing",
        ),
        (
            "client = \"jetstream-extra\"\n[server]\ndefects = [\"publisher-ignores-gate\"]",
            "server.defects[0]: is a bug of the core client",
        ),
        (
            "[[faults]]\naction = \"step-down\"",
            "faults[0].from: is missing; action \"step-down\" needs its time",
        ),
        (
            "[[faults]]\naction = \"step-down\"\nfrom = \"1s\"\nuntil = \"2s\"",
            "faults[0].until: does not go with action \"step-down\"",
        ),
        (
            &format!("{kill}role = \"leader\"\nserver = 0"),
            "faults[0].server: does not go with role",
        ),
        (
            &format!("{kill}server = 1"),
            "faults[0].server: 1 is out of range; allowed are 0 to 0, a server for each replica",
        ),
        (
            &format!("{kill}role = \"follower\""),
            "faults[0].role: \"follower\" needs a stream with replicas",
        ),
        (
            &format!("{kill}peer = 0"),
            "faults[0].peer: does not go with action \"kill\"",
        ),
        (
            "[[faults]]\naction = \"freeze\"\nfrom = \"1s\"",
            "faults[0].until: is missing; action \"freeze\" needs its end",
        ),
        (
            "[[faults]]\naction = \"rolling-restart\"\nfrom = \"1s\"",
            "faults[0].down_for: is missing; say how long each server is down",
        ),
        (
            "[[faults]]\naction = \"restart\"\nfrom = \"1s\"",
            "faults[0].until: is missing; action \"restart\" needs its end",
        ),
        (
            "[[faults]]\naction = \"cut-routes\"\nfrom = \"1s\"",
            "faults[0].action: \"cut-routes\" needs a stream with replicas",
        ),
        (
            "[[faults]]\naction = \"slow-disk\"\nfrom = \"1s\"",
            "faults[0].delay: is missing; say how slow it is",
        ),
        (
            "[[faults]]\naction = \"limit\"\nfrom = \"1s\"",
            "faults[0].bandwidth: is missing; say how much it carries",
        ),
        (
            "[[faults]]\naction = \"limit\"\nfrom = \"1s\"\nbandwidth = \"999bit/s\"",
            "faults[0].bandwidth: 999bit/s is out of range; allowed are 1kbit/s to 1000Gbit/s",
        ),
        (
            "[[faults]]\naction = \"limit\"\nfrom = \"1s\"\nbandwidth = \"1MB/s\"",
            "faults[0].bandwidth: \"1MB/s\" is not a bit rate in quotes, such as \"10Gbit/s\"",
        ),
        (
            "[[faults]]\naction = \"limit\"\nfrom = \"1s\"\nbandwidth = 5",
            "faults[0].bandwidth: ",
        ),
        (
            "[[faults]]\naction = \"limit\"\nbandwidth = \"1Mbit/s\"",
            "faults[0].from: is missing",
        ),
        (
            "[[faults]]\naction = \"limit\"\nfrom = \"1s\"\nbandwidth = \"1Mbit/s\"\ndelay = \"1s\"",
            "faults[0].delay: does not go with action \"limit\", which takes publisher, from, until, bandwidth",
        ),
        (
            "[[faults]]\naction = \"slow\"\nfrom = \"1s\"\nbandwidth = \"1Mbit/s\"\ndelay = \"1s\"",
            "faults[0].bandwidth: does not go with action \"slow\"",
        ),
        (
            "[[faults]]\naction = \"limit-routes\"\nfrom = \"1s\"\nbandwidth = \"1Mbit/s\"",
            "faults[0].action: \"limit-routes\" needs a stream with replicas",
        ),
        (
            "[stream]\nreplicas = 3\n[[faults]]\naction = \"limit-routes\"\nfrom = \"1s\"",
            "faults[0].bandwidth: is missing; say how much it carries",
        ),
        (
            "[stream]\nstorage = \"memory\"\n[[faults]]\naction = \"slow-disk\"\nfrom = \"1s\"\ndelay = \"1ms\"",
            "faults[0].action: \"slow-disk\" needs a disk",
        ),
        (
            "[stream]\nreplicas = 3\n[[faults]]\naction = \"cut-routes\"\nserver = 1\npeer = 1\nfrom = \"1s\"",
            "faults[0].peer: is the server itself",
        ),
        (
            "[raft]\nelection_timeout_max = \"1s\"",
            "raft.election_timeout_max: 1s is below election_timeout_min, 4s",
        ),
        (
            "[raft]\ncampaign_timeout_min = \"1s\"",
            "raft.campaign_timeout_max: 800ms is below campaign_timeout_min, 1s",
        ),
        (
            "[expect]\npings_min = 2\npings_max = 1",
            "expect.pings_min: 2 is above pings_max, 1",
        ),
        (
            "[expect]\ngaps_min = 2\ngaps_max = 1",
            "expect.gaps_min: 2 is above gaps_max, 1",
        ),
        (
            "[expect]\nerrors = [10208, 10209, 1]",
            "expect.errors[2]: 1 is no error that a publisher can see",
        ),
        (
            "[expect]\njudges = [\"every-publisher-ends\"]",
            "expect.judges: names judges that must object",
        ),
        (
            "[expect]\nverdict = \"violation\"\njudges = [\"order\"]",
            "expect.judges[0]: \"order\" is no judge; allowed are acks-cover-what-they-claim, ",
        ),
        ("[expect]\nstalls = 1", "expect.stalls: expects stalls"),
    ];
    for (more, expected) in table {
        let error = error_with(more);
        let place = error.split_once(": ").unwrap();
        assert!(place.0.starts_with("f.toml:"), "{error}");
        assert!(
            place.1.starts_with(expected),
            "{more}\n  gives {error}\n  not   {expected}"
        );
    }
    for (warm_up, expected) in [
        ("10m", "f.toml:1: warm_up: 10m leaves nothing"),
        ("none", "f.toml:1: warm_up: \"none\" is not a span of time"),
        (
            "25h",
            "f.toml:1: warm_up: 25h is out of range; allowed are 0s to 24h or \"auto\"",
        ),
    ] {
        let error = error(&format!("warm_up = \"{warm_up}\"\n{SMALL}"));
        assert!(error.starts_with(expected), "{error}");
    }
    let cut = "[[faults]]\naction = \"cut\"\nfrom = \"1s\"\nuntil = \"2s\"\n";
    let error = error(&format!("warm_up = \"auto\"\n{SMALL}{cut}"));
    assert!(
        error.starts_with("f.toml:1: warm_up: \"auto\" finds"),
        "{error}"
    );
    let auto = Scenario::parse("f.toml", &format!("warm_up = \"auto\"\n{SMALL}")).unwrap();
    assert_eq!(auto.settings.warm_up.known(), None);
}

/// Walks the schema and calls `visit` with the path and schema of each key, through `[0]` of lists.
fn each_key(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value, &Value)) {
    let root = settings_schema();
    let resolve = |schema: &Value| match schema["$ref"].as_str() {
        Some(reference) => root["$defs"][&reference[8..]].clone(),
        None => schema.clone(),
    };
    let table = resolve(schema);
    for (name, outer) in table["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let inner = resolve(outer);
        visit(&path, outer, &inner);
        for choice in inner["anyOf"].as_array().into_iter().flatten() {
            each_key(choice, &path, visit);
        }
        match inner["type"].as_str() {
            Some("object") => each_key(&inner, &path, visit),
            Some("array") => each_key(&inner["items"], &format!("{path}.0"), visit),
            _ => {}
        }
    }
}

/// A file in which every list has an item, so that every key has a place.
fn roomy() -> Scenario {
    Scenario::parse("full.toml", include_str!("tests/full.toml")).unwrap()
}

#[test]
fn every_number_of_the_schema_is_held_to_its_range() {
    let mut seen = 0;
    each_key(settings_schema(), "", &mut |path, _, schema| {
        if !matches!(schema["type"].as_str(), Some("integer" | "number"))
            || path == "format"
            || schema.get("enum").is_some()
        {
            return;
        }
        seen += 1;
        let below = schema["exclusiveMinimum"]
            .as_i64()
            .unwrap_or_else(|| schema["minimum"].as_i64().unwrap() - 1);
        let most = match schema["maximum"].as_i64() {
            Some(most) => i128::from(most),
            None => panic!("{path} has no maximum"),
        };
        for outside in [i128::from(below), most + 1] {
            let error = roomy()
                .apply_set(&[format!("{path}={outside}")])
                .unwrap_err();
            // A number beyond 64 bits is no TOML number, and so it is text.
            let wanted = if most == i128::from(i64::MAX) && outside > 0 {
                "is not a whole"
            } else {
                "is out of range"
            };
            assert!(error.message.contains(wanted), "{path}={outside}: {error}");
            assert_eq!(error.key.unwrap().replace('[', ".").replace(']', ""), path);
        }
    });
    assert!(seen > 25, "{seen}");
}

#[test]
fn every_quantity_of_the_schema_is_held_to_its_range() {
    let mut seen = 0;
    each_key(settings_schema(), "", &mut |path, outer, inner| {
        let name = outer["$ref"].as_str().unwrap_or_default();
        let beyond = match name {
            "#/$defs/Span" | "#/$defs/WarmUp" => "25h",
            "#/$defs/Bytes" | "#/$defs/PayloadSize" => "1073741825GiB",
            "#/$defs/BitRate" => "1bit/s",
            _ => {
                assert!(inner.get("pattern").is_none(), "{path}");
                return;
            }
        };
        seen += 1;
        let error = roomy()
            .apply_set(&[format!("{path}={beyond}")])
            .unwrap_err();
        assert!(error.message.contains("is out of range"), "{path}: {error}");
        for end in ["x-minimum", "x-maximum"] {
            assert!(outer[end].is_string(), "{path} has no {end}");
        }
    });
    assert!(seen > 20, "{seen}");
}

#[test]
fn a_set_changes_what_it_names() {
    let mut scenario = roomy();
    scenario
        .apply_set(&[
            "publishers.1.flow=50",
            "publishers[1].gap=ok",
            "publishers.1.payload={ min = \"1B\", max = \"2B\" }",
            "publishers.1.rate_per_second=10",
            "publishers.1.arrival=constant",
            "stream.max_messages = 7",
            "about=two words",
            "expect.errors=[503]",
            "seed=9",
        ])
        .unwrap();
    let settings = &scenario.settings;
    assert_eq!(
        (settings.publishers[1].flow, settings.publishers[1].gap),
        (50, GapWord::Ok)
    );
    assert_eq!(settings.publishers[1].rate_per_second, Some(10.0));
    assert_eq!(settings.stream.max_messages, Some(7));
    assert_eq!(settings.about, "two words");
    assert_eq!(settings.expect.errors, [503]);
    assert_eq!(settings.seed, 9);
    assert_eq!(settings.publishers[0], roomy().settings.publishers[0]);
}

#[test]
fn a_set_makes_an_absent_section() {
    let mut scenario = Scenario::parse("f.toml", SMALL).unwrap();
    scenario.apply_set(&["network.latency=5ms"]).unwrap();
    let network = scenario.settings.network.unwrap();
    assert_eq!(network.latency, Span(Time::from_millis(5)));
    assert_eq!(network.window, NetworkSettings::default().window);
}

#[test]
fn a_wrong_set_is_one_clear_error_and_changes_nothing() {
    let table: &[(&str, &str)] = &[
        (
            "publishers.0.fow=1",
            "--set publishers.0.fow=1: publishers[0].fow: unknown key; did you mean `flow`?",
        ),
        (
            "publishers.7.flow=1",
            "--set publishers.7.flow=1: publishers[7].flow: no such key: `publishers` has one item; allowed is [0]",
        ),
        (
            "publishers.flow=1",
            "--set publishers.flow=1: publishers.flow: no such key: `publishers` is a list; its items are counted from 0, as in `publishers.0.flow`",
        ),
        (
            "faults.0.nth=1",
            "--set faults.0.nth=1: faults[0].nth: no such key: `faults` is empty",
        ),
        (
            "seed.0=1",
            "--set seed.0=1: seed[0]: no such key: `seed` is not a list",
        ),
        (
            "publishers.0.rates=[{ at = \"0s\", per_second = inf }]",
            "--set publishers.0.rates=[{ at = \\\"0s\\\", per_second = inf }]: publishers[0].rates: infinity and nan are not allowed",
        ),
        (
            "flow",
            "--set flow: is not key=value; write for example publishers.0.flow=50",
        ),
        ("=1", "--set =1: is not key=value"),
        (
            "publishers.0.flow=0",
            "f.toml with --set publishers.0.flow=0: publishers[0].flow: 0 is out of range; allowed are 1 to 65535",
        ),
        (
            "publishers.0.flow=",
            "f.toml with --set publishers.0.flow=: publishers[0].flow: \"\" is not a whole number",
        ),
        (
            "publishers.0.rate_per_second=nan",
            "f.toml with --set publishers.0.rate_per_second=nan: publishers[0].rate_per_second: \"nan\" is not a number; allowed are numbers above 0 up to 10000000",
        ),
        (
            "publishers.0.rate_per_second=5",
            "f.toml with --set publishers.0.rate_per_second=5: publishers[0].rate_per_second: needs an open loop",
        ),
        ("format=2", "f.toml with --set format=2: format: 2 is newer"),
    ];
    for (change, expected) in table {
        let before = Scenario::parse("f.toml", SMALL).unwrap();
        let mut scenario = before.clone();
        let error = scenario.apply_set(&[change]).unwrap_err().to_string();
        assert!(
            error.starts_with(expected),
            "{change}\n  gives {error}\n  not   {expected}"
        );
        assert_eq!(scenario, before);
    }
}

#[test]
fn files_that_cannot_be_read_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let error = |name: &str| Scenario::read(&path(name)).unwrap_err().to_string();
    assert!(error("missing.toml").contains("missing.toml: cannot be read: "));
    assert!(error("").contains("cannot be read: "));
    std::fs::write(path("bytes.toml"), b"about = 1\n\xff").unwrap();
    assert!(error("bytes.toml").ends_with("bytes.toml:2: is not UTF-8 text"));
    std::fs::write(path("large.toml"), vec![b'#'; 1 << 20]).unwrap();
    assert!(error("large.toml").contains("format: is missing"));
    std::fs::write(path("larger.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(error("larger.toml").ends_with("is larger than 1 MiB, the largest file allowed"));
    std::fs::write(path("good.toml"), SMALL).unwrap();
    assert!(Scenario::read(&path("good.toml")).is_ok());
}

#[test]
fn each_world_refuses_what_it_cannot_do() {
    let parse = |more: &str| Scenario::parse("f.toml", &format!("{SMALL}{more}")).unwrap();
    let replicas = parse("[stream]\nreplicas = 3");
    assert!(replicas.check_simulatable(Lane::Event).is_ok());
    let (one, three) = (LiveServers::Own(1), LiveServers::Own(3));
    for servers in [three, LiveServers::Given] {
        assert!(replicas.check_live(servers, true).is_ok());
    }
    let error = replicas.check_live(one, false).unwrap_err().to_string();
    assert!(
        error.starts_with("f.toml:5: stream.replicas: 3 replicas need as many servers, not 1; "),
        "{error}"
    );
    let five = parse("[stream]\nreplicas = 5");
    assert!(five.check_live(three, false).is_err());
    assert!(replicas.says("stream.replicas") && !replicas.says("stream.name"));
    assert!(parse("[stream]\nreplicas = 1").says("stream.replicas"));
    let extra = parse("client = \"jetstream-extra\"");
    let error = extra
        .check_simulatable(Lane::Event)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(
            "f.toml:4: publishers[0].client: jetstream-extra does not run in the event lane; "
        ),
        "{error}"
    );
    assert_eq!(extra.settings.lane(), Lane::Wire(Substrate::Event));
    assert!(extra.check_simulatable(extra.settings.lane()).is_ok());
    assert_eq!(parse("").settings.lane(), Lane::Event);
    let turmoil = Lane::Wire(Substrate::Turmoil);
    for (more, part) in [
        ("count = 201", "publishers: 201 publishers are too many"),
        (
            "[[faults]]\naction = \"cut\"\nfrom = \"0s\"",
            "faults[0].action: turmoil cannot reset",
        ),
        (
            "[[faults]]\naction = \"limit\"\nbandwidth = \"1Mbit/s\"\nfrom = \"0s\"",
            "faults[0].action: links of turmoil have no bandwidth; use --substrate event",
        ),
    ] {
        let error = parse(more).check_simulatable(turmoil).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        let event = Lane::Wire(Substrate::Event);
        assert!(parse(more).check_simulatable(event).is_ok());
    }
    assert!(extra.check_live(one, true).is_ok());
    assert_eq!(
        extra.settings.not_simulated(Lane::Event).unwrap().0,
        "publishers[0].client"
    );
    assert_eq!(parse("").settings.not_simulated(Lane::Event), None);
    for section in ["server", "disk", "network", "raft"] {
        let modelled = parse(&format!("[{section}]"));
        let notes = modelled.check_live(one, false).unwrap();
        assert!(
            notes.len() == 1 && notes[0].starts_with(&format!("[{section}] describes")),
            "{notes:?}"
        );
        let error = modelled.check_live(one, true).unwrap_err().to_string();
        assert!(
            error.starts_with("f.toml:4: ") && error.contains("for the simulator only"),
            "{error}"
        );
        assert!(modelled.check_simulatable(Lane::Event).is_ok());
    }
    let monitored = parse("[live]\nmonitor = [\"http://127.0.0.1:1\"]");
    let passed_over = "names ports of servers that are not ours, and is passed over";
    let notes = monitored.check_live(one, false).unwrap();
    assert!(
        notes.len() == 1 && notes[0].starts_with(&format!("live.monitor {passed_over}")),
        "{notes:?}"
    );
    let error = monitored.check_live(one, true).unwrap_err().to_string();
    let place = format!("f.toml:5: live.monitor: {passed_over}");
    assert!(error.starts_with(&place), "{error}");
    assert_eq!(
        monitored.check_live(LiveServers::Given, true),
        Ok(Vec::new())
    );
    for (section, place) in [
        (
            "[[faults]]\naction = \"slow-disk\"\ndelay = \"1s\"\nfrom = \"0s\"",
            "f.toml:5: faults[0].action: \"slow-disk\" is for the simulator only; ",
        ),
        (
            "[server]\ndefects = [\"store-twice\"]",
            "f.toml:5: server.defects: ",
        ),
    ] {
        let modelled = parse(section);
        for strict in [false, true] {
            let error = modelled.check_live(one, strict).unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
        assert!(modelled.check_simulatable(Lane::Event).is_ok());
    }
}

#[test]
fn faults_of_servers_links_and_routes_are_made_live_where_that_is_allowed() {
    let parse = |more: &str| {
        let text = format!("{SMALL}[stream]\nreplicas = 3\n{more}");
        Scenario::parse_for("f.toml", &text, RunsIn::Live).unwrap()
    };
    let own = LiveServers::Own(3);
    for fault in [
        "action = \"kill\"",
        "action = \"freeze\"\nuntil = \"2s\"",
        "action = \"restart\"\nuntil = \"2s\"",
        "action = \"rolling-restart\"\ndown_for = \"2s\"",
        "action = \"cut\"",
        "action = \"hold\"\nuntil = \"2s\"",
        "action = \"slow\"\ndelay = \"2s\"",
        "action = \"limit\"\nbandwidth = \"1Mbit/s\"",
        "action = \"cut-routes\"\nway = \"in\"",
        "action = \"hold-routes\"\nuntil = \"2s\"",
        "action = \"slow-routes\"\ndelay = \"2s\"",
        "action = \"limit-routes\"\nrole = \"follower\"\nbandwidth = \"1Mbit/s\"",
    ] {
        let file = parse(&format!("[[faults]]\nfrom = \"1s\"\n{fault}"));
        assert_eq!(file.check_live(own, true), Ok(Vec::new()));
        let error = file.check_live(LiveServers::Given, true).unwrap_err();
        assert!(
            error.message.contains("needs servers of our own"),
            "{error}"
        );
    }
    let fault = "[[faults]]\naction = \"step-down\"\nfrom = \"1s\"\n";
    assert!(parse(fault).check_live(own, true).is_ok());
    let error = parse(fault)
        .check_live(LiveServers::Given, true)
        .unwrap_err();
    assert_eq!(error.key.as_deref(), Some("faults[0].action"));
    assert!(
        error.message.contains("allow_leader_changes = true"),
        "{error}"
    );
    for (url, allowed) in [
        ("http://127.0.0.1:8222", true),
        ("http://[::1]:8222/nats", true),
        ("http://127.0.0.1", false),
        ("https://127.0.0.1:8222", false),
        ("http://me:secret@127.0.0.1:8222", false),
        ("http://127.0.0.1:8222/ x", false),
    ] {
        let text = format!("{SMALL}[live]\nmonitor = [\"{url}\"]\n");
        let read = Scenario::parse_for("f.toml", &text, RunsIn::Live);
        let key = read.err().and_then(|error| error.key);
        let wrong = (!allowed).then(|| "live.monitor[0]".to_owned());
        assert_eq!(key, wrong, "{url}");
    }
    let allowed = parse(&format!("{fault}[live]\nallow_leader_changes = true\n"));
    assert!(allowed.check_live(LiveServers::Given, true).is_ok());
}

#[test]
fn a_world_reads_what_is_for_it_alone() {
    let text = format!(
        "{SMALL}flow = 7\n[stream]\nname = \"X\"\nreplicas = 3\n[[faults]]\naction = \"step-down\"\n\
         from = \"1s\"\n[only.sim.network]\nlatency = \"3ms\"\n[only.live]\ntime_limit = \"9s\"\n\
         stream = {{ replicas = 1 }}\n[[only.live.faults]]\naction = \"kill\"\nfrom = \"2s\"\n"
    );
    let read = |world| Scenario::parse_for("f.toml", &text, world).unwrap();
    let (sim, live) = (read(RunsIn::Sim), read(RunsIn::Live));
    assert_eq!(sim, Scenario::parse("f.toml", &text).unwrap());
    assert_eq!(sim.settings.publishers, live.settings.publishers);
    assert!(sim.settings.network.is_some() && live.settings.network.is_none());
    assert_eq!(live.settings.time_limit.to_string(), "9s");
    assert_eq!(sim.settings.time_limit.to_string(), "10m");
    let stream = |file: &Scenario| {
        (
            file.settings.stream.name.clone(),
            file.settings.stream.replicas,
        )
    };
    assert_eq!(stream(&sim), ("X".to_owned(), 3));
    assert_eq!(stream(&live), ("X".to_owned(), 1));
    let actions = |file: &Scenario| {
        file.settings
            .faults
            .iter()
            .map(|it| it.action)
            .collect::<Vec<_>>()
    };
    assert_eq!(actions(&sim), [FaultAction::StepDown]);
    assert_eq!(actions(&live), [FaultAction::Kill]);
    assert!(live.says("time_limit") && !sim.says("time_limit"));
}

#[test]
fn what_is_wrong_for_one_world_is_named_there() {
    for (more, expected) in [
        (
            "[only.simm]",
            "f.toml:4: only.simm: unknown key; did you mean `sim`?",
        ),
        ("[only]\nlive = 1", "f.toml:5: only.live: 1 is not a table"),
        (
            "[only.live]\nabout = \"y\"",
            "f.toml:5: only.live.about: is the same in both worlds; say it at the top of the file",
        ),
        (
            "[only.live.stream]\nreplicas = 2",
            "f.toml:5: only.live.stream.replicas: 2 is not allowed",
        ),
        (
            "[only.live]\nflow = 1",
            "f.toml:5: only.live.flow: unknown key",
        ),
        (
            "[[only.live.faults]]\nfrom = \"1s\"",
            "f.toml:4: only.live.faults[0].action: is missing",
        ),
        (
            "[stream]\nname = \"a b\"\n[only.sim]\nseed = 3",
            "f.toml:5: stream.name: ",
        ),
    ] {
        for world in RunsIn::ALL {
            let text = format!("{SMALL}{more}");
            let error = Scenario::parse_for("f.toml", &text, world).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with(expected), "{more}: {error}");
        }
    }
    let text = format!("{SMALL}[[only.live.faults]]\naction = \"cut\"\nfrom = \"1s\"");
    let file = Scenario::parse_for("f.toml", &text, RunsIn::Live).unwrap();
    let error = file
        .check_live(LiveServers::Given, false)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("f.toml:5: only.live.faults[0].action: "),
        "{error}"
    );
}

#[test]
fn servers_of_our_own_take_what_is_a_setting_of_theirs() {
    let parse = |more: &str| Scenario::parse("f.toml", &format!("{SMALL}{more}")).unwrap();
    let limits = parse("[server]\nbatches_per_stream = 2\n[disk]\nsync = \"always\"");
    let own = limits.check_live(LiveServers::Own(1), true);
    assert_eq!(own, Ok(Vec::new()));
    let given = limits.check_live(LiveServers::Given, false).unwrap();
    assert_eq!(
        given[0],
        "[server] describes simulated surroundings (batches_per_stream); a live run leaves it out"
    );
    assert!(limits.check_live(LiveServers::Given, true).is_err());
    let costs = parse("[server]\nbatches_per_stream = 2\napi_cost = \"1ms\"");
    let own = costs.check_live(LiveServers::Own(1), false).unwrap();
    assert_eq!(
        own,
        ["[server] describes simulated surroundings (api_cost); a live run leaves it out"]
    );
}

#[test]
fn what_a_set_leads_to_names_the_set_and_no_line() {
    let mut changed = Scenario::parse("f.toml", SMALL).unwrap();
    changed
        .apply_set(&["publishers.0.flow=5", "stream.replicas=3"])
        .unwrap();
    let one = LiveServers::Own(1);
    let error = changed.check_live(one, false).unwrap_err().to_string();
    assert!(
        error.starts_with("f.toml with --set stream.replicas=3: stream.replicas: 3 replicas"),
        "{error}"
    );
    let mut changed = Scenario::parse("f.toml", SMALL).unwrap();
    changed.apply_set(&["publishers.0.count=10001"]).unwrap();
    assert!(changed.check_simulatable(Lane::Event).is_ok());
    let wire = Lane::Wire(Substrate::Event);
    let error = changed.check_simulatable(wire).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "f.toml with --set publishers.0.count=10001: publishers: 10001 publishers are too many \
             for the wire lane; allowed are 10000 in all"
        ),
        "{error}"
    );
    let mut changed = Scenario::parse("f.toml", &format!("{SMALL}[network]\n")).unwrap();
    changed
        .apply_set(&["server={ defects = [\"store-twice\"] }"])
        .unwrap();
    let one = LiveServers::Own(1);
    let error = changed.check_live(one, false).unwrap_err().to_string();
    assert!(error.contains(" with --set server="), "{error}");
    // What the file says itself has its line.
    let mut changed = Scenario::parse("f.toml", &format!("{SMALL}[network]\n")).unwrap();
    changed.apply_set(&["seed=3"]).unwrap();
    let error = changed.check_live(one, true).unwrap_err().to_string();
    assert!(error.starts_with("f.toml:4: network: "), "{error}");
}

#[test]
fn a_set_into_a_list_says_how_items_are_named() {
    let mut scenario = Scenario::parse("f.toml", SMALL).unwrap();
    for (change, example) in [
        ("publishers.flow=5", "publishers.0.flow"),
        ("publishers.-1.flow=5", "publishers.0.flow"),
        ("publishers.00.flow=5", "publishers.0.flow"),
        ("publishers[x]=5", "publishers.0"),
        ("publishers.0.headers.from=5", "publishers.0.headers.0.from"),
    ] {
        let error = scenario.apply_set(&[change]).unwrap_err().to_string();
        let end = format!("is a list; its items are counted from 0, as in `{example}`");
        assert!(error.contains(&end), "{change}: {error}");
        assert!(error.starts_with(&format!("--set {change}: ")), "{error}");
    }
}

#[test]
fn each_error_code_is_listed_once() {
    let error = Scenario::parse("f.toml", &format!("{SMALL}[expect]\nerrors = [1]\n"));
    let error = error.unwrap_err().to_string();
    let (_, list) = error.split_once("allowed are ").unwrap();
    let codes: Vec<u16> = list.split(", ").map(|code| code.parse().unwrap()).collect();
    assert!(
        codes.len() > 20 && codes.is_sorted_by(|a, b| a < b),
        "{list}"
    );
}

#[test]
fn the_hash_is_of_the_meaning_not_of_the_spelling() {
    let hash = |text: &str| config_hash(&Scenario::parse("f.toml", text).unwrap().settings);
    let small = hash(SMALL);
    assert_eq!(
        small,
        hash(&format!(
            "{SMALL}# a comment\nflow = 100\nack_timeout = \"5000ms\""
        ))
    );
    assert_ne!(small, hash(&format!("{SMALL}flow = 101")));
    assert_ne!(small, hash(&format!("{SMALL}[network]")));
    assert_eq!(
        small, 4_634_040_802_463_169_641,
        "a new default or key changes every configuration hash: say so in CHANGELOG.md"
    );
}

#[test]
fn a_simulated_run_shows_its_whole_model() {
    let small = Scenario::parse("f.toml", SMALL).unwrap().settings;
    let whole = small.with_modelled_defaults();
    assert_eq!(whole.server, Some(ServerSettings::default()));
    assert_eq!(whole.network, Some(NetworkSettings::default()));
    assert_eq!(whole.disk, Some(DiskSettings::default()));
    assert_eq!(whole.raft, Some(RaftSettings::default()));
    let written = roomy().settings;
    assert_eq!(written.with_modelled_defaults(), written);
    let json = serde_json::to_value(&whole).unwrap();
    assert_eq!(json["server"]["message_cost"], "3600ns");
}

#[test]
fn resolved_settings_read_back_as_themselves() {
    let settings = roomy().settings;
    let json = serde_json::to_value(&settings).unwrap();
    assert_eq!(
        json["publishers"][0]["payload"],
        json!({ "min": "64B", "max": "1KiB" })
    );
    assert_eq!(
        Scenario::from_settings("f", &settings).unwrap().settings,
        settings
    );
    let toml = toml::to_string(&settings).unwrap();
    assert_eq!(Scenario::parse("f", &toml).unwrap().settings, settings);
}

#[test]
fn a_change_writes_nothing_that_does_not_go_with_the_client() {
    let text = "about = \"x\"\nformat = 1\n[[publishers]]\nclient = \"jetstream-sync\"\n";
    for (change, part) in [
        ("publishers.0.flow=10", "is about fast ingest"),
        ("publishers.0.in_flight=10", "\"jetstream-async\" only"),
        ("publishers.0.commit=none", "says how a batch ends"),
    ] {
        let mut scenario = Scenario::parse("x.toml", text).unwrap();
        let error = scenario.apply_set(&[change]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut scenario = Scenario::parse("x.toml", text).unwrap();
    scenario.apply_set(&["publishers.0.messages=10"]).unwrap();
    scenario
        .apply_set(&["publishers.0.client=core", "publishers.0.flow=10"])
        .unwrap();
}
