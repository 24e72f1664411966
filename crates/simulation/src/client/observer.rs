//! Monitors and pingers: each watches one member over a connection of its own.

use mangonel_bson::RawDocument;
use mangonel_proto::frame::Deframer;
use mangonel_proto::message::read_reply;
use mangonel_proto::topology::{Failure, Step};

use super::{Agent, feed};
use crate::network::{Chunk, Owner};
use crate::plan;
use crate::world::{Event, World};

/// The connection of a monitor or a pinger, and what it waits for.
#[derive(Default)]
pub(crate) struct Observer {
    line: Option<usize>,
    deframer: Deframer,
    ticket: u64,
    /// Whether it waits for a point in time, not for its connection.
    is_resting: bool,
}

impl Observer {
    /// Whether it has a connection.
    pub(crate) fn has_line(&self) -> bool {
        self.line.is_some()
    }
}

impl World {
    /// Gets an observer's next step, and carries it out.
    pub(crate) fn observe(&mut self, client: usize, member: usize, is_pinger: bool) {
        let now = self.queue.now();
        let ticket = self.queue.ticket();
        let address = plan::address(member);
        let driver = &mut self.drivers[client];
        let step = driver.client.with_topology(|topology| {
            if is_pinger { topology.poll_pinger(&address, now) } else { topology.poll_monitor(&address, now) }
        });
        let observer = driver.observers.entry((member, is_pinger)).or_default();
        (observer.ticket, observer.is_resting) = (ticket, false);
        let limit = match step {
            Step::Connect { .. } if self.unnamed.contains(&(client, member)) => {
                return self.observer_lost(client, member, is_pinger, false);
            }
            Step::Connect { timeout } => {
                self.drop_observer_line(client, member, is_pinger);
                let line = self.open_line(client, Owner::Observer(member, is_pinger), member);
                if let Some(observer) = self.drivers[client].observers.get_mut(&(member, is_pinger)) {
                    observer.line = Some(line);
                }
                timeout
            }
            Step::Write { hello, timeout } => {
                let line = observer.line;
                if let (Some(line), Ok(command)) = (line, driver.client.hello(&address, hello)) {
                    self.send(line, true, Chunk::Bytes(command.outbound().to_vec()));
                }
                timeout
            }
            Step::Read { timeout } => timeout,
            Step::Wait { until } => {
                observer.is_resting = true;
                self.queue.at(until, Event::Timer(client, Agent::Observer(member, is_pinger), ticket));
                return;
            }
            Step::Stop => return self.drop_observer_line(client, member, is_pinger),
        };
        if let Some(limit) = limit {
            self.queue.after(limit, Event::Timer(client, Agent::Observer(member, is_pinger), ticket));
        }
        if matches!(step, Step::Read { .. }) {
            self.observer_received(client, member, is_pinger, &[]);
        }
    }

    pub(crate) fn drop_observer_line(&mut self, client: usize, member: usize, is_pinger: bool) {
        let observer = self.drivers[client].observers.get_mut(&(member, is_pinger));
        let line = observer.and_then(|observer| {
            observer.deframer = Deframer::default();
            observer.line.take()
        });
        if let Some(line) = line {
            self.close_client(line);
        }
    }

    pub(crate) fn observer_connected(&mut self, client: usize, member: usize, is_pinger: bool) {
        let (now, address) = (self.queue.now(), plan::address(member));
        self.drivers[client].client.with_topology(|topology| {
            if is_pinger {
                topology.handle_pinger_connected(&address, now);
            } else {
                topology.handle_monitor_connected(&address, now);
            }
        });
        self.observe(client, member, is_pinger);
    }

    pub(crate) fn observer_received(&mut self, client: usize, member: usize, is_pinger: bool, bytes: &[u8]) {
        let Some(observer) = self.drivers[client].observers.get_mut(&(member, is_pinger)) else { return };
        let Ok(is_whole) = feed(&mut observer.deframer, bytes) else {
            return self.blame(format!("client {client} cannot read a hello"));
        };
        // One reply for each step: the next is read at the monitor's next step.
        if observer.is_resting || !is_whole {
            return;
        }
        let Some(message) = observer.deframer.message().map(<[u8]>::to_vec) else { return };
        if observer.deframer.consume().is_err() {
            return self.blame(format!("client {client} cannot read on behind a hello"));
        }
        let (now, address) = (self.queue.now(), plan::address(member));
        let is_strange = observer.line.is_some_and(|line| self.network.lines[line].stranger.is_some());
        match read_reply(&message) {
            Ok(reply) => self.drivers[client].client.with_topology(|topology| {
                if is_pinger {
                    topology.handle_pinger_reply(&address, now);
                } else {
                    let body: RawDocument<'_> = reply.body;
                    topology.handle_monitor_reply(&address, body, reply.more_to_come, now);
                }
            }),
            Err(error) => return self.blame(format!("client {client} refuses a hello: {error}")),
        }
        // Only the time of a pinger's reply counts.
        if is_strange && !is_pinger {
            self.drivers[client].strangers.entry(member).or_insert(now);
            self.drivers[client].lost.insert(member);
        } else if !is_pinger {
            self.drivers[client].strangers.remove(&member);
        }
        self.observe(client, member, is_pinger);
    }

    /// Called when an observer's connection broke, or took too long.
    pub(crate) fn observer_lost(&mut self, client: usize, member: usize, is_pinger: bool, timed_out: bool) {
        let (now, address) = (self.queue.now(), plan::address(member));
        self.drop_observer_line(client, member, is_pinger);
        let failure = if timed_out { Failure::Timeout } else { Failure::Network };
        self.drivers[client].client.with_topology(|topology| {
            if is_pinger {
                topology.handle_pinger_error(&address, now);
            } else {
                topology.handle_monitor_error(&address, "the connection broke", failure, now);
            }
        });
        self.observe(client, member, is_pinger);
    }

    /// Called when a check must start before a member's monitor has finished its wait.
    pub(crate) fn wake_observer(&mut self, client: usize, member: usize) {
        let observer = self.drivers[client].observers.get(&(member, false));
        if observer.is_some_and(|observer| observer.is_resting) {
            self.observe(client, member, false);
        }
    }

    pub(crate) fn observer_time_over(&mut self, client: usize, member: usize, is_pinger: bool, ticket: u64) {
        let Some(observer) = self.drivers[client].observers.get(&(member, is_pinger)) else { return };
        if observer.ticket != ticket {
            return;
        }
        if observer.is_resting {
            self.observe(client, member, is_pinger);
        } else {
            self.observer_lost(client, member, is_pinger, true);
        }
    }
}
