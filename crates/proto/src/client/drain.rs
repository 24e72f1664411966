//! The queues that the owner drains after releasing the lock: links to close, exchanges to wake, actions, events.

use std::collections::VecDeque;

use super::{Action, Client};
use crate::events::{Event, Interests, PoolEvent};
use crate::ids::{ExchangeId, LinkId};
use crate::pool::Pool;
use crate::topology::Address;

impl Client {
    /// Returns whether a waiting exchange should check again.
    pub fn should_wake(&self, exchange: ExchangeId) -> bool {
        let mut pools = self.servers.values().flat_map(|server| server.pools.values());
        !self.selecting.contains(&exchange) && !pools.any(|pool| pool.is_waiting(exchange))
    }

    /// Returns whether a `poll_*` method has a result.
    pub fn has_pending(&self) -> bool {
        let mut pools = self.servers.values().flat_map(|server| server.pools.values());
        !self.woken.is_empty()
            || !self.closing.is_empty()
            || !self.actions.is_empty()
            || !self.events.is_empty()
            || pools.any(Pool::has_pending)
    }

    /// Returns the links to close since the last call.
    pub fn poll_closing(&mut self) -> Vec<LinkId> {
        let mut closing = std::mem::take(&mut self.closing);
        let pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        pools.for_each(|pool| closing.append(&mut pool.poll_closing()));
        self.forget_connections(&closing);
        closing
    }

    /// Returns the exchanges to wake since the last call.
    pub fn poll_wakers(&mut self) -> Vec<ExchangeId> {
        let mut woken = std::mem::take(&mut self.woken);
        let pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        pools.for_each(|pool| woken.append(&mut pool.poll_woken()));
        woken
    }

    /// Returns the actions for the face since the last call.
    pub fn poll_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Returns the events of requested kinds since the last call, in order.
    pub fn poll_events(&mut self) -> VecDeque<Event> {
        self.collect_logs();
        self.events.take()
    }

    /// Sets the kinds of events that are made from now on.
    pub fn set_interests(&mut self, interests: Interests) {
        self.events.set_interests(interests);
        self.options.topology.has_listeners = interests.contains(Interests::TOPOLOGY);
        self.topology.set_listened(interests.contains(Interests::TOPOLOGY));
        let pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        pools.for_each(|pool| pool.set_observed(interests.contains(Interests::POOLS)));
    }

    pub(crate) fn wants(&self, kinds: Interests) -> bool {
        self.events.wants(kinds)
    }

    pub(crate) fn publish(&mut self, event: Event) {
        self.collect_logs();
        self.events.push(event);
    }

    /// Publishes an event of a pool to listeners, if there are any.
    pub(crate) fn publish_pool(&mut self, address: &Address, event: impl FnOnce() -> PoolEvent) {
        if self.wants(Interests::POOLS) {
            self.publish(Event::Pool { address: address.clone(), event: event() });
        }
    }

    /// Appends the events of pools to the queue.
    fn collect_logs(&mut self) {
        if self.wants(Interests::POOLS) {
            for (address, server) in &mut self.servers {
                server.pools.values_mut().for_each(|pool| self.events.push_log(address, pool.take_log()));
            }
        }
    }
}
