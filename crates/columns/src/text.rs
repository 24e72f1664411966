//! Writes values as JSON text, for columns that are converted to text.

use std::io::Write as _;

use mangonel_bson::extjson::base64;
use mangonel_bson::extjson::python::{push_float, push_string};
use mangonel_bson::{ObjectId, datetime};

use crate::column::{Column, Data};
use crate::problem::{Outcome, make_room};

/// The most bytes of a value other than text.
const SHORT: usize = 512;
/// The most bytes of an escaped letter.
const LONGEST_ESCAPE: usize = 6;

/// Appends the value at an index; texts are quoted if it `is_inside` a document or an array.
pub(crate) fn push_text(column: &Column, at: usize, is_inside: bool, out: &mut Vec<u8>) -> Outcome {
    // Room for numbers, dates and punctuation; decimals, the longest, have 45 digits with their exponent.
    make_room(out, SHORT)?;
    if column.nulls > 0 && !column.valid.get(at) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    let quote = |out: &mut Vec<u8>| {
        if is_inside {
            out.push(b'"');
        }
    };
    match &column.data {
        Data::Null => out.extend_from_slice(b"null"),
        Data::Bool(bits) => out.extend_from_slice(if bits.get(at) { b"true" } else { b"false" }),
        Data::Int32(values) => out.extend_from_slice(itoa::Buffer::new().format(values[at]).as_bytes()),
        Data::Int64(values) => out.extend_from_slice(itoa::Buffer::new().format(values[at]).as_bytes()),
        Data::Double(values) if values[at].is_finite() => push_float(values[at], out),
        Data::Double(values) => {
            quote(out);
            let _ = write!(out, "{}", values[at]);
            quote(out);
        }
        Data::Date { millis, .. } => {
            quote(out);
            datetime::write_iso(millis[at], false, out);
            quote(out);
        }
        Data::ObjectId(values) => {
            quote(out);
            out.extend_from_slice(&ObjectId::from_bytes(values[at]).hex_bytes());
            quote(out);
        }
        Data::Uuid(values) => {
            quote(out);
            let _ = write!(out, "{:032x}", u128::from_be_bytes(values[at]));
            quote(out);
        }
        // Only a schema sets this kind, so it never becomes text.
        Data::Decimal { values, scale, .. } => {
            let _ = write!(out, "{}e-{scale}", values[at]);
        }
        Data::Text(_) | Data::Category(_) => {
            let text = String::from_utf8_lossy(match &column.data {
                Data::Category(values) => values.get(at),
                Data::Text(texts) => texts.get(at),
                _ => &[],
            });
            make_room(out, text.len() * if is_inside { LONGEST_ESCAPE } else { 1 } + SHORT)?;
            if is_inside { push_string(&text, false, out) } else { out.extend_from_slice(text.as_bytes()) }
        }
        Data::Binary(texts) => {
            make_room(out, texts.get(at).len().div_ceil(3) * 4 + SHORT)?;
            quote(out);
            base64::encode(texts.get(at), out);
            quote(out);
        }
        Data::List { offsets, items } => {
            out.push(b'[');
            let (start, end) = (offsets[at] as usize, offsets[at + 1] as usize);
            for item in start..end {
                if item > start {
                    out.push(b',');
                }
                push_text(items, item, true, out)?;
            }
            out.push(b']');
        }
        Data::Struct(fields) => {
            out.push(b'{');
            for (index, (name, column)) in fields.names().iter().zip(&fields.columns).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                make_room(out, name.len() * LONGEST_ESCAPE + SHORT)?;
                push_string(name, false, out);
                out.push(b':');
                push_text(column, at, true, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}
