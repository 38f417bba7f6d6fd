//! Progress of long runs, on stderr and only on a terminal.
//!
//! Leans on `machine`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::machine::Time;

/// One line for all runs of a command.
pub(super) struct Progress {
    bar: ProgressBar,
    runs: usize,
}

impl Progress {
    /// Progress of so many runs. Nothing is drawn when stderr is no terminal.
    pub(super) fn new(runs: usize) -> Self {
        let length = if runs > 1 { Some(runs as u64) } else { None };
        // `stderr` draws nothing where there is no terminal.
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(5));
        let template = if runs > 1 {
            "{elapsed:>4} {wide_bar} {pos}/{len} runs, {eta} left {msg}"
        } else {
            "{elapsed:>4} {spinner} {msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
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

    /// Takes the line away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
