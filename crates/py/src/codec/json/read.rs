//! JSON text to Python objects: one pass, which makes each object where it ends, from the same shapes as BSON
//! documents. Objects with a `$` key in the usual form become BSON values here; `_json_read.read` converts the others,
//! since it knows every form and every error.
use mangonel_bson::extjson::base64;
use mangonel_bson::extjson::python::{Number, Scanner, Text, parse_date, parse_float, parse_int};
use mangonel_bson::{Decimal128, ObjectId};
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::super::collector::Pause;
use super::super::key_cache;
use super::super::make::{self, owned};
use super::super::name::LONGEST;
use super::super::options::{Codec, DatetimeConversion, UuidRepresentation};
use super::super::shapes::{Links, Node, Walk};
use super::super::stack::Stack;
use super::super::types::own_types;
use super::super::{bytes_of, datetime, object_id, objects, text};
use super::{CANONICAL, Found, MAX_DEPTH, Stop, of_call};

/// The keys that name a type; those of `_json_read._READERS`.
const READERS: [&[u8]; 18] = [
    b"$oid",
    b"$ref",
    b"$date",
    b"$regex",
    b"$minKey",
    b"$maxKey",
    b"$binary",
    b"$code",
    b"$uuid",
    b"$undefined",
    b"$numberLong",
    b"$timestamp",
    b"$numberDecimal",
    b"$dbPointer",
    b"$regularExpression",
    b"$symbol",
    b"$numberInt",
    b"$numberDouble",
];

/// The garbage collector pauses for texts of this many bytes or more: shorter texts have few objects that it counts.
const LONG: usize = 4096;

/// The form of dates.
enum Dates<'a> {
    Naive,
    Utc(&'a Py<PyAny>),
    /// Left to the Python functions.
    Other,
}

/// One text.
pub(super) struct Reader<'a, 'py> {
    py: Python<'py>,
    codec: &'a Codec,
    options: &'a Bound<'py, PyAny>,
    dates: Dates<'a>,
    scan: Scanner<'a>,
    object_id: *mut ffi::PyTypeObject,
    /// A name and its NUL.
    name: Vec<u8>,
    /// Values of the open objects and arrays.
    values: Stack<'py>,
    /// The root of the tree of shapes; valid while `_walk` lives.
    root: *mut Node,
    /// The key whose value is being read: objects under the same key mostly begin with the same name.
    context: *mut Node,
    pause: Option<Pause<'py>>,
    _walk: Walk,
}

impl<'a, 'py> Reader<'a, 'py> {
    pub(super) fn new(
        py: Python<'py>,
        codec: &'a Codec,
        options: &'a Bound<'py, PyAny>,
        text: &'a str,
    ) -> Self {
        let utc = &codec.types.utc;
        let dates = match (&codec.tzinfo, codec.tz_aware) {
            _ if codec.dates == DatetimeConversion::Millis => Dates::Other,
            (None, false) => Dates::Naive,
            (Some(zone), true) if zone.is(utc) => Dates::Utc(utc),
            _ => Dates::Other,
        };
        let object_id = object_id::class_ptr(py);
        let (walk, root) = Walk::start(py);
        Self {
            py,
            codec,
            options,
            dates,
            scan: Scanner::new(text),
            object_id,
            name: Vec::new(),
            values: Stack::new(py),
            root,
            context: root,
            // Otherwise it would scan unfinished values again and again.
            pause: (text.len() >= LONG).then(|| Pause::new(py)),
            _walk: walk,
        }
    }

    /// Reads the only value of the text.
    pub(super) fn whole(mut self) -> Found<Bound<'py, PyAny>> {
        let value = self.value(0)?;
        if self.scan.peek_spaced().is_some() { Err(Stop::Unusual) } else { Ok(value) }
    }

    fn value(&mut self, depth: u32) -> Found<Bound<'py, PyAny>> {
        let first = self.scan.peek_spaced().ok_or(Stop::Unusual)?;
        self.value_of(first, depth)
    }

    /// Reads the value that begins with the next byte, `first`.
    #[inline]
    fn value_of(&mut self, first: u8, depth: u32) -> Found<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match first {
            b'"' => {
                let found = self.string()?;
                self.text(found)?
            }
            b'{' => return self.object(depth),
            b'[' => return self.array(depth),
            b'-' | b'0'..=b'9' => self.called_number()?,
            b't' => self.word("true", make::bool(py, true))?,
            b'f' => self.word("false", make::bool(py, false))?,
            b'n' => self.word("null", py.None().into_bound(py))?,
            _ => return Err(Stop::Unusual),
        })
    }

    #[inline(never)]
    fn called_number(&mut self) -> Found<Bound<'py, PyAny>> {
        self.number()
    }

    #[inline(always)]
    fn number(&mut self) -> Found<Bound<'py, PyAny>> {
        Ok(match self.scan.number().ok_or(Stop::Unusual)? {
            Number::Int(number) => make::int(self.py, number)?,
            Number::Float(number) => make::float(self.py, number)?,
            Number::Long(digits) => self.long_int(digits)?,
        })
    }

    #[cold]
    #[inline(never)]
    fn long_int(&self, digits: &str) -> make::Made<'py> {
        Ok(self.py.get_type::<pyo3::types::PyInt>().call1((digits,))?)
    }

    fn word(&mut self, word: &str, value: Bound<'py, PyAny>) -> Found<Bound<'py, PyAny>> {
        self.scan.word(word).ok_or(Stop::Unusual)?;
        Ok(value)
    }

    #[inline(never)]
    fn string(&mut self) -> Found<Text<'a>> {
        self.scan.string().ok_or(Stop::Unusual)
    }

    /// Returns the string that was read last.
    #[inline]
    fn text(&self, found: Text<'_>) -> Found<Bound<'py, PyAny>> {
        Ok(match found {
            // SAFETY: the GIL is held, and the scanner found nothing but ASCII.
            Text::Ascii(bytes) => unsafe { owned(self.py, text::ascii(bytes))? },
            Text::Plain(found) => text::of_text(self.py, found)?,
            Text::Escaped => text::of_characters(self.py, self.scan.characters())?,
        })
    }

    #[inline(never)]
    fn array(&mut self, depth: u32) -> Found<Bound<'py, PyAny>> {
        if depth == MAX_DEPTH {
            return Err(Stop::Unusual);
        }
        self.scan.step(1);
        let mut first = self.scan.peek_spaced().ok_or(Stop::Unusual)?;
        if first == b']' {
            self.scan.step(1);
            return Ok(make::empty_list(self.py)?);
        }
        let base = self.values.height();
        let context = self.context;
        loop {
            self.context = context;
            // Reads the usual items of long arrays without a call.
            let value = match first {
                b'0'..=b'9' | b'-' => self.number()?,
                b'"' => {
                    let found = self.string()?;
                    self.text(found)?
                }
                _ => self.value_of(first, depth + 1)?,
            };
            self.values.keep(value)?;
            match self.scan.peek_spaced() {
                Some(b',') => self.scan.step(1),
                Some(b']') => {
                    self.scan.step(1);
                    return Ok(self.values.list(base)?);
                }
                _ => return Err(Stop::Unusual),
            }
            first = self.scan.peek_spaced().ok_or(Stop::Unusual)?;
        }
    }

    #[inline(never)]
    fn object(&mut self, depth: u32) -> Found<Bound<'py, PyAny>> {
        if depth == MAX_DEPTH {
            return Err(Stop::Unusual);
        }
        self.scan.step(1);
        match self.scan.peek_spaced() {
            Some(b'"') => {}
            Some(b'}') => {
                self.scan.step(1);
                return Ok(make::empty_dict(self.py)?);
            }
            _ => return Err(Stop::Unusual),
        }
        if self.scan.rest().get(1) == Some(&b'$') {
            let start = self.scan.position();
            if let Some(value) = self.usual_wrapper(depth)? {
                return Ok(value);
            }
            self.scan.rewind(start);
        }
        self.members(depth)
    }

    /// Reads an object from its first key on.
    #[inline]
    fn members(&mut self, depth: u32) -> Found<Bound<'py, PyAny>> {
        let base = self.values.height();
        let context = self.context;
        let mut node = self.root;
        // SAFETY: `context` is the root or a node that the walk came to, and `_walk` keeps every node where it is for
        // as long as this reader lives.
        let mut links = unsafe { Node::first(context) };
        let (mut is_container, mut is_value) = (false, false);
        loop {
            let start = self.scan.position();
            // The caller has checked the quote.
            let name = self.scan.rest().get(1..).unwrap_or_default();
            // SAFETY: `links` are those of a node of the tree, which `_walk` keeps.
            let found = unsafe { Links::find(links, |known| known.starts_quoted(name)) };
            if let Some(found) = found {
                node = found.as_ptr();
                // SAFETY: a node of the tree, which `_walk` keeps.
                let length = unsafe { Node::name(node) }.length();
                self.scan.step(1 + length);
                if name[0] == b'$' {
                    is_value |= READERS.contains(&&name[..length - 1]);
                }
            } else {
                let Some(child) = self.child(node)? else {
                    self.scan.rewind(start);
                    return self.members_without_shape(node, base, is_value, depth);
                };
                is_value |= self.is_reader();
                // SAFETY: `links` and `child` are of the tree, which `_walk` keeps.
                unsafe { Links::remember(links, child.as_ptr()) };
                node = child.as_ptr();
            }
            // SAFETY: `node` was found or made in the tree, which `_walk` keeps.
            links = unsafe { Node::next(node) };
            self.context = node;
            let value = self.member_value(depth, &mut is_container)?;
            self.values.keep(value)?;
            if self.is_last()? {
                break;
            }
        }
        // SAFETY: `_walk` keeps the node. Each round stepped to one node and kept one value, so above `base` there are
        // as many values as names that lead to it.
        let dict = unsafe { self.values.dict(node, base, is_container)? };
        if is_value { self.asked(&dict) } else { Ok(dict) }
    }

    /// Reads the rest of an object that has no place in the tree of shapes.
    #[inline(never)]
    fn members_without_shape(
        &mut self,
        node: *mut Node,
        base: usize,
        mut is_value: bool,
        depth: u32,
    ) -> Found<Bound<'py, PyAny>> {
        // SAFETY: `members` calls this with its current node, which `_walk` keeps, before its next step: it kept
        // one value above `base` for each step to that node.
        let dict = unsafe { self.values.open_dict(node, base)? };
        loop {
            let key = self.string()?;
            let key = self.key(key)?;
            is_value |= self.is_reader();
            let value = self.member_value(depth, &mut false)?;
            make::set_item(&dict, &key, &value)?;
            if self.is_last()? {
                return if is_value { self.asked(&dict) } else { Ok(dict) };
            }
        }
    }

    /// Reads a colon and a value.
    #[inline]
    fn member_value(&mut self, depth: u32, is_container: &mut bool) -> Found<Bound<'py, PyAny>> {
        if !self.scan.eat_spaced(b':') {
            return Err(Stop::Unusual);
        }
        let first = self.scan.peek_spaced().ok_or(Stop::Unusual)?;
        let value = self.value_of(first, depth + 1)?;
        if matches!(first, b'{' | b'[') {
            *is_container |= make::is_collected(&value);
        }
        Ok(value)
    }

    /// Steps over a comma, up to the quote of the next key, or over the end of the object.
    #[inline]
    fn is_last(&mut self) -> Found<bool> {
        let is_last = match self.scan.peek_spaced() {
            Some(b',') => false,
            Some(b'}') => true,
            _ => return Err(Stop::Unusual),
        };
        self.scan.step(1);
        if !is_last && self.scan.peek_spaced() != Some(b'"') {
            return Err(Stop::Unusual);
        }
        Ok(is_last)
    }

    /// Reads a key that was not predicted, also into `name`; returns its node, if the tree has room for it.
    fn child(&mut self, node: *mut Node) -> Found<Option<NonNull<Node>>> {
        let key = self.string()?;
        let Text::Ascii(bytes) = key else { return Ok(None) };
        if bytes.len() >= LONGEST {
            return Ok(None);
        }
        self.remember_name(bytes);
        // SAFETY: `node` is where the walk of `members` stands, and `_walk` keeps it.
        Ok(unsafe { Node::child(self.py, node, &self.name) })
    }

    fn remember_name(&mut self, bytes: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(bytes);
        self.name.push(0);
    }

    /// Tells whether the key in `name` names a type.
    #[inline]
    fn is_reader(&self) -> bool {
        self.name[0] == b'$' && READERS.contains(&&self.name[..self.name.len() - 1])
    }

    /// Returns the string of a key, in most cases one seen before; its text is then in `name`.
    #[inline]
    fn key(&mut self, key: Text<'_>) -> Found<Bound<'py, PyAny>> {
        match key {
            Text::Ascii(bytes) => {
                self.remember_name(bytes);
                if bytes.len() < LONGEST {
                    // SAFETY: the scanner found nothing but ASCII, which has no NUL in JSON; `remember_name` added the only one,
                    // and with it there are at most `LONGEST` bytes.
                    return Ok(unsafe { key_cache::string(self.py, &self.name)? });
                }
            }
            // A key may be written with escapes.
            Text::Plain(found) => self.remember_name(found.as_bytes()),
            Text::Escaped => {
                self.name.clear();
                self.name.extend(self.scan.characters().iter().map(|c| u8::try_from(*c).unwrap_or(0xFF)));
                self.name.push(0);
            }
        }
        self.text(key)
    }

    /// Calls the Python functions for the value of an object with a `$` key.
    #[inline(never)]
    fn asked(&mut self, dict: &Bound<'py, PyAny>) -> Found<Bound<'py, PyAny>> {
        // Python code may let other threads run, which may switch the collector.
        let was_paused = self.pause.take().is_some();
        let module = self.py.import(pyo3::intern!(self.py, "mangonel.bson._json_read"))?;
        let read = module.getattr(pyo3::intern!(self.py, "read"))?;
        let made = read.call1((dict, self.options)).map_err(|error| of_call(self.py, error));
        self.pause = was_paused.then(|| Pause::new(self.py));
        made
    }

    /// Reads an object of one `$` key and a value of the usual form, from its first key to its end. None: the object
    /// has another form, and the scanner's position is undefined.
    #[inline]
    fn usual_wrapper(&mut self, depth: u32) -> Found<Option<Bound<'py, PyAny>>> {
        let Some(Text::Ascii(key)) = self.scan.string() else { return Ok(None) };
        if !self.scan.eat_spaced(b':') {
            return Ok(None);
        }
        self.scan.skip_space();
        let made = match key {
            b"$oid" => self.object_id()?,
            b"$date" => self.date()?,
            b"$numberLong" => match self.digits() {
                Some(number) => Some(self.int64(number)?),
                None => None,
            },
            b"$numberInt" => match self.digits() {
                Some(number) => Some(make::int(self.py, number)?),
                None => None,
            },
            b"$numberDouble" => match self.plain().and_then(parse_float) {
                Some(number) => Some(make::float(self.py, number)?),
                None => None,
            },
            b"$numberDecimal" => self.decimal()?,
            b"$binary" => self.binary()?,
            b"$timestamp" => self.timestamp()?,
            b"$code" => self.code(depth)?,
            b"$regularExpression" => self.regex()?,
            b"$minKey" if self.is_one() => Some(own_types(self.py)?.min_key.bind(self.py).clone()),
            b"$maxKey" if self.is_one() => Some(own_types(self.py)?.max_key.bind(self.py).clone()),
            _ => None,
        };
        Ok(made.filter(|_| self.scan.eat_spaced(b'}')))
    }

    fn plain(&mut self) -> Option<&'a [u8]> {
        match self.scan.string()? {
            Text::Ascii(bytes) => Some(bytes),
            Text::Plain(_) | Text::Escaped => None,
        }
    }

    fn digits(&mut self) -> Option<i64> {
        parse_int(self.plain()?)
    }

    fn object_id(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        let Some(text) = self.plain().and_then(|text| std::str::from_utf8(text).ok()) else {
            return Ok(None);
        };
        let Ok(id) = ObjectId::parse_hex(text) else { return Ok(None) };
        // SAFETY: the codec's maker made the class, so `class_ptr` was not null.
        Ok(Some(unsafe { owned(self.py, object_id::create(self.py, self.object_id, id.bytes()))? }))
    }

    fn date(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        let millis = match self.scan.peek() {
            Some(b'"') => self.plain().and_then(parse_date),
            Some(b'{') => self.number_long(),
            // Old exports have bare numbers; canonical text must not have them.
            Some(b'-' | b'0'..=b'9') if self.mode()? != CANONICAL => match self.scan.number() {
                Some(Number::Int(number)) => Some(number),
                _ => None,
            },
            _ => None,
        };
        let Some(millis) =
            millis.filter(|millis| (datetime::MIN_MILLIS..=datetime::MAX_MILLIS).contains(millis))
        else {
            return Ok(None);
        };
        // SAFETY: the milliseconds are in range, the codec's `types` imported the C API, `is_on`: the self-test passed.
        unsafe {
            let made = match self.dates {
                Dates::Naive if objects::is_on() => objects::naive_datetime(millis),
                Dates::Naive => datetime::create(millis, ffi::Py_None()),
                Dates::Utc(utc) => datetime::create(millis, utc.as_ptr()),
                Dates::Other => return Ok(None),
            };
            Ok(Some(owned(self.py, made)?))
        }
    }

    fn mode(&self) -> Found<i64> {
        Ok(self.options.getattr(pyo3::intern!(self.py, "json_mode"))?.extract::<i64>()?)
    }

    /// Reads `{"$numberLong": "5"}`.
    fn number_long(&mut self) -> Option<i64> {
        self.scan.eat(b'{').then_some(())?;
        self.scan.skip_space();
        (self.plain()? == b"$numberLong" && self.scan.eat_spaced(b':')).then_some(())?;
        self.scan.skip_space();
        let number = self.digits()?;
        self.scan.eat_spaced(b'}').then_some(number)
    }

    fn int64(&self, number: i64) -> Found<Bound<'py, PyAny>> {
        let class: &Py<PyType> = &self.codec.types.int64;
        if self.codec.types.int64_is_plain && objects::is_on() {
            // SAFETY: the self-test passed, and the class is laid out as it has to be.
            return Ok(unsafe { owned(self.py, objects::int(class.as_ptr().cast(), number))? });
        }
        Ok(class.bind(self.py).call1((number,))?)
    }

    fn decimal(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        let recipe = &own_types(self.py)?.decimal128;
        let Some(text) = self.plain().filter(|_| recipe.is_direct()) else { return Ok(None) };
        let is_usual = text.iter().all(|c| matches!(c, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let Some(text) = std::str::from_utf8(text).ok().filter(|_| is_usual) else { return Ok(None) };
        let Ok(value) = Decimal128::parse(text) else { return Ok(None) };
        let number = u128::from_le_bytes(value.bytes());
        let halves = [make::natural(self.py, (number >> 64) as u64)?, make::natural(self.py, number as u64)?];
        Ok(Some(recipe.build(halves, self.py)?))
    }

    /// Reads `{"base64": "…", "subType": "00"}` in this order.
    fn binary(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        let Some((base64, subtype)) = self.binary_parts() else { return Ok(None) };
        let (Some(base64), Ok(subtype)) = (std::str::from_utf8(base64).ok(), std::str::from_utf8(subtype))
        else {
            return Ok(None);
        };
        let is_hex = matches!(subtype.len(), 1 | 2) && subtype.bytes().all(|c| c.is_ascii_hexdigit());
        let (Ok(data), Some(subtype)) =
            (base64::decode(base64), u8::from_str_radix(subtype, 16).ok().filter(|_| is_hex))
        else {
            return Ok(None);
        };
        let is_uuid = matches!(subtype, 3 | 4) && self.codec.uuid != UuidRepresentation::Unspecified;
        if is_uuid {
            return Ok(None);
        }
        let data = bytes_of(self.py, &data)?.into_any();
        if subtype == 0 {
            return Ok(Some(data));
        }
        let subtype = make::short_int(self.py, subtype.into())?;
        Ok(Some(own_types(self.py)?.binary.build([data, subtype], self.py)?))
    }

    fn binary_parts(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.scan.eat(b'{').then_some(())?;
        let base64 = self.member(b"base64", Self::plain)?;
        self.scan.eat_spaced(b',').then_some(())?;
        let subtype = self.member(b"subType", Self::plain)?;
        self.scan.eat_spaced(b'}').then_some((base64, subtype))
    }

    /// Reads `{"t": 1, "i": 2}` in this order.
    fn timestamp(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        let Some((time, inc)) = self.timestamp_parts() else { return Ok(None) };
        let parts = [make::natural(self.py, time.into())?, make::natural(self.py, inc.into())?];
        Ok(Some(own_types(self.py)?.timestamp.build(parts, self.py)?))
    }

    fn timestamp_parts(&mut self) -> Option<(u32, u32)> {
        let number = |reader: &mut Self| match reader.scan.number()? {
            Number::Int(number) => u32::try_from(number).ok(),
            _ => None,
        };
        self.scan.eat(b'{').then_some(())?;
        let time = self.member(b"t", number)?;
        self.scan.eat_spaced(b',').then_some(())?;
        let inc = self.member(b"i", number)?;
        self.scan.eat_spaced(b'}').then_some((time, inc))
    }

    /// Reads code and a scope, if one follows.
    fn code(&mut self, depth: u32) -> Found<Option<Bound<'py, PyAny>>> {
        if self.scan.peek() != Some(b'"') {
            return Ok(None);
        }
        let source = self.string()?;
        let source = self.text(source)?;
        let mut scope = self.py.None().into_bound(self.py);
        if self.scan.eat_spaced(b',') {
            self.scan.skip_space();
            if self.plain() != Some(b"$scope") || !self.scan.eat_spaced(b':') {
                return Ok(None);
            }
            scope = self.value(depth + 1)?;
            if !scope.is_exact_instance_of::<PyDict>() {
                return Ok(None);
            }
        }
        Ok(Some(own_types(self.py)?.code.build([source, scope], self.py)?))
    }

    /// Reads `{"pattern": "…", "options": ""}` in this order. The Python functions read a pattern with options.
    fn regex(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        let Some(pattern) = self.regex_pattern()? else { return Ok(None) };
        let flags = make::short_int(self.py, 0)?;
        Ok(Some(own_types(self.py)?.regex.build([pattern, flags], self.py)?))
    }

    fn regex_pattern(&mut self) -> Found<Option<Bound<'py, PyAny>>> {
        if !self.scan.eat(b'{') {
            return Ok(None);
        }
        let Some(pattern) = self.member(b"pattern", |reader| reader.scan.string()) else { return Ok(None) };
        let pattern = self.text(pattern)?;
        let is_usual = self.scan.eat_spaced(b',')
            && self.member(b"options", Self::plain).is_some_and(<[u8]>::is_empty)
            && self.scan.eat_spaced(b'}');
        Ok(is_usual.then_some(pattern))
    }

    /// Reads the 1 that is the only value of a key such as `$minKey`.
    fn is_one(&mut self) -> bool {
        matches!(self.scan.peek(), Some(b'1')) && matches!(self.scan.number(), Some(Number::Int(1)))
    }

    fn member<T>(&mut self, name: &[u8], read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.scan.skip_space();
        (self.plain()? == name && self.scan.eat_spaced(b':')).then_some(())?;
        self.scan.skip_space();
        read(self)
    }
}
