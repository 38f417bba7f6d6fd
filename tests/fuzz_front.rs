//! Fuzzing of the server's front: no bytes of a client panic it, no split of them changes what it
//! does, and what it keeps stays small.
//!
//! Leans on `server::front`.

use bolero::check;
use tidegate::machine::Time;
use tidegate::server::front::{Coupled, FrontAction, Options};
use tidegate::server::message::ConnectionId;
use tidegate::server::{Server, ServerModel, Source};

/// Two clients, so that messages between them count too.
const CLIENTS: u32 = 2;

/// Small limits, so that the fuzzer reaches them.
fn options() -> Options {
    Options {
        max_payload_bytes: 64,
        control_line_bytes: 128,
        pending_bytes_max: 4_096,
        subscriptions_max: 4,
        subscription_bytes_max: 256,
        subjects_max: 8,
        contents_bytes_max: 1_024,
        ..Options::default()
    }
}

/// Frames that come far, with and without mistakes.
const FRAMES: &[&str] = &[
    "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n",
    "CONNECT {}\r\n",
    "CONNECT {\"echo\":false}\r\n",
    "PING\r\n",
    "PONG\r\n",
    "SUB > 1\r\n",
    "SUB a.* q 2\r\n",
    "SUB _INBOX.x.> 3\r\n",
    "SUB r 4\r\n",
    "UNSUB 1\r\n",
    "UNSUB 4 2\r\n",
    "PUB a.b 1\r\nx\r\n",
    "PUB a.b r 2\r\nxy\r\n",
    "PUB a..b r 0\r\n\r\n",
    "HPUB a.b r 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n",
    "HPUB a.b 3 5\r\nabcde\r\n",
    "HPUB t.a r 36 36\r\nNATS/1.0\r\nNats-Batch-Id: x\r\nA: bc\r\n\r\n\r\n",
    "PUB $JS.API.STREAM.CREATE.S r 57\r\n{\"name\":\"S\",\"subjects\":[\"t.>\"],\"allow_batched\":true     }\r\n",
    "PUB $JS.API.STREAM.CREATE.D r 57\r\n{\"name\":\"D\",\"subjects\":[\"d.>\"],\"allow_direct\":true      }\r\n",
    "PUB $JS.API.STREAM.INFO.S r 0\r\n\r\n",
    "PUB $JS.API.STREAM.PURGE.S r 0\r\n\r\n",
    "PUB $JS.API.STREAM.DELETE.S r 0\r\n\r\n",
    "PUB $JS.API.STREAM.MSG.GET.S r 9\r\n{\"seq\":1}\r\n",
    "PUB $JS.API.STREAM.MSG.DELETE.S r 9\r\n{\"seq\":1}\r\n",
    "PUB $JS.API.STREAM.NAMES r 0\r\n\r\n",
    "PUB $JS.API.DIRECT.GET.D r 19\r\n{\"seq\":1,\"batch\":99}\r\n",
    "PUB $JS.API.DIRECT.GET.D r 20\r\n{\"multi_last\":[\"d.>\"]}\r\n",
    "PUB $JS.API.DIRECT.GET.D.d.a r 0\r\n\r\n",
    "PUB $JS.API.CONSUMER.CREATE.S.c r 0\r\n\r\n",
    "PUB d.a r 3\r\nabc\r\n",
    "PUB d.b 3\r\ndef\r\n",
    "PUB t.a _INBOX.x.A.2.ok.1.0.$FI 1\r\nx\r\n",
    "PUB t.a _INBOX.x.A.2.ok.2.1.$FI 1\r\nx\r\n",
    "PUB t.b _INBOX.x.A.2.ok.3.2.$FI 1\r\nx\r\n",
    "PUB t.a _INBOX.x.A.2.ok.2.4.$FI 0\r\n\r\n",
    "PUB t.a _INBOX.x.A.2.ok.3.3.$FI 0\r\n\r\n",
    "PUB t.a _INBOX.x.B.1.fail.1.0.$FI 1\r\nx\r\n",
    "PUB t.a _INBOX.x.B.1.fail.7.1.$FI 1\r\nx\r\n",
    "PUB t.a _INBOX.x.B.1.fail.07.1.$FI 1\r\nx\r\n",
    "PUB t.a x.1.$FI 1\r\nx\r\n",
    "PUB u _INBOX.x.A.2.ok.1.0.$FI 1\r\nx\r\n",
    "+OK\r\n",
    "\r\n",
];

/// Who says what, and everything that all clients read.
struct Run {
    coupled: Coupled,
    now: Time,
    heard: Vec<Vec<u8>>,
    closed: Vec<ConnectionId>,
}

impl Run {
    fn new() -> Self {
        let server = Server::new(ServerModel::default());
        let mut run = Self {
            coupled: Coupled::new(server, options(), Source::Ingest),
            now: Time::ZERO,
            heard: vec![Vec::new(); CLIENTS as usize],
            closed: Vec::new(),
        };
        for id in 0..CLIENTS {
            let mut actions = Vec::new();
            run.coupled.connect(run.now, ConnectionId(id), &mut actions);
            run.take(actions);
        }
        run
    }

    fn take(&mut self, actions: Vec<FrontAction>) {
        for action in actions {
            match action {
                FrontAction::Ready(id) => {
                    let output = self.coupled.take_output(id);
                    self.heard[id.0 as usize].extend_from_slice(&output);
                }
                FrontAction::Close(id, _) => {
                    let output = self.coupled.take_output(id);
                    self.heard[id.0 as usize].extend_from_slice(&output);
                    self.closed.push(id);
                    self.coupled.front.disconnect(id);
                }
                FrontAction::Publish(_) | FrontAction::Api { .. } => {
                    panic!("the coupled server takes it")
                }
            }
        }
    }

    /// Bytes of a client, in pieces of this length; only then does time go on.
    fn say(&mut self, id: u32, bytes: &[u8], length: usize) {
        for chunk in bytes.chunks(length) {
            let mut actions = Vec::new();
            self.coupled
                .receive(self.now, ConnectionId(id), chunk, &mut actions);
            self.take(actions);
        }
        let until = self.now + Time::from_millis(10);
        while self.coupled.due() <= until {
            self.now = self.now.max(self.coupled.due());
            let mut actions = Vec::new();
            self.coupled.wake(self.now, &mut actions);
            self.take(actions);
        }
        self.now = until;
        let most = options();
        if let Some(buffer) = self.coupled.front.buffer(ConnectionId(id)) {
            let frame = most.control_line_bytes + most.max_payload_bytes;
            assert!(buffer.len() <= frame, "keeps no more than a frame");
        }
    }
}

fn splits_agree(writes: &[(u32, Vec<u8>)], length: usize) {
    let outcome = |length: usize| {
        let mut run = Run::new();
        for (id, bytes) in writes {
            run.say(*id, bytes, length);
        }
        (run.heard, run.closed)
    };
    let whole = outcome(usize::MAX);
    assert_eq!(whole, outcome(1));
    assert_eq!(whole, outcome(length.max(1)));
}

#[test]
fn any_bytes_and_any_split() {
    check!()
        .with_type::<(Vec<u8>, u8)>()
        .for_each(|(bytes, length)| {
            splits_agree(&[(0, bytes.clone())], usize::from(*length));
        });
}

#[test]
fn any_frames_of_two_clients_and_any_split() {
    check!()
        .with_type::<(Vec<(u8, bool)>, u8)>()
        .for_each(|(choices, length)| {
            let writes: Vec<(u32, Vec<u8>)> = choices
                .iter()
                .map(|(choice, second)| {
                    let frame = FRAMES[usize::from(*choice) % FRAMES.len()];
                    (u32::from(*second), frame.as_bytes().to_vec())
                })
                .collect();
            splits_agree(&writes, usize::from(*length));
        });
}

/// Good frames with a byte changed, put in or taken out here and there.
#[test]
fn spoiled_frames_and_any_split() {
    type Spoil = (u16, u8, u8);
    check!()
        .with_type::<(Vec<u8>, Vec<Spoil>, u8)>()
        .for_each(|(choices, spoils, length)| {
            let mut bytes = FRAMES[0].as_bytes().to_vec();
            for choice in choices {
                bytes.extend(FRAMES[usize::from(*choice) % FRAMES.len()].as_bytes());
            }
            for (at, how, byte) in spoils.iter().take(4) {
                let at = usize::from(*at) % bytes.len();
                match how % 3 {
                    0 => bytes[at] = *byte,
                    1 => bytes.insert(at, *byte),
                    _ => drop(bytes.remove(at)),
                }
            }
            splits_agree(&[(0, bytes)], usize::from(*length));
        });
}
