//! Connection pool bookkeeping: idle connections, those in use, and waiters. Opens no socket and keeps no clock.
//! Spec: connection-monitoring-and-pooling.
//!
//! The laws:
//! - `idle + out + pending <= max_pool_size`, and `pending <= max_connecting`, at every moment.
//! - Waiters are served first come, first served; a newcomer never overtakes one.
//! - A grant belongs to its waiter until it is taken or given back; giving it back serves the next one.
//! - A link of an older generation is closed instead of being handed out or taken back.

use std::collections::{HashMap, VecDeque};

use mangonel_bson::ObjectId;

use crate::events::{CloseReason, PoolEvent};
use crate::ids::{ExchangeId, IdMap, LinkId};
use crate::metrics::PoolCounts;
use crate::options::PoolOptions;
use crate::time::Instant;

/// The result of a check-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckOut {
    /// Use this connection.
    Ready(LinkId),
    /// Open a connection under this pool's current generation, then report [`Pool::established`] or [`Pool::failed`].
    Establish,
    /// Wait until woken; then ask [`Pool::granted`].
    Wait,
}

struct Idle {
    link: LinkId,
    since: Instant,
}

/// The bookkeeping of one pool.
pub struct Pool {
    options: PoolOptions,
    generation: u32,
    idle: Vec<Idle>,
    out: IdMap<LinkId, u32>,
    pending: usize,
    /// The connections in their handshake; those still being connected have no link yet.
    shaking: Vec<LinkId>,
    /// Behind a load balancer: the service of each connection, and the connection's generation of that service.
    services: IdMap<LinkId, (ObjectId, u32)>,
    /// How often the connections of a service were cleared.
    service_generations: HashMap<ObjectId, u32>,
    waiters: VecDeque<ExchangeId>,
    grants: IdMap<ExchangeId, CheckOut>,
    /// Links to be closed by the owner, and waiters to be woken; drained after every call.
    closing: Vec<LinkId>,
    woken: Vec<ExchangeId>,
    /// Events for listeners, if there are any: connections checked in and closed.
    log: Vec<PoolEvent>,
    /// Its counts. Few programs read them, so counting must cost nothing.
    counts: Box<PoolCounts>,
    is_observed: bool,
    is_closed: bool,
}

impl Pool {
    /// Makes an empty pool.
    pub fn new(options: PoolOptions) -> Self {
        Pool {
            options,
            generation: 0,
            idle: Vec::new(),
            out: IdMap::default(),
            pending: 0,
            shaking: Vec::new(),
            services: IdMap::default(),
            service_generations: HashMap::new(),
            waiters: VecDeque::new(),
            grants: IdMap::default(),
            closing: Vec::new(),
            woken: Vec::new(),
            log: Vec::new(),
            counts: Box::default(),
            is_observed: false,
            is_closed: false,
        }
    }

    /// Starts or stops the log of connections checked in and closed.
    pub fn set_observed(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    /// Returns the log since the last call, in order, if it is observed.
    pub fn take_log(&mut self) -> Vec<PoolEvent> {
        std::mem::take(&mut self.log)
    }

    /// Returns its counts.
    pub fn counts(&self) -> &PoolCounts {
        &self.counts
    }

    /// Returns its counts, for changing.
    pub(crate) fn counts_mut(&mut self) -> &mut PoolCounts {
        &mut self.counts
    }

    /// Returns the generation of new connections.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns how many connections are idle, out, and being opened.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.idle.len(), self.out.len(), self.pending)
    }

    /// Returns whether a connection is in use.
    pub fn is_out(&self, link: LinkId) -> bool {
        self.out.contains_key(&link)
    }

    /// Returns the generation of a connection in use.
    pub(crate) fn generation_of(&self, link: LinkId) -> Option<u32> {
        self.out.get(&link).copied()
    }

    /// Returns whether an exchange holds a connection and knows of it.
    pub fn is_held(&self, link: LinkId) -> bool {
        self.is_out(link) && !self.is_granted(link)
    }

    /// Returns whether it contains a connection, idle or in use.
    pub fn holds(&self, link: LinkId) -> bool {
        self.out.contains_key(&link) || self.idle.iter().any(|idle| idle.link == link)
    }

    /// Returns whether an exchange waits here without a grant.
    pub fn is_waiting(&self, exchange: ExchangeId) -> bool {
        self.waiters.contains(&exchange)
    }

    /// Returns how many exchanges wait for a connection.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Requests a connection on behalf of `exchange`.
    pub fn check_out(&mut self, exchange: ExchangeId, now: Instant) -> CheckOut {
        if self.waiters.is_empty()
            && let Some(answer) = self.offer(now)
        {
            return answer;
        }
        self.waiters.push_back(exchange);
        CheckOut::Wait
    }

    /// Returns a woken waiter's grant, once.
    pub fn granted(&mut self, exchange: ExchangeId) -> Option<CheckOut> {
        self.grants.remove(&exchange)
    }

    /// Forgets a waiter; a connection granted to it but not taken goes to the next one.
    pub fn abandon(&mut self, exchange: ExchangeId, now: Instant) {
        self.waiters.retain(|waiter| *waiter != exchange);
        match self.grants.remove(&exchange) {
            // The waiter does not know of it yet.
            Some(CheckOut::Ready(link)) => self.take_back(link, now),
            Some(CheckOut::Establish) => self.failed(None, now),
            Some(CheckOut::Wait) | None => {}
        }
    }

    /// Gives a working connection back.
    pub fn check_in(&mut self, link: LinkId, now: Instant) {
        self.note(PoolEvent::CheckedIn { link });
        self.take_back(link, now);
    }

    /// Stores a new connection opened in the background.
    pub fn put_by(&mut self, link: LinkId, now: Instant) {
        self.take_back(link, now);
    }

    fn take_back(&mut self, link: LinkId, now: Instant) {
        match self.out.remove(&link) {
            Some(generation) if generation == self.generation && self.is_of_this_service(link) => {
                self.idle.push(Idle { link, since: now });
            }
            Some(_) => self.shut(link, CloseReason::Stale),
            // An unknown connection was in use when the pool was closed, or cleared with interruption.
            None => {
                self.shut(link, if self.is_closed { CloseReason::PoolClosed } else { CloseReason::Stale })
            }
        }
        self.serve(now);
    }

    /// Gives back a connection that must not be used again.
    pub fn discard(&mut self, link: LinkId, now: Instant) {
        let was_idle = self.idle.iter().any(|idle| idle.link == link);
        if !was_idle && !self.is_granted(link) {
            self.note(PoolEvent::CheckedIn { link });
        }
        self.shut(link, CloseReason::Error);
        self.out.remove(&link);
        self.idle.retain(|idle| idle.link != link);
        // It may be granted to a waiter that has not run since: that waiter becomes the first in the queue again.
        if let Some(waiter) = self.revoke(link) {
            self.waiters.push_front(waiter);
        }
        self.serve(now);
    }

    /// Records that a connection opened under `generation` is ready, and in use by the exchange that opened it.
    pub fn established(&mut self, link: LinkId, generation: u32, now: Instant) {
        self.enter(link, generation);
        self.serve(now);
    }

    /// Records that a connection opened in the background is ready; [`put_by`](Self::put_by) follows. A waiter will get
    /// this one, so no waiter may open another in the meantime.
    pub fn enter(&mut self, link: LinkId, generation: u32) {
        self.pending = self.pending.saturating_sub(1);
        self.shaking.retain(|shaking| *shaking != link);
        self.out.insert(link, generation);
    }

    /// Records that a connection being opened is connected, and begins its handshake.
    pub fn connected(&mut self, link: LinkId) {
        self.shaking.push(link);
    }

    /// Records that a connection in use belongs to this service behind the load balancer.
    pub fn belongs_to(&mut self, link: LinkId, service: ObjectId) {
        let generation = self.service_generation(service);
        self.services.insert(link, (service, generation));
    }

    /// Returns the service of a connection, and the connection's generation of that service.
    pub fn service_of(&self, link: LinkId) -> Option<(ObjectId, u32)> {
        self.services.get(&link).copied()
    }

    /// Returns the generation for new connections to a service.
    pub fn service_generation(&self, service: ObjectId) -> u32 {
        self.service_generations.get(&service).copied().unwrap_or_default()
    }

    /// Starts a new generation of one service: its idle connections close now, those in use when they are checked in.
    pub fn clear_service(&mut self, service: ObjectId, is_interrupting: bool) {
        *self.service_generations.entry(service).or_default() += 1;
        let is_hit = |link: &LinkId| self.services.get(link).is_some_and(|(known, _)| *known == service);
        let (hit, kept) =
            std::mem::take(&mut self.idle).into_iter().partition(|idle: &Idle| is_hit(&idle.link));
        let in_use = self.out.keys().filter(|link| is_interrupting && is_hit(link)).copied().collect();
        self.idle = kept;
        hit.iter().for_each(|idle| self.shut(idle.link, CloseReason::Stale));
        self.interrupt(in_use, CloseReason::Stale);
    }

    /// Closes connections in use. An exchange that holds one publishes the closing when it gives it up; a waiter that
    /// was granted one and has not taken it selects a server again.
    fn interrupt(&mut self, links: Vec<LinkId>, reason: CloseReason) {
        for link in links {
            self.out.remove(&link);
            match self.revoke(link) {
                Some(_) => self.shut(link, reason),
                None => self.closing.push(link),
            }
        }
    }

    /// Takes back a connection that was granted to a waiter that has not run since.
    fn revoke(&mut self, link: LinkId) -> Option<ExchangeId> {
        self.grants.extract_if(|_, answer| *answer == CheckOut::Ready(link)).next().map(|(waiter, _)| waiter)
    }

    /// Whether a connection is granted to a waiter that has not run since.
    fn is_granted(&self, link: LinkId) -> bool {
        self.grants.values().any(|answer| *answer == CheckOut::Ready(link))
    }

    fn is_of_this_service(&self, link: LinkId) -> bool {
        self.services.is_empty()
            || self
                .services
                .get(&link)
                .is_none_or(|(service, generation)| *generation == self.service_generation(*service))
    }

    /// Closes connections that were idle for too long.
    pub fn prune(&mut self, now: Instant) {
        let Some(longest) = self.options.max_idle_time else { return };
        // Connections are appended when they are checked in, so those idle for the longest come first.
        let kept = self.idle.iter().position(|idle| now.saturating_since(idle.since) <= longest);
        let count = kept.unwrap_or(self.idle.len());
        let perished: Vec<Idle> = self.idle.drain(..count).collect();
        perished.iter().for_each(|idle| self.shut(idle.link, CloseReason::Idle));
    }

    /// Returns how many connections may be opened now to reach the number to keep open.
    pub fn missing(&self) -> usize {
        let total = self.idle.len() + self.out.len() + self.pending;
        let wanted = self.options.min_pool_size.saturating_sub(total);
        let limit = self.options.max_pool_size;
        let room = if limit == 0 { wanted } else { limit.saturating_sub(self.out.len() + self.pending) };
        wanted.min(room).min(self.options.max_connecting.saturating_sub(self.pending))
    }

    /// Counts one more connection being opened in the background; false when none is missing.
    pub fn begin_filling(&mut self) -> bool {
        let is_missing = !self.is_closed && self.missing() > 0;
        self.pending += usize::from(is_missing);
        is_missing
    }

    /// Records that a connection could not be opened; `link` if it broke during its handshake.
    pub fn failed(&mut self, link: Option<LinkId>, now: Instant) {
        self.shaking.retain(|shaking| Some(*shaking) != link);
        link.into_iter().for_each(|link| self.shut(link, CloseReason::Error));
        self.pending = self.pending.saturating_sub(1);
        self.serve(now);
    }

    /// Starts a new generation: idle connections close now, those in use when they are checked in.
    pub fn clear(&mut self) {
        self.generation += 1;
        let reason = if self.is_closed { CloseReason::PoolClosed } else { CloseReason::Stale };
        std::mem::take(&mut self.idle).iter().for_each(|idle| self.shut(idle.link, reason));
    }

    /// Clears the pool and wakes every waiter to select a server again; `is_interrupting` also closes connections in
    /// use.
    pub fn pause(&mut self, is_interrupting: bool) {
        self.clear();
        if is_interrupting {
            self.interrupt(self.out.keys().copied().collect(), CloseReason::Stale);
            // The handshake notices the closed link and gives it up.
            self.closing.append(&mut self.shaking);
        }
        self.woken.extend(self.waiters.drain(..));
    }

    /// Closes everything and wakes every waiter, which then finds nothing granted.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.clear();
        self.interrupt(self.out.keys().copied().collect(), CloseReason::PoolClosed);
        self.closing.append(&mut self.shaking);
        self.woken.extend(self.waiters.drain(..));
    }

    /// Returns the links to close since the last call.
    pub fn poll_closing(&mut self) -> Vec<LinkId> {
        std::mem::take(&mut self.closing)
    }

    /// Returns the exchanges to wake since the last call.
    pub fn poll_woken(&mut self) -> Vec<ExchangeId> {
        std::mem::take(&mut self.woken)
    }

    /// Returns whether [`poll_closing`](Self::poll_closing), [`poll_woken`](Self::poll_woken) or
    /// [`take_log`](Self::take_log) has something.
    pub fn has_pending(&self) -> bool {
        !self.closing.is_empty() || !self.woken.is_empty() || !self.log.is_empty()
    }

    fn shut(&mut self, link: LinkId, reason: CloseReason) {
        self.services.remove(&link);
        self.closing.push(link);
        self.counts.add_closed(reason);
        self.note(PoolEvent::ConnectionClosed { link, reason });
    }

    fn note(&mut self, event: PoolEvent) {
        if self.is_observed {
            self.log.push(event);
        }
    }

    fn offer(&mut self, now: Instant) -> Option<CheckOut> {
        while let Some(idle) = self.idle.pop() {
            let perished =
                self.options.max_idle_time.is_some_and(|longest| now.saturating_since(idle.since) > longest);
            if perished {
                self.shut(idle.link, CloseReason::Idle);
                continue;
            }
            self.out.insert(idle.link, self.generation);
            return Some(CheckOut::Ready(idle.link));
        }
        let limit = self.options.max_pool_size;
        let room = limit == 0 || self.out.len() + self.pending < limit;
        if room && self.pending < self.options.max_connecting {
            self.pending += 1;
            return Some(CheckOut::Establish);
        }
        None
    }

    fn serve(&mut self, now: Instant) {
        while !self.waiters.is_empty() {
            let Some(answer) = self.offer(now) else { return };
            if let Some(waiter) = self.waiters.pop_front() {
                self.grants.insert(waiter, answer);
                self.woken.push(waiter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use CheckOut::{Establish, Ready, Wait};

    const NOW: Instant = Instant(Duration::from_secs(1000));

    fn pool(max_pool_size: usize, max_connecting: usize) -> Pool {
        Pool::new(PoolOptions { max_pool_size, max_connecting, ..PoolOptions::default() })
    }

    fn open(pool: &mut Pool, link: u32) -> LinkId {
        assert_eq!(pool.check_out(ExchangeId(u64::from(link)), NOW), Establish);
        let generation = pool.generation();
        pool.established(LinkId(link), generation, NOW);
        LinkId(link)
    }

    #[test]
    fn the_last_link_checked_in_is_the_first_checked_out() {
        let mut pool = pool(2, 2);
        let (a, b) = (open(&mut pool, 1), open(&mut pool, 2));
        pool.check_in(a, NOW);
        pool.check_in(b, NOW);
        assert_eq!(pool.check_out(ExchangeId(9), NOW), Ready(b));
    }

    #[test]
    fn no_more_than_max_connecting_links_are_opened_at_once() {
        let mut pool = pool(0, 2);
        assert_eq!(pool.check_out(ExchangeId(1), NOW), Establish);
        assert_eq!(pool.check_out(ExchangeId(2), NOW), Establish);
        assert_eq!(pool.check_out(ExchangeId(3), NOW), Wait);
        pool.failed(None, NOW);
        assert_eq!(pool.poll_woken(), [ExchangeId(3)]);
        assert_eq!(pool.granted(ExchangeId(3)), Some(Establish));
    }

    #[test]
    fn waiters_are_served_in_the_order_they_came_and_newcomers_queue_behind_them() {
        let mut pool = pool(1, 2);
        let link = open(&mut pool, 1);
        assert_eq!(pool.check_out(ExchangeId(2), NOW), Wait);
        assert_eq!(pool.check_out(ExchangeId(3), NOW), Wait);
        pool.check_in(link, NOW);
        assert_eq!(pool.check_out(ExchangeId(4), NOW), Wait);
        assert_eq!(pool.poll_woken(), [ExchangeId(2)]);
        assert_eq!(pool.granted(ExchangeId(2)), Some(Ready(link)));
        pool.check_in(link, NOW);
        assert_eq!(pool.poll_woken(), [ExchangeId(3)]);
    }

    #[test]
    fn a_grant_that_is_abandoned_goes_to_the_next_waiter() {
        let mut pool = pool(1, 2);
        let link = open(&mut pool, 1);
        pool.check_out(ExchangeId(2), NOW);
        pool.check_out(ExchangeId(3), NOW);
        pool.check_in(link, NOW);
        pool.abandon(ExchangeId(2), NOW);
        assert_eq!(pool.poll_woken(), [ExchangeId(2), ExchangeId(3)]);
        assert_eq!(pool.granted(ExchangeId(2)), None);
        assert_eq!(pool.granted(ExchangeId(3)), Some(Ready(link)));
    }

    #[test]
    fn a_grant_whose_link_is_lost_is_replaced() {
        let mut pool = pool(1, 2);
        let link = open(&mut pool, 1);
        pool.check_out(ExchangeId(2), NOW);
        pool.check_out(ExchangeId(3), NOW);
        pool.check_in(link, NOW);
        pool.discard(link, NOW);
        assert_eq!(pool.poll_closing(), [link]);
        assert_eq!(pool.granted(ExchangeId(2)), Some(Establish));
        assert_eq!((pool.sizes(), pool.waiting()), ((0, 0, 1), 1));
    }

    #[test]
    fn clearing_closes_idle_links_now_and_links_in_use_at_check_in() {
        let mut pool = pool(0, 2);
        let (a, b) = (open(&mut pool, 1), open(&mut pool, 2));
        pool.check_in(a, NOW);
        pool.clear();
        assert_eq!(pool.poll_closing(), [a]);
        pool.check_in(b, NOW);
        assert_eq!(pool.poll_closing(), [b]);
        assert_eq!(pool.sizes(), (0, 0, 0));
    }

    #[test]
    fn an_interrupting_clear_closes_links_in_use_and_in_their_handshake() {
        let mut pool = pool(0, 2);
        let used = open(&mut pool, 1);
        assert_eq!(pool.check_out(ExchangeId(2), NOW), Establish);
        pool.connected(LinkId(2));
        pool.pause(true);
        assert_eq!(pool.poll_closing(), [used, LinkId(2)]);
        pool.failed(Some(LinkId(2)), NOW);
        assert_eq!(pool.sizes(), (0, 0, 0));
    }

    #[test]
    fn a_link_in_use_that_is_closed_before_its_waiter_takes_it_is_counted_and_the_waiter_sent_away() {
        let service = ObjectId::from_bytes([1; 12]);
        let ways: [&dyn Fn(&mut Pool); 3] =
            [&|pool| pool.pause(true), &Pool::close, &|pool| pool.clear_service(service, true)];
        for interrupt in ways {
            let mut pool = pool(1, 2);
            pool.set_observed(true);
            let link = open(&mut pool, 1);
            pool.belongs_to(link, service);
            pool.check_out(ExchangeId(2), NOW);
            pool.check_in(link, NOW);
            pool.take_log();
            interrupt(&mut pool);
            assert_eq!((pool.granted(ExchangeId(2)), pool.is_waiting(ExchangeId(2))), (None, false));
            assert_eq!((pool.poll_closing(), pool.poll_woken()), (vec![link], vec![ExchangeId(2)]));
            assert!(matches!(pool.take_log()[..], [PoolEvent::ConnectionClosed { .. }]));
            assert_eq!(pool.counts().closed.iter().sum::<u64>(), 1);
        }
    }

    #[test]
    fn a_waiter_takes_the_link_that_was_opened_for_nobody() {
        let mut pool =
            Pool::new(PoolOptions { min_pool_size: 1, max_connecting: 1, ..PoolOptions::default() });
        assert!(pool.begin_filling());
        assert_eq!(pool.check_out(ExchangeId(1), NOW), Wait);
        pool.enter(LinkId(7), 0);
        pool.put_by(LinkId(7), NOW);
        assert_eq!(pool.granted(ExchangeId(1)), Some(Ready(LinkId(7))));
    }

    #[test]
    fn a_link_idle_for_too_long_is_closed_instead_of_handed_out() {
        let mut pool =
            Pool::new(PoolOptions { max_idle_time: Some(Duration::from_secs(10)), ..PoolOptions::default() });
        let link = open(&mut pool, 1);
        pool.check_in(link, NOW);
        assert_eq!(pool.check_out(ExchangeId(2), NOW + Duration::from_secs(11)), Establish);
        assert_eq!(pool.poll_closing(), [link]);
    }

    #[test]
    fn connections_idle_for_too_long_are_closed_without_a_check_out() {
        let longest = Duration::from_secs(10);
        let mut pool = Pool::new(PoolOptions { max_idle_time: Some(longest), ..PoolOptions::default() });
        let (old, new) = (open(&mut pool, 1), open(&mut pool, 2));
        pool.check_in(old, NOW);
        pool.check_in(new, NOW + longest);
        pool.prune(NOW + longest);
        assert_eq!(pool.poll_closing(), []);
        pool.prune(NOW + longest + Duration::from_millis(1));
        assert_eq!(pool.poll_closing(), [old]);
        assert_eq!(pool.sizes(), (1, 0, 0));
    }

    #[test]
    fn no_more_is_filled_in_than_the_limits_allow() {
        let options = PoolOptions { min_pool_size: 3, max_pool_size: 4, ..PoolOptions::default() };
        let mut pool = Pool::new(options);
        assert_eq!(pool.missing(), 2);
        assert!(pool.begin_filling() && pool.begin_filling());
        assert!(!pool.begin_filling());
        pool.established(LinkId(1), 0, NOW);
        pool.put_by(LinkId(1), NOW);
        pool.failed(None, NOW);
        assert_eq!((pool.sizes(), pool.missing()), ((1, 0, 0), 2));
        assert_eq!(pool.check_out(ExchangeId(1), NOW), Ready(LinkId(1)));
        pool.close();
        assert!(!pool.begin_filling());
    }

    #[test]
    fn clearing_a_service_leaves_the_other_services_alone() {
        let mut pool = pool(0, 9);
        let service = |byte: u8| ObjectId::from_bytes([byte; 12]);
        let links: Vec<LinkId> = (1..=4).map(|number| open(&mut pool, number)).collect();
        for (link, of) in links.iter().zip([1, 1, 2, 2]) {
            pool.belongs_to(*link, service(of));
        }
        pool.check_in(links[0], NOW);
        pool.check_in(links[2], NOW);
        pool.clear_service(service(1), false);
        assert_eq!(pool.poll_closing(), [links[0]]);
        pool.check_in(links[1], NOW);
        pool.check_in(links[3], NOW);
        assert_eq!(pool.poll_closing(), [links[1]]);
        assert_eq!(pool.sizes(), (2, 0, 0));
        let fresh = open_another(&mut pool, &links);
        pool.belongs_to(fresh, service(1));
        pool.check_in(fresh, NOW);
        assert_eq!(pool.poll_closing(), []);
    }

    fn open_another(pool: &mut Pool, known: &[LinkId]) -> LinkId {
        while let Ready(link) = pool.check_out(ExchangeId(90), NOW) {
            assert!(known.contains(&link));
        }
        let generation = pool.generation();
        pool.established(LinkId(91), generation, NOW);
        LinkId(91)
    }

    #[test]
    fn closing_the_pool_wakes_every_waiter_with_nothing() {
        let mut pool = pool(1, 2);
        let link = open(&mut pool, 1);
        pool.check_out(ExchangeId(2), NOW);
        pool.close();
        assert_eq!(pool.poll_closing(), [link]);
        assert_eq!(pool.poll_woken(), [ExchangeId(2)]);
        assert_eq!(pool.granted(ExchangeId(2)), None);
    }

    #[test]
    fn the_limits_hold_under_any_order_of_events() {
        // A small linear congruential generator: the test must not depend on a random source.
        let mut state = 42u64;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut pool = pool(5, 2);
        let (mut out, mut opening, mut waiting) = (Vec::new(), 0, Vec::new());
        for step in 0..20_000u64 {
            match next(6) {
                0 | 1 => match pool.check_out(ExchangeId(step), NOW) {
                    Ready(link) => out.push(link),
                    Establish => opening += 1,
                    Wait => waiting.push(ExchangeId(step)),
                },
                2 if opening > 0 => {
                    opening -= 1;
                    let generation = pool.generation();
                    pool.established(LinkId(step as u32), generation, NOW);
                    out.push(LinkId(step as u32));
                }
                3 if opening > 0 => {
                    opening -= 1;
                    pool.failed(None, NOW);
                }
                4 if !out.is_empty() => {
                    let link = out.swap_remove(next(out.len() as u64) as usize);
                    if next(4) == 0 { pool.discard(link, NOW) } else { pool.check_in(link, NOW) }
                }
                5 if !waiting.is_empty() && next(3) == 0 => {
                    let waiter = waiting.swap_remove(next(waiting.len() as u64) as usize);
                    pool.abandon(waiter, NOW);
                }
                _ => {}
            }
            pool.poll_woken();
            waiting.retain(|waiter| match pool.granted(*waiter) {
                Some(Ready(link)) => {
                    out.push(link);
                    false
                }
                Some(Establish) => {
                    opening += 1;
                    false
                }
                Some(Wait) | None => true,
            });
            let (idle, busy, pending) = pool.sizes();
            assert_eq!((busy, pending), (out.len(), opening));
            assert!(idle + busy + pending <= 5 && pending <= 2);
            assert!(waiting.is_empty() || busy + pending == 5 || pending == 2);
        }
    }
}
