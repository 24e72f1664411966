//! Writes rows as documents.

use mangonel_bson::{
    Decimal128, ObjectId, append_binary, append_bool, append_datetime, append_decimal128, append_double,
    append_i32, append_i64, append_javascript, append_null, append_object_id, append_str, begin_array,
    begin_document, begin_subdocument, binary, end_document,
};

use crate::null_paths::{NULL_PATHS, Path};
use crate::problem::{Failure, Outcome, Problem, make_room};
use crate::rows::form::{Form, Moment};
use crate::rows::values::{Cells, Pieces, Source, Values};

/// The size at which a document is refused; servers store 16 MiB.
const MAX_BYTES: usize = 64 << 20;

/// The most bytes of an element besides its key and its text.
const SHORT: usize = 64;

/// The rows of one array of documents.
#[derive(Debug)]
pub struct Rows<'a> {
    len: usize,
    start: usize,
    /// `_id` first, as servers store it.
    columns: Vec<(&'a str, Values<'a>)>,
    valid: Option<&'a [u8]>,
    has_ids: bool,
    skips_nulls: bool,
    /// Lists of the paths that are null; other nulls are missing fields.
    null_paths: Option<Values<'a>>,
}

/// The settings of writing.
struct Context<'a> {
    /// Bytes at which a document is refused.
    limit: usize,
    /// The paths of nulls, if null is told from missing.
    nulls: Option<Nulls<'a>>,
}

/// The null paths of a document, and the current path.
struct Nulls<'a> {
    paths: Vec<&'a str>,
    path: Path,
}

impl Context<'_> {
    fn enter(&mut self, key: &str) {
        if let Some(nulls) = &mut self.nulls
            && !nulls.paths.is_empty()
        {
            nulls.path.enter(key);
        }
    }

    fn leave(&mut self) {
        if let Some(nulls) = &mut self.nulls
            && !nulls.paths.is_empty()
        {
            nulls.path.leave();
        }
    }

    /// Whether a null at the current path is a field that the document lacks.
    fn lacks(&self) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| !nulls.paths.contains(&nulls.path.text()))
    }
}

impl<'a> Rows<'a> {
    /// Reads an array of documents. `skips_nulls`: leave null columns out of a row's document.
    ///
    /// # Errors
    /// It is no such array, or its parts do not fit. No value was read.
    pub fn read(form: &'a Form, source: &impl Source<'a>, skips_nulls: bool) -> Result<Self, String> {
        let Values { len, start, valid, cells } = Values::read(form, source)?;
        let Cells::Struct(mut columns) = cells else {
            return Err("expected a table or an array of documents, got an array of something else".into());
        };
        let null_paths = columns.iter().position(|(name, _)| *name == NULL_PATHS);
        let null_paths = null_paths.map(|at| columns.remove(at).1);
        if let Some(values) = &null_paths
            && !matches!(&values.cells, Cells::List(_, items) if matches!(items.cells, Cells::Text(_) | Cells::Null))
        {
            return Err(format!("expected lists of paths in the column {NULL_PATHS:?}, got something else"));
        }
        let id = columns.iter().position(|(name, _)| *name == "_id");
        if let Some(at) = id {
            columns[..=at].rotate_right(1);
        }
        Ok(Self { len, start, columns, valid, has_ids: id.is_some(), skips_nulls, null_paths })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a row as a document; one without an `_id` gets `id`. After a failure, the appended bytes are
    /// unusable.
    ///
    /// # Errors
    /// Names the value that cannot be stored; rows are counted from 0.
    pub fn append(
        &self,
        row: usize,
        id: impl FnOnce() -> ObjectId,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.append_row(row, id, out).map_err(|problem| Failure::of_row(&problem, row))
    }

    fn append_row(&self, row: usize, id: impl FnOnce() -> ObjectId, out: &mut Vec<u8>) -> Outcome {
        let at = self.start + row;
        if row >= self.len {
            return Err(Problem::new(format!("expected a row below {}, got {row}", self.len)));
        }
        if self.valid.is_some_and(|bits| bits.get(at / 8).is_none_or(|byte| byte >> (at % 8) & 1 == 0)) {
            return Err(Problem::new("expected a document, got null"));
        }
        make_room(out, SHORT)?;
        let begin = begin_document(out);
        let limit = out.len().saturating_add(MAX_BYTES);
        let nulls = self.null_paths.as_ref().map(|values| paths(values, at)).transpose()?;
        let nulls = nulls.map(|paths| Nulls { paths, path: Path::default() });
        let mut context = Context { limit, nulls };
        let mut columns = self.columns.iter();
        let lacks_id = match self.columns.first() {
            Some((_, ids)) if self.has_ids && ids.is_null(ids.start + at) => {
                context.enter("_id");
                let lacks = self.skips_nulls || context.lacks();
                context.leave();
                lacks
            }
            _ => !self.has_ids,
        };
        if lacks_id {
            append_object_id(out, "_id", id());
            if self.has_ids {
                columns.next();
            }
        }
        for (name, values) in columns {
            if self.skips_nulls && values.is_null(values.start + at) {
                continue;
            }
            field(values, at, name, &mut context, out)?;
        }
        end_document(out, begin);
        Ok(())
    }
}

/// Returns the null paths of a row.
fn paths<'a>(values: &'a Values<'a>, row: usize) -> Outcome<Vec<&'a str>> {
    let at = values.start + row;
    let Cells::List(offsets, items) = &values.cells else { return Ok(Vec::new()) };
    if values.is_null(at) {
        return Ok(Vec::new());
    }
    let range = offsets.range(at).filter(|range| range.start <= range.end && range.end <= items.len);
    let mut found = Vec::new();
    for index in range.ok_or_else(broken)? {
        let at = items.start + index;
        if let Cells::Text(pieces) = &items.cells
            && !items.is_null(at)
        {
            found.push(text(pieces.get(at).ok_or_else(broken)?)?);
        }
    }
    Ok(found)
}

/// Appends a field of a document, unless the document lacks it.
fn field(
    values: &Values<'_>,
    index: usize,
    name: &str,
    context: &mut Context<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    context.enter(name);
    if !(values.is_null(values.start + index) && context.lacks()) {
        append(values, index, name, context, out).map_err(|problem| problem.under(name))?;
    }
    context.leave();
    Ok(())
}

#[cold]
fn broken() -> Box<Problem> {
    Problem::new("expected offsets and indexes inside of their Arrow buffers, got others")
}

/// Appends a value under a key. `index` counts from the first value of the array.
fn append(
    values: &Values<'_>,
    index: usize,
    key: &str,
    context: &mut Context<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let at = values.start + index;
    make_room(out, key.len() + SHORT)?;
    if values.is_null(at) {
        append_null(out, key);
        return Ok(());
    }
    let piece = |pieces: &Pieces<'_>, out: &mut Vec<u8>, append: &dyn Fn(&mut Vec<u8>, &[u8]) -> Outcome| {
        let bytes = pieces.get(at).ok_or_else(broken)?;
        if bytes.len() > MAX_BYTES {
            return Err(Problem::new(format!("expected at most {MAX_BYTES} bytes, got {}", bytes.len())));
        }
        make_room(out, key.len() + bytes.len() + SHORT)?;
        append(out, bytes)
    };
    macro_rules! number {
        ($numbers:expr, $kind:ty) => {
            <$kind>::from_ne_bytes(*$numbers.get(at).ok_or_else(broken)?)
        };
    }
    match &values.cells {
        Cells::Null => append_null(out, key),
        Cells::Bool(bits) => {
            let byte = bits.get(at / 8).ok_or_else(broken)?;
            append_bool(out, key, byte >> (at % 8) & 1 == 1);
        }
        Cells::Int8(numbers) => append_i32(out, key, number!(numbers, i8).into()),
        Cells::Int16(numbers) => append_i32(out, key, number!(numbers, i16).into()),
        Cells::Int32(numbers) => append_i32(out, key, number!(numbers, i32)),
        Cells::Int64(numbers) => append_i64(out, key, number!(numbers, i64)),
        Cells::UInt8(numbers) => append_i32(out, key, number!(numbers, u8).into()),
        Cells::UInt16(numbers) => append_i32(out, key, number!(numbers, u16).into()),
        Cells::UInt32(numbers) => append_i64(out, key, number!(numbers, u32).into()),
        Cells::UInt64(numbers) => {
            let number = number!(numbers, u64);
            let number = i64::try_from(number);
            let number =
                number.map_err(|_| Problem::new("expected an integer of 63 bits, got a larger one"))?;
            append_i64(out, key, number);
        }
        Cells::Float16(numbers) => append_double(out, key, half(number!(numbers, u16))),
        Cells::Float32(numbers) => append_double(out, key, number!(numbers, f32).into()),
        Cells::Float64(numbers) => append_double(out, key, number!(numbers, f64)),
        Cells::Days(numbers) => append_datetime(out, key, i64::from(number!(numbers, i32)) * 86_400_000),
        Cells::Moment(numbers, unit) => append_datetime(out, key, millis(number!(numbers, i64), *unit)?),
        Cells::ObjectId(ids) => {
            append_object_id(out, key, ObjectId::from_bytes(*ids.get(at).ok_or_else(broken)?))
        }
        Cells::Uuid(values) => append_binary(out, key, binary::UUID, values.get(at).ok_or_else(broken)?),
        Cells::BsonDecimal(values) => {
            append_decimal128(out, key, Decimal128::from_bytes(*values.get(at).ok_or_else(broken)?));
        }
        Cells::Fixed(bytes, size) => {
            let start = at.checked_mul(*size).ok_or_else(broken)?;
            make_room(out, key.len() + size + SHORT)?;
            append_binary(out, key, 0, bytes.get(start..start + size).ok_or_else(broken)?);
        }
        Cells::Decimal32(numbers, scale) => decimal(number!(numbers, i32).into(), *scale, key, out)?,
        Cells::Decimal64(numbers, scale) => decimal(number!(numbers, i64).into(), *scale, key, out)?,
        Cells::Decimal128(numbers, scale) => decimal(number!(numbers, i128), *scale, key, out)?,
        Cells::Text(pieces) => piece(pieces, out, &|out, bytes| {
            append_str(out, key, text(bytes)?);
            Ok(())
        })?,
        Cells::Code(pieces) => piece(pieces, out, &|out, bytes| {
            append_javascript(out, key, text(bytes)?);
            Ok(())
        })?,
        Cells::Bytes(pieces, subtype) => piece(pieces, out, &|out, bytes| {
            append_binary(out, key, *subtype, bytes);
            Ok(())
        })?,
        Cells::List(offsets, items) => list(offsets.range(at).ok_or_else(broken)?, items, key, context, out)?,
        Cells::FixedList(size, items) => {
            let start = at.checked_mul(*size).ok_or_else(broken)?;
            list(start..start.saturating_add(*size), items, key, context, out)?;
        }
        Cells::Struct(columns) => {
            let begin = begin_subdocument(out, key);
            for (name, values) in columns {
                field(values, at, name, context, out)?;
            }
            make_room(out, SHORT)?;
            end_document(out, begin);
        }
        Cells::Dictionary(indexes, values) => {
            let index = dictionary_index(&indexes.cells, at)
                .filter(|index| *index < values.len)
                .ok_or_else(broken)?;
            append(values, index, key, context, out)?;
        }
    }
    Ok(())
}

fn list(
    range: std::ops::Range<usize>,
    items: &Values<'_>,
    key: &str,
    context: &mut Context<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    if range.end > items.len || range.start > range.end {
        return Err(broken());
    }
    let begin = begin_array(out, key);
    let mut number = itoa::Buffer::new();
    for (index, at) in range.enumerate() {
        let key = number.format(index);
        context.enter(key);
        append(items, at, key, context, out).map_err(|problem| problem.under(key))?;
        context.leave();
        if out.len() > context.limit {
            return Err(Problem::new(format!("expected a document of at most {MAX_BYTES} bytes, got more")));
        }
    }
    make_room(out, SHORT)?;
    end_document(out, begin);
    Ok(())
}

fn text(bytes: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(bytes).map_err(|_| Problem::new("expected UTF-8, got other bytes"))
}

fn dictionary_index(cells: &Cells<'_>, at: usize) -> Option<usize> {
    match cells {
        Cells::Int8(numbers) => usize::try_from(i8::from_ne_bytes(*numbers.get(at)?)).ok(),
        Cells::Int16(numbers) => usize::try_from(i16::from_ne_bytes(*numbers.get(at)?)).ok(),
        Cells::Int32(numbers) => usize::try_from(i32::from_ne_bytes(*numbers.get(at)?)).ok(),
        Cells::Int64(numbers) => usize::try_from(i64::from_ne_bytes(*numbers.get(at)?)).ok(),
        Cells::UInt8(numbers) => Some(u8::from_ne_bytes(*numbers.get(at)?).into()),
        Cells::UInt16(numbers) => Some(u16::from_ne_bytes(*numbers.get(at)?).into()),
        Cells::UInt32(numbers) => usize::try_from(u32::from_ne_bytes(*numbers.get(at)?)).ok(),
        Cells::UInt64(numbers) => usize::try_from(u64::from_ne_bytes(*numbers.get(at)?)).ok(),
        _ => None,
    }
}

fn millis(number: i64, unit: Moment) -> Outcome<i64> {
    Ok(match unit {
        Moment::Days => number.saturating_mul(86_400_000),
        Moment::Seconds => number.checked_mul(1_000).ok_or_else(|| {
            Problem::new(format!("expected a date of 64 bits of milliseconds, got {number} seconds"))
        })?,
        Moment::Milliseconds => number,
        Moment::Microseconds => number.div_euclid(1_000),
        Moment::Nanoseconds => number.div_euclid(1_000_000),
    })
}

#[inline(never)]
fn decimal(number: i128, scale: i32, key: &str, out: &mut Vec<u8>) -> Outcome {
    let made = Decimal128::parse(&format!("{number}E{}", -i64::from(scale)));
    append_decimal128(out, key, made.map_err(|error| Problem::new(error.to_string()))?);
    Ok(())
}

/// IEEE 754 binary16: a sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF) / 1024.0);
    sign * match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_what_ieee_says() {
        let known = [
            (0, 0.0),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (1, 2f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
        ];
        for (bits, value) in known {
            assert_eq!(half(bits), value);
        }
        assert_eq!(half(0x7C00), f64::INFINITY);
        assert!(half(0x7E00).is_nan());
    }

    #[test]
    fn dates_before_1970_are_cut_downwards() {
        assert_eq!(millis(-1, Moment::Microseconds).unwrap(), -1);
        assert_eq!(millis(1_999_999, Moment::Nanoseconds).unwrap(), 1);
        assert!(millis(i64::MAX, Moment::Seconds).is_err());
    }
}
