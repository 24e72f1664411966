//! The read of a single document: its find command, and the instance that its reply becomes.

use mangonel_entries::entries;
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use pyo3::{PyTraverseError, PyVisit};

use super::plan::OdmModel;
use super::raw;
use super::reading::only_of;
use super::saving::string;
use crate::codec::Codec;
use crate::driver::exchange::Exchange;
use crate::driver::operation::{Maker, Operation, Plan as OperationPlan, ReplyForm};

/// `current_map` of `mangonel.odm.connections.identity`.
static CURRENT_MAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes the instance of a find's only document. `answer` of `mangonel.odm.query.single` decides about every other reply.
struct Single {
    model: Py<OdmModel>,
    query: Py<PyAny>,
    origin: Py<PyAny>,
    terminal: Py<PyAny>,
    is_async: bool,
}

impl Maker for Single {
    fn make(self: Box<Self>, exchange: &mut Exchange, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(made) = self.made(exchange, py)? {
            return Ok(made.unbind());
        }
        let batch = exchange.batch(py)?;
        let class = self.model.get().model.0.class.bind(py);
        let arguments = (class, &self.query, self.is_async, &self.terminal, batch);
        Ok(py.import("mangonel.odm.query.single")?.getattr("answer")?.call1(arguments)?.unbind())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.query)?;
        visit.call(&self.origin)
    }
}

impl Single {
    /// Makes the instance if the reply has exactly one document, this fits the model, and no identity map is in use.
    fn made<'py>(&self, exchange: &Exchange, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let map = CURRENT_MAP.get_or_try_init(py, || {
            let module = py.import("mangonel.odm.connections.identity")?;
            module.getattr("current_map").map(Bound::unbind)
        })?;
        if !map.bind(py).call0()?.is_none() {
            return Ok(None);
        }
        let Some(place) = exchange.only_document() else { return Ok(None) };
        match only_of(self.model.bind(py), exchange.reply(), place, self.origin.bind(py)) {
            Ok(made) => Ok(Some(made)),
            // Decoded again by a way that names its place.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Build the operation that finds a single document by `query`, as an instance of a model. `target`: the names of database
/// and collection, and its codec. `limit`: how many documents are asked for. `terminal` and `is_async` are for Python,
/// which reads the reply if it is not that one document.
#[entries]
#[pyfunction]
#[pyo3(signature = (target, query, limit, model, origin, terminal, is_async))]
#[allow(clippy::too_many_arguments)] // One call for each read; a parameter object would be one more allocation.
pub(super) fn odm_find(
    py: Python<'_>,
    target: (Bound<'_, PyString>, Bound<'_, PyString>, Py<Codec>),
    query: Bound<'_, PyAny>,
    limit: i32,
    model: Py<OdmModel>,
    origin: Py<PyAny>,
    terminal: Py<PyAny>,
    is_async: bool,
) -> PyResult<Operation> {
    let (database, collection, codec) = target;
    let mut head = Command::begin();
    let start = raw::open(&mut head);
    string(&mut head, b"find", collection.to_str()?);
    head.extend_from_slice(b"\x03filter\0");
    crate::codec::encode_document(py, &query, codec.get(), false, &mut head)?;
    raw::append(&mut head, 0x10, b"limit", &limit.to_le_bytes());
    raw::close(&mut head, start);
    let steps = OperationPlan { kind: Kind::Read, reading: ReplyForm::Made, replies: Replies::One };
    let database = database.to_str()?;
    let mut made =
        Operation::assemble(py, database, head, Vec::new(), codec, &steps, SessionChoice::Implicit)?;
    made.maker = Some(Box::new(Single { model, query: query.unbind(), origin, terminal, is_async }));
    Ok(made)
}
