//! Servers that `tidegate live` starts itself: what it says and leaves when one dies, or its guard.
//!
//! Takes the nats-server that `tidegate server fetch` finds, on 127.0.0.1; looks at processes in
//! `/proc`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidegate::live::{Surroundings, find_server};

/// Between two looks at something that is to happen, and the most of them.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 24_000;

/// A live run on its way, with temporary files in a folder of its own.
struct Live {
    folder: tempfile::TempDir,
    child: Child,
}

impl Live {
    /// One that goes on for so long, with messages stored already.
    fn start(stop: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "format = 1\nabout = \"Until it stops.\"\n[[publishers]]\nmessages = 1_000\n\
             payload = \"64B\"\nbatches = 0\nstop = \"{stop}\"\narrival = \"constant\"\n\
             rate_per_second = 1_000\n"
        );
        std::fs::write(folder.path().join("live.toml"), text).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let server = find_server(None, &Surroundings::of_process(), &mut |_| {}).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["live", "live.toml", "--out", "o"])
            .current_dir(&folder)
            .env("TMPDIR", folder.path().join("tmp"))
            .env("NATS_SERVER", server.path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let live = Self { folder, child };
        until("the first message", || {
            let block = live
                .node()
                .map(|node| node.join("store/jetstream/$G/streams/TIDEGATE/msgs/1.blk"));
            block.is_some_and(|block| block.metadata().is_ok_and(|file| file.len() > 0))
        });
        live
    }

    /// The folder of its server, while there is one.
    fn node(&self) -> Option<PathBuf> {
        let mut folders = std::fs::read_dir(self.folder.path().join("tmp")).unwrap();
        let folders = folders
            .by_ref()
            .map(|entry| entry.unwrap().path().join("n0"));
        folders.into_iter().find(|node| node.is_dir())
    }

    /// Its server, by what it was started with.
    fn server(&self) -> Pid {
        let configuration = self.node().unwrap().join("server.conf");
        processes()
            .find(|pid| arguments(*pid).contains(&configuration.display().to_string()))
            .unwrap()
    }

    /// The shells that guard it: the one that waits for the server, and its other half.
    fn guards(&self) -> Vec<Pid> {
        let is_guard = |pid: &Pid| {
            let arguments = arguments(*pid);
            let node = self.node().unwrap().display().to_string();
            arguments.contains(&"tidegate-guard".to_owned()) && arguments.contains(&node)
        };
        let mut guards: Vec<_> = processes().filter(is_guard).collect();
        guards.sort_by_key(|pid| pid.as_raw_nonzero());
        guards
    }

    /// Waits for its end: exit code, what it said, its result; and nothing of it is left.
    fn end(self, server: Pid) -> (Option<i32>, String, Value) {
        let Self { folder, child } = self;
        let output = child.wait_with_output().unwrap();
        until("the end of the server", || arguments(server).is_empty());
        let left = std::fs::read_dir(folder.path().join("tmp")).unwrap();
        assert_eq!(left.count(), 0);
        let result = std::fs::read(folder.path().join("o/result.json")).unwrap();
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
fn arguments(pid: Pid) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    let line = String::from_utf8_lossy(&line.unwrap_or_default()).into_owned();
    line.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn a_server_of_our_own_that_dies_is_named_with_its_last_words() {
    let live = Live::start("30s");
    let server = live.server();
    kill_process(server, Signal::KILL).unwrap();
    let (code, told, result) = live.end(server);
    assert_eq!(code, Some(3), "{told}");
    let died = "the nats-server that was started for this run died: it was killed by signal 9";
    assert!(told.contains(died), "{told}");
    assert!(told.contains("the end of its log:\n["), "{told}");
    assert_eq!(
        (&result["partial"], &result["expected"]),
        (&true.into(), &false.into())
    );
    assert!(result["totals"]["published"].as_u64() > Some(0));
    let notes = result["notes"].to_string();
    assert!(notes.contains(&format!("broken off: {died}")), "{notes}");
    let unmet = result["unmet"].to_string();
    assert!(
        unmet.contains("was broken off") && !unmet.contains("interrupted"),
        "{unmet}"
    );
    // The load would go on for half a minute, and a publisher wait for its answers.
    let ended_s = result["duration_ns"].as_u64().unwrap() / 1_000_000_000;
    assert!(ended_s < 29, "{ended_s} s");
}

/// The run goes on without either half of the guard, and nothing stays behind.
#[test]
fn a_guard_that_dies_is_done_without() {
    for half in [0, 1] {
        let live = Live::start("2s");
        let server = live.server();
        let guards = live.guards();
        assert_eq!(guards.len(), 2, "{guards:?}");
        kill_process(guards[half], Signal::KILL).unwrap();
        let (code, told, result) = live.end(server);
        assert_eq!(code, Some(0), "{half}: {told}");
        assert_eq!(result["verdict"], "pass", "{half}");
    }
}

#[test]
fn when_server_and_guard_are_gone_the_run_says_so() {
    let live = Live::start("30s");
    let server = live.server();
    for pid in live.guards().into_iter().chain([server]) {
        kill_process(pid, Signal::KILL).unwrap();
    }
    let (code, told, _) = live.end(server);
    assert_eq!(code, Some(3), "{told}");
    assert!(
        told.contains("it has gone, and its guard with it"),
        "{told}"
    );
}
