//! Progress of long runs, on stderr and only on a terminal.
//!
//! Leans on `machine` and `event`.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print;
use crate::event::{Event, Observer};
use crate::machine::Time;

/// How often the line is drawn again.
const REDRAWS_PER_SECOND: u8 = 5;

/// One line for all runs of a command.
pub(super) struct Progress {
    bar: ProgressBar,
    runs: usize,
}

impl Progress {
    /// Progress of so many runs. Nothing is drawn when stderr is no terminal.
    pub(super) fn new(runs: usize) -> Self {
        Self::of(runs, "runs")
    }

    /// Progress of so many things of this name, each a run for this line.
    pub(super) fn of(runs: usize, name: &str) -> Self {
        let length = if runs > 1 { Some(runs as u64) } else { None };
        let target = if std::io::stderr().is_terminal() && !print::is_dumb() {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(length, target);
        let template = if runs > 1 {
            format!("{{elapsed:>4}} {{wide_bar}} {{pos}}/{{len}} {name}, {{eta}} left {{msg}}")
        } else {
            "{elapsed:>4} {spinner} {msg}".to_owned()
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, runs }
    }

    /// A run has come to this simulated moment.
    pub(super) fn simulated(&self, now: Time, limit: Time) {
        if self.runs == 1 && !self.bar.is_hidden() {
            self.bar.set_message(format!(
                "{:.3} simulated seconds of at most {:.0}",
                now.as_secs_f64(),
                limit.as_secs_f64()
            ));
        }
    }

    /// One run is done.
    pub(super) fn run_done(&self) {
        self.bar.inc(1);
    }

    /// So many more are done.
    pub(super) fn done(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Writes lines to stderr, above the line of progress.
    pub(super) fn log(&self, text: &str) {
        self.bar.suspend(|| print::log(text));
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Watches a live run for its progress line, and for how far it came if it breaks off.
pub(super) struct LiveProgress<'a> {
    progress: &'a Progress,
    limit: Time,
    /// When the line is worth a change.
    next: Time,
    published: u64,
    batches: u64,
    read_back: u64,
    started: bool,
    newest: Time,
}

impl<'a> LiveProgress<'a> {
    /// For a run that ends at the latest at `limit`.
    pub(super) const fn new(progress: &'a Progress, limit: Time) -> Self {
        Self {
            progress,
            limit,
            next: Time::ZERO,
            published: 0,
            batches: 0,
            read_back: 0,
            started: false,
            newest: Time::ZERO,
        }
    }

    /// The moment of the newest event, if there was any.
    pub(super) fn newest(&self) -> Option<Time> {
        self.started.then_some(self.newest)
    }

    fn message(&self) -> String {
        if self.read_back > 0 {
            return format!(
                "reading back, {} of {} messages",
                self.read_back, self.published
            );
        }
        format!(
            "{:.0} of at most {:.0} s, {} messages sent, {} batches ended",
            self.newest.as_secs_f64(),
            self.limit.as_secs_f64(),
            self.published,
            self.batches
        )
    }
}

impl Observer for LiveProgress<'_> {
    fn see(&mut self, at: Time, event: &Event) {
        self.newest = at;
        match event {
            Event::Published { operation, .. } => {
                self.published += u64::from(operation.stores());
            }
            Event::BatchStarted { .. } => self.started = true,
            Event::BatchEnded { .. } => self.batches += 1,
            Event::Stored { .. } => self.read_back += 1,
            _ => {}
        }
        if at >= self.next && !self.progress.bar.is_hidden() {
            self.next = at + Time::from_millis(1_000 / u64::from(REDRAWS_PER_SECOND));
            self.progress.bar.set_message(self.message());
        }
    }
}
