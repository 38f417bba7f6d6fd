//! Fuzzing of the wire protocol: no bytes panic the decoders, no split changes what they give, and
//! what is encoded decodes to itself.
//!
//! Leans on `nats::wire`.

use bytes::{Bytes, BytesMut};
use tidegate::nats::wire::{
    ClientFrame, Decoder, Direction, Limits, Line, Message, Publish, ServerFrame, Token, WireError,
};

/// Small, so that the fuzzer reaches them.
const LIMITS: Limits = Limits {
    control_line_bytes: 64,
    info_line_bytes: 128,
    payload_bytes: 32,
};

fn decode<'a, F: Direction>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<F>, Option<WireError>) {
    let mut decoder = Decoder::<F>::new(LIMITS);
    let mut frames = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        let most = LIMITS.info_line_bytes + 32;
        assert!(decoder.buffer().len() <= most, "keeps no more than a frame");
    }
    (frames, None)
}

fn splits_agree<F: Direction + PartialEq + std::fmt::Debug>(bytes: &[u8], length: usize) {
    let whole = decode::<F>([bytes].into_iter());
    assert_eq!(whole, decode::<F>(bytes.chunks(1)));
    assert_eq!(whole, decode::<F>(bytes.chunks(length)));
    let (head, tail) = bytes.split_at(length.min(bytes.len()));
    assert_eq!(whole, decode::<F>([head, tail].into_iter()));
}

/// Words of the protocol, so that random choices form lines that come far.
#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"PUB",
    b"HPUB",
    b"SUB",
    b"UNSUB",
    b"CONNECT",
    b"PING",
    b"PONG",
    b"INFO",
    b"MSG",
    b"HMSG",
    b"+OK",
    b"-ERR",
    b" ",
    b"\t",
    b"\r\n",
    b"\n",
    b"\r",
    b"a",
    b"_INBOX.x",
    b"0",
    b"1",
    b"3",
    b"33",
    b"{}",
    b"xyz",
    b"NATS/1.0\r\n\r\n",
    b"\xff",
    b"1234567890",
];

#[test]
fn any_bytes_and_any_split() {
    bolero::check!()
        .with_type::<(Vec<u8>, u8)>()
        .for_each(|(bytes, length)| {
            let length = usize::from(*length).max(1);
            splits_agree::<ClientFrame>(bytes, length);
            splits_agree::<ServerFrame>(bytes, length);
        });
}

#[test]
fn any_words_and_any_split() {
    bolero::check!()
        .with_type::<(Vec<u8>, u8)>()
        .for_each(|(choices, length)| {
            let bytes: Vec<u8> = choices
                .iter()
                .flat_map(|choice| WORDS[usize::from(*choice) % WORDS.len()])
                .copied()
                .collect();
            let length = usize::from(*length).max(1);
            splits_agree::<ClientFrame>(&bytes, length);
            splits_agree::<ServerFrame>(&bytes, length);
        });
}

#[test]
fn what_is_encoded_decodes_to_itself() {
    type Parts = (u8, String, Option<String>, String, Option<Vec<u8>>, Vec<u8>);
    bolero::check!().with_type::<Parts>().for_each(
        |(kind, subject, other, id, header, payload)| {
            let (Some(subject), Some(id)) = (Token::new(subject), Token::new(id)) else {
                return;
            };
            let other = other.as_deref().and_then(Token::new);
            let header = header.clone().map(Bytes::from);
            let payload = Bytes::from(payload.clone());
            let client = client_frame(*kind, &subject, &other, &id, &header, &payload);
            let server = server_frame(*kind, &subject, &other, &id, &header, &payload);
            let mut bytes = BytesMut::new();
            client.encode(&mut bytes);
            assert_eq!(only::<ClientFrame>(&bytes), Some(client));
            bytes.clear();
            server.encode(&mut bytes);
            assert_eq!(only::<ServerFrame>(&bytes), Some(server));
        },
    );
}

fn client_frame(
    kind: u8,
    subject: &Token,
    other: &Option<Token>,
    id: &Token,
    header: &Option<Bytes>,
    payload: &Bytes,
) -> ClientFrame {
    match kind % 6 {
        0 => ClientFrame::Connect(Line::new(id.as_str()).expect("a token is a line")),
        1 => ClientFrame::Ping,
        2 => ClientFrame::Pong,
        3 => ClientFrame::Publish(Publish {
            subject: subject.clone(),
            reply: other.clone(),
            header: header.clone(),
            payload: payload.clone(),
        }),
        4 => ClientFrame::Subscribe {
            subject: subject.clone(),
            queue: other.clone(),
            subscription: id.clone(),
        },
        _ => ClientFrame::Unsubscribe {
            subscription: id.clone(),
            after: std::num::NonZeroU32::new(u32::from(kind) / 6),
        },
    }
}

fn server_frame(
    kind: u8,
    subject: &Token,
    other: &Option<Token>,
    id: &Token,
    header: &Option<Bytes>,
    payload: &Bytes,
) -> ServerFrame {
    match kind % 6 {
        0 => ServerFrame::Info(Line::new(id.as_str()).expect("a token is a line")),
        1 => ServerFrame::Ping,
        2 => ServerFrame::Pong,
        3 => ServerFrame::Message(Message {
            subject: subject.clone(),
            subscription: id.clone(),
            reply: other.clone(),
            header: header.clone(),
            payload: payload.clone(),
        }),
        4 => ServerFrame::Ok,
        _ => ServerFrame::Error(Line::new(id.as_str()).expect("a token is a line")),
    }
}

/// The only frame in these bytes.
fn only<F: Direction>(bytes: &[u8]) -> Option<F> {
    let mut decoder = Decoder::<F>::new(Limits::default());
    decoder.push(bytes);
    let frame = decoder.next_frame().ok().flatten();
    decoder.is_at_rest().then_some(frame).flatten()
}
