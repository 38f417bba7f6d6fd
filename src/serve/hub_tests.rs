//! The hub in virtual time: what faults do to frames, connections and events.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::scenario::{Scenario, Settings};
use crate::server::front::Options;

const CONNECT: &str = "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n";

/// Keeps all events.
#[derive(Clone, Default)]
struct Seen(Rc<RefCell<Vec<(Time, Event)>>>);

impl Observer for Seen {
    fn see(&mut self, at: Time, event: &Event) {
        self.0.borrow_mut().push((at, *event));
    }
}

struct Lab {
    hub: Hub,
    seen: Seen,
}

fn settings(faults: &str) -> Settings {
    let text = format!(
        "format = 1\nabout = \"x\"\n[stream]\nname = \"S\"\nsubjects = [\"t.>\"]\n\
         [[publishers]]\ncount = 9\nsubject = \"t.a\"\n{faults}"
    );
    Scenario::parse("test.toml", &text).unwrap().settings
}

impl Lab {
    /// Two clients that have subscribed to their inboxes.
    fn new(faults: &str) -> Self {
        let settings = settings(faults);
        let server = crate::modelled::server(&settings).unwrap();
        let seen = Seen::default();
        let faults = Faults::new(&settings.faults, 0);
        let observer = Box::new(seen.clone());
        let mut hub = Hub::new(server, Options::default(), faults, Seed(1), observer);
        for id in [0, 1] {
            assert!(hub.connect(Time::ZERO, ConnectionId(id), "127.0.0.1"));
        }
        let mut lab = Self { hub, seen };
        for id in [0, 1] {
            lab.say(0, id, &format!("{CONNECT}SUB _INBOX.{id}.> 1\r\n"));
            lab.hear(0, id);
        }
        lab
    }

    /// Client `id` sends text at this millisecond.
    fn say(&mut self, at_ms: u64, id: u32, text: &str) {
        let id = ConnectionId(id);
        if let Some(buffer) = self.hub.buffer(id) {
            buffer.extend_from_slice(text.as_bytes());
            self.hub.received(Time::from_millis(at_ms), id);
        }
    }

    /// Client `id` sends a message of its batch.
    fn publish(&mut self, at_ms: u64, id: u32, sequence: u64, operation: u8) {
        let reply = format!("_INBOX.{id}.B{id}.1.ok.{sequence}.{operation}.$FI");
        self.say(at_ms, id, &format!("PUB t.a {reply} 1\r\nx\r\n"));
    }

    /// What client `id` reads by this millisecond: acks, gaps, PubAcks and pongs in short.
    fn hear(&mut self, at_ms: u64, id: u32) -> String {
        self.hub.pass(Time::from_millis(at_ms));
        let output = self.hub.take_output(ConnectionId(id));
        self.hub.written(ConnectionId(id), output.len());
        let text = String::from_utf8(output.to_vec()).unwrap();
        let short = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("{\"type\":\"ack\",\"seq\":");
            match rest.and_then(|rest| rest.split_once(',')) {
                Some((sequence, _)) => Some(format!("ack {sequence}")),
                None if line.contains("\"gap\"") => Some("gap".to_owned()),
                None if line.contains("\"count\"") => Some("done".to_owned()),
                None => (line == "PONG").then(|| "pong".to_owned()),
            }
        });
        short.collect::<Vec<_>>().join(" ")
    }

    fn told(&self, wanted: impl Fn(&Event) -> bool) -> Vec<u64> {
        let seen = self.seen.0.borrow();
        let found = seen.iter().filter(|(_, event)| wanted(event));
        found.map(|(at, _)| at.as_nanos() / 1_000_000).collect()
    }
}

fn is_cut(event: &Event) -> bool {
    let cut = DropCause::Cut;
    matches!(event, Event::Dropped { cause, .. } if *cause == cut)
}

#[test]
fn without_faults_a_batch_goes_through() {
    let mut lab = Lab::new("");
    lab.publish(1, 0, 1, 0);
    lab.publish(1, 0, 2, 1);
    lab.publish(1, 0, 3, 2);
    assert_eq!(lab.hear(2, 0), "ack 0 ack 1 ack 2 done");
    let tally = lab.hub.tally();
    assert_eq!((tally.stored, tally.batches, tally.publishers), (3, 1, 1));
    assert!(lab.hub.is_at_rest());
    let batches =
        lab.told(|event| matches!(event, Event::BatchOpened { batch, .. } if batch.0 == 0));
    assert_eq!(batches, [1]);
}

#[test]
fn a_lost_reply_is_told_and_never_written() {
    let mut lab = Lab::new("[[faults]]\naction = \"drop\"\nframe = \"flow-ack\"\nnth = 2\n");
    for (id, at) in [(1, 1), (0, 11)] {
        lab.publish(at, id, 1, 0);
        lab.publish(at, id, 2, 1);
        let heard = lab.hear(at + 1, id);
        assert_eq!(heard, "ack 0 ack 2", "counted for each publisher");
    }
    let lost = lab.told(|event| {
        matches!(
            event,
            Event::Dropped {
                operation: None,
                ..
            }
        )
    });
    assert_eq!(lost.len(), 2);
    assert_eq!(lab.hub.tally().faults, 2);
}

#[test]
fn a_lost_message_leaves_a_gap() {
    let fault = "[[faults]]\naction = \"drop\"\nframe = \"message\"\nnth = 2\npublisher = 0\n";
    let mut lab = Lab::new(fault);
    for (sequence, operation) in [(1, 0), (2, 1), (3, 1)] {
        lab.publish(1, 1, sequence, operation);
    }
    // Client 1 was the first to publish to a batch: it is publisher 0.
    assert_eq!(lab.hear(2, 1), "ack 0 ack 1 gap ack 3");
    for (sequence, operation) in [(1, 0), (2, 1), (3, 1)] {
        lab.publish(3, 0, sequence, operation);
    }
    assert!(!lab.hear(4, 0).contains("gap"));
}

#[test]
fn a_late_reply_holds_up_those_behind_it_and_nothing_else() {
    let fault = "[[faults]]\naction = \"delay\"\nframe = \"flow-ack\"\nnth = 2\ndelay = \"50ms\"\n";
    let mut lab = Lab::new(fault);
    lab.publish(1, 0, 1, 0);
    lab.publish(2, 0, 2, 1);
    lab.say(3, 0, "PING\r\n");
    assert_eq!(lab.hear(40, 0), "ack 0 pong");
    assert!(!lab.hub.is_at_rest());
    assert_eq!(lab.hear(52, 0), "ack 1 ack 2");
    assert!(lab.hub.is_at_rest());
}

#[test]
fn a_late_message_holds_up_those_behind_it() {
    let fault = "[[faults]]\naction = \"delay\"\nframe = \"message\"\nnth = 2\ndelay = \"50ms\"\n";
    let mut lab = Lab::new(fault);
    lab.publish(1, 0, 1, 0);
    lab.publish(2, 0, 2, 1);
    lab.publish(3, 0, 3, 1);
    assert_eq!(lab.hear(50, 0), "ack 0 ack 1");
    assert_eq!(lab.hear(53, 0), "ack 2 ack 3");
}

#[test]
fn a_copy_comes_later_and_ends_the_batch() {
    let fault =
        "[[faults]]\naction = \"duplicate\"\nframe = \"message\"\nnth = 2\ndelay = \"20ms\"\n";
    let mut lab = Lab::new(fault);
    lab.publish(1, 0, 1, 0);
    lab.publish(1, 0, 2, 1);
    assert_eq!(lab.hear(20, 0), "ack 0 ack 1 ack 2");
    assert_eq!(lab.hear(22, 0), "gap done", "a sequence that comes again");
}

#[test]
fn a_cut_closes_connections_and_keeps_out_who_comes() {
    let cut = "[[faults]]\naction = \"cut\"\nfrom = \"1s\"\nuntil = \"2s\"\n";
    let late = "[[faults]]\naction = \"delay\"\nframe = \"flow-ack\"\ndelay = \"5s\"\n";
    let mut lab = Lab::new(&format!("{cut}{late}"));
    lab.publish(900, 0, 1, 0);
    lab.hub.pass(Time::from_millis(1_000));
    assert!(lab.hub.is_closing(ConnectionId(0)) && lab.hub.is_closing(ConnectionId(1)));
    let now = Time::from_millis(1_001);
    lab.hub.disconnect(now, ConnectionId(0));
    // The late ack of the start, and the one behind it.
    assert_eq!(lab.told(is_cut), [1_000, 1_000]);
    assert!(
        !lab.hub
            .connect(Time::from_millis(1_999), ConnectionId(5), "127.0.0.1")
    );
    assert!(
        lab.hub
            .connect(Time::from_millis(2_000), ConnectionId(6), "127.0.0.1")
    );
    assert_eq!(
        lab.told(|event| matches!(event, Event::Fault { fault: 0, .. })),
        [1_000]
    );
    assert_eq!(
        lab.told(|event| matches!(event, Event::Healed { fault: 0 })),
        [2_000]
    );
}

#[test]
fn a_slow_link_makes_late_what_passes_it_each_way() {
    let slow = "[[faults]]\naction = \"slow\"\npublisher = 0\ndelay = \"50ms\"\nfrom = \"10ms\"\nuntil = \"20ms\"\n";
    let mut lab = Lab::new(slow);
    lab.publish(1, 0, 1, 0);
    assert_eq!(lab.hear(2, 0), "ack 0 ack 1");
    lab.publish(12, 0, 2, 1);
    lab.publish(25, 0, 3, 1);
    lab.hub.pass(Time::from_millis(61));
    assert_eq!(
        lab.hub.tally().stored,
        1,
        "the third does not overtake the second"
    );
    lab.hub.pass(Time::from_millis(63));
    assert_eq!(lab.hub.tally().stored, 3);
}

#[test]
fn the_smallest_rate_of_the_limits_that_are_on_holds_for_a_link() {
    let limits = "[[faults]]\naction = \"limit\"\nbandwidth = \"1Mbit/s\"\nfrom = \"10ms\"\nuntil = \"30ms\"\n\
                  [[faults]]\naction = \"limit\"\npublisher = 0\nbandwidth = \"1kbit/s\"\nfrom = \"20ms\"\nuntil = \"40ms\"\n";
    let mut lab = Lab::new(limits);
    lab.publish(1, 0, 1, 0);
    let mut limits_at = |at_ms| {
        lab.hub.pass(Time::from_millis(at_ms));
        [0, 1].map(|id| lab.hub.limit(ConnectionId(id)))
    };
    let (small, large) = (Some(1_000), Some(1_000_000));
    assert_eq!(limits_at(9), [None, None]);
    assert_eq!(limits_at(10), [large, large]);
    assert_eq!(limits_at(20), [small, large]);
    assert_eq!(limits_at(30), [small, None]);
    assert_eq!(limits_at(40), [None, None]);
}

/// What it has sent was on its way, and nobody misses what was on the way to it.
#[test]
fn a_client_that_leaves_is_no_cut() {
    let late = "[[faults]]\naction = \"delay\"\nframe = \"message\"\nnth = 2\ndelay = \"50ms\"\n\
                [[faults]]\naction = \"duplicate\"\nframe = \"flow-ack\"\ndelay = \"50ms\"\n";
    let mut lab = Lab::new(late);
    lab.publish(1, 0, 1, 0);
    lab.publish(2, 0, 2, 1);
    assert_eq!(lab.hear(3, 0), "ack 0 ack 1");
    lab.hub.disconnect(Time::from_millis(4), ConnectionId(0));
    lab.hub.pass(Time::from_millis(60));
    assert!(lab.hub.is_at_rest());
    assert_eq!(lab.hub.tally().stored, 2);
    let dropped = lab.told(|event| matches!(event, Event::Dropped { .. }));
    assert!(dropped.is_empty(), "{dropped:?}");
}

#[test]
fn a_link_that_is_cut_from_outside_loses_what_is_late_on_it() {
    let late = "[[faults]]\naction = \"delay\"\nframe = \"message\"\ndelay = \"50ms\"\n";
    let mut lab = Lab::new(late);
    lab.publish(1, 0, 1, 0);
    lab.publish(2, 1, 1, 0);
    lab.hub.lose(Time::from_millis(10), PublisherId(1));
    lab.hub.pass(Time::from_millis(60));
    assert_eq!(lab.told(is_cut), [10]);
    assert_eq!(lab.hub.tally().stored, 1);
}

#[test]
fn a_frame_that_nobody_takes_meets_faults_and_is_told_of() {
    let lost = "[[faults]]\naction = \"drop\"\nframe = \"message\"\nnth = 2\n";
    let mut lab = Lab::new(lost);
    for sequence in [1, 2, 3] {
        let operation = u8::from(sequence > 1);
        let reply = format!("_INBOX.0.B.1.ok.{sequence}.{operation}.$FI");
        lab.say(sequence, 0, &format!("PUB u {reply} 1\r\nx\r\n"));
    }
    lab.hub.pass(Time::from_millis(4));
    let output = lab.hub.take_output(ConnectionId(0));
    let text = String::from_utf8(output.to_vec()).unwrap();
    assert_eq!(text.matches("NATS/1.0 503").count(), 2, "{text}");
    assert!(text.contains("Nats-Subject: u\r\n"), "{text}");
    let told = |wanted: DropCause| {
        lab.told(|event| matches!(event, Event::Dropped { cause, .. } if *cause == wanted))
    };
    assert_eq!(told(DropCause::NoResponders), [1, 3]);
    assert_eq!(told(DropCause::Fault), [2]);
    let refused = lab.told(|event| matches!(event, Event::RefusalSent { code: 503, .. }));
    assert_eq!(refused, [1, 3]);
    let tally = lab.hub.tally();
    assert_eq!((tally.unheard, tally.lost, tally.sent.refusals), (2, 1, 2));
}

#[test]
fn a_cut_or_hold_of_one_publisher_leaves_the_others() {
    let cut = "[[faults]]\naction = \"cut\"\npublisher = 1\nfrom = \"1s\"\nuntil = \"2s\"\n";
    let hold = "[[faults]]\naction = \"hold\"\npublisher = 0\nfrom = \"1s\"\nuntil = \"2s\"\n";
    let mut lab = Lab::new(&format!("{cut}{hold}"));
    lab.publish(10, 0, 1, 0);
    lab.publish(20, 1, 1, 0);
    lab.hub.pass(Time::from_millis(1_500));
    let ids = [ConnectionId(0), ConnectionId(1)];
    assert_eq!(ids.map(|id| lab.hub.is_closing(id)), [false, true]);
    assert_eq!(ids.map(|id| lab.hub.is_held(id)), [true, false]);
    assert!(
        lab.hub
            .connect(Time::from_millis(1_500), ConnectionId(7), "127.0.0.1")
    );
    lab.hub.pass(Time::from_millis(2_000));
    assert!(!lab.hub.is_held(ConnectionId(0)));
}

#[test]
fn batches_and_publishers_can_be_named_from_outside() {
    let fault = "[[faults]]\naction = \"drop\"\nframe = \"flow-ack\"\npublisher = 7\n";
    let mut lab = Lab::new(fault);
    lab.hub
        .number_batches(Box::new(|_, id| BatchNumber(id.len() as u32 + 40)));
    lab.hub.name_publishers(Box::new(|ip| {
        PublisherId(if ip == "10.0.0.7" { 7 } else { 0 })
    }));
    assert!(lab.hub.connect(Time::ZERO, ConnectionId(2), "10.0.0.7"));
    lab.say(0, 2, &format!("{CONNECT}SUB _INBOX.2.> 1\r\n"));
    lab.publish(1, 2, 1, 0);
    assert_eq!(lab.hear(2, 2), "ack 1", "the first ack is lost");
    let opened =
        lab.told(|event| matches!(event, Event::BatchOpened { batch, .. } if batch.0 == 42));
    assert_eq!(opened.len(), 1);
}
