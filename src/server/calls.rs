//! What API calls do to the server.
//!
//! Leans on `stream`.

use std::sync::Arc;

use super::api::{
    AccountInfo, ApiAnswer, ApiCall, ApiFailure, ApiRequest, InfoDetails, Listed, Page,
    StoredMessage, StreamInfo, Which,
};
use super::host::Host;
use super::{Action, Around, Group, Place, Server};
use crate::batch::message::{ReplyTo, StreamNumber, SubjectId};
use crate::machine::{Sink, Time};
use crate::nats::StreamSequence;
use crate::nats::error_code::ErrorCode;
use crate::nats::subject::OfServer;
use crate::stream::Stream;
use crate::stream::config::{Storage, StreamConfig};
use crate::stream::proposal::Proposal;
use crate::stream::subjects::{Subjects, overlap};

/// Most names, streams and subjects in one answer, as nats-server has them.
const NAMES_LIMIT: u64 = 1_024;
const LIST_LIMIT: u64 = 256;
const SUBJECTS_LIMIT: u64 = 100_000;

type Answer = Result<ApiAnswer, ApiFailure>;

impl Server {
    /// Does a call at `now`.
    pub(super) fn answer(
        &mut self,
        now: Time,
        request: &ApiRequest,
        out: &mut dyn Sink<Action>,
    ) -> Answer {
        match request {
            ApiRequest::Account => Ok(ApiAnswer::Account(self.account())),
            ApiRequest::Names(page) => Ok(self.names(page)),
            ApiRequest::List(page) => Ok(self.list(now, page)),
            ApiRequest::Create(config) => self.create(now, config, out),
            ApiRequest::Update(config) => self.update(now, config, out),
            ApiRequest::Delete { stream } => self.delete(stream, out),
            ApiRequest::Info { stream, details } => {
                let stream = self.stream(stream).ok_or(ErrorCode::StreamNotFound)?;
                let info = detailed(now, stream, &self.subjects, details);
                Ok(ApiAnswer::Stream(Box::new(info)))
            }
            ApiRequest::Purge { stream, purge } => {
                let index = self.index(stream)?;
                let Some(Some(Place::Alone(host))) = self.places.get_mut(index as usize) else {
                    return Err(ErrorCode::StreamNotFound.into());
                };
                let purged = host.stream.purge(&self.subjects, purge)?;
                Ok(ApiAnswer::Purged(purged))
            }
            ApiRequest::MessageGet { stream, which } => self.message(stream, which),
            ApiRequest::MessageDelete { stream, sequence } => {
                let index = self.index(stream)?;
                let Some(Some(Place::Alone(host))) = self.places.get_mut(index as usize) else {
                    return Err(ErrorCode::StreamNotFound.into());
                };
                host.stream.delete_message(*sequence)?;
                Ok(ApiAnswer::Done)
            }
            ApiRequest::StepDown { stream } => self.step_down(now, stream, out),
            ApiRequest::Other { stream, call } => self.other(stream, *call),
        }
    }

    fn create(&mut self, now: Time, config: &StreamConfig, out: &mut dyn Sink<Action>) -> Answer {
        if config.sealed {
            return Err(ApiFailure::invalid_config(
                "stream configuration for create can not be sealed",
            ));
        }
        let config = config.clone().complete(self.model.version)?;
        if let Some(stream) = self.stream(&config.name) {
            if *stream.config() == config {
                return Ok(ApiAnswer::Existing(Box::new(info(now, stream))));
            }
            return Err(ErrorCode::StreamNameInUse.into());
        }
        self.check_subjects(&config)?;
        self.check_replicas(&config)?;
        let number = StreamNumber(self.created);
        self.created += 1;
        let stream = Stream::new(number, now, config, self.model.batch_idle_timeout);
        let name = stream.name().clone();
        let answer = ApiAnswer::Stream(Box::new(info(now, &stream)));
        let free = self.places.iter().position(Option::is_none);
        let index = free.unwrap_or(self.places.len());
        if index == self.places.len() {
            self.places.push(None);
        }
        self.places[index] = Some(self.settle(now, index as u32, stream, out));
        self.names.insert(name, index as u32);
        self.route_again();
        Ok(answer)
    }

    /// Puts a new stream onto its server or servers.
    fn settle(&self, now: Time, index: u32, stream: Stream, out: &mut dyn Sink<Action>) -> Place {
        if stream.config().num_replicas <= 1 {
            return Place::Alone(Box::new(Host::new(stream)));
        }
        let around = Around {
            model: &self.model,
            switches: &self.switches,
            subjects: &self.subjects,
            servers: &self.servers,
            elsewhere: self.elsewhere(index),
        };
        Place::Group(Box::new(Group::new(now, &stream, &around, out)))
    }

    fn check_replicas(&self, config: &StreamConfig) -> Result<(), ApiFailure> {
        let servers = u32::from(self.model.cluster.servers);
        let wanted = config.num_replicas.clamp(1, servers) as u8;
        if (0..wanted).any(|server| !self.is_up(server)) {
            // Replicas are on the first servers, and on no others.
            return Err(ErrorCode::SystemUnavailable.into());
        }
        match config.num_replicas {
            0..=1 => Ok(()),
            _ if self.model.cluster.servers == 1 => {
                let text = "replicas > 1 not supported in non-clustered mode";
                Err(ApiFailure::new(500, 10074, text))
            }
            wanted if wanted > servers => Err(ApiFailure::new(
                400,
                10005,
                "no suitable peers for placement",
            )),
            _ => Ok(()),
        }
    }

    fn step_down(&mut self, now: Time, name: &str, out: &mut dyn Sink<Action>) -> Answer {
        if self.model.cluster.servers == 1 {
            return Err(ErrorCode::ClusterRequired.into());
        }
        let index = self.index(name)?;
        let mut done = Ok(());
        self.on_group(now, index, out, |group, _, out| {
            done = group.step_down(now, out);
            None
        });
        done.map(|()| ApiAnswer::Done)
    }

    /// Hands a call to the replicas of its stream, if it is one that they have to agree on: then the
    /// answer comes when it is applied. Gives back what is answered at once.
    pub(super) fn propose_call(
        &mut self,
        now: Time,
        to: ReplyTo,
        request: &ApiRequest,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        let (name, proposal) = match request {
            ApiRequest::Purge { stream, purge } => {
                (stream, Proposal::Purge(Box::new(purge.clone())))
            }
            ApiRequest::MessageDelete { stream, sequence } => (stream, Proposal::Delete(*sequence)),
            _ => return false,
        };
        let Ok(index) = self.index(name) else {
            return false;
        };
        let place = self.places.get(index as usize);
        if !matches!(place, Some(Some(Place::Group(_)))) {
            return false;
        }
        let call = (to, request.call());
        self.on_group(now, index, out, |group, around, out| {
            group.call(now, call, proposal, around, out);
            None
        });
        true
    }

    fn update(&mut self, now: Time, config: &StreamConfig, out: &mut dyn Sink<Action>) -> Answer {
        let version = self.model.version;
        // What is wrong with a configuration by itself comes before whether there is such a stream
        // (`jetstream_api.go`, `jsStreamUpdateRequest`).
        config.clone().complete(version)?;
        self.index(&config.name)?;
        self.check_subjects(config)?;
        let place = self.place_mut(&config.name)?;
        for host in place.hosts() {
            host.with_facts(out, |stream, effects| {
                stream.update(config.clone(), version, effects)
            })?;
        }
        place.look_ahead();
        let answer = ApiAnswer::Stream(Box::new(info(now, place.stream())));
        self.route_again();
        Ok(answer)
    }

    /// The stream goes with its queues: what is in them is lost without a word.
    fn delete(&mut self, name: &str, out: &mut dyn Sink<Action>) -> Answer {
        let index = self.index(name)?;
        for host in self.place_mut(name)?.hosts() {
            host.with_facts(out, |stream, effects| stream.forget_batches(effects));
        }
        self.places[index as usize] = None;
        self.names.remove(name);
        self.choosing.retain(|(chooser, _)| *chooser != index);
        self.route_again();
        Ok(ApiAnswer::Done)
    }

    fn message(&self, name: &str, which: &Which) -> Answer {
        let stream = self.stream(name).ok_or(ErrorCode::StreamNotFound)?;
        let found = match which {
            Which::At(sequence) => Some(*sequence),
            Which::Last(filter) => stream.last_matching(&self.subjects, filter),
            Which::Next(from, filter) => stream.next_matching(&self.subjects, Some(filter), *from),
        };
        let sequence = found.ok_or(ErrorCode::NoMessageFound)?;
        self.stored(stream, sequence)
    }

    /// What the account uses: all streams are of one account.
    fn account(&self) -> AccountInfo {
        let bytes = |storage| {
            let of_kind = self.streams().filter(|s| s.config().storage == storage);
            of_kind.map(|stream| stream.log().bytes()).sum()
        };
        AccountInfo {
            memory_bytes: bytes(Storage::Memory),
            storage_bytes: bytes(Storage::File),
            streams: self.streams().count() as u64,
            api_level: self.model.version.api_level(),
        }
    }

    fn names(&self, page: &Page) -> ApiAnswer {
        let names: Vec<Arc<str>> = self.on_page(page).map(|s| Arc::clone(s.name())).collect();
        let listed = listed(names.len(), page.offset, NAMES_LIMIT);
        ApiAnswer::Names(of_page(names, listed), listed)
    }

    fn list(&self, now: Time, page: &Page) -> ApiAnswer {
        let streams: Vec<&Stream> = self.on_page(page).collect();
        let listed = listed(streams.len(), page.offset, LIST_LIMIT);
        let streams = of_page(streams, listed).into_iter();
        ApiAnswer::List(streams.map(|stream| info(now, stream)).collect(), listed)
    }

    fn on_page<'a>(&'a self, page: &'a Page) -> impl Iterator<Item = &'a Stream> {
        self.streams().filter(|stream| {
            page.subject.as_deref().is_none_or(|wanted| {
                let mut filters = stream.config().subjects.iter();
                filters.any(|filter| overlap(filter, wanted))
            })
        })
    }

    /// What concerns peers, backups and consumers, of which the model has none.
    fn other(&self, name: &str, call: ApiCall) -> Answer {
        if call == ApiCall::PeerRemove {
            return Err(ErrorCode::ClusterRequired.into());
        }
        self.index(name)?;
        match call {
            ApiCall::ConsumerNames | ApiCall::ConsumerList => Ok(ApiAnswer::NoConsumers),
            ApiCall::ConsumerInfo | ApiCall::ConsumerDelete => {
                Err(ApiFailure::new(404, 10014, "consumer not found"))
            }
            ApiCall::ConsumerCreate => {
                Err(ApiFailure::new(500, 10012, "consumers are not modelled"))
            }
            ApiCall::Snapshot => Err(ApiFailure::new(500, 10064, "backups are not modelled")),
            ApiCall::Restore => Err(ApiFailure::new(500, 10062, "backups are not modelled")),
            _ => Err(ApiFailure::new(400, 10003, "bad request")),
        }
    }

    fn stored(&self, stream: &Stream, sequence: StreamSequence) -> Answer {
        let record = stream.message(sequence)?;
        let log = stream.log();
        Ok(ApiAnswer::Message(Box::new(StoredMessage {
            stream: stream.number(),
            subject: self.text(record.subject),
            sequence,
            headers: log.headers(sequence).cloned(),
            payload: record.payload,
            at: log.stored_at(sequence).unwrap_or_default(),
        })))
    }

    fn check_subjects(&self, config: &StreamConfig) -> Result<(), ApiFailure> {
        let bad = |c: char| matches!(c, '.' | '*' | '>' | '/' | '\\') || c.is_whitespace();
        if config.name.is_empty() || config.name.contains(bad) {
            return Err(ApiFailure::invalid_config(
                r"stream name is required and can not contain '.', '*', '>', '\', '/'",
            ));
        }
        let mut filters = config.subjects.iter();
        let own = filters.find_map(|filter| OfServer::in_filter(filter));
        if let Some(own) = own.filter(|_| !config.no_ack) {
            return Err(ApiFailure::invalid_config(own.refusal()));
        }
        let others = self
            .places
            .iter()
            .flatten()
            .map(|place| place.stream().config());
        let taken = others
            .filter(|other| other.name != config.name)
            .flat_map(|other| &other.subjects)
            .any(|taken| config.subjects.iter().any(|wanted| overlap(taken, wanted)));
        if taken {
            return Err(ErrorCode::SubjectsOverlap.into());
        }
        Ok(())
    }

    fn index(&self, name: &str) -> Result<u32, ErrorCode> {
        self.names
            .get(name)
            .copied()
            .ok_or(ErrorCode::StreamNotFound)
    }

    fn place_mut(&mut self, name: &str) -> Result<&mut Place, ErrorCode> {
        let index = self.index(name)?;
        let place = self.places.get_mut(index as usize).and_then(Option::as_mut);
        place.ok_or(ErrorCode::StreamNotFound)
    }

    fn text(&self, subject: SubjectId) -> std::sync::Arc<str> {
        self.subjects.shared(subject).unwrap_or_else(|| "".into())
    }
}

fn listed(total: usize, offset: u64, limit: u64) -> Listed {
    let total = total as u64;
    Listed {
        total,
        offset: offset.min(total),
        limit,
    }
}

fn of_page<T>(all: Vec<T>, listed: Listed) -> Vec<T> {
    let skipped = usize::try_from(listed.offset).unwrap_or(usize::MAX);
    let limit = usize::try_from(listed.limit).unwrap_or(usize::MAX);
    all.into_iter().skip(skipped).take(limit).collect()
}

/// With what was asked beyond configuration and state.
fn detailed(now: Time, stream: &Stream, subjects: &Subjects, details: &InfoDetails) -> StreamInfo {
    let mut info = info(now, stream);
    let log = stream.log();
    if details.deleted && log.messages() > 0 {
        let all = (log.first().0..=log.last().0).map(StreamSequence);
        info.deleted_sequences = all.filter(|at| log.get(*at).is_none()).collect();
    }
    if let Some(filter) = &details.subjects_filter {
        let counts: Vec<_> = stream
            .counts_of_each(subjects, filter)
            .into_iter()
            .collect();
        if !counts.is_empty() {
            let listed = listed(counts.len(), details.offset, SUBJECTS_LIMIT);
            let own = |(text, count): (&str, u64)| (text.to_owned(), count);
            let counts = of_page(counts, listed).into_iter().map(own).collect();
            info.subject_counts = Some((counts, listed));
        }
    }
    info
}

fn info(now: Time, stream: &Stream) -> StreamInfo {
    let log = stream.log();
    let first_at = if log.messages() > 0 {
        log.stored_at(log.first())
    } else {
        None
    };
    StreamInfo {
        config: stream.config().clone(),
        created: stream.created(),
        messages: log.messages(),
        bytes: log.bytes(),
        first: log.first(),
        first_at,
        last: log.last(),
        last_at: log.last_at(),
        deleted: log.deleted(),
        deleted_sequences: Vec::new(),
        subjects: stream.subject_count(),
        subject_counts: None,
        at: now,
    }
}
