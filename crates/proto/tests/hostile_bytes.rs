//! Messages written and read back, and random bytes: all input gives a reply or an error, never a panic.

mod bench;

use bench::*;
use mangonel_bson::{RawDocument, writer};
use mangonel_proto::exchange::Step;
use mangonel_proto::frame::{Deframer, MAX_MESSAGE_SIZE};
use mangonel_proto::message::{Command, Replies, read_reply};
use mangonel_proto::reply::Facts;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Feeds `bytes` in pieces; returns the messages, and whether an error ended it.
fn deframe(bytes: &[u8], pieces: &[usize]) -> (Vec<Vec<u8>>, bool) {
    let (mut deframer, mut messages, mut rest, mut turn) = (Deframer::default(), Vec::new(), bytes, 0);
    while !rest.is_empty() {
        let window = deframer.window();
        assert!(!window.is_empty());
        let count = pieces[turn % pieces.len()].min(rest.len()).min(window.len());
        window[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        turn += 1;
        let Ok(mut is_whole) = deframer.received(count) else { return (messages, true) };
        while is_whole {
            let message = deframer.message().expect("a whole message is there").to_vec();
            let Ok(next) = deframer.consume() else {
                messages.push(message);
                return (messages, true);
            };
            messages.push(message);
            is_whole = next;
        }
    }
    (messages, false)
}

fn framed(content: &[u8]) -> Vec<u8> {
    let mut message = ((16 + content.len()) as i32).to_le_bytes().to_vec();
    message.extend_from_slice(&[9; 12]);
    message.extend_from_slice(content);
    message
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,12}".prop_map(Value::from),
        Just(Value::Null),
    ];
    let value = leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,8}", value, 1..6)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// A reply with the fields that the driver reads, with right or wrong types.
fn reply() -> impl Strategy<Value = Value> {
    let odd = || {
        prop_oneof![
            Just(json!(1)),
            Just(json!(0)),
            Just(json!("x")),
            Just(json!(null)),
            Just(json!([1, {}])),
            Just(json!({"id": 3})),
            Just(json!({"firstBatch": [1, {}], "id": 5, "ns": "a.b"})),
            Just(json!({"firstBatch": [], "ns": 3})),
            Just(json!({"code": "x"})),
            Just(json!({"clusterTime": 4})),
            Just(json!({"$timestamp": {"t": 1, "i": 1}})),
            Just(json!(-1)),
            Just(json!(["RetryableWriteError", 3]))
        ]
    };
    let key = prop::sample::select(vec![
        "ok",
        "code",
        "cursor",
        "$clusterTime",
        "writeErrors",
        "writeConcernError",
        "errorLabels",
        "errmsg",
        "maxWireVersion",
        "minWireVersion",
        "setName",
        "msg",
        "maxMessageSizeBytes",
        "logicalSessionTimeoutMinutes",
        "maxBsonObjectSize",
        "connectionId",
    ]);
    prop::collection::vec((key, odd()), 0..8).prop_map(|members| {
        Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_come_out_as_they_were_sent_whatever_the_pieces(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5000), 1..8),
        pieces in prop::collection::vec(1usize..70_000, 1..6),
    ) {
        let sent: Vec<_> = contents.iter().map(|content| framed(content)).collect();
        prop_assert_eq!(deframe(&sent.concat(), &pieces), (sent, false));
    }

    #[test]
    fn any_bytes_make_messages_of_allowed_size_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        lengths in prop::collection::vec(-20i32..120, 0..8),
        pieces in prop::collection::vec(1usize..100, 1..4),
    ) {
        let mut stream: Vec<u8> = lengths.iter().flat_map(|length| framed(&vec![1; (*length).max(0) as usize])).collect();
        stream.extend_from_slice(&bytes);
        let (messages, _) = deframe(&stream, &pieces);
        for message in messages {
            prop_assert!((16..=MAX_MESSAGE_SIZE).contains(&message.len()));
        }
    }

    #[test]
    fn a_command_is_read_back_as_it_was_stamped_and_stamped_again(
        body in document(),
        envelope in prop::collection::vec("[a-z]{1,300}", 0..8),
        documents in prop::collection::vec(document(), 0..6),
        request_id in any::<i32>(),
    ) {
        let mut head = Command::begin();
        head.extend_from_slice(&bson(&body));
        let mut sequence = Vec::new();
        if !documents.is_empty() {
            sequence = Command::begin_sequence("documents", 10);
            documents.iter().for_each(|document| sequence.extend_from_slice(&bson(document)));
        }
        let mut command = Command::new(head, sequence).unwrap();
        for (turn, replies) in [Replies::One, Replies::None, Replies::Exhaust].into_iter().enumerate() {
            command.stamp(request_id, replies, |out| {
                envelope.iter().skip(turn).for_each(|text| writer::append_str(out, "$text", text));
            });
            let message = command.outbound().to_vec();
            let word = |at: usize| i32::from_le_bytes(*message[at..].first_chunk().unwrap());
            prop_assert_eq!((word(0), word(4), word(8), word(12)), (message.len() as i32, request_id, 0, 2013));
            let (found, rest) = RawDocument::prefix(&message[21..]).unwrap();
            let extra = envelope.len().saturating_sub(turn);
            prop_assert_eq!(found.iter().count(), body.as_object().unwrap().len() + extra);
            let first = body.as_object().unwrap().keys().next().unwrap();
            prop_assert_eq!(command.name(), first.as_str());
            if documents.is_empty() {
                prop_assert!(rest.is_empty());
                // A reply has the same form, so the reader must agree with the writer.
                let flags = word(16) as u32;
                prop_assert_eq!(read_reply(&message).map(|reply| reply.more_to_come), Ok(flags & 2 != 0));
            } else {
                prop_assert_eq!(rest[0], 1);
                prop_assert_eq!(i32::from_le_bytes(*rest[1..].first_chunk().unwrap()) as usize, rest.len() - 1);
                let mut left = rest[1 + 4..].strip_prefix(b"documents\0").unwrap();
                for document in &documents {
                    let (next, after) = RawDocument::prefix(left).unwrap();
                    prop_assert_eq!(next.as_bytes(), bson(document));
                    left = after;
                }
                prop_assert!(left.is_empty());
            }
        }
    }

    #[test]
    fn any_message_is_an_answer_or_an_error(mut message in prop::collection::vec(any::<u8>(), 0..200), mends in any::<bool>()) {
        if mends && message.len() >= 26 {
            let length = message.len() as i32;
            message[..4].copy_from_slice(&length.to_le_bytes());
            message[12..21].copy_from_slice(&[0xDD, 7, 0, 0, 0, 0, 0, 0, 0]);
            message[21..25].copy_from_slice(&(length - 21).to_le_bytes());
            *message.last_mut().unwrap() = 0;
        }
        digest(&message);
    }

    #[test]
    fn a_reply_with_odd_fields_is_an_answer_or_an_error(
        reply in reply(),
        flips in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        is_handshake in any::<bool>(),
    ) {
        let mut bench = Bench::primary();
        let mut exchange = bench.begin(find());
        bench.open(&mut exchange);
        if !is_handshake {
            let hello = bench.hello.clone();
            bench.reply(&mut exchange, &hello);
        }
        let mut message = op_msg(&reply, request_id(&exchange), 0);
        for (at, value) in flips {
            let at = at % message.len();
            message[at] = value;
        }
        digest(&message);
        exchange.handle_reply(&mut bench.client, &message, bench.now);
        prop_assert!(matches!(exchange.step(), Step::Done | Step::Write | Step::Sleep(_)));
        bench.close(&mut exchange);
        let (_, out, pending, waiting) = bench.sizes();
        // A flipped flag bit may have announced more replies; the link then belongs to the cursor.
        prop_assert!((out, pending, waiting) == (0, 0, 0) || exchange.more_to_come());
    }
}

fn digest(message: &[u8]) {
    let Ok(reply) = read_reply(message) else { return };
    assert_eq!(&message[reply.body_start..], reply.body.as_bytes());
    let address = mangonel_proto::topology::Address::new("a.example", 27017);
    let now = mangonel_proto::time::Instant(std::time::Duration::ZERO);
    let _ = mangonel_proto::topology::ServerDescription::from_hello(address, reply.body, now);
    let Ok(facts) = Facts::read(reply.body) else { return };
    let body = reply.body.as_bytes();
    if let Some(cursor) = facts.cursor {
        assert!(RawDocument::from_bytes(&body[cursor.batch]).is_ok());
        assert!(std::str::from_utf8(&body[cursor.namespace]).is_ok());
        assert!(
            cursor.post_batch_resume_token.is_none_or(|token| RawDocument::from_bytes(&body[token]).is_ok())
        );
    }
    assert!(facts.cluster_time.is_none_or(|time| RawDocument::from_bytes(&body[time]).is_ok()));
}
