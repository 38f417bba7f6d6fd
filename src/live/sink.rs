//! A server that throws everything away: it greets, answers pings, and acks batches as their publishers
//! asked for. The generator runs against it to learn what it can do at the most.
//!
//! It keeps nothing of a batch: what there is to answer stands in the reply subject of a message, and
//! for an atomic batch in its headers. Leans on the words of `nats`, on `batch` and on tokio.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::error::LiveError;
use crate::batch::atomic::headers::read;
use crate::batch::message::{AtomicCommit, BatchHandle, Control};
use crate::nats::ack::{FlowAck, PubAck, PubAckNames};
use crate::nats::header::{BATCH_ID, HeaderBlock};
use crate::nats::reply::{FastReply, Parsed, parse};
use crate::nats::wire::{
    ClientFrame, Decoder, Limits, Line, Message, Publish, ServerFrame, Token, WireError,
};
use crate::nats::{BatchSequence, MAX_PAYLOAD_BYTES, Operation, StreamSequence, subject};

/// What it says it is: a server that takes everything a client of ours may do.
const VERSION: &str = "2.15.1";
/// nats-server grants no more.
const FLOW_MOST: u16 = 500;
/// Room for one read.
const READ_BYTES: usize = 256 << 10;
/// Subscriptions of one connection; no publisher has more than that of its batch, and one on the way.
const SUBSCRIPTIONS_MOST: usize = 1_024;

/// A running sink, on a thread of its own. Dropping it ends it.
pub(super) struct Sink {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// There is no port or no thread to be had.
    pub(super) fn start() -> Result<Self, LiveError> {
        let trouble = |error| LiveError::system("cannot start a sink for messages", error);
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(trouble)?;
        let address = listener.local_addr().map_err(trouble)?;
        listener.set_nonblocking(true).map_err(trouble)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(trouble)?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = accept(listener, address) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("tidegate-sink".to_owned());
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread.spawn(work).map_err(trouble)?),
        })
    }

    /// Where it is.
    pub(super) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that has panicked is gone, too.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, address: SocketAddr) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(serve(socket, address));
    }
}

/// Serves a connection until its client is gone, or says what makes no sense.
async fn serve(mut socket: TcpStream, address: SocketAddr) {
    let mut peer = Peer::greeted(address);
    loop {
        if !peer.out.is_empty() && socket.write_all(&peer.out).await.is_err() {
            return;
        }
        peer.out.clear();
        let buffer = peer.decoder.buffer();
        buffer.reserve(READ_BYTES);
        match socket.read_buf(buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if peer.answer().is_err() {
            return;
        }
    }
}

/// One connection, without its socket.
struct Peer {
    decoder: Decoder<ClientFrame>,
    /// Subjects, and the subscriptions that are for them.
    subscriptions: Vec<(Token, Token)>,
    out: BytesMut,
}

impl Peer {
    /// One that is about to hear who we are.
    fn greeted(address: SocketAddr) -> Self {
        let info = json!({
            "server_id": "TIDEGATE_SINK",
            "server_name": "tidegate-sink",
            "version": VERSION,
            "proto": 1,
            "host": address.ip().to_string(),
            "port": address.port(),
            "headers": true,
            "jetstream": true,
            "max_payload": MAX_PAYLOAD_BYTES,
        });
        let mut out = BytesMut::new();
        // JSON has its line ends escaped: it is a line.
        let info = Line::new(&info.to_string()).unwrap_or_else(Line::empty);
        ServerFrame::Info(info).encode(&mut out);
        Self {
            decoder: Decoder::new(Limits::default()),
            subscriptions: Vec::new(),
            out,
        }
    }

    /// Answers all whole frames that have been read.
    fn answer(&mut self) -> Result<(), WireError> {
        while let Some(frame) = self.decoder.next_frame()? {
            match frame {
                ClientFrame::Publish(publish) => self.published(&publish),
                ClientFrame::Ping => ServerFrame::Pong.encode(&mut self.out),
                ClientFrame::Subscribe {
                    subject,
                    subscription,
                    ..
                } => {
                    if self.subscriptions.len() < SUBSCRIPTIONS_MOST {
                        self.subscriptions.push((subject, subscription));
                    }
                }
                ClientFrame::Unsubscribe { subscription, .. } => {
                    self.subscriptions.retain(|(_, id)| *id != subscription);
                }
                ClientFrame::Connect(_) | ClientFrame::Pong => {}
            }
        }
        Ok(())
    }

    fn published(&mut self, publish: &Publish) {
        let Some(reply) = &publish.reply else { return };
        match parse(reply.as_str()) {
            Parsed::Fast(fast) => self.fast(reply, &fast),
            Parsed::NotFast => self.single_or_atomic(reply, publish.header.as_deref()),
            Parsed::BadPattern(_) | Parsed::BadBatchId => {}
        }
    }

    /// Every `flow` messages an ack.
    fn fast(&mut self, reply: &Token, fast: &FastReply<'_>) {
        let flow = fast.flow.min(FLOW_MOST);
        let ack = |sequence| FlowAck {
            sequence,
            messages: flow,
        };
        match fast.operation {
            Operation::Commit => self.stored(reply, Some(fast.batch_id), fast.sequence),
            Operation::CommitEob => {
                let last = BatchSequence(fast.sequence.0.saturating_sub(1));
                self.stored(reply, Some(fast.batch_id), last);
            }
            Operation::Ping => self.send(reply, ack(fast.sequence).json()),
            Operation::Start | Operation::Append => {
                if fast.operation == Operation::Start {
                    self.send(reply, ack(BatchSequence(0)).json());
                }
                if fast.sequence.0.is_multiple_of(u64::from(flow.max(1))) {
                    self.send(reply, ack(fast.sequence).json());
                }
            }
        }
    }

    /// A message that wants a PubAck, or one of an atomic batch: an empty answer for each that asks, and a
    /// PubAck at the end.
    fn single_or_atomic(&mut self, reply: &Token, header: Option<&[u8]>) {
        let block = header.and_then(|block| HeaderBlock::parse(block).ok());
        let headers = block.as_ref().map(|block| &block.headers);
        let control = headers.and_then(|headers| read(headers, |_| BatchHandle(0)));
        let id = headers.and_then(|headers| headers.get(BATCH_ID));
        let Some(Control::Atomic {
            sequence, commit, ..
        }) = control
        else {
            return self.stored(reply, None, BatchSequence(1));
        };
        let sequence = u64::from(sequence);
        match commit {
            AtomicCommit::No => self.send(reply, ""),
            AtomicCommit::Store => self.stored(reply, id, BatchSequence(sequence)),
            AtomicCommit::Eob => self.stored(reply, id, BatchSequence(sequence.saturating_sub(1))),
            // a server refuses it, and no publisher of ours sends it
            AtomicCommit::Unknown => {}
        }
    }

    fn stored(&mut self, reply: &Token, batch: Option<&str>, count: BatchSequence) {
        let ack = PubAck {
            sequence: StreamSequence(count.0),
            count: batch.map(|_| count),
            duplicate: false,
        };
        let names = PubAckNames {
            stream: "SINK",
            domain: None,
            batch,
        };
        self.send(reply, ack.json(names));
    }

    /// Sends `body` to who listens on `subject`: the newest subscription first, which is that of the
    /// batch in work.
    fn send(&mut self, subject: &Token, body: impl Display) {
        let mut newest = self.subscriptions.iter().rev();
        let listens =
            newest.find(|(filter, _)| subject::matches(filter.as_str(), subject.as_str()));
        let Some((_, subscription)) = listens else {
            return;
        };
        ServerFrame::Message(Message {
            subject: subject.clone(),
            subscription: subscription.clone(),
            reply: None,
            header: None,
            payload: Bytes::from(body.to_string()),
        })
        .encode(&mut self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        let mut peer = Peer::greeted((Ipv4Addr::LOCALHOST, 4_222).into());
        peer.out.clear();
        peer
    }

    /// The bodies that come for what a client with a batch inbox sends.
    fn answers(lines: &[&str]) -> Vec<String> {
        let mut peer = peer();
        peer.decoder.push(b"CONNECT {}\r\nSUB in.b.> 7\r\n");
        for line in lines {
            peer.decoder.push(format!("{line}\r\n").as_bytes());
        }
        peer.answer().unwrap();
        let text = String::from_utf8(peer.out.to_vec()).unwrap();
        let bodies = text.lines().filter(|line| !line.starts_with("MSG in.b."));
        bodies.map(str::to_owned).collect()
    }

    fn publish(rest: &str) -> String {
        format!("PUB s in.b.{rest}.$FI 2\r\nhi")
    }

    #[test]
    fn acks_come_at_the_asked_flow_and_at_the_end() {
        let sent: Vec<String> = [
            "3.ok.1.0", "3.ok.2.1", "3.ok.3.1", "3.ok.4.1", "3.ok.4.4", "3.ok.5.3",
        ]
        .map(publish)
        .to_vec();
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        assert_eq!(
            answers(&sent),
            [
                r#"{"type":"ack","seq":0,"msgs":3}"#,
                r#"{"type":"ack","seq":3,"msgs":3}"#,
                r#"{"type":"ack","seq":4,"msgs":3}"#,
                r#"{"stream":"SINK","seq":4,"batch":"b","count":4}"#,
            ]
        );
        let one = publish("9000.fail.1.2");
        assert_eq!(
            answers(&[&one, "PING"]),
            [r#"{"stream":"SINK","seq":1,"batch":"b","count":1}"#, "PONG"]
        );
        let wide = publish("9000.fail.1.0");
        assert_eq!(answers(&[&wide]), [r#"{"type":"ack","seq":0,"msgs":500}"#]);
    }

    #[test]
    fn an_atomic_batch_is_answered_where_it_asks_and_at_its_end() {
        let message = |reply: &str, sequence: &str, commit: &str| {
            let block = format!(
                "NATS/1.0\r\nNats-Batch-Id: a\r\nNats-Batch-Sequence: {sequence}\r\n{commit}\r\n"
            );
            let bytes = block.len();
            format!("HPUB s {reply}{bytes} {}\r\n{block}hi", bytes + 2)
        };
        let commit = |value: &str| format!("Nats-Batch-Commit: {value}\r\n");
        assert_eq!(
            answers(&[
                &message("in.b.1 ", "1", ""),
                &message("", "2", ""),
                &message("in.b.3 ", "3", &commit("1")),
            ]),
            ["", r#"{"stream":"SINK","seq":3,"batch":"a","count":3}"#]
        );
        assert_eq!(
            answers(&[&message("in.b.9 ", "9", &commit("eob"))]),
            [r#"{"stream":"SINK","seq":8,"batch":"a","count":8}"#]
        );
        let unknown = message("in.b.2 ", "2", &commit("yes"));
        assert_eq!(answers(&[&unknown]), Vec::<String>::new());
    }

    #[test]
    fn nobody_hears_what_he_does_not_listen_to() {
        assert_eq!(
            answers(&["UNSUB 7", "PUB s in.b.3.ok.1.0.$FI 0\r\n"]),
            Vec::<String>::new()
        );
        assert_eq!(
            answers(&["PUB s in.b.3.ok.1.9.$FI 0\r\n"]),
            Vec::<String>::new()
        );
        assert_eq!(answers(&["PUB s 0\r\n"]), Vec::<String>::new());
        let plain = answers(&["HPUB s in.b.x 12 13\r\nNATS/1.0\r\n\r\nx"]);
        assert_eq!(plain, [r#"{"stream":"SINK","seq":1}"#]);
    }

    /// No bytes make it panic, or take more memory than their own for long.
    #[test]
    fn bytes_of_strangers_do_no_harm() {
        fn takes(bytes: &[u8], split: usize) {
            let mut peer = peer();
            for part in bytes.chunks(split.max(1)) {
                peer.decoder.push(part);
                if peer.answer().is_err() {
                    break;
                }
            }
            assert!(peer.subscriptions.len() <= SUBSCRIPTIONS_MOST);
        }
        let words = [
            "PUB s in.b.",
            "3.ok.1.0",
            "0.fail.",
            "18446744073709551614",
            ".3.$FI",
            " 2\r\nhi\r\n",
            "SUB in.b.> 1\r\n",
            "UNSUB 1\r\n",
            "HPUB s r 1 0\r\n",
            "PING\r\n",
            ".",
            "4",
            " ",
            "\r\n",
        ];
        bolero::check!()
            .with_type::<(Vec<u8>, Vec<u8>, u8)>()
            .for_each(|(raw, choices, split)| {
                let split = usize::from(*split);
                takes(raw, split);
                let choices = choices.iter().map(|choice| usize::from(*choice));
                let text: String = choices.map(|choice| words[choice % words.len()]).collect();
                takes(text.as_bytes(), split);
            });
    }
}
