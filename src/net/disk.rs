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
        }
    }

    /// Whether each write is synced.
    pub const fn syncs(&self) -> bool {
        self.sync_latency.is_some()
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
    fn a_sync_is_paid_for_each_write() {
        let quiet = Disk::new(Time::from_nanos(700), 1_000_000_000, None);
        let careful = Disk::new(
            Time::from_nanos(700),
            1_000_000_000,
            Some(Time::from_micros(210)),
        );
        assert_eq!(quiet.span(10, 1_000), Time::from_nanos(8_000));
        assert_eq!(careful.span(10, 1_000), Time::from_nanos(2_108_000));
    }
}
