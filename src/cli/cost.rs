//! What a run costs this machine: the one place of the command line that reads a clock.
//!
//! Leans on `report`.

use std::time::Instant;

use crate::report::Cost;

/// A run's stopwatch.
pub(super) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "wall time is what is measured")]
    pub(super) fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// The cost of a run that published so many messages in `duration_ns` of its own time.
    pub(super) fn stop(&self, published: u64, duration_ns: u64) -> Cost {
        let wall_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Cost::new(wall_ns, published, duration_ns, peak_rss_bytes())
    }
}

/// Most memory that this process held so far, where the system says.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}
