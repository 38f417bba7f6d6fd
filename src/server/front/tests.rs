//! The front in bytes. What is expected here is what nats-server 2.15.1 wrote on its socket.

use super::*;
use crate::machine::Machine as _;
use crate::server::{ServerModel, Source};

const CONNECT: &str = r#"CONNECT {"verbose":false,"headers":true,"no_responders":true}"#;

/// A server with clients, in bytes.
struct Lab {
    coupled: Coupled,
    now: Time,
    actions: Vec<FrontAction>,
}

impl Lab {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let server = Server::new(ServerModel::default());
        Self {
            coupled: Coupled::new(server, options, Source::Ingest),
            now: Time::from_secs(1),
            actions: Vec::new(),
        }
    }

    /// Connects a client and throws its greeting away.
    fn connect(&mut self, id: u32, connect: &str) {
        let id = ConnectionId(id);
        self.coupled.connect(self.now, id, &mut self.actions);
        self.coupled.take_output(id);
        self.say(id.0, &format!("{connect}\r\n"));
    }

    /// Sends text, lets the server finish, and gives what the client reads.
    fn say(&mut self, id: u32, text: &str) -> String {
        self.tell(id, text);
        self.hear(id)
    }

    fn tell(&mut self, id: u32, text: &str) {
        let id = ConnectionId(id);
        let out = &mut self.actions;
        self.coupled.receive(self.now, id, text.as_bytes(), out);
        while self.coupled.server.due() < self.now + Time::from_millis(50) {
            self.now = self.now.max(self.coupled.server.due());
            self.coupled.wake(self.now, out);
        }
    }

    fn hear(&mut self, id: u32) -> String {
        let output = self.coupled.take_output(ConnectionId(id));
        String::from_utf8(output.to_vec()).unwrap()
    }

    fn closed(&self, id: u32) -> Option<CloseReason> {
        self.actions.iter().find_map(|action| match action {
            FrontAction::Close(own, why) if own.0 == id => Some(*why),
            _ => None,
        })
    }

    /// Calls the API and gives the JSON of the answer.
    fn call(&mut self, subject: &str, body: &str) -> serde_json::Value {
        let length = body.len();
        let text = format!("PUB $JS.API.{subject} api.r {length}\r\n{body}\r\n");
        let answer = self.say(9, &text);
        let (_, body) = answer.split_once("\r\n").unwrap();
        serde_json::from_str(body.trim_end()).unwrap()
    }

    fn stream(&mut self, config: &str) {
        // Filters with wildcards stand in subjects of calls.
        let connect =
            r#"CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
        self.connect(9, connect);
        self.say(9, "SUB api.r 1\r\n");
        let answer = self.call("STREAM.CREATE.S", config);
        assert_eq!(answer["did_create"], true, "{answer}");
    }
}

/// One client that has connected, and what it reads after these bytes.
fn alone(connect: &str, text: &str) -> (String, Option<CloseReason>) {
    let mut lab = Lab::new();
    lab.connect(0, connect);
    lab.hear(0);
    let heard = lab.say(0, text);
    (heard, lab.closed(0))
}

#[test]
fn a_client_is_greeted() {
    let mut lab = Lab::new();
    lab.coupled
        .connect(lab.now, ConnectionId(3), &mut lab.actions);
    assert_eq!(lab.actions, [FrontAction::Ready(ConnectionId(3))]);
    let info = lab.hear(3);
    let json = info.strip_prefix("INFO ").unwrap();
    let json: serde_json::Value = serde_json::from_str(json.trim_end()).unwrap();
    for (key, value) in [("version", "2.15.1"), ("client_ip", "127.0.0.1")] {
        assert_eq!(json[key], value);
    }
    assert_eq!(
        (&json["headers"], &json["jetstream"]),
        (&true.into(), &true.into())
    );
    assert_eq!((&json["proto"], &json["client_id"]), (&1.into(), &4.into()));
}

#[test]
fn frames_are_answered_as_by_the_real_server() {
    let verbose = r#"CONNECT {"headers":true,"no_responders":true}"#;
    for (connect, text, expected) in [
        (
            CONNECT,
            "PING\r\nping\r\nPING x\r\n",
            "PONG\r\nPONG\r\nPONG\r\n",
        ),
        (CONNECT, "PING\nPING\n", "PONG\r\nPONG\r\n"),
        (CONNECT, "SUB a 1\r\nPUB a 1\r\nx\r\n", "MSG a 1 1\r\nx\r\n"),
        (
            CONNECT,
            "SUB\ta\t1\r\nPUB  a   r 1\r\nx\r\n",
            "MSG a 1 r 1\r\nx\r\n",
        ),
        (CONNECT, "SUB a q 1\r\nPUB a 0\r\n\r\n", "MSG a 1 0\r\n\r\n"),
        (
            CONNECT,
            "SUB a 1\r\nSUB b 1\r\nPUB b 0\r\n\r\nPUB a 0\r\n\r\n",
            "MSG a 1 0\r\n\r\n",
        ),
        (
            verbose,
            "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\nPING\r\nPONG\r\nUNSUB 99\r\n",
            "+OK\r\n+OK\r\nMSG a 1 1\r\nx\r\n+OK\r\nPONG\r\n+OK\r\n",
        ),
        (
            CONNECT,
            "SUB a 1\r\nUNSUB 1 2\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nPUB a 1\r\n3\r\n",
            "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n",
        ),
        (
            CONNECT,
            "SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nUNSUB 1 1\r\nPUB a 1\r\n3\r\n",
            "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n",
        ),
        (CONNECT, "SUB a 1\r\nUNSUB 1 0\r\nPUB a 0\r\n\r\n", ""),
        (
            CONNECT,
            "SUB a..b 1\r\nPING\r\n",
            "-ERR 'Invalid Subject'\r\nPONG\r\n",
        ),
        (
            CONNECT,
            "SUB a.>.b 1\r\nPING\r\n",
            "-ERR 'Invalid Subject'\r\nPONG\r\n",
        ),
        (
            CONNECT,
            "SUB > 1\r\nPUB a..b 1\r\nx\r\nPUB a.* 1\r\nx\r\n",
            "-ERR 'Invalid Publish Subject'\r\n-ERR 'Invalid Publish Subject'\r\nMSG a.* 1 1\r\nx\r\n",
        ),
        (
            r#"CONNECT {"verbose":false,"pedantic":false}"#,
            "SUB > 1\r\nPUB a..b 1\r\nx\r\nPUB a.* 1\r\nx\r\n",
            "MSG a.* 1 1\r\nx\r\n",
        ),
        (
            r#"CONNECT {"verbose":false,"echo":false}"#,
            "SUB a 1\r\nPUB a 1\r\nx\r\n",
            "",
        ),
        (
            CONNECT,
            "SUB a 1\r\nHPUB a r 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\n",
            "HMSG a 1 r 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\n",
        ),
    ] {
        let (heard, closed) = alone(connect, text);
        assert_eq!((heard.as_str(), closed), (expected, None), "{text:?}");
    }
}

#[test]
fn that_nobody_listens_is_told_to_who_asked_and_can_hear_it() {
    const TOLD: &str = "HMSG r.b 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: a\r\n\r\n\r\n";
    for (connect, text, expected) in [
        (CONNECT, "PUB a r.b 1\r\nx\r\n", ""),
        (CONNECT, "SUB r.b 1\r\nPUB a r.b 1\r\nx\r\n", TOLD),
        (CONNECT, "SUB r.* 1\r\nPUB a r.b 1\r\nx\r\n", TOLD),
        (CONNECT, "SUB r.* q 1\r\nPUB a r.b 1\r\nx\r\n", ""),
        (
            CONNECT,
            "SUB r.> 1\r\nPUB a r.B.1.ok.1.0.$FI 1\r\nx\r\n",
            "HMSG r.B.1.ok.1.0.$FI 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: a\r\n\r\n\r\n",
        ),
        // At once, before what follows is looked at.
        (
            CONNECT,
            "SUB r.> 1\r\nPUB a r.B.1.ok.1.0.$FI 1\r\nx\r\nPING\r\n",
            "HMSG r.B.1.ok.1.0.$FI 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: a\r\n\r\n\r\nPONG\r\n",
        ),
        (
            r#"CONNECT {"verbose":false,"headers":true}"#,
            "SUB r.> 1\r\nPUB a r.B.1.ok.1.0.$FI 1\r\nx\r\n",
            "",
        ),
        (
            CONNECT,
            "SUB r.b 1\r\nSUB > 2\r\nPUB a r.b 1\r\nx\r\n",
            "MSG a 2 r.b 1\r\nx\r\n",
        ),
        (
            r#"CONNECT {"verbose":false,"headers":true}"#,
            "SUB r.b 1\r\nPUB a r.b 1\r\nx\r\n",
            "",
        ),
    ] {
        assert_eq!(
            alone(connect, text),
            (expected.to_owned(), None),
            "{text:?}"
        );
    }
    let mut lab = Lab::new();
    lab.connect(0, CONNECT);
    lab.connect(1, CONNECT);
    lab.say(1, "SUB r 1\r\n");
    assert_eq!(lab.say(0, "PUB a r 1\r\nx\r\n"), "");
    assert_eq!(lab.hear(1), "", "another's subscription does not hear it");
}

#[test]
fn bytes_without_sense_end_the_connection() {
    let protocol = CloseReason::Protocol;
    let long = format!("PUB {} 1\r\n", "a".repeat(5_000));
    for (text, expected, why) in [
        (
            "FOO bar\r\nPING\r\n",
            "-ERR 'Unknown Protocol Operation'\r\n",
            protocol,
        ),
        ("\r\n", "-ERR 'Unknown Protocol Operation'\r\n", protocol),
        (
            "PUB a 1\r\nxyz\r\n",
            "-ERR 'Unknown Protocol Operation'\r\n",
            protocol,
        ),
        (
            "UNSUB\r\n",
            "-ERR 'Unknown Protocol Operation'\r\n",
            protocol,
        ),
        ("PUB a\r\nPING\r\n", "", protocol),
        ("PUB a x\r\n", "", protocol),
        ("PUB a -1\r\n", "", protocol),
        ("PUB a 99999999999\r\n", "", protocol),
        ("HPUB a 10 5\r\n", "", protocol),
        ("SUB a\r\n", "", protocol),
        ("SUB a b c d\r\n", "", protocol),
        ("CONNECT {bad\r\n", "", protocol),
        ("CONNECT []\r\n", "", protocol),
        ("CONNECT {\"no_responders\":true}\r\n", "", protocol),
        (
            "PUB a 1048577\r\n",
            "-ERR 'Maximum Payload Violation'\r\n",
            CloseReason::MaximumPayload,
        ),
        (&long, "-ERR 'maximum control line exceeded'\r\n", protocol),
    ] {
        let (heard, closed) = alone(CONNECT, text);
        assert_eq!((heard.as_str(), closed), (expected, Some(why)), "{text:?}");
    }
    let (heard, closed) = alone(
        r#"CONNECT {"verbose":false}"#,
        "HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n",
    );
    assert_eq!(
        (heard.as_str(), closed),
        ("", Some(protocol)),
        "headers are off"
    );
}

#[test]
fn the_members_of_a_queue_take_turns() {
    let mut lab = Lab::new();
    for id in 0..3 {
        lab.connect(id, CONNECT);
        lab.say(id, "SUB a q 1\r\n");
    }
    lab.say(2, "SUB a 2\r\nSUB *  other 3\r\n");
    for round in 0..6 {
        lab.tell(0, "PUB a 0\r\n\r\n");
        let heard = [lab.hear(0), lab.hear(1), lab.hear(2)];
        for (id, heard) in heard.iter().enumerate() {
            let whose = heard.contains("MSG a 1 0");
            assert_eq!(whose, id == round % 3, "round {round}: {heard}");
        }
        assert!(heard[2].contains("MSG a 2 0") && heard[2].contains("MSG a 3 0"));
    }
}

#[test]
fn a_client_without_headers_gets_the_payload_alone() {
    let mut lab = Lab::new();
    lab.connect(0, CONNECT);
    lab.connect(1, r#"CONNECT {"verbose":false}"#);
    lab.say(1, "SUB x 1\r\n");
    lab.say(0, "HPUB x 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\n");
    assert_eq!(lab.hear(1), "MSG x 1 5\r\nhello\r\n");
    lab.coupled.front.disconnect(ConnectionId(1));
    lab.say(0, "PUB x 0\r\n\r\n");
    assert_eq!(lab.hear(1), "", "who is gone hears nothing");
    assert_eq!(lab.coupled.front.connections(), 1);
}

#[test]
fn who_does_not_read_is_cut_off_and_keeps_no_memory() {
    let mut lab = Lab::with(Options {
        pending_bytes_max: 10_000,
        ..Options::default()
    });
    lab.connect(0, CONNECT);
    lab.connect(1, CONNECT);
    lab.tell(1, "SUB x 1\r\n");
    let message = format!("PUB x 1000\r\n{}\r\n", "x".repeat(1_000));
    for _ in 0..9 {
        lab.tell(0, &message);
    }
    assert_eq!(lab.closed(1), None);
    // Taken by the driver and not written: it still counts.
    lab.coupled.front.take_output(ConnectionId(1));
    lab.tell(0, &message);
    assert_eq!(lab.closed(1), Some(CloseReason::SlowConsumer));
    assert_eq!(lab.hear(1), "");
    assert_eq!(lab.closed(0), None);
}

#[test]
fn idle_clients_are_pinged_and_dead_ones_cut_off() {
    let mut lab = Lab::new();
    lab.connect(0, CONNECT);
    lab.connect(1, CONNECT);
    let mut pings = [0, 0];
    for _ in 0..8 {
        lab.now = lab.coupled.front.due();
        lab.coupled.front.wake(lab.now, &mut lab.actions);
        for (id, pings) in (0..).zip(&mut pings) {
            if lab.hear(id).contains("PING") {
                *pings += 1;
                if id == 0 {
                    lab.say(0, "PONG\r\n");
                }
            }
        }
    }
    assert_eq!(
        (lab.closed(0), lab.closed(1)),
        (None, Some(CloseReason::Stale))
    );
    assert_eq!(pings[1], 2);
    assert!(pings[0] > 2, "{pings:?}");
}

#[test]
fn subscriptions_are_bounded() {
    let mut lab = Lab::with(Options {
        subscriptions_max: 2,
        ..Options::default()
    });
    lab.connect(0, CONNECT);
    let heard = lab.say(0, "SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nPUB a 0\r\n\r\n");
    let expected = "-ERR 'maximum subscriptions exceeded'\r\nMSG a 1 0\r\n\r\nMSG a 2 0\r\n\r\n";
    assert_eq!(heard, expected);
    let heard = lab.say(0, "UNSUB 1\r\nSUB a 4\r\nPUB a 0\r\n\r\n");
    assert_eq!(heard, "MSG a 2 0\r\n\r\nMSG a 4 0\r\n\r\n");
}

#[test]
fn a_message_goes_to_its_stream_and_to_subscribers() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"]}"#);
    lab.connect(0, CONNECT);
    let heard = lab.say(0, "SUB t.a 1\r\nSUB r 2\r\nPUB t.a r 2\r\nhi\r\n");
    let expected = "MSG t.a 1 r 2\r\nhi\r\nMSG r 2 22\r\n{\"stream\":\"S\",\"seq\":1}\r\n";
    assert_eq!(heard, expected);
    let answer = lab.call("STREAM.MSG.GET.S", r#"{"seq":1}"#);
    assert_eq!(answer["message"]["data"], "aGk=");
    assert_eq!(answer["message"]["subject"], "t.a");
    let answer = lab.call("STREAM.DELETE.S", "");
    assert_eq!(answer["success"], true);
    let heard = lab.say(0, "UNSUB 1\r\nPUB t.a r 2\r\nhi\r\n");
    assert!(
        heard.contains("NATS/1.0 503\r\nNats-Subject: t.a"),
        "{heard}"
    );
}

#[test]
fn contents_go_with_their_messages_and_stay_within_their_limit() {
    let mut lab = Lab::with(Options {
        contents_bytes_max: 20_000,
        ..Options::default()
    });
    lab.stream(r#"{"name":"S","subjects":["t.>"],"max_msgs":3,"allow_direct":true}"#);
    lab.connect(0, CONNECT);
    for digit in 0..9 {
        let payload = digit.to_string().repeat(1_000);
        lab.say(0, &format!("PUB t.a 1000\r\n{payload}\r\n"));
    }
    let content = |lab: &Lab, at| {
        let content = lab
            .coupled
            .front
            .content(&lab.coupled.server, "S", StreamSequence(at));
        content.map(|content| content[0])
    };
    assert_eq!(content(&lab, 6), None);
    assert_eq!(
        (content(&lab, 7), content(&lab, 9)),
        (Some(b'6'), Some(b'8'))
    );
    let answer = lab.call("STREAM.PURGE.S", "");
    assert_eq!(answer["purged"], 3);
    assert_eq!(content(&lab, 9), None);
    // More than the limit: the oldest cannot be read back any more, and that is said.
    for digit in 0..3 {
        let payload = digit.to_string().repeat(9_000);
        lab.say(0, &format!("PUB t.a 9000\r\n{payload}\r\n"));
    }
    assert_eq!((content(&lab, 10), content(&lab, 12)), (None, Some(b'2')));
    let answer = lab.call("STREAM.MSG.GET.S", r#"{"seq":10}"#);
    assert_eq!(answer["error"]["err_code"], 10051, "{answer}");
    lab.say(0, "SUB r 1\r\n");
    let heard = lab.say(0, "PUB $JS.API.DIRECT.GET.S r 10\r\n{\"seq\":10}\r\n");
    assert!(heard.contains("NATS/1.0 500 Content Not Kept"), "{heard}");
}

/// Equal payloads of two streams, batches or sequences are not mixed up.
#[test]
fn contents_find_their_message() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"allow_batched":true}"#);
    let answer = lab.call(
        "STREAM.CREATE.Q",
        r#"{"name":"Q","subjects":["q.>"],"allow_batched":true}"#,
    );
    assert_eq!(answer["did_create"], true);
    lab.connect(0, CONNECT);
    let mut text = String::new();
    for (subject, reply, payload) in [
        ("t.a", "_INBOX.x.A.10.ok.1.0.$FI", "one"),
        ("q.a", "_INBOX.x.A.10.ok.1.0.$FI", "two"),
        ("t.a", "_INBOX.x.A.10.ok.2.1.$FI", "six"),
        ("q.a", "r", "one"),
        ("t.a", "r", "one"),
        ("t.a", "_INBOX.x.A.10.ok.3.2.$FI", "ten"),
    ] {
        text.push_str(&format!("PUB {subject} {reply} 3\r\n{payload}\r\n"));
    }
    lab.tell(0, &text);
    let read = |lab: &Lab, stream: &str| -> Vec<String> {
        (1..)
            .map_while(|at| {
                let server = &lab.coupled.server;
                lab.coupled
                    .front
                    .content(server, stream, StreamSequence(at))
            })
            .map(|content| String::from_utf8(content.to_vec()).unwrap())
            .collect()
    };
    assert_eq!(read(&lab, "S"), ["one", "six", "one", "ten"]);
    assert_eq!(read(&lab, "Q"), ["two", "one"]);
}

#[test]
fn the_api_answers_what_the_tools_ask() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"]}"#);
    let pick = |value: &serde_json::Value, keys: &[&str]| {
        let own = |key: &&str| {
            value
                .pointer(key)
                .map_or_else(|| "-".to_owned(), ToString::to_string)
        };
        keys.iter().map(own).collect::<Vec<_>>().join(" ")
    };
    for (subject, body, keys, expected) in [
        (
            "INFO",
            "",
            &["/streams", "/limits/max_streams", "/api/level"][..],
            "1 -1 5",
        ),
        (
            "STREAM.NAMES",
            "",
            &["/total", "/limit", "/streams"],
            r#"1 1024 ["S"]"#,
        ),
        (
            "STREAM.NAMES",
            r#"{"subject":"t.a"}"#,
            &["/streams"],
            r#"["S"]"#,
        ),
        (
            "STREAM.NAMES",
            r#"{"subject":"x"}"#,
            &["/total", "/streams"],
            "0 null",
        ),
        (
            "STREAM.NAMES",
            r#"{"offset":5}"#,
            &["/total", "/offset", "/streams"],
            "1 1 null",
        ),
        (
            "STREAM.LIST",
            "",
            &["/total", "/streams/0/config/name"],
            r#"1 "S""#,
        ),
        ("STREAM.LIST", r#"{"subject":"x"}"#, &["/streams"], "[]"),
        (
            "STREAM.CREATE.S",
            r#"{"name":"S","subjects":["t.>"]}"#,
            &["/did_create"],
            "-",
        ),
        ("STREAM.CREATE.S", "", &["/error/err_code"], "10056"),
        ("STREAM.UPDATE.S", "", &["/error/err_code"], "10059"),
        (
            "STREAM.INFO.N",
            "",
            &["/error/err_code", "/total"],
            "10059 0",
        ),
        ("STREAM.MSG.GET.S", "", &["/error/err_code"], "10003"),
        (
            "STREAM.MSG.GET.S",
            r#"{"seq":1}"#,
            &["/error/err_code"],
            "10037",
        ),
        (
            "STREAM.MSG.DELETE.S",
            r#"{"seq":1}"#,
            &["/error/err_code"],
            "10057",
        ),
        ("STREAM.PEER.REMOVE.S", "", &["/error/err_code"], "10010"),
        (
            "CONSUMER.NAMES.S",
            "",
            &["/total", "/limit", "/consumers"],
            "0 1024 []",
        ),
        ("CONSUMER.LIST.S", "", &["/limit", "/consumers"], "256 []"),
        ("CONSUMER.INFO.S.c", "", &["/error/err_code"], "10014"),
        ("CONSUMER.CREATE.S.c", "{}", &["/error/err_code"], "10012"),
        (
            "CONSUMER.CREATE.S.c.t.a",
            "{}",
            &["/error/err_code"],
            "10012",
        ),
        (
            "CONSUMER.CREATE.S.c.t.>",
            "{}",
            &["/error/err_code"],
            "10012",
        ),
        (
            "CONSUMER.NAMES.N",
            "",
            &["/error/err_code", "/consumers"],
            "10059 []",
        ),
        ("INFO", "", &["/api/total", "/api/errors"], "24 12"),
    ] {
        let answer = lab.call(subject, body);
        assert_eq!(pick(&answer, keys), expected, "{subject} {body}: {answer}");
    }
    // What the server does not know of its API it lets pass in silence; nobody listens for the rest.
    assert_eq!(lab.say(9, "PUB $JS.API.NONE api.r 0\r\n\r\n"), "");
    assert_eq!(
        lab.say(9, "PUB $JS.API.STREAM.CREATE.S.x api.r 0\r\n\r\n"),
        ""
    );
    let heard = lab.say(9, "PUB $JS.API.CONSUMER.MSG.NEXT.S.c api.r 0\r\n\r\n");
    assert!(heard.contains("NATS/1.0 503"), "{heard}");
}

#[test]
fn what_is_null_is_absent() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"metadata":null,"max_msgs":null}"#);
    let answer = lab.call("STREAM.INFO.S", "null");
    assert_eq!(answer["config"]["max_msgs"], -1, "{answer}");
    let answer = lab.call("STREAM.NAMES", r#"{"subject":null,"offset":null}"#);
    assert_eq!(answer["total"], 1, "{answer}");
}

#[test]
fn messages_are_read_by_subject_and_order() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"]}"#);
    lab.connect(0, CONNECT);
    for (subject, payload) in [("t.a", "1"), ("t.b", "2"), ("t.a", "3")] {
        lab.say(0, &format!("PUB {subject} 1\r\n{payload}\r\n"));
    }
    for (body, sequence) in [
        (r#"{"last_by_subj":"t.a"}"#, 3),
        (r#"{"last_by_subj":"t.*"}"#, 3),
        (r#"{"last_by_subj":"t.b"}"#, 2),
        (r#"{"seq":1,"next_by_subj":"t.b"}"#, 2),
        (r#"{"seq":2,"next_by_subj":"t.a"}"#, 3),
        (r#"{"next_by_subj":"t.>"}"#, 1),
    ] {
        let answer = lab.call("STREAM.MSG.GET.S", body);
        assert_eq!(answer["message"]["seq"], sequence, "{body}");
    }
    for (body, code) in [
        (r#"{"seq":1,"last_by_subj":"t.b"}"#, 10003),
        (r#"{"last_by_subj":"t.z"}"#, 10037),
        (r#"{"seq":3,"next_by_subj":"t.b"}"#, 10037),
    ] {
        let answer = lab.call("STREAM.MSG.GET.S", body);
        assert_eq!(answer["error"]["err_code"], code, "{body}");
    }
    lab.call("STREAM.MSG.DELETE.S", r#"{"seq":2}"#);
    let answer = lab.call(
        "STREAM.INFO.S",
        r#"{"deleted_details":true,"subjects_filter":">"}"#,
    );
    assert_eq!(answer["state"]["deleted"], serde_json::json!([2]));
    assert_eq!(answer["state"]["subjects"], serde_json::json!({"t.a": 2}));
    assert_eq!(
        (&answer["total"], &answer["limit"]),
        (&1.into(), &100_000.into())
    );
}

#[test]
fn disabled_batches_and_too_many_subjects_are_refused_aloud() {
    let mut lab = Lab::with(Options {
        subjects_max: 1,
        ..Options::default()
    });
    lab.stream(r#"{"name":"S","subjects":["t.>"]}"#);
    lab.connect(0, CONNECT);
    lab.say(0, "SUB r 1\r\n");
    let block = "NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: 1\r\n\r\n";
    let length = block.len();
    let heard = lab.say(0, &format!("HPUB t.a r {length} {length}\r\n{block}\r\n"));
    assert!(heard.contains("10174"), "{heard}");
    let heard = lab.say(0, "PUB t.a r 0\r\n\r\nPUB t.b r 0\r\n\r\n");
    assert!(
        heard.contains("10023") && heard.contains(r#""seq":1"#),
        "{heard}"
    );
}

/// A subscription that comes between two answers of a batch hears the second.
#[test]
fn who_listens_to_a_batch_may_change() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"allow_batched":true}"#);
    lab.connect(0, CONNECT);
    lab.connect(1, CONNECT);
    lab.say(0, "SUB _INBOX.x.> 1\r\n");
    let publish = |sequence, operation| {
        format!("PUB t.a _INBOX.x.A.1.ok.{sequence}.{operation}.$FI 1\r\nx\r\n")
    };
    let heard = lab.say(0, &publish(1, 0));
    assert!(
        heard.contains(r#"{"type":"ack","seq":0,"msgs":1}"#),
        "{heard}"
    );
    lab.say(1, "SUB _INBOX.x.A.1.ok.2.1.$FI 7\r\n");
    lab.tell(0, &publish(2, 1));
    let ack = r#"{"type":"ack","seq":2,"msgs":1}"#;
    assert!(lab.hear(0).contains(ack));
    let heard = lab.hear(1);
    assert!(
        heard.starts_with("MSG _INBOX.x.A.1.ok.2.1.$FI 7 ") && heard.contains(ack),
        "{heard}"
    );
    lab.tell(0, &publish(3, 2));
    let heard = lab.hear(0);
    assert!(heard.contains(r#""batch":"A","count":3}"#), "{heard}");
    assert_eq!(lab.hear(1), "");
}

/// A message of atomic batch `x` that says its own sequence.
fn atomic(sequence: u64, more: &str) -> String {
    let block =
        format!("NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: {sequence}\r\n{more}\r\n");
    let (header, total) = (block.len(), block.len() + 3);
    format!("HPUB t.a r {header} {total}\r\n{block}m{sequence:02}\r\n")
}

/// A batch that is abandoned, and one of the same id that is committed, sent in one go: each message
/// in the stream has its own content.
#[test]
fn an_atomic_batch_is_answered_and_its_contents_are_kept() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"allow_atomic":true}"#);
    lab.connect(0, CONNECT);
    lab.say(0, "SUB r 1\r\n");
    let eob = "Nats-Batch-Commit: eob\r\n";
    let all = [
        atomic(1, ""),
        atomic(2, ""),
        atomic(7, ""),
        atomic(1, ""),
        atomic(2, ""),
        atomic(3, eob),
    ];
    let mut heard = lab.say(0, &all[..5].concat());
    // A driver says so between any two messages.
    lab.coupled.front.settled();
    heard += &lab.say(0, &all[5]);
    let bodies: Vec<&str> = heard.split("\r\n").skip(1).step_by(2).collect();
    let refused = r#"{"error":{"code":400,"err_code":10176,"description":"atomic publish batch is incomplete"},"stream":"S","seq":0}"#;
    let ack = r#"{"stream":"S","seq":2,"batch":"x","count":2}"#;
    assert_eq!(bodies, ["", "", refused, "", "", ack]);
    let server = &lab.coupled.server;
    let content = |at| lab.coupled.front.content(server, "S", StreamSequence(at));
    assert_eq!(content(1).as_deref(), Some(&b"m01"[..]));
    assert_eq!(content(2).as_deref(), Some(&b"m02"[..]));
    assert_eq!(lab.coupled.front.contents.pending_count(), 0);
}

/// An end of batch that is refused takes no content of another message with it.
#[test]
fn a_refused_end_of_batch_leaves_contents_alone() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"allow_atomic":true}"#);
    lab.connect(0, CONNECT);
    let end = atomic(1, "Nats-Batch-Commit: eob\r\n");
    lab.tell(0, &(end + &atomic(1, "Nats-Batch-Commit: 1\r\n")));
    let server = &lab.coupled.server;
    let content = lab.coupled.front.content(server, "S", StreamSequence(1));
    assert_eq!(content.as_deref(), Some(&b"m01"[..]));
}

/// ADR-50 [atomic.advisory]
#[test]
fn an_abandoned_batch_is_told_to_whoever_listens() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"allow_atomic":true}"#);
    lab.connect(0, CONNECT);
    lab.connect(1, CONNECT);
    lab.say(1, "SUB $JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.* 5\r\n");
    lab.tell(0, &(atomic(1, "") + &atomic(3, "")));
    let heard = lab.hear(1);
    let (line, body) = heard.split_once("\r\n").unwrap();
    let subject = "MSG $JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S 5 ";
    assert!(line.starts_with(subject), "{line}");
    let body: serde_json::Value = serde_json::from_str(body.trim_end()).unwrap();
    let expected = serde_json::json!({
        "type": "io.nats.jetstream.advisory.v1.stream_batch_abandoned",
        "id": "ADVISORY00000000000001",
        "timestamp": body["timestamp"],
        "stream": "S",
        "batch": "x",
        "reason": "incomplete",
    });
    assert_eq!(body, expected);
    assert!(
        body["timestamp"].as_str().unwrap().starts_with("2027-"),
        "{body}"
    );
}

/// Which of the two a message is, if its headers say one thing and its reply subject another.
#[test]
fn a_message_with_both_kinds_of_batch_is_one_of_a_fast_batch() {
    let mut lab = Lab::new();
    let both = r#"{"name":"S","subjects":["t.>"],"allow_batched":true,"allow_atomic":true}"#;
    lab.stream(both);
    lab.connect(0, CONNECT);
    lab.say(0, "SUB _INBOX.x.> 1\r\n");
    let block = "NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: 7\r\n\r\n";
    let (headers, all) = (block.len(), block.len() + 1);
    let reply = "_INBOX.x.A.1.ok.1.0.$FI";
    let heard = lab.say(
        0,
        &format!("HPUB t.a {reply} {headers} {all}\r\n{block}x\r\n"),
    );
    assert!(
        heard.contains(r#"{"type":"ack","seq":0,"msgs":1}"#),
        "{heard}"
    );
    let stored = lab.call("STREAM.MSG.GET.S", r#"{"seq":1}"#);
    assert!(
        stored["message"]["hdrs"].is_string(),
        "stored with the message: {stored}"
    );
}

/// The server cannot publish to such a subject itself.
#[test]
fn answers_to_an_empty_token_reach_nobody() {
    let mut lab = Lab::new();
    lab.stream(r#"{"name":"S","subjects":["t.>"],"allow_batched":true}"#);
    lab.connect(0, CONNECT);
    lab.say(0, "SUB _INBOX.> 1\r\n");
    for reply in ["_INBOX.x..1.ok.1.0.$FI", "_INBOX.x.A.1.ok.1..$FI"] {
        assert_eq!(
            lab.say(0, &format!("PUB t.a {reply} 1\r\nx\r\n")),
            "",
            "{reply}"
        );
    }
}
