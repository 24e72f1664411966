//! What an instance of a model is: a head of this shape, then one slot for each field, which Python's own member
//! descriptors read at their own speed. A slot that is NULL has its value elsewhere: still raw, or not loaded at all.
//! Here are the classes below every model: the base with dirty bits on write, the metaclass, the reading of NULL slots.
use std::ffi::{CStr, c_int, c_void};

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use super::decode;
use super::plan::{Default, Model, OdmModel, Op, Plan};
use super::value;
use crate::codec::cell::GilCell;
use crate::codec::fault::{Fault, Step, into_exception, within};
use crate::thread_end::never_unwind_this_thread;

mod field;
pub(super) mod watch;

/// Not in the database, as far as this process knows.
pub(super) const NEW: u64 = 1;
/// Only some fields were loaded.
pub(super) const PARTIAL: u64 = 2;
/// Was deleted.
pub(super) const DELETED: u64 = 4;
/// The unknown keys were changed by the program.
pub(super) const EXTRA_SET: u64 = 8;

/// From here on, a bit for each of the first fields: it was null in the database, where it could be absent.
const WAS_NULL: u32 = 8;

/// The bit of a field's stored null; 0 for fields that have none.
#[inline]
pub(super) fn null_bit(index: usize) -> u64 {
    1_u64.checked_shl(WAS_NULL + index as u32).unwrap_or(0)
}

/// The head of every instance.
#[repr(C)]
pub(super) struct Instance {
    head: ffi::PyObject,
    /// The model of its class; never null.
    pub model: *const Model,
    /// Fields set since it was loaded or saved.
    pub dirty: [u64; 2],
    pub flags: u64,
    /// What few instances need; null until then. Owned.
    pub state: *mut State,
    /// What it was loaded together with, for references, or where it was loaded from; null or owned.
    pub siblings: *mut ffi::PyObject,
}

/// What few instances need.
#[derive(Default)]
pub(super) struct State {
    /// The document as it was loaded or written.
    pub raw: Vec<u8>,
    /// Fields whose values are still in `raw` only.
    pub pending: u128,
    /// Fields that were set and then saved: type and value, newer than `raw`; None when removed.
    pub saved: Vec<(usize, Option<Vec<u8>>)>,
    /// Whole elements of keys that no field has.
    pub extra: Vec<u8>,
    /// Fields of an embedded document that were not stored and got their defaults.
    pub absent: u128,
    /// Fields on their way to the server: their dirty bits were cleared, and come back if it refuses.
    pub sent: u128,
    /// What `saved` becomes when the server agrees.
    pub draft: Vec<(usize, Option<Vec<u8>>)>,
    /// Values from before the first time a field was set; owned.
    pub old: Vec<(usize, *mut ffi::PyObject)>,
}

impl Instance {
    /// The instance behind an object.
    ///
    /// # Safety
    /// `object` must be an instance of a model.
    #[inline]
    pub(super) unsafe fn of<'a>(object: *mut ffi::PyObject) -> &'a mut Instance {
        // SAFETY: by the caller's promise; the GIL keeps others away, and no reference is kept over Python code.
        unsafe { &mut *object.cast::<Instance>() }
    }

    #[inline]
    pub(super) fn dirty(&self) -> u128 {
        u128::from(self.dirty[0]) | u128::from(self.dirty[1]) << 64
    }

    #[inline]
    pub(super) fn set_dirty(&mut self, index: usize) {
        self.dirty[index >> 6] |= 1 << (index & 63);
    }

    /// The state, made when there is none.
    pub(super) fn state(&mut self) -> &mut State {
        if self.state.is_null() {
            self.state = Box::into_raw(spare_state());
        }
        // SAFETY: owned and not null.
        unsafe { &mut *self.state }
    }

    /// The state, if there is one.
    #[inline]
    pub(super) fn known(&self) -> Option<&State> {
        // SAFETY: owned, or null.
        unsafe { self.state.as_ref() }
    }

    #[inline]
    pub(super) fn pending(&self) -> u128 {
        self.known().map_or(0, |state| state.pending)
    }

    /// The place of a field.
    ///
    /// # Safety
    /// `offset` must be one of the instance's plan.
    #[inline]
    pub(super) unsafe fn slot(&mut self, offset: usize) -> *mut *mut ffi::PyObject {
        // SAFETY: by the caller's promise.
        unsafe { (&raw mut *self).byte_add(offset).cast() }
    }
}

/// States of released instances, empty, with room for the bytes of a document: two allocations fewer for each.
#[expect(clippy::vec_box, reason = "the boxes themselves are what is kept")]
static SPARE: GilCell<Vec<Box<State>>> = GilCell::new(Vec::new());

/// States kept, and the largest room that one may keep.
const SPARES: usize = 512;
const SPARE_ROOM: usize = 4096;

fn spare_state() -> Box<State> {
    // SAFETY: whoever has an instance holds the GIL; moving a box runs no Python code.
    let spare = unsafe { SPARE.with(Python::assume_attached(), Vec::pop) };
    spare.unwrap_or_default()
}

impl State {
    /// Ends a state: what it refers to is released, and its memory kept for another.
    pub(super) fn end(mut self: Box<Self>) {
        self.release();
        if self.raw.capacity() > SPARE_ROOM {
            return;
        }
        self.raw.clear();
        self.extra.clear();
        self.saved.clear();
        self.draft.clear();
        (self.pending, self.sent, self.absent) = (0, 0, 0);
        // SAFETY: as in `spare_state`; a state without old values has nothing to release.
        unsafe {
            SPARE.with(Python::assume_attached(), |spare| {
                if spare.len() < SPARES {
                    spare.push(self);
                }
            });
        }
    }

    fn release(&mut self) {
        for (_, value) in self.old.drain(..) {
            // SAFETY: owned.
            unsafe { ffi::Py_DECREF(value) };
        }
    }

    /// Forgets the former values.
    pub(super) fn forget_old(&mut self) {
        let old = std::mem::take(&mut self.old);
        for (_, value) in old {
            // SAFETY: owned; taken out before anything can run.
            unsafe { ffi::Py_DECREF(value) };
        }
    }
}

static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static META: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static FIELD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Tells whether an object is an instance of a model.
#[inline]
pub(super) fn is_instance(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    let Some(base) = BASE.get(py) else { return false };
    // SAFETY: both are live objects.
    unsafe { ffi::PyObject_TypeCheck(object, base.as_ptr().cast()) != 0 }
}

/// Makes an instance with empty slots, which the collector does not see yet: a new reference.
///
/// # Safety
/// The GIL must be held, and `plan` be that of `class` or of the class it hides behind.
#[inline]
pub(super) unsafe fn create(plan: &Plan, class: *mut ffi::PyTypeObject) -> *mut ffi::PyObject {
    // SAFETY: memory of the class's size with the head set by the interpreter; the rest is zeroed, which is an empty
    // instance. Plans live for ever, so the model does.
    unsafe {
        if class == plan.model.class
            && let Some(object) = super::lifetime::reuse(plan.model)
        {
            return object;
        }
        let object: *mut ffi::PyObject = ffi::PyObject_GC_New(class);
        if object.is_null() {
            return object;
        }
        let head = size_of::<ffi::PyObject>();
        object.byte_add(head).cast::<u8>().write_bytes(0, plan.size - head);
        (*object.cast::<Instance>()).model = plan.model;
        object
    }
}

/// Puts a value, which is taken over, into a slot that may hold another.
///
/// # Safety
/// The slot must be one of a live instance.
#[inline]
pub(super) unsafe fn put(slot: *mut *mut ffi::PyObject, value: *mut ffi::PyObject) {
    // SAFETY: by the caller's promise; the former value is released last, as that may run Python code.
    unsafe {
        let former = slot.replace(value);
        ffi::Py_XDECREF(former);
    }
}

/// Lets the collector see the instance, if it does not yet.
///
/// # Safety
/// `object` must be a whole instance.
pub(super) unsafe fn track(object: *mut ffi::PyObject) {
    // SAFETY: a whole object with a collector's head.
    unsafe {
        if ffi::PyObject_GC_IsTracked(object) == 0 {
            ffi::PyObject_GC_Track(object.cast());
        }
    }
}

fn model_of_class(py: Python<'_>, class: *mut ffi::PyTypeObject) -> PyResult<&'static Model> {
    // SAFETY: a live class.
    let class = unsafe { Bound::from_borrowed_ptr(py, class.cast()) };
    super::plan::model_of(&class)
}

/// Runs a slot's body and turns an error into the interpreter's.
fn enter<T>(failed: T, body: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
    // SAFETY: slots are called with the GIL held.
    let py = unsafe { Python::assume_attached() };
    match body(py) {
        Ok(value) => value,
        Err(error) => {
            error.restore(py);
            failed
        }
    }
}

unsafe extern "C" fn tp_new(
    class: *mut ffi::PyTypeObject,
    _args: *mut ffi::PyObject,
    _kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(std::ptr::null_mut(), |py| {
        let model = model_of_class(py, class)?;
        model.plan(py)?;
        // SAFETY: a live class whose instances begin with our head; a new one is zeroed.
        unsafe {
            let object = ffi::PyType_GenericAlloc(class, 0);
            if object.is_null() {
                return Err(PyErr::fetch(py));
            }
            let instance = Instance::of(object);
            instance.model = model;
            instance.flags = NEW;
            Ok(object)
        }
    })
}

unsafe extern "C" fn tp_init(
    object: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> c_int {
    crate::thread_end::never_unwind_this_thread();
    never_unwind_this_thread();
    enter(-1, |py| {
        // SAFETY: `object` is an instance; `args` a tuple and `kwargs` a dict or null, all borrowed.
        unsafe {
            let instance = Instance::of(object);
            let plan = (*instance.model).plan_of(py)?;
            let name = || class_name(plan.model.class);
            if ffi::PyTuple_GET_SIZE(args) > 0 {
                return Err(PyTypeError::new_err(format!(
                    "expected fields of {} by name, found positional arguments",
                    name()
                )));
            }
            if !kwargs.is_null() {
                let kwargs: Bound<'_, PyDict> = Bound::from_borrowed_ptr(py, kwargs).cast_into_unchecked();
                for (key, given) in kwargs.iter() {
                    let mut raw = key.clone().into_ptr();
                    ffi::PyUnicode_InternInPlace(&mut raw);
                    let key = Bound::from_owned_ptr(py, raw);
                    let Some(index) = plan.field_of(key.as_ptr()) else {
                        return Err(PyTypeError::new_err(format!(
                            "expected a field of {}, found {key:?}",
                            name()
                        )));
                    };
                    let field = &plan.fields[index];
                    let made = value::coerce(py, &field.kind, given.as_ptr())
                        .map_err(|fault| located(py, plan, index, fault))?;
                    put(instance.slot(field.offset), made);
                }
            }
            fill(py, object, plan, true)?;
            Ok(0)
        }
    })
}

/// An error of a field's value, with its path.
pub(super) fn located(py: Python<'_>, plan: &Plan, index: usize, fault: Fault) -> PyErr {
    let name = plan.fields[index].attribute.bind(py).to_string();
    into_exception(py, within(fault, Step::Key(name)), None)
}

/// The class's name, for messages.
pub(super) fn class_name(class: *mut ffi::PyTypeObject) -> String {
    // SAFETY: a type's name is a NUL-terminated string.
    let name = unsafe { CStr::from_ptr((*class).tp_name) }.to_string_lossy();
    name.rsplit('.').next().unwrap_or_default().to_owned()
}

impl Model {
    /// As `plan`, for a model reached through an instance: models are leaked, so the reference may be lengthened.
    #[inline]
    pub(super) fn plan_of(&self, py: Python<'_>) -> PyResult<&'static Plan> {
        // SAFETY: every model is leaked when it is made.
        let this: &'static Model = unsafe { &*std::ptr::from_ref(self) };
        this.plan(py)
    }
}

/// A field's default: a new reference.
pub(super) fn default_of(py: Python<'_>, default: &Default) -> PyResult<Option<*mut ffi::PyObject>> {
    // SAFETY: each call returns a new reference or null with the error set.
    let made = unsafe {
        match default {
            Default::Required => return Ok(None),
            Default::Value(value) => value.clone_ref(py).into_ptr(),
            Default::List => ffi::PyList_New(0),
            Default::Dict => ffi::PyDict_New(),
            Default::Set => ffi::PySet_New(std::ptr::null_mut()),
            Default::ObjectId => crate::codec::object_id::fresh(py)?.into_ptr(),
            Default::Factory(factory) => factory.call0(py)?.into_ptr(),
        }
    };
    if made.is_null() { Err(PyErr::fetch(py)) } else { Ok(Some(made)) }
}

/// Fills empty slots with defaults.
///
/// # Safety
/// `object` must be an instance of the plan's model.
unsafe fn fill(py: Python<'_>, object: *mut ffi::PyObject, plan: &Plan, is_new: bool) -> PyResult<()> {
    // SAFETY: by the caller's promise.
    unsafe {
        let instance = Instance::of(object);
        for field in &plan.fields {
            let slot = instance.slot(field.offset);
            if !(*slot).is_null() {
                continue;
            }
            match default_of(py, &field.default)? {
                Some(made) => put(slot, made),
                None if is_new => {
                    let missing: Vec<_> = plan
                        .fields
                        .iter()
                        .filter(|field| {
                            (*instance.slot(field.offset)).is_null()
                                && matches!(field.default, Default::Required)
                        })
                        .map(|field| field.attribute.bind(py).to_string())
                        .collect();
                    let name = class_name(plan.model.class);
                    return Err(PyTypeError::new_err(format!(
                        "expected {} to make a {name}, found no value for it",
                        missing.join(", ")
                    )));
                }
                None => {}
            }
        }
        Ok(())
    }
}

unsafe extern "C" fn tp_setattro(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    given: *mut ffi::PyObject,
) -> c_int {
    crate::thread_end::never_unwind_this_thread();
    never_unwind_this_thread();
    // SAFETY: slots are called with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: `object` is an instance.
    let found = unsafe {
        let model = Instance::of(object).model;
        (*model).plan_of(py).map(|plan| plan.field_of(name).map(|index| (plan, index)))
    };
    match found {
        // SAFETY: what the interpreter would do.
        Ok(None) => unsafe { ffi::PyObject_GenericSetAttr(object, name, given) },
        // SAFETY: an instance of this plan; `given` is borrowed or null.
        Ok(Some((plan, index))) => enter(-1, |py| unsafe { set(py, object, plan, index, given) }),
        Err(error) => {
            error.restore(py);
            -1
        }
    }
}

/// Sets a field and its dirty bit.
///
/// # Safety
/// `object` must be an instance of the plan's model, `given` live or null.
unsafe fn set(
    py: Python<'_>,
    object: *mut ffi::PyObject,
    plan: &'static Plan,
    index: usize,
    given: *mut ffi::PyObject,
) -> PyResult<c_int> {
    let field = &plan.fields[index];
    // SAFETY: by the caller's promise; references into the instance end before Python code can run.
    unsafe {
        if given.is_null() {
            let name = field.attribute.bind(py);
            return Err(PyAttributeError::new_err(format!(
                "cannot delete the field {name:?}; set it to None"
            )));
        }
        if watch::is_on() {
            watch::tell(py, object)?;
        }
        let is_new = Instance::of(object).flags & NEW != 0;
        if field.is_frozen && !is_new {
            let name = field.attribute.bind(py);
            return Err(PyAttributeError::new_err(format!(
                "cannot set the frozen field {name:?} of a stored document"
            )));
        }
        let made = value::coerce(py, &field.kind, given).map_err(|fault| located(py, plan, index, fault))?;
        let instance = Instance::of(object);
        let bit = 1_u128 << index;
        let was_dirty = instance.dirty() & bit != 0;
        instance.set_dirty(index);
        if let Some(state) = instance.state.as_mut() {
            state.pending &= !bit;
        }
        let former = instance.slot(field.offset).replace(made);
        if !former.is_null() {
            if plan.is_document && !is_new && !was_dirty {
                instance.state().old.push((index, former));
            } else {
                ffi::Py_DECREF(former);
            }
        }
        if ffi::PyObject_IS_GC(made) != 0 {
            track(object);
        }
        Ok(0)
    }
}

unsafe extern "C" fn tp_traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: `object` is an instance; what is visited is owned by it.
    unsafe {
        let instance = Instance::of(object);
        let status = if instance.siblings.is_null() { 0 } else { visit(instance.siblings, argument) };
        if status != 0 {
            return status;
        }
        if let Some(state) = instance.known() {
            for (_, value) in &state.old {
                let status = visit(*value, argument);
                if status != 0 {
                    return status;
                }
            }
        }
        // Instances of classes made by a specification own a reference to their class; Python's own subclasses of them
        // visit it themselves.
        0
    }
}

unsafe extern "C" fn tp_clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: `object` is an instance.
    unsafe {
        let instance = Instance::of(object);
        let siblings = std::mem::replace(&mut instance.siblings, std::ptr::null_mut());
        if let Some(state) = instance.state.as_mut() {
            state.forget_old();
        }
        ffi::Py_XDECREF(siblings);
    }
    0
}

unsafe extern "C" fn tp_dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called once, by `subtype_dealloc`, after the slots were cleared; the memory is freed by the allocator of
    // its class, whose reference it gives back.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let instance = Instance::of(object);
        let siblings = std::mem::replace(&mut instance.siblings, std::ptr::null_mut());
        ffi::Py_XDECREF(siblings);
        let state = std::mem::replace(&mut instance.state, std::ptr::null_mut());
        if !state.is_null() {
            Box::from_raw(state).end();
        }
        let class = ffi::Py_TYPE(object);
        match (*class).tp_free {
            Some(free) => free(object.cast()),
            None => ffi::PyObject_GC_Del(object.cast()),
        }
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn meta_getattro(
    class: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `type` does it; of the answer only the class is looked at.
    unsafe {
        let Some(get) = ffi::PyType_Type.tp_getattro else { return std::ptr::null_mut() };
        let found = get(class, name);
        if found.is_null() {
            return found;
        }
        let py = Python::assume_attached();
        let kind = ffi::Py_TYPE(found);
        let is_field = kind == &raw mut ffi::PyMemberDescr_Type
            || FIELD.get(py).is_some_and(|field| kind == field.as_ptr().cast());
        if !is_field {
            return found;
        }
        let key = pyo3::intern!(py, "__expressions__");
        let table = get(class, key.as_ptr());
        if table.is_null() {
            ffi::PyErr_Clear();
            return found;
        }
        let expression = if ffi::PyDict_Check(table) != 0 {
            ffi::PyDict_GetItem(table, name)
        } else {
            std::ptr::null_mut()
        };
        if expression.is_null() {
            ffi::Py_DECREF(table);
            return found;
        }
        ffi::Py_INCREF(expression);
        ffi::Py_DECREF(table);
        ffi::Py_DECREF(found);
        expression
    }
}

fn slot(slot: c_int, function: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot, pfunc: function }
}

fn make_type(
    py: Python<'_>,
    name: &'static CStr,
    size: usize,
    flags: std::ffi::c_ulong,
    slots: &mut [ffi::PyType_Slot],
) -> PyResult<Py<PyType>> {
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: flags as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification's pointers are static or outlive the call, which copies what it keeps.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec))? };
    Ok(class.cast_into::<PyType>()?.unbind())
}

fn make_base(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut slots = [
        slot(ffi::Py_tp_new, tp_new as *mut c_void),
        slot(ffi::Py_tp_init, tp_init as *mut c_void),
        slot(ffi::Py_tp_setattro, tp_setattro as *mut c_void),
        slot(ffi::Py_tp_traverse, tp_traverse as *mut c_void),
        slot(ffi::Py_tp_clear, tp_clear as *mut c_void),
        slot(ffi::Py_tp_dealloc, tp_dealloc as *mut c_void),
        slot(ffi::Py_tp_doc, c"The base of models: slots, dirty bits, raw parts.".as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC;
    make_type(py, c"mangonel._core.OdmBase", size_of::<Instance>(), flags, &mut slots)
}

fn make_meta(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut slots = [
        slot(ffi::Py_tp_base, (&raw mut ffi::PyType_Type).cast()),
        slot(ffi::Py_tp_getattro, meta_getattro as *mut c_void),
        slot(
            ffi::Py_tp_doc,
            c"The class of models: fields read from it are expressions.".as_ptr().cast_mut().cast(),
        ),
        slot(0, std::ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE;
    make_type(py, c"mangonel._core.OdmMeta", 0, flags, &mut slots)
}

/// Adds the classes to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    FIELD.get_or_try_init(py, || field::make_field_class(py))?;
    module.add("OdmBase", BASE.get_or_try_init(py, || make_base(py))?)?;
    module.add("OdmMeta", META.get_or_try_init(py, || make_meta(py))?)?;
    module.add_class::<OdmModel>()?;
    module.add_function(wrap_pyfunction!(field::odm_field, module)?)
}
