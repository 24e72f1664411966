//! Many documents for one kind of write, encoded into as few commands as the server's limits allow.
//! Spec: bulk-write, crud ("batch splitting").

use mangonel_entries::entries;
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::Kind;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};

use super::failure;
use super::operation::{Operation, Plan, ReplyForm, WriteCommand, session_choice};
use super::runs::Kinds;
use crate::codec::{self, Codec};
use crate::thread_end::Entry;

/// The `_type_marker` of raw documents in every `bson` package.
const RAW_MARKER: i64 = 101;

/// Adds the functions of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(insert_one, module)?)
}

/// Encode the insert of one document, which gains an `_id` when it has none.
///
/// `answer`: called with the `_id` and whether the write is acknowledged; its result is the operation's.
#[entries]
#[pyfunction]
#[pyo3(signature = (database, command, document, codec, replies, max_document_size, answer, session=None))]
#[allow(clippy::too_many_arguments)] // As for Operation.
fn insert_one(
    py: Python<'_>,
    database: &str,
    command: &Bound<'_, PyAny>,
    document: &Bound<'_, PyAny>,
    codec: Py<Codec>,
    replies: usize,
    max_document_size: usize,
    answer: &Bound<'_, PyAny>,
    session: Option<&Bound<'_, PyAny>>,
) -> PyResult<Operation> {
    let mut plan = Plan::new(0, 0, replies)?;
    (plan.kind, plan.reading) = (Kind::RetryableWrite, ReplyForm::Answer);
    let mut head = Command::begin();
    codec::encode_document(py, command, codec.get(), false, &mut head)?;
    let mut sequence = Command::begin_sequence("documents", 512);
    let empty = sequence.len();
    let id = codec::encode_for_insert(py, document, codec.get(), &mut sequence)?;
    if sequence.len() - empty > max_document_size {
        return Err(too_large(py, sequence.len() - empty, max_document_size));
    }
    let answer = answer.call1((id, plan.replies != Replies::None))?;
    let session = session_choice(session)?;
    let mut made = Operation::assemble(py, database, head, sequence, codec, &plan, session)?;
    made.answer = Some(answer.unbind());
    Ok(made)
}

/// Reads documents, or models of updates and deletions (`runs`), from an iterable while the commands that carry them
/// are made.
#[pyclass(module = "mangonel._core")]
pub struct DocumentSource {
    _entry: Entry,
    documents: Py<PyIterator>,
    codec: Py<Codec>,
    identifier: String,
    adds_ids: bool,
    max_document_size: usize,
    /// The document that did not fit into the last command.
    carried: Vec<u8>,
    carried_id: Option<Py<PyAny>>,
    /// The ids of all documents encoded so far, except raw documents.
    #[pyo3(get)]
    ids: Py<PyList>,
    is_exhausted: bool,
}

#[entries]
#[pymethods]
impl DocumentSource {
    /// `identifier`: the command's field for the documents. `adds_ids`: give each document an `_id`, as inserts do.
    #[new]
    fn new(
        documents: &Bound<'_, PyAny>,
        codec: Py<Codec>,
        identifier: String,
        adds_ids: bool,
        max_document_size: usize,
    ) -> PyResult<Self> {
        let py = documents.py();
        Ok(DocumentSource {
            _entry: Entry,
            documents: documents.try_iter()?.unbind(),
            codec,
            identifier,
            adds_ids,
            max_document_size,
            carried: Vec::new(),
            carried_id: None,
            ids: PyList::empty(py).unbind(),
            is_exhausted: false,
        })
    }

    /// Encode the next command; return it with the number of its documents, or None after the last one.
    fn next_operation(
        &mut self,
        py: Python<'_>,
        command: &Bound<'_, WriteCommand>,
        max_count: usize,
        max_size: usize,
    ) -> PyResult<Option<(Operation, usize)>> {
        let command = command.get();
        let max_size = command.room(max_size);
        let mut sequence = Command::begin_sequence(&self.identifier, 4096);
        let empty = sequence.len();
        let (mut count, mut kinds) = (0, Kinds::new());
        if !self.carried.is_empty() {
            sequence.append(&mut self.carried);
            if let Some(id) = self.carried_id.take() {
                self.ids.bind(py).append(id)?;
            }
            count = 1;
        }
        while count < max_count && !self.is_exhausted {
            let Some(document) = self.documents.bind(py).clone().next() else {
                self.is_exhausted = true;
                break;
            };
            let start = sequence.len();
            let id = self.encode(&document?, &mut kinds, &mut sequence)?;
            let size = sequence.len() - start;
            if size > self.max_document_size {
                return Err(too_large(py, size, self.max_document_size));
            }
            if sequence.len() - empty > max_size && count > 0 {
                self.carried = sequence.split_off(start);
                self.carried_id = id;
                break;
            }
            if let Some(id) = id {
                self.ids.bind(py).append(id)?;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        Ok(Some((command.with_documents(py, sequence)?, count)))
    }
}

impl DocumentSource {
    /// Encodes one document, or the model of one update or deletion; returns the id of an inserted document, unless the
    /// document is raw.
    fn encode<'py>(
        &self,
        document: &Bound<'py, PyAny>,
        kinds: &mut Kinds<'py>,
        out: &mut Vec<u8>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = document.py();
        if !self.adds_ids {
            if document.is_exact_instance_of::<PyDict>() {
                codec::encode_document(py, document, self.codec.get(), false, out)?;
            } else {
                kinds.of(document, None)?.encode(document, self.codec.get(), out)?;
            }
            return Ok(None);
        }
        let id = codec::encode_for_insert(py, document, self.codec.get(), out)?;
        // The id is None for a raw document, and for an `_id` that is None.
        let is_raw = id.is_none(py)
            && document
                .getattr_opt(intern!(py, "_type_marker"))?
                .is_some_and(|marker| marker.extract::<i64>().is_ok_and(|marker| marker == RAW_MARKER));
        Ok((!is_raw).then_some(id))
    }
}

/// The exception for a document that is too large for the server.
pub fn too_large(py: Python<'_>, size: usize, limit: usize) -> PyErr {
    let message = format!(
        "the document is {size} bytes, and the server stores at most {limit}; split it or use GridFS"
    );
    failure::document_too_large(py, &message)
}
