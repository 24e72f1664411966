//! A simulated world for the driver's core: servers, network, clocks and clients, all of it from one seed. The seed
//! determines a run; a minute of failovers takes milliseconds. Not published. See docs/explanation/simulation.md.
#![forbid(unsafe_code)]

pub mod chance;
mod client;
pub mod damage;
mod desk;
mod faults;
mod judge;
pub mod network;
mod packing;
pub mod picture;
pub mod plan;
pub mod queue;
pub mod server;
pub mod shrink;
pub mod trace;
pub mod wire;
mod workload;
pub mod world;

pub use plan::Plan;
pub use world::{Report, play};
