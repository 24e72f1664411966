//! The pools of one client: one for each server and shard that uses it. `Pool` holds their rules.
//! Spec: connection-monitoring-and-pooling.

use std::collections::btree_map::Entry;

use super::{Action, Client};

use crate::events::{CloseReason, Interests, PoolEvent};
use crate::ids::{LinkId, ShardId};
use crate::pool::Pool;
use crate::time::Instant;
use crate::topology::Address;

impl Client {
    /// Makes room for the connections of a face or an event loop.
    pub fn open_shard(&mut self) -> ShardId {
        let shard = ShardId(self.next_shard);
        self.next_shard += 1;
        self.shards.insert(shard);
        shard
    }

    /// Closes a shard and returns its links; they and its waiters are dead.
    pub fn close_shard(&mut self, shard: ShardId) -> Vec<LinkId> {
        self.shards.remove(&shard);
        let mut links = Vec::new();
        let pools = self
            .servers
            .iter_mut()
            .filter_map(|(address, server)| Some((address.clone(), server.pools.remove(&shard)?)));
        for (address, mut pool) in pools.collect::<Vec<_>>() {
            pool.close();
            self.keep_counts(&address, &pool);
            links.append(&mut pool.poll_closing());
            self.events.push_log(&address, pool.take_log());
        }
        self.forget_connections(&links);
        links
    }

    /// Closes connections that were idle for too long. Returns, for these shards, how many connections to open to which
    /// server, with [`Operation::filling`](crate::operation::Operation::filling); `None` once the client is closed.
    pub fn keep_up(&mut self, shards: &[ShardId], now: Instant) -> Option<Vec<(ShardId, Address, usize)>> {
        if self.is_closed {
            return None;
        }
        for server in self.servers.values_mut() {
            server.pools.values_mut().for_each(|pool| pool.prune(now));
        }
        let mut missing = Vec::new();
        if self.options.pool.min_pool_size > 0 {
            let ready = self.servers.iter().filter(|(_, server)| server.is_ready);
            let addresses: Vec<Address> = ready.map(|(address, _)| address.clone()).collect();
            for address in addresses {
                for &shard in shards {
                    let count = self.pool_mut(&address, shard).map_or(0, |pool| pool.missing());
                    if count > 0 {
                        missing.push((shard, address.clone(), count));
                    }
                }
            }
        }
        Some(missing)
    }

    /// Closes a link that the server has closed. A link that an exchange holds stays recorded until the exchange gives
    /// it up.
    pub fn link_lost(&mut self, shard: ShardId, link: LinkId, now: Instant) {
        let place = self.pinned.remove(&link);
        match self.pool_of_link(shard, link) {
            Some(pool) if place.is_none() && pool.is_held(link) => self.closing.push(link),
            Some(pool) => pool.discard(link, now),
            None => self.close_orphan(place, link, now),
        }
    }

    /// Checks in the connection of an exhaust cursor after its last reply (`is_drained`), or closes it.
    pub fn release_pinned(&mut self, link: LinkId, is_drained: bool, now: Instant) {
        let place = self.pinned.remove(&link);
        let mut pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        match pools.find(|pool| pool.is_out(link)) {
            Some(pool) if is_drained => pool.check_in(link, now),
            Some(pool) => pool.discard(link, now),
            None => self.close_orphan(place, link, now),
        }
        if let (false, Some(metrics)) = (is_drained, &mut self.metrics) {
            metrics.note_closed_link(link);
        }
    }

    /// Records that a cursor or a transaction keeps a connection, until [`release_pinned`](Self::release_pinned) or an
    /// exchange gives it up.
    pub(crate) fn keep_pinned(&mut self, link: LinkId, server: &Address, shard: ShardId) {
        self.pinned.insert(link, (server.clone(), shard));
    }

    /// Records that an exchange gives up a connection, and publishes that.
    pub(crate) fn forget_pinned(&mut self, link: LinkId) {
        // This runs at each check-in, and few clients have pinned connections.
        if !self.pinned.is_empty() {
            self.pinned.remove(&link);
        }
    }

    /// Closes a connection that a cursor or a transaction held, after its pool closed it or was itself closed.
    fn close_orphan(&mut self, place: Option<(Address, ShardId)>, link: LinkId, now: Instant) {
        let Some((address, shard)) = place else { return self.closing.push(link) };
        let server = self.servers.get_mut(&address);
        if let Some(pool) = server.and_then(|server| server.pools.get_mut(&shard)) {
            return pool.check_in(link, now);
        }
        self.closing.push(link);
        let reason = CloseReason::PoolClosed;
        self.count_gone(&address, |counts| counts.add_closed(reason));
        self.publish_pool(&address, || PoolEvent::CheckedIn { link });
        self.publish_pool(&address, || PoolEvent::ConnectionClosed { link, reason });
    }

    /// Returns the pool of one server in one shard, if it ever had a check-out.
    pub fn pool(&self, server: &Address, shard: ShardId) -> Option<&Pool> {
        self.servers.get(server)?.pools.get(&shard)
    }

    /// Returns how many connections of a shard are idle, out and being opened, and how many exchanges wait, over all
    /// servers; `None` for a shard that is not open.
    pub fn pool_sizes(&self, shard: ShardId) -> Option<(usize, usize, usize, usize)> {
        self.shards.contains(&shard).then(|| {
            let pools = self.servers.values().filter_map(|server| server.pools.get(&shard));
            pools.fold((0, 0, 0, 0), |sum, pool| {
                let (idle, out, pending) = pool.sizes();
                (sum.0 + idle, sum.1 + out, sum.2 + pending, sum.3 + pool.waiting())
            })
        })
    }

    /// Returns the pool of one server in one shard, made on demand; `None` if either is closed.
    pub(crate) fn pool_mut(&mut self, server: &Address, shard: ShardId) -> Option<&mut Pool> {
        let is_open = self.shards.contains(&shard) && !self.is_closed;
        match self.servers.get_mut(server)?.pools.entry(shard) {
            Entry::Occupied(pool) => Some(pool.into_mut()),
            Entry::Vacant(place) => is_open.then(|| {
                let pool = place.insert(Pool::new(self.options.pool.clone()));
                pool.set_observed(self.events.wants(Interests::POOLS));
                pool
            }),
        }
    }

    /// Returns whether the pool of this server hands out connections; `None` when there is no such server.
    pub(crate) fn is_ready(&self, address: &Address) -> Option<bool> {
        self.servers.get(address).map(|server| server.is_ready)
    }

    pub(super) fn operation_count(&self, address: &Address) -> u64 {
        let pools = self.servers.get(address).into_iter().flat_map(|server| server.pools.values());
        pools.map(|pool| pool.sizes().1 as u64).sum()
    }

    /// Requests a call of [`Client::keep_up`] now.
    pub(crate) fn ask_for_upkeep(&mut self) {
        let pool = &self.options.pool;
        let is_needed = pool.min_pool_size > 0 || pool.max_idle_time.is_some();
        if is_needed && !self.actions.contains(&Action::KeepUp) {
            self.actions.push(Action::KeepUp);
        }
    }

    fn pool_of_link(&mut self, shard: ShardId, link: LinkId) -> Option<&mut Pool> {
        let mut pools = self.servers.values_mut().filter_map(|server| server.pools.get_mut(&shard));
        pools.find(|pool| pool.holds(link))
    }
}
