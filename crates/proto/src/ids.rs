//! The numbers by which connections, exchanges, shards and sessions are named.

/// Names one connection for as long as its client lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// Names one exchange for as long as its client lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExchangeId(pub u64);

/// A face, or one event loop of it. Connections never cross from one to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u32);

/// Names an explicit session in its client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);
