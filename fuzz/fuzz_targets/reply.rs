//! Any messages, plain or compressed, in answer to a handshake with authentication and to a command: an exchange ends
//! or goes on, and its link is accounted for.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mangonel_bson::{RawDocument, begin_document, end_document};
use mangonel_proto::auth::login::Login;
use mangonel_proto::auth::{Credential, Mechanism, Secret};
use mangonel_proto::client::Client;
use mangonel_proto::compress::{Codec, Compressor, MAX_MESSAGE_SIZE};
use mangonel_proto::exchange::{Answer, Exchange, Question, Step};
use mangonel_proto::ids::ShardId;
use mangonel_proto::message::{Command, read_reply};
use mangonel_proto::operation::{Kind, Limit, Operation};
use mangonel_proto::options::{ClientOptions, PoolOptions};
use mangonel_proto::reply::Facts;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::{Address, ServerDescription, Step as MonitorStep, TopologySettings};

const NOW: Instant = Instant(Duration::from_secs(1000));

/// Bits of the first byte, beside the two lowest, which choose the kind of command.
const SHAKES_HANDS: u8 = 1 << 2;
const HAS_USER: u8 = 1 << 3;
/// Two bits: how replies come compressed, if at all.
const COMPRESSION: u8 = 4;

fuzz_target!(|data: &[u8]| {
    digest(data);
    let mut codec = Codec::default();
    unpack(&mut codec, data);
    let Some((choice, data)) = data.split_first() else { return };
    let mut client = Client::new(options(*choice), [7; 16], NOW);
    let shard = client.open_shard();
    discover(&mut client);
    let mut exchange = Exchange::begin(&mut client, shard, operation(*choice), NOW);
    let mut compressor = match choice >> COMPRESSION & 3 {
        1 => Some(Compressor::Snappy),
        2 => Some(Compressor::Zlib { level: 1 }),
        3 => Some(Compressor::Zstd),
        _ => None,
    };
    let mut parts = data.split(|byte| *byte == 0xFE).take(6);
    for _ in 0..12 {
        match exchange.step() {
            Step::Connect => {
                let link = client.next_link();
                exchange.handle_connected(&mut client, link, NOW);
                if choice & SHAKES_HANDS == 0 && exchange.step() == Step::Write {
                    // As often as not, let the handshake go well and try the command.
                    answer(&mut exchange, &mut client, HELLO);
                }
            }
            Step::Write | Step::Read => {
                // Each part is the body of one reply, so that the fuzzer need not guess headers.
                let Some(body) = parts.next() else { break };
                let message = op_msg(&exchange, body);
                let message = match compressor {
                    Some(compressor) => through(&mut codec, compressor, message),
                    None => message,
                };
                digest(&message);
                exchange.handle_reply(&mut client, &message, NOW);
                compressor = compressor.filter(|_| choice & 0x80 == 0);
            }
            Step::Ask => {
                // Real rounds would take the fuzzer's time: 10 000 000 are allowed.
                let answer = match exchange.question() {
                    Some(Question::Keys(request)) if request.iterations() <= 5000 => {
                        Some(Answer::Keys(request.derive()))
                    }
                    _ => None,
                };
                match answer {
                    Some(answer) => exchange.handle_answer(&mut client, answer, NOW),
                    None => exchange.handle_no_answer(&mut client, NOW),
                }
            }
            Step::Wait | Step::Sleep(_) | Step::Done => break,
        }
    }
    exchange.close(&mut client, NOW);
    assert_accounted(&client, shard);
});

fn assert_accounted(client: &Client, shard: ShardId) {
    let (_, out, pending, waiting) = client.pool_sizes(shard).expect("the shard is open");
    assert_eq!((out, pending, waiting), (0, 0, 0));
}

/// `ok: 1, maxWireVersion: 21, logicalSessionTimeoutMinutes: 30, setName: "r"`
const HELLO: &[u8] =
    b"\x52\0\0\0\x10ok\0\x01\0\0\0\x10maxWireVersion\0\x15\0\0\0\x10logicalSessionTimeoutMinutes\0\
    \x1e\0\0\0\x02setName\0\x02\0\0\0r\0\0";

/// Lets the monitor find a standalone.
fn discover(client: &mut Client) {
    let server = address();
    for _ in 0..4 {
        let step = client.with_topology(|topology| topology.poll_monitor(&server, NOW));
        match step {
            MonitorStep::Connect { .. } => {
                client.with_topology(|topology| topology.handle_monitor_connected(&server, NOW));
            }
            MonitorStep::Write { .. } => {
                let hello = RawDocument::from_bytes(HELLO).expect("it is one");
                client.with_topology(|topology| topology.handle_monitor_reply(&server, hello, false, NOW));
            }
            _ => break,
        }
    }
}

fn answer(exchange: &mut Exchange, client: &mut Client, body: &[u8]) {
    let message = op_msg(exchange, body);
    exchange.handle_reply(client, &message, NOW);
}

fn op_msg(exchange: &Exchange, body: &[u8]) -> Vec<u8> {
    let length = (21 + body.len()) as i32;
    let mut message = length.to_le_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 0]);
    message.extend_from_slice(&exchange.request_id().to_le_bytes());
    message.extend_from_slice(&[0xDD, 7, 0, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(body);
    message
}

/// Any message survives compression and decompression unchanged.
fn through(codec: &mut Codec, compressor: Compressor, message: Vec<u8>) -> Vec<u8> {
    let mut packed = Vec::new();
    codec.compress(compressor, &message, &mut packed).expect("a small message compresses");
    let unpacked = codec.decompress(&packed).expect("and decompresses");
    assert_eq!(unpacked, message);
    unpacked
}

/// Any bytes behind a right header, for each compressor.
fn unpack(codec: &mut Codec, data: &[u8]) {
    let Some((claim, rest)) = data.split_at_checked(3) else { return };
    for compressor in 0..5 {
        // A claim of up to 16 MiB, so that the allocation of each run stays bearable.
        let mut message = ((25 + rest.len()) as i32).to_le_bytes().to_vec();
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(&[0xDC, 7, 0, 0, 0xDD, 7, 0, 0, claim[0], claim[1], claim[2] & 0x0F, 0, compressor]);
        message.extend_from_slice(rest);
        if let Ok(unpacked) = codec.decompress(&message) {
            assert!(unpacked.len() <= MAX_MESSAGE_SIZE);
            digest(&unpacked);
        }
    }
}

fn digest(message: &[u8]) {
    let Ok(reply) = read_reply(message) else { return };
    assert_eq!(&message[reply.body_start..], reply.body.as_bytes());
    let _ = ServerDescription::from_hello(address(), reply.body, NOW);
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

fn address() -> Address {
    Address::new("a.example", 27017)
}

fn options(choice: u8) -> ClientOptions {
    let credential = Credential {
        username: Some("ada".into()),
        password: Some(Secret::new("engine")),
        source: "admin".into(),
        mechanism: (choice & 0x40 != 0).then_some(Mechanism::ScramSha1),
    };
    ClientOptions {
        topology: TopologySettings { seeds: vec![address()], is_direct: true, ..TopologySettings::default() },
        local_threshold: Duration::from_millis(15),
        has_selector: false,
        pool: PoolOptions::default(),
        wait_queue_timeout: None,
        connect_timeout: None,
        socket_timeout: None,
        server_selection_timeout: Duration::from_secs(30),
        retry_reads: true,
        retry_writes: true,
        max_adaptive_retries: 2,
        enable_overload_retargeting: false,
        timeout: None,
        metadata: empty(),
        server_api: Vec::new(),
        login: (choice & HAS_USER != 0).then(|| Login::new(credential, [7; 32])),
        compressors: vec![Compressor::Snappy],
    }
}

fn operation(choice: u8) -> Operation {
    let mut head = Command::begin();
    head.extend_from_slice(&empty());
    let kind = [Kind::Read, Kind::ReadOnce, Kind::RetryableWrite, Kind::Write][usize::from(choice & 3)];
    let command = Command::new(head, Vec::new()).expect("an empty document is one");
    Operation { limit: Limit::None, ..Operation::new(command, "a", kind) }
}
