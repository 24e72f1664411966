//! What all exchanges of one client share: the deployment, its pools, sessions and cluster time.
//! The owner keeps it behind a lock that is held for about a microsecond, never across I/O.
//! Spec: server-discovery-and-monitoring, server-selection, connection-monitoring-and-pooling.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::{ObjectId, RawDocument};

use crate::auth::login::Login;
use crate::client_session::{ClientSession, ClusterTime, SessionId, keep_newer};
use crate::compress::{Compressor, negotiate};
use crate::error::ProtocolError;
use crate::events::{Event, EventQueue, Interests, PoolEvent};
use crate::hello::hello_command;
use crate::message::Command;
use crate::pool::{ExchangeId, LinkId, Pool, PoolOptions};
use crate::session::{IdSource, ServerSession, SessionPool};
use crate::srv;
use crate::time::Instant;
use crate::topology::monitor::HelloRequest;
use crate::topology::select::{self, Criteria, SelectionError};
use crate::topology::{
    Address, Effect, ServerDescription, ServerType, Topology, TopologyDescription, TopologySettings,
    TopologyType,
};

/// The options that the core decides by.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The deployment as the user described it.
    pub topology: TopologySettings,
    /// How much slower than the fastest suitable server another one may be.
    pub local_threshold: Duration,
    /// Whether the user has a say in which of the suitable servers are taken.
    pub has_selector: bool,
    /// The limits of each pool.
    pub pool: PoolOptions,
    /// How long to wait for a connection to become free; `None` for no limit.
    pub wait_queue_timeout: Option<Duration>,
    /// How long opening a connection may take, handshake included; `None` for no limit.
    pub connect_timeout: Option<Duration>,
    /// How long the line may be silent while a reply is owed; `None` for no limit.
    pub socket_timeout: Option<Duration>,
    /// How long to look for a suitable server.
    pub server_selection_timeout: Duration,
    /// Whether reads are sent again once.
    pub retry_reads: bool,
    /// Whether writes are sent again once.
    pub retry_writes: bool,
    /// How often at most a command is sent again because the server has too much to do.
    pub max_adaptive_retries: u32,
    /// Whether a server that has too much to do is avoided in the next attempt.
    pub enable_overload_retargeting: bool,
    /// How long an operation may take, all attempts included; `None` for no limit. `wait_queue_timeout` and
    /// `socket_timeout` do not count for an operation with a limit.
    pub timeout: Option<Duration>,
    /// The `client` document of the handshake, as BSON.
    pub metadata: Vec<u8>,
    /// `apiVersion` and its companions as one BSON document; empty without them.
    pub server_api: Vec<u8>,
    /// Who its connections authenticate as; `None` for nobody.
    pub login: Option<Login>,
    /// How messages may be compressed, the most wanted first; empty for not at all.
    pub compressors: Vec<Compressor>,
}

/// Longer than any session lasts.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A face, or one event loop of it. Connections never cross from one to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u32);

/// Something that the face has to do for the deployment, besides what exchanges ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Start driving the monitor of this server.
    Watch(Address),
    /// Start driving the pinger of this server.
    Ping(Address),
    /// Let this server's monitor look at its step again.
    Wake(Address),
    /// Shut down the socket of this server's monitor.
    Interrupt(Address),
    /// Kill a session on this server, and so the cursor that it may have left open there.
    KillSession(Address, [u8; 16]),
    /// Shut down the sockets of this server's monitor and pinger, and let both look at their steps again.
    Stop(Address),
    /// Call [`Client::keep_up`] soon, and every second or so from then on.
    KeepUp,
}

/// What a server said of a connection in its handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// The server's own number for it.
    pub(crate) server_connection_id: Option<i64>,
    /// The service behind a load balancer.
    pub(crate) service_id: Option<ObjectId>,
    /// How messages on it are compressed.
    pub(crate) compressor: Option<Compressor>,
    /// The number of the token that its user showed; 0 for none.
    token: u64,
}

/// The pools of one server, one for each shard that used it.
#[derive(Default)]
struct Server {
    pools: BTreeMap<ShardId, Pool>,
    /// Whether the server was reached since its pools were cleared; only listeners want to know.
    is_ready: bool,
}

/// The state that all exchanges of one client share.
pub struct Client {
    pub(crate) options: ClientOptions,
    topology: Topology,
    servers: BTreeMap<Address, Server>,
    shards: BTreeSet<ShardId>,
    /// Exchanges that wait for a suitable server.
    selecting: Vec<ExchangeId>,
    woken: Vec<ExchangeId>,
    closing: Vec<LinkId>,
    errands: Vec<Errand>,
    events: EventQueue,
    lines: HashMap<LinkId, Line>,
    balanced_service: Option<Arc<ServerDescription>>,
    sessions: SessionPool,
    pub(crate) open_sessions: BTreeMap<SessionId, ClientSession>,
    pub(crate) next_session: u64,
    choices: IdSource,
    cluster_time: Option<ClusterTime>,
    next_exchange: u64,
    next_request: i32,
    next_link: u32,
    next_shard: u32,
    is_closed: bool,
}

impl Client {
    /// Makes a client that has contacted nobody yet; its first errands wait until they are asked for.
    /// `seed`: good randomness for session ids.
    pub fn new(options: ClientOptions, seed: [u8; 16], now: Instant) -> Self {
        Self::observed(options, Interests::default(), seed, now)
    }

    /// Makes a client as [`new`](Self::new) does, whose events of these kinds are to be fetched with
    /// [`poll_events`](Self::poll_events).
    pub fn observed(mut options: ClientOptions, interests: Interests, seed: [u8; 16], now: Instant) -> Self {
        options.topology.has_listeners = interests.contains(Interests::TOPOLOGY);
        let mut ids = IdSource::new(seed);
        let choices = IdSource::new(ids.next_uuid());
        // Request ids start anywhere, so that two clients behind one proxy are told apart in its log.
        let next_request = (ids.next_u64() >> 34) as i32;
        let topology = Topology::new(options.topology.clone(), now);
        let mut client = Client {
            options,
            topology,
            servers: BTreeMap::new(),
            shards: BTreeSet::new(),
            selecting: Vec::new(),
            woken: Vec::new(),
            closing: Vec::new(),
            errands: Vec::new(),
            events: EventQueue::new(interests),
            lines: HashMap::new(),
            balanced_service: None,
            sessions: SessionPool::new(ids),
            open_sessions: BTreeMap::new(),
            next_session: 0,
            choices,
            cluster_time: None,
            next_exchange: 0,
            next_request,
            next_link: 0,
            next_shard: 0,
            is_closed: false,
        };
        client.settle();
        client
    }

    /// Returns the options it was made with.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Replaces the `client` document of handshakes to come; one that is being written keeps the old one.
    pub fn set_metadata(&mut self, metadata: Vec<u8>) {
        self.options.metadata = metadata;
    }

    /// Returns what is known of the deployment.
    pub fn description(&self) -> &Arc<TopologyDescription> {
        self.topology.description()
    }

    /// Returns whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

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
        for (address, server) in &mut self.servers {
            let Some(mut pool) = server.pools.remove(&shard) else { continue };
            pool.close();
            links.append(&mut pool.poll_closing());
            self.events.push_log(address, pool.take_log());
        }
        self.forget_lines(&links);
        links
    }

    /// Ends the client: every later exchange fails, every waiter is woken, every link closes.
    pub fn close(&mut self, now: Instant) {
        self.is_closed = true;
        self.topology.close(now);
        self.settle();
        self.woken.append(&mut self.selecting);
    }

    /// Starts over in a forked child: nothing is known, nothing is open, and ids come from another seed.
    pub fn restart_in_child(&mut self, seed: [u8; 16], now: Instant) {
        self.servers.clear();
        self.selecting.clear();
        self.woken.clear();
        self.closing.clear();
        self.errands.clear();
        self.events.clear();
        self.lines.clear();
        self.sessions.restart(IdSource::new(seed));
        self.open_sessions.clear();
        self.choices = IdSource::new(seed);
        self.cluster_time = None;
        if let Some(login) = &mut self.options.login {
            login.restart_in_child(seed);
        }
        if !self.is_closed {
            self.topology = Topology::new(self.options.topology.clone(), now);
            self.settle();
        }
    }

    /// Starts over with other options, as long as nothing was begun.
    pub fn reconfigure(&mut self, mut options: ClientOptions, now: Instant) {
        options.topology.has_listeners = self.options.topology.has_listeners;
        self.options = options;
        self.servers.clear();
        self.errands.clear();
        self.events.clear();
        self.topology = Topology::new(self.options.topology.clone(), now);
        self.settle();
    }

    /// Takes what DNS says of a deployment whose hosts come from SRV records: the hosts and how long they are good for,
    /// or `None` for no answer. Returns when to ask again; `None` for never.
    pub fn follow_srv(
        &mut self,
        answer: Option<(Vec<Address>, Duration)>,
        max_hosts: usize,
        now: Instant,
    ) -> Option<Duration> {
        let is_followed = |client: &Client| {
            let kind = client.description().topology_type;
            !client.is_closed && matches!(kind, TopologyType::Unknown | TopologyType::Sharded)
        };
        if !is_followed(self) {
            return None;
        }
        let heartbeat = self.topology.heartbeat_frequency();
        // No host that may be used is no answer either.
        let Some((named, ttl)) = answer.filter(|(named, _)| !named.is_empty()) else {
            return Some(srv::poll_interval(None, heartbeat));
        };
        let in_use: Vec<Address> = self.description().servers.keys().cloned().collect();
        let choices = &mut self.choices;
        let hosts = srv::choose_hosts(&in_use, &named, Some(max_hosts), || choices.next_u64());
        self.with_topology(|topology| topology.handle_srv_addresses(&hosts, now));
        is_followed(self).then(|| srv::poll_interval(Some(ttl), heartbeat))
    }

    /// Hands the topology to a monitor or a pinger, then does in the pools what follows from it.
    pub fn with_topology<T>(&mut self, change: impl FnOnce(&mut Topology) -> T) -> T {
        let result = change(&mut self.topology);
        self.settle();
        result
    }

    /// Does what the topology asks of pools and waiters, and notes what it asks of the face.
    fn settle(&mut self) {
        while let Some(event) = self.topology.poll_event() {
            self.events.push(Event::Topology(event));
        }
        while let Some(effect) = self.topology.poll_effect() {
            match effect {
                Effect::OpenPool { address } => {
                    self.publish_pool(&address, || PoolEvent::Created);
                    self.servers.insert(address, Server::default());
                }
                // A server that is not known is not selected, so its pools need no gate of their own.
                Effect::ReadyPool { address } => {
                    let server = self.servers.get_mut(&address);
                    if server.is_some_and(|server| !std::mem::replace(&mut server.is_ready, true)) {
                        self.ask_for_upkeep();
                        self.publish_pool(&address, || PoolEvent::Ready);
                    }
                }
                Effect::ClearPool { address, service_id, is_interrupting } => {
                    let is_balanced = self.options.topology.is_load_balanced;
                    let server = self.servers.get_mut(&address);
                    // Behind a load balancer no pool is ever paused.
                    if server.is_some_and(|server| std::mem::replace(&mut server.is_ready, is_balanced)) {
                        self.publish_pool(&address, || PoolEvent::Cleared { service_id, is_interrupting });
                    }
                    let server = self.servers.get_mut(&address);
                    let pools = server.into_iter().flat_map(|server| server.pools.values_mut());
                    pools.for_each(|pool| match service_id {
                        Some(service) => pool.clear_service(service, is_interrupting),
                        None => pool.pause(is_interrupting),
                    });
                    self.ask_for_upkeep();
                }
                Effect::ClosePool { address } => {
                    for (_, mut pool) in self.servers.remove(&address).unwrap_or_default().pools {
                        pool.close();
                        self.closing.append(&mut pool.poll_closing());
                        self.woken.append(&mut pool.poll_woken());
                        self.events.push_log(&address, pool.take_log());
                    }
                    self.publish_pool(&address, || PoolEvent::Closed);
                }
                Effect::StartMonitor { address } => self.errands.push(Errand::Watch(address)),
                Effect::StartPinger { address } => self.errands.push(Errand::Ping(address)),
                Effect::WakeMonitor { address } => self.errands.push(Errand::Wake(address)),
                Effect::InterruptMonitor { address } => self.errands.push(Errand::Interrupt(address)),
                Effect::StopMonitor { address } => self.errands.push(Errand::Stop(address)),
                Effect::WakeSelections => self.woken.append(&mut self.selecting),
            }
        }
    }

    /// Chooses a server for an operation; `None` when none suits now.
    pub(crate) fn select(
        &mut self,
        criteria: Criteria<'_>,
        deprioritized: &[Address],
    ) -> Result<Option<Arc<ServerDescription>>, SelectionError> {
        let random = self.choices.next_u64();
        select::select(
            self.topology.description(),
            criteria,
            deprioritized,
            self.topology.heartbeat_frequency(),
            self.options.local_threshold,
            |address| self.operation_count(address),
            random,
        )
    }

    /// Returns the servers that suit an operation, for the user to choose from; `None` where the user has no say.
    pub(crate) fn candidates(
        &self,
        criteria: Criteria<'_>,
        deprioritized: &[Address],
    ) -> Result<Option<Vec<Arc<ServerDescription>>>, SelectionError> {
        let kind = self.description().topology_type;
        if !self.options.has_selector || matches!(kind, TopologyType::Single | TopologyType::LoadBalanced) {
            return Ok(None);
        }
        let (topology, frequency) = (self.topology.description(), self.topology.heartbeat_frequency());
        select::suitable(topology, criteria, deprioritized, frequency).map(Some)
    }

    /// Chooses one of these servers, by their distance and by chance.
    pub(crate) fn choose(
        &mut self,
        mut among: Vec<Arc<ServerDescription>>,
    ) -> Option<Arc<ServerDescription>> {
        let random = self.choices.next_u64();
        select::keep_near(&mut among, self.options.local_threshold);
        select::choose(&among, |address| self.operation_count(address), random).cloned()
    }

    fn ask_for_upkeep(&mut self) {
        let pool = &self.options.pool;
        let is_needed = pool.min_pool_size > 0 || pool.max_idle_time.is_some();
        if is_needed && !self.errands.contains(&Errand::KeepUp) {
            self.errands.push(Errand::KeepUp);
        }
    }

    /// Closes connections that were idle for too long. Returns of these shards how many connections are to be opened to
    /// which server, with [`Operation::filling`](crate::operation::Operation::filling); `None` once the client is closed.
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

    /// Whether the deployment is a load balancer.
    pub(crate) fn is_load_balanced(&self) -> bool {
        self.options.topology.is_load_balanced
    }

    /// Returns what the service last connected to said of itself; only behind a load balancer, where nobody watches.
    pub fn balanced_service(&self) -> Option<&Arc<ServerDescription>> {
        self.balanced_service.as_ref()
    }

    /// Returns any number, for a decision by chance.
    pub(crate) fn chance(&mut self) -> u64 {
        self.choices.next_u64()
    }

    /// Returns the server of this address while it is known and can be talked to.
    pub(crate) fn known_server(&self, address: &Address) -> Option<Arc<ServerDescription>> {
        let server = self.description().servers.get(address)?;
        (server.server_type != ServerType::Unknown).then(|| Arc::clone(server))
    }

    /// Returns whether the pool of this server hands out connections; `None` when there is no such server.
    pub(crate) fn is_ready(&self, address: &Address) -> Option<bool> {
        self.servers.get(address).map(|server| server.is_ready)
    }

    fn operation_count(&self, address: &Address) -> u64 {
        let pools = self.servers.get(address).into_iter().flat_map(|server| server.pools.values());
        pools.map(|pool| pool.sizes().1 as u64).sum()
    }

    /// Returns a hello for one of its servers, ready to be sent.
    ///
    /// # Errors
    /// When the client's metadata is no BSON document.
    pub fn hello(&mut self, server: &Address, request: HelloRequest) -> Result<Command, ProtocolError> {
        let hello_ok = self.description().servers.get(server).is_some_and(|server| server.hello_ok);
        let request_id = self.next_request();
        hello_command(&self.options, request, hello_ok, request_id, |_| {})
    }

    /// Has an exchange woken at the next change of the deployment, and the servers looked at soon.
    pub(crate) fn wait_for_change(&mut self, exchange: ExchangeId, now: Instant) {
        self.selecting.push(exchange);
        self.topology.request_checks(now);
        self.settle();
    }

    /// Forgets an exchange that waited for a change.
    pub(crate) fn stop_waiting(&mut self, exchange: ExchangeId) {
        self.selecting.retain(|waiting| *waiting != exchange);
    }

    /// Closes a link that the server closed while nobody used it.
    pub fn link_lost(&mut self, shard: ShardId, link: LinkId, now: Instant) {
        if let Some(pool) = self.pool_of_link(shard, link) {
            pool.discard(link, now);
        } else {
            self.closing.push(link);
        }
    }

    /// The caller read the last reply of an exhaust cursor, or will not read on; `is_drained` tells which.
    pub fn release_pinned(&mut self, link: LinkId, is_drained: bool, now: Instant) {
        let mut pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        match pools.find(|pool| pool.is_out(link)) {
            Some(pool) if is_drained => pool.check_in(link, now),
            Some(pool) => pool.discard(link, now),
            None => self.closing.push(link),
        }
    }

    fn pool_of_link(&mut self, shard: ShardId, link: LinkId) -> Option<&mut Pool> {
        let mut pools = self.servers.values_mut().filter_map(|server| server.pools.get_mut(&shard));
        pools.find(|pool| pool.holds(link))
    }

    /// Returns the books of one server in one shard, once something was checked out there.
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

    /// Returns the books of one server in one shard, made when they are first needed; `None` when either is closed.
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

    /// Returns whether a waiting exchange has reason to look again.
    pub fn should_wake(&self, exchange: ExchangeId) -> bool {
        let mut pools = self.servers.values().flat_map(|server| server.pools.values());
        !self.selecting.contains(&exchange) && !pools.any(|pool| pool.is_waiting(exchange))
    }

    /// Returns whether one of the `poll_*` has something.
    pub fn has_news(&self) -> bool {
        let mut pools = self.servers.values().flat_map(|server| server.pools.values());
        !self.woken.is_empty()
            || !self.closing.is_empty()
            || !self.errands.is_empty()
            || !self.events.is_empty()
            || pools.any(Pool::has_news)
    }

    /// Returns the links to close since the last call.
    pub fn poll_closing(&mut self) -> Vec<LinkId> {
        let mut closing = std::mem::take(&mut self.closing);
        let pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        pools.for_each(|pool| closing.append(&mut pool.poll_closing()));
        self.forget_lines(&closing);
        closing
    }

    /// Returns the exchanges to wake since the last call.
    pub fn poll_wakers(&mut self) -> Vec<ExchangeId> {
        let mut woken = std::mem::take(&mut self.woken);
        let pools = self.servers.values_mut().flat_map(|server| server.pools.values_mut());
        pools.for_each(|pool| woken.append(&mut pool.poll_woken()));
        woken
    }

    /// Returns what the face has to do for the deployment since the last call.
    pub fn poll_errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.errands)
    }

    /// Returns what happened since the last call, in order; only of the kinds that are wanted.
    pub fn poll_events(&mut self) -> VecDeque<Event> {
        self.collect_logs();
        self.events.take()
    }

    /// Changes which events are made from now on.
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

    /// Has listeners hear of a pool, when there are any.
    pub(crate) fn publish_pool(&mut self, address: &Address, event: impl FnOnce() -> PoolEvent) {
        if self.wants(Interests::POOLS) {
            self.publish(Event::Pool { address: address.clone(), event: event() });
        }
    }

    /// Puts what pools noted behind what happened before.
    fn collect_logs(&mut self) {
        if self.wants(Interests::POOLS) {
            for (address, server) in &mut self.servers {
                server.pools.values_mut().for_each(|pool| self.events.push_log(address, pool.take_log()));
            }
        }
    }

    /// Keeps what the server said of a connection in its handshake, until the connection is closed.
    pub(crate) fn note_line(&mut self, link: LinkId, hello: RawDocument<'_>) {
        let line = Line {
            server_connection_id: hello.get_i64_lenient("connectionId").ok().flatten(),
            service_id: hello.get_object_id("serviceId").ok().flatten(),
            compressor: read_compression(hello, &self.options.compressors),
            token: 0,
        };
        self.lines.insert(link, line);
        if self.is_load_balanced()
            && let Some(address) = self.description().servers.keys().next()
        {
            let service = ServerDescription::from_hello(address.clone(), hello, Instant(Duration::ZERO));
            self.balanced_service = Some(Arc::new(service));
        }
    }

    /// Returns how messages on a connection are compressed, as its handshake settled it; `None` for not at all.
    pub fn compressor(&self, link: LinkId) -> Option<Compressor> {
        self.lines.get(&link)?.compressor
    }

    /// Notes which token a connection was authenticated with.
    pub(crate) fn note_token(&mut self, link: LinkId, token: u64) {
        if let Some(line) = self.lines.get_mut(&link) {
            line.token = token;
        }
    }

    /// Returns the number of the token that a connection was authenticated with; 0 for none.
    pub(crate) fn token(&self, link: LinkId) -> u64 {
        self.lines.get(&link).map_or(0, |line| line.token)
    }

    fn forget_lines(&mut self, links: &[LinkId]) {
        for link in links {
            self.lines.remove(link);
        }
    }

    pub(crate) fn line(&self, link: LinkId) -> Line {
        self.lines.get(&link).copied().unwrap_or_default()
    }

    /// Returns the `$clusterTime` document to gossip, when one was seen and this deployment takes it. `session`: what the
    /// command's session saw, which may be newer.
    pub(crate) fn cluster_time<'a>(
        &'a self,
        server: &ServerDescription,
        session: Option<&'a ClusterTime>,
    ) -> Option<&'a [u8]> {
        let gossips = matches!(server.server_type, ServerType::Mongos | ServerType::LoadBalancer)
            || server.set_name.is_some();
        let newest = match (&self.cluster_time, session) {
            (Some(known), Some(seen)) if seen.0 > known.0 => Some(seen),
            (known, seen) => known.as_ref().or(seen),
        };
        newest.filter(|_| gossips).map(|(_, document)| document.as_slice())
    }

    /// Keeps the newer of the known cluster time and the one in `document`.
    pub(crate) fn advance_cluster_time(&mut self, document: &[u8]) {
        keep_newer(&mut self.cluster_time, document);
    }

    pub(crate) fn next_exchange(&mut self) -> ExchangeId {
        self.next_exchange += 1;
        ExchangeId(self.next_exchange)
    }

    pub(crate) fn next_request(&mut self) -> i32 {
        self.next_request = self.next_request.wrapping_add(1) & i32::MAX;
        self.next_request
    }

    /// Returns the name for a connection that is about to be opened.
    pub fn next_link(&mut self) -> LinkId {
        self.next_link = self.next_link.wrapping_add(1);
        LinkId(self.next_link)
    }

    /// Returns a session to use now.
    pub(crate) fn take_session(&mut self, now: Instant) -> ServerSession {
        let timeout = self.session_timeout();
        self.sessions.take(timeout, now)
    }

    /// Takes back a session that a cursor held.
    pub fn give_back_session(&mut self, session: ServerSession, now: Instant) {
        if let (true, Some(server)) = (self.sessions.is_own(&session), &session.left_cursor_at) {
            self.errands.push(Errand::KillSession(server.clone(), session.id));
        }
        let timeout = self.session_timeout();
        self.sessions.give_back(session, timeout, now);
    }

    /// Takes the ids of all idle sessions, to end them.
    pub fn drain_sessions(&mut self) -> Vec<[u8; 16]> {
        self.sessions.drain()
    }

    /// Returns how long the deployment keeps idle sessions; `None` when it has none or is not known yet.
    pub fn session_timeout(&self) -> Option<Duration> {
        if self.is_load_balanced() {
            // Nobody tells; a session that a service has forgotten is begun anew there.
            return Some(ENDLESS);
        }
        let minutes = self.description().logical_session_timeout_minutes?;
        Some(Duration::from_secs(60 * u64::try_from(minutes).ok()?))
    }
}

fn read_compression(hello: RawDocument<'_>, wanted: &[Compressor]) -> Option<Compressor> {
    if wanted.is_empty() {
        return None;
    }
    let names: Vec<&str> = hello
        .get_array("compression")
        .ok()
        .flatten()?
        .iter()
        .filter_map(|name| match name {
            Ok(mangonel_bson::RawValue::String(name)) => Some(name),
            _ => None,
        })
        .collect();
    negotiate(wanted, names)
}
