//! The internal layout of `dict` in CPython 3.11 to 3.15, to make one from a known set of keys at once.
//!
//! Off, and everything goes through the C API, unless the build compared the structures below with the interpreter's own
//! headers (`layout.c`), the self-test at import passed, and `MANGONEL_DICT_LAYOUT` is not 0. Knows no BSON.
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

static ON: AtomicBool = AtomicBool::new(false);

/// Whether the shared table of empty dicts counts its references (3.11); in later versions it is immortal.
const COUNTS_EMPTY: bool = cfg!(not(Py_3_12));

/// Whether the garbage collector tracks new dicts from the start (3.14); before, once they hold a container.
const TRACKS_ALL: bool = cfg!(Py_3_14);

/// Returns whether the internal layout may be used.
#[inline]
pub(super) fn is_on(_py: Python<'_>) -> bool {
    ON.load(Ordering::Relaxed)
}

/// Switches it on or off.
pub(super) fn switch(is_on: bool) {
    ON.store(is_on, Ordering::Relaxed);
}

/// Tells whether new dicts share their table and are tracked as `COUNTS_EMPTY` and `TRACKS_ALL` say.
///
/// # Safety
/// The structures must be those of this interpreter.
pub(super) unsafe fn empty_dicts_are_known() -> bool {
    // SAFETY: four new dicts of our own, released here. By the caller's promise the structures are right; the tables are only
    // read, under the GIL.
    unsafe {
        let dicts = [ffi::PyDict_New(), ffi::PyDict_New(), ffi::PyDict_New()];
        let is_known = dicts.iter().all(|dict| !dict.is_null()) && {
            let table = |dict: *mut ffi::PyObject| (*dict.cast::<ffi::PyDictObject>()).ma_keys.cast::<Keys>();
            let shared = table(dicts[0]);
            let before = (*shared).references;
            let fourth = ffi::PyDict_New();
            let after = (*shared).references;
            let is_same = dicts.iter().all(|dict| table(*dict) == shared) && table(fourth) == shared;
            ffi::Py_XDECREF(fourth);
            let is_counted = after - before == isize::from(COUNTS_EMPTY) && (*shared).references == before;
            let is_tracked = ffi::PyObject_GC_IsTracked(dicts[0]) != 0;
            is_same && is_counted && is_tracked == TRACKS_ALL && (*shared).entries == 0
        };
        for dict in dicts {
            ffi::Py_XDECREF(dict);
        }
        is_known
    }
}

/// Allocates memory for a table from the interpreter's allocator for tables.
///
/// # Safety
/// The interpreter's lock must be held.
unsafe fn allocate(size: usize) -> *mut Keys {
    // SAFETY: the caller holds the lock; any size may be requested, and null is a valid result.
    unsafe {
        #[cfg(Py_3_13)]
        let memory = ffi::PyMem_Malloc(size);
        #[cfg(not(Py_3_13))]
        let memory = ffi::PyObject_Malloc(size);
        memory.cast()
    }
}

/// Gives back memory from `allocate`.
///
/// # Safety
/// The interpreter's lock must be held; `keys` must come from `allocate` and be in no dict, or be null.
unsafe fn release(keys: *mut Keys) {
    // SAFETY: `keys` is null, or came from the same allocator and is in no dict, so nothing reads it any more.
    unsafe {
        #[cfg(Py_3_13)]
        ffi::PyMem_Free(keys.cast());
        #[cfg(not(Py_3_13))]
        ffi::PyObject_Free(keys.cast());
    }
}

/// `PyDictKeysObject`: this, then the hash table, then the entries.
#[repr(C)]
struct Keys {
    references: isize,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: isize,
    entries: isize,
}

/// `dk_kind` of a table that has only str keys.
const UNICODE: u8 = 1;

/// `PyDictUnicodeEntry`.
#[repr(C)]
struct Entry {
    key: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
}

/// The entries that the smallest table has room for, which is that of most dicts.
const SMALL_ROOM: usize = 5;

/// The part of the smallest table before its entries: `Keys`, and eight one-byte indices.
type SmallHead = [u64; 5];

/// The table of a dict whose keys are all str, to be copied with other values.
pub(super) struct Table {
    /// Owned, and never changed.
    dict: *mut ffi::PyObject,
    keys: *const Keys,
    /// Bytes before the entries.
    head: usize,
    /// Entries there is room for.
    room: usize,
}

impl Table {
    /// Returns the dict.
    pub(super) fn into_dict(self) -> *mut ffi::PyObject {
        self.dict
    }
}

/// Takes over a dict with this many str keys, and reads its table; None leaves it to the caller.
///
/// # Safety
/// `dict` must be an exact dict with no other reference.
pub(super) unsafe fn open(py: Python<'_>, dict: *mut ffi::PyObject, fields: usize) -> Option<Table> {
    if !is_on(py) {
        return None;
    }
    // SAFETY: `is_on`: the build compared the structures with this interpreter's headers, and the self-test found that
    // they hold. This function's callers promise too that `dict` is exact and not referenced elsewhere.
    unsafe { open_unchecked(dict, fields) }
}

/// As `open`, for the self-test.
///
/// # Safety
/// As for `open`; the structures must be those of this interpreter.
pub(super) unsafe fn open_unchecked(dict: *mut ffi::PyObject, fields: usize) -> Option<Table> {
    // SAFETY: by the caller's promise an exact dict, whose structure this is, and which is not referenced elsewhere:
    // neither it nor its table changes from here on, so the address of the table stays good for as long as the dict is
    // owned.
    unsafe {
        let object = dict.cast::<ffi::PyDictObject>();
        let keys = (*object).ma_keys.cast::<Keys>().cast_const();
        let size = 1_usize << (*keys).log2_size;
        let room = size * 2 / 3;
        let is_known = (*object).ma_values.is_null()
            && (*keys).kind == UNICODE
            && (*keys).references == 1
            && (*object).ma_used == fields as isize
            && (*keys).entries == fields as isize
            && (*keys).usable == (room - fields) as isize;
        let head = size_of::<Keys>() + (1 << (*keys).log2_index_bytes);
        is_known.then_some(Table { dict, keys, head, room })
    }
}

/// Makes a dict with the table's keys and these values, which are taken over. A new reference, or null with the error
/// set.
///
/// # Safety
/// There must be as many owned values as keys.
#[inline(always)]
pub(super) unsafe fn dict(
    table: &Table,
    values: &[*mut ffi::PyObject],
    is_container: bool,
) -> *mut ffi::PyObject {
    // SAFETY: the memory is of the size the interpreter would take for such a table, from the allocator it would use,
    // and is filled whole: head, entries, zeros. There are as many values as the template has keys, which `open` found
    // to fit into `room`. The empty dict's shared table loses the reference the dict had.
    unsafe {
        let dict = ffi::PyDict_New();
        let is_small = table.head == size_of::<SmallHead>();
        let keys = if is_small { small_keys(table) } else { large_keys(table, values.len()) };
        if dict.is_null() || keys.is_null() {
            return give_up(dict, keys, values);
        }
        (*keys).version = 0;
        let from = table.keys.byte_add(table.head).cast::<Entry>();
        let to = keys.byte_add(table.head).cast::<Entry>();
        for (index, &value) in values.iter().enumerate() {
            let key = (*from.add(index)).key;
            ffi::Py_INCREF(key);
            to.add(index).write(Entry { key, value });
        }
        let object = dict.cast::<ffi::PyDictObject>();
        if COUNTS_EMPTY {
            (*(*object).ma_keys.cast::<Keys>()).references -= 1;
        }
        (*object).ma_keys = keys.cast();
        (*object).ma_used = values.len() as isize;
        if is_container && !TRACKS_ALL {
            ffi::PyObject_GC_Track(dict.cast());
        }
        dict
    }
}

/// Makes a table with the head of another one and zeros behind the entries, which the caller writes. Null: there is no
/// memory.
///
/// # Safety
/// The interpreter's lock must be held, and the table have room for this many entries.
#[inline(never)]
unsafe fn large_keys(table: &Table, entries: usize) -> *mut Keys {
    // SAFETY: the memory is of the size that the head and `room` entries have; no more of it is written.
    unsafe {
        let keys = allocate(table.head + table.room * size_of::<Entry>());
        if !keys.is_null() {
            std::ptr::copy_nonoverlapping(table.keys.cast::<u8>(), keys.cast::<u8>(), table.head);
            let rest = keys.byte_add(table.head).cast::<Entry>().add(entries);
            std::ptr::write_bytes(rest, 0, table.room - entries);
        }
        keys
    }
}

/// Like `large_keys`, for a table with a `SmallHead`; saves two calls, to copy and to clear.
///
/// # Safety
/// The interpreter's lock must be held, and the table have such a head.
#[inline(always)]
unsafe fn small_keys(table: &Table) -> *mut Keys {
    const ENTRIES: usize = SMALL_ROOM * size_of::<Entry>();
    // SAFETY: a table with such a head has room for `SMALL_ROOM` entries; the memory is of the size that both have, and is
    // filled whole.
    unsafe {
        let keys = allocate(size_of::<SmallHead>() + ENTRIES);
        if !keys.is_null() {
            let (from, to) = (table.keys.cast::<SmallHead>(), keys.cast::<SmallHead>());
            to.write(*from);
            to.add(1).cast::<[u8; ENTRIES]>().write([0; ENTRIES]);
        }
        keys
    }
}

/// # Safety
/// `values` must be owned; `dict` must be owned and new, or null; `keys` as for `release`.
#[cold]
unsafe fn give_up(
    dict: *mut ffi::PyObject,
    keys: *mut Keys,
    values: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: the values were taken over, and the dict and the table are ours or null: each is given back once.
    unsafe {
        for value in values {
            ffi::Py_DECREF(*value);
        }
        ffi::Py_XDECREF(dict);
        release(keys);
        ffi::PyErr_NoMemory()
    }
}

/// Walks over a dict's items, as `PyDict_Next` does and as safe against changes: each step looks at the dict again.
pub(crate) struct Fields {
    dict: *mut ffi::PyObject,
    at: isize,
    is_open: bool,
}

impl Fields {
    /// Starts at the first item.
    ///
    /// # Safety
    /// `dict` must be a dict that outlives this.
    #[inline]
    pub(crate) unsafe fn of(py: Python<'_>, dict: *mut ffi::PyObject) -> Self {
        Self { dict, at: 0, is_open: is_on(py) }
    }

    /// Like `of`, but uses the internal layout even if that is off; for the self-test.
    ///
    /// # Safety
    /// As for `of`; the structures must be those of this interpreter.
    pub(super) unsafe fn opened(dict: *mut ffi::PyObject) -> Self {
        Self { dict, at: 0, is_open: true }
    }

    /// Returns the next key and value, borrowed from the dict.
    ///
    /// # Safety
    /// As for `of`.
    #[inline]
    pub(crate) unsafe fn next(&mut self) -> Option<(*mut ffi::PyObject, *mut ffi::PyObject)> {
        // SAFETY: the dict outlives this (`of`). Where the table is looked into, the structures are this interpreter's:
        // the self-test passed, or is at work. `kind` tells that its entries are of this type; it is read from the dict
        // at each step, and the index compared with their number.
        unsafe {
            if self.is_open {
                let object = self.dict.cast::<ffi::PyDictObject>();
                let keys = (*object).ma_keys.cast::<Keys>();
                if (*object).ma_values.is_null() && (*keys).kind == UNICODE {
                    let head = size_of::<Keys>() + (1 << (*keys).log2_index_bytes);
                    let entries = keys.byte_add(head).cast::<Entry>();
                    while self.at < (*keys).entries {
                        let entry = &raw const *entries.offset(self.at);
                        self.at += 1;
                        // An item that was deleted leaves a hole.
                        if !(*entry).value.is_null() {
                            return Some(((*entry).key, (*entry).value));
                        }
                    }
                    return None;
                }
            }
            self.next_slowly()
        }
    }

    /// # Safety
    /// As for `of`.
    unsafe fn next_slowly(&mut self) -> Option<(*mut ffi::PyObject, *mut ffi::PyObject)> {
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the dict outlives this, as the caller of `of` promised. The position is an index of its entries in either way
        // of walking, and `PyDict_Next` compares it with their number.
        unsafe {
            let found = ffi::PyDict_Next(self.dict, &mut self.at, &mut key, &mut value) != 0;
            found.then_some((key, value))
        }
    }
}

/// The items of a dict, each with its own reference. Code that runs in between may change the dict.
pub(crate) struct Items<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
    fields: Fields,
}

impl<'a, 'py> Items<'a, 'py> {
    /// Starts at the first item.
    pub(crate) fn of(dict: &'a Bound<'py, PyDict>) -> Self {
        // SAFETY: the dict is borrowed for longer than this.
        let fields = unsafe { Fields::of(dict.py(), dict.as_ptr()) };
        Self { dict, fields }
    }
}

impl<'py> Iterator for Items<'_, 'py> {
    type Item = (Bound<'py, PyAny>, Bound<'py, PyAny>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let py = self.dict.py();
        // SAFETY: the dict is borrowed, and key and value get references of their own before anything else runs.
        unsafe {
            let (key, value) = self.fields.next()?;
            Some((Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)))
        }
    }
}
