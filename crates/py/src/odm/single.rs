//! The read of a single document: its find command, and the instance that its reply becomes.

use mangonel_entries::entries;
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{PyTraverseError, PyVisit};

use super::plan::OdmModel;
use super::raw;
use super::reading::only_of;
use super::saving::string;
use crate::codec::Codec;
use crate::driver::batch::Batch;
use crate::driver::operation::{Operation, Plan as OperationPlan, ReplyForm};
use crate::thread_end::Entry;

/// `current_map` of `mangonel.odm.connections.identity`.
static CURRENT_MAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes the instance of a find's only document. `answer` of `mangonel.odm.query.single` decides about every other reply.
#[pyclass(frozen, module = "mangonel._core")]
struct OdmSingle {
    _entry: Entry,
    model: Py<OdmModel>,
    query: Py<PyAny>,
    origin: Py<PyAny>,
    terminal: Py<PyAny>,
    is_async: bool,
}

#[entries]
#[pymethods]
impl OdmSingle {
    fn __call__<'py>(&self, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = batch.py();
        if let Some(made) = self.made(batch)? {
            return Ok(made);
        }
        let class = self.model.get().model.0.class.bind(py);
        let arguments = (class, &self.query, self.is_async, &self.terminal, batch);
        py.import("mangonel.odm.query.single")?.getattr("answer")?.call1(arguments)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.query)?;
        visit.call(&self.origin)
    }
}

impl OdmSingle {
    /// Makes the instance, if the batch is one document that fits the model, and no identity map is in use.
    fn made<'py>(&self, batch: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = batch.py();
        let map = CURRENT_MAP.get_or_try_init(py, || {
            let module = py.import("mangonel.odm.connections.identity")?;
            module.getattr("current_map").map(Bound::unbind)
        })?;
        if !map.bind(py).call0()?.is_none() {
            return Ok(None);
        }
        // Without a cursor in the reply it is None.
        let Ok(batch) = batch.cast::<Batch>() else { return Ok(None) };
        let batch = batch.try_borrow()?;
        if batch.has_more() {
            return Ok(None);
        }
        let Some(place) = batch.only(py)? else { return Ok(None) };
        match only_of(self.model.bind(py), batch.message(), place, self.origin.bind(py)) {
            Ok(made) => Ok(Some(made)),
            // Decoded again by a way that names its place.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Build the operation that finds a single document by `query`, as an instance of a model. `limit`: how many documents are
/// asked for. `terminal` and `is_async` are for the program half, where the reply is not that one document.
#[entries]
#[pyfunction]
#[pyo3(signature = (database, collection, codec, query, limit, model, origin, terminal, is_async))]
#[allow(clippy::too_many_arguments)] // One call for each read; a parameter object would be one more allocation.
pub(super) fn odm_find(
    py: Python<'_>,
    database: &str,
    collection: &str,
    codec: Py<Codec>,
    query: Bound<'_, PyAny>,
    limit: i32,
    model: Py<OdmModel>,
    origin: Py<PyAny>,
    terminal: Py<PyAny>,
    is_async: bool,
) -> PyResult<Operation> {
    let mut head = Command::begin();
    let start = raw::open(&mut head);
    string(&mut head, b"find", collection);
    head.extend_from_slice(b"\x03filter\0");
    crate::codec::encode_document(py, &query, codec.get(), false, &mut head)?;
    raw::append(&mut head, 0x10, b"limit", &limit.to_le_bytes());
    raw::close(&mut head, start);
    let steps = OperationPlan { kind: Kind::Read, reading: ReplyForm::Batch, replies: Replies::One };
    let mut made =
        Operation::assemble(py, database, head, Vec::new(), codec, &steps, SessionChoice::Implicit)?;
    let answer = OdmSingle { _entry: Entry, model, query: query.unbind(), origin, terminal, is_async };
    made.answer = Some(Py::new(py, answer)?.into_any());
    Ok(made)
}
