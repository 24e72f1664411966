//! Instances to BSON, field by field as the plan says. Types are checked once more on the way: what stands inside a list
//! or a dict may have been changed since it was set.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::instance::{Instance, is_instance, null_bit};
use super::plan::{Default, Field, Op, Plan, Type};
use super::{decode, value};
use crate::codec::encode::{Encoder, Name};
use crate::codec::fault::{Fault, Kind, Step, found, within};

/// One encoding of instances.
pub(super) struct Writer<'a, 'py> {
    py: Python<'py>,
    enc: Encoder<'a, 'py>,
    /// Values of other types were loaded, and go back as they came.
    forgives: bool,
}

impl<'a, 'py> Writer<'a, 'py> {
    pub(super) fn new(py: Python<'py>, plan: &'static Plan, out: &'a mut Vec<u8>) -> Self {
        crate::thread_end::never_unwind_this_thread();
        Writer { py, enc: Encoder::new(py, plan.codec.get(), false, out), forgives: plan.forgives }
    }

    /// Writes a whole instance.
    ///
    /// # Safety
    /// `object` must be an instance of a model, held by the caller.
    pub(super) unsafe fn document(&mut self, object: *mut ffi::PyObject) -> Result<(), Fault> {
        // SAFETY: by the caller's promise.
        let plan = unsafe { (*Instance::of(object).model).plan_of(self.py)? };
        let start = self.enc.enter()?;
        for (index, field) in plan.fields.iter().enumerate() {
            // SAFETY: as above.
            unsafe { self.field(object, plan, index, field)? };
            if index == 0
                && plan.id == Some(0)
                && let Some(tags) = &plan.tags
            {
                self.enc.bytes(&tags.own)?;
            }
        }
        if plan.id != Some(0)
            && let Some(tags) = &plan.tags
        {
            self.enc.bytes(&tags.own)?;
        }
        // SAFETY: as above; the bytes are copied.
        unsafe {
            if let Some(state) = Instance::of(object).known() {
                self.enc.bytes(&state.extra)?;
            }
        }
        self.enc.leave(start)?;
        Ok(())
    }

    unsafe fn field(
        &mut self,
        object: *mut ffi::PyObject,
        plan: &'static Plan,
        index: usize,
        field: &'static Field,
    ) -> Result<(), Fault> {
        // SAFETY: an instance of the plan; the value is held while it is written.
        unsafe {
            let instance = Instance::of(object);
            let found = *instance.slot(field.offset);
            if found.is_null() {
                if let Some(state) = instance.known()
                    && state.pending & 1 << index != 0
                    && let Some((kind, value)) = decode::element(&state.raw, &field.key)
                {
                    super::raw::append(self.enc.out, kind, &field.key, value);
                }
                return Ok(());
            }
            if found == ffi::Py_None() && field.omits_none && instance.flags & null_bit(index) == 0 {
                return Ok(());
            }
            let _ = plan;
            if let Some(state) = instance.known()
                && state.absent & 1 << index != 0
                && instance.dirty() & 1 << index == 0
                && is_bare(field, found)
            {
                return Ok(());
            }
            let held = Bound::from_borrowed_ptr(self.py, found);
            self.value(&field.kind, Name::Text(&field.key), &held)
        }
    }

    /// Writes one element: a value of this type.
    pub(super) fn value(
        &mut self,
        kind: &'static Type,
        name: Name<'_>,
        given: &Bound<'py, PyAny>,
    ) -> Result<(), Fault> {
        let given_ptr = given.as_ptr();
        if kind.checks.is_empty() && is_exactly(kind, given_ptr) {
            // SAFETY: a live object.
            return unsafe { self.enc.element(name, given_ptr) };
        }
        if !kind.checks.is_empty() && !given.is_none() {
            value::check_all(self.py, &kind.checks, given).map_err(|fault| place(fault, name))?;
        }
        if given.is_none() && (kind.nullable || self.forgives) {
            // SAFETY: a live object.
            return unsafe { self.enc.element(name, given_ptr) };
        }
        match &kind.op {
            Op::List(inner) => {
                if let Ok(list) = given.cast::<PyList>() {
                    return self.array(inner, name, list.iter());
                }
            }
            Op::Set(inner, _) => {
                // SAFETY: a live object.
                if unsafe { ffi::PyAnySet_Check(given_ptr) } != 0 {
                    let items: Vec<_> = given.try_iter()?.collect::<PyResult<_>>()?;
                    return self.array(inner, name, items.into_iter());
                }
            }
            Op::TupleOf(inner) => {
                if let Ok(tuple) = given.cast::<PyTuple>() {
                    return self.array(inner, name, tuple.iter());
                }
            }
            Op::Tuple(inner) => {
                if let Ok(tuple) = given.cast::<PyTuple>()
                    && tuple.len() == inner.len()
                {
                    self.enc.head(0x04, name)?;
                    let start = self.enc.enter()?;
                    for (index, (item, inner)) in tuple.iter().zip(inner).enumerate() {
                        self.value(inner, Name::Index(index), &item).map_err(|fault| place(fault, name))?;
                    }
                    self.enc.leave(start)?;
                    return Ok(());
                }
            }
            Op::Dict(inner) => {
                if let Ok(dict) = given.cast::<PyDict>() {
                    self.enc.head(0x03, name)?;
                    let start = self.enc.enter()?;
                    for (key, item) in dict.iter() {
                        let Ok(text) = key.extract::<String>() else {
                            let what = format!("expected str as key, got {}", key.get_type().name()?);
                            return Err(place(found(Kind::Field, what, ""), name));
                        };
                        self.value(inner, Name::Text(text.as_bytes()), &item)
                            .map_err(|fault| place(fault, name))?;
                    }
                    self.enc.leave(start)?;
                    return Ok(());
                }
            }
            Op::Embedded(model) => {
                // SAFETY: a live object, and an instance after the check.
                unsafe {
                    if ffi::PyObject_TypeCheck(given_ptr, model.class) != 0 {
                        self.enc.head(0x03, name)?;
                        return self.document(given_ptr).map_err(|fault| place(fault, name));
                    }
                }
            }
            Op::Union(union) => {
                if is_instance(self.py, given_ptr) {
                    for (_, model) in &union.models {
                        // SAFETY: a live object, and an instance after the check.
                        unsafe {
                            if ffi::PyObject_TypeCheck(given_ptr, model.class) != 0 {
                                self.enc.head(0x03, name)?;
                                return self.document(given_ptr).map_err(|fault| place(fault, name));
                            }
                        }
                    }
                } else {
                    for other in &union.others {
                        if let Ok(made) = value::coerce(self.py, other, given_ptr) {
                            // SAFETY: `coerce` returns a new reference.
                            let made = unsafe { Bound::from_owned_ptr(self.py, made) };
                            return self.value(other, name, &made);
                        }
                    }
                }
            }
            Op::Date => {
                // SAFETY: a live object.
                if unsafe { value::is_plain(self.py, kind, given_ptr)? } {
                    use pyo3::types::{PyDate, PyDateAccess, PyDateTime};
                    let date = given.cast::<PyDate>().map_err(PyErr::from)?;
                    let midnight = PyDateTime::new(
                        self.py,
                        date.get_year(),
                        date.get_month(),
                        date.get_day(),
                        0,
                        0,
                        0,
                        0,
                        None,
                    )?;
                    // SAFETY: a live object.
                    return unsafe { self.enc.element(name, midnight.as_ptr()) };
                }
            }
            Op::Decimal => {
                // SAFETY: a live object.
                if unsafe { value::is_plain(self.py, kind, given_ptr)? } {
                    let text = given.str()?.to_string();
                    let parsed = mangonel_bson::Decimal128::parse(&text)
                        .map_err(|error| place(found(Kind::Field, error.to_string(), ""), name))?;
                    self.enc.head(0x13, name)?;
                    self.enc.bytes(&parsed.bytes())?;
                    return Ok(());
                }
            }
            Op::Enum(class, _) => {
                if given.is_instance(class.bind(self.py))? {
                    let value = given.getattr("value")?;
                    // SAFETY: a live object.
                    return unsafe { self.enc.element(name, value.as_ptr()) };
                }
            }
            Op::Ref { class, inner, .. } => {
                if given.is_instance(class.bind(self.py))? {
                    let id = given.getattr("id")?;
                    return self.value(inner, name, &id);
                }
                return self.value(inner, name, given);
            }
            Op::Refs { class, inner, .. } => {
                let ids = if given.is_instance(class.bind(self.py))? {
                    given.getattr("ids")?
                } else {
                    given.clone()
                };
                if let Ok(list) = ids.cast::<PyList>() {
                    return self.array(inner, name, list.iter());
                }
            }
            Op::Custom { dump, .. } => {
                let dumped = dump.bind(self.py).call1((given,))?;
                // SAFETY: a live object.
                return unsafe { self.enc.element(name, dumped.as_ptr()) };
            }
            Op::Geo { class, name: title, offset } => {
                if given.is_instance(class.bind(self.py))? {
                    let title = pyo3::types::PyString::new(self.py, title);
                    // SAFETY: an instance of the class has the slot.
                    let coordinates = unsafe {
                        let found = given_ptr.byte_add(*offset).cast::<*mut ffi::PyObject>().read();
                        Bound::from_borrowed_ptr_or_opt(self.py, found)
                    };
                    let Some(coordinates) = coordinates else {
                        return Err(place(found(Kind::Field, "expected coordinates, found none", ""), name));
                    };
                    self.enc.head(0x03, name)?;
                    let start = self.enc.enter()?;
                    // SAFETY: live objects.
                    unsafe {
                        self.enc.element(Name::Text(b"type"), title.as_ptr())?;
                        self.enc.element(Name::Text(b"coordinates"), coordinates.as_ptr())?;
                    }
                    self.enc.leave(start)?;
                    return Ok(());
                }
            }
            Op::Float
                if given.is_instance_of::<pyo3::types::PyInt>()
                    && !given.is_instance_of::<pyo3::types::PyBool>() =>
            {
                let number: f64 = given.extract()?;
                self.enc.head(0x01, name)?;
                self.enc.bytes(&number.to_le_bytes())?;
                return Ok(());
            }
            _ => {
                // SAFETY: a live object.
                unsafe {
                    if value::is_plain(self.py, kind, given_ptr)? {
                        return self.enc.element(name, given_ptr);
                    }
                }
            }
        }
        if self.forgives {
            // SAFETY: a live object.
            return unsafe { self.enc.element(name, given_ptr) };
        }
        Err(place(value::mismatch(kind, given_ptr), name))
    }

    fn array(
        &mut self,
        inner: &'static Type,
        name: Name<'_>,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> Result<(), Fault> {
        self.enc.head(0x04, name)?;
        let start = self.enc.enter()?;
        for (index, item) in items.enumerate() {
            self.value(inner, Name::Index(index), &item).map_err(|fault| place(fault, name))?;
        }
        self.enc.leave(start)?;
        Ok(())
    }
}

/// Whether a value is exactly of the plain class that the type names; false says nothing.
#[inline]
fn is_exactly(kind: &Type, given: *mut ffi::PyObject) -> bool {
    // SAFETY: a live object; classes are only compared.
    unsafe {
        let class = ffi::Py_TYPE(given);
        match kind.op {
            Op::Str => class == &raw mut ffi::PyUnicode_Type,
            Op::Int => class == &raw mut ffi::PyLong_Type,
            Op::Float => class == &raw mut ffi::PyFloat_Type,
            Op::Bool => class == &raw mut ffi::PyBool_Type,
            Op::Datetime => class == (*ffi::PyDateTimeAPI()).DateTimeType,
            _ => false,
        }
    }
}

/// Whether a default that was never stored is still what it was.
///
/// # Safety
/// `found` must be a live object.
unsafe fn is_bare(field: &Field, found: *mut ffi::PyObject) -> bool {
    // SAFETY: exact types are checked before their sizes are asked for.
    unsafe {
        match &field.default {
            Default::Value(_) => true,
            Default::List => ffi::PyList_CheckExact(found) != 0 && ffi::PyList_GET_SIZE(found) == 0,
            Default::Dict => ffi::PyDict_CheckExact(found) != 0 && ffi::PyDict_Size(found) == 0,
            Default::Set => ffi::PyAnySet_CheckExact(found) != 0 && ffi::PySet_Size(found) == 0,
            _ => false,
        }
    }
}

/// Adds the element that an error came from.
#[cold]
fn place(fault: Fault, name: Name<'_>) -> Fault {
    within(
        fault,
        match name {
            Name::Text(text) => Step::Key(String::from_utf8_lossy(text).into_owned()),
            Name::Index(index) => Step::Index(index),
        },
    )
}
