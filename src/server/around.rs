//! What a stream's place knows of the server around it.
//!
//! Leans on `model`, `cluster` and `stream`.

use super::cluster::Servers;
use super::model::{ServerModel, Switches};
use crate::batch::atomic::staging::Rules;
use crate::batch::limits::Limits;
use crate::machine::Time;
use crate::stream::Surroundings;
use crate::stream::subjects::Subjects;

/// The server around a stream. It is at hand for everything that happens; what the stream itself is
/// told is put together only where the stream does something.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) model: &'a ServerModel,
    pub(super) switches: &'a Switches,
    pub(super) subjects: &'a Subjects,
    pub(super) servers: &'a Servers,
    /// Batches registered in other places: fast ones, and atomic ones.
    pub(super) elsewhere: (u32, u32),
}

impl<'a> Around<'a> {
    /// What the stream is told at `now`, when its ingest queue was so full, in thousandths.
    pub(super) fn stream(&self, now: Time, ingest_permille: u16) -> Surroundings<'a> {
        let (model, switches) = (self.model, self.switches);
        let (fast, atomic) = self.elsewhere;
        Surroundings {
            now,
            subjects: self.subjects,
            api_level: model.version.api_level(),
            limits: Limits {
                per_stream: model.batches_per_stream,
                per_server: model.batches_per_server,
                elsewhere: fast,
            },
            staging: Rules {
                limits: Limits {
                    per_stream: model.atomic_batches_per_stream,
                    per_server: model.atomic_batches_per_server,
                    elsewhere: atomic,
                },
                messages_max: u64::from(model.atomic_batch_messages),
                defects: switches.staging,
            },
            atomic_defects: switches.atomic,
            policy: model.flow_policy(),
            ingest_permille,
            defects: switches.fast,
            store_twice: switches.store_twice,
            plain_size_late: switches.plain_size_late,
            last_id_leaks: switches.last_id_leaks,
            undated_ids: switches.undated_ids,
            replica_defects: switches.replicas,
        }
    }
}
