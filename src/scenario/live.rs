//! `[live]`: what a live run may do to servers that it did not start.
//!
//! Leans on nothing of ours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a live run is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LiveSettings {
    /// The faults of the file may make the stream change its leader on servers that are not ours.
    pub allow_leader_changes: bool,
}
