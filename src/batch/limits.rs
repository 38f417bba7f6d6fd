//! Limits on batches in flight, the same for both kinds of batches.
//!
//! Leans on nothing of ours.

/// Most batches of one kind in flight, and how many there are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Most on this stream.
    pub per_stream: u32,
    /// Most on the server.
    pub per_server: u32,
    /// Open on the server's other streams.
    pub elsewhere: u32,
}

impl Limits {
    /// Whether a stream with `open` batches has no room for one more.
    pub const fn are_reached(self, open: u32) -> bool {
        open >= self.per_stream || open.saturating_add(self.elsewhere) >= self.per_server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_stream_and_the_others_count() {
        let reached = |per_stream, per_server, elsewhere| {
            let limits = Limits {
                per_stream,
                per_server,
                elsewhere,
            };
            limits.are_reached(2)
        };
        assert!(reached(2, 100, 0));
        assert!(!reached(3, 100, 0));
        assert!(reached(100, 5, 3));
        assert!(!reached(100, 6, 3));
    }
}
