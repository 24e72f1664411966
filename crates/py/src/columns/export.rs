//! Tables through Arrow's C data interface. Every exported array points to the table's buffers and holds a reference to
//! the table, so nothing is copied and a reader may keep any part.
//! Spec: Arrow C data interface, C stream interface, PyCapsule interface.
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use mangonel_columns::{Chunk, Column, Data, Field, Kind, Table};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::interface::{ArrowArray, ArrowArrayStream, ArrowSchema, Release};

const NULLABLE: i64 = 2;

/// The memory that an exported schema points to.
struct SchemaParts {
    _format: CString,
    _name: CString,
    _metadata: Vec<u8>,
    children: Vec<*mut ArrowSchema>,
    /// Null, or a box of this module.
    dictionary: *mut ArrowSchema,
}

/// The memory that an exported array points to.
struct ArrayParts {
    _table: Arc<Table>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    /// Null, or a box of this module.
    dictionary: *mut ArrowArray,
}

/// A table that is being read, and the next chunk.
struct StreamParts {
    table: Arc<Table>,
    next: usize,
}

/// A capsule of a stream over the table.
pub(super) fn stream(py: Python<'_>, table: Arc<Table>) -> PyResult<Bound<'_, PyCapsule>> {
    // A name with a zero byte is no C string. It is refused here, where an exception can be raised.
    exported_schema(&table)?;
    let private_data = Box::into_raw(Box::new(StreamParts { table, next: 0 })).cast();
    let made = ArrowArrayStream {
        get_schema: Some(stream_schema),
        get_next: Some(stream_next),
        get_last_error: Some(stream_error),
        release: Some(release_stream),
        private_data,
    };
    capsule(py, made)
}

/// A capsule of the table's schema.
pub(super) fn schema<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyCapsule>> {
    capsule(py, exported_schema(table)?.into_inner())
}

/// A capsule of a structure of this module that is not released.
fn capsule<T: Release>(py: Python<'_>, made: T) -> PyResult<Bound<'_, PyCapsule>> {
    let pointer = Box::into_raw(Box::new(made));
    // SAFETY: the capsule gets a pointer that its destructor frees, and a static name. Where it cannot be made, nothing else
    // has the pointer: the structure is released, and the box taken back.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer.cast(), T::NAME.as_ptr(), Some(drop_capsule::<T>));
        if capsule.is_null() {
            free(pointer);
        }
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// Frees a structure that was not taken over.
///
/// # Safety
/// Called by the interpreter, once, with a capsule that `capsule` made of such a structure.
unsafe extern "C" fn drop_capsule<T: Release>(made: *mut ffi::PyObject) {
    // SAFETY: called once, by the capsule that `capsule` made, whose pointer is the box it leaked.
    unsafe {
        // Checked first: a failure would replace an exception that is pending where the capsule is dropped.
        if ffi::PyCapsule_IsValid(made, T::NAME.as_ptr()) != 0 {
            free(ffi::PyCapsule_GetPointer(made, T::NAME.as_ptr()).cast::<T>());
        }
    }
}

/// # Safety
/// The pointer is of a box that has no other owner. A consumer that moved the structure out has marked it as released.
unsafe fn free<T: Release>(pointer: *mut T) {
    // SAFETY: the caller owns the box, and what it holds is released only here.
    unsafe {
        let mut made = Box::from_raw(pointer);
        made.release();
    }
}

/// # Safety
/// Called by a consumer with a stream of ours that is not released, and a place for a schema.
unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the interface promises a stream of ours that is not released, and room for a schema.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        match exported_schema(&parts.table) {
            Ok(schema) => out.write(schema.into_inner()),
            Err(_) => return libc::EINVAL,
        }
    }
    0
}

/// # Safety
/// Called by a consumer, one thread at a time, with a stream of ours that is not released, and a place for an array.
unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the interface promises a stream of ours that is not released, whose private data so is the box that
    // `stream` leaked, and room for an array. One thread at a time calls, so the parts are borrowed once.
    unsafe {
        let parts = &mut *(*stream).private_data.cast::<StreamParts>();
        match parts.table.chunks.get(parts.next) {
            Some(chunk) => {
                out.write(chunk_array(&parts.table, chunk));
                parts.next += 1;
            }
            None => out.write(released_array()),
        }
    }
    0
}

/// # Safety
/// Called by a consumer with a stream of ours that is not released.
unsafe extern "C" fn stream_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    c"expected names of columns without a zero character, got one that has it".as_ptr()
}

/// # Safety
/// Called once, with a stream of ours that is not released.
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: called once, on a stream of ours, whose private data is the box that `stream` leaked.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamParts>()));
        (*stream).private_data = null_mut();
        (*stream).release = None;
    }
}

/// A schema that is released unless it is taken over.
struct OwnedSchema(ArrowSchema);

impl OwnedSchema {
    fn into_inner(self) -> ArrowSchema {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the value is moved out of a place that is never dropped or used again.
        unsafe { std::ptr::read(&raw const this.0) }
    }
}

impl Drop for OwnedSchema {
    fn drop(&mut self) {
        // SAFETY: still ours, not released before.
        unsafe { release_schema(&raw mut self.0) }
    }
}

fn exported_schema(table: &Table) -> PyResult<OwnedSchema> {
    schema_of("", &table.kind())
}

fn schema_of(name: &str, kind: &Kind) -> PyResult<OwnedSchema> {
    let c_string = |text: String| {
        CString::new(text).map_err(|_| {
            PyValueError::new_err(format!("expected a field name without a zero character, got {name:?}"))
        })
    };
    let format = match kind {
        Kind::Null => "n".to_owned(),
        Kind::Bool => "b".to_owned(),
        // A category is marked by its dictionary; this is the format of the indexes.
        Kind::Int32 | Kind::Category => "i".to_owned(),
        Kind::Int64 => "l".to_owned(),
        Kind::Double => "g".to_owned(),
        Kind::Date { has_zone } => if *has_zone { "tsm:UTC" } else { "tsm:" }.to_owned(),
        Kind::ObjectId => "w:12".to_owned(),
        Kind::Uuid => "w:16".to_owned(),
        Kind::Decimal { precision, scale } => format!("d:{precision},{scale}"),
        Kind::Text => "u".to_owned(),
        Kind::Binary => "z".to_owned(),
        Kind::List(_) => "+l".to_owned(),
        Kind::Struct(_) => "+s".to_owned(),
    };
    let metadata = match kind {
        Kind::ObjectId => extension("pymongoarrow.objectid"),
        Kind::Uuid => extension("arrow.uuid"),
        _ => Vec::new(),
    };
    // Owned from the start, so that an invalid name releases the fields before it.
    let fields: &[Field] = match kind {
        Kind::Struct(fields) => fields,
        _ => &[],
    };
    let mut made: Vec<OwnedSchema> =
        fields.iter().map(|field| schema_of(&field.name, &field.kind)).collect::<PyResult<_>>()?;
    if let Kind::List(items) = kind {
        made.push(schema_of("item", items)?);
    }
    let dictionary = match kind {
        Kind::Category => Some(schema_of("", &Kind::Text)?),
        _ => None,
    };
    let (format, name) = (c_string(format)?, c_string(name.to_owned())?);
    let dictionary = dictionary.map_or(null_mut(), |schema| Box::into_raw(Box::new(schema.into_inner())));
    let children = made.into_iter().map(|schema| Box::into_raw(Box::new(schema.into_inner()))).collect();
    let mut parts =
        Box::new(SchemaParts { _format: format, _name: name, _metadata: metadata, children, dictionary });
    Ok(OwnedSchema(ArrowSchema {
        format: parts._format.as_ptr(),
        name: parts._name.as_ptr(),
        metadata: if parts._metadata.is_empty() { null() } else { parts._metadata.as_ptr().cast() },
        flags: NULLABLE,
        n_children: parts.children.len() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }))
}

/// The metadata that names an extension type: a count, then keys and values, each with its length.
fn extension(name: &str) -> Vec<u8> {
    let mut metadata = Vec::new();
    let pairs = [("ARROW:extension:name", name), ("ARROW:extension:metadata", "")];
    metadata.extend_from_slice(&(pairs.len() as i32).to_ne_bytes());
    for text in pairs.iter().flat_map(|(key, value)| [key, value]) {
        metadata.extend_from_slice(&(text.len() as i32).to_ne_bytes());
        metadata.extend_from_slice(text.as_bytes());
    }
    metadata
}

/// # Safety
/// Called once, with a schema of ours that is not released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once, on a schema of ours, whose private data is the box that `schema_of` leaked, as are the boxes of
    // the children and of the dictionary. One that was moved out has set its `release` to null.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for child in parts.children.iter().chain((!parts.dictionary.is_null()).then_some(&parts.dictionary)) {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*schema).private_data = null_mut();
        (*schema).release = None;
    }
}

fn released_array() -> ArrowArray {
    ArrowArray {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: null_mut(),
        children: null_mut(),
        dictionary: null_mut(),
        release: None,
        private_data: null_mut(),
    }
}

fn chunk_array(table: &Arc<Table>, chunk: &Chunk) -> ArrowArray {
    let children = chunk.columns().iter().map(|column| column_array(table, column)).collect();
    array(table, chunk.rows(), 0, vec![null()], children, None)
}

/// The array of a column, which must belong to the table.
fn column_array(table: &Arc<Table>, column: &Column) -> ArrowArray {
    let bytes = |bytes: &[u8]| bytes.as_ptr().cast::<c_void>();
    let mut buffers = match column.validity() {
        Some(bits) => vec![bytes(bits.bytes())],
        None => vec![null()],
    };
    let mut children = Vec::new();
    let mut dictionary = None;
    match column.data() {
        // The only kind without a validity buffer: all values are null.
        Data::Null => buffers.clear(),
        Data::Bool(bits) => buffers.push(bytes(bits.bytes())),
        Data::Int32(values) => buffers.push(values.as_ptr().cast()),
        Data::Int64(values) => buffers.push(values.as_ptr().cast()),
        Data::Double(values) => buffers.push(values.as_ptr().cast()),
        Data::Date { millis, .. } => buffers.push(millis.as_ptr().cast()),
        Data::ObjectId(values) => buffers.push(values.as_ptr().cast()),
        Data::Uuid(values) => buffers.push(values.as_ptr().cast()),
        Data::Decimal { values, .. } => buffers.push(values.as_ptr().cast()),
        Data::Text(texts) | Data::Binary(texts) => {
            buffers.push(texts.offsets.as_ptr().cast());
            buffers.push(bytes(&texts.bytes));
        }
        Data::Category(values) => {
            buffers.push(values.indexes.as_ptr().cast());
            let (offsets, texts) = (values.texts.offsets.as_ptr().cast(), bytes(&values.texts.bytes));
            let of_texts = vec![null(), offsets, texts];
            dictionary = Some(array(table, values.count(), 0, of_texts, Vec::new(), None));
        }
        Data::List { offsets, items } => {
            buffers.push(offsets.as_ptr().cast());
            children.push(column_array(table, items));
        }
        Data::Struct(fields) => {
            children.extend(fields.columns().iter().map(|column| column_array(table, column)))
        }
    }
    array(table, column.len(), column.null_count(), buffers, children, dictionary)
}

fn array(
    table: &Arc<Table>,
    length: usize,
    nulls: usize,
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
    dictionary: Option<ArrowArray>,
) -> ArrowArray {
    let children: Vec<*mut ArrowArray> =
        children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let dictionary = dictionary.map_or(null_mut(), |array| Box::into_raw(Box::new(array)));
    // The table no longer changes, so its buffers stay in place as long as a reference to it exists.
    let mut parts = Box::new(ArrayParts { _table: table.clone(), buffers, children, dictionary });
    ArrowArray {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: parts.buffers.len() as i64,
        n_children: parts.children.len() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

/// # Safety
/// Called once, with an array of ours that is not released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once, on an array of ours, whose private data is the box that `array` leaked, as are the boxes of the
    // children and of the dictionary. One that was moved out has set its `release` to null, and holds a share of the table
    // of its own.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for child in parts.children.iter().chain((!parts.dictionary.is_null()).then_some(&parts.dictionary)) {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*array).private_data = null_mut();
        (*array).release = None;
    }
}
