//! The recorded exchanges of `tests/vectors/`, replayed against the server model and, where a
//! nats-server can be found, against the real one.
//!
//! Leans on `conform`, and on the binary for the command line. Each check is also shown to fail.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate::conform::vector::{Kind, StepKind, VectorFile};
use tidegate::conform::{
    Against, Interrupt, Model, Options, Outcome, Pace, Summary, local, parse, record_all, replay,
    run,
};
use tidegate::nats::version::ServerVersion;

/// Recorded on one server, which the model claims to be.
const SINGLE: [&str; 3] = ["r1-2.14.0.json", "r1-2.14.6.json", MODELLED];
/// The newest of them.
const MODELLED: &str = "r1-2.15.1.json";
const FILES: &[&str] = &[
    MODELLED,
    "r1-2.14.0.json",
    "r1-2.14.6.json",
    "r3-2.15.1.json",
    FOUND,
];
/// What random operations found: on one server, and on three.
const FOUND: &str = "found-2.15.1.json";

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(file)
}

fn read(file: &str) -> VectorFile {
    let text = std::fs::read_to_string(path(file)).unwrap();
    parse(file, &text).unwrap()
}

fn options(against: Against) -> Options {
    Options {
        against,
        server_version: None,
        may_fetch: false,
        notice: |_| {},
        recording: false,
        pace: Pace::Quiet,
        interrupt: Interrupt::default(),
    }
}

/// The newest model.
fn model() -> Model {
    Model::new(ServerVersion::default())
}

fn run_file(file: VectorFile, against: Against) -> Summary {
    let (summary, result) = run(&[file], &options(against), &mut |_, _| {});
    result.unwrap();
    summary
}

/// Every case of the modelled version is run.
#[test]
fn the_model_answers_as_recorded() {
    let file = read(MODELLED);
    let of_kind = |kind| file.cases.iter().filter(|case| case.kind() == kind).count();
    let kinds = [Kind::FastIngest, Kind::AtomicBatch, Kind::DirectGet].map(of_kind);
    assert_eq!(kinds, [130, 42, 11]);
    let summary = run_file(file, Against::Model);
    assert!(summary.is_conform(), "{summary}");
    assert_eq!((summary.passed, summary.skipped.len()), (183, 0));
}

/// As the newest, and not as each other: held to the recordings of another version, each fails.
#[test]
fn the_model_answers_as_each_version_did() {
    for name in SINGLE {
        let mut file = read(name);
        let summary = run_file(file.clone(), Against::Model);
        assert!(summary.is_conform(), "{name}: {summary}");
        assert_eq!((summary.passed, summary.skipped.len()), (183, 0), "{name}");
        for other in ServerVersion::ALL.map(ServerVersion::text) {
            if other != file.server_version {
                for case in &mut file.cases {
                    other.clone_into(&mut case.server_version);
                }
                let summary = run_file(file.clone(), Against::Model);
                assert!(!summary.is_conform(), "{name} on {other}");
            }
        }
    }
}

/// Three servers, and leaders that step down.
#[test]
fn the_model_answers_as_a_cluster_did() {
    let file = read("r3-2.15.1.json");
    let summary = run_file(file.clone(), Against::Model);
    assert!(summary.is_conform(), "{summary}");
    assert_eq!((summary.passed, summary.skipped.len()), (72, 0));
    // And not as one server does.
    let mut alone = file;
    for case in &mut alone.cases {
        case.replicas = 1;
    }
    assert!(!run_file(alone, Against::Model).failed.is_empty());
}

#[test]
fn the_model_answers_as_random_operations_found() {
    let file = read(FOUND);
    let cases = file.cases.len();
    let summary = run_file(file, Against::Model);
    assert!(summary.is_conform(), "{summary}");
    assert_eq!(summary.passed, cases);
}

#[test]
fn the_model_claims_nothing_about_unknown_versions() {
    let mut unknown = read(MODELLED);
    for case in &mut unknown.cases {
        "2.13.0".clone_into(&mut case.server_version);
    }
    let cases = unknown.cases.len();
    let summary = run_file(unknown, Against::Model);
    assert_eq!((summary.passed, summary.failed.len()), (0, 0));
    assert_eq!(summary.skipped.len(), cases);
    assert!(summary.skipped.iter().all(|case| !case.why.is_empty()));
}

/// One wrong expectation, in any step of any case, is found in that step.
#[test]
fn every_wrong_expectation_is_found() {
    let file = read(MODELLED);
    let mut tried = 0;
    for case in file.cases.iter().filter(|c| c.kind() != Kind::DirectGet) {
        for (index, step) in case.steps.iter().enumerate() {
            for wrong in wrong_steps(&step.kind) {
                let mut case = case.clone();
                case.steps[index].kind = wrong;
                let outcome = replay(&case, &mut model()).unwrap();
                let Outcome::Failed(difference) = outcome else {
                    panic!("{}: step {index} was not found wrong", case.name);
                };
                assert_eq!(difference.step, Some(index), "{}", case.name);
                tried += 1;
            }
        }
    }
    assert!(tried > 1_400, "only {tried} wrong expectations were tried");
}

/// The step with something taken away, added, or changed.
fn wrong_steps(kind: &StepKind) -> Vec<StepKind> {
    match kind {
        StepKind::Expect {
            replies,
            advisories,
        } => {
            let with = |replies: Vec<Value>, advisories: Vec<Value>| StepKind::Expect {
                replies,
                advisories,
            };
            let mut wrong = vec![
                with(replies.clone(), vec![json!({ "reason": "timeout" })]),
                with(
                    [replies.as_slice(), &[json!({ "to": "x", "empty": true })]].concat(),
                    advisories.clone(),
                ),
            ];
            if let Some((last, head)) = replies.split_last() {
                wrong.push(with(head.to_vec(), advisories.clone()));
                let mut changed = last.clone();
                changed["to"] = json!("somewhere.else");
                changed["connection"] = json!("open");
                wrong.push(with([head, &[changed]].concat(), advisories.clone()));
            }
            wrong
        }
        StepKind::Stored(stored) => {
            let mut more = stored.clone();
            more["messages"] = json!(1_000_000);
            let mut other = stored.clone();
            other["msgs"] = json!([{ "seq": 1, "subject": "t.z", "len": 1 }]);
            vec![StepKind::Stored(more), StepKind::Stored(other)]
        }
        StepKind::Publish(_)
        | StepKind::Wait(_)
        | StepKind::Update { .. }
        | StepKind::Api { .. }
        | StepKind::DirectGet { .. } => Vec::new(),
    }
}

#[test]
fn a_wrong_creation_is_found() {
    let file = read(MODELLED);
    let mut level = file.cases[0].clone();
    level.required_api_level = Some(json!("3"));
    let mut refused = file.cases[0].clone();
    refused.create_error = Some(json!({ "code": 400 }));
    for case in [level, refused] {
        let outcome = replay(&case, &mut model()).unwrap();
        let Outcome::Failed(difference) = outcome else {
            panic!("not found");
        };
        assert_eq!(difference.step, None);
    }
}

/// Says on the terminal, past the test harness, that a test had nothing to test.
fn tell_skipped(test: &str, why: &str) {
    let text = format!("SKIPPED {test}: {why}\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// The version of a real server; `None`, told aloud, if there is no server. None is fetched.
fn real_version(test: &str) -> Option<String> {
    match local::find(None, false, &mut |_| {}) {
        Ok(server) => Some(server.version),
        Err(why) if std::env::var_os("NATS_SERVER").is_some() => panic!("{why}"),
        Err(_) => {
            let hint = "name one in NATS_SERVER, or run `tidegate server fetch`";
            tell_skipped(test, &format!("no nats-server here; {hint}"));
            None
        }
    }
}

fn real_answers_as_recorded(test: &str, replicas: u64) {
    let Some(version) = real_version(test) else {
        return;
    };
    let cases = FILES.iter().flat_map(|name| read(name).cases);
    let file = VectorFile {
        file: version.clone(),
        server_version: version.clone(),
        replicas,
        cases: cases
            .filter(|case| case.server_version == version && case.replicas == replicas)
            .collect(),
    };
    if file.cases.is_empty() {
        tell_skipped(test, &format!("nothing recorded on {version}, R{replicas}"));
        return;
    }
    let cases = file.cases.len();
    let summary = run_file(file, Against::Local);
    assert!(summary.is_conform(), "{summary}");
    assert_eq!(summary.passed, cases, "nothing is skipped");
}

#[test]
fn a_real_server_answers_as_recorded() {
    real_answers_as_recorded("a_real_server_answers_as_recorded", 1);
}

#[test]
fn a_real_cluster_answers_as_recorded() {
    real_answers_as_recorded("a_real_cluster_answers_as_recorded", 3);
}

/// Recording gives back the very cases, and what was recorded replays without a difference.
#[test]
fn what_is_recorded_replays() {
    const CASES: &[&str] = &[
        "fi-cadence-flow10",
        "fi-pattern-no-prefix",
        "fi-disable-enable",
        "fi-mirror-config",
        "fi-inflight-per-stream",
        "fi-max-payload",
        "at-single-eob",
        "at-enable-on-persist-async",
        "dg-next-by-subj",
    ];
    let Some(version) = real_version("what_is_recorded_replays") else {
        return;
    };
    let mut file = read(MODELLED);
    file.cases
        .retain(|case| CASES.contains(&case.name.as_str()));
    assert_eq!(file.cases.len(), CASES.len());
    let mut options = options(Against::Local);
    options.recording = true;
    let (recorded, skipped) = record_all(&[file.clone()], &options, &mut |_| {}).unwrap();
    assert_eq!(skipped, []);
    let again = parse("recorded", &recorded.to_string()).unwrap();
    if version == file.server_version {
        assert_eq!(again.cases, file.cases);
    }
    let summary = run_file(again, Against::Local);
    assert!(summary.is_conform(), "{summary}");
    assert_eq!(summary.passed, CASES.len());
}

/// Runs the command line: exit code, stdout, stderr.
fn tidegate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// A file with one case, which starts a batch and expects these replies.
fn small_file(directory: &Path, step: &Value) -> String {
    let file = json!({
        "server_version": "2.15.1", "replicas": 1,
        "cases": [{
            "name": "fi-small",
            "stream_config": { "name": "S", "subjects": ["t.>"], "allow_batched": true },
            "steps": [{ "publish": "t.a", "reply": "_INBOX.A.10.ok.1.0.$FI" }, step],
        }],
    });
    let path = directory.join("small.json");
    std::fs::write(&path, file.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_command_line_tells_differences_by_exit_code_and_json() {
    let directory = tempfile::tempdir().unwrap();
    let ack = |flow: u64| {
        let body = json!({ "type": "ack", "seq": 0, "msgs": flow });
        json!({ "expect": [{ "to": "A.10.ok.1.0.$FI", "body": body }] })
    };
    let file = small_file(directory.path(), &ack(10));
    let (code, stdout, _) = tidegate(&["conform", &file, "--json"]);
    assert_eq!(code, Some(0));
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    let expected = json!({ "cases": 1, "passed": 1, "failed": [], "skipped": [] });
    assert_eq!(summary, expected);

    let file = small_file(directory.path(), &ack(11));
    let (code, stdout, stderr) = tidegate(&["conform", &file, "--json"]);
    assert_eq!(code, Some(1), "{stderr}");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    let failed = json!([{ "name": "fi-small", "step": 1, "expected": ack(11), "got": ack(10) }]);
    assert_eq!(summary["failed"], failed);
    let (code, stdout, _) = tidegate(&["conform", &file]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("FAILED  fi-small  step 1"), "{stdout}");
    assert!(
        stdout.ends_with("1 case: 0 passed, 1 failed, 0 skipped\n"),
        "{stdout}"
    );
}

#[test]
fn the_command_line_names_the_place_of_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = small_file(directory.path(), &json!({ "wait_ms": "long" }));
    let (code, stdout, stderr) = tidegate(&["conform", &file]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in [
        file.as_str(),
        "fi-small",
        "step 1",
        "wait_ms",
        "whole number",
    ] {
        assert!(stderr.contains(part), "`{part}` in {stderr}");
    }
    let (code, _, stderr) = tidegate(&["conform", "no-such-file.json"]);
    assert_eq!(code, Some(2), "{stderr}");
    let (code, _, stderr) = tidegate(&["conform", &file, "--against", "tls://x"]);
    assert_eq!(code, Some(2), "{stderr}");
}

#[test]
fn the_command_line_tells_of_a_server_that_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let file = small_file(directory.path(), &json!({ "expect": [] }));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let (code, _, stderr) = tidegate(&["conform", &file, "--against", &address]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
    let arguments = ["conform", &file, "--server-version", "1.0.0"];
    let (code, _, stderr) = tidegate(&arguments);
    assert_eq!(code, Some(3), "{stderr}");
}

/// The served model and the model are one, so nothing differs; and something must be named to differ.
#[test]
fn the_command_line_plays_random_operations() {
    let arguments = [
        "conform",
        "--random",
        "300",
        "--seed",
        "2",
        "--against",
        "serve",
    ];
    let (code, stdout, stderr) = tidegate(&[&arguments[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert!(told["operations"].as_u64().unwrap() >= 300);
    assert_eq!(told["summary"]["passed"], told["summary"]["cases"]);
    assert_eq!(told["recording"], Value::Null);
    let (code, stdout, _) = tidegate(&arguments);
    assert_eq!(code, Some(0));
    assert!(stdout.contains(" 0 failed, 0 skipped\n"), "{stdout}");

    let (code, _, stderr) = tidegate(&["conform", "--random", "10"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--against local, serve or URL"), "{stderr}");
    for wrong in [
        &["--random", "0"][..],
        &["--random", "10", "small.json"],
        &["--random", "10", "--replicas", "2"],
        &["--seed", "1", "small.json"],
    ] {
        let (code, ..) = tidegate(&[&["conform"], wrong].concat());
        assert_eq!(code, Some(2), "{wrong:?}");
    }
}
