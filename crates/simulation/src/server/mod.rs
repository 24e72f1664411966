//! The simulated servers: a replica set whose members behave towards a driver as MongoDB's manuals and specifications
//! say. Knows no network: bytes come in with the number of their connection, answers go out with it.

pub mod answer;
mod command;
pub mod cursor;
pub mod log;
pub mod login;
pub mod member;
mod router;
pub mod set;
pub mod stranger;
mod transaction;

pub use set::{Out, ServerEvent, Set};
