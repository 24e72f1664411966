//! A client, a virtual clock and fake replies, so that a test reads as its sequence of events.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::time::Duration;

use mangonel_bson::{RawDocument, parse_json};
use mangonel_proto::client::Client;
use mangonel_proto::error::Failure;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::ids::{LinkId, ShardId};
use mangonel_proto::message::Command;
use mangonel_proto::operation::{Kind, Operation};
use mangonel_proto::options::{ClientOptions, PoolOptions};
use mangonel_proto::read_preference::{Mode, ReadPreference};
use mangonel_proto::time::Instant;
use mangonel_proto::topology::{self, Address, ServerType, Step as MonitorStep, Topology, TopologySettings};
use serde_json::{Value, json};

pub const MORE_TO_COME: u32 = 2;

/// Turns extended JSON into BSON.
pub fn bson(value: &Value) -> Vec<u8> {
    parse_json(&value.to_string()).unwrap()
}

/// Turns BSON into extended JSON.
pub fn json_of(document: RawDocument<'_>) -> Value {
    let mut text = Vec::new();
    mangonel_bson::write_json(document, mangonel_bson::JsonMode::Canonical, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Builds an OP_MSG.
pub fn op_msg(document: &Value, response_to: i32, flags: u32) -> Vec<u8> {
    let body = bson(document);
    let length = (21 + body.len()) as i32;
    let mut message = Vec::new();
    for word in [length, 77, response_to, 2013, flags as i32] {
        message.extend_from_slice(&word.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(&body);
    message
}

/// The hello of a standalone.
pub fn standalone() -> Value {
    json!({"ok": 1, "ismaster": true, "minWireVersion": 0, "maxWireVersion": 21, "maxMessageSizeBytes": 48_000_000,
        "logicalSessionTimeoutMinutes": 30})
}

/// The hello of a primary.
pub fn primary() -> Value {
    let mut hello = standalone();
    hello["setName"] = json!("rs0");
    hello
}

/// The one server.
pub fn address() -> Address {
    Address::new("a.example", 27017)
}

pub fn options() -> ClientOptions {
    ClientOptions {
        topology: TopologySettings { seeds: vec![address()], is_direct: true, ..TopologySettings::default() },
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
        metadata: bson(&json!({"driver": {"name": "test"}})),
        has_selector: false,
        server_api: Vec::new(),
        login: None,
        compressors: Vec::new(),
    }
}

pub fn with(
    change: impl FnOnce(&mut mangonel_proto::options::ClientOptions),
) -> mangonel_proto::options::ClientOptions {
    let mut options = options();
    change(&mut options);
    options
}

pub fn operation(kind: Kind, command: &Value) -> Operation {
    let mut head = Command::begin();
    head.extend_from_slice(&bson(command));
    Operation::new(Command::new(head, Vec::new()).unwrap(), "shop", kind)
}

pub fn find() -> Operation {
    operation(Kind::Read, &json!({"find": "orders"}))
}

pub fn insert() -> Operation {
    operation(Kind::RetryableWrite, &json!({"insert": "orders"}))
}

pub fn preference(mode: &str) -> Option<ReadPreference> {
    Some(ReadPreference::from_mode(Mode::from_name(mode).unwrap()))
}

/// One client under test.
pub struct Bench {
    pub client: Client,
    pub shard: ShardId,
    pub now: Instant,
    pub hello: Value,
    /// Whether the monitor gets no reply.
    pub is_down: bool,
}

impl Bench {
    pub fn new(options: ClientOptions) -> Self {
        let now = Instant(Duration::from_secs(1000));
        let mut client = Client::new(options, [7; 16], now);
        let shard = client.open_shard();
        Bench { client, shard, now, hello: primary(), is_down: false }
    }

    /// Lets the monitor find out what the server is, unless it is known or down.
    pub fn discover(&mut self) {
        let server = address();
        let is_known = |client: &Client| {
            client
                .description()
                .servers
                .get(&server)
                .is_none_or(|known| known.server_type != ServerType::Unknown)
        };
        let body = bson(&self.hello);
        while !self.is_down && !self.client.is_closed() && !is_known(&self.client) {
            let now = self.now;
            let step = self.client.with_topology(|topology| topology.poll_monitor(&server, now));
            match step {
                MonitorStep::Connect { .. } => {
                    self.client.with_topology(|topology| topology.handle_monitor_connected(&server, now));
                }
                MonitorStep::Write { .. } | MonitorStep::Read { .. } => {
                    let reply = RawDocument::from_bytes(&body).unwrap();
                    let taken =
                        |topology: &mut Topology| topology.handle_monitor_reply(&server, reply, false, now);
                    self.client.with_topology(taken);
                    if !is_known(&self.client) {
                        return;
                    }
                }
                MonitorStep::Wait { until } => self.now = self.now.max(until),
                MonitorStep::Stop => return,
            }
        }
    }

    /// Wakes an exchange that waits for the deployment, after the monitor's check.
    pub fn rouse(&mut self, exchange: &mut Exchange) {
        if exchange.step() == Step::Wait && !self.is_down {
            self.discover();
            exchange.handle_wake(&mut self.client, self.now);
        }
    }

    pub fn standalone() -> Self {
        Bench { hello: standalone(), ..Bench::new(options()) }
    }

    pub fn primary() -> Self {
        Bench::new(options())
    }

    /// Runs a retry until it can be sent.
    pub fn settle(&mut self, exchange: &mut Exchange) {
        self.rouse(exchange);
        if exchange.step() == Step::Connect {
            self.connect(exchange);
        }
    }

    pub fn pass(&mut self, milliseconds: u64) {
        self.now = self.now + Duration::from_millis(milliseconds);
    }

    pub fn begin(&mut self, operation: Operation) -> Exchange {
        self.discover();
        Exchange::begin(&mut self.client, self.shard, operation, self.now)
    }

    /// Begins an operation, and connects if that is due.
    pub fn sent(&mut self, operation: Operation) -> Exchange {
        let mut exchange = self.begin(operation);
        if exchange.step() == Step::Connect {
            self.connect(&mut exchange);
        }
        assert_eq!(exchange.step(), Step::Write);
        exchange
    }

    /// Opens a connection and does the handshake.
    pub fn connect(&mut self, exchange: &mut Exchange) {
        self.open(exchange);
        let hello = self.hello.clone();
        self.reply(exchange, &hello);
    }

    pub fn open(&mut self, exchange: &mut Exchange) -> LinkId {
        self.rouse(exchange);
        assert_eq!(exchange.step(), Step::Connect);
        let link = self.client.next_link();
        exchange.handle_connected(&mut self.client, link, self.now);
        link
    }

    pub fn reply(&mut self, exchange: &mut Exchange, document: &Value) {
        let request = request_id(exchange);
        exchange.handle_reply(&mut self.client, &op_msg(document, request, 0), self.now);
    }

    pub fn break_line(&mut self, exchange: &mut Exchange) {
        exchange.handle_network_error(&mut self.client, "connection reset", false, self.now);
    }

    /// Lets the monitor's next heartbeat time out, which closes connections in use.
    pub fn miss_heartbeat(&mut self) {
        let server = address();
        loop {
            let now = self.now;
            match self.client.with_topology(|topology| topology.poll_monitor(&server, now)) {
                MonitorStep::Wait { until } if until > now => self.now = until,
                _ => break,
            }
        }
        let now = self.now;
        self.client.with_topology(|topology| {
            topology.handle_monitor_error(&server, "timed out", topology::Failure::Timeout, now);
        });
    }

    pub fn close(&mut self, exchange: &mut Exchange) {
        exchange.close(&mut self.client, self.now);
    }

    /// Runs an operation that succeeds.
    pub fn run(&mut self, operation: Operation) -> Exchange {
        let mut exchange = self.sent(operation);
        self.reply(&mut exchange, &json!({"ok": 1}));
        assert_eq!(exchange.step(), Step::Done);
        exchange
    }

    /// Idle, out, pending, waiting.
    pub fn sizes(&self) -> (usize, usize, usize, usize) {
        self.client.pool_sizes(self.shard).unwrap()
    }
}

pub fn request_id(exchange: &Exchange) -> i32 {
    i32::from_le_bytes(*exchange.outbound()[4..].first_chunk().unwrap())
}

/// The body of the message to send.
pub fn outbound(exchange: &Exchange) -> Value {
    let (body, _) = RawDocument::prefix(&exchange.outbound()[21..]).unwrap();
    json_of(body)
}

pub fn number(value: &Value) -> i64 {
    let text = value.get("$numberLong").or_else(|| value.get("$numberInt")).unwrap();
    text.as_str().unwrap().parse().unwrap()
}

/// Returns the message of a network failure.
pub fn message(exchange: &Exchange) -> String {
    match exchange.failure() {
        Some(
            Failure::ServerSelection(message)
            | Failure::WaitQueue(message)
            | Failure::TimeLimit(message)
            | Failure::Network { message, .. }
            | Failure::Protocol(message)
            | Failure::Configuration(message)
            | Failure::TooLarge(message),
        ) => message.clone(),
        other => format!("{other:?}"),
    }
}
