//! What the API takes out of a stream: purges and single messages.
//!
//! Leans on `keep` and `log`.

use super::config::Storage;
use super::failure::ApiFailure;
use super::subjects::{self, Subjects};
use super::{Stream, log::Record};
use crate::batch::message::SubjectId;
use crate::nats::StreamSequence;
use crate::nats::error_code::ErrorCode;

/// What a purge removes; nothing given: everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Purge {
    /// Only subjects that match this.
    pub filter: Option<String>,
    /// Only below this sequence. The API takes it or `keep`, not both.
    pub sequence: Option<StreamSequence>,
    /// All but so many of the newest.
    pub keep: Option<u64>,
}

impl Stream {
    /// Removes what `purge` says and tells how many messages that were.
    ///
    /// # Errors
    /// Sealed (10109), purges denied (10110).
    pub fn purge(&mut self, subjects: &Subjects, purge: &Purge) -> Result<u64, ApiFailure> {
        if self.config.sealed {
            return Err(ErrorCode::Sealed.into());
        }
        if self.config.deny_purge {
            return Err(ApiFailure::new(500, 10110, "stream purge not permitted"));
        }
        let sequence = purge.sequence.filter(|sequence| sequence.0 > 0);
        let keep = purge.keep.filter(|keep| *keep > 0);
        let before = self.log.messages();
        let filter = purge.filter.as_deref();
        match filter.filter(|filter| !matches!(*filter, "" | ">")) {
            Some(filter) => self.purge_under(subjects, filter, sequence, keep.unwrap_or(0)),
            None => match sequence {
                // Nothing is below the first: a stream that was never written stays so.
                Some(StreamSequence(0..=1)) => {}
                Some(sequence) => self.purge_below(sequence),
                None => self.keep_newest(keep.unwrap_or(0)),
            },
        }
        Ok(before - self.log.messages())
    }

    /// Removes one message.
    ///
    /// # Errors
    /// Sealed (10109), deletes denied, no such message (10043, or 10057 outside of
    /// what a file store holds).
    pub fn delete_message(&mut self, sequence: StreamSequence) -> Result<(), ApiFailure> {
        if self.config.sealed {
            return Err(ErrorCode::Sealed.into());
        }
        if self.config.deny_delete {
            let text = "message delete not permitted";
            return Err(ApiFailure::new(500, 10057, text));
        }
        if self.remove(sequence) {
            return Ok(());
        }
        let (first, last) = (self.log.first(), self.log.last());
        let inside = sequence.0 > 0 && first <= sequence && sequence <= last;
        Err(match self.config.storage {
            Storage::File if sequence > last => ApiFailure::new(500, 10057, "stream store EOF"),
            Storage::File if !inside => ApiFailure::new(500, 10057, "no message found"),
            Storage::File | Storage::Memory => {
                ApiFailure::new(400, 10043, &format!("sequence {sequence} not found"))
            }
        })
    }

    /// One message.
    ///
    /// # Errors
    /// No such message (10037).
    pub fn message(&self, sequence: StreamSequence) -> Result<Record, ApiFailure> {
        let found = self.log.get(sequence);
        found.ok_or_else(|| ErrorCode::NoMessageFound.into())
    }

    /// Everything below a sequence; one beyond the end moves the end.
    fn purge_below(&mut self, sequence: StreamSequence) {
        if sequence > self.log.last() {
            self.remove_all();
            self.log.skip_to(sequence);
            return;
        }
        while self.log.messages() > 0 && self.log.first() < sequence {
            self.remove(self.log.first());
        }
    }

    fn purge_under(
        &mut self,
        subjects: &Subjects,
        filter: &str,
        below: Option<StreamSequence>,
        keep: u64,
    ) {
        let matching: Vec<bool> = (0..self.subjects.len() as u32)
            .map(|id| subjects::matches(filter, subjects.text(SubjectId(id))))
            .collect();
        let found: Vec<StreamSequence> = self
            .log
            .from(self.log.first())
            .take_while(|(at, _)| below.is_none_or(|below| *at < below))
            .filter(|(_, record)| {
                let id = record.subject.0 as usize;
                matching.get(id).copied().unwrap_or(false)
            })
            .map(|(at, _)| at)
            .collect();
        let gone = found
            .len()
            .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        for at in &found[..gone] {
            self.remove(*at);
        }
    }
}
