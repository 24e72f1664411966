//! The shapes of documents seen before: a tree of field names in their order. A document walks down the tree, and the
//! field that followed last time is tried first, so a known shape costs one comparison per field; at the end of the
//! walk, the dict's keys are known before it is made. Knows nothing about values.
//!
//! Bounded: a full tree takes no more shapes, and is emptied after many documents did not fit. So it follows the
//! program's current documents, and data with ever new shapes pays little.
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;

use super::cell::GilCell;
use super::layout::{self, Table};
use super::name::{LONGEST, Name, hash};
use super::text;

/// Set if the name occurs in a document: both bits make the document a DBRef.
pub(super) const HAS_REF: u8 = 1;
pub(super) const HAS_ID: u8 = 2;

const MOST_NODES: usize = 8192;
/// Slots of the index; a power of two, at most half full.
const INDEX: usize = MOST_NODES * 2;
/// Wider documents are not worth a template.
const MOST_FIELDS: u32 = 1024;
/// All templates together, in bytes.
const MOST_MEMORY: usize = 8 << 20;
/// How many documents may find no place before the tree is emptied.
const MOST_REJECTED: usize = 4 * MOST_NODES;
/// Below this many fields a template dict is slower than filling a new one.
const WIDE: u32 = 11;

/// One field name after those of its parents. The fields that a walk reads fill the first cache line.
#[repr(C, align(64))]
pub(super) struct Node {
    name: Name,
    /// The children taken last.
    next: Links,
    /// The first nodes of the last documents that were the value of this field.
    inner: Links,
    parent: *mut Node,
    /// Owned.
    key: *mut ffi::PyObject,
    /// The number of names from the root to here.
    pub(super) fields: u32,
    /// HAS_REF and HAS_ID, if those names occur from the root to here.
    pub(super) marks: u8,
    /// Whether a name occurs twice, so the dict has fewer entries.
    has_duplicate: bool,
    /// Whether a document has ended here.
    was_seen: bool,
    /// The template for dicts of this shape, made when the shape occurs a second time.
    template: Template,
}

/// The nodes to try first; at first the sentinel, which matches nothing.
#[repr(C)]
pub(super) struct Links {
    last: *mut Node,
    /// The one taken before the last: if two shapes alternate, it comes next.
    before: *mut Node,
}

enum Template {
    None,
    /// None is made, since filling a new dict is faster.
    Never,
    /// A dict with these keys, to be copied. Owned.
    Dict(*mut ffi::PyObject),
    /// Such a dict, whose table of keys is filled directly.
    Table(Table),
}

struct Shapes {
    /// Never moves: its capacity is reserved at once. [0] is the sentinel, [1] the root.
    nodes: Vec<Node>,
    /// Node numbers by parent and name; 0 is an empty slot.
    index: Vec<u16>,
    memory: usize,
    rejected: usize,
    /// The number of running decoders, whose nodes must stay.
    active: usize,
}

static SHAPES: GilCell<Shapes> =
    GilCell::new(Shapes { nodes: Vec::new(), index: Vec::new(), memory: 0, rejected: 0, active: 0 });

/// Keeps the nodes alive.
pub(super) struct Walk(());

impl Walk {
    /// Starts using the tree; empties it first if it filled up with shapes that no longer occur.
    pub(super) fn start(py: Python<'_>) -> (Self, *mut Node) {
        // SAFETY: the closure moves memory only; what the nodes owned is handed out, to be released after the borrow. The
        // vector has a root at [1] once it was reset, which it was when it was empty.
        let (root, released) = unsafe {
            SHAPES.with(py, |shapes| {
                let mut released = Vec::new();
                if shapes.active == 0 && (shapes.rejected > MOST_REJECTED || shapes.nodes.is_empty()) {
                    released = shapes.reset();
                }
                shapes.active += 1;
                (shapes.nodes.as_mut_ptr().add(1), released)
            })
        };
        for object in released {
            // SAFETY: the nodes that owned it are gone: strings, and dicts of strings and None, whose end runs no code.
            unsafe { ffi::Py_DECREF(object) };
        }
        (Self(()), root)
    }
}

/// Makes the next use empty the tree.
pub(super) fn forget(py: Python<'_>) {
    // SAFETY: the closure sets a number and runs no Python code.
    unsafe { SHAPES.with(py, |shapes| shapes.rejected = MOST_REJECTED + 1) };
}

impl Drop for Walk {
    fn drop(&mut self) {
        // SAFETY: a walk belongs to a decoder, which holds a `Python`, so the GIL is held; the closure changes a counter.
        unsafe { SHAPES.with(Python::assume_attached(), |shapes| shapes.active -= 1) };
    }
}

impl Links {
    /// Returns the node of the two whose name fits; the next time it is tried first.
    ///
    /// # Safety
    /// `links` must come from a walk that is still alive.
    #[inline(always)]
    pub(super) unsafe fn find(links: *mut Self, fits: impl Fn(&Name) -> bool) -> Option<NonNull<Node>> {
        // SAFETY: nodes, and the sentinel, are neither moved nor dropped while the walk that the caller got `links` from
        // is alive (`reset`), and their names do not change. The links are copied and written through pointers, and
        // under the GIL, so no other walk is at work in them.
        unsafe {
            let Self { last, before } = links.read();
            if fits(&(*last).name) {
                return NonNull::new(last);
            }
            if fits(&(*before).name) {
                links.write(Self { last: before, before: last });
                return NonNull::new(before);
            }
            None
        }
    }

    /// Records a node that `find` did not return, to be tried first the next time.
    ///
    /// # Safety
    /// As for `find`; `node` comes from the same walk.
    #[inline]
    pub(super) unsafe fn remember(links: *mut Self, node: *mut Node) {
        // SAFETY: as in `find`.
        unsafe { links.write(Self { last: node, before: (*links).last }) };
    }
}

impl Node {
    fn new(name: Name, sentinel: *mut Self, parent: *mut Self, key: *mut ffi::PyObject) -> Self {
        Self {
            name,
            next: Links { last: sentinel, before: sentinel },
            inner: Links { last: sentinel, before: sentinel },
            parent,
            key,
            fields: 0,
            marks: 0,
            has_duplicate: false,
            was_seen: false,
            template: Template::None,
        }
    }

    /// Returns the nodes to try for the first name of a document in the field `context`.
    ///
    /// # Safety
    /// `context` must come from a walk that is still alive.
    #[inline(always)]
    pub(super) unsafe fn first(context: *mut Self) -> *mut Links {
        // SAFETY: nodes are neither moved nor dropped while a walk is active (`reset`), and the caller's is.
        unsafe { &raw mut (*context).inner }
    }

    /// Returns the nodes to try after this one.
    ///
    /// # Safety
    /// As for `first`.
    #[inline(always)]
    pub(super) unsafe fn next(node: *mut Self) -> *mut Links {
        // SAFETY: nodes are neither moved nor dropped while the walk that the caller got `node` from is alive.
        unsafe { &raw mut (*node).next }
    }

    /// Returns the node's name.
    ///
    /// # Safety
    /// As for `first`; the name must not outlive the walk.
    #[inline(always)]
    pub(super) unsafe fn name<'w>(node: *mut Self) -> &'w Name {
        // SAFETY: nodes stay where they are while the walk that the caller got `node` from is alive, and their names do
        // not change.
        unsafe { &(*node).name }
    }

    /// Returns the node of another name, made if there is room. `name` includes its NUL. None: the rest of this
    /// document has no shape.
    ///
    /// # Safety
    /// As for `first`.
    pub(super) unsafe fn child(py: Python<'_>, node: *mut Self, name: &[u8]) -> Option<NonNull<Self>> {
        if name.len() > LONGEST || !name.is_ascii() {
            return None;
        }
        // SAFETY: `node` came from a walk that is alive, so it is in the vector. Making an exact str runs no Python
        // code, so the tree may stay borrowed.
        unsafe { SHAPES.with(py, |shapes| shapes.child(node, name)) }
    }

    /// The keys that lead here, in order, borrowed.
    ///
    /// # Safety
    /// As for `first`.
    pub(super) unsafe fn keys(node: *mut Self) -> Vec<*mut ffi::PyObject> {
        // SAFETY: the walk keeps the node and its parents, up to the root, which has no fields.
        unsafe {
            let mut keys = Vec::with_capacity((*node).fields as usize);
            let mut at = node;
            while (*at).fields > 0 {
                keys.push((*at).key);
                at = (*at).parent;
            }
            keys.reverse();
            keys
        }
    }

    /// Makes the dict of these values, which are taken over, also on failure. `is_container`: whether the garbage
    /// collector tracks one of them. A new reference, or null with the error set.
    ///
    /// # Safety
    /// As for `first`; there is one owned value for each name that leads here.
    #[inline(always)]
    pub(super) unsafe fn build(
        py: Python<'_>,
        node: *mut Self,
        values: &[*mut ffi::PyObject],
        is_container: bool,
    ) -> *mut ffi::PyObject {
        // SAFETY: the walk keeps the node. No code replaces a template while it is borrowed: `make_template` is called
        // for nodes without one, and if the collector ran code meanwhile that made one, that code is over, as
        // collections do not nest. There are as many values as names that lead here, which the caller counted, and each
        // is taken over once.
        unsafe {
            match &(*node).template {
                Template::Table(table) => layout::dict(table, values, is_container),
                _ => Self::build_without_table(py, node, values),
            }
        }
    }

    /// # Safety
    /// As for `build`.
    #[inline(never)]
    unsafe fn build_without_table(
        py: Python<'_>,
        node: *mut Self,
        values: &[*mut ffi::PyObject],
    ) -> *mut ffi::PyObject {
        // SAFETY: as in `build`.
        unsafe {
            match &(*node).template {
                Template::Dict(dict) => return refill(ffi::PyDict_Copy(*dict), *dict, values),
                Template::None => {
                    if (*node).was_seen && (*node).fields <= MOST_FIELDS && !(*node).has_duplicate {
                        Self::make_template(py, node);
                    }
                    (*node).was_seen = true;
                }
                Template::Never | Template::Table(_) => {}
            }
            fill(ffi::PyDict_New(), node, values)
        }
    }

    /// Makes the template for dicts of this shape. Changes nothing if that fails or would not be faster.
    ///
    /// # Safety
    /// As for `first`.
    #[cold]
    unsafe fn make_template(py: Python<'_>, node: *mut Self) {
        // SAFETY: a walk that is alive keeps the node and its parents; strings are interned and put into a dict, which
        // runs no Python code.
        unsafe {
            let fields = (*node).fields;
            let is_open = layout::is_on(py);
            if fields == 0 || (!is_open && fields < WIDE) {
                (*node).template = Template::Never;
                return;
            }
            let cost = fields as usize * 40 + 200;
            let has_room = SHAPES.with(py, |shapes| {
                let has_room = shapes.memory + cost <= MOST_MEMORY;
                shapes.memory += if has_room { cost } else { 0 };
                has_room
            });
            if !has_room {
                return;
            }
            // The names of a shape that occurs twice are interned: lookups with a literal then compare addresses.
            let mut at = node;
            while (*at).fields > 0 {
                ffi::PyUnicode_InternInPlace(&raw mut (*at).key);
                at = (*at).parent;
            }
            let dict = ffi::PyDict_New();
            if !dict.is_null()
                && Self::keys(node).into_iter().all(|key| ffi::PyDict_SetItem(dict, key, ffi::Py_None()) == 0)
            {
                (*node).template = match layout::open(py, dict, fields as usize) {
                    Some(table) => Template::Table(table),
                    None if fields >= WIDE => Template::Dict(dict),
                    None => return ffi::Py_DECREF(dict),
                };
                return;
            }
            ffi::PyErr_Clear();
            ffi::Py_XDECREF(dict);
        }
    }
}

/// Replaces the values of a copy of the template, which is taken over. A new reference, or null with the error set.
///
/// # Safety
/// As for `Node::build`; `dict` is owned, or null with the error set.
unsafe fn refill(
    dict: *mut ffi::PyObject,
    template: *mut ffi::PyObject,
    values: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: nothing changes the template, and there are as many values as it has keys; each is released once.
    unsafe {
        let mut is_whole = !dict.is_null();
        let (mut at, mut key) = (0, std::ptr::null_mut());
        for &value in values {
            is_whole = is_whole
                && ffi::PyDict_Next(template, &mut at, &mut key, std::ptr::null_mut()) != 0
                && ffi::PyDict_SetItem(dict, key, value) == 0;
            ffi::Py_DECREF(value);
        }
        if is_whole {
            return dict;
        }
        ffi::Py_XDECREF(dict);
        std::ptr::null_mut()
    }
}

/// Sets the values in the dict; takes over the dict and the values. A new reference, or null with the error set.
///
/// # Safety
/// As for `Node::build`; `dict` is owned, or null with the error set.
pub(super) unsafe fn fill(
    dict: *mut ffi::PyObject,
    node: *mut Node,
    values: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: the parents of `node` live as long as it, and there are as many as values; each value is released once; as
    // many keys are read as were written.
    unsafe {
        let mut is_whole = !dict.is_null();
        let mut set = |key: *mut ffi::PyObject, value: *mut ffi::PyObject| {
            is_whole = is_whole && ffi::PyDict_SetItem(dict, key, value) == 0;
            ffi::Py_DECREF(value);
        };
        const FEW: usize = 32;
        match *values {
            [] => {}
            [only] => set((*node).key, only),
            [first, second] => {
                set((*(*node).parent).key, first);
                set((*node).key, second);
            }
            _ if values.len() <= FEW => {
                let mut keys = [const { MaybeUninit::uninit() }; FEW];
                let keys = &mut keys[..values.len()];
                let mut at = node;
                for key in keys.iter_mut().rev() {
                    key.write((*at).key);
                    at = (*at).parent;
                }
                for (key, value) in keys.iter().zip(values) {
                    set(key.assume_init(), *value);
                }
            }
            _ => {
                for (key, value) in Node::keys(node).into_iter().zip(values) {
                    set(key, *value);
                }
            }
        }
        if is_whole {
            return dict;
        }
        ffi::Py_XDECREF(dict);
        std::ptr::null_mut()
    }
}

impl Shapes {
    /// Empties the tree; returns the objects it owned.
    fn reset(&mut self) -> Vec<*mut ffi::PyObject> {
        let mut released = Vec::new();
        for node in self.nodes.drain(..) {
            released.extend(Some(node.key).filter(|key| !key.is_null()));
            match node.template {
                Template::None | Template::Never => {}
                Template::Dict(dict) => released.push(dict),
                Template::Table(table) => released.push(table.into_dict()),
            }
        }
        self.nodes.reserve_exact(MOST_NODES);
        let sentinel = self.nodes.as_mut_ptr();
        for _ in ["sentinel", "root"] {
            self.nodes.push(Node::new(Name::none(), sentinel, std::ptr::null_mut(), std::ptr::null_mut()));
        }
        self.index.clear();
        self.index.resize(INDEX, 0);
        self.memory = 0;
        self.rejected = 0;
        released
    }

    /// # Safety
    /// `parent` must be a node of this tree.
    unsafe fn child(&mut self, parent: *mut Node, bytes: &[u8]) -> Option<NonNull<Node>> {
        let nodes = self.nodes.as_mut_ptr();
        // SAFETY: the caller promises that `parent` is in the vector, and so are its own parents and the numbers in the index.
        // The vector does not move: its capacity is never exceeded.
        unsafe {
            let seed = parent.offset_from(nodes) as u64;
            let mut slot = hash(bytes, seed.wrapping_mul(0xD6E8_FEB8_6659_FD93)) as usize % INDEX;
            while self.index[slot] != 0 {
                let found = nodes.add(self.index[slot].into());
                if (*found).parent == parent && (*found).name.starts(bytes) {
                    return NonNull::new(found);
                }
                slot = (slot + 1) % INDEX;
            }
            if self.nodes.len() == MOST_NODES || (*parent).fields == MOST_FIELDS {
                self.rejected += 1;
                return None;
            }
            let key = text::ascii(&bytes[..bytes.len() - 1]);
            if key.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            let mut node = Node::new(Name::new(bytes), nodes, parent, key);
            node.fields = (*parent).fields + 1;
            node.marks = (*parent).marks
                | match bytes {
                    b"$ref\0" => HAS_REF,
                    b"$id\0" => HAS_ID,
                    _ => 0,
                };
            node.has_duplicate = (*parent).has_duplicate || Self::leads_to(parent, bytes);
            self.index[slot] = self.nodes.len() as u16;
            self.nodes.push(node);
            NonNull::new(nodes.add(self.nodes.len() - 1))
        }
    }

    /// Returns whether the name is among those from the root to the node.
    ///
    /// # Safety
    /// `node` must be a node of a tree whose nodes are neither moved nor dropped meanwhile.
    unsafe fn leads_to(mut node: *mut Node, bytes: &[u8]) -> bool {
        // SAFETY: a node of the tree, whose parents stand before it in the same vector, up to the root without fields.
        unsafe {
            while (*node).fields > 0 {
                if (*node).name.starts(bytes) {
                    return true;
                }
                node = (*node).parent;
            }
        }
        false
    }
}
