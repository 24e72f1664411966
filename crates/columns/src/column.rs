//! One column: values of a kind, which of them are null, and how a BSON value is appended.

use mangonel_bson::decimal128::Parts;
use mangonel_bson::{Decimal128, JsonMode, RawArray, RawValue};

use crate::bits::Bits;
use crate::categories::Categories;
use crate::fields::Fields;
use crate::kind::Kind;
use crate::null_paths::NullPaths;
use crate::problem::{OnInvalid, Outcome, Problem, append, make_room};
use crate::{MAX_COLUMNS, MAX_DEPTH};

/// The values; those of nulls are zeros.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of the kinds")]
pub enum Data {
    Null,
    Bool(Bits),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Date { millis: Vec<i64>, has_zone: bool },
    ObjectId(Vec<[u8; 12]>),
    Uuid(Vec<[u8; 16]>),
    Decimal { values: Vec<i128>, precision: u8, scale: u8 },
    Text(Texts),
    Category(Categories),
    Binary(Texts),
    List { offsets: Vec<i32>, items: Box<Column> },
    Struct(Fields),
}

/// Texts or bytes one after another.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The start of each, and the end of the last.
    pub offsets: Vec<i32>,
    /// All of them.
    pub bytes: Vec<u8>,
}

impl Texts {
    pub(crate) fn new() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Outcome {
        make_room(&mut self.bytes, bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        self.end()
    }

    /// Ends a value after its bytes were appended.
    #[inline]
    pub(crate) fn end(&mut self) -> Outcome {
        append(&mut self.offsets, offset(self.bytes.len())?)
    }

    /// One of them.
    pub fn get(&self, at: usize) -> &[u8] {
        let bound = |at: usize| self.offsets.get(at).map_or(0, |offset| *offset as usize);
        self.bytes.get(bound(at)..bound(at + 1)).unwrap_or_default()
    }
}

/// Chunks end long before this fails; see `Builder`.
#[inline]
pub(crate) fn offset(length: usize) -> Outcome<i32> {
    i32::try_from(length).map_err(|_| Problem::new("expected at most 2 GiB of text in one chunk, got more"))
}

/// A column under construction.
#[derive(Clone, Debug)]
pub struct Column {
    pub(crate) data: Data,
    pub(crate) len: usize,
    pub(crate) nulls: usize,
    /// Empty while there are no nulls.
    pub(crate) valid: Bits,
}

/// The settings of appending.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub is_inferring: bool,
    pub on_invalid: OnInvalid,
    pub columns: usize,
    pub depth: usize,
    /// Whether inferred columns of strings are categories.
    pub has_categories: bool,
    /// Collects the paths of nulls, to tell null from missing.
    pub nulls: Option<NullPaths>,
}

impl Rules {
    /// Returns the kind for a value.
    fn kind_of(&self, value: &RawValue<'_>) -> Kind {
        match value {
            RawValue::String(_) if self.has_categories => Kind::Category,
            value => Kind::of(value),
        }
    }

    pub(crate) fn enter(&mut self) -> Outcome {
        if self.depth == MAX_DEPTH {
            return Err(Problem::new(format!("expected at most {MAX_DEPTH} levels of nesting, got more")));
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn count_column(&mut self) -> Outcome {
        if self.columns == MAX_COLUMNS {
            return Err(Problem::new(format!(
                "expected at most {MAX_COLUMNS} different fields, got more; give a schema"
            )));
        }
        self.columns += 1;
        Ok(())
    }
}

impl Column {
    /// An empty column.
    pub fn new(kind: &Kind) -> Self {
        Self { data: Data::new(kind), len: 0, nulls: 0, valid: Bits::default() }
    }

    /// A column of nulls.
    pub(crate) fn of_nulls(kind: &Kind, len: usize) -> Outcome<Self> {
        let mut column = Self::new(kind);
        column.data.extend_zeros(len)?;
        column.len = len;
        column.nulls = len;
        column.valid = Bits::repeat(false, len)?;
        Ok(column)
    }

    /// The values.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// How many values and nulls.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many nulls.
    pub fn null_count(&self) -> usize {
        self.nulls
    }

    /// Which values are not null; `None`: all.
    pub fn validity(&self) -> Option<&Bits> {
        (self.nulls > 0).then_some(&self.valid)
    }

    /// The kind of its values.
    pub fn kind(&self) -> Kind {
        match &self.data {
            Data::Null => Kind::Null,
            Data::Bool(_) => Kind::Bool,
            Data::Int32(_) => Kind::Int32,
            Data::Int64(_) => Kind::Int64,
            Data::Double(_) => Kind::Double,
            Data::Date { has_zone, .. } => Kind::Date { has_zone: *has_zone },
            Data::ObjectId(_) => Kind::ObjectId,
            Data::Uuid(_) => Kind::Uuid,
            Data::Decimal { precision, scale, .. } => Kind::Decimal { precision: *precision, scale: *scale },
            Data::Text(_) => Kind::Text,
            Data::Category(_) => Kind::Category,
            Data::Binary(_) => Kind::Binary,
            Data::List { items, .. } => Kind::List(Box::new(items.kind())),
            Data::Struct(fields) => Kind::Struct(fields.kinds()),
        }
    }

    /// Whether the last value is null.
    pub(crate) fn ends_with_null(&self) -> bool {
        self.nulls > 0 && !self.valid.get(self.len.wrapping_sub(1))
    }

    #[inline]
    fn mark_valid(&mut self) -> Outcome {
        if self.nulls > 0 {
            self.valid.push(true)?;
        }
        self.len += 1;
        Ok(())
    }

    /// Appends a null.
    pub(crate) fn push_null(&mut self) -> Outcome {
        if self.nulls == 0 {
            self.valid = Bits::repeat(true, self.len)?;
        }
        self.valid.push(false)?;
        self.nulls += 1;
        self.len += 1;
        self.data.extend_zeros(1)
    }

    /// Appends a value.
    #[inline]
    pub(crate) fn push(&mut self, value: RawValue<'_>, rules: &mut Rules) -> Outcome {
        match (&mut self.data, value) {
            (_, RawValue::Null | RawValue::Undefined) => {
                return self.push_null();
            }
            (Data::Int32(values), RawValue::Int32(value)) => append(values, value)?,
            (Data::Int64(values), RawValue::Int32(value)) => append(values, value.into())?,
            (Data::Int64(values), RawValue::Int64(value)) => append(values, value)?,
            (Data::Double(values), RawValue::Double(value)) => append(values, value)?,
            (Data::Text(texts), RawValue::String(value)) => texts.push(value.as_bytes())?,
            (Data::Category(values), RawValue::String(value)) => values.push(value.as_bytes())?,
            (Data::ObjectId(values), RawValue::ObjectId(value)) => append(values, value.bytes())?,
            (Data::Date { millis, .. }, RawValue::DateTime(value)) => append(millis, value)?,
            (Data::Bool(bits), RawValue::Boolean(value)) => bits.push(value)?,
            (Data::Struct(fields), RawValue::Document(document)) => {
                rules.enter()?;
                fields.push(document, self.len, rules)?;
                rules.depth -= 1;
            }
            (Data::List { offsets, items }, RawValue::Array(array)) => {
                rules.enter()?;
                push_items(items, array, rules)?;
                append(offsets, offset(items.len)?)?;
                rules.depth -= 1;
            }
            (_, value) => return self.push_other(value, rules),
        }
        self.mark_valid()
    }

    /// Appends a value of another kind than the column's.
    #[inline(never)]
    fn push_other(&mut self, value: RawValue<'_>, rules: &mut Rules) -> Outcome {
        match (&mut self.data, value) {
            (Data::Double(values), RawValue::Int32(value)) => append(values, value.into())?,
            (Data::Double(values), RawValue::Int64(value)) if is_exact(value) => {
                append(values, value as f64)?
            }
            (Data::Int32(values), RawValue::Int64(value))
                if !rules.is_inferring && i32::try_from(value).is_ok() =>
            {
                append(values, value as i32)?;
            }
            (Data::Binary(texts), RawValue::Binary(value)) => texts.push(value.bytes)?,
            (Data::Uuid(values), RawValue::Binary(value))
                if value.subtype == mangonel_bson::binary::UUID && value.bytes.len() == 16 =>
            {
                make_room(values, 1)?;
                values.extend(value.bytes.first_chunk::<16>());
            }
            (Data::Decimal { values, precision, scale }, value) => match scaled(&value, *precision, *scale) {
                Some(value) => append(values, value)?,
                None => return self.push_invalid(value, rules),
            },
            (Data::Text(texts), value) if matches!(Kind::of(&value), Kind::Text) => {
                push_as_text(texts, value)?
            }
            (Data::Category(values), value) if matches!(Kind::of(&value), Kind::Text) => {
                let mut texts = Texts::new();
                push_as_text(&mut texts, value)?;
                values.push(&texts.bytes)?;
            }
            (_, value) => return self.push_invalid(value, rules),
        }
        self.mark_valid()
    }

    #[cold]
    fn push_invalid(&mut self, value: RawValue<'_>, rules: &mut Rules) -> Outcome {
        if rules.is_inferring
            && let Some(kind) = self.kind().joined(&rules.kind_of(&value))
            && kind != self.kind()
            && self.widen(&kind)?
        {
            return self.push(value, rules);
        }
        match rules.on_invalid {
            OnInvalid::Null => {
                return self.push_null();
            }
            OnInvalid::Text if rules.is_inferring && !matches!(self.data, Data::Text(_)) => {
                self.widen(&Kind::Text)?;
                return self.push(value, rules);
            }
            _ => {}
        }
        match &mut self.data {
            Data::Text(texts) if rules.on_invalid == OnInvalid::Text => push_json(texts, value)?,
            Data::Category(values) if rules.on_invalid == OnInvalid::Text => {
                let mut texts = Texts::new();
                push_json(&mut texts, value)?;
                values.push(&texts.bytes)?;
            }
            _ => {
                let (expected, found) = (self.kind().name(), value.element_type().name());
                return Err(Problem::new(format!("expected {expected}, got {found}")));
            }
        }
        self.mark_valid()
    }

    /// Reserves room for as many values as another column of this kind has, and a sixteenth more. Reserves
    /// nothing if there is no memory: fewer values may come.
    pub(crate) fn reserve(&mut self, like: &Self) {
        fn room<T>(values: &mut Vec<T>, like: &[T]) {
            let _ = values.try_reserve_exact(like.len() + like.len() / 16);
        }
        match (&mut self.data, &like.data) {
            (Data::Int32(values), Data::Int32(like)) => room(values, like),
            (Data::Int64(values), Data::Int64(like)) => room(values, like),
            (Data::Double(values), Data::Double(like)) => room(values, like),
            (Data::Date { millis, .. }, Data::Date { millis: like, .. }) => room(millis, like),
            (Data::ObjectId(values), Data::ObjectId(like)) => room(values, like),
            (Data::Uuid(values), Data::Uuid(like)) => room(values, like),
            (Data::Decimal { values, .. }, Data::Decimal { values: like, .. }) => room(values, like),
            (Data::Text(texts), Data::Text(like)) | (Data::Binary(texts), Data::Binary(like)) => {
                room(&mut texts.offsets, &like.offsets);
                room(&mut texts.bytes, &like.bytes);
            }
            (Data::Category(values), Data::Category(like)) => room(&mut values.indexes, &like.indexes),
            (Data::List { offsets, items }, Data::List { offsets: like_offsets, items: like_items }) => {
                room(offsets, like_offsets);
                items.reserve(like_items);
            }
            (Data::Struct(fields), Data::Struct(like)) => {
                for (column, like) in fields.columns.iter_mut().zip(&like.columns) {
                    column.reserve(like);
                }
            }
            // Bits take little memory.
            _ => {}
        }
    }

    /// Frees the memory reserved for further values.
    pub(crate) fn shrink(&mut self) {
        self.valid.shrink();
        match &mut self.data {
            Data::Null => {}
            Data::Bool(bits) => bits.shrink(),
            Data::Int32(values) => values.shrink_to_fit(),
            Data::Int64(values) => values.shrink_to_fit(),
            Data::Double(values) => values.shrink_to_fit(),
            Data::Date { millis, .. } => millis.shrink_to_fit(),
            Data::ObjectId(values) => values.shrink_to_fit(),
            Data::Uuid(values) => values.shrink_to_fit(),
            Data::Decimal { values, .. } => values.shrink_to_fit(),
            Data::Text(texts) | Data::Binary(texts) => {
                texts.offsets.shrink_to_fit();
                texts.bytes.shrink_to_fit();
            }
            Data::Category(values) => values.shrink(),
            Data::List { offsets, items } => {
                offsets.shrink_to_fit();
                items.shrink();
            }
            Data::Struct(fields) => fields.columns.iter_mut().for_each(Self::shrink),
        }
    }
}

fn push_items(items: &mut Column, array: RawArray<'_>, rules: &mut Rules) -> Outcome {
    for (index, value) in array.iter().enumerate() {
        // A list item is never missing, so a null item gets no path; nulls of a document in it do.
        if let Some(nulls) = &mut rules.nulls {
            nulls.path.enter(&index.to_string());
        }
        items.push(value?, rules).map_err(|problem| problem.under(index.to_string()))?;
        if let Some(nulls) = &mut rules.nulls {
            nulls.path.leave();
        }
    }
    Ok(())
}

/// Appends a value that can only be stored as text.
fn push_as_text(texts: &mut Texts, value: RawValue<'_>) -> Outcome {
    match value {
        RawValue::String(value) | RawValue::Symbol(value) | RawValue::JavaScript(value) => {
            texts.push(value.as_bytes())
        }
        RawValue::Decimal128(value) => texts.push(value.to_string().as_bytes()),
        value => push_json(texts, value),
    }
}

fn push_json(texts: &mut Texts, value: RawValue<'_>) -> Outcome {
    make_room(&mut texts.bytes, most_json(&value))?;
    mangonel_bson::extjson::write_json_value(value, JsonMode::Relaxed, &mut texts.bytes)?;
    texts.end()
}

/// Returns the most bytes that a value takes as JSON: six per byte of BSON. Only documents of nothing but rare types
/// may exceed it.
fn most_json(value: &RawValue<'_>) -> usize {
    let bytes = match value {
        RawValue::Document(document) => document.as_bytes().len(),
        RawValue::Array(array) => array.as_document().as_bytes().len(),
        RawValue::Binary(binary) => binary.bytes.len(),
        RawValue::String(text) | RawValue::Symbol(text) | RawValue::JavaScript(text) => text.len(),
        _ => 0,
    };
    bytes.saturating_mul(6).saturating_add(1024)
}

/// Whether a double represents the integer exactly.
pub(crate) fn is_exact(value: i64) -> bool {
    value.unsigned_abs() <= 1 << 53
}

/// Returns the number times ten to the power of `scale`, if that is an integer of at most `precision` digits.
fn scaled(value: &RawValue<'_>, precision: u8, scale: u8) -> Option<i128> {
    let ten = |power: u32| 10i128.checked_pow(power);
    let (number, exponent) = match *value {
        RawValue::Int32(value) => (i128::from(value), 0),
        RawValue::Int64(value) => (i128::from(value), 0),
        RawValue::Decimal128(value) => finite(value)?,
        _ => return None,
    };
    let shift = exponent + i32::from(scale);
    let number = if number == 0 {
        0
    } else if shift >= 0 {
        number.checked_mul(ten(shift as u32)?)?
    } else {
        let unit = ten(shift.unsigned_abs())?;
        (number % unit == 0).then(|| number / unit)?
    };
    (number.unsigned_abs() < ten(precision.into())?.unsigned_abs()).then_some(number)
}

fn finite(value: Decimal128) -> Option<(i128, i32)> {
    match value.parts() {
        Parts::Finite { is_negative, coefficient, exponent } => {
            let number = i128::try_from(coefficient).ok()?;
            Some((if is_negative { -number } else { number }, exponent))
        }
        _ => None,
    }
}

impl Data {
    pub(crate) fn new(kind: &Kind) -> Self {
        match kind {
            Kind::Null => Self::Null,
            Kind::Bool => Self::Bool(Bits::default()),
            Kind::Int32 => Self::Int32(Vec::new()),
            Kind::Int64 => Self::Int64(Vec::new()),
            Kind::Double => Self::Double(Vec::new()),
            Kind::Date { has_zone } => Self::Date { millis: Vec::new(), has_zone: *has_zone },
            Kind::ObjectId => Self::ObjectId(Vec::new()),
            Kind::Uuid => Self::Uuid(Vec::new()),
            Kind::Decimal { precision, scale } => {
                Self::Decimal { values: Vec::new(), precision: *precision, scale: *scale }
            }
            Kind::Text => Self::Text(Texts::new()),
            Kind::Category => Self::Category(Categories::new()),
            Kind::Binary => Self::Binary(Texts::new()),
            Kind::List(kind) => Self::List { offsets: vec![0], items: Box::new(Column::new(kind)) },
            Kind::Struct(fields) => Self::Struct(Fields::new(fields)),
        }
    }

    /// Appends the placeholders of nulls.
    pub(crate) fn extend_zeros(&mut self, count: usize) -> Outcome {
        fn more<T: Clone>(values: &mut Vec<T>, value: T, count: usize) -> Outcome {
            make_room(values, count)?;
            values.resize(values.len() + count, value);
            Ok(())
        }
        fn repeat_last(offsets: &mut Vec<i32>, count: usize) -> Outcome {
            let last = offsets.last().copied().unwrap_or_default();
            more(offsets, last, count)
        }
        match self {
            Self::Null => Ok(()),
            Self::Bool(bits) => bits.extend(false, count),
            Self::Int32(values) => more(values, 0, count),
            Self::Int64(values) => more(values, 0, count),
            Self::Double(values) => more(values, 0.0, count),
            Self::Date { millis, .. } => more(millis, 0, count),
            Self::ObjectId(values) => more(values, [0; 12], count),
            Self::Uuid(values) => more(values, [0; 16], count),
            Self::Decimal { values, .. } => more(values, 0, count),
            Self::Category(values) => more(&mut values.indexes, 0, count),
            Self::Text(texts) | Self::Binary(texts) => repeat_last(&mut texts.offsets, count),
            Self::List { offsets, .. } => repeat_last(offsets, count),
            Self::Struct(fields) => {
                for column in &mut fields.columns {
                    for _ in 0..count {
                        column.push_null()?;
                    }
                }
                Ok(())
            }
        }
    }
}
