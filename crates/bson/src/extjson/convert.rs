//! Converts the JSON tree to BSON: recognises the `$` wrappers of extended JSON and refuses malformed ones.
//!
//! Text that only looks like a wrapper, such as a DBRef or a `$regex` query operator, stays a document.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::base64;
use super::parse::{Json, parse};
use super::write::{sorted, too_deep};
use crate::MAX_DEPTH;
use crate::binary;
use crate::datetime::parse_iso;
use crate::decimal128::Decimal128;
use crate::error::{Error, Result};
use crate::object_id::{ObjectId, hex_digit};
use crate::writer::*;

/// Up to this many members are compared one by one.
const FEW: usize = 16;

type Members<'a> = [(Cow<'a, str>, Json<'a>)];

/// Turns a JSON object into a BSON document; takes canonical and relaxed extended JSON and plain JSON.
///
/// A number without a fraction becomes the first of int32, int64 and double that fits. The outermost object is always a
/// document, never a wrapper.
///
/// # Errors
/// [`crate::ErrorKind::Syntax`] when the text is not JSON, not an object, or a wrapper has the wrong shape;
/// [`crate::ErrorKind::OutOfRange`] for numbers that do not fit and keys with a zero byte;
/// [`crate::ErrorKind::TooDeep`] beyond [`crate::MAX_DEPTH`] values inside each other.
pub fn parse_json(text: &str) -> Result<Vec<u8>> {
    document_of(parse(text)?, text.len())
}

/// As [`parse_json`], but a repeated key takes its last value, as in Python: the server would store both
/// fields, and no client would read both.
///
/// # Errors
/// As for [`parse_json`].
pub fn parse_json_distinct(text: &str) -> Result<Vec<u8>> {
    let mut value = parse(text)?;
    drop_repeats(&mut value);
    document_of(value, text.len())
}

fn document_of(value: Json<'_>, size: usize) -> Result<Vec<u8>> {
    let Json::Object(members) = value else {
        return Err(Error::syntax("expected a JSON object for a document, got another value"));
    };
    let mut out = Vec::with_capacity(size);
    let start = begin_document(&mut out);
    push_members(&members, MAX_DEPTH, &mut out)?;
    end_document(&mut out, start);
    Ok(out)
}

/// Appends the members; `depth` is the number of levels still allowed, including this one.
fn push_members(members: &Members<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
    for (key, value) in members {
        check_key(key)?;
        push_value(key, value, depth, out).map_err(|e| e.under(key))?;
    }
    Ok(())
}

/// Keeps the last value of a repeated key, at the position of the first.
fn drop_repeats(value: &mut Json<'_>) {
    match value {
        Json::Array(values) => values.iter_mut().for_each(drop_repeats),
        Json::Object(members) => {
            members.iter_mut().for_each(|(_, value)| drop_repeats(value));
            if has_repeats(members) {
                let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
                let mut kept: Vec<(Cow<'_, str>, Json<'_>)> = Vec::with_capacity(members.len());
                for (key, value) in std::mem::take(members) {
                    match places.get(&key) {
                        Some(at) => kept[*at].1 = value,
                        None => {
                            places.insert(key.clone(), kept.len());
                            kept.push((key, value));
                        }
                    }
                }
                *members = kept;
            }
        }
        _ => {}
    }
}

fn has_repeats(members: &Members<'_>) -> bool {
    if members.len() > FEW {
        let mut seen = HashSet::new();
        return !members.iter().all(|(key, _)| seen.insert(key.as_ref()));
    }
    members.iter().enumerate().any(|(at, (key, _))| members[..at].iter().any(|(other, _)| other == key))
}

fn push_value(key: &str, value: &Json<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Json::Null => append_null(out, key),
        Json::Bool(value) => append_bool(out, key, *value),
        Json::Number(text) => push_number(key, text, out)?,
        Json::String(text) => append_str(out, key, text),
        Json::Array(values) => {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            let start = begin_array(out, key);
            let mut buffer = itoa::Buffer::new();
            for (i, value) in values.iter().enumerate() {
                push_value(buffer.format(i), value, depth, out)?;
            }
            end_document(out, start);
        }
        Json::Object(members) => match find_wrapper(members) {
            Some((name, read)) => read(Wrapper { name, members }, key, depth, out)?,
            None => {
                let start = begin_subdocument(out, key);
                push_members(members, depth, out)?;
                end_document(out, start);
            }
        },
    }
    Ok(())
}

fn find_wrapper(members: &Members<'_>) -> Option<&'static (&'static str, Read)> {
    let has_dollar = members.iter().any(|(key, _)| key.starts_with('$'));
    let mut rows = if has_dollar { WRAPPERS } else { &[] }.iter();
    rows.find(|row| get(members, row.0).is_some())
}

fn push_number(key: &str, text: &str, out: &mut Vec<u8>) -> Result<()> {
    if let Ok(value) = text.parse::<i32>() {
        append_i32(out, key, value);
    } else if let Ok(value) = text.parse::<i64>() {
        append_i64(out, key, value);
    } else {
        append_double(out, key, parse_double(text)?);
    }
    Ok(())
}

fn parse_double(text: &str) -> Result<f64> {
    let is_number = text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    match text {
        "Infinity" => Ok(f64::INFINITY),
        "-Infinity" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        _ if is_number => text.parse().map_err(|_| not_double(text)),
        _ => Err(not_double(text)),
    }
}

#[cold]
fn not_double(text: &str) -> Error {
    Error::syntax(format!("expected a number for a double, got {text:.60?}"))
}

/// Wrapper, key, depth left, output.
type Read = fn(Wrapper<'_, '_>, &str, usize, &mut Vec<u8>) -> Result<()>;

/// The keys that make an object a wrapper, each with its reader. The first row whose key is present reads the object;
/// its reader refuses unknown keys.
const WRAPPERS: &[(&str, Read)] = &[
    ("$oid", |w, key, _, out| {
        append_object_id(out, key, ObjectId::parse_hex(w.string()?)?);
        Ok(())
    }),
    ("$numberInt", |w, key, _, out| {
        append_i32(out, key, w.integer()?);
        Ok(())
    }),
    ("$numberLong", |w, key, _, out| {
        append_i64(out, key, w.integer()?);
        Ok(())
    }),
    ("$numberDouble", |w, key, _, out| {
        append_double(out, key, parse_double(w.string()?)?);
        Ok(())
    }),
    ("$numberDecimal", |w, key, _, out| {
        append_decimal128(out, key, Decimal128::parse(w.string()?)?);
        Ok(())
    }),
    ("$date", read_date),
    ("$binary", read_binary),
    ("$uuid", read_uuid),
    ("$timestamp", read_timestamp),
    ("$regularExpression", read_regex),
    ("$code", read_code),
    ("$symbol", |w, key, _, out| {
        append_symbol(out, key, w.string()?);
        Ok(())
    }),
    ("$dbPointer", read_db_pointer),
    ("$minKey", |w, key, _, out| {
        w.one()?;
        append_min_key(out, key);
        Ok(())
    }),
    ("$maxKey", |w, key, _, out| {
        w.one()?;
        append_max_key(out, key);
        Ok(())
    }),
    ("$undefined", |w, key, _, out| match w.only()? {
        Json::Bool(true) => {
            append_undefined(out, key);
            Ok(())
        }
        _ => Err(w.expected("true")),
    }),
];

fn read_date(w: Wrapper<'_, '_>, key: &str, _: usize, out: &mut Vec<u8>) -> Result<()> {
    let ms = match w.only()? {
        Json::String(text) => parse_iso(text)?,
        Json::Object(members) => match get(members, "$numberLong") {
            Some(_) => {
                let name = "$numberLong";
                Wrapper { name, members }.integer()?
            }
            None => return Err(w.expected("a date or {\"$numberLong\": …}")),
        },
        _ => return Err(w.expected("a date or {\"$numberLong\": …}")),
    };
    append_datetime(out, key, ms);
    Ok(())
}

fn read_binary(w: Wrapper<'_, '_>, key: &str, _: usize, out: &mut Vec<u8>) -> Result<()> {
    let (text, subtype) = match (get(w.members, "$binary"), get(w.members, "$type")) {
        (Some(Json::Object(inner)), None) if w.members.len() == 1 => {
            let inner = Wrapper { name: "$binary", members: inner };
            inner.keys(&["base64", "subType"])?;
            (inner.string_of("base64")?, inner.string_of("subType")?)
        }
        // The form in the first version of extended JSON.
        (Some(Json::String(text)), Some(Json::String(subtype))) if w.members.len() == 2 => {
            (&**text, &**subtype)
        }
        _ => return Err(w.expected("an object with \"base64\" and \"subType\"")),
    };
    let subtype = match subtype.as_bytes() {
        [low] => hex_digit(*low),
        [high, low] => hex_digit(*high).zip(hex_digit(*low)).map(|(h, l)| h << 4 | l),
        _ => None,
    };
    let Some(subtype) = subtype else {
        return Err(w.expected("one or two hex digits for \"subType\""));
    };
    append_binary(out, key, subtype, &base64::decode(text)?);
    Ok(())
}

fn read_uuid(w: Wrapper<'_, '_>, key: &str, _: usize, out: &mut Vec<u8>) -> Result<()> {
    let text = w.string()?.as_bytes();
    let wrong = || w.expected("a UUID such as 73ffd264-44b3-4c69-90e8-e7d1dfc035d4");
    if text.len() != 36 {
        return Err(wrong());
    }
    let mut uuid = [0; 16];
    let mut digits = text.iter().enumerate().filter_map(|(i, c)| match i {
        // A hyphen at its position is skipped; any other character there is refused as a non-digit.
        8 | 13 | 18 | 23 => (*c != b'-').then_some(None),
        _ => Some(hex_digit(*c)),
    });
    for byte in &mut uuid {
        match (digits.next(), digits.next()) {
            (Some(Some(high)), Some(Some(low))) => *byte = high << 4 | low,
            _ => return Err(wrong()),
        }
    }
    append_binary(out, key, binary::UUID, &uuid);
    Ok(())
}

fn read_timestamp(w: Wrapper<'_, '_>, key: &str, _: usize, out: &mut Vec<u8>) -> Result<()> {
    let inner = w.object()?;
    inner.keys(&["t", "i"])?;
    let field = |name| match get(inner.members, name) {
        Some(Json::Number(text)) => text.parse::<u32>().ok(),
        _ => None,
    };
    let (Some(time), Some(increment)) = (field("t"), field("i")) else {
        return Err(w.expected("unsigned 32-bit numbers \"t\" and \"i\""));
    };
    append_timestamp(out, key, time, increment);
    Ok(())
}

fn read_regex(w: Wrapper<'_, '_>, key: &str, _: usize, out: &mut Vec<u8>) -> Result<()> {
    let inner = w.object()?;
    inner.keys(&["pattern", "options"])?;
    let (pattern, options) = (inner.string_of("pattern")?, inner.string_of("options")?);
    check_key(pattern)
        .and(check_key(options))
        .map_err(|_| Error::range("expected a regular expression without zero bytes, got one"))?;
    append_regex(out, key, pattern, &sorted(options));
    Ok(())
}

fn read_code(w: Wrapper<'_, '_>, key: &str, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some(scope) = get(w.members, "$scope") else {
        append_javascript(out, key, w.string()?);
        return Ok(());
    };
    w.keys(&["$code", "$scope"])?;
    let Json::Object(scope) = scope else {
        return Err(w.expected("an object for \"$scope\""));
    };
    let (start, inner) = begin_javascript_with_scope(out, key, w.string_of("$code")?);
    push_members(scope, depth, out)?;
    end_document(out, inner);
    end_javascript_with_scope(out, start);
    Ok(())
}

fn read_db_pointer(w: Wrapper<'_, '_>, key: &str, _: usize, out: &mut Vec<u8>) -> Result<()> {
    let inner = w.object()?;
    inner.keys(&["$ref", "$id"])?;
    let Some(Json::Object(id)) = get(inner.members, "$id") else {
        return Err(w.expected("an ObjectId for \"$id\""));
    };
    let id = Wrapper { name: "$oid", members: id }.string()?;
    let namespace = inner.string_of("$ref")?;
    append_db_pointer(out, key, namespace, ObjectId::parse_hex(id)?);
    Ok(())
}

/// An object that has the key `name`, with the checks that all readers share.
#[derive(Clone, Copy)]
struct Wrapper<'w, 'a> {
    name: &'w str,
    members: &'w Members<'a>,
}

impl<'w, 'a> Wrapper<'w, 'a> {
    /// Returns the value if there is no other key.
    fn only(&self) -> Result<&'w Json<'a>> {
        match self.members {
            [(key, value)] if key == self.name => Ok(value),
            _ => Err(self.expected("no other key")),
        }
    }

    fn string(&self) -> Result<&'w str> {
        match self.only()? {
            Json::String(text) => Ok(text),
            _ => Err(self.expected("a string")),
        }
    }

    fn integer<T: std::str::FromStr>(&self) -> Result<T> {
        let text = self.string()?;
        text.parse().map_err(|_| self.expected("an integer in range, as a string"))
    }

    fn one(&self) -> Result<()> {
        match self.only()? {
            Json::Number("1") => Ok(()),
            _ => Err(self.expected("the number 1")),
        }
    }

    fn object(&self) -> Result<Self> {
        match self.only()? {
            Json::Object(members) => Ok(Self { name: self.name, members }),
            _ => Err(self.expected("an object")),
        }
    }

    /// Checks that the object has exactly these keys, in any order.
    fn keys(&self, wanted: &[&str]) -> Result<()> {
        let has_all = wanted.iter().all(|key| get(self.members, key).is_some());
        if has_all && self.members.len() == wanted.len() {
            return Ok(());
        }
        Err(self.expected(&format!("exactly the keys {}", wanted.join(" and "))))
    }

    fn string_of(&self, key: &str) -> Result<&'w str> {
        match get(self.members, key) {
            Some(Json::String(text)) => Ok(text),
            _ => Err(self.expected(&format!("a string for {key:?}"))),
        }
    }

    #[cold]
    fn expected(&self, what: &str) -> Error {
        Error::syntax(format!("expected {what} in {:?}, got something else", self.name))
    }
}

fn get<'m, 'a>(members: &'m Members<'a>, key: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(k, _)| k == key).map(|(_, value)| value)
}
