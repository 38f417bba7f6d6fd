//! What the tasks of connections are told: there is output, or it is over.
//!
//! Leans on the actions of `server::front`.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use crate::machine::Sink;
use crate::server::front::FrontAction;
use crate::server::message::ConnectionId;

/// What the tasks of connections are to be told.
#[derive(Debug, Default)]
pub(super) struct Ports {
    pub(super) wakers: BTreeMap<ConnectionId, Waker>,
    /// Connections that are to be closed once their output is written.
    pub(super) closing: BTreeSet<ConnectionId>,
    /// Those of them that are to be closed at once: what is on its way is lost.
    pub(super) broken: BTreeSet<ConnectionId>,
    pub(super) cut_off: u64,
}

impl Sink<FrontAction> for Ports {
    fn emit(&mut self, action: FrontAction) {
        match action {
            FrontAction::Ready(id) => self.wake(id),
            FrontAction::Close(id, _) => self.close(id),
            // Only what a client sends becomes these, and that is taken elsewhere.
            FrontAction::Publish(_) | FrontAction::Api { .. } => {}
        }
    }
}

impl Ports {
    pub(super) fn wake(&mut self, id: ConnectionId) {
        if let Some(waker) = self.wakers.remove(&id) {
            waker.wake();
        }
    }

    pub(super) fn break_off(&mut self, id: ConnectionId) {
        self.broken.insert(id);
        self.close(id);
    }

    pub(super) fn close(&mut self, id: ConnectionId) {
        self.cut_off += u64::from(self.closing.insert(id));
        self.wake(id);
    }
}
