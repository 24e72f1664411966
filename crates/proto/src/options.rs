//! The options of a client that affect the core's decisions.

use std::time::Duration;

use crate::auth::login::Login;
use crate::compress::Compressor;
use crate::topology::TopologySettings;

/// The options that affect the core's decisions.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The deployment as the user described it.
    pub topology: TopologySettings,
    /// How much slower than the fastest suitable server another one may be.
    pub local_threshold: Duration,
    /// Whether the user's `server_selector` chooses among the suitable servers.
    pub has_selector: bool,
    /// The limits of each pool.
    pub pool: PoolOptions,
    /// How long to wait for a connection to become free; `None` for no limit.
    pub wait_queue_timeout: Option<Duration>,
    /// How long opening a connection may take, handshake included; `None` for no limit.
    pub connect_timeout: Option<Duration>,
    /// How long a reply may take; the time restarts with each byte that arrives; `None` for no limit.
    pub socket_timeout: Option<Duration>,
    /// How long to look for a suitable server.
    pub server_selection_timeout: Duration,
    /// Whether reads are sent again once.
    pub retry_reads: bool,
    /// Whether writes are sent again once.
    pub retry_writes: bool,
    /// The most times that a command is sent again to an overloaded server.
    pub max_adaptive_retries: u32,
    /// Whether the next attempt avoids an overloaded server.
    pub enable_overload_retargeting: bool,
    /// How long an operation may take, all attempts included; `None` for no limit. `wait_queue_timeout` and
    /// `socket_timeout` do not apply to an operation with a limit.
    pub timeout: Option<Duration>,
    /// The `client` document of the handshake, as BSON.
    pub metadata: Vec<u8>,
    /// `apiVersion` and related fields as one BSON document; empty without them.
    pub server_api: Vec<u8>,
    /// The user whom its connections authenticate as; `None` for no user.
    pub login: Option<Login>,
    /// The compressors in order of preference; empty for no compression.
    pub compressors: Vec<Compressor>,
}

/// The limits of a pool, from the client's options.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The most connections at once; 0 for no limit.
    pub max_pool_size: usize,
    /// The number of idle connections to keep open.
    pub min_pool_size: usize,
    /// The most connections being opened at once.
    pub max_connecting: usize,
    /// How long a connection may be idle before it is closed instead of used.
    pub max_idle_time: Option<Duration>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions { max_pool_size: 100, min_pool_size: 0, max_connecting: 2, max_idle_time: None }
    }
}
