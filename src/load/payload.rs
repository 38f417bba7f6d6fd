//! Payloads: content that follows from who sent it, so that a stream can be read back and checked.
//!
//! The first 16 bytes name publisher, batch and sequence and carry a digest; the rest is filler
//! that follows from the sequence. Shorter payloads are filler alone and can only be counted.
//! Leans on `scenario` for the smallest payload that does.

use std::sync::Arc;

use bytes::BufMut;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::scenario::IDENTIFIED;

/// Smallest payload that names its message.
pub const IDENTIFIED_BYTES: u32 = IDENTIFIED.0 as u32;

/// Which message of the run a payload belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Number of the publisher in the run.
    pub publisher: u32,
    /// Number of the batch among those of its publisher, from 0.
    pub batch: u32,
    /// Batch sequence, from 1.
    pub sequence: u32,
}

/// Bytes of the filler table; a prime of steps through it keeps neighbours different.
const FILLER_BYTES: usize = 4_096;
const FILLER_STEP: usize = 61;

/// Writes and reads the payloads of one run.
///
/// `run` tells the runs on one stream apart: a payload of another run is not recognised.
#[derive(Clone)]
pub struct PayloadContent {
    run: u64,
    filler: Arc<[u8; FILLER_BYTES]>,
}

impl PayloadContent {
    /// The payloads of the run called `run`.
    pub fn new(run: u64) -> Self {
        let mut filler = [0; FILLER_BYTES];
        for (index, word) in filler.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&xxh3_64(&index.to_le_bytes()).to_le_bytes());
        }
        Self {
            run,
            filler: Arc::new(filler),
        }
    }

    /// The digest of a payload: a function of the run, the message and the size, so that nobody
    /// has to hash the content.
    pub fn digest(&self, identity: Identity, bytes: u32) -> u32 {
        let mut name = [0; 16];
        name[..12].copy_from_slice(&identity.encode());
        name[12..].copy_from_slice(&bytes.to_le_bytes());
        xxh3_64_with_seed(&name, self.run) as u32
    }

    /// Appends the payload of a message, of so many bytes.
    pub fn append(&self, identity: Identity, bytes: usize, out: &mut impl BufMut) {
        let mut rest = bytes;
        if bytes >= IDENTIFIED_BYTES as usize {
            out.put_slice(&identity.encode());
            out.put_u32_le(self.digest(identity, bytes as u32));
            rest -= IDENTIFIED_BYTES as usize;
        }
        let mut from = filler_start(identity);
        while rest > 0 {
            let count = rest.min(FILLER_BYTES - from);
            out.put_slice(&self.filler[from..from + count]);
            rest -= count;
            from = 0;
        }
    }

    /// The digest that a payload carries, as [`PayloadContent::digest`] gives it; of one too short to
    /// carry one, that of its bytes. Whether the rest of the payload is as written is not looked at.
    pub fn carried_digest(payload: &[u8]) -> u32 {
        match payload.get(12..IDENTIFIED_BYTES as usize) {
            Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
            _ => xxh3_64(payload) as u32,
        }
    }

    /// Which message of this run has this payload: `None` when it is too short to say, of another
    /// origin, or not what [`PayloadContent::append`] makes of it.
    pub fn read(&self, payload: &[u8]) -> Option<Identity> {
        let (head, mut rest) = payload.split_at_checked(IDENTIFIED_BYTES as usize)?;
        let word = |at: usize| {
            let bytes = head[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let identity = Identity {
            publisher: word(0),
            batch: word(4),
            sequence: word(8),
        };
        if word(12) != self.digest(identity, u32::try_from(payload.len()).ok()?) {
            return None;
        }
        let mut from = filler_start(identity);
        while !rest.is_empty() {
            let count = rest.len().min(FILLER_BYTES - from);
            let (part, tail) = rest.split_at(count);
            if part != &self.filler[from..from + count] {
                return None;
            }
            rest = tail;
            from = 0;
        }
        Some(identity)
    }
}

impl Identity {
    fn encode(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.publisher.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.batch.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }
}

const fn filler_start(identity: Identity) -> usize {
    (identity.sequence as usize).wrapping_mul(FILLER_STEP) % FILLER_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        publisher: 3,
        batch: 1,
        sequence: 4_000_000_000,
    };

    fn written(content: &PayloadContent, bytes: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        content.append(IDENTITY, bytes, &mut payload);
        assert_eq!(payload.len(), bytes);
        payload
    }

    #[test]
    fn what_is_written_names_its_message() {
        let content = PayloadContent::new(7);
        for bytes in [16, 17, 128, 4_095, 4_096, 100_000] {
            assert_eq!(content.read(&written(&content, bytes)), Some(IDENTITY));
        }
        for bytes in [0, 1, 15] {
            assert_eq!(content.read(&written(&content, bytes)), None);
        }
    }

    #[test]
    fn a_payload_carries_its_digest() {
        let content = PayloadContent::new(7);
        for bytes in [16, 300] {
            let carried = PayloadContent::carried_digest(&written(&content, bytes));
            assert_eq!(carried, content.digest(IDENTITY, bytes as u32));
        }
        let short = [written(&content, 15), written(&content, 14)];
        let [one, other] = short.map(|payload| PayloadContent::carried_digest(&payload));
        assert_ne!(one, other);
    }

    #[test]
    fn any_changed_byte_and_any_other_run_is_noticed() {
        let content = PayloadContent::new(7);
        let good = written(&content, 300);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(content.read(&bad), None, "byte {at}");
        }
        assert_eq!(content.read(&good[..299]), None);
        assert_eq!(PayloadContent::new(8).read(&good), None);
    }
}
