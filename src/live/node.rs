//! One nats-server of our own, and its guard.
//!
//! The server never outlives us. It runs under a small shell guard that holds one end of a pipe; when
//! our end closes, because we stop, fail, panic or are killed hard, the guard kills the server and
//! removes its files. A server that a fault has ended it starts again when we say so, over the same pipe: no
//! life of a server is without it. The guard has a process group of its own, so that a Ctrl-C at the terminal
//! reaches us alone. Leans on `clock` and `error`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// Arguments: binary, node folder, common folder. Its standard input is the pipe: a line on it starts
/// a server that has ended again, its end is the end of all. It answers with the number of each process.
/// It takes no SIGHUP: the system sends one to its group if we die while the server in it stands still.
const GUARD: &str = r#"
trap '' HUP
exec 3<&0 4>&1 </dev/null >/dev/null 2>&1
while :; do
"$1" -c "$2/server.conf" -js -sd "$2/store" >>"$2/server.log" 2>&1 3<&- 4>&- &
server=$!
echo "$server" >&4
( read -r _ <&3 && exit 0; [ -e "$2/exit" ] || kill -KILL "$server"; exit 1 ) &
guard=$!
wait "$server"
echo $? >"$2/exit"
wait "$guard" || break
rm -f -- "$2/exit"
done
rm -rf -- "$2"
rmdir -- "$3"
"#;

/// One server and its guard.
#[derive(Debug)]
pub(super) struct Node {
    folder: PathBuf,
    guard: Child,
    life: Mutex<Life>,
}

/// What changes when a server ends and starts again.
#[derive(Debug)]
struct Life {
    server_pid: u32,
    /// Closing it ends the server.
    pipe: Option<ChildStdin>,
    /// The guard tells process ids there.
    told: Option<BufReader<ChildStdout>>,
    /// It is down because a fault ended it.
    ended_by_fault: bool,
}

impl Node {
    /// Starts `binary` with the configuration in `folder`, which lies in `common`.
    ///
    /// # Errors
    /// There is no shell for the guard.
    pub(super) fn spawn(binary: &Path, folder: PathBuf, common: &Path) -> Result<Self, LiveError> {
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
            .map_err(|error| LiveError::LocalServer {
                reason: format!("sh cannot be run: {error}"),
                log: String::new(),
            })?;
        let mut life = Life {
            server_pid: 0,
            pipe: guard.stdin.take(),
            told: guard.stdout.take().map(BufReader::new),
            ended_by_fault: false,
        };
        let started = life.hear();
        let node = Self {
            folder,
            guard,
            life: Mutex::new(life),
        };
        started.map(|()| node)
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Process id of the server, or of the one that was there last.
    pub(super) fn server_pid(&self) -> u32 {
        self.life().server_pid
    }

    /// Sends the server a signal on behalf of a fault; `ends` says that it is not to live on.
    pub(super) fn signal(&self, signal: Signal, ends: bool) {
        let mut life = self.life();
        // Its number may be somebody else's by now.
        if self.exit_code().is_none() {
            life.ended_by_fault |= ends;
            life.signal(signal);
        }
    }

    /// Whether it is down because a fault ended it.
    pub(super) fn is_ended_by_fault(&self) -> bool {
        self.life().ended_by_fault
    }

    /// Starts the server again after a fault has ended it, with the same ports and files.
    ///
    /// # Errors
    /// Its guard is gone.
    pub(super) fn start_again(&self) -> Result<(), LiveError> {
        let mut life = self.life();
        if let Some(mut pipe) = life.pipe.as_ref() {
            // A guard that is gone says nothing, which is the error.
            let _ = pipe.write_all(b"start\n");
        }
        life.hear()?;
        life.ended_by_fault = false;
        Ok(())
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
        match self.exit_code() {
            // as a shell tells it
            Some(code @ 129..=192) => Some(format!("it was killed by signal {}", code - 128)),
            Some(code) => Some(format!("it ended with code {code}")),
            None if self.guard_is_gone() && !is_alive(self.server_pid()) => {
                Some("it has gone, and its guard with it".to_owned())
            }
            None => None,
        }
    }

    fn exit_code(&self) -> Option<u32> {
        let told = fs::read_to_string(self.folder.join("exit"));
        told.unwrap_or_default().trim().parse().ok()
    }

    fn guard_is_gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&self.guard);
        // Left to be waited for by `wait_gone`.
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Lets the guard end the server.
    pub(super) fn let_go(&self) {
        self.life().pipe = None;
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
                None if clock.is_past(GUARD_PATIENCE) => self.life().signal(Signal::KILL),
                // It was killed itself, and the other half is on its own.
                Some(status) if status.code().is_none() && is_alive(self.server_pid()) => {}
                Some(_) => return Ok(()),
                None => {}
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        Err(LiveError::system(
            format!("nats-server {} does not end", self.server_pid()),
            "killed 10 s ago",
        ))
    }
}

impl Life {
    /// Takes in the process id of a server that its guard has just started.
    fn hear(&mut self) -> Result<(), LiveError> {
        const LONGEST: u64 = 32;
        let mut line = String::new();
        if let Some(told) = &mut self.told {
            let _ = told.take(LONGEST).read_line(&mut line);
        }
        self.server_pid = line.trim().parse().map_err(|_| LiveError::LocalServer {
            reason: "its guard did not start it".to_owned(),
            log: String::new(),
        })?;
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.server_pid).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
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
