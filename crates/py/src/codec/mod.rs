//! Python objects to and from BSON bytes, with no tree of Rust values in between. Knows no sockets and no commands.
//!
//! `encode` and `decode` are the hot paths: they handle exact builtin types only and run no Python code. `encode_rare`
//! and `decode_rare` call classes and user hooks. `fault` carries errors, `types` provides classes.
pub(crate) mod cell;
pub(crate) mod collector;
pub(crate) mod datetime;
pub(crate) mod decode;
mod decode_rare;
pub(crate) mod document_shape;
pub(crate) mod encode;
mod encode_rare;
pub(crate) mod fault;
mod int64;
mod json;
mod key_cache;
pub(crate) mod layout;
pub(crate) mod make;
pub(crate) mod name;
pub(crate) mod object_id;
pub(crate) use object_id::IdRange;
mod objects;
pub(crate) mod options;
mod recipe;
mod selftest;
mod shapes;
pub(crate) mod slot;
mod stack;
pub(crate) mod text;
pub(crate) mod types;

use std::ops::Range;

use mangonel_entries::entries;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyByteArray, PyBytes, PyDict, PyList, PyMemoryView};

use cell::GilCell;
use decode::Decoder;
use encode::Encoder;
use fault::{Fault, Kind, found, into_exception, invalid};
pub use options::Codec;

/// The output buffer of `encode`, kept between calls so that documents are encoded without allocating.
static SCRATCH: GilCell<Vec<u8>> = GilCell::new(Vec::new());

/// A larger output buffer is given back to the allocator.
const SCRATCH_LIMIT: usize = 1 << 20;

/// Adds the codec to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    selftest::decide(module.py())?;
    module.add("ObjectId", object_id::class(module.py())?)?;
    module.add_class::<Codec>()?;
    module.add_class::<document_shape::DocumentShape>()?;
    module.add_function(wrap_pyfunction!(int64::plain_int_class, module)?)?;
    module.add_function(wrap_pyfunction!(py_encode, module)?)?;
    module.add_function(wrap_pyfunction!(py_decode, module)?)?;
    module.add_function(wrap_pyfunction!(decode_all, module)?)?;
    module.add_function(wrap_pyfunction!(decode_fields, module)?)?;
    module.add_function(wrap_pyfunction!(json::json_loads, module)?)?;
    module.add_function(wrap_pyfunction!(json::json_dumps, module)?)?;
    module.add_function(wrap_pyfunction!(set_dict_layout, module)?)?;
    module.add_function(wrap_pyfunction!(fast_paths, module)?)?;
    module.add_function(wrap_pyfunction!(fast_paths_hold, module)?)?;
    module.add_function(wrap_pyfunction!(reseed_object_ids, module)?)
}

/// Appends a document. On an error the output keeps its old length.
///
/// # Errors
/// `InvalidDocument`, `OverflowError` and others, with the path of the value; or an exception of the user's code.
pub fn encode_document(
    py: Python<'_>,
    document: &Bound<'_, PyAny>,
    codec: &Codec,
    check_keys: bool,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    appended(py, out, |out| Encoder::new(py, codec, check_keys, out).top(document), || Ok(document.clone()))
}

/// Appends a document made of these fields. On an error `shown` makes the document that the exception holds.
///
/// # Errors
/// As `encode_document`, and those of `shown`.
pub fn encode_fields<'py>(
    py: Python<'py>,
    fields: impl Iterator<Item = (&'static str, Bound<'py, PyAny>)>,
    codec: &Codec,
    out: &mut Vec<u8>,
    shown: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<()> {
    appended(py, out, |out| Encoder::new(py, codec, false, out).fields(fields), shown)
}

/// Appends the output of `write`, or nothing on an error; `shown` makes the document that the exception holds.
#[inline]
fn appended<'py>(
    py: Python<'py>,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
    shown: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let start = out.len();
    let mut result = write(out);
    if result.is_ok() && i32::try_from(out.len() - start).is_err() {
        result = Err(found(Kind::Size, "Document would overflow BSON size limit", "it is longer than 2 GiB"));
    }
    result.or_else(|fault| {
        out.truncate(start);
        Err(into_exception(py, fault, Some(&shown()?)))
    })
}

/// Appends a document to insert and returns its `_id`; a document without one gets a new ObjectId, also in the caller's
/// mapping. A raw document is appended unchanged, and None returned.
///
/// # Errors
/// As `encode_document`; also the exception of a mapping that refuses to set its `_id`.
pub fn encode_for_insert(
    py: Python<'_>,
    document: &Bound<'_, PyAny>,
    codec: &Codec,
    out: &mut Vec<u8>,
) -> PyResult<Py<PyAny>> {
    let name = &codec.types.name;
    let id = if let Ok(dict) = document.cast_exact::<PyDict>() {
        match dict.get_item(&name.id)? {
            Some(id) => id,
            None => {
                let id = object_id::fresh(py)?;
                dict.set_item(&name.id, &id)?;
                id
            }
        }
    } else {
        let marker = document.getattr_opt(&name.type_marker)?;
        if marker.is_some_and(|marker| marker.extract::<i64>().is_ok_and(|marker| marker == 101)) {
            encode_document(py, document, codec, false, out)?;
            return Ok(py.None());
        }
        if !document.is_instance(codec.types.mapping.bind(py))? {
            let found = document.get_type();
            return Err(PyTypeError::new_err(format!(
                "document must be an instance of dict, bson.son.SON, bson.raw_bson.RawBSONDocument, or a type that \
                 inherits from collections.MutableMapping, not {found}"
            )));
        }
        if !document.contains(&name.id)? {
            document.set_item(&name.id, object_id::fresh(py)?)?;
        }
        document.get_item(&name.id)?
    };
    encode_document(py, document, codec, false, out)?;
    Ok(id.unbind())
}

/// Makes a `bytes` object.
///
/// # Errors
/// `MemoryError`: it does not fit in memory.
pub fn bytes_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // A slice is never longer than isize::MAX.
    let length = bytes.len() as ffi::Py_ssize_t;
    // SAFETY: the bytes are copied before the call returns, and what it returns is a new reference or null with an
    // exception set.
    unsafe {
        let made = ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), length);
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}

/// Makes this many fresh ObjectIds at once.
///
/// # Errors
/// When the system provides no random bytes.
pub(crate) fn generate_object_ids(py: Python<'_>, count: usize) -> PyResult<IdRange> {
    object_id::generate_many(py, count)
}

/// Returns the bytes of a fresh ObjectId.
///
/// # Errors
/// When the system provides no random bytes.
pub fn generate_object_id(py: Python<'_>) -> PyResult<[u8; 12]> {
    object_id::generate(py)
}

/// Makes an ObjectId from its bytes.
///
/// # Errors
/// When there is no memory for it.
pub fn object_id_of(py: Python<'_>, bytes: [u8; 12]) -> PyResult<Bound<'_, PyAny>> {
    object_id::of_bytes(py, bytes)
}

/// Decodes bytes that are exactly one document.
///
/// # Errors
/// `InvalidBSON`, or an exception of the user's document class or type decoder.
pub fn decode_document(py: Python<'_>, bytes: &[u8], codec: &Codec) -> PyResult<Py<PyAny>> {
    let made = Decoder::new(py, codec, bytes).whole();
    made.map(Bound::unbind).map_err(|fault| into_exception(py, fault, None))
}

/// Return a document as BSON.
///
/// Args:
///     document: a mapping with str keys. Its `_id` is written first.
///     check_keys: True: refuse keys that start with "$" or hold a ".".
///     codec_options: how to write UUIDs and your own types. None: DEFAULT_CODEC_OPTIONS.
///
/// Raises:
///     InvalidDocument: a key or value cannot be stored; the message says where it stands.
///     OverflowError: an int does not fit in 64 bits.
///     UnicodeEncodeError: a str holds half of a surrogate pair.
///     ValueError: a UUID, while `uuid_representation` is UNSPECIFIED.
///     RecursionError: the document is nested deeper than 500 levels, or contains itself.
///     TypeError: `document` is no mapping, `check_keys` no bool, or `codec_options` no CodecOptions.
///
/// Example:
///     >>> encode({"a": 1})
///     b'\x0c\x00\x00\x00\x10a\x00\x01\x00\x00\x00\x00'
#[entries]
#[pyfunction]
#[pyo3(name = "encode", signature = (document, check_keys = false, codec_options = None))]
fn py_encode<'py>(
    document: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = flag)] check_keys: bool,
    codec_options: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = document.py();
    let codec = prepared(py, codec_options)?;
    // Taken, not borrowed: the user's code may call `encode` again.
    let mut out = SCRATCH.take(py);
    let result = encode_document(py, document, codec.get(), check_keys, &mut out);
    let result = result.and_then(|()| bytes_of(py, &out));
    if out.capacity() <= SCRATCH_LIMIT {
        out.clear();
        drop(SCRATCH.replace(py, out));
    }
    result
}

/// Return the document in `data`, which must be exactly one.
///
/// Args:
///     data: bytes, or anything with the buffer protocol.
///     codec_options: the types of documents, dates and UUIDs. None: DEFAULT_CODEC_OPTIONS, which gives dicts.
///
/// Raises:
///     InvalidBSON: the bytes are not one valid document, or hold a date that datetime cannot.
///     TypeError: `data` is no buffer, or `codec_options` no CodecOptions.
///
/// Example:
///     >>> decode(encode({"a": 1}))
///     {'a': 1}
#[entries]
#[pyfunction]
#[pyo3(name = "decode", signature = (data, codec_options = None))]
fn py_decode<'py>(
    data: &Bound<'py, PyAny>,
    codec_options: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let codec = prepared(data.py(), codec_options)?;
    with_bytes(data, |bytes, owner| Decoder::new(data.py(), codec.get(), bytes).owned_by(owner).whole())
}

/// Return the documents that are concatenated in `data`, as a list.
///
/// Args:
///     data: bytes, or anything with the buffer protocol; empty for no documents.
///     codec_options: the types of documents, dates and UUIDs. None: DEFAULT_CODEC_OPTIONS, which gives dicts.
///
/// Raises:
///     InvalidBSON: a document is cut off or not valid; `decode_iter` yields those before it.
///     TypeError: `data` is no buffer, or `codec_options` no CodecOptions.
#[entries]
#[pyfunction]
#[pyo3(signature = (data, codec_options = None))]
fn decode_all<'py>(
    data: &Bound<'py, PyAny>,
    codec_options: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let codec = prepared(data.py(), codec_options)?;
    let list = PyList::empty(data.py());
    with_bytes(data, |bytes, owner| {
        let mut decoder = Decoder::new(data.py(), codec.get(), bytes).owned_by(owner);
        while decoder.position < bytes.len() {
            if bytes.len() - decoder.position < 5 {
                return Err(invalid(decoder.position, "not enough data for a BSON document"));
            }
            list.append(decoder.next(bytes.len())?)?;
        }
        Ok(list.into_any())
    })
}

/// Decode the fields of one document into a dict, embedded documents as the document class.
#[entries]
#[pyfunction]
#[pyo3(signature = (data, codec_options = None))]
fn decode_fields<'py>(
    data: &Bound<'py, PyAny>,
    codec_options: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let codec = prepared(data.py(), codec_options)?;
    with_bytes(data, |bytes, owner| Decoder::new(data.py(), codec.get(), bytes).owned_by(owner).fields())
}

/// Take a new random part and counter for ObjectIds; for the child after a fork.
#[entries]
#[pyfunction]
fn reseed_object_ids(py: Python<'_>) -> PyResult<()> {
    object_id::reseed(py)
}

/// Reads an argument that must be True or False. Python puts the argument's name before the message.
fn flag(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().or_else(|_| {
        let found = value.get_type().name()?;
        Err(PyTypeError::new_err(format!("expected bool, got {found}")))
    })
}

/// Returns the codec for these options; None: the default options.
fn prepared(py: Python<'_>, options: Option<&Bound<'_, PyAny>>) -> PyResult<Py<Codec>> {
    match options {
        Some(options) => Codec::from_options(options),
        None => Ok(Codec::default_for(py)?.clone_ref(py)),
    }
}

/// Switch the use of the interpreter's internal layout on or off, for tests; return whether it is on.
#[entries]
#[pyfunction]
#[pyo3(name = "_set_dict_layout")]
fn set_dict_layout(py: Python<'_>, is_on: bool) -> bool {
    let was_on = layout::is_on(py);
    let is_on = selftest::set(is_on);
    if is_on != was_on {
        shapes::forget(py);
    }
    is_on
}

/// Return which shortcuts around the C API are used: `objects` and `dicts`, each "on", or "off: " and the reason.
#[entries]
#[pyfunction]
#[pyo3(name = "_fast_paths")]
fn fast_paths(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    selftest::found().into_py_dict(py)
}

/// For tests: compare the objects that each shortcut makes with the interpreter's own; return for each whether they are
/// equal.
#[entries]
#[pyfunction]
#[pyo3(name = "_fast_paths_hold")]
fn fast_paths_hold(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    selftest::hold(py).into_py_dict(py)
}

/// Runs `action` on bytes that cannot change, and the object for raw documents to be views of: a `bytes` object, a view
/// of one, or a copy of any other buffer. None for a bytearray: each raw document is a copy of its own part, as in
/// PyMongo.
fn with_bytes<'py>(
    data: &Bound<'py, PyAny>,
    action: impl FnOnce(&[u8], Option<&Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>, Fault>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    let result = if let Ok(bytes) = data.cast::<PyBytes>() {
        action(bytes.as_bytes(), Some(data))
    } else {
        let buffer = PyBuffer::<u8>::get(data)?;
        match viewed_bytes(data, &buffer)? {
            Some((bytes, range)) => action(&bytes.as_bytes()[range], Some(data)),
            None => {
                let copy =
                    PyBytes::new_with(py, buffer.len_bytes(), |bytes| buffer.copy_to_slice(py, bytes))?;
                let owner = (!data.is_instance_of::<PyByteArray>()).then_some(copy.as_any());
                action(copy.as_bytes(), owner)
            }
        }
    };
    result.map_err(|fault| into_exception(py, fault, None))
}

/// Returns the `bytes` object behind a memoryview, and the range of its bytes; `None` for anything that may change.
fn viewed_bytes<'py>(
    data: &Bound<'py, PyAny>,
    buffer: &PyBuffer<u8>,
) -> PyResult<Option<(Bound<'py, PyBytes>, Range<usize>)>> {
    if !data.is_exact_instance_of::<PyMemoryView>() || !buffer.is_c_contiguous() {
        return Ok(None);
    }
    let Ok(bytes) = data.getattr(intern!(data.py(), "obj"))?.cast_into_exact::<PyBytes>() else {
        return Ok(None);
    };
    let start = (buffer.buf_ptr() as usize).checked_sub(bytes.as_bytes().as_ptr() as usize);
    let range = start.map(|start| start..start.saturating_add(buffer.len_bytes()));
    Ok(range.filter(|range| range.end <= bytes.as_bytes().len()).map(|range| (bytes, range)))
}
