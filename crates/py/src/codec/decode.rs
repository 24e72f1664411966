//! BSON bytes to Python objects, hot path: documents, arrays and the common values. Every length is checked against the
//! end of the enclosing document before it is used, so any bytes give a value or `InvalidBSON`.
//! Spec: bsonspec.org. The rarer values are in `decode_rare`.
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;

use super::fault::{Fault, Kind, MAX_DEPTH, Step, found, invalid, within};
use super::key_cache;
use super::make::{self, Made, owned};
use super::name::{HEAD, LONGEST, Name, is_ascii};
use super::options::{Codec, DatetimeConversion, DocumentClass};
use super::shapes::{HAS_ID, HAS_REF, Links, Node, Walk};
use super::stack::Stack;
use super::{datetime, object_id, objects, text};

/// Element types whose values the garbage collector does not track: numbers, text, dates, ids.
const ATOMIC: u32 =
    1 << 0x01 | 1 << 0x02 | 1 << 0x06 | 1 << 0x07 | 1 << 0x08 | 1 << 0x0A | 1 << 0x10 | 1 << 0x12;

/// Both names of a DBRef.
const HAS_DBREF: u8 = HAS_REF | HAS_ID;

/// The bytes that are read without looking for the end of each: a type and the head of a name, or a length.
const AHEAD: usize = 1 + HEAD;

/// The shortest document: a length and a NUL.
const SHORTEST: usize = 5;

/// One decoding of one buffer.
pub(crate) struct Decoder<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) codec: &'a Codec,
    pub(crate) data: &'a [u8],
    /// The object whose bytes are exactly `data`: a `bytes` object or a view of one.
    pub(super) owner: Option<&'a Bound<'py, PyAny>>,
    /// 0 <= position <= end of the enclosing document <= data.len()
    pub(crate) position: usize,
    depth: u32,
    /// Any position before this one has more than `AHEAD` bytes of `data` after it.
    narrow: usize,
    /// Values of the open documents and arrays.
    values: Stack<'py>,
    /// The root of the tree of shapes; valid while `_walk` lives.
    root: *mut Node,
    /// The field whose value is being read: embedded documents under one field mostly begin with the same name.
    context: *mut Node,
    _walk: Walk,
    pub(crate) object_id: *mut ffi::PyTypeObject,
    /// Element types whose values need no look at whether the garbage collector tracks them.
    atomic: u32,
    /// 0 if text and documents are made without asking for options: no type decoders, documents are dicts, `objects`
    /// may be used. Otherwise a bit that no element type has.
    options: u32,
    /// Whether dates and Int64 may be made without their constructors.
    makes_dates: bool,
    makes_ints: bool,
}

impl<'a, 'py> Decoder<'a, 'py> {
    pub(crate) fn new(py: Python<'py>, codec: &'a Codec, data: &'a [u8]) -> Self {
        let (walk, root) = Walk::start(py);
        let are_known = objects::is_on();
        let are_converted = codec.decoders.is_some();
        let makes_dicts = !are_converted && matches!(codec.document_class, DocumentClass::Dict);
        let are_plain = matches!(codec.dates, DatetimeConversion::Datetime | DatetimeConversion::Clamp);
        Self {
            py,
            codec,
            data,
            owner: None,
            position: 0,
            depth: 0,
            narrow: data.len().saturating_sub(AHEAD),
            values: Stack::new(py),
            root,
            context: root,
            _walk: walk,
            object_id: object_id::class_ptr(py),
            // A type decoder may return anything. `dict` itself treats dicts as what they are.
            atomic: match are_converted {
                true => 0,
                false => ATOMIC | u32::from(are_plain) << 0x09 | u32::from(makes_dicts) << 0x03,
            },
            options: u32::from(!(makes_dicts && are_known)) << 8,
            makes_dates: are_known,
            makes_ints: are_known && codec.types.int64_is_plain,
        }
    }

    /// Lets raw documents be views of this object, whose bytes are exactly those to decode.
    pub(super) fn owned_by(mut self, owner: Option<&'a Bound<'py, PyAny>>) -> Self {
        self.owner = owner;
        self
    }

    /// Decodes the document that fills the whole buffer.
    pub(crate) fn whole(&mut self) -> Made<'py> {
        let made = self.next(self.data.len())?;
        self.finish(made)
    }

    /// Checks that nothing is left.
    fn finish(&self, made: Bound<'py, PyAny>) -> Made<'py> {
        match self.data.len() - self.position {
            0 => Ok(made),
            rest => Err(invalid(self.position, format!("{rest} bytes left after the document"))),
        }
    }

    /// Decodes the fields of the document that fills the buffer into a dict, regardless of the document class.
    pub(crate) fn fields(&mut self) -> Made<'py> {
        let end = self.open(self.data.len())?;
        let made = self.dict(end, false)?;
        self.finish(made)
    }

    /// Decodes the document at the position, which ends before `limit`, as the document class.
    pub(crate) fn next(&mut self, limit: usize) -> Made<'py> {
        self.document(limit, false)
    }

    /// As `next`; an embedded document with `$ref` and `$id` is a DBRef.
    #[inline(always)]
    fn document(&mut self, limit: usize, is_embedded: bool) -> Made<'py> {
        let start = self.position;
        let end = self.open(limit)?;
        match &self.codec.document_class {
            DocumentClass::Dict => self.dict(end, is_embedded),
            DocumentClass::Mapping(class) => self.mapping(class, end, is_embedded),
            DocumentClass::Raw(class) => {
                let made = self.raw(class, start, end)?;
                self.close();
                Ok(made)
            }
        }
    }

    /// An embedded document.
    #[inline(never)]
    pub(crate) fn embedded(&mut self, limit: usize) -> Made<'py> {
        self.document(limit, true)
    }

    /// Steps over the final NUL; `marks` are the flags of the document's names.
    #[inline(always)]
    fn closed(&mut self, made: Bound<'py, PyAny>, marks: u8, is_embedded: bool) -> Made<'py> {
        self.close();
        if marks == HAS_DBREF && is_embedded {
            return self.dbref(made);
        }
        Ok(made)
    }

    /// Checks the length at the position and steps into the document; returns where its final NUL is.
    #[inline]
    pub(crate) fn open(&mut self, limit: usize) -> Result<usize, Fault> {
        let start = self.position;
        let length = self.length(limit)?;
        if length < SHORTEST || length > limit - start {
            return Err(self.bad_document_length(start, length, limit));
        }
        let end = start + length - 1;
        // SAFETY: start <= end < limit <= data.len(), as every limit is the end of a document or of the buffer.
        if unsafe { *self.data.get_unchecked(end) } != 0 {
            return Err(invalid(end, "bad eoo: document does not end in NUL"));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(end)
    }

    /// Steps over the final NUL.
    #[inline]
    pub(crate) fn close(&mut self) {
        self.position += 1;
        self.depth -= 1;
    }

    /// Returns the current place, for `go_back`.
    #[inline]
    pub(crate) fn mark(&self) -> (usize, u32) {
        (self.position, self.depth)
    }

    /// Returns to such a mark, from between two values.
    #[inline]
    pub(crate) fn go_back(&mut self, mark: (usize, u32)) {
        (self.position, self.depth) = mark;
    }

    /// The document whose fields begin at the position and whose final NUL is at `end`, as a dict.
    ///
    /// Most values are text or documents, so these come first.
    #[inline(never)]
    fn dict(&mut self, end: usize, is_embedded: bool) -> Made<'py> {
        let base = self.values.height();
        let mut position = self.position;
        let mut node = self.root;
        // SAFETY: `context` is the root or a node that the walk came to, and `_walk` keeps every node where it is for
        // as long as this decoder lives.
        let mut links = unsafe { Node::first(self.context) };
        let mut is_container = false;
        let fault = loop {
            if position >= end {
                // SAFETY: `_walk` keeps the node. Each round stepped to one node and kept one value, or left with the
                // error, so above `base` there are as many values as names that lead to it.
                let (made, marks) = unsafe { (self.values.dict(node, base, is_container)?, (*node).marks) };
                self.position = end;
                return self.closed(made, marks, is_embedded);
            }
            node = match self.known(links, position, end) {
                Some(known) => known.as_ptr(),
                None => match self.child(node, links, position + 1, end)? {
                    Some(child) => child.as_ptr(),
                    None => {
                        self.position = position;
                        return self.dict_without_shape(node, base, end, is_embedded);
                    }
                },
            };
            // SAFETY: position < end < data.len(), as `open` checked; `_walk` keeps `node`, which came out of the tree.
            let (kind, name) = unsafe { (*self.data.get_unchecked(position), Node::name(node)) };
            position += 1 + name.length();
            // SAFETY: as above.
            links = unsafe { Node::next(node) };
            let quick = u32::from(kind) | self.options;
            if quick == 0x02
                && let Some(text) = self.text_ahead(position, end)
                // SAFETY: `options`: the self-test of `objects` passed.
                && let Some(made) = unsafe { text::of_ascii(text) }
            {
                // SAFETY: a new reference, or null with the error set.
                match unsafe { owned(self.py, made) } {
                    Ok(value) => self.values.keep(value)?,
                    Err(fault) => break fault,
                }
                position += 4 + text.len() + 1;
                continue;
            }
            self.position = position;
            self.context = node;
            let made = if quick == 0x03 {
                is_container = true;
                match self.open(end) {
                    Ok(end) => self.dict(end, true),
                    Err(fault) => Err(fault),
                }
            } else {
                self.any_value(kind, end, &mut is_container)
            };
            position = self.position;
            match made {
                Ok(value) => self.values.keep(value)?,
                Err(fault) => break fault,
            }
        };
        self.values.release(base);
        // SAFETY: a node of the tree, which `_walk` keeps.
        let name = unsafe { Node::name(node) }.text();
        Err(within(fault, Step::Key(String::from_utf8_lossy(&name).into_owned())))
    }

    /// The next bytes, unless the buffer ends before.
    #[inline(always)]
    fn ahead(&self, position: usize) -> Option<&'a [u8; AHEAD]> {
        // SAFETY: `narrow` is at most data.len() - AHEAD, or 0. Any bytes are a valid array.
        (position < self.narrow).then(|| unsafe { &*self.data.as_ptr().add(position).cast() })
    }

    /// Of the nodes that were taken last, the one that is named like the field at the position.
    #[inline(always)]
    fn known(&self, links: *mut Links, position: usize, end: usize) -> Option<NonNull<Node>> {
        let Some([_, head @ ..]) = self.ahead(position) else {
            return self.known_at_end(links, position, end);
        };
        let fits = |name: &Name| {
            name.fits(head)
                && position + name.length() < end
                && (name.length() <= HEAD || name.rest_fits(&self.data[position + 1 + HEAD..]))
        };
        // SAFETY: `links` are those of a node of the tree, which `_walk` keeps.
        unsafe { Links::find(links, fits) }
    }

    #[inline(never)]
    fn known_at_end(&self, links: *mut Links, position: usize, end: usize) -> Option<NonNull<Node>> {
        // SAFETY: as in `known`.
        unsafe { Links::find(links, |name| name.starts(&self.data[position + 1..end])) }
    }

    /// The node of the name that starts here, made if there is room in the tree.
    #[inline(never)]
    fn child(
        &self,
        node: *mut Node,
        links: *mut Links,
        name_at: usize,
        end: usize,
    ) -> Result<Option<NonNull<Node>>, Fault> {
        let length = self.name_length(name_at, end)?;
        let name = &self.data[name_at..name_at + length];
        // SAFETY: `node` and `links` came out of the tree, and so does `child`: `_walk` keeps them.
        unsafe {
            let child = Node::child(self.py, node, name);
            if let Some(child) = child {
                Links::remember(links, child.as_ptr());
            }
            Ok(child)
        }
    }

    /// The bytes of the string at the position, without its NUL. None: there are fewer than two, their number is wrong, or
    /// the buffer ends near them.
    #[inline(always)]
    fn text_ahead(&self, position: usize, end: usize) -> Option<&'a [u8]> {
        let [a, b, c, d, ..] = *self.ahead(position)?;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let start = position + 4;
        let next = start + length;
        // SAFETY: start <= next <= end, as is compared first, and end < data.len(), as every end was checked by `open`. The
        // slice is not empty: its length is compared before it is made.
        unsafe {
            if next > end || *self.data.get_unchecked(next - 1) != 0 || length < 3 {
                return None;
            }
            Some(self.data.get_unchecked(start..next - 1))
        }
    }

    /// Reads any value, converted by the user's type decoder if there is one; records whether the collector tracks it.
    #[inline(always)]
    fn any_value(&mut self, kind: u8, end: usize, is_container: &mut bool) -> Made<'py> {
        let mut made = self.plain_value(kind, end);
        // With type decoders no type is atomic, so this check covers them too.
        if kind >= 32 || self.atomic >> kind & 1 == 0 {
            let mut value = made?;
            if self.codec.decoders.is_some() {
                value = self.convert(value)?;
            }
            *is_container |= make::is_collected(&value);
            made = Ok(value);
        }
        made
    }

    /// Continues with a document that the tree of shapes has no room for.
    #[inline(never)]
    fn dict_without_shape(
        &mut self,
        node: *mut Node,
        base: usize,
        end: usize,
        is_embedded: bool,
    ) -> Made<'py> {
        // SAFETY: `dict` calls this with the node it came to, which `_walk` keeps, and before it steps on: it kept one
        // value above `base` for each step to that node.
        let (mut marks, dict) = unsafe { ((*node).marks, self.values.open_dict(node, base)?) };
        while self.position < end {
            let (key, value) = self.field(end, &mut marks)?;
            make::set_item(&dict, &key, &value)?;
        }
        self.closed(dict, marks, is_embedded)
    }

    /// The document class belongs to the user: its `__init__` and `__setitem__` may do anything.
    fn mapping(&mut self, class: &Py<PyAny>, end: usize, is_embedded: bool) -> Made<'py> {
        let made = class.bind(self.py).call0()?;
        let mut marks = 0;
        while self.position < end {
            let (key, value) = self.field(end, &mut marks)?;
            made.set_item(key, value)?;
        }
        self.closed(made, marks, is_embedded)
    }

    /// The next name and value.
    #[inline]
    fn field(&mut self, end: usize, marks: &mut u8) -> Result<(Bound<'py, PyAny>, Bound<'py, PyAny>), Fault> {
        let kind = self.data[self.position];
        self.position += 1;
        let name_at = self.position;
        let key = self.key(end)?;
        if self.data[name_at] == b'$' {
            match &self.data[name_at..self.position] {
                b"$ref\0" => *marks |= HAS_REF,
                b"$id\0" => *marks |= HAS_ID,
                _ => {}
            }
        }
        match self.value(kind, end) {
            Ok(value) => Ok((key, value)),
            Err(fault) => Err(self.within_field(fault, name_at)),
        }
    }

    #[cold]
    pub(crate) fn within_field(&self, fault: Fault, name_at: usize) -> Fault {
        let name = self.data[name_at..].split(|byte| *byte == 0).next().unwrap_or_default();
        within(fault, Step::Key(String::from_utf8_lossy(name).into_owned()))
    }

    /// The length of the name that starts here, with its NUL.
    pub(crate) fn name_length(&self, at: usize, end: usize) -> Result<usize, Fault> {
        match memchr::memchr(0, &self.data[at..end]) {
            Some(length) => Ok(length + 1),
            None => Err(invalid(at, "bad object or element length: field name has no end")),
        }
    }

    /// The name at the position.
    pub(crate) fn key(&mut self, end: usize) -> Made<'py> {
        let at = self.position;
        let length = self.name_length(at, end)?;
        let bytes = &self.data[at..at + length];
        self.position += length;
        let name = &bytes[..length - 1];
        let made = if length <= LONGEST && is_ascii(name) {
            // SAFETY: `name` is ASCII and `length` at most `LONGEST`, as was just asked; `name_length` found the first NUL.
            unsafe { key_cache::string(self.py, bytes) }
        } else {
            text::decode(self.py, name, self.codec.unicode_errors.as_deref())
        };
        made.map_err(|fault| self.invalid_value(fault, at))
    }

    /// Reads the value at the position, converted by the user's type decoder if there is one.
    #[inline(always)]
    pub(crate) fn value(&mut self, kind: u8, end: usize) -> Made<'py> {
        let made = self.plain_value(kind, end)?;
        if self.codec.decoders.is_some() {
            return self.convert(made);
        }
        Ok(made)
    }

    #[inline(always)]
    fn plain_value(&mut self, kind: u8, end: usize) -> Made<'py> {
        match kind {
            0x01 => make::float(self.py, f64::from_le_bytes(self.take(end)?)),
            0x02 => self.string(end),
            0x03 => self.embedded(end),
            0x04 => self.array(end),
            0x07 => self.object_id(end),
            0x08 => match self.take::<1>(end)? {
                [0] => Ok(make::bool(self.py, false)),
                [1] => Ok(make::bool(self.py, true)),
                [other] => Err(self.bad_bool(other)),
            },
            0x09 => {
                let millis = i64::from_le_bytes(self.take(end)?);
                self.date(millis)
            }
            0x0A => Ok(self.py.None().into_bound(self.py)),
            0x10 => make::short_int(self.py, i32::from_le_bytes(self.take(end)?)),
            0x12 => {
                let value = i64::from_le_bytes(self.take(end)?);
                if self.makes_ints {
                    let class = self.codec.types.int64.as_ptr().cast();
                    // SAFETY: `makes_ints`: the self-test passed, and the class is laid out as it has to be.
                    unsafe { owned(self.py, objects::int(class, value)) }
                } else {
                    self.int64(value)
                }
            }
            _ => self.rare_value(kind, end),
        }
    }

    /// An ObjectId.
    #[inline(always)]
    pub(crate) fn object_id(&mut self, end: usize) -> Made<'py> {
        let bytes = self.take(end)?;
        // SAFETY: the class is what `object_id` gave when this was made, long after the module made it.
        unsafe { owned(self.py, object_id::create(self.py, self.object_id, bytes)) }
    }

    #[inline(never)]
    fn array(&mut self, limit: usize) -> Made<'py> {
        let end = self.open(limit)?;
        let base = self.values.height();
        let context = self.context;
        while self.position < end {
            let kind = self.data[self.position];
            self.position += 1;
            self.skip_index(end)?;
            self.context = context;
            match self.value(kind, end) {
                Ok(value) => self.values.keep(value)?,
                Err(fault) => {
                    let index = self.values.height() - base;
                    self.values.release(base);
                    return Err(within(fault, Step::Index(index)));
                }
            }
        }
        self.close();
        self.values.list(base)
    }

    /// Steps over an array's index without reading it: indexes are in order.
    #[inline]
    pub(crate) fn skip_index(&mut self, end: usize) -> Result<(), Fault> {
        for (offset, byte) in self.data[self.position..end].iter().enumerate() {
            if *byte == 0 {
                self.position += offset + 1;
                return Ok(());
            }
        }
        Err(invalid(self.position, "array index has no end"))
    }

    pub(crate) fn string(&mut self, end: usize) -> Made<'py> {
        let at = self.position;
        let bytes = self.string_bytes(end)?;
        self.text(bytes, at)
    }

    /// Returns the string of these bytes; `at` is their offset.
    #[inline]
    pub(super) fn text(&self, bytes: &[u8], at: usize) -> Made<'py> {
        let made = text::decode(self.py, bytes, self.codec.unicode_errors.as_deref());
        made.map_err(|fault| self.invalid_value(fault, at))
    }

    /// The bytes of a length-prefixed string, without its NUL.
    #[inline]
    pub(crate) fn string_bytes(&mut self, end: usize) -> Result<&'a [u8], Fault> {
        let at = self.position;
        let length = self.length(end)?;
        // 0 wraps to a number larger than any buffer.
        let last = length.wrapping_sub(1);
        if last >= end - self.position {
            return Err(self.bad_length("string", at, length, end));
        }
        // SAFETY: position + last < end, as was just compared, and end <= data.len(), as every end was checked by `open` or
        // is the buffer's own.
        let (bytes, nul) = unsafe {
            let bytes = self.data.get_unchecked(self.position..self.position + last);
            (bytes, *self.data.get_unchecked(self.position + last))
        };
        if nul != 0 {
            return Err(invalid(self.position + last, "string does not end in NUL"));
        }
        self.position += length;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn date(&mut self, millis: i64) -> Made<'py> {
        if self.codec.tz_aware || self.codec.date_needs_care(millis) {
            return self.rare_date(millis);
        }
        // SAFETY: in range, or it needed care; the codec's `types` imported the C API; `makes_dates`: the self-test passed.
        unsafe {
            let made = if self.makes_dates {
                objects::naive_datetime(millis)
            } else {
                datetime::create(millis, ffi::Py_None())
            };
            owned(self.py, made)
        }
    }

    /// The next N bytes.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self, end: usize) -> Result<[u8; N], Fault> {
        if N > end - self.position {
            return Err(self.short(N, end));
        }
        // SAFETY: position + N <= end, as was just compared, and end <= data.len(), as every end was checked by `open` or is
        // the buffer's own. Any bytes are a valid array.
        let bytes = unsafe { self.data.as_ptr().add(self.position).cast::<[u8; N]>().read_unaligned() };
        self.position += N;
        Ok(bytes)
    }

    #[cold]
    #[inline(never)]
    fn bad_length(&self, what: &str, at: usize, length: usize, end: usize) -> Fault {
        let left = end - at;
        invalid(at, format!("invalid length or type code: {what} length {length}, with {left} bytes left"))
    }

    #[cold]
    #[inline(never)]
    fn bad_document_length(&self, at: usize, length: usize, end: usize) -> Fault {
        let possible = (SHORTEST..=i32::MAX as usize).contains(&length);
        let what = if possible { "objsize too large" } else { "invalid message size" };
        invalid(at, format!("{what}: document length {length}, with {} bytes left", end - at))
    }

    #[cold]
    #[inline(never)]
    fn bad_bool(&self, found: u8) -> Fault {
        invalid(self.position - 1, format!("boolean is {found:#04x}, not 0 or 1"))
    }

    #[cold]
    #[inline(never)]
    fn short(&self, needed: usize, end: usize) -> Fault {
        let left = end - self.position;
        invalid(
            self.position,
            format!("invalid length or type code: value of {needed} bytes, with {left} left"),
        )
    }

    /// Reads a length prefix. A negative one becomes larger than any buffer.
    #[inline]
    pub(crate) fn length(&mut self, end: usize) -> Result<usize, Fault> {
        Ok(u32::from_le_bytes(self.take(end)?) as usize)
    }
}

#[cold]
#[inline(never)]
fn too_deep() -> Fault {
    found(Kind::Bson, format!("invalid BSON: nested deeper than {MAX_DEPTH} levels"), "")
}
