//! The read of a single document, alone or with the documents to which it refers: its command, and the instance made
//! from its reply.

use mangonel_entries::entries;
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use pyo3::{PyTraverseError, PyVisit};

use super::plan::OdmModel;
use super::raw;
use super::reading::{Target, joined_of, only_of};
use super::saving::string;
use crate::codec::Codec;
use crate::driver::exchange::Exchange;
use crate::driver::operation::{Maker, Operation, Plan as OperationPlan, ReplyForm};
use crate::thread_end::Entry;

/// `current_map` of `mangonel.odm.connections.identity`.
static CURRENT_MAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The parts of a single document's lookup that depend only on the model and its references, made once.
#[pyclass(frozen, module = "mangonel._core")]
pub(super) struct OdmJoin {
    _entry: Entry,
    model: Py<OdmModel>,
    targets: Vec<Target>,
    /// The stages of the pipeline from the third on, as elements of its array.
    stages: Vec<u8>,
    /// The references under their names in programs.
    paths: Py<PyAny>,
}

#[entries]
#[pymethods]
impl OdmJoin {
    #[new]
    fn new(model: Py<OdmModel>, targets: Vec<Target>, stages: &Bound<'_, PyBytes>, paths: Py<PyAny>) -> Self {
        OdmJoin { _entry: Entry, model, targets, stages: stages.as_bytes().to_vec(), paths }
    }
}

/// Makes the instance of a reply's only document. For every other reply, `answer` of `mangonel.odm.query.single`, or
/// the one of `lookup` beside it, decides.
struct Single {
    model: Py<OdmModel>,
    join: Option<Py<OdmJoin>>,
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
        let (query, is_async, terminal) = (&self.query, self.is_async, &self.terminal);
        let answered = match &self.join {
            None => {
                let answer = py.import("mangonel.odm.query.single")?.getattr("answer")?;
                answer.call1((class, query, is_async, terminal, batch))?
            }
            Some(join) => {
                let answer = py.import("mangonel.odm.query.lookup")?.getattr("answer")?;
                answer.call1((class, query, is_async, terminal, batch, &join.get().paths))?
            }
        };
        Ok(answered.unbind())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.query)?;
        visit.call(&self.origin)
    }
}

impl Single {
    /// Makes the instance if the reply has exactly one document, which fits the model, and no identity map is in use.
    /// For a lookup, the map was checked before it was sent.
    fn made<'py>(&self, exchange: &Exchange, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let map = CURRENT_MAP.get_or_try_init(py, || {
            let module = py.import("mangonel.odm.connections.identity")?;
            module.getattr("current_map").map(Bound::unbind)
        })?;
        if self.join.is_none() && !map.bind(py).call0()?.is_none() {
            return Ok(None);
        }
        let Some(place) = exchange.only_document() else { return Ok(None) };
        let (model, origin) = (self.model.bind(py), self.origin.bind(py));
        let made = match &self.join {
            None => only_of(model, exchange.reply(), place, origin),
            Some(join) => joined_of(model, exchange.reply(), place, origin, &join.get().targets),
        };
        match made {
            Ok(made) => Ok(Some(made)),
            // Decoded again elsewhere, with an error that names its place.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the operation for a command whose document began at `start`.
    fn operation(
        self,
        py: Python<'_>,
        database: &Bound<'_, PyString>,
        codec: Py<Codec>,
        mut head: Vec<u8>,
        start: usize,
    ) -> PyResult<Operation> {
        raw::close(&mut head, start);
        let steps = OperationPlan { kind: Kind::Read, reading: ReplyForm::Made, replies: Replies::One };
        let database = database.to_str()?;
        let mut made =
            Operation::assemble(py, database, head, Vec::new(), codec, &steps, SessionChoice::Implicit)?;
        made.maker = Some(Box::new(self));
        Ok(made)
    }
}

/// The names of database and collection, the collection's codec, and its port.
pub(super) type Place<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, Py<Codec>, Bound<'py, PyAny>);

/// A request for a single document as an instance of this model; `limit`: how many documents this terminal requests.
/// `terminal` and `is_async` are for Python, which reads the reply if it is not that one document.
pub(super) struct Asked {
    pub(super) model: Py<OdmModel>,
    pub(super) origin: Py<PyAny>,
    pub(super) limit: i32,
    pub(super) terminal: Py<PyAny>,
    pub(super) is_async: bool,
}

/// Builds the operation that finds a single document by `query`.
///
/// # Errors
/// The query cannot be encoded.
pub(super) fn find_operation(
    py: Python<'_>,
    place: Place<'_>,
    query: Bound<'_, PyAny>,
    asked: Asked,
) -> PyResult<Operation> {
    let Asked { model, origin, limit, terminal, is_async } = asked;
    let (database, collection, codec, _) = place;
    let mut head = Command::begin();
    let start = raw::open(&mut head);
    string(&mut head, b"find", collection.to_str()?);
    head.extend_from_slice(b"\x03filter\0");
    crate::codec::encode_document(py, &query, codec.get(), false, &mut head)?;
    raw::append(&mut head, 0x10, b"limit", &limit.to_le_bytes());
    let single = Single { model, join: None, query: query.unbind(), origin, terminal, is_async };
    single.operation(py, &database, codec, head, start)
}

/// Build the operation that finds a single document and the documents to which it refers, with an aggregation. None if
/// documents of several classes may arrive, whose references have their own makers. `target`: the names of database and
/// collection, its codec and its port. `limit`: how many documents are requested; the others are as in `Asked`.
#[entries]
#[pyfunction]
#[pyo3(signature = (target, query, limit, join, origin, terminal, is_async))]
#[allow(clippy::too_many_arguments)] // One call for each read; a parameter object would cost an allocation.
pub(super) fn odm_lookup(
    py: Python<'_>,
    target: Place<'_>,
    query: Bound<'_, PyAny>,
    limit: i32,
    join: Py<OdmJoin>,
    origin: Py<PyAny>,
    terminal: Py<PyAny>,
    is_async: bool,
) -> PyResult<Option<Operation>> {
    let model = join.get().model.clone_ref(py);
    if model.get().model.0.plan(py)?.tags.is_some() {
        return Ok(None);
    }
    let (database, collection, codec, _) = target;
    let mut head = Command::begin();
    let start = raw::open(&mut head);
    string(&mut head, b"aggregate", collection.to_str()?);
    head.extend_from_slice(b"\x04pipeline\0");
    let pipeline = raw::open(&mut head);
    head.extend_from_slice(b"\x030\0");
    let stage = raw::open(&mut head);
    head.extend_from_slice(b"\x03$match\0");
    crate::codec::encode_document(py, &query, codec.get(), false, &mut head)?;
    raw::close(&mut head, stage);
    head.extend_from_slice(b"\x031\0");
    let stage = raw::open(&mut head);
    raw::append(&mut head, 0x10, b"$limit", &limit.to_le_bytes());
    raw::close(&mut head, stage);
    head.extend_from_slice(&join.get().stages);
    raw::close(&mut head, pipeline);
    raw::append(&mut head, 0x03, b"cursor", b"\x05\0\0\0\0");
    let single = Single { model, join: Some(join), query: query.unbind(), origin, terminal, is_async };
    single.operation(py, &database, codec, head, start).map(Some)
}
