//! The core's machines as Python classes. Decides nothing about the protocol and waits for nothing.

mod answer;
mod auth;
mod awaited;
pub(crate) mod batch;
mod binding;
mod chunks;
mod clock;
mod core;
mod deadline;
mod descriptions;
mod direct_receive;
mod events;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod interpreter;
mod link;
pub(crate) mod lost;
mod made;
mod metrics;
mod models;
mod monitor;
mod namespaces;
mod open_cursor;
pub(crate) mod operation;
mod options;
mod pending;
pub(crate) mod ready;
mod runs;
mod session;
mod socket;
pub(crate) mod source;
mod spare;
mod tls;
mod tracing;
mod transfer;
mod waiter;

pub(crate) use failure::invalid_bson;
use mangonel_proto::codes;
use mangonel_proto::secret_commands::SECRET_COMMANDS;
use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;

/// Adds the driver's classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interpreter::register(module.py())?;
    module.add_class::<core::Core>()?;
    module.add_class::<descriptions::ServerLimits>()?;
    module.add_class::<auth::KeyQuestion>()?;
    module.add_class::<auth::SessionKeys>()?;
    module.add_class::<auth::WordQuestion>()?;
    module.add_class::<auth::NextWord>()?;
    module.add_class::<link::Link>()?;
    module.add_class::<monitor::Monitor>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<operation::WriteCommand>()?;
    module.add_class::<source::DocumentSource>()?;
    module.add_class::<namespaces::NamespacedSource>()?;
    module.add_class::<session::ImplicitSession>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<open_cursor::OpenCursor>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::BatchCursor>()?;
    module.add_class::<batch::BlockingCursor>()?;
    module.add_class::<batch::AsyncCursorBase>()?;
    module.add_class::<binding::Binding>()?;
    module.add_class::<binding::Transaction>()?;
    module.add_class::<waiter::Waiter>()?;
    awaited::register(module)?;
    batch::register(module)?;
    exchange::register(module)?;
    operation::register(module)?;
    add_tables(module)?;
    chunks::register(module)?;
    deadline::register(module)?;
    lost::register(module)?;
    made::register(module)?;
    models::register(module)?;
    ready::register(module)?;
    runs::register(module)?;
    source::register(module)?;
    events::register(module)?;
    transfer::register(module)
}

/// Adds the core's tables of codes and commands that Python uses too.
fn add_tables(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("NOT_PRIMARY_CODES", PyFrozenSet::new(py, codes::state_changes())?)?;
    module.add("RETRYABLE_CODES", PyFrozenSet::new(py, codes::retryable())?)?;
    module.add("SECRET_COMMANDS", PyFrozenSet::new(py, SECRET_COMMANDS)?)
}
