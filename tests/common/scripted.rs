//! A scripted NATS server for simulated networks: greets, answers pings and requests, and acks fast
//! batches. It knows just enough of the protocol, and stores nothing.
//!
//! Leans on `nats::wire` and on `tokio::net`. Included by tests and a benchmark.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tidegate::nats::wire::{
    ClientFrame, Decoder, Limits, Line, Message, Publish, ServerFrame, Token,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The port of a NATS server.
pub(crate) const PORT: u16 = 4_222;

/// Hears what the server reads: from whom, and how many bytes at once.
pub(crate) type Ear = Rc<dyn Fn(SocketAddr, usize)>;

/// Serves every connection until the host ends.
pub(crate) async fn serve(ear: Ear) {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await.expect("a port");
    loop {
        let (stream, from) = listener.accept().await.expect("a connection");
        let ear = Rc::clone(&ear);
        tokio::task::spawn_local(async move {
            // A client that leaves ends its connection as it likes.
            let _ = converse(stream, from, ear).await;
        });
    }
}

async fn converse(mut stream: TcpStream, from: SocketAddr, ear: Ear) -> io::Result<()> {
    let mut session = Session::default();
    let mut decoder = Decoder::<ClientFrame>::new(Limits::default());
    let mut incoming = BytesMut::with_capacity(64 << 10);
    let mut outgoing = BytesMut::new();
    session.greet(&mut outgoing);
    loop {
        stream.write_all(&outgoing).await?;
        outgoing.clear();
        incoming.clear();
        let count = stream.read_buf(&mut incoming).await?;
        if count == 0 {
            return Ok(());
        }
        ear(from, count);
        decoder.push(&incoming);
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            session.answer(frame, &mut outgoing);
        }
    }
}

/// What the server knows of one connection.
#[derive(Default)]
struct Session {
    /// Subscriptions: the subject without its wildcard, and the id.
    subscriptions: Vec<(String, Token)>,
    /// Messages of each batch.
    batches: RefCell<BTreeMap<String, u64>>,
}

impl Session {
    fn greet(&self, out: &mut BytesMut) {
        let info = concat!(
            r#"{"server_id":"x","server_name":"x","version":"2.14.0","go":"x","host":"x","#,
            r#""port":4222,"proto":1,"headers":true,"max_payload":1048576}"#
        );
        ServerFrame::Info(Line::new(info).expect("a line")).encode(out);
    }

    fn answer(&mut self, frame: ClientFrame, out: &mut BytesMut) {
        match frame {
            ClientFrame::Ping => ServerFrame::Pong.encode(out),
            ClientFrame::Subscribe {
                subject,
                subscription,
                ..
            } => {
                let subject = subject.as_str().trim_end_matches(['*', '>']).to_owned();
                self.subscriptions.push((subject, subscription));
            }
            ClientFrame::Publish(publish) => self.published(&publish, out),
            ClientFrame::Connect(_) | ClientFrame::Pong | ClientFrame::Unsubscribe { .. } => {}
        }
    }

    fn published(&mut self, publish: &Publish, out: &mut BytesMut) {
        let Some(reply) = &publish.reply else { return };
        let answer = match batch_of(reply.as_str()) {
            None => Some(publish.payload.clone()),
            Some((batch, flow, operation)) => self.batched(batch, flow, operation),
        };
        let Some(payload) = answer else { return };
        let mut subscriptions = self.subscriptions.iter();
        let wants = |(subject, _): &&(String, Token)| reply.as_str().starts_with(subject.as_str());
        if let Some((_, subscription)) = subscriptions.find(wants) {
            let message = Message {
                subject: reply.clone(),
                subscription: subscription.clone(),
                reply: None,
                header: None,
                payload,
            };
            ServerFrame::Message(message).encode(out);
        }
    }

    /// What a message of a fast batch is answered with: a start and a ping always, others as often
    /// as the client asked.
    fn batched(&self, batch: &str, flow: u64, operation: &str) -> Option<Bytes> {
        let mut batches = self.batches.borrow_mut();
        if !batches.contains_key(batch) {
            batches.insert(batch.to_owned(), 0);
        }
        let count = batches.get_mut(batch)?;
        *count += u64::from(matches!(operation, "0" | "1" | "2"));
        let count = *count;
        let mut answer = String::new();
        let written = match operation {
            "0" => write!(answer, r#"{{"type":"ack","seq":0,"msgs":{flow}}}"#),
            "1" if count % flow == 0 => {
                write!(answer, r#"{{"type":"ack","seq":{count},"msgs":{flow}}}"#)
            }
            "4" => {
                let acked = count - count % flow;
                write!(answer, r#"{{"type":"ack","seq":{acked},"msgs":{flow}}}"#)
            }
            "2" | "3" => write!(
                answer,
                r#"{{"stream":"S","seq":{count},"batch":"x","count":{count}}}"#
            ),
            _ => return None,
        };
        written.expect("a string takes everything");
        Some(Bytes::from(answer))
    }
}

/// The batch, flow and operation of a reply subject of fast ingest.
fn batch_of(reply: &str) -> Option<(&str, u64, &str)> {
    let rest = reply.strip_suffix(".$FI")?;
    let mut tokens = rest.rsplitn(5, '.');
    let operation = tokens.next()?;
    let (_sequence, _gap) = (tokens.next()?, tokens.next()?);
    let flow = tokens.next()?.parse().ok()?;
    Some((tokens.next()?, flow, operation))
}
