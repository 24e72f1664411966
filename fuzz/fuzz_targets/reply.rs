//! Any messages in answer to a handshake and a command: an exchange ends or goes on, and its link is accounted for.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mangonel_bson::{RawDocument, begin_document, end_document};
use mangonel_proto::client::{Client, ClientOptions};
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::hello::Hello;
use mangonel_proto::message::{Command, Replies, read_reply};
use mangonel_proto::operation::{Kind, Operation, SessionChoice};
use mangonel_proto::pool::PoolOptions;
use mangonel_proto::reply::Facts;
use mangonel_proto::time::Instant;

const NOW: Instant = Instant(Duration::from_secs(1000));

fuzz_target!(|data: &[u8]| {
    digest(data);
    let Some((choice, data)) = data.split_first() else { return };
    let mut client = Client::new(options(), [7; 16]);
    let shard = client.open_shard();
    let mut exchange = Exchange::begin(&mut client, shard, operation(*choice), NOW);
    let link = client.next_link();
    exchange.handle_connected(&mut client, link, NOW);
    if choice & 4 == 0 {
        // As often as not, let the handshake go well and try the command.
        answer(&mut exchange, &mut client, HELLO);
        assert_eq!(exchange.step(), Step::Write);
    }
    // Each part is the body of one reply, so that the fuzzer need not guess headers.
    for body in data.split(|byte| *byte == 0xFE).take(4) {
        match exchange.step() {
            Step::Write | Step::Read => answer(&mut exchange, &mut client, body),
            Step::Connect => {
                let link = client.next_link();
                exchange.handle_connected(&mut client, link, NOW);
            }
            Step::Wait | Step::Sleep(_) | Step::Done => break,
        }
    }
    exchange.close(&mut client, NOW);
    let (_, out, pending) = client.pool(shard).expect("the shard is open").sizes();
    assert_eq!((out, pending), (0, 0));
});

/// `ok: 1, maxWireVersion: 21, logicalSessionTimeoutMinutes: 30, setName: "r"`
const HELLO: &[u8] =
    b"\x52\0\0\0\x10ok\0\x01\0\0\0\x10maxWireVersion\0\x15\0\0\0\x10logicalSessionTimeoutMinutes\0\
    \x1e\0\0\0\x02setName\0\x02\0\0\0r\0\0";

fn answer(exchange: &mut Exchange, client: &mut Client, body: &[u8]) {
    let request = exchange.outbound().get(4..8).unwrap_or(&[0; 4]).to_vec();
    let length = (21 + body.len()) as i32;
    let mut message = length.to_le_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 0]);
    message.extend_from_slice(&request);
    message.extend_from_slice(&[0xDD, 7, 0, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(body);
    digest(&message);
    exchange.handle_reply(client, &message, NOW);
}

fn digest(message: &[u8]) {
    let Ok(reply) = read_reply(message) else { return };
    assert_eq!(&message[reply.body_start..], reply.body.as_bytes());
    let _ = Hello::read(reply.body);
    let Ok(facts) = Facts::read(reply.body) else { return };
    let body = reply.body.as_bytes();
    if let Some(cursor) = facts.cursor {
        assert!(RawDocument::from_bytes(&body[cursor.batch]).is_ok());
        assert!(std::str::from_utf8(&body[cursor.namespace]).is_ok());
    }
    assert!(facts.cluster_time.is_none_or(|time| RawDocument::from_bytes(&body[time]).is_ok()));
}

fn empty() -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = begin_document(&mut bytes);
    end_document(&mut bytes, start);
    bytes
}

fn options() -> ClientOptions {
    ClientOptions {
        address: "a.example:27017".into(),
        pool: PoolOptions::default(),
        wait_queue_timeout: None,
        connect_timeout: None,
        socket_timeout: None,
        server_selection_timeout: Duration::from_secs(30),
        retry_reads: true,
        retry_writes: true,
        replica_set: None,
        metadata: empty(),
        server_api: Vec::new(),
    }
}

fn operation(choice: u8) -> Operation {
    let mut head = Command::begin();
    head.extend_from_slice(&empty());
    Operation {
        command: Command::new(head, Vec::new()).expect("an empty document is one"),
        database: "a".into(),
        kind: [Kind::Read, Kind::ReadOnce, Kind::RetryableWrite, Kind::Write][usize::from(choice & 3)],
        replies: Replies::One,
        session: SessionChoice::Implicit,
        read_preference: None,
        pinned: None,
        is_under_way: false,
    }
}
