//! The specification's pool tests, on the events of a whole client: check-outs are exchanges with one server, `ready`
//! and `clear` follow from its monitor's checks. Nothing waits; a virtual clock jumps to the next event.
//! Spec: connection-monitoring-and-pooling (cmap-format).

mod bench;
mod common;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use bench::{address, bson, find, op_msg, options, request_id, standalone};
use mangonel_bson::RawDocument;
use mangonel_proto::client::Client;
use mangonel_proto::error::Failure;
use mangonel_proto::events::{Event, Interests, PoolEvent};
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::ids::ShardId;
use mangonel_proto::operation::Operation;
use mangonel_proto::options::PoolOptions;
use mangonel_proto::pool::Pool;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::monitor::Failure as MonitorFailure;
use mangonel_proto::topology::{ApplicationError, Cause, Phase, ServerType, Step as MonitorStep};
use serde_json::{Value, json};

/// Longer than any wait of a case, in virtual time.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// One check-out, or one connection opened in the background.
struct Held {
    exchange: Exchange,
    /// When the server answers its handshake.
    answers_at: Option<Instant>,
    thread: Option<String>,
    label: Option<String>,
}

impl Held {
    /// Whether it has its connection, or will have none.
    fn is_settled(&self) -> bool {
        self.exchange.step() == Step::Done
            || self.exchange.step() == Step::Write && !self.exchange.is_handshake()
    }
}

struct Sim {
    client: Client,
    shard: ShardId,
    now: Instant,
    held: Vec<Held>,
    threads: BTreeMap<String, VecDeque<Value>>,
    labels: HashMap<String, usize>,
    events: Vec<Value>,
    failures: Vec<Failure>,
    /// How long the server takes to answer a handshake, and with which error.
    latency: Duration,
    refusal: Option<i64>,
    /// The options that are not the defaults.
    pool_options: Value,
    /// How often pools are maintained; `None` for never.
    upkeep: Option<Duration>,
    upkeep_at: Instant,
}

impl Sim {
    fn new(case: &Value) -> Sim {
        let given = &case["poolOptions"];
        let number = |name: &str| given[name].as_u64();
        let milliseconds = |name: &str| number(name).map(Duration::from_millis);
        let mut options = options();
        options.wait_queue_timeout = milliseconds("waitQueueTimeoutMS");
        options.connect_timeout = None;
        let pool = &mut options.pool;
        pool.max_idle_time = milliseconds("maxIdleTimeMS");
        pool.max_pool_size = number("maxPoolSize").map_or(pool.max_pool_size, |size| size as usize);
        pool.min_pool_size = number("minPoolSize").map_or(0, |size| size as usize);
        pool.max_connecting = number("maxConnecting").map_or(pool.max_connecting, |count| count as usize);
        let pool_options = differing(pool);
        let interval = given["backgroundThreadIntervalMS"].as_i64().unwrap_or(50);
        let fail_point = &case["failPoint"]["data"];
        let now = Instant(Duration::from_secs(1000));
        let mut client = Client::observed(options, Interests::POOLS, [7; 16], now);
        let shard = client.open_shard();
        let mut sim = Sim {
            client,
            shard,
            now,
            held: Vec::new(),
            threads: BTreeMap::new(),
            labels: HashMap::new(),
            events: Vec::new(),
            failures: Vec::new(),
            latency: Duration::from_millis(fail_point["blockTimeMS"].as_u64().unwrap_or(0)),
            refusal: fail_point["errorCode"].as_i64(),
            pool_options,
            upkeep: u64::try_from(interval).ok().map(Duration::from_millis),
            upkeep_at: now,
        };
        sim.take_events();
        sim
    }

    fn take_events(&mut self) {
        for event in self.client.poll_events() {
            if let Event::Pool { event, .. } = event {
                let mut shown = shown(&event);
                if event == PoolEvent::Created {
                    // The core's event omits them: the Python layer has the same options.
                    shown["options"] = self.pool_options.clone();
                }
                self.events.push(shown);
            }
        }
        // Does the client's work after every change, as its owner would; there are no sockets here.
        let closed = self.client.poll_closing();
        self.client.poll_wakers();
        self.client.poll_actions();
        for link in closed {
            let hit = self.held.iter_mut().find(|held| held.exchange.link() == Some(link));
            // Shutting down a socket wakes its waiting thread; a mere holder does not notice.
            if let Some(held) = hit
                && !held.is_settled()
            {
                held.exchange.handle_network_error(&mut self.client, "closed", false, self.now);
                held.answers_at = None;
            }
        }
    }

    /// Runs everything that needs no time; returns whether anything ran.
    fn step(&mut self) -> bool {
        let mut moved = false;
        for index in 0..self.held.len() {
            let (client, now) = (&mut self.client, self.now);
            let held = &mut self.held[index];
            let was = held.is_settled();
            match held.exchange.step() {
                Step::Connect => {
                    let link = held.exchange.opening().unwrap();
                    held.exchange.handle_connected(client, link, now);
                    held.answers_at = Some(now + self.latency);
                    moved = true;
                }
                Step::Write
                    if held.exchange.is_handshake() && held.answers_at.is_some_and(|due| due <= now) =>
                {
                    let hello = match self.refusal {
                        Some(code) => json!({"ok": 0, "code": code, "errmsg": "refused"}),
                        None => standalone(),
                    };
                    let request = request_id(&held.exchange);
                    held.exchange.handle_reply(client, &op_msg(&hello, request, 0), now);
                    moved = true;
                }
                Step::Wait if client.should_wake(held.exchange.id()) => {
                    held.exchange.handle_wake(client, now);
                    // Selecting a server again does not concern the pool: for the case, the check-out has failed.
                    moved = true;
                }
                Step::Wait | Step::Sleep(_)
                    if held.exchange.deadline(client).is_some_and(|deadline| deadline <= now) =>
                {
                    held.exchange.handle_timeout(client, now);
                    moved = true;
                }
                _ => {}
            }
            if self.gave_up(index) {
                let (client, now) = (&mut self.client, self.now);
                self.held[index].exchange.close(client, now);
            }
            if !was && self.held[index].exchange.step() == Step::Done {
                self.failures.extend(self.held[index].exchange.failure().cloned());
            }
            self.take_events();
        }
        // One after another, as in the thread that maintains the blocking face's pools.
        let is_filling =
            self.held.iter().any(|held| held.exchange.operation().is_filling && !held.is_settled());
        if self.upkeep.is_some() && self.upkeep_at <= self.now && !is_filling {
            let missing = self.client.keep_up(&[self.shard], self.now).unwrap_or_default();
            match missing.into_iter().next() {
                Some((shard, server, _)) => {
                    let filling = Operation::filling(server).unwrap();
                    let exchange = Exchange::begin(&mut self.client, shard, filling, self.now);
                    self.held.push(Held { exchange, answers_at: None, thread: None, label: None });
                    moved = true;
                }
                None => self.upkeep_at = self.now + self.upkeep.unwrap(),
            }
            self.take_events();
        }
        moved | self.run_threads()
    }

    /// Whether the exchange looks for a server again, or waits to: its check-out failed.
    fn gave_up(&self, index: usize) -> bool {
        let exchange = &self.held[index].exchange;
        let waits_in_pool = || {
            let pool = self.client.pool(&address(), self.shard);
            pool.is_some_and(|pool| pool.is_waiting(exchange.id()))
        };
        match exchange.step() {
            Step::Sleep(_) => true,
            Step::Wait => !waits_in_pool() && !self.client.should_wake(exchange.id()),
            _ => false,
        }
    }

    fn run_threads(&mut self) -> bool {
        let names: Vec<String> = self.threads.keys().cloned().collect();
        let mut moved = false;
        for name in names {
            if self.is_busy(&name) {
                continue;
            }
            if let Some(operation) = self.threads.get_mut(&name).and_then(VecDeque::pop_front) {
                self.begin(&operation, Some(name));
                moved = true;
            }
        }
        moved
    }

    fn is_busy(&self, thread: &str) -> bool {
        self.held.iter().any(|held| held.thread.as_deref() == Some(thread) && !held.is_settled())
    }

    /// Lets time pass until `is_over`, or until nothing more can happen.
    fn run_until(&mut self, limit: Duration, is_over: impl Fn(&Sim) -> bool) -> Result<(), String> {
        let end = self.now + limit;
        loop {
            while self.step() {}
            if is_over(self) {
                return Ok(());
            }
            let due = self
                .held
                .iter()
                .filter(|held| !held.is_settled())
                .filter_map(|held| held.answers_at.or_else(|| held.exchange.deadline(&self.client)));
            let upkeep = self.upkeep.map(|_| self.upkeep_at);
            let next = due.chain(upkeep).filter(|due| *due > self.now).min();
            match next {
                Some(next) if next <= end => self.now = next,
                _ if limit < TIME_LIMIT => {
                    self.now = end;
                    while self.step() {}
                    return Ok(());
                }
                _ => return Err(format!("waited in vain; events: {}", self.story())),
            }
        }
    }

    fn begin(&mut self, operation: &Value, thread: Option<String>) {
        let label = operation["label"].as_str().map(str::to_owned);
        match operation["name"].as_str().unwrap() {
            "checkOut" => {
                let exchange = Exchange::begin_at(&mut self.client, self.shard, find(), &address(), self.now);
                self.failures.extend(exchange.failure().cloned());
                if let Some(label) = &label {
                    self.labels.insert(label.clone(), self.held.len());
                }
                self.held.push(Held { exchange, answers_at: None, thread, label });
            }
            "checkIn" => self.check_in(operation["connection"].as_str().unwrap()),
            other => panic!("unknown operation {other:?} of a thread"),
        }
        self.take_events();
    }

    fn check_in(&mut self, label: &str) {
        let held = &mut self.held[self.labels[label]];
        assert_eq!(held.label.as_deref(), Some(label));
        let request = request_id(&held.exchange);
        let reply = op_msg(&json!({"ok": 1}), request, 0);
        held.exchange.handle_reply(&mut self.client, &reply, self.now);
        self.take_events();
    }

    /// Lets the monitor find the server, or find it again if it is known.
    fn ready(&mut self) {
        let (server, body) = (address(), bson(&standalone()));
        loop {
            let now = self.now;
            match self.client.with_topology(|topology| topology.poll_monitor(&server, now)) {
                MonitorStep::Connect { .. } => {
                    self.client.with_topology(|topology| topology.handle_monitor_connected(&server, now));
                }
                MonitorStep::Write { .. } | MonitorStep::Read { .. } => {
                    let reply = RawDocument::from_bytes(&body).unwrap();
                    self.client.with_topology(|topology| {
                        topology.handle_monitor_reply(&server, reply, false, now);
                    });
                    break;
                }
                MonitorStep::Wait { until } => self.now = until,
                MonitorStep::Stop => break,
            }
        }
        assert!(self.client.description().servers[&server].server_type != ServerType::Unknown);
        self.upkeep_at = self.now;
        self.take_events();
    }

    fn clear(&mut self, is_interrupting: bool) {
        let (server, now) = (address(), self.now);
        if is_interrupting {
            // Only a monitor whose wait timed out interrupts.
            while let MonitorStep::Wait { until } =
                self.client.with_topology(|topology| topology.poll_monitor(&server, now))
            {
                self.now = self.now.max(until);
                if self.client.with_topology(|topology| topology.poll_monitor(&server, until))
                    != (MonitorStep::Wait { until })
                {
                    break;
                }
            }
            let now = self.now;
            self.client.with_topology(|topology| {
                topology.handle_monitor_error(&server, "timed out", MonitorFailure::Timeout, now);
                topology.poll_monitor(&server, now);
            });
        } else {
            let generation = self.client.pool(&server, self.shard).map_or(0, Pool::generation);
            let error = ApplicationError {
                address: &server,
                cause: Cause::Network,
                phase: Phase::AfterHandshake,
                is_overload: false,
                generation: u64::from(generation),
                pool_generation: u64::from(generation),
                service_id: None,
                message: "cleared by the test",
            };
            self.client.with_topology(|topology| topology.handle_application_error(&error, now));
        }
        self.take_events();
    }

    fn run(&mut self, operation: &Value) -> Result<(), String> {
        let name = operation["name"].as_str().unwrap();
        if let Some(thread) = operation["thread"].as_str() {
            self.threads.entry(thread.to_owned()).or_default().push_back(operation.clone());
            while self.step() {}
            return Ok(());
        }
        match name {
            "start" => {}
            "ready" => self.ready(),
            "clear" => self.clear(operation["interruptInUseConnections"].as_bool() == Some(true)),
            "close" => {
                self.client.close(self.now);
                self.take_events();
            }
            "wait" => {
                let span = Duration::from_millis(operation["ms"].as_u64().unwrap());
                let end = self.now + span;
                self.run_until(span, |_| false)?;
                self.now = self.now.max(end);
            }
            "waitForThread" => {
                let thread = operation["target"].as_str().unwrap().to_owned();
                self.run_until(TIME_LIMIT, |sim| {
                    !sim.is_busy(&thread) && sim.threads.get(&thread).is_none_or(VecDeque::is_empty)
                })?;
            }
            "waitForEvent" => {
                let event = operation["event"].as_str().unwrap().to_owned();
                let count = operation["count"].as_u64().unwrap() as usize;
                self.run_until(TIME_LIMIT, |sim| {
                    sim.events.iter().filter(|seen| seen["type"] == event.as_str()).count() >= count
                })?;
            }
            "checkOut" => {
                self.begin(operation, None);
                let index = self.held.len() - 1;
                self.run_until(TIME_LIMIT, |sim| sim.held[index].is_settled())?;
            }
            _ => self.begin(operation, None),
        }
        while self.step() {}
        Ok(())
    }

    fn story(&self) -> String {
        self.events.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n    ")
    }
}

/// The pool's options that are not the defaults, by their names in a URI.
fn differing(options: &PoolOptions) -> Value {
    let usual = PoolOptions::default();
    let mut differing = json!({});
    for (name, value, usual) in [
        ("maxPoolSize", options.max_pool_size, usual.max_pool_size),
        ("minPoolSize", options.min_pool_size, usual.min_pool_size),
        ("maxConnecting", options.max_connecting, usual.max_connecting),
    ] {
        if value != usual {
            differing[name] = json!(value);
        }
    }
    if let Some(idle) = options.max_idle_time {
        differing["maxIdleTimeMS"] = json!(idle.as_millis() as u64);
    }
    differing
}

fn shown(event: &PoolEvent) -> Value {
    match event {
        PoolEvent::Created => json!({"type": "ConnectionPoolCreated"}),
        PoolEvent::Ready => json!({"type": "ConnectionPoolReady"}),
        PoolEvent::Cleared { is_interrupting, .. } => {
            json!({"type": "ConnectionPoolCleared", "interruptInUseConnections": is_interrupting})
        }
        PoolEvent::Closed => json!({"type": "ConnectionPoolClosed"}),
        PoolEvent::ConnectionCreated { link } => json!({"type": "ConnectionCreated", "connectionId": link.0}),
        PoolEvent::ConnectionReady { link, duration } => {
            json!({"type": "ConnectionReady", "connectionId": link.0, "duration": duration.as_micros() as u64})
        }
        PoolEvent::ConnectionClosed { link, reason } => {
            json!({"type": "ConnectionClosed", "connectionId": link.0, "reason": reason.name()})
        }
        PoolEvent::CheckOutStarted => json!({"type": "ConnectionCheckOutStarted"}),
        PoolEvent::CheckOutFailed { reason, duration, .. } => json!({"type": "ConnectionCheckOutFailed",
            "reason": reason.name(), "duration": duration.as_micros() as u64}),
        PoolEvent::CheckedOut { link, duration } => {
            json!({"type": "ConnectionCheckedOut", "connectionId": link.0, "duration": duration.as_micros() as u64})
        }
        PoolEvent::CheckedIn { link } => json!({"type": "ConnectionCheckedIn", "connectionId": link.0}),
    }
}

/// Whether a value matches; 42 matches any value.
fn is_match(wanted: &Value, found: &Value) -> bool {
    let is_any = *wanted == json!(42) || *wanted == json!("42");
    if is_any { !found.is_null() } else { wanted == found }
}

fn check(case: &common::Case) -> Result<(), String> {
    let json = &case.json;
    let mut sim = Sim::new(json);
    let mut failure = None;
    for operation in json["operations"].as_array().unwrap() {
        sim.run(operation)?;
    }
    if let Some(error) = json["error"]["type"].as_str() {
        let is_expected = |failure: &Failure| match error {
            "PoolClosedError" => matches!(failure, Failure::Closed),
            "WaitQueueTimeoutError" => matches!(failure, Failure::WaitQueue(_)),
            _ => false,
        };
        if !sim.failures.iter().any(is_expected) {
            failure = Some(format!("expected {error}, got {:?}", sim.failures));
        }
    }
    let ignored = json["ignore"].as_array().cloned().unwrap_or_default();
    let seen: Vec<&Value> = sim.events.iter().filter(|event| !ignored.contains(&event["type"])).collect();
    let wanted = json["events"].as_array().unwrap();
    for (index, expected) in wanted.iter().enumerate() {
        let fields = expected.as_object().unwrap().iter().filter(|(name, _)| *name != "address");
        let found = seen.get(index).copied().unwrap_or(&Value::Null);
        if let Some((name, value)) = fields.into_iter().find(|(name, value)| !is_match(value, &found[*name]))
        {
            failure
                .get_or_insert(format!("event {index}: expected {name} {value} of {expected}, got {found}"));
        }
    }
    // Events after the last one that a case names are ignored; a unit test must have none.
    if json["style"] == "unit" && seen.len() != wanted.len() {
        failure.get_or_insert(format!("expected {} events, got {}", wanted.len(), seen.len()));
    }
    match failure {
        Some(failure) => Err(format!("{failure}\n    {}", sim.story())),
        None => Ok(()),
    }
}

#[test]
fn cmap_spec() {
    let folder = "connection-monitoring-and-pooling/tests/cmap-format";
    if let Some(cases) = common::load(folder) {
        common::run("cmap", &cases, check);
    }
}
