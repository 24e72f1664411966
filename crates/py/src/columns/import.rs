//! Tables of other producers, through Arrow's C interfaces. A table taken over is released exactly once: the structures
//! are moved out of their capsules, and dropping them calls their release callback, even during a pending exception.
//! Spec: Arrow C data interface, C stream interface, PyCapsule interface.
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;

use mangonel_columns::MAX_DEPTH;
use mangonel_columns::rows::{Form, FormField, Layout, Source};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::interface::{ArrowArray, ArrowArrayStream, ArrowSchema, Release};
use crate::driver::interpreter::beside_pending_error;

/// The most bytes of metadata that are read.
const MAX_METADATA: i32 = 1 << 20;

/// A structure that was moved here, and is released when it is dropped.
pub(super) struct Owned<T: Release>(Box<T>);

// SAFETY: the interfaces allow to use and release a structure on any thread, by one at a time where it changes; a shared
// reference only reads what does not change before its release.
unsafe impl<T: Release> Send for Owned<T> {}
// SAFETY: a shared reference only reads what does not change before the release; a stream, which changes when it is
// asked, is asked through `&mut` alone.
unsafe impl<T: Release> Sync for Owned<T> {}

impl<T: Release> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.0.is_released() {
            return;
        }
        // Producers may run Python code, which must not see an unrelated pending exception. At the interpreter's exit
        // nothing is called: the memory is freed with the process.
        let _ = Python::try_attach(|py| {
            beside_pending_error(py, || {
                // SAFETY: it was moved here by `take`, which found it not released, or a stream's producer wrote it for
                // us; it is not released, as just checked, and nothing else has it.
                unsafe { self.0.release() }
            });
        });
    }
}

impl<T: Release> Owned<T> {
    /// Moves a structure out of its capsule, so that the capsule's destructor leaves it alone.
    fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = T::NAME;
        let wrong = || PyTypeError::new_err(format!("expected a capsule named {name:?}, got {capsule:?}"));
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| wrong())?;
        // SAFETY: the interpreter's lock is held, and it is a capsule; one of this name holds a pointer to this structure, as the
        // PyCapsule interface says, whose owner is the capsule. The structure is copied out before it is marked as released, so it
        // has one owner at any time.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 0 {
                return Err(wrong());
            }
            let found = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()).cast::<T>();
            if found.is_null() {
                return Err(PyErr::fetch(capsule.py()));
            }
            if (*found).is_released() {
                return Err(PyValueError::new_err("expected a table, got one that was read already"));
            }
            let owned = Self(Box::new(std::ptr::read(found)));
            forget(found);
            Ok(owned)
        }
    }
}

/// Marks a structure as moved out.
///
/// # Safety
/// It is valid, and its contents have a new owner.
unsafe fn forget<T: Release>(found: *mut T) {
    // SAFETY: the caller has a valid place, and read its contents out. The callback's place is set through a structure
    // of zeros: a null callback is what marks it, and null pointers and zero lengths are valid in all three.
    unsafe { found.write(std::mem::zeroed()) }
}

/// A schema, to be read as a form.
pub(super) struct Schema(Owned<ArrowSchema>);

impl Schema {
    /// Reads the schema.
    pub fn form(&self) -> PyResult<Form> {
        // SAFETY: the schema is ours, and only its drop releases it, so everything it points to is there.
        let form = unsafe { form_of(&self.0.0, 0) }.map_err(type_error)?;
        form.check().map_err(type_error)?;
        Ok(form)
    }
}

fn type_error(text: String) -> PyErr {
    PyTypeError::new_err(text)
}

/// # Safety
/// The schema is valid and not released.
unsafe fn form_of(schema: &ArrowSchema, depth: usize) -> Result<Form, String> {
    if depth > MAX_DEPTH {
        return Err(format!("expected at most {MAX_DEPTH} levels of nesting, got more"));
    }
    // SAFETY: the schema is not released, and the interface promises of such a one C strings, as many children as it
    // says, and that all of them live as long as their parent. The depth is bounded.
    unsafe {
        let format = text_of(schema.format)?.ok_or("expected the format of a column, got none")?;
        let count = usize::try_from(schema.n_children)
            .map_err(|_| format!("expected a count of children, got {}", schema.n_children))?;
        let mut children = Vec::new();
        for index in 0..count {
            let child = pointer_at(schema.children, index)?;
            let name = text_of((*child).name)?.unwrap_or_default().to_owned();
            let form = form_of(&*child, depth + 1).map_err(|text| at_name(text, &name))?;
            children.push(FormField { name, form });
        }
        let dictionary = match schema.dictionary.as_ref() {
            Some(dictionary) => Some(form_of(dictionary, depth + 1)?),
            None => None,
        };
        let metadata = metadata_of(schema.metadata)?;
        let told =
            |key: &str| metadata.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str());
        let extension = told("ARROW:extension:name");
        let extension = extension.map(|name| (name, told("ARROW:extension:metadata").unwrap_or_default()));
        Form::parse(format, extension, children, dictionary)
    }
}

fn at_name(text: String, name: &str) -> String {
    match text.split_once(" in column $") {
        Some((what, inner)) => format!("{what} in column $.{name}{inner}"),
        None => format!("{text} in column $.{name}"),
    }
}

/// # Safety
/// Null, or a C string that outlives what is returned.
unsafe fn text_of<'a>(text: *const c_char) -> Result<Option<&'a str>, String> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, as was just asked, and so a C string: its producer ended it with a zero, and keeps it until the
    // release, which comes after the caller's last use.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| format!("expected a name or a format in UTF-8, got {text:?}"))
}

/// # Safety
/// `pointers` is null or holds more than `index` pointers, each null or valid.
unsafe fn pointer_at<T>(pointers: *mut *mut T, index: usize) -> Result<*mut T, String> {
    if !pointers.is_null() {
        // SAFETY: not null, as was just asked, so there are more than `index` pointers: the callers count up to the
        // number that the structure tells.
        let pointer = unsafe { *pointers.add(index) };
        if !pointer.is_null() {
            return Ok(pointer);
        }
    }
    Err("expected a child of an Arrow structure, got a null pointer".into())
}

/// Keys and values; those that are not UTF-8 are skipped.
///
/// # Safety
/// Null, or metadata as the interface says: a count, then keys and values, each with its length.
unsafe fn metadata_of(mut at: *const c_char) -> Result<Vec<(String, String)>, String> {
    if at.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: not null, and so metadata of the interface's form: each number says how much follows, and each read steps
    // over as much as it read, so the next one begins where its number stands.
    unsafe {
        let mut pairs = Vec::new();
        for _ in 0..read_number(&mut at) {
            let (key, value) = (read_bytes(&mut at)?, read_bytes(&mut at)?);
            if let (Ok(key), Ok(value)) = (std::str::from_utf8(key), std::str::from_utf8(value)) {
                pairs.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(pairs)
    }
}

/// # Safety
/// A number stands there.
unsafe fn read_number(at: &mut *const c_char) -> i32 {
    // SAFETY: the caller knows that a number stands there; nothing says that it is aligned, so it is read as it lies.
    // The place behind its four bytes is within the metadata or at its end.
    unsafe {
        let number = at.cast::<i32>().read_unaligned();
        *at = at.add(4);
        number
    }
}

/// # Safety
/// A length stands there, and this many bytes.
unsafe fn read_bytes<'a>(at: &mut *const c_char) -> Result<&'a [u8], String> {
    // SAFETY: a length stands there. This many bytes follow it, which the producer keeps until the release; a length that
    // is below zero or beyond reason is refused before they are touched.
    unsafe {
        let length = read_number(at);
        if !(0..=MAX_METADATA).contains(&length) {
            return Err(format!(
                "expected at most {MAX_METADATA} bytes of metadata of a column, got {length}"
            ));
        }
        let found = std::slice::from_raw_parts(at.cast::<u8>(), length as usize);
        *at = at.add(length as usize);
        Ok(found)
    }
}

/// An array that was moved here.
pub(super) struct Array(Owned<ArrowArray>);

impl Array {
    /// Returns a reader of it.
    pub fn source(&self) -> ArraySource<'_> {
        ArraySource { array: &raw const *self.0.0, _owner: PhantomData }
    }

    /// Returns its declared number of rows.
    pub fn len(&self) -> usize {
        usize::try_from(self.0.0.length).unwrap_or_default()
    }
}

/// An array or one nested in it, valid as long as the outer array.
#[derive(Clone, Copy)]
pub(super) struct ArraySource<'a> {
    array: *const ArrowArray,
    _owner: PhantomData<&'a Array>,
}

impl<'a> Source<'a> for ArraySource<'a> {
    fn layout(&self) -> Layout {
        // SAFETY: it came from an `Array` that is borrowed for 'a, or from one inside of it, which the interface lets
        // live as long.
        let array = unsafe { &*self.array };
        Layout {
            length: array.length,
            offset: array.offset,
            null_count: array.null_count,
            buffers: array.n_buffers,
            children: array.n_children,
        }
    }

    fn buffer(&self, index: usize, bytes: usize) -> Result<Option<&'a [u8]>, String> {
        // SAFETY: the array lives for 'a, as `layout` says.
        let array = unsafe { &*self.array };
        if i64::try_from(index).is_ok_and(|index| index < array.n_buffers) && !array.buffers.is_null() {
            // SAFETY: the index is below the number of pointers, and their place is not null: both were just asked.
            let pointer = unsafe { *array.buffers.add(index) };
            if !pointer.is_null() {
                // SAFETY: the interface tells a buffer's length only by the array's own numbers, from which the caller made this
                // length, at most isize::MAX. A producer makes buffers as long as that, and leaves them unchanged until release,
                // which is after 'a.
                return Ok(Some(unsafe { std::slice::from_raw_parts(pointer.cast(), bytes) }));
            }
        }
        Ok(None)
    }

    fn child(&self, index: usize) -> Result<Self, String> {
        // SAFETY: the array lives for 'a, being borrowed or inside of one that is. The reader compares the number of
        // children with that of the form before it asks for one, so the index is below it.
        let child = unsafe { pointer_at((*self.array).children, index)? };
        Ok(Self { array: child, _owner: PhantomData })
    }

    fn dictionary(&self) -> Result<Self, String> {
        // SAFETY: the array lives for 'a, being borrowed or inside of one that is; a pointer is copied out of it.
        let dictionary = unsafe { (*self.array).dictionary };
        if dictionary.is_null() {
            return Err("expected the values of a dictionary, got a null pointer".into());
        }
        Ok(Self { array: dictionary, _owner: PhantomData })
    }
}

/// Arrays one after another, of one form.
pub(super) enum Arrays {
    Stream(Owned<ArrowArrayStream>),
    One(Option<Array>),
}

impl Arrays {
    /// Gets the arrays of an object.
    ///
    /// # Errors
    /// TypeError: it has none, or BSON has no such types; and any exception of the object.
    pub fn of(table: &Bound<'_, PyAny>) -> PyResult<(Form, Self)> {
        let py = table.py();
        if let Some(ask) = table.getattr_opt(intern!(py, "__arrow_c_stream__"))? {
            let mut stream = Owned::<ArrowArrayStream>::take(&ask.call0()?)?;
            let schema = py.detach(|| schema_of_stream(&mut stream))?;
            return Ok((schema.form()?, Self::Stream(stream)));
        }
        if let Some(ask) = table.getattr_opt(intern!(py, "__arrow_c_array__"))? {
            let pair = ask.call0()?;
            let (schema, array) =
                (pair.cast::<PyTuple>()?.get_item(0)?, pair.cast::<PyTuple>()?.get_item(1)?);
            let schema = Schema(Owned::take(&schema)?);
            let array = Array(Owned::take(&array)?);
            return Ok((schema.form()?, Self::One(Some(array))));
        }
        Err(PyTypeError::new_err(format!(
            "expected a table with Arrow's interface (__arrow_c_stream__ or __arrow_c_array__), got {}",
            table.get_type().fully_qualified_name()?
        )))
    }

    /// Returns the next array; releases the GIL, since producers may wait for other threads.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<Array>> {
        match self {
            Self::One(array) => Ok(array.take()),
            Self::Stream(stream) => py.detach(|| next_of_stream(stream)),
        }
    }
}

fn schema_of_stream(stream: &mut Owned<ArrowArrayStream>) -> PyResult<Schema> {
    let stream = &mut *stream.0;
    let Some(get_schema) = stream.get_schema else {
        return Err(PyValueError::new_err("expected a stream that tells its schema, got none"));
    };
    // SAFETY: a structure of zeros is a released schema; the stream is ours and not released, and fills it or answers an error
    // code and leaves it.
    let (code, schema) = unsafe {
        let mut schema = Box::new(std::mem::zeroed::<ArrowSchema>());
        (get_schema(stream, &raw mut *schema), schema)
    };
    // SAFETY: the drop of `Owned` alone releases the stream, and it is borrowed; the code is the callback's answer
    // above.
    unsafe { check(stream, code)? };
    if schema.is_released() {
        return Err(PyValueError::new_err("expected the schema of a stream, got a released one"));
    }
    Ok(Schema(Owned(schema)))
}

fn next_of_stream(stream: &mut Owned<ArrowArrayStream>) -> PyResult<Option<Array>> {
    let stream = &mut *stream.0;
    let Some(get_next) = stream.get_next else {
        return Err(PyValueError::new_err("expected a stream that gives arrays, got none"));
    };
    // SAFETY: a structure of zeros is a released array; the stream is ours and not released, and fills it, leaves it
    // released at the end, or answers an error code and leaves it.
    let (code, array) = unsafe {
        let mut array = Box::new(std::mem::zeroed::<ArrowArray>());
        (get_next(stream, &raw mut *array), array)
    };
    // SAFETY: the drop of `Owned` alone releases the stream, and it is borrowed; the code is the callback's answer
    // above.
    unsafe { check(stream, code)? };
    Ok((!array.is_released()).then(|| Array(Owned(array))))
}

/// # Safety
/// The stream is valid and not released, and `code` is what one of its callbacks answered just now.
unsafe fn check(stream: &mut ArrowArrayStream, code: c_int) -> PyResult<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the stream is not released, and one of its callbacks has failed just now, which is when this one may be
    // asked. The text, if there is one, ends in a zero, and is copied before the stream is used again.
    let text = unsafe {
        let told = stream.get_last_error.map_or(std::ptr::null(), |ask| ask(stream));
        if told.is_null() { String::new() } else { CStr::from_ptr(told).to_string_lossy().into_owned() }
    };
    Err(PyOSError::new_err(format!("the table's stream failed with code {code}: {text}")))
}
