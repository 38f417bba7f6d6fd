//! A stream: its log, its limits, and the checks before a message goes in.
//!
//! `intake` takes one message through all of it, `plain` one without a batch, `atomic` a whole atomic
//! batch; `replicated` puts several replicas between checking and storing, and `proposal` is what these
//! exchange, with `note` for what no message tells; `check`, `ask` and `ahead` are the header checks; `keep` stores and removes; `purge` and
//! `read` answer the API. Leans on `batch`, `machine` and the words of `nats`.

mod ahead;
mod ask;
pub mod atomic;
mod check;
pub mod config;
pub mod dedup;
pub mod failure;
mod intake;
mod keep;
pub mod log;
pub mod note;
mod plain;
pub mod proposal;
pub mod purge;
mod read;
mod replicated;
pub mod subjects;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batch::atomic::staging::{Rules as StagingRules, Staging};
use crate::batch::fast::flow::Policy;
use crate::batch::fast::ingest::BatchDefects;
use crate::batch::fast::table::Table;
use crate::batch::limits::Limits;
use crate::batch::message::{
    AbandonReason, Fact, Publish, Reply, ReplyTo, StreamNumber, SubjectId,
};
use crate::machine::{Sink, Time};
use crate::nats::StreamSequence;
use crate::nats::header::Headers;
use crate::nats::version::ServerVersion;
use atomic::AtomicDefects;
use config::{PersistMode, Retention, Storage, StreamConfig};
use dedup::DedupWindow;
use failure::ApiFailure;
use log::{Log, OriginId};
use note::ReplicaDefects;
use replicated::Replicated;
use subjects::Subjects;

/// What a stream has to know of the server around it while it handles a message.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Now.
    pub now: Time,
    /// Texts of the subjects.
    pub subjects: &'a Subjects,
    /// Highest API level of the server.
    pub api_level: u32,
    /// Most fast batches in flight.
    pub limits: Limits,
    /// What atomic batches have in common before their commits.
    pub staging: StagingRules,
    /// Bugs that come with atomic batches.
    pub atomic_defects: AtomicDefects,
    /// How flow is chosen.
    pub policy: Policy,
    /// How full the ingest queue was, in thousandths.
    pub ingest_permille: u16,
    /// Bugs of a batch that are switched on.
    pub defects: BatchDefects,
    /// The bug that stores each hundredth message of a batch twice.
    pub store_twice: bool,
    /// The order of old servers, which look at the size of a plain message after its headers.
    pub plain_size_late: bool,
    /// The expected id of the last message is compared by the store, for messages of fast batches.
    pub last_id_leaks: bool,
    /// On one server, ids of messages that nobody is interested in have no time.
    pub undated_ids: bool,
    /// Bugs of a stream on several servers.
    pub replica_defects: ReplicaDefects,
}

/// What handling a message has for effects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// An answer, for the out-queue.
    Answer(ReplyTo, Reply),
    /// Something became true.
    Fact(Fact),
}

/// Messages of one subject.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct SubjectState {
    /// No message of the subject lies before this; exact if `count` is 1.
    first: u64,
    /// Sequence of the last one; 0 without any.
    last: u64,
    count: u64,
    /// On the leader of replicas: proposed and not applied.
    in_flight: u32,
    /// The origin of plain messages of this subject.
    plain: Option<OriginId>,
}

/// The origins that one batch uses: the last one at hand, for most batches have one subject.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct BatchOrigins {
    last: Option<(SubjectId, OriginId)>,
    others: BTreeMap<SubjectId, OriginId>,
}

/// A stream on its server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stream {
    number: StreamNumber,
    name: Arc<str>,
    config: StreamConfig,
    created: Time,
    log: Log,
    /// By subject id.
    subjects: Vec<SubjectState>,
    dedup: DedupWindow,
    /// Headers of the last message stored, for its message id: they outlive the message.
    last_headers: Option<Arc<Headers>>,
    batches: Table<BatchOrigins>,
    staging: Staging<Publish>,
    /// The last sequence that messages of fast batches expect, where a defect has it too high.
    shifted_last: u64,
    /// It is one replica of several.
    replicated: Option<Box<Replicated>>,
}

impl Stream {
    /// A stream with a complete configuration, whose batches of both kinds are forgotten after
    /// `batch_timeout` without messages. `number` names it in facts.
    pub fn new(number: StreamNumber, now: Time, config: StreamConfig, batch_timeout: Time) -> Self {
        Self {
            number,
            name: config.name.as_str().into(),
            created: now,
            log: Log::new(config.storage),
            subjects: Vec::new(),
            dedup: DedupWindow::new(config.dedup_window()),
            last_headers: None,
            batches: Table::new(batch_timeout),
            staging: Staging::new(batch_timeout),
            shifted_last: 0,
            replicated: None,
            config,
        }
    }

    /// Number.
    pub const fn number(&self) -> StreamNumber {
        self.number
    }

    /// Name.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Configuration, complete.
    pub const fn config(&self) -> &StreamConfig {
        &self.config
    }

    /// When it was created.
    pub const fn created(&self) -> Time {
        self.created
    }

    /// The messages.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Fast batches registered: those that commit, or wait for ever, included.
    pub const fn open_batches(&self) -> u32 {
        self.batches.open()
    }

    /// Atomic batches registered.
    pub fn open_atomic_batches(&self) -> u32 {
        self.staging.open()
    }

    /// Subjects that have messages.
    pub fn subject_count(&self) -> u64 {
        self.subjects.iter().filter(|state| state.count > 0).count() as u64
    }

    /// Whether a message takes a write to a file before it is acknowledged.
    pub fn writes_files(&self) -> bool {
        self.config.storage == Storage::File
            && self.config.persist_mode == PersistMode::Default
            && self.config.retention != Retention::Interest
    }

    /// Puts a configuration in place of the current one: all of it, not just the changes.
    ///
    /// # Errors
    /// As the server refuses it; then nothing has changed.
    pub fn update(
        &mut self,
        config: StreamConfig,
        version: ServerVersion,
        out: &mut (impl Sink<Effect> + ?Sized),
    ) -> Result<(), ApiFailure> {
        let config = config.replace(&self.config, version)?;
        if !config.allow_batched {
            self.forget_fast_batches(out);
        }
        if !config.allow_atomic {
            self.forget_atomic_batches(out);
        }
        self.dedup.set_window(config.dedup_window());
        let turns_to_interest =
            config.retention == Retention::Interest && self.config.retention != Retention::Interest;
        self.config = config;
        if turns_to_interest && self.log.messages() > 0 {
            // Nobody is interested (`stream.go`, `updateWithAdvisory`).
            self.remove_all();
        }
        // The limits of the whole come first, unlike at a message (`UpdateConfig` of both stores).
        self.enforce_limits();
        self.enforce_all_subject_limits();
        Ok(())
    }

    /// Forgets all batches, without a word to anybody.
    pub fn forget_batches(&mut self, out: &mut (impl Sink<Effect> + ?Sized)) {
        self.forget_fast_batches(out);
        self.forget_atomic_batches(out);
    }

    fn forget_fast_batches(&mut self, out: &mut (impl Sink<Effect> + ?Sized)) {
        for batch in self.batches.clear() {
            out.emit(Effect::Fact(Fact::BatchForgotten { batch, idle: false }));
        }
    }

    /// When [`Stream::expire`] is wanted.
    pub fn due(&self) -> Time {
        self.batches.due().min(self.staging.due())
    }

    /// Forgets the batches that have been idle for too long; `fast_advisory`: an advisory tells so of
    /// fast ones, too.
    pub fn expire(
        &mut self,
        now: Time,
        fast_advisory: bool,
        out: &mut (impl Sink<Effect> + ?Sized),
    ) {
        while let Some(batch) = self.batches.expire(now) {
            if fast_advisory {
                out.emit(Effect::Fact(Fact::Abandoned {
                    batch,
                    stream: self.number,
                    reason: AbandonReason::Timeout,
                }));
            }
            out.emit(Effect::Fact(Fact::BatchForgotten { batch, idle: true }));
        }
        while let Some(ended) = self.staging.expire(now) {
            self.tell_ended(ended, out);
        }
    }

    /// Last sequence of a subject; 0 without messages.
    fn last_of(&self, subject: SubjectId) -> StreamSequence {
        let state = self.subjects.get(subject.0 as usize);
        StreamSequence(state.map_or(0, |state| state.last))
    }
}
