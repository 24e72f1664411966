//! Rows of the protocol: framing, one command from begin to reply, a handshake, monitoring, server selection.

use std::hint::black_box;
use std::time::Duration;

use mangonel_bson::{
    RawDocument, RawValue, append_i32, append_i64, append_str, append_value, begin_array, begin_subdocument,
    end_document, parse_json,
};
use mangonel_proto::client::Client;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::frame::Deframer;
use mangonel_proto::ids::ShardId;
use mangonel_proto::message::Command;
use mangonel_proto::operation::{Kind, Operation};
use mangonel_proto::options::{ClientOptions, PoolOptions};
use mangonel_proto::time::Instant;
use mangonel_proto::topology::select::{self, Criteria};
use mangonel_proto::topology::{Address, ServerType, Step as MonitorStep, Topology, TopologySettings};

use crate::documents::{document, user};

const PIECE: usize = 16 * 1024;
const MEMBERS: u16 = 7;

/// Plays every row.
pub fn play(row: &mut dyn FnMut(&str, &mut dyn FnMut())) {
    let ok = parse_json(r#"{"ok": 1, "n": 1}"#).unwrap();
    let (one, many) = (batch(1), batch(101));

    let reply = message(&many, 7);
    let mut deframer = Deframer::default();
    row("deframe", &mut || deframe(&mut deframer, &reply));

    let mut deployment = Deployment::connected();
    row("find_one", &mut || deployment.run(find(), &one));
    row("find_101", &mut || deployment.run(find(), &many));
    row("insert_one", &mut || deployment.run(insert(1), &ok));
    row("insert_100", &mut || deployment.run(insert(100), &ok));
    row("connect_and_find_one", &mut || Deployment::connected().run(find(), &one));

    let mut set = ReplicaSet::new();
    row("heartbeat_of_a_primary", &mut || set.hear(0));
    row("heartbeat_of_a_secondary", &mut || set.hear(1));
    row("select_a_primary", &mut || set.select(Criteria::Writable));
}

fn deframe(deframer: &mut Deframer, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let window = deframer.window();
        let count = window.len().min(bytes.len()).min(PIECE);
        window[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        deframer.received(count).unwrap();
    }
    black_box(deframer.take().unwrap());
}

/// One server that answers at once, and a client of it.
struct Deployment {
    client: Client,
    shard: ShardId,
    now: Instant,
}

impl Deployment {
    /// Returns a client that knows its server.
    fn connected() -> Self {
        let now = Instant(Duration::from_secs(1000));
        let mut client = Client::new(options(), [7; 16], now);
        let shard = client.open_shard();
        let server = Address::new("a.example", 27017);
        let body = hello(0, 1);
        client.with_topology(|topology| meet(topology, &server, &body, now));
        Deployment { client, shard, now }
    }

    /// Takes an operation from begin to its reply, over a new connection when none is idle.
    fn run(&mut self, operation: Operation, reply: &[u8]) {
        let mut exchange = Exchange::begin(&mut self.client, self.shard, operation, self.now);
        if exchange.step() == Step::Connect {
            let link = self.client.next_link();
            exchange.handle_connected(&mut self.client, link, self.now);
            let greeting = message(&hello(0, 1), request_id(&exchange));
            exchange.handle_reply(&mut self.client, &greeting, self.now);
        }
        assert_eq!(exchange.step(), Step::Write);
        let answer = message(reply, request_id(&exchange));
        exchange.handle_reply(&mut self.client, &answer, self.now);
        assert_eq!(exchange.step(), Step::Done);
        exchange.close(&mut self.client, self.now);
    }
}

/// Seven members that are known.
struct ReplicaSet {
    topology: Topology,
    now: Instant,
    replies: Vec<(Address, Vec<u8>)>,
}

impl ReplicaSet {
    fn new() -> Self {
        let now = Instant(Duration::from_secs(1000));
        let replies: Vec<_> = (0..MEMBERS).map(|number| (member(number), hello(number, MEMBERS))).collect();
        let settings = TopologySettings {
            seeds: replies.iter().map(|(address, _)| address.clone()).collect(),
            set_name: Some("rs0".into()),
            ..TopologySettings::default()
        };
        let mut set = ReplicaSet { topology: Topology::new(settings, now), now, replies };
        for (address, body) in &set.replies {
            meet(&mut set.topology, address, body, now);
        }
        set
    }

    /// Takes the next heartbeat of a member.
    fn hear(&mut self, number: usize) {
        self.now = self.now + Duration::from_secs(10);
        let (address, body) = &self.replies[number];
        meet(&mut self.topology, address, body, self.now);
    }

    fn select(&self, criteria: Criteria<'_>) {
        let found = select::select(
            self.topology.description(),
            criteria,
            &[],
            Duration::from_secs(10),
            Duration::from_millis(15),
            |_| 0,
            black_box(3),
        );
        assert!(found.unwrap().is_some());
    }
}

/// Plays a monitor until it has taken one reply.
fn meet(topology: &mut Topology, address: &Address, body: &[u8], mut now: Instant) {
    loop {
        match topology.poll_monitor(address, now) {
            MonitorStep::Connect { .. } => topology.handle_monitor_connected(address, now),
            MonitorStep::Write { .. } | MonitorStep::Read { .. } => {
                let reply = RawDocument::from_bytes(body).unwrap();
                topology.handle_monitor_reply(address, reply, false, now);
                let known = topology.description().servers.get(address);
                assert!(known.is_some_and(|server| server.server_type != ServerType::Unknown));
                while topology.poll_effect().is_some() {}
                return;
            }
            MonitorStep::Wait { until } => now = now.max(until),
            MonitorStep::Stop => panic!("expected a monitor of {address}"),
        }
    }
}

fn options() -> ClientOptions {
    ClientOptions {
        topology: TopologySettings {
            seeds: vec![Address::new("a.example", 27017)],
            is_direct: true,
            ..TopologySettings::default()
        },
        local_threshold: Duration::from_millis(15),
        pool: PoolOptions::default(),
        wait_queue_timeout: None,
        connect_timeout: Some(Duration::from_secs(20)),
        socket_timeout: None,
        server_selection_timeout: Duration::from_secs(30),
        retry_reads: true,
        retry_writes: true,
        max_adaptive_retries: 2,
        enable_overload_retargeting: false,
        timeout: None,
        metadata: parse_json(r#"{"driver": {"name": "instructions"}}"#).unwrap(),
        has_selector: false,
        server_api: Vec::new(),
        login: None,
        compressors: Vec::new(),
    }
}

fn operation(kind: Kind, command: &str, sequence: Vec<u8>) -> Operation {
    let mut head = Command::begin();
    head.extend_from_slice(&parse_json(command).unwrap());
    Operation::new(Command::new(head, sequence).unwrap(), "shop", kind)
}

fn find() -> Operation {
    operation(
        Kind::Read,
        r#"{"find": "orders", "filter": {"_id": 7}, "limit": 1, "singleBatch": true}"#,
        Vec::new(),
    )
}

fn insert(documents: usize) -> Operation {
    let mut sequence = Command::begin_sequence("documents", 4096);
    let each = user();
    for _ in 0..documents {
        sequence.extend_from_slice(&each);
    }
    operation(Kind::RetryableWrite, r#"{"insert": "orders", "ordered": true}"#, sequence)
}

fn batch(documents: usize) -> Vec<u8> {
    let each = user();
    document(|out| {
        let cursor = begin_subdocument(out, "cursor");
        let array = begin_array(out, "firstBatch");
        for number in 0..documents {
            let inner = RawDocument::from_bytes(&each).unwrap();
            append_value(out, &number.to_string(), RawValue::Document(inner));
        }
        end_document(out, array);
        append_i64(out, "id", 0);
        append_str(out, "ns", "shop.orders");
        end_document(out, cursor);
        append_i32(out, "ok", 1);
    })
}

fn member(number: u16) -> Address {
    Address::new("a.example", 27017 + number)
}

/// What a member of the set says; the first is the primary.
fn hello(number: u16, members: u16) -> Vec<u8> {
    let hosts: Vec<_> = (0..members).map(|other| format!("\"{}\"", member(other))).collect();
    let role = if number == 0 { "isWritablePrimary" } else { "secondary" };
    parse_json(&format!(
        r#"{{"ok": 1, "{role}": true, "setName": "rs0", "setVersion": 1, "me": "{}", "hosts": [{}], "primary": "{}",
        "minWireVersion": 0, "maxWireVersion": 21, "maxMessageSizeBytes": 48000000, "maxBsonObjectSize": 16777216,
        "maxWriteBatchSize": 100000, "logicalSessionTimeoutMinutes": 30}}"#,
        member(number),
        hosts.join(", "),
        member(0),
    ))
    .unwrap()
}

fn message(body: &[u8], response_to: i32) -> Vec<u8> {
    let length = (21 + body.len()) as i32;
    let mut message = Vec::with_capacity(21 + body.len());
    for word in [length, 77, response_to, 2013, 0] {
        message.extend_from_slice(&word.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(body);
    message
}

fn request_id(exchange: &Exchange) -> i32 {
    i32::from_le_bytes(*exchange.outbound()[4..].first_chunk().unwrap())
}
