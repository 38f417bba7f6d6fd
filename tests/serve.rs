//! `tidegate serve` as clients meet it: the unmodified crates async-nats and jetstream-extra, recorded
//! exchanges, faults, and the command line.
//!
//! Leans on the binary. Listens on 127.0.0.1 only, on free ports.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/served.rs"]
mod served;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use futures_util::StreamExt as _;
use jetstream_extra::batch_publish_fast::{FastPublishErrorKind, FastPublishExt as _, GapMode};
use serde_json::Value;

use served::{Served, file};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(served: &Served) -> async_nats::Client {
    tokio::time::timeout(PATIENCE, async_nats::connect(&served.url))
        .await
        .unwrap()
        .unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("in time") })
}

#[test]
fn async_nats_finds_a_server_there() {
    let (served, _directory) = Served::with("");
    block_on(async {
        let client = connect(&served).await;
        assert_eq!(client.server_info().version, "2.15.1");
        // Core: wildcards, request and reply, nobody there.
        let mut all = client.subscribe("core.>").await.unwrap();
        let mut service = client.subscribe("service").await.unwrap();
        client.publish("core.a.b", "hello".into()).await.unwrap();
        let heard = all.next().await.unwrap();
        assert_eq!(
            (heard.subject.as_str(), &heard.payload[..]),
            ("core.a.b", &b"hello"[..])
        );
        let answering = async {
            let request = service.next().await.unwrap();
            let reply = request.reply.unwrap();
            client.publish(reply, "pong".into()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.request("service", "ping".into()), answering);
        assert_eq!(&answer.unwrap().payload[..], b"pong");
        let nobody = client.request("nobody", "".into()).await.unwrap_err();
        assert_eq!(nobody.kind(), async_nats::RequestErrorKind::NoResponders);

        // JetStream: the file's stream, and one of the client's own.
        let context = jetstream::new(client.clone());
        let stream = context.get_stream("S").await.unwrap();
        assert_eq!(stream.cached_info().config.subjects, ["t.>"]);
        let own = context
            .create_stream(Config {
                name: "OWN".to_owned(),
                subjects: vec!["own.*".to_owned()],
                storage: StorageType::Memory,
                discard: DiscardPolicy::New,
                allow_direct: true,
                ..Config::default()
            })
            .await
            .unwrap();
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", "one");
        headers.insert("Key", "value");
        for duplicate in [false, true] {
            let ack = context
                .publish_with_headers("own.a", headers.clone(), "content".into())
                .await
                .unwrap()
                .await
                .unwrap();
            assert_eq!((ack.sequence, ack.duplicate), (1, duplicate));
        }
        context
            .publish("own.b", "second".into())
            .await
            .unwrap()
            .await
            .unwrap();
        let raw = own.get_raw_message(1).await.unwrap();
        assert_eq!(
            (&raw.payload[..], raw.subject.as_str()),
            (&b"content"[..], "own.a")
        );
        assert_eq!(raw.headers.get("Key").unwrap().as_str(), "value");
        let direct = own.direct_get_last_for_subject("own.b").await.unwrap();
        assert_eq!((&direct.payload[..], direct.sequence), (&b"second"[..], 2));
        assert_eq!(own.get_info().await.unwrap().state.messages, 2);
        own.purge().await.unwrap();
        assert_eq!(own.get_info().await.unwrap().state.messages, 0);
        let mut names: Vec<String> = context.stream_names().map(Result::unwrap).collect().await;
        names.sort();
        assert_eq!(names, ["OWN", "S"]);
        context.delete_stream("OWN").await.unwrap();
        assert!(context.get_stream("OWN").await.is_err());
        let refused = stream
            .create_consumer(jetstream::consumer::pull::Config::default())
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("not modelled"), "{refused}");
    });
}

/// A batch of the unmodified crate: its numbers, and its messages read back.
#[test]
fn jetstream_extra_publishes_a_batch() {
    let (served, _directory) = Served::with("");
    block_on(async {
        let context = jetstream::new(connect(&served).await);
        let mut batch = context.fast_publish().flow(10).build().unwrap();
        for message in 1..=99 {
            batch.add("t.a", message.to_string().into()).await.unwrap();
        }
        let ack = batch.commit("t.b", "100".into()).await.unwrap();
        assert_eq!((ack.stream.as_str(), ack.sequence), ("S", 100));
        let stream = context.get_stream("S").await.unwrap();
        for sequence in [1, 50, 100] {
            let message = stream.get_raw_message(sequence).await.unwrap();
            assert_eq!(&message.payload[..], sequence.to_string().as_bytes());
        }
    });
}

/// The same program with and without a lost flow ack: what is lost is what the file says.
#[test]
fn a_fault_of_the_file_hits_the_frame_that_it_names() {
    let fault = "[[faults]]\naction = \"drop\"\nframe = \"pub-ack\"\npublisher = 1\n";
    for (more, lost) in [("", false), (fault, true)] {
        let (mut served, _directory) = Served::with(more);
        let results = block_on(async {
            let mut results = Vec::new();
            // One connection each: the first to publish to a batch is publisher 0.
            for _ in 0..2 {
                let context = jetstream::new(connect(&served).await);
                let mut batch = context
                    .fast_publish()
                    .flow(10)
                    .gap_mode(GapMode::Fail)
                    .ack_timeout(Duration::from_millis(500))
                    .build()
                    .unwrap();
                for _ in 0..5 {
                    batch.add("t.a", "x".into()).await.unwrap();
                }
                let committed = batch.commit("t.a", "x".into()).await;
                results.push(
                    committed
                        .map(|ack| ack.batch_size)
                        .map_err(|error| error.kind()),
                );
            }
            results
        });
        let second = if lost {
            Err(FastPublishErrorKind::Timeout)
        } else {
            Ok(6)
        };
        assert_eq!(results, [Ok(6), second], "{more}");
        let (code, text) = served.stop(rustix::process::Signal::INT);
        assert_eq!(code, Some(0));
        let faults = format!("{} fired, {} frames lost", u8::from(lost), u8::from(lost));
        assert!(
            text.contains(&faults) && text.contains("12 stored"),
            "{text}"
        );
    }
}

/// While it is cut off nobody gets in; afterwards the client is back by itself.
#[test]
fn a_cut_ends_connections_and_lets_nobody_in() {
    let cut = "[[faults]]\naction = \"cut\"\nfrom = \"2s\"\nuntil = \"4s\"\n";
    let (mut served, _directory) = Served::with(cut);
    block_on(async {
        let client = connect(&served).await;
        let before = client.request("nobody", "".into()).await;
        assert!(before.is_err());
        tokio::time::sleep(Duration::from_millis(2_300)).await;
        let during = tokio::time::timeout(
            Duration::from_millis(400),
            async_nats::ConnectOptions::new().connect(&served.url),
        );
        assert!(!matches!(during.await, Ok(Ok(_))), "nobody gets in");
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        let context = jetstream::new(connect(&served).await);
        context.get_stream("S").await.unwrap();
        // The client that was cut off connects again by itself.
        client.flush().await.unwrap();
    });
    let (_, text) = served.stop(rustix::process::Signal::TERM);
    assert!(text.contains("1 fired"), "{text}");
}

/// Held bytes arrive when the hold is over, and nothing is lost.
#[test]
fn a_hold_keeps_bytes_for_later() {
    let hold = "[[faults]]\naction = \"hold\"\nfrom = \"1500ms\"\nuntil = \"3s\"\n";
    let (served, _directory) = Served::with(hold);
    block_on(async {
        let client = connect(&served).await;
        let context = jetstream::new(client.clone());
        tokio::time::sleep(Duration::from_millis(1_900)).await;
        let publish = context
            .publish("t.a", "x".into())
            .await
            .unwrap()
            .into_future();
        let mut publish = std::pin::pin!(publish);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut publish).await;
        assert!(early.is_err(), "no answer while it is held");
        assert_eq!(publish.await.unwrap().sequence, 1);
    });
}

/// Bytes come no faster than a wire of that rate brings them, to the server and back.
#[test]
fn a_limit_makes_bytes_take_as_long_as_its_rate_has_them() {
    let limit = "[[faults]]\naction = \"limit\"\nbandwidth = \"400kbit/s\"\nfrom = \"0s\"\n";
    let (mut served, _directory) = Served::with(limit);
    block_on(async {
        let client = connect(&served).await;
        let mut echo = client.subscribe("core.echo").await.unwrap();
        client.flush().await.unwrap();
        let start = tokio::time::Instant::now();
        let payload = vec![7; 20_000];
        let sent = client.publish("core.echo", payload.clone().into());
        sent.await.unwrap();
        assert_eq!(echo.next().await.unwrap().payload, payload);
        // 160 kbit, twice.
        assert!(start.elapsed() >= Duration::from_millis(800));
    });
    let (_, text) = served.stop(rustix::process::Signal::TERM);
    assert!(text.contains("1 fired"), "{text}");
}

/// What waits before a limit is gone with a cut, and nobody waits until it has passed.
#[test]
fn a_cut_ends_a_connection_whose_output_waits_before_a_limit() {
    let faults = "[[faults]]\naction = \"limit\"\nbandwidth = \"1kbit/s\"\nfrom = \"1s\"\n\
                  [[faults]]\naction = \"cut\"\nfrom = \"3s\"\nuntil = \"4s\"\n";
    let (served, _directory) = Served::with(faults);
    let mut stream = TcpStream::connect(served.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"CONNECT {\"verbose\":false}\r\nSUB core.x 1\r\n")
        .unwrap();
    // More than both sockets hold; a machine that is slow gets less of it through before the limit.
    let message = [
        b"PUB core.x 1000000\r\n",
        &vec![b'x'; 1_000_000][..],
        b"\r\n",
    ]
    .concat();
    for _ in 0..24 {
        if stream.write_all(&message).is_err() {
            break;
        }
    }
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

/// Last words are on their way too, and what waits at the end of a limit goes on at once.
#[test]
fn a_client_that_is_sent_away_over_a_limited_link_is_told_why() {
    let limit =
        "[[faults]]\naction = \"limit\"\nbandwidth = \"4kbit/s\"\nfrom = \"1s\"\nuntil = \"3s\"\n";
    let (served, _directory) = Served::with(limit);
    let mut stream = TcpStream::connect(served.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut greeting = [0];
    stream.read_exact(&mut greeting).unwrap();
    std::thread::park_timeout(Duration::from_millis(1_200));
    stream.write_all(b"NONSENSE\r\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let said = String::from_utf8_lossy(&rest);
    assert!(said.contains("-ERR 'Unknown Protocol Operation'"), "{said}");
}

/// What `conform` says of the exchanges with nats-server 2.15.1.
fn conform(against: &str) -> Value {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/r1-2.15.1.json");
    let output = tidegate(&["conform", vectors, "--json", "--against", against]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// On servers of its own, those with limits included: all that the model answers at all.
#[test]
fn recorded_exchanges_come_out_over_the_socket() {
    let served = conform("serve");
    let model = conform("model");
    assert_eq!(served["failed"], serde_json::json!([]));
    assert_eq!(served["passed"], 183);
    assert_eq!(served["passed"], model["passed"]);
    assert_eq!(served["skipped"], serde_json::json!([]));
}

/// As the outside world does it: a server that was started as one starts it, and its address.
#[test]
fn recorded_exchanges_come_out_of_a_server_that_runs_already() {
    // Its stream is none of those that the cases make.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/nats/quickstart.toml");
    let served = Served::start(&[file]);
    let told = conform(&served.url);
    assert_eq!(told["failed"], serde_json::json!([]));
    assert_eq!(told["passed"], 174);
    // These want a server with other limits of batches, or another idle timeout.
    let with_limits = [
        "at-inflight-per-stream",
        "at-timeout",
        "at-timeout-then-restart",
        "at-too-large-on-commit",
        "fi-inflight-per-stream",
        "fi-inflight-total",
        "fi-timeout-then-append",
        "fi-timeout-then-append-gap-ok",
        "fi-timeout-then-ping",
    ];
    let skipped = told["skipped"].as_array().unwrap().iter();
    let mut names: Vec<&str> = skipped.map(|case| case["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, with_limits);
}

/// A server that runs already takes the cases that want no limits of their own.
#[test]
fn conform_knows_a_served_model_by_its_greeting() {
    let directory = tempfile::tempdir().unwrap();
    let text = "format = 1\nabout = \"x\"\n[[publishers]]\n";
    let path = directory.path().join("served.toml");
    std::fs::write(&path, text).unwrap();
    let served = Served::start(&[path.to_str().unwrap()]);
    let case = |name: &str, more: Value| {
        let mut case = serde_json::json!({
            "name": name,
            "stream_config": { "name": "S", "subjects": ["t.>"], "allow_batched": true },
            "steps": [
                { "publish": "t.a", "reply": "_INBOX.r" },
                { "expect": [{ "to": "r", "body": { "stream": "S", "seq": 1 } }] },
            ],
        });
        case.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        case
    };
    let limits = serde_json::json!({ "server_batch_limits": { "max_inflight_per_stream": 1 } });
    let file = serde_json::json!({
        "server_version": "2.15.1", "replicas": 1,
        "cases": [
            case("fi-plain", serde_json::json!({})),
            case("fi-replicas", serde_json::json!({ "replicas": 3 })),
            case("fi-limits", limits),
        ],
    });
    let vectors = directory.path().join("cases.json");
    std::fs::write(&vectors, file.to_string()).unwrap();
    let vectors = vectors.to_str().unwrap();
    let output = tidegate(&["conform", vectors, "--json", "--against", &served.url]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&summary["passed"], &summary["failed"]),
        (&1.into(), &serde_json::json!([]))
    );
    let why = summary["skipped"].to_string();
    assert!(
        why.contains("needs a cluster of 3") && why.contains("--against serve"),
        "{why}"
    );
}

#[test]
fn the_end_is_told_in_text_or_in_one_document() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "");
    let trace = directory.path().join("events.txt");
    let mut served = Served::start(&[&path, "--trace", trace.to_str().unwrap(), "--seed", "7"]);
    block_on(async {
        let context = jetstream::new(connect(&served).await);
        let mut batch = context.fast_publish().flow(2).build().unwrap();
        batch.add("t.a", "x".into()).await.unwrap();
        batch.close().await.unwrap();
    });
    let (code, text) = served.stop(rustix::process::Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("seed 7") && text.contains("1 stored"),
        "{text}"
    );
    let trace = std::fs::read_to_string(trace).unwrap();
    for word in [
        "BatchOpened",
        "Stored",
        "AckSent",
        "PubAckSent",
        "BatchForgotten",
    ] {
        assert!(trace.contains(word), "{word} in {trace}");
    }

    // With --json, where it listens is told on stderr.
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", &path, "--json", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on nats://127.0.0.1:"), "{line}");
    line.clear();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "stream S takes t.>\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["world"], &document["seen"]["stored"]),
        (&"served".into(), &0.into())
    );
    assert_eq!(document["streams"][0]["name"], "S");
}

/// Who asks a server to stop has what was expected: any of the three signals will do.
#[test]
fn every_signal_stops_it_in_order() {
    use rustix::process::Signal;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (mut served, _directory) = Served::with("");
        let (code, text) = served.stop(signal);
        assert_eq!(code, Some(0), "{signal:?}: {text}");
        assert!(text.starts_with("served "), "{signal:?}: {text}");
    }
}

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn bad_files_and_taken_ports_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let replicas = ["serve", &path, "--set", "stream.replicas=2"];
    let unknown = ["serve", &path, "--set", "server.nothing=3"];
    for (arguments, code, words) in [
        (
            &["serve", &path, "--listen", &address][..],
            3,
            &[address.as_str(), "in use"][..],
        ),
        (&["serve", "nothing.toml"], 2, &["nothing.toml"]),
        (&replicas, 2, &["stream.replicas", "1, 3, 5"]),
        (&unknown, 2, &["server.nothing"]),
        (&["serve", &path, "--speed", "0"], 2, &["0.001 to 1000"]),
        (&["serve", &path, "--listen", "nowhere"], 2, &["nowhere"]),
        (&["serve", &path, "--trace", &path], 2, &["--trace"]),
    ] {
        let output = tidegate(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word} in {stderr}");
        }
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("format = 1"), "the file is still there");
}
