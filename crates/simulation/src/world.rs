//! The world: one queue of events in virtual time, and the effect of each event. Everything in it follows from its plan.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mangonel_proto::ids::ExchangeId;
use mangonel_proto::time::Instant;

use crate::chance::Chance;
use crate::client::{Agent, Driver};
use crate::judge::Ledger;
use crate::network::{Arrival, Chunk, Network, Owner};
use crate::packing;
use crate::plan::{self, NOWHERE, Plan};
use crate::queue::{EPOCH, Queue, ms};
use crate::server::member::State;
use crate::server::stranger::Stranger;
use crate::server::{Out, ServerEvent, Set};
use crate::trace::{Trace, Who};
use crate::wire::{self, Request};
use crate::workload;

/// An event in virtual time.
#[derive(Debug)]
pub(crate) enum Event {
    /// An event of the set.
    Server(ServerEvent),
    /// A connection reaches its member, or fails to.
    Opened(usize),
    /// The next chunk of a connection arrives, in one direction.
    Arrives(usize, bool),
    /// The wait of a client's agent is over.
    Timer(usize, Agent, u64),
    /// A client maintains its pools.
    KeepUp(usize),
    /// A worker begins.
    Begin(usize, usize),
    /// A fault of the plan, by its number.
    Fault(usize),
    /// A fault ends.
    Undo(Undo),
    /// A client's kernel detects that a connection is dead.
    KeepAlive(usize),
    /// A client queries DNS for the routers.
    Resolve(usize),
    /// A worker's woken exchange continues.
    Wake(usize, usize, ExchangeId),
    /// A connection may have room again for what a worker sends; the number is that of its wait.
    Drained(usize, usize, u64),
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Undo {
    Restart(usize),
    Resume(usize),
    Unblock(usize, usize, bool),
    Rejoin(usize),
    Hasten(usize, usize, u64),
    Name(usize, usize),
    Trust(usize),
    Lead(usize),
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The violations that the judges found; empty if there are none.
    pub violations: Vec<String>,
    /// A hash of everything that happened: the same for the same plan.
    pub hash: u64,
    /// Operations that ended.
    pub operations: u64,
    /// Commands that reached a member.
    pub commands: u64,
    /// Events.
    pub events: u64,
    /// How often entries were rolled back.
    pub rollbacks: u64,
    /// How often a primary was elected.
    pub elections: u64,
    /// How each operation ended, counted.
    pub endings: BTreeMap<&'static str, u64>,
}

/// The world.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) queue: Queue<Event>,
    pub(crate) network: Network,
    pub(crate) set: Set,
    pub(crate) drivers: Vec<Driver>,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    pub(crate) trace: Trace,
    pub(crate) report: Report,
    /// When the last fault is over.
    pub(crate) healed: Instant,
    /// The routers that DNS names, a bit for each; 0 for no answer.
    pub(crate) named: u64,
    /// The pairs of clients and members' names that they cannot resolve.
    pub(crate) unnamed: BTreeSet<(usize, usize)>,
    /// The members whose certificates are not trusted.
    pub(crate) distrusted: BTreeSet<usize>,
    /// The machines that answer at members' addresses instead of them.
    pub(crate) strangers: BTreeMap<usize, Stranger>,
}

/// Plays a plan. `traced`: whether the texts of messages are kept.
pub fn play(plan: &Plan, traced: bool) -> (Report, Trace) {
    let mut world = World::new(plan.clone(), traced);
    let played = catch_unwind(AssertUnwindSafe(|| {
        world.run();
        world.judge();
    }));
    if let Err(panic) = played {
        let texts = (panic.downcast_ref::<&str>().copied(), panic.downcast_ref::<String>());
        world.blame(format!("it panicked: {}", texts.0.or(texts.1.map(String::as_str)).unwrap_or("no text")));
    }
    let mut report = world.report;
    report.violations = std::mem::take(&mut world.ledger.borrow_mut().violations);
    (report.rollbacks, report.elections) = (world.set.rollbacks, world.set.elections);
    report.hash = world.trace.hash;
    (report, world.trace)
}

impl World {
    fn new(plan: Plan, traced: bool) -> Self {
        let seed = plan.seed;
        let mut set = Set::new(&plan.members, Chance::new(seed, 2), &workload::documents());
        (set.routers, set.is_cluster) = (plan.routers, plan.is_cluster);
        set.logins.is_required = plan.has_user;
        set.logins.is_speculative = plan.is_speculative;
        set.compressors.clone_from(&plan.compressors);
        set.cursor_timeout = plan.cursor_timeout;
        let setting = &plan.setting;
        (set.wire, set.largest) = (setting.wire, setting.largest);
        (set.logins.is_old_user, set.logins.has_empty_exchange) =
            (setting.is_old_user, setting.has_empty_exchange);
        set.logins.has_outsiders = plan.clients.iter().any(|client| client.is_outsider);
        let network = Network::new(plan.latency.clone(), plan.split, Chance::new(seed, 3));
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let mut world = World {
            queue: Queue::new(),
            network,
            set,
            drivers: Vec::new(),
            ledger,
            trace: Trace::new(traced),
            report: Report::default(),
            healed: EPOCH,
            named: u64::MAX,
            unnamed: (0..plan.clients.len()).map(|client| (client, NOWHERE)).collect(),
            distrusted: BTreeSet::new(),
            strangers: BTreeMap::new(),
            plan,
        };
        for number in 0..world.plan.clients.len() {
            let chance = Chance::new(seed, 100 + number as u64);
            let driver = Driver::new(number, &world.plan, chance, &world.ledger);
            world.drivers.push(driver);
            if world.plan.srv.is_some() {
                world.queue.after(ms(60_000), Event::Resolve(number));
            }
            for worker in 0..world.plan.clients[number].workers.len() {
                world.queue.after(ms(worker as u64), Event::Begin(number, worker));
            }
        }
        for (number, fault) in world.plan.faults.clone().iter().enumerate() {
            world.queue.at(EPOCH + ms(fault.at), Event::Fault(number));
        }
        world.drain_set();
        world
    }

    /// The time that a healed world may take, as a multiple of its limit. A client that has rejected all its servers
    /// never finds one again: each of its operations, one after another, waits for one until its time is over.
    fn timeout_factor(&self) -> u32 {
        let has_none = |driver: &Driver| driver.client.description().servers.is_empty();
        if self.drivers.iter().any(has_none) { 10 } else { 1 }
    }

    fn run(&mut self) {
        for client in 0..self.drivers.len() {
            self.follow_up(client);
        }
        let heal_timeout = self.plan.clients.iter().map(|client| plan::heal_timeout(&client.options)).max();
        let end = EPOCH + ms(self.plan.end);
        let mut is_closed = false;
        let mut quiet_until = end + ms(4_000);
        while let Some((sequence, event)) = self.queue.pop() {
            let now = self.queue.now();
            self.report.events += 1;
            self.handle(sequence, event);
            if !self.ledger.borrow().violations.is_empty() {
                return;
            }
            let longest = end.max(self.healed) + heal_timeout.unwrap_or_default() * self.timeout_factor();
            if now > longest && !is_closed {
                let stuck = self.stuck();
                return self.blame(format!("something hangs after the world healed: {stuck}"));
            }
            if !self.drivers.iter().all(Driver::is_done) || now < self.healed {
                quiet_until = now.max(self.healed) + ms(4_000);
            } else if !is_closed && now > quiet_until && self.drivers.iter().all(Driver::is_idle) {
                is_closed = true;
                self.judge_leftovers();
                self.close_clients();
                quiet_until = now + ms(1_000);
            } else if is_closed && now > quiet_until {
                return;
            }
        }
    }

    fn stuck(&self) -> String {
        let stuck: Vec<String> = self.drivers.iter().flat_map(Driver::stuck).collect();
        stuck.join(", ")
    }

    /// Records that a promise was broken.
    pub(crate) fn blame(&mut self, what: String) {
        self.trace.note(self.queue.now(), Who::Judge, Who::Judge, || what.clone());
        self.ledger.borrow_mut().blame(what);
    }

    fn handle(&mut self, sequence: u64, event: Event) {
        let now = self.queue.now();
        self.trace.stir(sequence);
        self.trace.stir(now.0.as_nanos() as u64);
        self.set.now = now;
        if let Some(until) = self.asleep_until(&event) {
            return self.queue.at(until, event);
        }
        match event {
            Event::Server(event) => self.set.handle(event, now),
            Event::Opened(line) => self.opened(line),
            Event::Arrives(line, to_server) => {
                if let Some(chunk) = self.network.pass(line, to_server) {
                    self.arrived(line, to_server, chunk);
                }
            }
            Event::Timer(client, agent, ticket) => {
                self.time_over(client, agent, ticket);
                self.follow_up(client);
            }
            Event::KeepUp(client) => {
                self.keep_up(client);
                self.follow_up(client);
            }
            Event::Begin(client, worker) => {
                self.begin(client, worker);
                self.follow_up(client);
            }
            Event::Resolve(client) => {
                self.resolve(client);
                self.follow_up(client);
            }
            Event::Wake(client, worker, id) => {
                self.wake_late(client, worker, id);
                self.follow_up(client);
            }
            Event::Drained(client, worker, ticket) => {
                self.go_on_writing(client, worker, ticket);
                self.follow_up(client);
            }
            Event::Fault(number) => self.cause(number),
            Event::Undo(undo) => self.undo(undo),
            Event::KeepAlive(line) => {
                let is_client_open = self.network.lines[line].is_client_open;
                self.hang_up_server(line);
                if is_client_open {
                    self.client_hears_end(line);
                    self.follow_up(self.network.lines[line].client);
                }
            }
        }
        self.drain_set();
    }

    /// Returns when the suspended client of an event runs again.
    fn asleep_until(&self, event: &Event) -> Option<Instant> {
        let client = match *event {
            Event::Timer(client, ..)
            | Event::KeepUp(client)
            | Event::Begin(client, _)
            | Event::Resolve(client)
            | Event::Wake(client, ..)
            | Event::Drained(client, ..) => client,
            Event::Opened(line) | Event::KeepAlive(line) | Event::Arrives(line, false) => {
                self.network.lines[line].client
            }
            _ => return None,
        };
        self.drivers[client].asleep_until(self.queue.now())
    }

    /// Takes the set's events, violations and messages, and passes them on.
    pub(crate) fn drain_set(&mut self) {
        for (when, event) in std::mem::take(&mut self.set.later) {
            self.queue.at(when, Event::Server(event));
        }
        for complaint in std::mem::take(&mut self.set.complaints) {
            self.blame(complaint);
        }
        while !self.set.out.is_empty() {
            for out in std::mem::take(&mut self.set.out) {
                match out {
                    Out::Reply(line, message) => {
                        if self.network.lines[line].is_server_open {
                            self.trace.say(self.queue.now(), &self.network.lines[line], false, &message);
                            let known = &mut self.network.lines[line];
                            let message = match known.damage.take() {
                                Some(damage) => damage.done_to(message),
                                None => message,
                            };
                            let packed = known.packs.filter(|_| !packing::is_packed(&message));
                            let packed = packed.and_then(|compressor| packing::pack(&message, compressor));
                            self.send(line, false, Chunk::Bytes(packed.unwrap_or(message)));
                        }
                    }
                    Out::Close(line) => self.close_server(line),
                    Out::CloseAll(member) => {
                        for line in self.network.open.clone() {
                            if self.network.lines[line].member == member {
                                self.close_server(line);
                            }
                        }
                    }
                }
            }
        }
    }

    fn close_server(&mut self, line: usize) {
        if self.network.lines[line].is_server_open {
            self.hang_up_server(line);
            self.send(line, false, Chunk::End);
        }
    }

    /// Called when the member no longer has the connection.
    fn hang_up_server(&mut self, line: usize) {
        let member = self.network.lines[line].member;
        self.set.logins.forget(line);
        self.network.lines[line].is_server_open = false;
        let is_routed = self.set.routers > 0;
        for member in self.set.members.iter_mut().skip(if is_routed { 0 } else { member }) {
            member.held.retain(|held| held.line != line);
            member.inbox.retain(|(of, _)| *of != line);
            if !is_routed {
                break;
            }
        }
        self.network.settle(line);
    }

    pub(crate) fn send(&mut self, line: usize, to_server: bool, chunk: Chunk) {
        let now = self.queue.now();
        let arrivals = self.network.send(line, to_server, chunk, now);
        self.schedule(arrivals);
    }

    pub(crate) fn schedule(&mut self, arrivals: Vec<Arrival>) {
        for Arrival { line, to_server, when } in arrivals {
            self.queue.at(when, Event::Arrives(line, to_server));
        }
    }

    /// Begins to open a connection from a client.
    pub(crate) fn open_line(&mut self, client: usize, owner: Owner, member: usize) -> usize {
        let line = self.network.open(client, owner, member);
        let delay = self.network.delay(client, member);
        self.queue.after(delay * 2, Event::Opened(line));
        line
    }

    fn opened(&mut self, line: usize) {
        if !self.network.lines[line].is_client_open {
            return;
        }
        if self.network.is_blocked(line, true) || self.network.is_blocked(line, false) {
            // The kernel tries again.
            self.queue.after(ms(200), Event::Opened(line));
            return;
        }
        let member = &self.set.members[self.network.lines[line].member];
        let known = &mut self.network.lines[line];
        // The kernel of a paused process still accepts connections.
        (known.is_server_open, known.boot) = (member.state != State::Down, member.boot);
        known.stranger = self.strangers.get(&known.member).copied();
        known.is_server_open |= known.stranger.is_some();
        let (is_open, host) = (known.is_server_open, known.member);
        let client = known.client;
        if is_open && self.distrusted.contains(&host) {
            // The client ends the connection once it has seen the certificate.
            self.hang_up_server(line);
            self.client_hears_end(line);
        } else if is_open {
            self.client_connected(line);
        } else {
            self.client_hears_end(line);
        }
        self.follow_up(client);
    }

    fn arrived(&mut self, line: usize, to_server: bool, chunk: Chunk) {
        let known = &mut self.network.lines[line];
        let client = known.client;
        if to_server {
            match chunk {
                Chunk::End => self.hang_up_server(line),
                Chunk::Bytes(bytes) if known.is_server_open => {
                    known.inbound.extend_from_slice(&bytes);
                    self.read_inbound(line);
                }
                // The server no longer has the connection, and the client learns that.
                Chunk::Bytes(_) => self.send(line, false, Chunk::End),
            }
            return;
        }
        if !known.is_client_open {
            return;
        }
        match chunk {
            Chunk::Bytes(bytes) => self.client_received(line, &bytes),
            Chunk::End => self.client_hears_end(line),
        }
        self.follow_up(client);
    }

    fn read_inbound(&mut self, line: usize) {
        loop {
            let known = &mut self.network.lines[line];
            let Some(length) = wire::message_length(&known.inbound) else { return };
            if known.inbound.len() < length || !known.is_server_open {
                return;
            }
            let rest = known.inbound.split_off(length);
            let message = std::mem::replace(&mut known.inbound, rest);
            known.messages += 1;
            self.report.commands += 1;
            let member = known.member;
            let (message, packs) = match packing::is_packed(&message).then(|| packing::unpack(&message)) {
                None => (message, None),
                Some(Some((message, compressor))) => (message, Some(compressor)),
                Some(None) => return self.blame("a message was compressed to what is none".into()),
            };
            known.packs = packs;
            let stranger = known.stranger;
            self.trace.say(self.queue.now(), &self.network.lines[line], true, &message);
            match Request::read(&message) {
                Some(request) => {
                    self.judge_command(line, &request);
                    if let Some(stranger) = stranger {
                        self.answer_as(stranger, line, &request);
                        continue;
                    }
                }
                None => {
                    self.blame(format!("client {} sent what is no message", self.network.lines[line].client))
                }
            }
            if self.set.members[member].state == State::Paused {
                self.network.lines[line].unread += length;
            }
            self.set.receive(member, line, &message);
            self.drain_set();
        }
    }

    fn answer_as(&mut self, stranger: Stranger, line: usize, request: &Request<'_>) {
        if matches!(request.name, "hello" | "isMaster") {
            let hello = stranger.hello(self.network.lines[line].member);
            self.set.send(line, request.id, &hello, false);
        } else {
            self.set.out.push(Out::Close(line));
        }
        self.drain_set();
    }

    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Lead(member) => {
                self.strangers.remove(&member);
                for line in self.network.open.clone() {
                    let known = &self.network.lines[line];
                    if known.member == member && known.stranger.is_some() {
                        self.close_server(line);
                    }
                }
            }
            Undo::Restart(member) => self.set.restart(member),
            Undo::Resume(member) => {
                for line in self.network.lines.iter_mut().filter(|line| line.member == member) {
                    line.unread = 0;
                }
                for (line, message) in self.set.resume(member) {
                    if self.network.lines[line].is_server_open {
                        self.set.receive(member, line, &message);
                    }
                }
            }
            Undo::Unblock(client, member, to_server) => {
                self.network.blocked.remove(&(client, member, to_server));
                let arrivals = self.network.unblock(self.queue.now());
                self.schedule(arrivals);
            }
            Undo::Rejoin(member) => self.set.cuts.retain(|(from, to)| *from != member && *to != member),
            Undo::Hasten(client, member, extra) => {
                let slow = &mut self.network.slow;
                if let Some(found) = slow.iter().position(|known| *known == (client, member, extra)) {
                    slow.remove(found);
                }
            }
            Undo::Name(client, member) => drop(self.unnamed.remove(&(client, member))),
            Undo::Trust(member) => drop(self.distrusted.remove(&member)),
        }
        let now = self.queue.now();
        self.trace.note(now, Who::World, Who::World, || format!("{undo:?}"));
    }
}
