//! The driver's decisions without I/O: bytes and clock readings go in, "do this next" comes out.
//! Knows no socket, no clock, no thread and no Python.
#![forbid(unsafe_code)]

pub mod auth;
pub mod chunk_filter;
pub mod client;
pub mod client_session;
pub mod codes;
pub mod compress;
pub mod envelope;
pub mod error;
pub mod events;
pub mod exchange;
pub mod frame;
pub mod hello;
pub mod ids;
mod memory;
pub mod message;
pub mod metrics;
pub mod operation;
pub mod options;
pub mod pool;
pub mod read_preference;
pub mod reply;
pub mod retry;
pub mod secret_commands;
pub mod session;
pub mod srv;
pub mod time;
pub mod topology;
pub mod transaction;
