//! A thread's write with an unknown outcome: recorded where its exchange fails, taken by the code that catches the
//! error.

use std::cell::Cell;

use mangonel_entries::entries;
use mangonel_proto::exchange::Exchange as CoreExchange;
use mangonel_proto::session::LostWrite;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::core::Core;
use super::session::ImplicitSession;

thread_local! {
    /// The write of this thread's last failed exchange. The error reaches the operation's caller without a wait, so no
    /// other exchange of the thread runs in between.
    static LAST: Cell<Option<LostWrite>> = const { Cell::new(None) };
}

/// The id of a session and a transaction number: the form in which Python keeps a lost write.
pub type Numbered<'py> = (Bound<'py, PyBytes>, i64);

/// Records the write of an exchange that has failed.
pub fn note(failed: &CoreExchange) {
    LAST.set(failed.lost_write());
}

/// Returns a lost write as Python keeps it.
pub fn numbered(py: Python<'_>, lost: LostWrite) -> Numbered<'_> {
    (PyBytes::new(py, &lost.session), lost.txn_number)
}

/// Reads a lost write that Python kept.
pub fn lost_write((session, txn_number): ([u8; 16], i64)) -> LostWrite {
    LostWrite { session, txn_number }
}

/// Return the session id and number of the write of the operation that just failed in this thread, if the server may
/// still carry it out; once.
#[entries]
#[pyfunction]
fn take_lost_write(py: Python<'_>) -> Option<Numbered<'_>> {
    LAST.take().map(|lost| numbered(py, lost))
}

/// Return the session of a lost write for one more retryable write, which takes the next number: a server that has
/// begun that write refuses the lost one.
#[entries]
#[pyfunction]
fn session_after(core: &Bound<'_, Core>, lost: ([u8; 16], i64)) -> ImplicitSession {
    let session = lost_write(lost).session_for_another(core.get().now());
    ImplicitSession::new(core.clone().unbind(), session)
}

/// Adds the functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(take_lost_write, module)?)?;
    module.add_function(wrap_pyfunction!(session_after, module)?)
}
