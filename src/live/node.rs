//! One nats-server of our own, and its guard.
//!
//! The server never outlives us. It runs under a small shell guard that holds one end of a pipe; when
//! our end closes, because we stop, fail, panic or are killed hard, the guard kills the server and
//! removes its files. The guard has a process group of its own, so that a Ctrl-C at the terminal
//! reaches us alone. Leans on `clock` and `error`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, test_kill_process, waitid,
};

use super::clock::Clock;
use super::error::LiveError;

const LOG_TAIL_BYTES: u64 = 1_024;
/// Longest wait for server and guard to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// A guard that does its work has ended the server by then.
const GUARD_PATIENCE: Duration = Duration::from_secs(2);

/// Arguments: binary, node folder, common folder. Its standard input is the pipe.
const GUARD: &str = r#"
exec 3<&0 </dev/null
"$1" -c "$2/server.conf" -js -sd "$2/store" >"$2/server.log" 2>&1 3<&- &
server=$!
echo "$server"
exec >/dev/null 2>&1
( read -r _ <&3; [ -e "$2/exit" ] || kill -KILL "$server" ) &
guard=$!
wait "$server"
echo $? >"$2/exit"
wait "$guard"
rm -rf -- "$2"
rmdir -- "$3"
"#;

/// One server and its guard.
#[derive(Debug)]
pub(super) struct Node {
    folder: PathBuf,
    server_pid: u32,
    guard: Child,
    /// Closing it ends the server.
    pipe: Option<ChildStdin>,
}

impl Node {
    /// Starts `binary` with the configuration in `folder`, which lies in `common`.
    ///
    /// # Errors
    /// There is no shell for the guard.
    pub(super) fn spawn(binary: &Path, folder: PathBuf, common: &Path) -> Result<Self, LiveError> {
        let not_started = |reason: String| LiveError::LocalServer {
            reason,
            log: String::new(),
        };
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "tidegate-guard"])
            .arg(binary)
            .arg(&folder)
            .arg(common)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| not_started(format!("sh cannot be run: {error}")))?;
        let pipe = guard.stdin.take();
        let mut node = Self {
            folder,
            server_pid: 0,
            guard,
            pipe,
        };
        let mut line = String::new();
        if let Some(output) = node.guard.stdout.take() {
            // the guard says one number and closes its output
            let _ = BufReader::new(output.take(32)).read_line(&mut line);
        }
        match line.trim().parse() {
            Ok(pid) => node.server_pid = pid,
            Err(_) => return Err(not_started("its guard did not start it".to_owned())),
        }
        Ok(node)
    }

    /// Process id of the server.
    pub(super) const fn server_pid(&self) -> u32 {
        self.server_pid
    }

    /// Its log file.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// The end of its log, in whole lines.
    pub(super) fn log_tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(self.log())?;
            let length = file.metadata()?.len();
            let start = length.saturating_sub(LOG_TAIL_BYTES);
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes);
            Ok(match text.split_once('\n') {
                Some((_, whole)) if start > 0 => whole.to_owned(),
                _ => text.into_owned(),
            })
        };
        read().unwrap_or_default()
    }

    /// How the server has ended, if it has.
    pub(super) fn ended(&self) -> Option<String> {
        let told = fs::read_to_string(self.folder.join("exit"));
        match told.unwrap_or_default().trim().parse::<u32>() {
            // as a shell tells it
            Ok(code @ 129..=192) => Some(format!("it was killed by signal {}", code - 128)),
            Ok(code) => Some(format!("it ended with code {code}")),
            Err(_) if self.guard_is_gone() && !is_alive(self.server_pid) => {
                Some("it has gone, and its guard with it".to_owned())
            }
            Err(_) => None,
        }
    }

    fn guard_is_gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&self.guard);
        // Left to be waited for by `wait_gone`.
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Lets the guard end the server.
    pub(super) fn let_go(&mut self) {
        self.pipe = None;
    }

    /// Waits until server and guard have ended.
    ///
    /// # Errors
    /// They are still there after 10 s.
    pub(super) fn wait_gone(&mut self) -> Result<(), LiveError> {
        let clock = Clock::start();
        while !clock.is_past(PATIENCE) {
            let guard = self.guard.try_wait();
            match guard.map_err(|error| LiveError::system("cannot wait for a server", error))? {
                // Its other half may have been killed; as long as it waits the number is the server's.
                None if clock.is_past(GUARD_PATIENCE) => self.kill(),
                // It was killed itself, and the other half is on its own.
                Some(status) if status.code().is_none() && is_alive(self.server_pid) => {}
                Some(_) => return Ok(()),
                None => {}
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        Err(LiveError::system(
            format!("nats-server {} does not end", self.server_pid),
            "killed 10 s ago",
        ))
    }

    fn kill(&self) {
        if let Some(pid) = i32::try_from(self.server_pid).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.let_go();
        let _ = self.wait_gone();
    }
}

/// Whether a process is there and has not ended; it is not ours to wait for.
fn is_alive(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state stands behind the name, in brackets; a zombie has ended.
        Ok(stat) => stat
            .rsplit_once(") ")
            .is_none_or(|(_, rest)| !rest.starts_with('Z')),
        Err(_) => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}
