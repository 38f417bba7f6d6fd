//! Faults made for real: servers of our own that step down, are killed, frozen and restarted during a
//! run.
//!
//! Takes the nats-server that `tidegate server fetch` finds, on 127.0.0.1; looks at processes in
//! `/proc`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidegate::live::{Surroundings, find_server};

/// Between two looks at something that is to happen, and the most of them.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 12_000;

/// A live run on three servers of its own, with temporary files in a folder of its own.
struct Live {
    folder: tempfile::TempDir,
    child: Child,
}

impl Live {
    /// One of four publishers in this gap mode, who stop at `stop`, with these faults.
    fn start(gap: &str, stop: &str, faults: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "format = 1\nabout = \"Faults.\"\ntime_limit = \"1m\"\n[stream]\nreplicas = 3\n\
             [[publishers]]\ncount = 4\ngap = \"{gap}\"\nmessages = 1_000_000\nbatches = 0\n\
             payload = \"64B\"\nstop = \"{stop}\"\narrival = \"constant\"\nrate_per_second = 200\n\
             ack_timeout = \"20s\"\n{faults}\n[expect]\nerrors = [503, 10208]\ngaps_max = 100\n"
        );
        std::fs::write(folder.path().join("live.toml"), text).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let server = find_server(None, &Surroundings::of_process(), &mut |_| {}).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["live", "live.toml", "--local", "3", "--out", "o"])
            .current_dir(&folder)
            .env("TMPDIR", folder.path().join("tmp"))
            .env("NATS_SERVER", server.path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { folder, child }
    }

    /// The server processes that there are now.
    fn servers(&self) -> Vec<Pid> {
        let mark = self.folder.path().display().to_string();
        let is_server = |pid: &Pid| {
            let line = arguments(*pid);
            line.contains(&mark) && line.contains("server.conf") && !line.contains("tidegate-guard")
        };
        processes().filter(is_server).collect()
    }

    /// Waits for its end: exit code, what it said, its result; and nothing of it is left.
    fn end(self) -> (Option<i32>, String, Value) {
        let mark = self.folder.path().display().to_string();
        let output = self.child.wait_with_output().unwrap();
        until("the end of all servers and guards", || {
            !processes().any(|pid| arguments(pid).contains(&mark))
        });
        let left = std::fs::read_dir(self.folder.path().join("tmp")).unwrap();
        assert_eq!(left.count(), 0);
        let result = std::fs::read(self.folder.path().join("o/result.json")).unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
            serde_json::from_slice(&result).unwrap(),
        )
    }
}

fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let happens = (0..LOOKS).any(|_| {
        std::thread::park_timeout(LOOK);
        happened()
    });
    assert!(happens, "{what} does not come");
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir(Path::new("/proc")).unwrap();
    entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        Pid::from_raw(name.to_str()?.parse().ok()?)
    })
}

/// The command line of a process; empty when it has ended.
fn arguments(pid: Pid) -> String {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    String::from_utf8_lossy(&line.unwrap_or_default()).replace('\0', " ")
}

/// Whether a process stands still.
fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let stat = stat.unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('T'))
}

fn leaders(result: &Value) -> Vec<Option<&str>> {
    let changes = result["leader_changes"].as_array().unwrap();
    changes
        .iter()
        .map(|change| change["leader"].as_str())
        .collect()
}

#[test]
fn a_leader_steps_down_and_the_result_tells_who_follows() {
    let fault = "[[faults]]\naction = \"step-down\"\nfrom = \"1s\"\n";
    let (code, told, result) = Live::start("ok", "3s", fault).end();
    assert_eq!(
        (code, &result["verdict"]),
        (Some(0), &"pass".into()),
        "{told}"
    );
    assert_eq!(result["faults"][0]["count"], 1);
    let old = result["faults"][0]["servers"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let leaders = leaders(&result);
    assert!(
        matches!(leaders[..], [None, Some(new)] if new != old),
        "{old}: {leaders:?}"
    );
}

#[test]
fn a_killed_leader_comes_back_and_what_was_acked_is_there() {
    let fault = "[[faults]]\naction = \"kill\"\nfrom = \"1s\"\nuntil = \"3s\"\n";
    let (code, told, result) = Live::start("fail", "5s", fault).end();
    assert_eq!(
        (code, &result["verdict"]),
        (Some(0), &"pass".into()),
        "{told}"
    );
    assert_eq!(result["violations"], serde_json::json!([]));
    let old = result["faults"][0]["servers"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let leaders = leaders(&result);
    assert_eq!(leaders.first(), Some(&None), "{leaders:?}");
    assert!(
        leaders.iter().flatten().any(|new| *new != old),
        "{leaders:?}"
    );
    // Nobody died by himself.
    assert!(!result["notes"].to_string().contains("killed by signal"));
    assert!(result["totals"]["stored"].as_u64() > Some(0));
}

#[test]
fn a_server_of_each_number_is_restarted_in_turn() {
    let fault =
        "[[faults]]\naction = \"rolling-restart\"\nfrom = \"500ms\"\ndown_for = \"100ms\"\n";
    let (code, told, result) = Live::start("ok", "12s", fault).end();
    assert_eq!(
        (code, &result["verdict"]),
        (Some(0), &"pass".into()),
        "{told}"
    );
    assert_eq!(
        result["faults"][0]["servers"],
        serde_json::json!(["server 0", "server 1", "server 2"])
    );
}

/// A Ctrl-C, and a hard end, while one server stands still and another has been started again.
#[test]
fn no_server_outlives_a_run_that_is_cut_short_amid_its_faults() {
    let faults = "[[faults]]\naction = \"kill\"\nserver = 0\nfrom = \"100ms\"\nuntil = \"200ms\"\n\
                  [[faults]]\naction = \"freeze\"\nserver = 1\nfrom = \"600ms\"\nuntil = \"50s\"\n";
    for signal in [Signal::INT, Signal::KILL] {
        let live = Live::start("ok", "55s", faults);
        until("three servers, one of which stands still", || {
            let servers = live.servers();
            servers.len() == 3 && servers.into_iter().any(is_stopped)
        });
        let pid = Pid::from_child(&live.child);
        kill_process(pid, signal).unwrap();
        if signal == Signal::INT {
            let (code, told, result) = live.end();
            assert_eq!(code, Some(130), "{told}");
            assert_eq!(result["partial"], true);
        } else {
            let mark = live.folder.path().display().to_string();
            live.child.wait_with_output().unwrap();
            until("the end of all servers and guards", || {
                !processes().any(|pid| arguments(pid).contains(&mark))
            });
        }
    }
}
