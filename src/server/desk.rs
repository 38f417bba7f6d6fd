//! The API of one server: workers, and the two queues in front of them.
//!
//! Every request goes through a queue, whoever asks; one for information waits in a queue of its own,
//! which is looked at when the other is empty. A queue that reaches its limit is emptied as a whole,
//! without an answer (nats-server, `jetstream_api.go`, `apiDispatch` and
//! `processJSAPIRoutedRequests`). A pure machine. Leans on `api`.

use std::collections::VecDeque;

use super::api::{ApiCall, ApiRequest};
use super::message::ReplyTo;
use crate::machine::Time;

/// A request on its way to its answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Asked {
    pub(super) to: ReplyTo,
    pub(super) request: Box<ApiRequest>,
}

/// What a desk is like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct DeskModel {
    /// Requests in work at a time.
    pub(super) workers: usize,
    /// Requests in a queue at which it is emptied.
    pub(super) limit: usize,
    /// How long a worker is busy with one.
    pub(super) cost: Time,
}

/// Workers and queues.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Desk {
    calls: VecDeque<Asked>,
    infos: VecDeque<Asked>,
    /// In work, by when it is done: all take the same time.
    at_work: VecDeque<(Time, Asked)>,
}

impl Desk {
    /// Takes a request; gives the number of those that the queue lost over it, this one included.
    pub(super) fn take(&mut self, now: Time, asked: Asked, model: DeskModel) -> u32 {
        let queue = match asked.request.call() {
            ApiCall::Info
            | ApiCall::List
            | ApiCall::Names
            | ApiCall::ConsumerInfo
            | ApiCall::ConsumerList
            | ApiCall::ConsumerNames => &mut self.infos,
            ApiCall::Account
            | ApiCall::Create
            | ApiCall::Update
            | ApiCall::Delete
            | ApiCall::Purge
            | ApiCall::MessageGet
            | ApiCall::MessageDelete
            | ApiCall::StepDown
            | ApiCall::PeerRemove
            | ApiCall::Snapshot
            | ApiCall::Restore
            | ApiCall::ConsumerCreate
            | ApiCall::ConsumerDelete => &mut self.calls,
        };
        queue.push_back(asked);
        if self.at_work.len() < model.workers {
            self.begin(now, model);
            return 0;
        }
        if queue.len() < model.limit {
            return 0;
        }
        let dropped = queue.len() as u32;
        queue.clear();
        dropped
    }

    /// When the next request is done.
    pub(super) fn due(&self) -> Time {
        self.at_work.front().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// The request that is done; its worker turns to the next.
    pub(super) fn finish(&mut self, now: Time, model: DeskModel) -> Option<Asked> {
        let (_, asked) = self.at_work.pop_front()?;
        self.begin(now, model);
        Some(asked)
    }

    /// A free worker takes the next request.
    fn begin(&mut self, now: Time, model: DeskModel) {
        if let Some(asked) = self.calls.pop_front().or_else(|| self.infos.pop_front()) {
            self.at_work.push_back((now + model.cost, asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::StreamSequence;
    use crate::server::message::ConnectionId;

    const MODEL: DeskModel = DeskModel {
        workers: 2,
        limit: 3,
        cost: Time::from_micros(10),
    };

    fn asked(tag: u64, request: ApiRequest) -> Asked {
        let connection = ConnectionId(0);
        Asked {
            to: ReplyTo { connection, tag },
            request: Box::new(request),
        }
    }

    fn info(tag: u64) -> Asked {
        let stream = "S".to_owned();
        let details = Default::default();
        asked(tag, ApiRequest::Info { stream, details })
    }

    fn delete(tag: u64) -> Asked {
        let stream = "S".to_owned();
        let sequence = StreamSequence(1);
        asked(tag, ApiRequest::MessageDelete { stream, sequence })
    }

    #[test]
    fn as_many_are_in_work_as_there_are_workers_and_information_waits_for_the_rest() {
        let mut desk = Desk::default();
        let now = Time::ZERO;
        let all = [info(0), delete(1), info(2), delete(3)];
        all.into_iter()
            .for_each(|one| assert_eq!(desk.take(now, one, MODEL), 0));
        let mut done = Vec::new();
        while desk.due() != Time::NEVER {
            let at = desk.due();
            done.push((
                at.as_nanos() / 1_000,
                desk.finish(at, MODEL).unwrap().to.tag,
            ));
        }
        assert_eq!(done, [(10, 0), (10, 1), (20, 3), (20, 2)]);
    }

    #[test]
    fn a_queue_at_its_limit_is_emptied_and_the_other_is_not() {
        let mut desk = Desk::default();
        let mut take = |one| desk.take(Time::ZERO, one, MODEL);
        let kept: Vec<u32> = (0..2).map(|tag| take(delete(tag))).collect();
        assert_eq!(kept, [0, 0], "in work");
        assert_eq!(take(info(9)), 0);
        let dropped: Vec<u32> = (2..6).map(|tag| take(delete(tag))).collect();
        assert_eq!(dropped, [0, 0, 3, 0]);
        let at = desk.due();
        let tags = [(); 4].map(|()| desk.finish(at, MODEL).unwrap().to.tag);
        assert_eq!(tags, [0, 1, 5, 9]);
    }
}
