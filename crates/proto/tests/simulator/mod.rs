//! A client and a virtual replica set, driven by one queue of events in virtual time: a minute of failovers takes
//! milliseconds, and the seed determines the run.

mod member;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use mangonel_bson::RawDocument;
use mangonel_proto::client::{Action, Client};
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::ids::{LinkId, ShardId};
use mangonel_proto::operation::Kind;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::HelloRequest;
use mangonel_proto::topology::monitor::Failure as CheckFailure;
use mangonel_proto::topology::{Address, Step as MonitorStep, TopologySettings};
use serde_json::{Value, json};

pub use super::bench::number;
use super::bench::{MORE_TO_COME, bson, op_msg, operation, options, outbound, request_id};
pub use member::{Set, State, name};

const WAY_MS: u64 = 1;
const LONGEST_HOLD_MS: u64 = 10_000;
const THINK_MS: u64 = 80;

/// The receiver of an event. If its wait has ended otherwise, its number is out of date.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Agent {
    Worker(usize),
    Watcher(usize),
    Pinger(usize),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Begin(usize),
    Connected(Agent, u64),
    /// A message reaches a member.
    Arrived(Agent, u64, usize, u32, String),
    /// A reply arrives, and whether more follow.
    Replied(Agent, u64, String, bool),
    Broken(Agent, u64),
    TimedOut(Agent, u64),
    Fault(Fault),
    Restart(usize),
    Resume(usize),
    /// Nothing changed for the longest time that a member may delay a hello reply.
    HeldLong(Agent, u64),
    StepDown(usize),
    Elect(usize),
}

/// What happens to the primary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    Kill,
    StepDown,
    Pause,
}

struct Worker {
    exchange: Option<Exchange>,
    value: i64,
    begun: Instant,
}

/// A hello whose reply a member delays until something changes, and its sender.
struct Held {
    member: usize,
    agent: Agent,
    ticket: u64,
}

/// The result of a run.
#[derive(Default)]
pub struct Outcome {
    pub acknowledged: Vec<i64>,
    pub errors: Vec<String>,
    pub longest: Duration,
}

/// The world.
pub struct Simulator {
    pub set: Set,
    pub outcome: Outcome,
    client: Client,
    shard: ShardId,
    now: Instant,
    end: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    ticket: u64,
    /// The last number given to each agent.
    current: BTreeMap<Agent, u64>,
    workers: Vec<Worker>,
    /// The member of the connection, and which start of its process.
    connections: BTreeMap<LinkId, (usize, u32)>,
    observed: BTreeMap<Agent, (usize, u32)>,
    held: Vec<Held>,
    /// The counter in the last hello sent to each watcher.
    told: BTreeMap<Agent, i64>,
    /// The observers that wait for a connection, not for a moment.
    on_line: BTreeSet<Agent>,
    /// Messages that arrived at paused members.
    inbox: Vec<(usize, Event)>,
    chance: u64,
}

impl Simulator {
    /// Makes a world of three members and `workers` that insert one document after the other for `seconds`.
    pub fn new(seed: u64, workers: usize, seconds: u64) -> Self {
        let now = Instant(Duration::from_secs(1000));
        let mut options = options();
        options.topology = TopologySettings {
            seeds: (0..3).map(address).collect(),
            set_name: Some("rs0".into()),
            ..TopologySettings::default()
        };
        let mut client = Client::new(options, [seed as u8; 16], now);
        let shard = client.open_shard();
        let mut world = Simulator {
            set: Set::new(),
            outcome: Outcome::default(),
            client,
            shard,
            now,
            end: now + Duration::from_secs(seconds),
            queue: BinaryHeap::new(),
            ticket: 0,
            current: BTreeMap::new(),
            workers: Vec::new(),
            connections: BTreeMap::new(),
            observed: BTreeMap::new(),
            held: Vec::new(),
            told: BTreeMap::new(),
            on_line: BTreeSet::new(),
            inbox: Vec::new(),
            chance: seed.wrapping_mul(2) + 1,
        };
        for worker in 0..workers {
            world.workers.push(Worker { exchange: None, value: worker as i64 * 1_000_000, begun: now });
            world.after(0, Event::Begin(worker));
        }
        world
    }

    /// Schedules a fault of the primary at that time.
    pub fn fault_at(&mut self, milliseconds: u64, fault: Fault) {
        self.after(milliseconds, Event::Fault(fault));
    }

    /// Returns a random number below `bound`.
    pub fn roll(&mut self, bound: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % bound
    }

    /// Lets time pass until every worker has ended.
    pub fn run(&mut self) {
        self.follow_up();
        while let Some(Reverse((when, _, event))) = self.queue.pop() {
            self.now = when;
            assert!(self.now < self.end + Duration::from_secs(300), "a worker hangs: {:?}", self.stuck());
            self.handle(event);
            self.follow_up();
            if self.now > self.end && self.workers.iter().all(|worker| worker.exchange.is_none()) {
                return;
            }
        }
    }

    fn stuck(&self) -> Vec<Step> {
        self.workers.iter().filter_map(|worker| Some(worker.exchange.as_ref()?.step())).collect()
    }

    fn after(&mut self, milliseconds: u64, event: Event) {
        self.at(self.now + Duration::from_millis(milliseconds), event);
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.ticket += 1;
        self.queue.push(Reverse((when.max(self.now), self.ticket, event)));
    }

    /// Gives an agent a new number, which cancels its earlier wait.
    fn renew(&mut self, agent: Agent) -> u64 {
        self.ticket += 1;
        self.current.insert(agent, self.ticket);
        self.ticket
    }

    fn is_current(&self, agent: Agent, ticket: u64) -> bool {
        self.current.get(&agent) == Some(&ticket)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin(worker) => self.begin(worker),
            Event::Connected(agent, ticket) if self.is_current(agent, ticket) => self.connected(agent),
            Event::Arrived(agent, ticket, member, boot, body) => {
                self.arrived(agent, ticket, member, boot, body)
            }
            Event::Replied(agent, ticket, body, more) if self.is_current(agent, ticket) => {
                self.replied(agent, &body, more);
            }
            Event::Broken(agent, ticket) if self.is_current(agent, ticket) => self.failed(agent, false),
            Event::TimedOut(agent, ticket) if self.is_current(agent, ticket) => self.timed_out(agent),
            Event::Fault(fault) => self.cause(fault),
            Event::Restart(member) => self.set.restart(member),
            Event::Resume(member) => self.resume(member),
            Event::HeldLong(agent, ticket) if self.is_current(agent, ticket) => {
                let member = observed_by(agent);
                if self.set.members[member].state == State::Up {
                    self.held.retain(|held| held.ticket != ticket);
                    let body = self.set.hello(member).to_string();
                    self.after(WAY_MS, Event::Replied(agent, ticket, body, true));
                }
            }
            Event::StepDown(member) if self.set.members[member].term != self.set.term => {
                self.step_down(member)
            }
            Event::Elect(but) => {
                if let Some(winner) = self.set.elect(but) {
                    self.tell_of_change(winner);
                }
            }
            _ => {}
        }
    }

    /// Does what the client requests after every change: wakes its exchanges, starts and wakes its observers.
    fn follow_up(&mut self) {
        while self.client.has_pending() {
            self.client.poll_closing();
            for id in self.client.poll_wakers() {
                let woken =
                    |worker: &Worker| worker.exchange.as_ref().is_some_and(|exchange| exchange.id() == id);
                if let Some(worker) = self.workers.iter().position(woken) {
                    let now = self.now;
                    if let Some(exchange) = &mut self.workers[worker].exchange {
                        exchange.handle_wake(&mut self.client, now);
                    }
                    self.drive(worker);
                }
            }
            for action in self.client.poll_actions() {
                match action {
                    Action::Watch(server) => self.observe(Agent::Watcher(member_of(&server))),
                    Action::Ping(server) => self.observe(Agent::Pinger(member_of(&server))),
                    Action::Wake(server) => self.observe(Agent::Watcher(member_of(&server))),
                    Action::Interrupt(server) => self.failed(Agent::Watcher(member_of(&server)), false),
                    Action::Stop(_) => panic!("no member leaves this set"),
                    _ => {}
                }
            }
            self.client.poll_events();
        }
    }

    // Workers

    fn begin(&mut self, worker: usize) {
        let value = self.workers[worker].value + 1;
        let insert = operation(Kind::RetryableWrite, &json!({"insert": "orders", "value": value}));
        let exchange = Exchange::begin(&mut self.client, self.shard, insert, self.now);
        self.workers[worker] = Worker { exchange: Some(exchange), value, begun: self.now };
        self.drive(worker);
    }

    fn drive(&mut self, worker: usize) {
        let agent = Agent::Worker(worker);
        let ticket = self.renew(agent);
        let Some(exchange) = &mut self.workers[worker].exchange else { return };
        exchange.announce(&mut self.client, self.now);
        if let Some(limit) = exchange.step_timeout(&self.client, self.now)
            && matches!(exchange.step(), Step::Connect | Step::Write | Step::Read)
        {
            self.queue.push(Reverse((self.now + limit, ticket, Event::TimedOut(agent, ticket))));
        }
        match exchange.step() {
            Step::Connect => {
                let member = member_of(exchange.server().expect("a server was selected"));
                self.connect(agent, ticket, member);
            }
            Step::Write => {
                let body = outbound(exchange).to_string();
                let link = exchange.link().expect("a connection is held");
                exchange.handle_sent(&mut self.client, self.now);
                let (member, boot) = self.connections[&link];
                self.after(WAY_MS, Event::Arrived(agent, ticket, member, boot, body));
            }
            Step::Wait => {
                if let Some(deadline) = exchange.deadline(&self.client) {
                    self.at(deadline, Event::TimedOut(agent, ticket));
                }
            }
            Step::Sleep(until) => self.at(until, Event::TimedOut(agent, ticket)),
            Step::Read | Step::Ask => panic!("nothing streams or asks here"),
            Step::Done => self.done(worker),
        }
    }

    fn done(&mut self, worker: usize) {
        let Worker { exchange, value, begun } = &mut self.workers[worker];
        let mut exchange = exchange.take().expect("it was driven");
        let spent = self.now.saturating_since(*begun);
        match exchange.failure() {
            None => self.outcome.acknowledged.push(*value),
            Some(failure) => self.outcome.errors.push(format!("after {spent:?}: {failure:?}")),
        }
        self.outcome.longest = self.outcome.longest.max(spent);
        exchange.close(&mut self.client, self.now);
        if self.now < self.end {
            self.after(THINK_MS, Event::Begin(worker));
        }
    }

    // Observers

    fn observe(&mut self, agent: Agent) {
        let ticket = self.renew(agent);
        let (server, now) = (address(observed_by(agent)), self.now);
        let step = self.client.with_topology(|topology| match agent {
            Agent::Pinger(_) => topology.poll_pinger(&server, now),
            _ => topology.poll_monitor(&server, now),
        });
        self.on_line.insert(agent);
        let limit = match step {
            MonitorStep::Connect { timeout } => {
                self.connect(agent, ticket, observed_by(agent));
                timeout
            }
            MonitorStep::Write { hello, timeout } => {
                let (member, boot) = self.observed[&agent];
                let known = match hello {
                    HelloRequest::Await { topology_version, .. } => topology_version.counter,
                    _ => -1,
                };
                let body = json!({"hello": 1, "known": known}).to_string();
                self.after(WAY_MS, Event::Arrived(agent, ticket, member, boot, body));
                timeout
            }
            MonitorStep::Read { timeout } => {
                let (member, boot) = self.observed[&agent];
                if self.set.members[member].boot != boot {
                    self.after(WAY_MS, Event::Broken(agent, ticket));
                } else if self.told.get(&agent) == Some(&self.set.members[member].counter) {
                    self.hold(member, agent, ticket);
                } else {
                    // It changed while the last reply was on its way.
                    let body = self.set.hello(member).to_string();
                    self.after(WAY_MS, Event::Replied(agent, ticket, body, true));
                }
                timeout
            }
            MonitorStep::Wait { until } => {
                self.on_line.remove(&agent);
                self.at(until, Event::TimedOut(agent, ticket));
                None
            }
            MonitorStep::Stop => None,
        };
        if let Some(limit) = limit {
            self.queue.push(Reverse((self.now + limit, ticket, Event::TimedOut(agent, ticket))));
        }
    }

    fn hold(&mut self, member: usize, agent: Agent, ticket: u64) {
        self.held.push(Held { member, agent, ticket });
        self.after(LONGEST_HOLD_MS, Event::HeldLong(agent, ticket));
    }

    /// Answers the hellos that a member delayed until something changed.
    fn tell_of_change(&mut self, member: usize) {
        if self.set.members[member].state != State::Up {
            return;
        }
        let body = self.set.hello(member).to_string();
        let (due, kept) = std::mem::take(&mut self.held).into_iter().partition(|held| held.member == member);
        self.held = kept;
        for Held { agent, ticket, .. } in due {
            self.after(WAY_MS, Event::Replied(agent, ticket, body.clone(), true));
        }
    }

    // The connections

    fn connect(&mut self, agent: Agent, ticket: u64, member: usize) {
        let event = match self.set.members[member].state {
            State::Down => Event::Broken(agent, ticket),
            // A paused process does not keep its kernel from accepting connections.
            State::Up | State::Paused => Event::Connected(agent, ticket),
        };
        self.after(WAY_MS, event);
    }

    fn connected(&mut self, agent: Agent) {
        let now = self.now;
        if let Agent::Worker(worker) = agent {
            let exchange = self.workers[worker].exchange.as_mut().expect("it connects");
            let member = member_of(exchange.server().expect("a server was selected"));
            let link = exchange.opening().unwrap_or_else(|| self.client.next_link());
            self.connections.insert(link, (member, self.set.members[member].boot));
            exchange.handle_connected(&mut self.client, link, now);
            return self.drive(worker);
        }
        let member = observed_by(agent);
        self.observed.insert(agent, (member, self.set.members[member].boot));
        let server = address(member);
        self.client.with_topology(|topology| match agent {
            Agent::Pinger(_) => topology.handle_pinger_connected(&server, now),
            _ => topology.handle_monitor_connected(&server, now),
        });
        self.observe(agent);
    }

    fn arrived(&mut self, agent: Agent, ticket: u64, member: usize, boot: u32, body: String) {
        let state = self.set.members[member].state;
        if state == State::Down || self.set.members[member].boot != boot {
            return self.after(WAY_MS, Event::Broken(agent, ticket));
        }
        if state == State::Paused {
            return self.inbox.push((member, Event::Arrived(agent, ticket, member, boot, body)));
        }
        let asked: Value = serde_json::from_str(&body).expect("it was written here");
        if asked["known"].as_i64() == Some(self.set.members[member].counter) {
            return self.hold(member, agent, ticket);
        }
        let streams = asked["known"].as_i64().is_some_and(|known| known >= 0);
        let answer = self.set.answer(member, &asked).to_string();
        self.after(WAY_MS, Event::Replied(agent, ticket, answer, streams));
    }

    fn replied(&mut self, agent: Agent, body: &str, more: bool) {
        let document: Value = serde_json::from_str(body).expect("it was written here");
        let now = self.now;
        if let Agent::Worker(worker) = agent {
            let exchange = self.workers[worker].exchange.as_mut().expect("it waits for a reply");
            let message = op_msg(&document, request_id(exchange), if more { MORE_TO_COME } else { 0 });
            exchange.handle_reply(&mut self.client, &message, now);
            return self.drive(worker);
        }
        self.told.insert(agent, number(&document["topologyVersion"]["counter"]));
        let (server, bytes) = (address(observed_by(agent)), bson(&document));
        self.client.with_topology(|topology| match agent {
            Agent::Pinger(_) => topology.handle_pinger_reply(&server, now),
            _ => {
                let reply = RawDocument::from_bytes(&bytes).expect("it was written here");
                topology.handle_monitor_reply(&server, reply, more, now);
            }
        });
        self.observe(agent);
    }

    fn failed(&mut self, agent: Agent, timed_out: bool) {
        let now = self.now;
        if let Agent::Worker(worker) = agent {
            let exchange = self.workers[worker].exchange.as_mut().expect("it uses a connection");
            exchange.handle_network_error(&mut self.client, "the connection broke", timed_out, now);
            return self.drive(worker);
        }
        let server = address(observed_by(agent));
        let failure = if timed_out { CheckFailure::Timeout } else { CheckFailure::Network };
        self.client.with_topology(|topology| match agent {
            Agent::Pinger(_) => topology.handle_pinger_error(&server, now),
            _ => topology.handle_monitor_error(&server, "the connection broke", failure, now),
        });
        self.observe(agent);
    }

    fn timed_out(&mut self, agent: Agent) {
        let now = self.now;
        match agent {
            Agent::Worker(worker) => {
                let exchange = self.workers[worker].exchange.as_mut().expect("it waits");
                if matches!(exchange.step(), Step::Wait | Step::Sleep(_)) {
                    exchange.handle_timeout(&mut self.client, now);
                    return self.drive(worker);
                }
                self.failed(agent, true);
            }
            Agent::Watcher(_) | Agent::Pinger(_) => {
                // A wait that is over turns into the next step.
                if self.on_line.contains(&agent) { self.failed(agent, true) } else { self.observe(agent) }
            }
        }
    }

    // Faults

    fn cause(&mut self, fault: Fault) {
        let Some(primary) = self.set.primary() else { return };
        let election = 500 + self.roll(2500);
        match fault {
            Fault::Kill => {
                self.set.kill(primary);
                self.held.retain(|held| held.member != primary);
                self.break_lines(primary);
                let back = 1000 + self.roll(4000);
                self.after(back, Event::Restart(primary));
            }
            Fault::StepDown => self.step_down(primary),
            Fault::Pause => {
                self.set.members[primary].state = State::Paused;
                // The others elect one of themselves in a new term, which the paused member does not know.
                let pause = 4000 + self.roll(4000);
                self.after(pause, Event::Resume(primary));
            }
        }
        self.after(election, Event::Elect(primary));
    }

    fn step_down(&mut self, member: usize) {
        self.set.step_down(member);
        self.tell_of_change(member);
    }

    fn resume(&mut self, member: usize) {
        self.set.members[member].state = State::Up;
        let (due, kept) = std::mem::take(&mut self.inbox).into_iter().partition(|(of, _)| *of == member);
        self.inbox = kept;
        for (_, event) in due {
            self.after(0, event);
        }
        // It hears of the new term a little later.
        if self.set.members[member].is_primary && self.set.members[member].term != self.set.term {
            self.after(50, Event::StepDown(member));
        }
    }

    /// Breaks all connections to a member that died.
    fn break_lines(&mut self, member: usize) {
        let boot = self.set.members[member].boot;
        let is_old = |connection: Option<&(usize, u32)>| {
            connection.is_some_and(|(of, since)| *of == member && *since != boot)
        };
        let mut broken: Vec<Agent> = self
            .observed
            .iter()
            .filter(|(_, connection)| is_old(Some(connection)))
            .map(|(agent, _)| *agent)
            .collect();
        for (number, worker) in self.workers.iter().enumerate() {
            let link = worker.exchange.as_ref().and_then(Exchange::link);
            if link.is_some_and(|link| is_old(self.connections.get(&link))) {
                broken.push(Agent::Worker(number));
            }
        }
        for agent in broken {
            self.observed.remove(&agent);
            if let Some(ticket) = self.current.get(&agent).copied() {
                self.after(WAY_MS, Event::Broken(agent, ticket));
            }
        }
    }
}

fn address(member: usize) -> Address {
    Address::parse(&name(member)).expect("it is well formed")
}

fn member_of(server: &Address) -> usize {
    (0..3).find(|member| address(*member) == *server).expect("one of the three")
}

fn observed_by(agent: Agent) -> usize {
    match agent {
        Agent::Watcher(member) | Agent::Pinger(member) => member,
        Agent::Worker(_) => panic!("a worker is no monitor"),
    }
}
