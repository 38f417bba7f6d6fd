//! A disk: one write at a time, each with a fixed cost, a cost per byte and perhaps a sync.
//!
//! Leans on `machine`.

use crate::machine::Time;

/// A disk that serves one write after the other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    write_latency: Time,
    picoseconds_per_byte: u64,
    /// Of each write; `None`: none is synced.
    sync_latency: Option<Time>,
    /// Of each small file that is written anew and synced.
    file_latency: Time,
}

impl Disk {
    /// A disk with `write_latency` for each write, `bytes_per_second`, and `sync_latency` after
    /// each write (`None`: no sync).
    pub fn new(write_latency: Time, bytes_per_second: u64, sync_latency: Option<Time>) -> Self {
        let picoseconds_per_byte = 1_000_000_000_000 / bytes_per_second.max(1);
        Self {
            write_latency,
            picoseconds_per_byte,
            sync_latency,
            file_latency: Time::ZERO,
        }
    }

    /// Takes so long for a small file that is written anew and synced, whether other writes are or not.
    #[must_use]
    pub const fn with_file_latency(self, file_latency: Time) -> Self {
        Self {
            file_latency,
            ..self
        }
    }

    /// Whether each write is synced.
    pub const fn syncs(&self) -> bool {
        self.sync_latency.is_some()
    }

    /// How long `files` small files with `bytes` together take.
    pub fn files_span(&self, files: u64, bytes: u64) -> Time {
        let whole = files.saturating_mul(self.file_latency.as_nanos());
        Time::from_nanos(whole + bytes.saturating_mul(self.picoseconds_per_byte) / 1_000)
    }

    /// How long `writes` writes of `bytes` together take.
    pub fn span(&self, writes: u64, bytes: u64) -> Time {
        let sync = self.sync_latency.unwrap_or(Time::ZERO);
        let each = (self.write_latency + sync).as_nanos();
        Time::from_nanos(
            writes.saturating_mul(each) + bytes.saturating_mul(self.picoseconds_per_byte) / 1_000,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_paid_for_each_write_and_a_file_as_a_whole() {
        let quiet = Disk::new(Time::from_nanos(700), 1_000_000_000, None);
        let careful = Disk::new(
            Time::from_nanos(700),
            1_000_000_000,
            Some(Time::from_micros(210)),
        );
        assert_eq!(quiet.span(10, 1_000), Time::from_nanos(8_000));
        let slow = quiet.clone().with_file_latency(Time::from_millis(6));
        assert_eq!(slow.span(10, 1_000), quiet.span(10, 1_000));
        assert_eq!(slow.files_span(2, 1_000), Time::from_nanos(12_001_000));
        assert_eq!(careful.span(10, 1_000), Time::from_nanos(2_108_000));
    }
}
