//! The core client against a server that knows just enough of the protocol.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::batch::fast::publisher::{Profile, Settings};
use crate::event::BatchNumber;
use crate::nats::GapMode;

const GOOD: &str = "tidegate.0";
/// No connection takes a message with such a subject.
const BAD: &str = "tidegate 0";

/// Serves one connection: acks starts and pings, and answers an end of batch.
async fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let info = concat!(
        r#"INFO {"server_id":"x","server_name":"x","version":"2.14.0","go":"x","#,
        r#""host":"127.0.0.1","port":1,"proto":1,"headers":true,"max_payload":1048576}"#,
        "\r\n"
    );
    stream.get_mut().write_all(info.as_bytes()).await?;
    let (mut line, mut subscription, mut stored) = (String::new(), String::new(), 0_u64);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["PING"] => stream.get_mut().write_all(b"PONG\r\n").await?,
            ["SUB", _, id] => subscription = (*id).to_owned(),
            ["PUB", _, reply, bytes] => {
                let mut payload = vec![0; bytes.parse::<usize>().unwrap() + 2];
                stream.read_exact(&mut payload).await?;
                let tokens: Vec<_> = reply.rsplit('.').collect();
                stored += u64::from(matches!(tokens[1], "0" | "1"));
                let answer = match tokens[1] {
                    "0" => r#"{"type":"ack","seq":0,"msgs":10}"#.to_owned(),
                    "4" => format!(r#"{{"type":"ack","seq":{stored},"msgs":10}}"#),
                    "3" => {
                        format!(r#"{{"stream":"S","seq":{stored},"batch":"x","count":{stored}}}"#)
                    }
                    _ => continue,
                };
                let message = format!(
                    "MSG {reply} {subscription} {}\r\n{answer}\r\n",
                    answer.len()
                );
                stream.get_mut().write_all(message.as_bytes()).await?;
            }
            _ => {}
        }
    }
}

/// Keeps what is told; its clock moves on whenever it is read.
#[derive(Default)]
struct Ears {
    now: Cell<u64>,
    told: RefCell<Vec<Event>>,
}

impl Ears {
    fn sent(&self, wanted: Operation) -> usize {
        let sent = |event: &&Event| matches!(event, Event::Published { operation, .. } if *operation == wanted);
        self.told.borrow().iter().filter(sent).count()
    }
}

impl Witness for Ears {
    fn now(&self) -> Time {
        self.now.set(self.now.get() + 1_000);
        Time::from_nanos(self.now.get())
    }

    fn now_roughly(&self) -> Time {
        self.now()
    }

    fn tell(&self, _: Time, event: Event) {
        self.told.borrow_mut().push(event);
    }
}

/// Messages to these subjects, then a rest until two pings are out, then the end of the batch.
struct Script<'e> {
    ears: &'e Ears,
    subjects: VecDeque<&'static str>,
    rests: bool,
}

impl Source for Script<'_> {
    fn next(&mut self, now: Time, _: BatchSequence) -> Next {
        if let Some(subject) = self.subjects.pop_front() {
            let message = Message {
                subject: subject.into(),
                payload: Bytes::from_static(b"0123456789"),
                headers: None,
            };
            return Next::Offer(message, now);
        }
        if self.rests && self.ears.sent(Operation::Ping) < 2 {
            return Next::Wait(Time::NEVER);
        }
        Next::CommitEob
    }

    async fn until(&self, _: Time) {
        while self.ears.sent(Operation::Ping) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Plays one batch; what was told, and how it ended.
fn play(subjects: &[&'static str], idle_ping: Option<Time>) -> (Ears, BatchEnd) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ears = Ears::default();
    let end = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream).await
        });
        let connection = async_nats::connect(address.to_string()).await.unwrap();
        let settings = BatchSettings {
            batch: BatchNumber(0),
            publisher: Settings {
                flow: 10,
                outstanding_acks: 2,
                gap: GapMode::Fail,
                ack_timeout: Time::from_secs(20),
                profile: Profile {
                    idle_ping,
                    ..Profile::ADR
                },
            },
        };
        let client = CoreClient::open(&connection, &settings, &ears)
            .await
            .unwrap();
        let mut script = Script {
            ears: &ears,
            subjects: subjects.iter().copied().collect(),
            rests: idle_ping.is_some(),
        };
        client.publish(&mut script).await
    });
    (ears, end)
}

#[test]
fn an_idle_application_pings() {
    let (ears, end) = play(&[GOOD; 3], Some(Time::from_millis(5)));
    assert_eq!(end.outcome, Outcome::Committed, "{end:?}");
    assert_eq!(end.acknowledged, BatchSequence(3));
    assert!(ears.sent(Operation::Ping) >= 2);
}

#[test]
fn a_message_that_the_connection_refuses_is_not_told_as_sent() {
    for before in 0..3 {
        let mut subjects = vec![GOOD; before];
        subjects.extend([BAD, GOOD]);
        let (ears, end) = play(&subjects, None);
        assert_eq!(end.outcome, Outcome::ClientError);
        assert!(end.detail.contains("subject"), "{end:?}");
        let sent = ears.sent(Operation::Start) + ears.sent(Operation::Append);
        assert_eq!(sent, before);
        let told = ears.told.borrow();
        let ended = told
            .iter()
            .filter(|event| matches!(event, Event::BatchEnded { .. }));
        assert_eq!(ended.count(), 1);
        assert!(matches!(told.last(), Some(Event::BatchEnded { .. })));
    }
}
