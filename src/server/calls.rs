//! What API calls do to the server.
//!
//! Leans on `stream`.

use super::api::{ApiAnswer, ApiFailure, ApiRequest, StoredMessage, StreamInfo};
use super::host::Host;
use super::{Action, Server};
use crate::batch::message::SubjectId;
use crate::machine::{Sink, Time};
use crate::nats::StreamSequence;
use crate::nats::error_code::ErrorCode;
use crate::stream::Stream;
use crate::stream::config::StreamConfig;
use crate::stream::subjects::overlap;

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
            ApiRequest::Create(config) => self.create(now, config),
            ApiRequest::Update(config) => self.update(now, config, out),
            ApiRequest::Delete { stream } => self.delete(stream, out),
            ApiRequest::Info { stream } => {
                let stream = self.stream(stream).ok_or(ErrorCode::StreamNotFound)?;
                Ok(info(now, stream))
            }
            ApiRequest::Purge { stream, purge } => {
                let index = self.index(stream)?;
                let host = self.hosts.get_mut(index as usize).and_then(Option::as_mut);
                let host = host.ok_or(ErrorCode::StreamNotFound)?;
                let purged = host.stream.purge(&self.subjects, purge)?;
                Ok(ApiAnswer::Purged(purged))
            }
            ApiRequest::MessageGet { stream, sequence } => self.message(stream, *sequence),
            ApiRequest::MessageDelete { stream, sequence } => {
                let host = self.host_mut(stream)?;
                host.stream.delete_message(*sequence)?;
                Ok(ApiAnswer::Done)
            }
            ApiRequest::StepDown { .. } => Err(ErrorCode::ClusterRequired.into()),
        }
    }

    fn create(&mut self, now: Time, config: &StreamConfig) -> Answer {
        if config.sealed {
            return Err(ApiFailure::invalid_config(
                "stream configuration for create can not be sealed",
            ));
        }
        let config = config.clone().complete(self.model.api_level)?;
        if let Some(stream) = self.stream(&config.name) {
            if *stream.config() == config {
                return Ok(info(now, stream));
            }
            return Err(ApiFailure::new(
                400,
                10058,
                "stream name already in use with a different configuration",
            ));
        }
        self.check_subjects(&config)?;
        let stream = Stream::new(now, config, self.model.batch_idle_timeout);
        let name = stream.name().clone();
        let answer = info(now, &stream);
        let free = self.hosts.iter().position(Option::is_none);
        let index = free.unwrap_or(self.hosts.len());
        let host = Some(Host::new(stream));
        if index == self.hosts.len() {
            self.hosts.push(host);
        } else {
            self.hosts[index] = host;
        }
        self.names.insert(name, index as u32);
        self.route_again();
        Ok(answer)
    }

    fn update(&mut self, now: Time, config: &StreamConfig, out: &mut dyn Sink<Action>) -> Answer {
        let level = self.model.api_level;
        self.index(&config.name)?;
        self.check_subjects(config)?;
        let host = self.host_mut(&config.name)?;
        host.with_facts(out, |stream, effects| {
            stream.update(config.clone(), level, effects)
        })?;
        let answer = info(now, &host.stream);
        self.route_again();
        Ok(answer)
    }

    /// The stream goes with its queues: what is in them is lost without a word.
    fn delete(&mut self, name: &str, out: &mut dyn Sink<Action>) -> Answer {
        let index = self.index(name)?;
        self.host_mut(name)?.with_facts(out, |stream, effects| {
            stream.forget_batches(effects);
        });
        self.hosts[index as usize] = None;
        self.names.remove(name);
        self.choosing.retain(|chooser| *chooser != index);
        self.route_again();
        Ok(ApiAnswer::Done)
    }

    fn message(&self, name: &str, sequence: StreamSequence) -> Answer {
        let stream = self.stream(name).ok_or(ErrorCode::StreamNotFound)?;
        let record = stream.message(sequence)?;
        let log = stream.log();
        Ok(ApiAnswer::Message(Box::new(StoredMessage {
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
                "stream name is required and can not contain '.', '*', '>'",
            ));
        }
        let others = self.hosts.iter().flatten().map(|host| host.stream.config());
        let taken = others
            .filter(|other| other.name != config.name)
            .flat_map(|other| &other.subjects)
            .any(|taken| config.subjects.iter().any(|wanted| overlap(taken, wanted)));
        if taken {
            return Err(ApiFailure::new(
                400,
                10065,
                "subjects overlap with an existing stream",
            ));
        }
        Ok(())
    }

    fn index(&self, name: &str) -> Result<u32, ErrorCode> {
        self.names
            .get(name)
            .copied()
            .ok_or(ErrorCode::StreamNotFound)
    }

    fn host_mut(&mut self, name: &str) -> Result<&mut Host, ErrorCode> {
        let index = self.index(name)?;
        let host = self.hosts.get_mut(index as usize).and_then(Option::as_mut);
        host.ok_or(ErrorCode::StreamNotFound)
    }

    fn text(&self, subject: SubjectId) -> std::sync::Arc<str> {
        self.subjects.shared(subject).unwrap_or_else(|| "".into())
    }
}

fn info(now: Time, stream: &Stream) -> ApiAnswer {
    let log = stream.log();
    let first_at = if log.messages() > 0 {
        log.stored_at(log.first())
    } else {
        None
    };
    ApiAnswer::Stream(Box::new(StreamInfo {
        config: stream.config().clone(),
        created: stream.created(),
        messages: log.messages(),
        bytes: log.bytes(),
        first: log.first(),
        first_at,
        last: log.last(),
        last_at: log.last_at(),
        deleted: log.deleted(),
        subjects: stream.subject_count(),
        at: now,
    }))
}
