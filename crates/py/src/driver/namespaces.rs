//! Writes to several collections in one `bulkWrite` command: each refers to its namespace by an index into a second
//! sequence.
//! Spec: bulk-write.

use std::collections::HashMap;

use mangonel_bson::{append_str, begin_document, end_document};
use mangonel_entries::entries;
use mangonel_proto::message::Command;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::operation::{Operation, WriteCommand};
use super::source::too_large;
use crate::codec::{self, Codec};
use crate::thread_end::Entry;

/// Reads writes and their namespaces from two lists while the commands that carry them are made.
#[pyclass(module = "mangonel._core")]
pub struct NamespacedSource {
    _entry: Entry,
    writes: Py<PyList>,
    namespaces: Py<PyList>,
    codec: Py<Codec>,
    max_write_size: usize,
    position: usize,
}

#[entries]
#[pymethods]
impl NamespacedSource {
    /// `writes`: dicts whose first key is the kind of the write; its value becomes the namespace's index.
    #[new]
    fn new(writes: Py<PyList>, namespaces: Py<PyList>, codec: Py<Codec>, max_write_size: usize) -> Self {
        NamespacedSource { _entry: Entry, writes, namespaces, codec, max_write_size, position: 0 }
    }

    /// Encode the next command; return it with the number of its writes, or None when there are none left. `max_size`:
    /// the limit for both sequences together.
    fn next_operation(
        &mut self,
        py: Python<'_>,
        command: &Bound<'_, WriteCommand>,
        max_count: usize,
        max_size: usize,
    ) -> PyResult<Option<(Operation, usize)>> {
        let command = command.get();
        let max_size = command.room(max_size);
        let mut sequence = Command::begin_sequence("ops", 4096);
        let empty = sequence.len();
        let mut infos = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut count = 0;
        let (writes, namespaces) = (self.writes.bind(py), self.namespaces.bind(py));
        while count < max_count && self.position + count < writes.len() {
            let write = writes.get_item(self.position + count)?;
            let namespace: String = namespaces.get_item(self.position + count)?.extract()?;
            let known = places.get(&namespace).copied();
            name_place(write.cast::<PyDict>()?, known.unwrap_or(places.len()))?;
            let (start, infos_before) = (sequence.len(), infos.len());
            codec::encode_document(py, &write, self.codec.get(), false, &mut sequence)?;
            let size = sequence.len() - start;
            if known.is_none() {
                let info = begin_document(&mut infos);
                append_str(&mut infos, "ns", &namespace);
                end_document(&mut infos, info);
            }
            if size > self.max_write_size {
                return Err(too_large(py, size, self.max_write_size));
            }
            if sequence.len() - empty + infos.len() > max_size {
                if count == 0 {
                    return Err(too_large(py, size, max_size));
                }
                sequence.truncate(start);
                infos.truncate(infos_before);
                break;
            }
            if known.is_none() {
                places.insert(namespace, places.len());
            }
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        self.position += count;
        Ok(Some((command.with_two_sequences(py, sequence, "nsInfo", &infos)?, count)))
    }
}

/// Writes the namespace's index into the first field.
fn name_place(write: &Bound<'_, PyDict>, place: usize) -> PyResult<()> {
    let first = write.iter().next();
    let (kind, _) = first.ok_or_else(|| PyValueError::new_err("expected a write, got an empty dict"))?;
    let place = i32::try_from(place)
        .map_err(|_| PyIndexError::new_err(format!("expected fewer than 2^31 namespaces, got {place}")))?;
    write.set_item(kind, place)
}
