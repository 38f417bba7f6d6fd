//! A probe's host in the event lane: its machine, and what it asks in the server's own words.
//!
//! Leans on `fabric`, on `load` for the machine and on the server model.

use super::fabric::{Fabric, Wake};
use crate::event::PublisherId;
use crate::load::{Ask, PROBE_PAYLOAD_BYTES, Probe, ProbeAction, ProbeInput};
use crate::machine::{Machine, Sink, Time};
use crate::nats::StreamSequence;
use crate::scenario::Settings;
use crate::server::api::{ApiAnswer, ApiFailure, ApiRequest, InfoDetails, Purge, Which};
use crate::server::message::{ConnectionId, Control, Payload, Publish, Reply, ReplyTo, SubjectId};
use crate::server::{Input, Server};
use crate::stream::config::StreamConfig;

/// In the lower half of the tag of a reply to a probe: no batch has this number.
const OF_PROBE: u64 = u32::MAX as u64;
/// Bytes of the reply subject of a probe.
const INBOX_BYTES: u32 = 30;

/// What an answer says: 0 or the error, and of a PubAck where the message is.
pub(super) type Told = (u16, Option<StreamSequence>);

/// One probe of the run, on a host of its own.
pub(super) struct ProbeHost {
    /// Its connection is numbered behind those of publishers.
    client: PublisherId,
    probe: Probe,
    stream: String,
    other: String,
    config: StreamConfig,
    subject: (SubjectId, String),
}

impl ProbeHost {
    /// The probes of a file.
    pub(super) fn all(settings: &Settings, publishers: usize, server: &mut Server) -> Vec<Self> {
        let stream = &settings.stream.name;
        let config = server.stream(stream).map(|stream| stream.config().clone());
        let config = config.unwrap_or_default();
        let probes = (0..).zip(&settings.probes);
        probes
            .map(|(id, own)| {
                let subject = settings.probe_subject(id);
                Self {
                    client: PublisherId(publishers as u32 + id),
                    probe: Probe::new(id, own),
                    stream: stream.clone(),
                    other: settings.other_stream().unwrap_or_default(),
                    config: config.clone(),
                    subject: (server.intern(&subject), subject),
                }
            })
            .collect()
    }

    /// Whether it sends nothing more and waits for nothing.
    pub(super) fn is_done(&self) -> bool {
        self.probe.is_done()
    }

    /// Sets its timer.
    pub(super) fn begin(&self, clients: usize, fabric: &mut Fabric<'_>) {
        let timer = Wake::Timer(self.client.0 as usize).index(clients);
        fabric.queue.arm(timer, self.probe.due());
    }

    /// Its timer.
    pub(super) fn wake(&mut self, clients: usize, fabric: &mut Fabric<'_>) {
        self.act(clients, fabric, |probe, now, sink| probe.wake(now, sink));
    }

    /// The publishers are done.
    pub(super) fn stop(&mut self, clients: usize, fabric: &mut Fabric<'_>) {
        self.act(clients, fabric, |probe, now, sink| {
            probe.step(now, ProbeInput::Stop, sink);
        });
    }

    /// An answer arrives.
    pub(super) fn answered(
        &mut self,
        number: u32,
        (code, sequence): Told,
        clients: usize,
        fabric: &mut Fabric<'_>,
    ) {
        let input = ProbeInput::Answered {
            number,
            code,
            sequence,
        };
        self.act(clients, fabric, |probe, now, sink| {
            probe.step(now, input, sink);
        });
    }

    /// What it asks, as it reaches the server.
    pub(super) fn input(&self, number: u32, ask: Ask) -> Input {
        let to = ReplyTo {
            connection: ConnectionId(self.client.0),
            tag: u64::from(number) << 32 | OF_PROBE,
        };
        let stream = self.stream.clone();
        let request = match ask {
            Ask::Publish => {
                let (subject, name) = &self.subject;
                return Input::Publish(Publish {
                    subject: *subject,
                    reply: Some(to),
                    control: Control::Plain,
                    payload: Payload {
                        bytes: PROBE_PAYLOAD_BYTES,
                        digest: number,
                    },
                    headers: None,
                    wire_bytes: PROBE_PAYLOAD_BYTES + name.len() as u32 + INBOX_BYTES,
                });
            }
            Ask::Info => ApiRequest::Info {
                stream,
                details: InfoDetails::default(),
            },
            Ask::MessageGet(sequence) => ApiRequest::MessageGet {
                stream,
                which: Which::At(sequence),
            },
            Ask::MessageDelete(sequence) => ApiRequest::MessageDelete { stream, sequence },
            Ask::Purge => ApiRequest::Purge {
                stream,
                purge: Purge {
                    filter: Some(self.subject.1.clone()),
                    ..Purge::default()
                },
            },
            Ask::PurgeOther => ApiRequest::Purge {
                stream: self.other.clone(),
                purge: Purge::default(),
            },
            Ask::Update(number) => {
                let mut config = self.config.clone();
                let description = Ask::description(number).into();
                config.other.insert("description".to_owned(), description);
                ApiRequest::Update(config)
            }
        };
        Input::Api {
            to,
            request: Box::new(request),
        }
    }

    fn act(
        &mut self,
        clients: usize,
        fabric: &mut Fabric<'_>,
        act: impl FnOnce(&mut Probe, Time, &mut dyn Sink<ProbeAction>),
    ) {
        let now = fabric.now;
        let mut sink = ProbeSink {
            client: self.client,
            fabric,
        };
        act(&mut self.probe, now, &mut sink);
        self.begin(clients, fabric);
    }
}

/// Turns what a probe decides into frames and events.
struct ProbeSink<'s, 'o> {
    client: PublisherId,
    fabric: &'s mut Fabric<'o>,
}

impl Sink<ProbeAction> for ProbeSink<'_, '_> {
    fn emit(&mut self, action: ProbeAction) {
        match action {
            ProbeAction::Send(number, ask) => self.fabric.ask(self.client, number, ask),
            ProbeAction::Tell(event) => self.fabric.tell(&event),
        }
    }
}

/// The number of the request that an answer is to; `None`: it is not to a probe.
pub(super) const fn number_of(to: ReplyTo) -> Option<u32> {
    if to.tag as u32 as u64 == OF_PROBE {
        Some((to.tag >> 32) as u32)
    } else {
        None
    }
}

/// What a reply to a publish says.
pub(super) fn told(reply: &Reply) -> Told {
    match reply {
        Reply::PubAck(ack, _) => (0, Some(ack.sequence)),
        Reply::Refused(error) => (error.code.number(), None),
        Reply::NoResponders(_) => (503, None),
        Reply::TooManyRequests => (429, None),
        // These go to batches.
        Reply::Empty | Reply::Ack(_) | Reply::Gap(_) | Reply::Error(_) => (0, None),
    }
}

/// What the answer to an API request says.
pub(super) fn answer_code(answer: &Result<ApiAnswer, ApiFailure>) -> u16 {
    answer.as_ref().err().map_or(0, |failure| failure.number)
}
