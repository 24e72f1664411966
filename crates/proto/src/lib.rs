//! The driver's decisions without I/O: bytes and clock readings go in, "do this next" comes out.
//! Knows no socket, no clock, no thread and no Python.
#![forbid(unsafe_code)]

pub mod compress;
pub mod time;
