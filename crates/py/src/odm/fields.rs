//! The layout of a model's instance in memory: a head, then a slot for each field, which Python's own member
//! descriptors read at full speed. If a slot is NULL, its value is elsewhere: still raw, or not loaded at all.
//!
//! Instances are reached through a pointer that is copied freely, and read and written one value at a time. No
//! reference into an instance is kept: Python code may run between any two steps and change the instance.
use std::cell::{Cell, Ref, RefCell, RefMut, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use mangonel_proto::session::LostWrite;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::bits::{Bits, IN_PLACE, Rest, WORD};
use super::plan::{Field, HEAD, Model, Plan};
use crate::codec::cell::GilCell;
use crate::codec::fault::{Fault, raised};
use crate::codec::make::{is_collected, is_of};

/// Not in the database, as far as this process knows.
pub(super) const NEW: u64 = 1;
/// Only some fields were loaded.
pub(super) const PARTIAL: u64 = 2;
/// Was deleted.
pub(super) const DELETED: u64 = 4;
/// The program changed the unknown keys.
pub(super) const EXTRA_SET: u64 = 8;
/// A save is running: its changes were taken out, and no other save may begin.
pub(super) const SAVING: u64 = 16;
/// It is unknown whether the last save was stored.
pub(super) const UNCERTAIN: u64 = 32;
/// The running save depends on the stored document.
pub(super) const GUARDED: u64 = 64;
/// If the running save's query matches the document, it must change it.
pub(super) const MODIFIES: u64 = 128;

/// From here on, a bit for each of the first fields: the database had null where the field could be absent.
const WAS_NULL: u32 = 8;

/// The number of fields with such a bit; the bits of the others are in the state.
const NULLS: usize = (u64::BITS - WAS_NULL) as usize;

/// The class below every model, once it is made.
pub(super) static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Tells whether an object is an instance of a model.
#[inline]
pub(super) fn is_instance(object: &Bound<'_, PyAny>) -> bool {
    BASE.get(object.py()).is_some_and(|base| is_of(object, base))
}

/// The head of every instance. All of it may change behind a shared reference.
#[repr(C)]
pub(super) struct Instance {
    head: UnsafeCell<ffi::PyObject>,
    /// The model of its class.
    model: &'static Model,
    /// Which of the first fields were set since it was loaded or saved; the others are in the state.
    dirty: Cell<[u64; 2]>,
    flags: Cell<u64>,
    /// The state that few instances need; None until then. The instance owns the box.
    state: Cell<Option<NonNull<RefCell<State>>>>,
    /// The siblings loaded together with it, for references, or the place from which it was loaded.
    siblings: Cell<Option<Py<PyAny>>>,
}

const _: () = assert!(size_of::<Instance>() == HEAD);

impl Instance {
    /// Writes the head of a new instance, behind the object's own.
    ///
    /// # Safety
    /// `object` must be new memory of at least this size, not referenced elsewhere.
    #[inline]
    pub(super) unsafe fn begin(object: *mut ffi::PyObject, model: &'static Model, flags: u64) {
        let this = object.cast::<Instance>();
        // SAFETY: the memory is new and at least of this size, so the places are there, and nothing in them has to be
        // released; nothing else reads them yet.
        unsafe {
            (&raw mut (*this).model).write(model);
            (&raw mut (*this).dirty).write(Cell::new([0; 2]));
            (&raw mut (*this).flags).write(Cell::new(flags));
            (&raw mut (*this).state).write(Cell::new(None));
            (&raw mut (*this).siblings).write(Cell::new(None));
        }
    }
}

/// The state that few instances need.
#[derive(Default)]
pub(super) struct State {
    /// The document as it was loaded or written.
    pub raw: Vec<u8>,
    /// Fields whose values are still in `raw` only.
    pub pending: Bits,
    /// Whether the program gave these values (`packing`), so they were not loaded.
    pub is_packed: bool,
    /// Fields that were set and saved, in order: type and value, newer than `raw`; None if removed.
    pub saved: Vec<(usize, Option<Vec<u8>>)>,
    /// Whole elements of keys that no field has.
    pub extra: Vec<u8>,
    /// The value of `extra` at the start of the running save, if it is part of the save.
    pub sent_extra: Option<Vec<u8>>,
    /// The last saved value of `extra`, newer than `raw`.
    pub stored_extra: Option<Vec<u8>>,
    /// Fields of an embedded document that were not stored and got their defaults.
    pub absent: Bits,
    /// Fields being sent to the server: their dirty bits are cleared, and set again if it refuses.
    pub sent: Bits,
    /// The dirty fields for which the head has no room.
    dirty: Rest,
    /// The null fields for which the head has no room.
    nulls: Rest,
    /// The next value of `saved`, if the server accepts the save.
    pub draft: Vec<(usize, Option<Vec<u8>>)>,
    /// The conditions of the running update, as elements of a query.
    pub guard: Vec<u8>,
    /// A save whose outcome is unknown, while the server may still carry it out.
    pub lost: Option<Box<LostWrite>>,
    /// The values of fields before they were first set.
    pub old: Vec<(usize, Py<PyAny>)>,
}

impl State {
    /// The saved value of a field, if it was saved since its document was loaded; an inner None means
    /// removed.
    pub(super) fn kept(&self, index: usize) -> Option<&Option<Vec<u8>>> {
        let at = self.saved.binary_search_by_key(&index, |(saved, _)| *saved).ok()?;
        Some(&self.saved[at].1)
    }

    /// Records the saved value of a field.
    pub(super) fn keep(&mut self, index: usize, value: Option<Vec<u8>>) {
        match self.saved.binary_search_by_key(&index, |(saved, _)| *saved) {
            Ok(at) => self.saved[at].1 = value,
            Err(at) => self.saved.insert(at, (index, value)),
        }
    }
}

/// Releases values taken out of a state: this may run Python code that reads the state.
pub(super) fn release(py: Python<'_>, old: Vec<(usize, Py<PyAny>)>) {
    for (_, value) in old {
        // Slots are called by the interpreter, so pyo3 does not know that the GIL is held: `py` does.
        value.drop_ref(py);
    }
}

/// States of released instances, empty, with room for the bytes of a document: two allocations fewer for each.
#[expect(clippy::vec_box, reason = "the boxes themselves are what is kept")]
static SPARE: GilCell<Vec<Box<RefCell<State>>>> = GilCell::new(Vec::new());

/// The number of states kept, and the most room that one may keep.
const SPARES: usize = 512;
const SPARE_ROOM: usize = 4096;

fn spare_state() -> Box<RefCell<State>> {
    // SAFETY: a thread with an instance holds the GIL; moving a box out of the list runs no Python code.
    let spare = unsafe { SPARE.with(Python::assume_attached(), Vec::pop) };
    spare.unwrap_or_default()
}

/// Ends a state: releases the objects that it refers to, and keeps its memory for another.
pub(super) fn end(py: Python<'_>, mut spare: Box<RefCell<State>>) {
    let state = spare.get_mut();
    for (_, value) in state.old.drain(..) {
        value.drop_ref(py);
    }
    if state.raw.capacity() > SPARE_ROOM {
        return;
    }
    state.raw.clear();
    state.extra.clear();
    state.sent_extra = None;
    state.stored_extra = None;
    state.saved.clear();
    state.draft.clear();
    state.guard.clear();
    state.lost = None;
    state.pending.clear();
    state.is_packed = false;
    state.sent.clear();
    state.absent.clear();
    state.dirty.clear();
    state.nulls.clear();
    // SAFETY: the box that is moved into the list holds bytes and numbers only, so nothing here runs Python code; where
    // the list is full, the box is freed after the borrow.
    unsafe {
        SPARE.with(py, |spares| {
            if spares.len() < SPARES {
                spares.push(spare);
            }
        });
    }
}

/// An instance, through a pointer. Its lifetime is that of the reference that keeps the instance alive.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    at: NonNull<Instance>,
    kept: PhantomData<&'a Py<PyAny>>,
}

impl<'a> Head<'a> {
    /// # Safety
    /// `object` must be an instance of a model, whose head was written, and live for `'a`. The GIL must be held.
    #[inline(always)]
    pub(super) unsafe fn of(object: *mut ffi::PyObject) -> Self {
        // SAFETY: `object` is a live object, and so not null.
        Head { at: unsafe { NonNull::new_unchecked(object.cast()) }, kept: PhantomData }
    }

    #[inline(always)]
    fn head(self) -> &'a Instance {
        // SAFETY: the instance lives for `'a`. Everything in it that changes is a cell, so other references and the
        // interpreter may change it meanwhile; the GIL, which a thread with a `Head` holds, keeps other threads away.
        unsafe { self.at.as_ref() }
    }

    #[inline]
    pub(super) fn model(self) -> &'static Model {
        self.head().model
    }

    #[inline]
    pub(super) fn flags(self) -> u64 {
        self.head().flags.get()
    }

    #[inline]
    pub(super) fn set_flags(self, flags: u64) {
        self.head().flags.set(flags);
    }

    #[inline]
    pub(super) fn add_flags(self, flags: u64) {
        self.set_flags(self.flags() | flags);
    }

    /// The fields that were set since it was loaded or saved.
    #[inline]
    pub(super) fn dirty(self) -> Bits {
        let rest = self.known().map_or_else(Rest::default, |state| state.dirty.clone());
        Bits::of(self.head().dirty.get(), rest)
    }

    #[inline]
    pub(super) fn set_dirty(self, dirty: Bits) {
        let (first, rest) = dirty.into_parts();
        self.head().dirty.set(first);
        if !rest.is_empty() {
            self.state().dirty = rest;
        } else if let Some(mut state) = self.known_mut() {
            state.dirty = rest;
        }
    }

    #[inline]
    pub(super) fn clear_dirty(self) {
        self.head().dirty.set([0; 2]);
        if let Some(mut state) = self.known_mut() {
            state.dirty.clear();
        }
    }

    #[inline]
    pub(super) fn has_dirty(self) -> bool {
        self.head().dirty.get() != [0; 2] || self.known().is_some_and(|state| !state.dirty.is_empty())
    }

    #[inline]
    pub(super) fn is_dirty(self, index: usize) -> bool {
        match self.head().dirty.get().get(index / WORD) {
            Some(word) => word & 1 << (index % WORD) != 0,
            None => self.known().is_some_and(|state| state.dirty.has(index - IN_PLACE)),
        }
    }

    #[inline]
    pub(super) fn add_dirty(self, index: usize) {
        let mut first = self.head().dirty.get();
        match first.get_mut(index / WORD) {
            Some(word) => *word |= 1 << (index % WORD),
            None => self.state().dirty.add(index - IN_PLACE),
        }
        self.head().dirty.set(first);
    }

    /// Whether a field was null in the database where it could be absent.
    #[inline]
    pub(super) fn was_null(self, index: usize) -> bool {
        if index < NULLS {
            self.flags() & 1 << (WAS_NULL + index as u32) != 0
        } else {
            self.known().is_some_and(|state| state.nulls.has(index - NULLS))
        }
    }

    #[inline]
    pub(super) fn add_null(self, index: usize) {
        if index < NULLS {
            self.add_flags(1 << (WAS_NULL + index as u32));
        } else {
            self.state().nulls.add(index - NULLS);
        }
    }

    #[inline]
    fn state_cell(self) -> Option<&'a RefCell<State>> {
        // SAFETY: the box is the instance's own and stays until the instance ends (`take_state`) or is exchanged whole
        // with another (`swap`); neither happens while a borrow of it lasts, as no borrow lasts over Python code.
        self.head().state.get().map(|state| unsafe { state.as_ref() })
    }

    /// The state, made when there is none. Release it before Python code runs, which might need it.
    #[inline]
    pub(super) fn state(self) -> RefMut<'a, State> {
        if self.head().state.get().is_none() {
            self.head().state.set(NonNull::new(Box::into_raw(spare_state())));
        }
        match self.state_cell() {
            Some(state) => state.borrow_mut(),
            None => unreachable!("the state was just set"),
        }
    }

    /// The state, if there is one; release it like `state`.
    #[inline]
    pub(super) fn known(self) -> Option<Ref<'a, State>> {
        self.state_cell().map(RefCell::borrow)
    }

    /// The state for changes, if there is one; release it like `state`.
    #[inline]
    pub(super) fn known_mut(self) -> Option<RefMut<'a, State>> {
        self.state_cell().map(RefCell::borrow_mut)
    }

    /// The state, if there is one and it is not borrowed; for the collector, which may run at any time.
    pub(super) fn idle_state(self) -> Option<Ref<'a, State>> {
        self.state_cell().and_then(|state| state.try_borrow().ok())
    }

    /// Takes the state out of an instance that is being released.
    #[inline]
    pub(super) fn take_state(self) -> Option<Box<RefCell<State>>> {
        // SAFETY: `state` made it of a box, and nothing else can find it any more.
        self.head().state.take().map(|state| unsafe { Box::from_raw(state.as_ptr()) })
    }

    /// Whether a field's value is still raw.
    #[inline]
    pub(super) fn is_pending(self, index: usize) -> bool {
        self.known().is_some_and(|state| state.pending.has(index))
    }

    /// Forgets the former values.
    pub(super) fn forget_old(self, py: Python<'_>) {
        let old = self.known_mut().map(|mut state| std::mem::take(&mut state.old));
        release(py, old.unwrap_or_default());
    }

    /// The siblings loaded with it, or the place from which it was loaded.
    pub(super) fn siblings<'py>(self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.head().siblings.take().map(|siblings| {
            let found = siblings.bind(py).clone();
            self.head().siblings.set(Some(siblings));
            found
        })
    }

    /// Like `siblings`, for the collector to visit.
    pub(super) fn siblings_ptr(self) -> Option<*mut ffi::PyObject> {
        let siblings = self.head().siblings.take();
        let found = siblings.as_ref().map(Py::as_ptr);
        self.head().siblings.set(siblings);
        found
    }

    /// Sets its siblings or its place; returns the former ones.
    #[inline]
    pub(super) fn replace_siblings<'py>(
        self,
        py: Python<'py>,
        siblings: Option<Bound<'py, PyAny>>,
    ) -> Option<Bound<'py, PyAny>> {
        let former = self.head().siblings.replace(siblings.map(Bound::unbind));
        former.map(|former| former.into_bound(py))
    }

    /// Lets the collector track the instance, if it does not yet.
    pub(super) fn track(self) {
        let object = self.at.as_ptr().cast::<ffi::PyObject>();
        // SAFETY: a live object whose class has the collector's head. Its slots hold objects or null throughout.
        unsafe {
            if ffi::PyObject_GC_IsTracked(object) == 0 {
                ffi::PyObject_GC_Track(object.cast());
            }
        }
    }

    /// The slot at this offset of the instance.
    #[inline(always)]
    fn place(self, offset: usize) -> *mut *mut ffi::PyObject {
        self.at.as_ptr().wrapping_byte_add(offset).cast()
    }

    /// Takes the object out of a slot.
    ///
    /// # Safety
    /// `offset` must be that of a slot of the instance's class.
    #[inline]
    pub(super) unsafe fn take_slot<'py>(self, py: Python<'py>, offset: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the offset is that of a slot of the instance's class, so there is null or a reference that the
        // instance owns. It is ours now: null is left in its place.
        unsafe { Bound::from_owned_ptr_or_opt(py, self.place(offset).replace(std::ptr::null_mut())) }
    }
}

/// The fields of an instance, by the plan of its model.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    head: Head<'a>,
    /// Compiled of the instance's class: the offsets in it lie within the instance.
    pub plan: &'static Plan,
}

impl<'a> Deref for Fields<'a> {
    type Target = Head<'a>;

    #[inline(always)]
    fn deref(&self) -> &Head<'a> {
        &self.head
    }
}

impl<'a> Fields<'a> {
    /// The fields of an object, if it is an instance of a model.
    pub(super) fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if !is_instance(object) {
            let found = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected an instance of a model, got {found}")));
        }
        // SAFETY: just checked, and borrowed for `'a` from a reference.
        unsafe { Self::at(object.py(), object.as_ptr()) }
    }

    /// The fields of an instance, from a pointer that the interpreter passes.
    ///
    /// # Safety
    /// `object` must be an instance of a model that lives for `'a`.
    #[inline]
    pub(super) unsafe fn at(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: `object` is an instance of a model: each constructor writes its head at once. It lives for `'a`, and
        // `py` shows that the GIL is held.
        let head = unsafe { Head::of(object) };
        Ok(Fields { head, plan: head.model().plan(py)? })
    }

    /// The fields of an instance whose plan is known.
    ///
    /// # Safety
    /// `object` must have been made by `create` with this plan.
    #[inline(always)]
    pub(super) unsafe fn of_new(object: &'a Bound<'_, PyAny>, plan: &'static Plan) -> Self {
        // SAFETY: `create` made it, and wrote its head; the reference that is borrowed keeps it alive for `'a`, and a
        // `Bound` shows that the GIL is held.
        Fields { head: unsafe { Head::of(object.as_ptr()) }, plan }
    }

    /// Returns whether a field's slot has a value.
    #[inline]
    pub(super) fn has(self, index: usize) -> bool {
        // SAFETY: the plan's offsets are of slots of this class; the address alone is looked at.
        unsafe { !self.place(self.plan.fields[index].offset).read().is_null() }
    }

    /// The value in a field's slot.
    #[inline]
    pub(super) fn value<'py>(self, py: Python<'py>, index: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the plan's offsets are of slots of this class, which hold null or a reference of the instance's; the
        // result holds another one.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.place(self.plan.fields[index].offset).read()) }
    }

    /// Every field with the value in its slot at the time of its step.
    #[inline(always)]
    pub(super) fn each<'py>(
        self,
        py: Python<'py>,
    ) -> impl Iterator<Item = (usize, &'static Field, Option<Bound<'py, PyAny>>)> {
        self.plan.fields.iter().enumerate().map(move |(index, field)| {
            // SAFETY: `field` is one of the plan's, whose offsets are of slots of this class: they hold null or a
            // reference of the instance's. The result holds another one.
            let value = unsafe { Bound::from_borrowed_ptr_or_opt(py, self.place(field.offset).read()) };
            (index, field, value)
        })
    }

    /// Puts a value into a field's slot; returns the former value.
    #[inline]
    pub(super) fn replace<'py>(self, index: usize, value: Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the offset is that of one of the plan's fields: the index was just looked up there. The reference
        // that the slot owned is handed to the caller.
        unsafe { self.replace_at(self.plan.fields[index].offset, value) }
    }

    /// Puts a value into a slot; returns the former value.
    ///
    /// # Safety
    /// `offset` must be that of a field of the plan.
    #[inline(always)]
    pub(super) unsafe fn replace_at<'py>(
        self,
        offset: usize,
        value: Bound<'py, PyAny>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = value.py();
        // SAFETY: the offset is that of a field of the plan, and so of a slot of this class, which holds null or a
        // reference of the instance's. It is the result's now, and that of `value` the slot's.
        unsafe { Bound::from_owned_ptr_or_opt(py, self.place(offset).replace(value.into_ptr())) }
    }

    /// Puts a value into a field's slot, and lets the collector track the instance if it tracks the value.
    pub(super) fn put(self, index: usize, value: Bound<'_, PyAny>) {
        let is_collected = is_collected(&value);
        // The former value is released last, since that may run Python code.
        let _former = self.replace(index, value);
        if is_collected {
            self.track();
        }
    }

    /// Exchanges everything with another instance of the same plan.
    pub(super) fn swap(self, other: Fields<'_>) -> PyResult<()> {
        if !std::ptr::eq(self.plan, other.plan) {
            return Err(PyTypeError::new_err("expected two instances of the same model"));
        }
        let (one, two) = (self.head.head(), other.head.head());
        one.dirty.swap(&two.dirty);
        one.flags.swap(&two.flags);
        one.state.swap(&two.state);
        one.siblings.swap(&two.siblings);
        for field in &self.plan.fields {
            // SAFETY: the same slot of two instances of one class, or of one instance: references are moved, none is
            // lost.
            unsafe { std::ptr::swap(self.place(field.offset), other.place(field.offset)) };
        }
        self.track();
        other.track();
        Ok(())
    }
}

/// Makes an instance with empty slots, which the collector does not track yet; partly loaded instances are of the
/// hidden class.
#[inline]
pub(super) fn create<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    is_partial: bool,
) -> Result<Bound<'py, PyAny>, Fault> {
    let model = plan.model;
    let class = if is_partial { model.partial_class(py)? } else { &model.class };
    if !is_partial && let Some(object) = reuse(py, model) {
        return Ok(object);
    }
    // SAFETY: memory of the class's size, which is the plan's (`set_partial` compared that of the hidden class), with
    // the object's head set by the interpreter; all behind it is written here, slots with null. The reference is ours.
    unsafe {
        let object: *mut ffi::PyObject = ffi::PyObject_GC_New(class.as_ptr().cast());
        if object.is_null() {
            return Err(raised(py));
        }
        Instance::begin(object, model, 0);
        object.byte_add(HEAD).cast::<u8>().write_bytes(0, plan.size - HEAD);
        Ok(Bound::from_owned_ptr(py, object))
    }
}

/// A released instance, complete and empty, for reuse.
#[inline]
fn reuse<'py>(py: Python<'py>, model: &'static Model) -> Option<Bound<'py, PyAny>> {
    let object = model.free.try_borrow_mut().ok()?.pop()?;
    // SAFETY: `lifetime` kept it, whole but for its reference count of 0, which becomes 1: the reference that is
    // returned. Every slot is null, it has no state, and it owns a reference to its class.
    unsafe {
        ffi::Py_INCREF(object);
        let head = Head::of(object);
        head.head().dirty.set([0; 2]);
        head.set_flags(0);
        Some(Bound::from_owned_ptr(py, object))
    }
}
