//! The options of a client that the core decides by.

use std::time::Duration;

use crate::auth::login::Login;
use crate::compress::Compressor;
use crate::topology::TopologySettings;

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
    /// How long a reply may take; the time counts from each byte that arrives; `None` for no limit.
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
    /// Who its connections authenticate as; `None` for no user.
    pub login: Option<Login>,
    /// How messages may be compressed, the most wanted first; empty for not at all.
    pub compressors: Vec<Compressor>,
}

/// The limits of a pool, from the client's options.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The most connections at once; 0 for no limit.
    pub max_pool_size: usize,
    /// How many idle connections are kept open.
    pub min_pool_size: usize,
    /// The most connections being opened at once.
    pub max_connecting: usize,
    /// How long a connection may stand idle before it is closed instead of used.
    pub max_idle_time: Option<Duration>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions { max_pool_size: 100, min_pool_size: 0, max_connecting: 2, max_idle_time: None }
    }
}
