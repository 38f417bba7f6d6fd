//! Direct gets: messages read past the API, one or many to a request.
//!
//! Answered at once on the reading connection's thread of time, as nats-server does it. Leans on
//! `stream::read`. Words and order of headers are those of nats-server 2.15.1.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::switch::Parcel;
use super::{Front, FrontAction, Options};
use crate::machine::Sink;
use crate::nats::header::{HeaderBlock, Headers, REQUIRED_API_LEVEL, Status};
use crate::nats::{StreamSequence, wire};
use crate::server::api_json::lenient;
use crate::server::{Server, stamp};
use crate::stream::Stream;
use crate::stream::config::Storage;

/// Most subjects of a request for the last message of each.
const SUBJECTS_MAX: usize = 1_024;
/// Most bytes of one answer, unless the request says otherwise.
const BYTES_MAX: i64 = 64 << 20;

/// What a request asks for.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
struct Request {
    seq: u64,
    last_by_subj: String,
    next_by_subj: String,
    batch: i64,
    max_bytes: i64,
    start_time: Option<String>,
    multi_last: Vec<String>,
    up_to_seq: u64,
    up_to_time: Option<String>,
    no_hdr: bool,
}

/// One frame of an answer.
#[derive(Debug)]
struct Frame {
    header: Option<Vec<u8>>,
    payload: Bytes,
}

/// What stands in the headers of a message, beside its own.
struct About {
    pending: u64,
    last: StreamSequence,
}

impl Front {
    /// Answers a direct get of `words`: a stream, and perhaps a subject. False: nobody listens
    /// there.
    pub(super) fn direct_get(
        &mut self,
        server: &Server,
        words: &str,
        publish: &wire::Publish,
        out: &mut dyn Sink<FrontAction>,
    ) -> bool {
        let (name, subject) = match words.split_once('.') {
            Some((name, subject)) => (name, Some(subject)),
            None => (words, None),
        };
        let Some(stream) = server.stream(name).filter(|s| s.config().allow_direct) else {
            return false;
        };
        let Some(reply) = &publish.reply else {
            return true;
        };
        let reader = Reader {
            server,
            stream,
            front: self,
        };
        let level = publish.header.as_deref().and_then(required_level);
        let frames =
            if level.is_some_and(|level| level > i64::from(server.model().version.api_level())) {
                vec![status(412, "Required Api Level", Vec::new())]
            } else {
                match request(subject, &publish.payload, &self.options) {
                    Ok(request) => reader.answer(&request),
                    Err(description) => vec![status(408, description, Vec::new())],
                }
            };
        let numbers = self.switch.interest().find(reply.as_str());
        for frame in frames {
            let parcel = Parcel {
                subject: reply.as_bytes(),
                reply: None,
                header: frame.header.as_deref(),
                payload: &frame.payload,
            };
            self.switch.deliver(&numbers, parcel, None, out);
        }
        true
    }
}

/// The API level that the request needs.
fn required_level(block: &[u8]) -> Option<i64> {
    let block = HeaderBlock::parse(block).ok()?;
    let level = block.headers.get(REQUIRED_API_LEVEL)?;
    // What is no number is met by no server.
    Some(level.parse().unwrap_or(i64::MAX))
}

/// Reads and checks a request; the error is the text of status 408.
fn request(subject: Option<&str>, body: &[u8], options: &Options) -> Result<Request, &'static str> {
    let mut request = if body.is_empty() && subject.is_some() {
        Request::default()
    } else if body.is_empty() {
        return Err("Empty Request");
    } else {
        lenient(body).map_err(|_| "Malformed Request")?
    };
    if let Some(subject) = subject {
        subject.clone_into(&mut request.last_by_subj);
    }
    let times = [&request.start_time, &request.up_to_time];
    let is_time = |text: &String| stamp::parse(options.start_unix_nanos, text).is_some();
    if !times.into_iter().flatten().all(is_time) {
        return Err("Malformed Request");
    }
    let has = |text: &String| !text.is_empty();
    let (last, next) = (has(&request.last_by_subj), has(&request.next_by_subj));
    let (sequence, since) = (request.seq > 0, request.start_time.is_some());
    let many = !request.multi_last.is_empty();
    if !(sequence || last || next || many || since) {
        return Err("Empty Request");
    }
    let conflicts = [
        sequence && last,
        sequence && since,
        since && last,
        last && next,
        last && request.batch > 0,
        last && many,
        next && many,
        request.up_to_seq > 0 && request.up_to_time.is_some(),
    ];
    if conflicts.contains(&true) {
        return Err("Bad Request");
    }
    Ok(request)
}

/// Reads one stream for one request.
struct Reader<'a> {
    server: &'a Server,
    stream: &'a Stream,
    front: &'a Front,
}

impl Reader<'_> {
    fn answer(&self, request: &Request) -> Vec<Frame> {
        if !request.multi_last.is_empty() {
            self.last_of_each(request)
        } else if request.batch != 0 {
            self.batch(request)
        } else {
            let found = self
                .one(request)
                .and_then(|at| self.message(at, None, request.no_hdr));
            vec![found.unwrap_or_else(not_found)]
        }
    }

    /// The one message of a request without a batch.
    fn one(&self, request: &Request) -> Option<StreamSequence> {
        let subjects = self.server.subjects();
        if !request.last_by_subj.is_empty() {
            return self.stream.last_matching(subjects, &request.last_by_subj);
        }
        if request.next_by_subj.is_empty() && request.start_time.is_none() {
            return Some(StreamSequence(request.seq));
        }
        let filter = filter(request);
        self.stream
            .next_matching(subjects, filter, self.start(request))
    }

    /// Where a request begins to read.
    fn start(&self, request: &Request) -> StreamSequence {
        match &request.start_time {
            Some(text) => self.first_since(text),
            None => StreamSequence(request.seq.max(1)),
        }
    }

    fn first_since(&self, text: &str) -> StreamSequence {
        let at = stamp::parse(self.front.options.start_unix_nanos, text);
        self.stream.first_since(at.unwrap_or_default())
    }

    /// Many messages in the order of the stream.
    fn batch(&self, request: &Request) -> Vec<Frame> {
        let subjects = self.server.subjects();
        let filter = filter(request);
        if request.batch < 0 {
            let all = self.stream.matching(subjects, filter, StreamSequence(0));
            return vec![end(all.count() as u64, StreamSequence(0), None)];
        }
        let start = self.start(request);
        let mut matching = self.stream.matching(subjects, filter, start);
        let most = usize::try_from(request.batch).unwrap_or(usize::MAX);
        let found: Vec<StreamSequence> = matching.by_ref().take(most).collect();
        let Some(last) = found.last() else {
            return vec![not_found()];
        };
        let log = self.stream.log();
        // Who reads a long stream so should not have all of it counted each time.
        let behind = if filter.is_none() && log.deleted() == 0 {
            log.last().0.saturating_sub(last.0)
        } else {
            matching.count() as u64
        };
        self.run(&found, behind, request, None)
    }

    /// The last message of each subject.
    fn last_of_each(&self, request: &Request) -> Vec<Frame> {
        let last = self.stream.log().last();
        let no_results = || vec![status(404, "No Results", Vec::new())];
        let up_to = if request.up_to_seq > 0 {
            StreamSequence(request.up_to_seq)
        } else if let Some(text) = &request.up_to_time {
            StreamSequence(self.first_since(text).0.saturating_sub(1))
        } else {
            last
        };
        if up_to > last && self.stream.config().storage == Storage::File {
            return no_results();
        }
        let filters: Vec<&str> = request.multi_last.iter().map(String::as_str).collect();
        let subjects = self.server.subjects();
        let all = self.stream.last_of_each(subjects, &filters, up_to);
        if all.len() > SUBJECTS_MAX {
            return vec![status(413, "Too Many Results", Vec::new())];
        }
        if all.is_empty() {
            return no_results();
        }
        let found: Vec<StreamSequence> = all.into_iter().filter(|at| at.0 >= request.seq).collect();
        let most = usize::try_from(request.batch).ok().filter(|most| *most > 0);
        let (now, behind) = found.split_at(found.len().min(most.unwrap_or(usize::MAX)));
        self.run(now, behind.len() as u64, request, Some(up_to))
    }

    /// Sends `found`, behind which there are more, as far as the request allows, and the end.
    fn run(
        &self,
        found: &[StreamSequence],
        behind: u64,
        request: &Request,
        up_to: Option<StreamSequence>,
    ) -> Vec<Frame> {
        let no_headers = request.no_hdr && up_to.is_none();
        let bytes_max = match request.max_bytes {
            0 => BYTES_MAX,
            bytes => bytes,
        };
        let mut frames = Vec::new();
        let all = behind + found.len() as u64;
        let (mut last, mut pending, mut bytes) = (StreamSequence(0), all, 0_i64);
        for (left, at) in (behind..all).rev().zip(found) {
            let about = About {
                pending: left,
                last,
            };
            let Some(frame) = self.message(*at, Some(&about), no_headers) else {
                frames.push(not_found());
                return frames;
            };
            let record = self.stream.log().get(*at);
            let subject = record.map_or("", |record| self.server.subject(record.subject));
            // The message's own headers count, not those that the answer adds.
            let own = self.stream.log().headers(*at);
            let header_bytes = own.map_or(0, |headers| headers.wire_bytes());
            let size = subject.len() + header_bytes + frame.payload.len();
            bytes = bytes.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
            frames.push(frame);
            last = *at;
            // Without headers nobody counts: so nats-server has it.
            if !no_headers {
                pending = left;
            }
            if bytes >= bytes_max {
                break;
            }
        }
        frames.push(end(pending, last, up_to));
        frames
    }

    /// One message; `None`: it is not there, or its content is not.
    fn message(
        &self,
        at: StreamSequence,
        about: Option<&About>,
        no_headers: bool,
    ) -> Option<Frame> {
        let log = self.stream.log();
        let record = log.get(at)?;
        let payload = match record.payload.bytes {
            0 => Bytes::new(),
            _ => match self.front.contents.get(self.stream.number(), at) {
                Some(content) => content,
                None => return Some(status(500, "Content Not Kept", Vec::new())),
            },
        };
        if no_headers {
            return Some(Frame {
                header: None,
                payload,
            });
        }
        let own = log
            .headers(at)
            .map(Arc::as_ref)
            .map_or(&[][..], Headers::lines);
        let mut lines = own.to_vec();
        let moment = log.stored_at(at).unwrap_or_default();
        let moment = stamp::print(self.front.options.start_unix_nanos, Some(moment));
        lines.push(line("Nats-Stream", self.stream.name()));
        lines.push(line("Nats-Subject", &self.server.subject(record.subject)));
        lines.push(line("Nats-Sequence", &at));
        lines.push(line("Nats-Time-Stamp", &moment));
        if let Some(about) = about {
            lines.push(line("Nats-Num-Pending", &about.pending));
            lines.push(line("Nats-Last-Sequence", &about.last));
        }
        let block = HeaderBlock {
            status: None,
            headers: Headers::new(lines),
        };
        Some(Frame {
            header: Some(bytes_of(&block)),
            payload,
        })
    }
}

fn filter(request: &Request) -> Option<&str> {
    (!request.next_by_subj.is_empty()).then_some(&*request.next_by_subj)
}

fn not_found() -> Frame {
    status(404, "Message Not Found", Vec::new())
}

/// The last frame of many.
fn end(pending: u64, last: StreamSequence, up_to: Option<StreamSequence>) -> Frame {
    let mut lines = vec![
        line("Nats-Num-Pending", &pending),
        line("Nats-Last-Sequence", &last),
    ];
    if let Some(up_to) = up_to {
        lines.push(line("Nats-UpTo-Sequence", &up_to));
    }
    status(204, "EOB", lines)
}

fn status(code: u16, description: &'static str, lines: Vec<(String, String)>) -> Frame {
    let block = HeaderBlock {
        status: Some(Status::new(code, description)),
        headers: Headers::new(lines),
    };
    Frame {
        header: Some(bytes_of(&block)),
        payload: Bytes::new(),
    }
}

fn line(name: &str, value: &dyn std::fmt::Display) -> (String, String) {
    (name.to_owned(), value.to_string())
}

fn bytes_of(block: &HeaderBlock) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(block.wire_bytes());
    block.write_to(&mut bytes);
    bytes
}
