//! What all exchanges of one client share: the deployment, its pools, sessions and cluster time.
//! The owner keeps it behind a lock that is held for about a microsecond, never across I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use mangonel_bson::{RawDocument, RawValue};

use crate::hello::Hello;
use crate::pool::{ExchangeId, LinkId, Pool, PoolOptions};
use crate::session::{IdSource, ServerSession, SessionPool};
use crate::time::Instant;

/// The options that the core decides by.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The server's address as messages show it.
    pub address: String,
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
    /// The replica set that the server must belong to.
    pub replica_set: Option<String>,
    /// The `client` document of the handshake, as BSON.
    pub metadata: Vec<u8>,
    /// `apiVersion` and its companions as one BSON document; empty without them.
    pub server_api: Vec<u8>,
}

/// A face, or one event loop of it. Connections never cross from one to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u32);

/// The state that all exchanges of one client share.
pub struct Client {
    pub(crate) options: ClientOptions,
    pub(crate) hello: Option<Hello>,
    /// Why the server could not be reached the last time.
    pub(crate) last_error: Option<String>,
    pools: BTreeMap<ShardId, Pool>,
    pub(crate) sessions: SessionPool,
    cluster_time: Option<(u64, Vec<u8>)>,
    next_exchange: u64,
    next_request: i32,
    next_link: u32,
    next_shard: u32,
    is_closed: bool,
}

impl Client {
    /// Makes a client that has contacted nobody yet. `seed`: good randomness for session ids.
    pub fn new(options: ClientOptions, seed: [u8; 16]) -> Self {
        let mut ids = IdSource::new(seed);
        // Request ids start anywhere, so that two clients behind one proxy are told apart in its log.
        let next_request = (ids.next_u64() >> 34) as i32;
        Client {
            options,
            hello: None,
            last_error: None,
            pools: BTreeMap::new(),
            sessions: SessionPool::new(ids),
            cluster_time: None,
            next_exchange: 0,
            next_request,
            next_link: 0,
            next_shard: 0,
            is_closed: false,
        }
    }

    /// Returns the options it was made with.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Replaces the `client` document of handshakes to come; one that is being written keeps the old one.
    pub fn set_metadata(&mut self, metadata: Vec<u8>) {
        self.options.metadata = metadata;
    }

    /// Returns what the server said of itself at the last handshake.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// Returns whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Opens a pool of its own for a face or an event loop.
    pub fn open_shard(&mut self) -> ShardId {
        let shard = ShardId(self.next_shard);
        self.next_shard += 1;
        self.pools.insert(shard, Pool::new(self.options.pool.clone()));
        shard
    }

    /// Closes a shard and returns its links; they and its waiters are dead.
    pub fn close_shard(&mut self, shard: ShardId) -> Vec<LinkId> {
        let Some(mut pool) = self.pools.remove(&shard) else { return Vec::new() };
        pool.close();
        pool.poll_closing()
    }

    /// Ends the client: every later exchange fails, every waiter is woken, every link closes.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.pools.values_mut().for_each(Pool::close);
    }

    /// Makes a closed client usable again, as the field's clients once were; its pools start empty.
    pub fn restart_in_child(&mut self, seed: [u8; 16]) {
        let shards: Vec<_> = self.pools.keys().copied().collect();
        for shard in shards {
            self.pools.insert(shard, Pool::new(self.options.pool.clone()));
        }
        self.sessions.restart(IdSource::new(seed));
        self.cluster_time = None;
    }

    /// Forgets what was known of the server after it failed: every pool starts a new generation.
    pub fn mark_unreachable(&mut self, error: String) {
        self.last_error = Some(error);
        self.pools.values_mut().for_each(Pool::clear);
    }

    /// Returns a link that closed while it was idle to nobody.
    pub fn link_lost(&mut self, shard: ShardId, link: LinkId, now: Instant) {
        if let Some(pool) = self.pools.get_mut(&shard) {
            pool.discard(link, now);
        }
    }

    /// Returns the books of one shard.
    pub fn pool(&self, shard: ShardId) -> Option<&Pool> {
        self.pools.get(&shard)
    }

    /// Returns whether a waiting exchange has reason to look again.
    pub fn should_wake(&self, shard: ShardId, exchange: ExchangeId) -> bool {
        self.is_closed || self.pools.get(&shard).is_none_or(|pool| pool.has_grant(exchange))
    }

    pub(crate) fn pool_mut(&mut self, shard: ShardId) -> Option<&mut Pool> {
        self.pools.get_mut(&shard)
    }

    /// Returns the books that count a connection as in use.
    pub(crate) fn pool_of(&mut self, link: LinkId) -> Option<&mut Pool> {
        self.pools.values_mut().find(|pool| pool.is_out(link))
    }

    /// Returns whether [`poll_closing`](Self::poll_closing) or [`poll_wakers`](Self::poll_wakers) has something.
    pub fn has_news(&self) -> bool {
        self.pools.values().any(Pool::has_news)
    }

    /// Returns the links to close since the last call.
    pub fn poll_closing(&mut self) -> Vec<LinkId> {
        self.pools.values_mut().flat_map(Pool::poll_closing).collect()
    }

    /// Returns the exchanges to wake since the last call.
    pub fn poll_wakers(&mut self) -> Vec<ExchangeId> {
        self.pools.values_mut().flat_map(Pool::poll_woken).collect()
    }

    /// Returns the `$clusterTime` document to gossip, when one was seen and this deployment takes it.
    pub(crate) fn cluster_time(&self) -> Option<&[u8]> {
        let gossips = self.hello.as_ref().is_some_and(|hello| hello.is_mongos || hello.set_name.is_some());
        self.cluster_time.as_ref().filter(|_| gossips).map(|(_, document)| document.as_slice())
    }

    /// Keeps the newer of the known cluster time and the one in `document`.
    pub(crate) fn advance_cluster_time(&mut self, document: &[u8]) {
        let Ok(parsed) = RawDocument::from_bytes(document) else { return };
        let Ok(Some(RawValue::Timestamp { time, increment })) = parsed.get("clusterTime") else { return };
        let seen = u64::from(time) << 32 | u64::from(increment);
        match &mut self.cluster_time {
            Some((known, _)) if *known >= seen => {}
            Some((known, bytes)) => {
                *known = seen;
                bytes.clear();
                bytes.extend_from_slice(document);
            }
            None => self.cluster_time = Some((seen, document.to_vec())),
        }
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

    /// Takes back a session that a cursor held.
    pub fn give_back_session(&mut self, session: ServerSession, now: Instant) {
        let timeout = self.session_timeout();
        self.sessions.give_back(session, timeout, now);
    }

    /// Takes the ids of all idle sessions, to end them.
    pub fn drain_sessions(&mut self) -> Vec<[u8; 16]> {
        self.sessions.drain()
    }

    /// Returns how long the deployment keeps idle sessions; `None` when it has none or is not known yet.
    pub fn session_timeout(&self) -> Option<Duration> {
        self.hello.as_ref().and_then(|hello| hello.session_timeout)
    }
}
