//! Faults made for real: servers of our own that step down, are killed, frozen and restarted during a
//! run, and whose links and routes are cut, held, slowed down and limited.
//!
//! Takes the nats-server that `tidegate server fetch` finds, on 127.0.0.1; looks at processes and
//! connections in `/proc`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
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
        Self::start_with(gap, stop, faults, &[])
    }

    /// The same with some keys changed.
    fn start_with(gap: &str, stop: &str, faults: &str, changes: &[&str]) -> Self {
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
            .args(changes.iter().flat_map(|change| ["--set", *change]))
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

    /// Waits for its end, which is as the file expects: its result.
    fn passes(self) -> Value {
        let (code, told, result) = self.end();
        assert_eq!(
            (code, &result["verdict"]),
            (Some(0), &"pass".into()),
            "{told}"
        );
        result
    }

    /// Waits for its end: exit code, what it said, its result; and nothing of it is left.
    fn end(self) -> (Option<i32>, String, Value) {
        let output = self.child.wait_with_output().unwrap();
        all_gone(&self.folder);
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

/// Waits until no server and no guard of a run in this folder is left.
fn all_gone(folder: &tempfile::TempDir) {
    let mark = folder.path().display().to_string();
    until("the end of all servers and guards", || {
        !processes().any(|pid| arguments(pid).contains(&mark))
    });
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

/// A TCP connection, as one of its ends has it, or a port at which somebody listens.
struct Socket {
    state: u8,
    local_port: u16,
    remote_port: u16,
    inode: String,
}

impl Socket {
    const ESTABLISHED: u8 = 1;
    const LISTENS: u8 = 10;

    /// Those of a process, of `all` of the system.
    fn of(pid: Pid, all: &[Self]) -> Vec<&Self> {
        let folder = format!("/proc/{}/fd", pid.as_raw_nonzero());
        let links = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
            let link = std::fs::read_link(entry.ok()?.path()).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        });
        let inodes: BTreeSet<String> = links.collect();
        let own = all.iter().filter(|socket| inodes.contains(&socket.inode));
        own.collect()
    }

    fn all() -> Vec<Self> {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = |field: &str| {
                let (_, port) = field.split_once(':').unwrap();
                u16::from_str_radix(port, 16).unwrap()
            };
            Self {
                state: u8::from_str_radix(fields[3], 16).unwrap(),
                local_port: port(fields[1]),
                remote_port: port(fields[2]),
                inode: fields[9].to_owned(),
            }
        });
        rows.collect()
    }
}

fn ports_of(sockets: &[&Socket]) -> BTreeSet<u16> {
    let listening = sockets.iter().filter(|it| it.state == Socket::LISTENS);
    listening.map(|it| it.local_port).collect()
}

fn leaders(result: &Value) -> Vec<Option<&str>> {
    let changes = result["leader_changes"].as_array().unwrap();
    changes
        .iter()
        .map(|change| change["leader"].as_str())
        .collect()
}

/// The server that the first fault of the file hit first.
fn first_hit(result: &Value) -> &str {
    result["faults"][0]["servers"][0].as_str().unwrap()
}

#[test]
fn a_leader_steps_down_and_the_result_tells_who_follows() {
    let fault = "[[faults]]\naction = \"step-down\"\nfrom = \"1s\"\n";
    let result = Live::start("ok", "3s", fault).passes();
    assert_eq!(result["faults"][0]["count"], 1);
    let (old, leaders) = (first_hit(&result), leaders(&result));
    assert!(
        matches!(leaders[..], [None, Some(new)] if new != old),
        "{old}: {leaders:?}"
    );
}

#[test]
fn a_killed_leader_comes_back_and_what_was_acked_is_there() {
    let fault = "[[faults]]\naction = \"kill\"\nfrom = \"1s\"\nuntil = \"3s\"\n";
    let result = Live::start("fail", "5s", fault).passes();
    assert_eq!(result["violations"], serde_json::json!([]));
    // Who leads next is open: the others wait for longer than it was away, so it may be the same.
    let leaders = leaders(&result);
    assert!(matches!(leaders[..], [None, Some(_), ..]), "{leaders:?}");
    // Nobody died by himself.
    assert!(!result["notes"].to_string().contains("killed by signal"));
    assert!(result["totals"]["stored"].as_u64() > Some(0));
}

#[test]
fn a_server_of_each_number_is_restarted_in_turn() {
    let fault =
        "[[faults]]\naction = \"rolling-restart\"\nfrom = \"500ms\"\ndown_for = \"100ms\"\n";
    let result = Live::start("ok", "12s", fault).passes();
    assert_eq!(
        result["faults"][0]["servers"],
        serde_json::json!(["server 0", "server 1", "server 2"])
    );
}

#[test]
fn a_server_that_stands_still_is_a_hole_in_what_servers_say() {
    let fault = "[live]\nmonitor_every = \"200ms\"\n[[faults]]\naction = \"freeze\"\nrole = \"follower\"\n\
                 from = \"1s\"\nuntil = \"2s\"\n";
    let result = Live::start("ok", "4s", fault).passes();
    let frozen = first_hit(&result);
    let servers = result["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 3);
    for server in servers {
        let at_ns: Vec<u64> = serde_json::from_value(server["at_ns"].clone()).unwrap();
        let memory: Vec<Option<u64>> =
            serde_json::from_value(server["memory_bytes"].clone()).unwrap();
        assert!(at_ns.len() > 8 && at_ns.len() == memory.len(), "{server}");
        let mut amid = at_ns.iter().zip(&memory);
        let is_hole =
            amid.any(|(at, said)| (1_050_000_000..1_700_000_000).contains(at) && said.is_none());
        assert_eq!(is_hole, server["name"] == frozen, "{server}");
        assert!(memory.iter().flatten().all(|bytes| *bytes > 1 << 20));
        assert!(
            server["raft_lag"]
                .as_array()
                .unwrap()
                .iter()
                .any(|lag| !lag.is_null())
        );
    }
    let leads = |server: &Value| server["leads"].as_array().unwrap().contains(&true.into());
    assert_eq!(servers.iter().filter(|server| leads(server)).count(), 1);
}

#[test]
fn of_several_streams_the_first_is_the_one_whose_leader_servers_tell() {
    let every = "[live]\nmonitor_every = \"200ms\"\n";
    let two = [
        "stream.count=2",
        "stream.subjects=[\"many.{stream}.>\"]",
        "publishers.0.subject=many.{stream}.{publisher}",
    ];
    let result = Live::start_with("ok", "2s", every, &two).passes();
    for (series, all) in [("leads", false), ("raft_lag", true)] {
        let servers = result["servers"].as_array().unwrap().iter();
        let knows = servers.filter(|server| {
            let said = server[series].as_array().unwrap();
            said.iter().any(|it| *it == true || it.is_u64())
        });
        assert_eq!(knows.count(), if all { 3 } else { 1 }, "{series}");
    }
}

#[test]
fn a_leader_without_its_routes_is_followed_by_another() {
    let fault = "[[faults]]\naction = \"cut-routes\"\nfrom = \"500ms\"\nuntil = \"10s\"\n";
    let result = Live::start("ok", "11s", fault).passes();
    assert_eq!(result["violations"], serde_json::json!([]));
    let (old, leaders) = (first_hit(&result), leaders(&result));
    assert!(
        leaders.iter().flatten().any(|new| *new != old),
        "{old}: {leaders:?}"
    );
    assert!(result["totals"]["stored"].as_u64() > Some(0));
}

#[test]
fn slow_routes_make_acks_late_by_what_the_file_says() {
    let fault = "[[faults]]\naction = \"slow-routes\"\nfrom = \"0s\"\ndelay = \"50ms\"\n";
    let result = Live::start("fail", "3s", fault).passes();
    // The leader asks a follower, and that answers.
    let (p50, totals) = (&result["ack_latency_ns"]["p50"], &result["totals"]);
    assert!(p50.as_u64() > Some(100_000_000), "{p50}");
    assert_eq!((&totals["lost"], &totals["gaps"]), (&0.into(), &0.into()));
}

/// A publisher sends 102,400 bits of payload in a second. At 50 kbit/s the message of the moment 1 s + x has
/// passed at 1 s + 2.05 x at the earliest, or after the end of the limit: for x = 0.97 s that is a second late.
#[test]
fn a_limited_link_makes_late_what_it_has_no_room_for() {
    let fault = "[[faults]]\naction = \"limit\"\npublisher = 1\nbandwidth = \"50kbit/s\"\nfrom = \"1s\"\nuntil = \"3s\"\n";
    let (code, told, result) = Live::start("fail", "4s", fault).end();
    assert_eq!(
        (code, &result["verdict"]),
        (Some(0), &"pass".into()),
        "{told}"
    );
    let (response, totals) = (&result["response_time_ns"], &result["totals"]);
    assert_eq!((&totals["lost"], &totals["gaps"]), (&0.into(), &0.into()));
    assert!(response["max"].as_u64() > Some(990_000_000), "{response}");
    // The other three noticed nothing.
    assert!(response["p50"].as_u64() < Some(990_000_000), "{response}");
    assert_eq!(result["faults"][0]["count"], 1);
}

/// Every message goes to a follower before it is acked, 409,600 bits of payload in a second.
#[test]
fn limited_routes_make_late_what_they_have_no_room_for() {
    let fault = "[[faults]]\naction = \"limit-routes\"\nbandwidth = \"200kbit/s\"\nfrom = \"1s\"\nuntil = \"3s\"\n";
    let (code, told, result) = Live::start("fail", "4s", fault).end();
    assert_eq!(
        (code, &result["verdict"]),
        (Some(0), &"pass".into()),
        "{told}"
    );
    let (response, totals) = (&result["response_time_ns"], &result["totals"]);
    assert_eq!((&totals["lost"], &totals["gaps"]), (&0.into(), &0.into()));
    assert!(response["max"].as_u64() > Some(990_000_000), "{response}");
    assert!(result["faults"][0]["servers"][0].is_string(), "{told}");
}

#[test]
fn what_a_held_link_keeps_back_comes_late_and_whole() {
    let fault = "[[faults]]\naction = \"hold\"\npublisher = 1\nfrom = \"1s\"\nuntil = \"3s\"\n";
    let result = Live::start("fail", "4s", fault).passes();
    let (latency, totals) = (&result["ack_latency_ns"], &result["totals"]);
    assert_eq!((&totals["lost"], &totals["gaps"]), (&0.into(), &0.into()));
    assert!(latency["max"].as_u64() > Some(1_500_000_000), "{latency}");
    // The other three noticed nothing.
    assert!(latency["p50"].as_u64() < Some(1_000_000_000), "{latency}");
}

#[test]
fn a_publisher_whose_link_is_cut_connects_anew_and_goes_on() {
    let fault = "[[faults]]\naction = \"cut\"\npublisher = 2\nfrom = \"1s\"\nuntil = \"2500ms\"\n";
    let result = Live::start("ok", "8s", fault).passes();
    let response = &result["response_time_ns"]["max"];
    assert!(response.as_u64() > Some(1_400_000_000), "{response}");
    assert_eq!(result["totals"]["batches"]["started"], 4);
}

/// After routes and links were cut and came back: servers talk to each other, and clients to servers, by
/// ports of ours alone.
#[test]
fn no_connection_passes_the_ports_by_at_which_faults_are_made() {
    let faults = "[[faults]]\naction = \"cut-routes\"\nserver = 0\nfrom = \"500ms\"\nuntil = \"1s\"\n\
                  [[faults]]\naction = \"cut\"\npublisher = 0\nfrom = \"500ms\"\nuntil = \"1s\"\n\
                  [[faults]]\naction = \"hold-routes\"\nserver = 1\npeer = 2\nway = \"in\"\nfrom = \"1s\"\nuntil = \"2s\"\n";
    let live = Live::start("ok", "5s", faults);
    let own = Pid::from_child(&live.child);
    until("three servers", || live.servers().len() == 3);
    let (servers, behind) = (live.servers(), server_ports(live.folder.path()));
    // Routes in pools, four publishers, and who looks after them; before, during and after the faults.
    let mut looks = 0;
    until("a look at all connections", || {
        looks += usize::from(talk_by_doors(own, &servers, &behind) > 12);
        looks == 20
    });
    // No door leaves a connection to a server behind that nobody has come in by.
    until("as many ways in as out", || {
        let all = Socket::all();
        let sockets = Socket::of(own, &all);
        let doors = ports_of(&sockets);
        let count = |chosen: &dyn Fn(&Socket) -> bool| {
            let living = sockets.iter().filter(|it| it.state == Socket::ESTABLISHED);
            living.filter(|it| chosen(it)).count()
        };
        let came_in = count(&|it| doors.contains(&it.local_port));
        came_in > 0 && came_in == count(&|it| behind.contains(&it.remote_port))
    });
    live.passes();
}

/// Every connection of a server is one with us, and those that it has dialled lead to our ports; gives their
/// number. `behind`: where servers listen.
fn talk_by_doors(own: Pid, servers: &[Pid], behind: &BTreeSet<u16>) -> usize {
    let all = Socket::all();
    let doors = ports_of(&Socket::of(own, &all));
    let sockets = servers.iter().flat_map(|pid| Socket::of(*pid, &all));
    let sockets: Vec<&Socket> = sockets.collect();
    let living = sockets.iter().filter(|it| it.state == Socket::ESTABLISHED);
    let ends: BTreeSet<_> = living.map(|it| (it.local_port, it.remote_port)).collect();
    for (local, remote) in &ends {
        if !behind.contains(local) {
            assert!(doors.contains(remote), "a server has dialled port {remote}");
        }
        let both_are_servers = ends.contains(&(*remote, *local));
        assert!(!both_are_servers, "between ports {local} and {remote}");
    }
    ends.len()
}

/// The ports of the servers for clients and routes, as they are configured.
fn server_ports(folder: &Path) -> BTreeSet<u16> {
    let run = std::fs::read_dir(folder.join("tmp")).unwrap().next();
    let run = run.unwrap().unwrap().path();
    let files = (0..3).map(|server| run.join(format!("n{server}/server.conf")));
    let texts = files.map(|file| std::fs::read_to_string(file).unwrap());
    let ports = texts.flat_map(|text| {
        let listens = text.split("listen: \"127.0.0.1:").skip(1);
        let ports = listens.map(|rest| rest.split('"').next().unwrap().parse().unwrap());
        ports.collect::<Vec<u16>>()
    });
    ports.collect()
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
            assert!(told.contains("waiting up to 5 s for publishers"), "{told}");
            assert_eq!(result["partial"], true);
        } else {
            let Live { folder, child } = live;
            child.wait_with_output().unwrap();
            all_gone(&folder);
        }
    }
}

#[test]
fn a_signal_while_servers_start_is_answered_with_what_is_waited_for() {
    let live = Live::start("ok", "5s", "");
    until("a server that starts", || !live.servers().is_empty());
    kill_process(Pid::from_child(&live.child), Signal::INT).unwrap();
    let Live { folder, child } = live;
    let output = child.wait_with_output().unwrap();
    all_gone(&folder);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(
        told.contains("a signal came while servers were starting"),
        "{told}"
    );
}
