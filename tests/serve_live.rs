//! `tidegate live` against `tidegate serve`: the two worlds of a file at each other, read-back included.
//!
//! Leans on the binary. What `live` finds in the stream comes by direct gets, or by single calls,
//! since the served model refuses consumers; a planted defect shows that it looks.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/served.rs"]
mod served;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use served::Served;

/// Both clients, payloads of several sizes, and some too short to name themselves.
const LOAD: &str = r#"
format = 1
about = "both clients"
[stream]
name = "S"
subjects = ["t.>"]

[[publishers]]
name = "core"
count = 2
subject = "t.core"
messages = 1500
batches = 2
flow = 50
payload = { min = "16", max = "2KiB" }

[[publishers]]
name = "extra"
client = "jetstream-extra"
subject = "t.extra"
messages = 1500
flow = 50
gap = "ok"
payload = "100"

[[publishers]]
name = "short"
subject = "t.short"
messages = 500
payload = "8"
"#;
const MESSAGES: u64 = 2 * 2 * 1_500 + 1_500 + 500;

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Exit code and result of a live run of `file` at `url`.
fn live(file: &str, url: &str) -> (Option<i32>, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["live", file, "--servers", url, "--json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), result, stderr)
}

#[test]
fn a_live_run_reads_back_what_it_stored_in_the_served_model() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "load.toml", LOAD);
    let served = Served::start(&[&file]);
    // The second run begins behind the messages of the first, which stay: the stream is not its own.
    for _ in 0..2 {
        let (code, result, stderr) = live(&file, &served.url);
        assert_eq!(
            (code, &result["verdict"]),
            (Some(0), &"pass".into()),
            "{stderr}"
        );
        let totals = &result["totals"];
        assert_eq!(totals["stored"], MESSAGES, "{totals}");
        assert_eq!(
            (&totals["lost"], &totals["duplicates"]),
            (&0.into(), &0.into())
        );
        assert_eq!(result["partial"], false);
        assert!(
            result["notes"].to_string().contains("read back"),
            "{}",
            result["notes"]
        );
    }
    // A stream of the run's own goes with it.
    let own = LOAD.replace("\"S\"", "\"OWN\"").replace("t.", "own.");
    let own = write(directory.path(), "own.toml", &own);
    let (code, result, stderr) = live(&own, &served.url);
    assert_eq!(
        (code, &result["totals"]["stored"]),
        (Some(0), &MESSAGES.into()),
        "{stderr}"
    );
    let (_, again, stderr) = live(&own, &served.url);
    assert!(!stderr.contains("is there already"), "{stderr}");
    assert_eq!(again["totals"]["stored"], MESSAGES);
}

/// A stream that somebody has made without direct gets is read by one call for each message.
#[test]
fn a_stream_without_direct_gets_is_read_call_by_call() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "load.toml", LOAD);
    let other = LOAD.replace("\"S\"", "\"OTHER\"").replace("t.", "other.");
    let other = write(directory.path(), "other.toml", &other);
    let served = Served::start(&[&other]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(&served.url).await.unwrap();
        let config = json!({
            "name": "S", "subjects": ["t.>"], "allow_batched": true,
            "duplicate_window": 120_000_000_000_u64, "allow_direct": false,
        });
        let create = client.request("$JS.API.STREAM.CREATE.S", config.to_string().into());
        let made: Value = serde_json::from_slice(&create.await.unwrap().payload).unwrap();
        assert_eq!(made["config"]["allow_direct"], false, "{made}");
    });
    let (code, result, stderr) = live(&file, &served.url);
    assert_eq!(
        (code, &result["totals"]["stored"]),
        (Some(0), &MESSAGES.into()),
        "{stderr}"
    );
}

/// The same checks as on a real server: a server that stores twice, or acks what it does not store,
/// is found out by what is read back.
#[test]
fn a_defect_of_the_served_model_is_found_by_reading_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "load.toml", LOAD);
    let broken = format!("{LOAD}\n[server]\ndefects = [\"store-twice\"]\n");
    let broken = write(directory.path(), "broken.toml", &broken);
    let served = Served::start(&[&broken]);
    let (code, result, stderr) = live(&file, &served.url);
    assert_eq!(
        (code, &result["verdict"]),
        (Some(1), &"violation".into()),
        "{stderr}"
    );
    assert!(
        result["totals"]["stored_again"].as_u64().unwrap() > 0,
        "{}",
        result["totals"]
    );
}
