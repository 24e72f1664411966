//! Whether events are consistent: each start has one end, and no event is about a connection or server that is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mangonel_proto::events::{Event, PoolEvent, SelectionEvent};
use mangonel_proto::ids::LinkId;
use mangonel_proto::topology::{self, Address, TopologyDescription};

use crate::world::World;

/// The events that the listeners of one client received.
#[derive(Default)]
pub(crate) struct Heard {
    /// Commands that were started and have not ended, by their requests' numbers.
    commands: BTreeMap<i32, Box<str>>,
    /// Server selections that have not ended.
    selections: BTreeSet<i64>,
    /// The existing pools, and whether each is ready.
    pools: BTreeMap<Address, bool>,
    /// The open connections, and whether each is checked out.
    links: BTreeMap<LinkId, bool>,
    /// Check-outs that have not ended, by server.
    asked: BTreeMap<Address, i64>,
    /// The servers that are watched, and whether each is being checked.
    servers: BTreeMap<Address, bool>,
    description: Option<Arc<TopologyDescription>>,
    is_topology_closed: bool,
}

impl Heard {
    /// Processes an event; returns what is wrong with it.
    fn take(&mut self, event: &Event, is_balanced: bool) -> Result<(), String> {
        match event {
            Event::CommandStarted { facts, .. } => {
                let was = self.commands.insert(facts.request_id, facts.name.clone());
                expect(was.is_none(), || format!("{} started twice", facts.name))
            }
            Event::CommandSucceeded { facts, .. } | Event::CommandFailed { facts, .. } => {
                expect(self.commands.remove(&facts.request_id).is_some(), || {
                    format!("{} ended, and had not started or had ended", facts.name)
                })
            }
            Event::Pool { address, event } => self.take_pool(address, event, is_balanced),
            Event::Selection { operation_id, event: SelectionEvent::Started, .. } => {
                expect(self.selections.insert(*operation_id), || "a server is looked for twice".into())
            }
            Event::Selection { event: SelectionEvent::Waiting { .. }, .. } => Ok(()),
            Event::Selection { operation_id, .. } => expect(self.selections.remove(operation_id), || {
                "the search for a server ended, and had not started".into()
            }),
            Event::Topology(event) => self.take_topology(event),
        }
    }

    fn take_pool(&mut self, address: &Address, event: &PoolEvent, is_balanced: bool) -> Result<(), String> {
        let at = |what: &str| format!("{what} at {address}");
        match event {
            PoolEvent::Created => {
                expect(self.pools.insert(address.clone(), false).is_none(), || at("a pool was created twice"))
            }
            PoolEvent::Ready => {
                let was = self.pools.insert(address.clone(), true);
                expect(was == Some(false), || at("a pool became ready that was not paused"))
            }
            PoolEvent::Cleared { .. } => {
                let was = self.pools.insert(address.clone(), is_balanced);
                expect(was == Some(true), || at("a pool was cleared that was not ready"))
            }
            PoolEvent::Closed => {
                expect(self.pools.remove(address).is_some(), || at("a pool was closed that was not there"))
            }
            PoolEvent::ConnectionCreated { link } => {
                expect(self.links.insert(*link, false).is_none(), || at("a connection was created twice"))
            }
            PoolEvent::ConnectionReady { link, .. } => {
                expect(self.links.contains_key(link), || at("a connection is ready that is not there"))
            }
            PoolEvent::ConnectionClosed { link, .. } => {
                expect(self.links.remove(link) == Some(false), || {
                    at("a connection was closed that is out or not there")
                })
            }
            PoolEvent::CheckOutStarted => {
                *self.asked.entry(address.clone()).or_default() += 1;
                Ok(())
            }
            PoolEvent::CheckOutFailed { .. } => self.end_check_out(address),
            PoolEvent::CheckedOut { link, .. } => {
                self.end_check_out(address)?;
                expect(self.links.insert(*link, true) == Some(false), || {
                    at("a connection was checked out that is out or not there")
                })
            }
            PoolEvent::CheckedIn { link } => expect(self.links.insert(*link, false) == Some(true), || {
                at("a connection was checked in that was not out")
            }),
        }
    }

    fn end_check_out(&mut self, address: &Address) -> Result<(), String> {
        let asked = self.asked.entry(address.clone()).or_default();
        *asked -= 1;
        expect(*asked >= 0, || format!("a check-out at {address} ended that had not started"))
    }

    fn take_topology(&mut self, event: &topology::Event) -> Result<(), String> {
        expect(!self.is_topology_closed, || "the topology is closed, and goes on".into())?;
        match event {
            topology::Event::TopologyOpening => {
                expect(self.servers.is_empty(), || "the topology opened late".into())
            }
            topology::Event::TopologyDescriptionChanged { previous, new } => {
                let known = self.description.replace(Arc::clone(new));
                expect(known.is_none_or(|known| *known == **previous), || {
                    "the topology changed from what it was not".into()
                })
            }
            topology::Event::TopologyClosed => {
                self.is_topology_closed = true;
                expect(self.servers.is_empty(), || "the topology closed before its servers".into())
            }
            topology::Event::ServerOpening { address } => {
                expect(self.servers.insert(address.clone(), false).is_none(), || {
                    format!("{address} opened twice")
                })
            }
            topology::Event::ServerClosed { address } => {
                expect(self.servers.remove(address).is_some(), || format!("{address} closed twice"))
            }
            topology::Event::ServerDescriptionChanged { new, .. } => {
                expect(self.servers.contains_key(&new.address), || {
                    format!("{} changed, and is not there", new.address)
                })
            }
            topology::Event::HeartbeatStarted { address, .. } => {
                let was = self.servers.insert(address.clone(), true);
                expect(was == Some(false), || format!("a check of {address} started in another, or of none"))
            }
            topology::Event::HeartbeatSucceeded { address, .. }
            | topology::Event::HeartbeatFailed { address, .. } => {
                let was = self.servers.insert(address.clone(), false);
                expect(was == Some(true), || format!("a check of {address} ended that had not started"))
            }
        }
    }

    /// Lists what has started and not ended, when only checks of servers are running.
    fn open_ends(&self) -> Option<String> {
        let asked: i64 = self.asked.values().sum();
        let out = self.links.values().filter(|is_out| **is_out).count();
        (!self.commands.is_empty() || out > 0 || asked != 0).then(|| {
            let commands = &self.commands;
            format!("listeners heard of no end of {commands:?}, {out} connections out, {asked} check-outs")
        })
    }
}

fn expect(is_fine: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if is_fine { Ok(()) } else { Err(otherwise()) }
}

impl World {
    /// Called when a client publishes events.
    pub(crate) fn judge_events(&mut self, client: usize, events: VecDeque<Event>) {
        let is_balanced = self.plan.is_balanced();
        for event in events {
            if let Err(what) = self.drivers[client].heard.take(&event, is_balanced) {
                self.blame(format!("client {client}: listeners heard that {what}"));
            }
        }
    }

    /// Once nothing is running, each start has its end, and the counts are right.
    pub(crate) fn judge_books(&mut self, client: usize) {
        let driver = &self.drivers[client];
        let mut broken: Vec<String> = driver.heard.open_ends().into_iter().collect();
        if let Some(metrics) = driver.client.metrics() {
            let counted: u64 = metrics.operations().iter().flat_map(|series| series.durations.counts).sum();
            if counted != driver.counted {
                broken.push(format!("counted {counted} operations, and {} ended", driver.counted));
            }
        }
        let (mut made, mut there) = (0, 0);
        for snapshot in driver.client.pool_snapshots().values() {
            made += snapshot.counts.created as i64 - snapshot.counts.closed.iter().sum::<u64>() as i64;
            there += (snapshot.idle + snapshot.in_use + snapshot.pending) as i64;
        }
        if made != there {
            broken.push(format!("counted {made} connections that are not closed, and has {there}"));
        }
        for what in broken {
            self.blame(format!("client {client}: {what}"));
        }
    }

    /// Listeners have received the end of everything once the clients are closed.
    pub(crate) fn judge_last_words(&mut self) {
        for client in 0..self.drivers.len() {
            let heard = &self.drivers[client].heard;
            let (links, pools, servers) = (heard.links.len(), heard.pools.len(), heard.servers.len());
            if links + pools + servers > 0 {
                self.blame(format!(
                    "client {client} is closed, and listeners know of {links} connections, {pools} pools, {servers} servers"
                ));
            }
        }
    }
}
