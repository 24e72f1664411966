//! Pools: their limits, the order in which waiters are served, and what is left in the end.

use std::collections::BTreeSet;

use mangonel_proto::exchange::Step;
use mangonel_proto::ids::LinkId;
use mangonel_proto::pool::Pool;
use mangonel_proto::topology::TopologyType;

use crate::client::{Link, Queued, member_of};
use crate::plan;
use crate::world::World;

impl World {
    /// Checks a client's pools against their limits.
    pub(crate) fn judge_pools(&mut self, client: usize) {
        let driver = &self.drivers[client];
        let limits = &driver.client.options().pool;
        let mut broken = None;
        for member in 0..self.set.members.len() {
            let Some(pool) = driver.client.pool(&plan::address(member), driver.shard) else { continue };
            let (idle, out, pending) = pool.sizes();
            let links = driver.links.values().filter(|link| self.network.lines[link.line].member == member);
            let opening = driver.workers.iter().filter_map(|worker| worker.opening);
            let opening = opening.filter(|&line| self.network.lines[line].member == member).count();
            let open = links.count() + opening;
            let most = if limits.max_pool_size == 0 { usize::MAX } else { limits.max_pool_size };
            if idle + out + pending > most || open > most {
                broken = Some(format!("{open} connections to member {member}, at most {most} are allowed"));
            }
            if pending > limits.max_connecting || opening > limits.max_connecting {
                broken = Some(format!(
                    "{pending} connections to member {member} being opened, at most {} are allowed",
                    limits.max_connecting
                ));
            }
        }
        // Behind a load balancer each service has its own generation. A connection in use without a worker was granted.
        let is_kept = |(id, link): (&LinkId, &Link)| {
            let pool = driver.client.pool(&plan::address(self.network.lines[link.line].member), driver.shard);
            let is_idle =
                link.user.is_none() && !link.is_streaming && pool.is_none_or(|pool| !pool.is_out(*id));
            link.is_stale && is_idle && !self.plan.is_balanced()
        };
        if broken.is_none() && driver.links.iter().any(is_kept) {
            broken = Some("an idle connection outlived the clearing of its pool".into());
        }
        if let Some(broken) = broken {
            self.blame(format!("client {client}: {broken}"));
        }
        let driver = &mut self.drivers[client];
        for place in &mut driver.workers {
            let (Some(queued), Some(exchange)) = (&mut place.queued, &place.exchange) else { continue };
            let pool = exchange.server().and_then(|server| driver.client.pool(server, driver.shard));
            queued.was_granted |= pool.is_some_and(|pool| !pool.is_waiting(exchange.id()));
        }
    }

    /// Records when a worker enters a wait queue, and checks that it was served in order when it leaves.
    pub(crate) fn note_queue(&mut self, client: usize, worker: usize) {
        let ticket = self.queue.ticket();
        let driver = &self.drivers[client];
        let place = &driver.workers[worker];
        let Some(exchange) = &place.exchange else { return };
        let pool = exchange.server().and_then(|server| driver.client.pool(server, driver.shard));
        let is_waiting =
            exchange.step() == Step::Wait && pool.is_some_and(|pool| pool.is_waiting(exchange.id()));
        let queued = place.queued.clone();
        if is_waiting {
            // The pool was cleared and removed it, so it queues again.
            let here = (exchange.server().cloned(), pool.map_or(0, Pool::generation));
            let known = queued.filter(|queued| queued.at == here);
            let queued = known.unwrap_or(Queued { at: here, since: ticket, was_granted: false });
            self.drivers[client].workers[worker].queued = Some(queued);
            return;
        }
        let queued = queued.map(|queued| queued.since);
        let is_served = matches!(exchange.step(), Step::Write | Step::Connect);
        let mut passed = None;
        if let (true, Some(since), Some(pool)) = (is_served, queued, pool) {
            let server = exchange.server();
            passed = driver.workers.iter().position(|other| {
                other.queued.as_ref().is_some_and(|theirs| theirs.since < since && !theirs.was_granted)
                    && other
                        .exchange
                        .as_ref()
                        .is_some_and(|waiting| waiting.server() == server && pool.is_waiting(waiting.id()))
            });
        }
        self.drivers[client].workers[worker].queued = None;
        if let Some(passed) = passed {
            self.blame(format!(
                "client {client}: worker {worker} was served before {passed}, who waited longer"
            ));
        }
    }

    /// Once everything has ended, nothing may be left.
    pub(crate) fn judge_leftovers(&mut self) {
        for client in 0..self.drivers.len() {
            let driver = &self.drivers[client];
            if let Some((_, out, pending, waiting)) = driver.client.pool_sizes(driver.shard)
                && (out, pending, waiting) != (0, 0, 0)
            {
                self.blame(format!(
                    "client {client} is idle, and {out} connections are out, {pending} being opened, {waiting} waited for"
                ));
            }
            let lines: Vec<usize> = self.network.open.iter().copied().collect();
            let open = lines.iter().filter(|&&line| {
                let line = &self.network.lines[line];
                line.client == client && line.is_client_open
            });
            let driver = &self.drivers[client];
            let known = driver.links.len() + driver.observers.values().filter(|one| one.has_line()).count();
            let open = open.count();
            if open != known {
                self.blame(format!("client {client} has {open} connections open, and knows of {known}"));
            }
            self.judge_books(client);
            self.judge_routers(client);
        }
    }

    /// A client uses the routers in its last answer from DNS, as many as it may. A router whose name led elsewhere for
    /// a while need not be used again before the next query. A client that first met a member of a set takes the
    /// deployment for that set, and queries no more.
    fn judge_routers(&mut self, client: usize) {
        let driver = &self.drivers[client];
        let (Some(most), Some(named), false) = (self.plan.srv, driver.named, driver.client.is_closed())
        else {
            return;
        };
        if !matches!(driver.client.description().topology_type, TopologyType::Unknown | TopologyType::Sharded)
        {
            return;
        }
        let allowed: BTreeSet<usize> =
            (0..self.plan.routers).filter(|router| named >> router & 1 == 1).collect();
        let known: BTreeSet<usize> =
            driver.client.description().servers.keys().map(|address| member_of(address.as_str())).collect();
        let wanted = if most == 0 { allowed.len() } else { allowed.len().min(most) };
        let is_connected_elsewhere =
            driver.links.values().any(|link| !known.contains(&self.network.lines[link.line].member));
        let is_fitting = (wanted.saturating_sub(driver.lost.len())..=wanted).contains(&known.len());
        if !is_fitting || !known.is_subset(&allowed) || is_connected_elsewhere {
            self.blame(format!(
                "client {client} uses routers {known:?}, DNS names {allowed:?}, {wanted} of them"
            ));
        }
    }

    /// No connection may be left once the clients are closed.
    pub(crate) fn judge_closed(&mut self) {
        let open = self.network.open.iter().filter(|&&line| self.network.lines[line].is_client_open).count();
        if open > 0 {
            self.blame(format!("{open} connections are open after their clients were closed"));
        }
    }
}
