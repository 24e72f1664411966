//! Converts lines of extended JSON to BSON, without Python objects for their values and without the GIL.
use mangonel_bson::{RawDocument, parse_json_distinct};
use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// An element of an ObjectId with the name `_id`.
const ID_BYTES: usize = 1 + 4 + 12;

/// Documents by line, None for blank lines; and the number of the first invalid line, from 0, with its error.
type Parsed<'py> = (Bound<'py, PyList>, Option<(usize, String)>);

/// Return the BSON of each line before the first invalid one. A document without an `_id` gets an ObjectId made of the
/// eight bytes and its line number, so that reading the line again gives the same document.
#[entries]
#[pyfunction]
pub(super) fn documents_of_json_lines<'py>(
    py: Python<'py>,
    data: &[u8],
    id_prefix: [u8; 8],
    first_line: u32,
) -> PyResult<Parsed<'py>> {
    let (documents, problem) = py.detach(|| {
        let mut documents = Vec::new();
        let lines = data.strip_suffix(b"\n").unwrap_or(data).split(|byte| *byte == b'\n');
        for (number, line) in lines.enumerate() {
            let text = match std::str::from_utf8(line) {
                Ok(text) => text.trim(),
                Err(_) => return (documents, Some((number, "expected UTF-8, got other bytes".to_owned()))),
            };
            if text.is_empty() {
                documents.push(None);
                continue;
            }
            match parse_json_distinct(text) {
                Ok(document) => {
                    let line = first_line.wrapping_add(number as u32);
                    documents.push(Some(with_id(document, id_prefix, line)));
                }
                Err(error) => return (documents, Some((number, error.to_string()))),
            }
        }
        (documents, None)
    });
    let list = PyList::empty(py);
    for document in documents {
        match document {
            Some(document) => list.append(PyBytes::new(py, &document))?,
            None => list.append(py.None())?,
        }
    }
    Ok((list, problem))
}

/// The document, with an `_id` in front if it has none.
fn with_id(document: Vec<u8>, prefix: [u8; 8], line: u32) -> Vec<u8> {
    let has_id =
        RawDocument::from_bytes(&document).is_ok_and(|found| matches!(found.get("_id"), Ok(Some(_))));
    if has_id {
        return document;
    }
    let size = document.len() + ID_BYTES;
    let mut made = Vec::with_capacity(size);
    // The server, which takes 16 MiB, refuses a length that does not fit.
    made.extend_from_slice(&(size as u32).to_le_bytes());
    made.extend_from_slice(b"\x07_id\0");
    made.extend_from_slice(&prefix);
    made.extend_from_slice(&line.to_be_bytes());
    made.extend_from_slice(&document[4..]);
    made
}
