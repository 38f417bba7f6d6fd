//! Is a run the same every time? Traces of one file and seed compared line by line.
//!
//! A trace comes from this thread's world, from another thread's, or from another process; nothing
//! is kept, so a run may be as long as it likes. Leans on `run` and `event`.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::{Outside, SimError, run};
use crate::event::{Event, Observer};
use crate::machine::Time;
use crate::scenario::{Lane, Settings};
use crate::seed::Seed;

/// Lines handed over at once, and how many such chunks may wait.
const CHUNK: usize = 2_048;
const CHUNKS: usize = 8;

/// Writes one line for each event: its moment, then what happened.
pub struct TraceWriter<W: Write> {
    out: W,
    line: String,
    error: Option<io::Error>,
}

impl<W: Write> TraceWriter<W> {
    /// A writer onto `out`; buffer it.
    pub const fn new(out: W) -> Self {
        Self {
            out,
            line: String::new(),
            error: None,
        }
    }

    /// Flushes, and gives `out` back.
    ///
    /// # Errors
    /// The first error of writing: the trace is not whole on `out`.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Observer for TraceWriter<W> {
    fn see(&mut self, at: Time, event: &Event) {
        if self.error.is_some() {
            return;
        }
        trace_line(&mut self.line, at, event);
        self.line.push('\n');
        self.error = self.out.write_all(self.line.as_bytes()).err();
    }
}

fn trace_line(line: &mut String, at: Time, event: &Event) {
    line.clear();
    // Writing to a String cannot fail.
    let _ = write!(line, "{at} {event:?}");
}

/// Where two traces part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the first event that differs, from 1.
    pub event: u64,
    /// What this side saw there; `None`: its trace is over.
    pub here: Option<String>,
    /// What the other side saw there.
    pub there: Option<String>,
}

/// The trace of a run in a thread of its own.
///
/// The thread ends when the iterator is dropped.
pub fn trace_in_a_thread(
    settings: Settings,
    seed: Seed,
    lane: Lane,
) -> impl Iterator<Item = String> {
    let (sender, receiver) = sync_channel(CHUNKS);
    std::thread::spawn(move || {
        let stop = AtomicBool::new(false);
        let mut lines = LineSender {
            sender,
            lines: Vec::with_capacity(CHUNK),
            stop: &stop,
        };
        let outside = Outside {
            stop: &stop,
            progress: &mut |_| {},
            observer: Some(&mut lines),
        };
        let refused: Result<_, SimError> = run(&settings, seed, lane, outside);
        if let Err(error) = refused {
            lines.lines.push(error.to_string());
        }
        lines.flush();
    });
    receiver.into_iter().flatten()
}

struct LineSender<'a> {
    sender: SyncSender<Vec<String>>,
    lines: Vec<String>,
    stop: &'a AtomicBool,
}

impl LineSender<'_> {
    fn flush(&mut self) {
        if self.sender.send(std::mem::take(&mut self.lines)).is_err() {
            // Nobody listens any more: the comparison is over.
            self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl Observer for LineSender<'_> {
    fn see(&mut self, at: Time, event: &Event) {
        let mut line = String::new();
        trace_line(&mut line, at, event);
        self.lines.push(line);
        if self.lines.len() >= CHUNK {
            self.flush();
        }
    }
}

/// The trace that another process writes.
pub fn trace_from_a_process(out: impl BufRead) -> impl Iterator<Item = String> {
    out.lines()
        .map(|line| line.unwrap_or_else(|error| format!("the trace cannot be read: {error}")))
}

/// Compares two traces to the first difference; the number of events if there is none.
///
/// # Errors
/// With the first event that differs.
pub fn compare(
    mut here: impl Iterator<Item = String>,
    mut there: impl Iterator<Item = String>,
) -> Result<u64, Difference> {
    let mut event = 0;
    loop {
        match (here.next(), there.next()) {
            (None, None) => return Ok(event),
            (here, there) if here == there => event += 1,
            (here, there) => {
                return Err(Difference {
                    event: event + 1,
                    here,
                    there,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> impl Iterator<Item = String> {
        text.lines().map(str::to_owned)
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(compare(lines("a\nb\nc"), lines("a\nb\nc")), Ok(3));
        let difference = |event, here: Option<&str>, there: Option<&str>| {
            Err(Difference {
                event,
                here: here.map(str::to_owned),
                there: there.map(str::to_owned),
            })
        };
        assert_eq!(
            compare(lines("a\nb\nc"), lines("a\nx\nc")),
            difference(2, Some("b"), Some("x"))
        );
        assert_eq!(
            compare(lines("a\nb"), lines("a")),
            difference(2, Some("b"), None)
        );
    }
}
