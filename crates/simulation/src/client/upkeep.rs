//! Does what a client requests after every change: closes connections, wakes exchanges, starts monitors.

use std::time::Duration;

use mangonel_bson::{append_binary, writer};
use mangonel_proto::client::Action;
use mangonel_proto::exchange::Exchange;
use mangonel_proto::ids::LinkId;
use mangonel_proto::message::Command;
use mangonel_proto::operation::{Kind, Operation, SessionChoice};
use mangonel_proto::topology::Address;

use super::Worker;
use super::steps::member_of;
use crate::desk::Desk;
use crate::plan;
use crate::queue::ms;
use crate::wire::append_document;
use crate::world::{Event, World};

/// How often a client maintains its pools.
const UPKEEP: u64 = 1000;
/// How many milliseconds a woken thread takes to continue.
const WAKING: &[u64] = &[0, 0, 1, LONGEST_WAKING];
pub(crate) const LONGEST_WAKING: u64 = 20;

impl World {
    /// Does what a client requests until nothing is left.
    pub(crate) fn follow_up(&mut self, client: usize) {
        while self.drivers[client].client.has_pending() {
            let mut closing = self.drivers[client].client.poll_closing();
            // A cleared pool lists them in any order.
            closing.sort_unstable();
            self.close_links(client, &closing);
            for id in self.drivers[client].client.poll_wakers() {
                let is_woken = |worker: &Worker| worker.exchange.as_ref().map(Exchange::id) == Some(id);
                match self.drivers[client].workers.iter().position(is_woken) {
                    Some(worker) if self.plan.clients[client].wakes_late => {
                        let delay = ms(self.drivers[client].chance.pick(WAKING));
                        self.queue.after(delay, Event::Wake(client, worker, id));
                    }
                    Some(worker) => self.wake(client, worker),
                    None => {}
                }
            }
            for action in self.drivers[client].client.poll_actions() {
                self.act(client, action);
            }
            let events = self.drivers[client].client.poll_events();
            self.judge_events(client, events);
        }
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let primary = driver.client.description().primary().map(|server| member_of(server.address.as_str()));
        if primary != driver.primary.map(|(member, _)| member) {
            driver.primary = primary.map(|member| (member, now));
        }
        self.judge_pools(client);
    }

    pub(super) fn close_links(&mut self, client: usize, closing: &[LinkId]) {
        let mut broken = Vec::new();
        for link in closing {
            let Some(known) = self.drivers[client].links.remove(link) else { continue };
            self.close_client(known.line);
            broken.extend(known.user.filter(|&worker| self.drivers[client].workers[worker].uses(*link)));
        }
        for worker in broken {
            self.break_link(client, worker);
        }
    }

    fn act(&mut self, client: usize, action: Action) {
        match action {
            Action::Watch(server) => self.observe(client, member_of(server.as_str()), false),
            Action::Ping(server) => self.observe(client, member_of(server.as_str()), true),
            Action::Wake(server) => self.wake_observer(client, member_of(server.as_str())),
            Action::Interrupt(server) => {
                let member = member_of(server.as_str());
                self.observer_lost(client, member, false, false);
            }
            Action::Stop(server) => {
                let member = member_of(server.as_str());
                for is_pinger in [false, true] {
                    self.drop_observer_line(client, member, is_pinger);
                    self.drivers[client].observers.remove(&(member, is_pinger));
                }
            }
            Action::KillSession(server, id) => {
                let mut head = Command::begin();
                let start = writer::begin_document(&mut head);
                let ids = writer::begin_array(&mut head, "killSessions");
                append_document(&mut head, "0", |out| append_binary(out, "id", 0x04, &id));
                writer::end_document(&mut head, ids);
                writer::end_document(&mut head, start);
                if let Ok(command) = Command::new(head, Vec::new()) {
                    let operation = Operation {
                        session: SessionChoice::None,
                        server: Some(server),
                        ..Operation::new(command, "admin", Kind::ReadOnce)
                    };
                    self.run_besides(client, operation);
                }
            }
            Action::KeepUp => {
                if !std::mem::replace(&mut self.drivers[client].keeps_up, true) {
                    self.queue.after(ms(1), Event::KeepUp(client));
                }
            }
        }
    }

    /// Runs one of the client's own operations beside the workers.
    fn run_besides(&mut self, client: usize, operation: Operation) {
        let workers = &mut self.drivers[client].workers;
        let is_free = |worker: &Worker| worker.flow.is_none() && worker.exchange.is_none();
        let planned = self.plan.clients[client].workers.len();
        let worker = match workers.iter().skip(planned).position(is_free) {
            Some(position) => planned + position,
            None => {
                workers.push(Worker::new(Desk::new(), None));
                workers.len() - 1
            }
        };
        self.run_operation(client, worker, operation);
    }

    pub(crate) fn keep_up(&mut self, client: usize) {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let shard = driver.shard;
        let Some(missing) = driver.client.keep_up(&[shard], now) else { return };
        self.queue.after(ms(UPKEEP), Event::KeepUp(client));
        for (_, server, count) in missing {
            for _ in 0..count {
                if let Ok(operation) = Operation::filling(server.clone()) {
                    self.run_besides(client, operation);
                }
            }
        }
    }

    /// Queries DNS for the routers.
    pub(crate) fn resolve(&mut self, client: usize) {
        /// How long an answer is valid.
        const TTL: Duration = ms(5_000);
        let (now, named, count) = (self.queue.now(), self.named, self.plan.routers);
        let hosts: Vec<Address> =
            (0..count).filter(|router| named >> router & 1 == 1).map(plan::address).collect();
        let driver = &mut self.drivers[client];
        let answer = (!hosts.is_empty()).then_some((hosts, TTL));
        if answer.is_some() {
            driver.named = Some(named);
            driver.lost.clear();
        }
        let next = driver.client.follow_srv(answer, self.plan.srv.unwrap_or_default(), now);
        if let Some(next) = next {
            self.queue.after(next, Event::Resolve(client));
        }
    }

    /// Closes all clients.
    pub(crate) fn close_clients(&mut self) {
        let now = self.queue.now();
        for client in 0..self.drivers.len() {
            self.drivers[client].client.drain_sessions();
            self.drivers[client].client.close(now);
            self.follow_up(client);
        }
    }
}
