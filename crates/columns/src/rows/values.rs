//! The buffers of a column as slices with checked lengths.

use crate::rows::form::{Form, Moment, Width};

/// The description of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the C data interface")]
pub struct Layout {
    pub length: i64,
    pub offset: i64,
    pub null_count: i64,
    pub buffers: i64,
    pub children: i64,
}

/// An array that is being read.
pub trait Source<'a>: Sized {
    /// Returns its description.
    fn layout(&self) -> Layout;

    /// Returns this many bytes from the start of a buffer; `None` if the buffer does not exist.
    ///
    /// # Errors
    /// The buffer is known to be shorter.
    fn buffer(&self, index: usize, bytes: usize) -> Result<Option<&'a [u8]>, String>;

    /// Returns a child array; called only for the children that `layout` counts.
    ///
    /// # Errors
    /// The child does not exist.
    fn child(&self, index: usize) -> Result<Self, String>;

    /// Returns the values of a dictionary.
    ///
    /// # Errors
    /// The values do not exist.
    fn dictionary(&self) -> Result<Self, String>;
}

/// The values of a column, each read on demand.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    pub(super) len: usize,
    /// How many values the buffers hold before the first value of this column.
    pub(super) start: usize,
    /// `None`: all are there.
    pub(super) valid: Option<&'a [u8]>,
    pub(super) cells: Cells<'a>,
}

/// Numbers are kept as bytes, since they may be unaligned.
#[derive(Clone, Debug)]
pub(super) enum Cells<'a> {
    Null,
    Bool(&'a [u8]),
    Int8(&'a [[u8; 1]]),
    Int16(&'a [[u8; 2]]),
    Int32(&'a [[u8; 4]]),
    Int64(&'a [[u8; 8]]),
    UInt8(&'a [[u8; 1]]),
    UInt16(&'a [[u8; 2]]),
    UInt32(&'a [[u8; 4]]),
    UInt64(&'a [[u8; 8]]),
    Float16(&'a [[u8; 2]]),
    Float32(&'a [[u8; 4]]),
    Float64(&'a [[u8; 8]]),
    Days(&'a [[u8; 4]]),
    Moment(&'a [[u8; 8]], Moment),
    ObjectId(&'a [[u8; 12]]),
    Uuid(&'a [[u8; 16]]),
    BsonDecimal(&'a [[u8; 16]]),
    Fixed(&'a [u8], usize),
    Decimal32(&'a [[u8; 4]], i32),
    Decimal64(&'a [[u8; 8]], i32),
    Decimal128(&'a [[u8; 16]], i32),
    Text(Pieces<'a>),
    Code(Pieces<'a>),
    Bytes(Pieces<'a>, u8),
    List(Offsets<'a>, Box<Values<'a>>),
    FixedList(usize, Box<Values<'a>>),
    Struct(Vec<(&'a str, Values<'a>)>),
    /// Indexes, and whether they are signed.
    Dictionary(Box<Values<'a>>, Box<Values<'a>>),
}

/// Where values begin and end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offsets<'a> {
    Small(&'a [[u8; 4]]),
    Large(&'a [[u8; 8]]),
}

/// Texts or bytes.
#[derive(Clone, Debug)]
pub(super) enum Pieces<'a> {
    Joined(Offsets<'a>, &'a [u8]),
    Views(&'a [[u8; 16]], Vec<&'a [u8]>),
}

const NO_BUFFERS: i64 = 0;

impl<'a> Values<'a> {
    /// Reads an array.
    ///
    /// # Errors
    /// Lengths, offsets or counts are not what the format asks for; a buffer is missing.
    pub fn read(form: &'a Form, source: &impl Source<'a>) -> Result<Self, String> {
        let layout = source.layout();
        let (len, start) = (size(layout.length, "length")?, size(layout.offset, "offset")?);
        let end = len.checked_add(start).filter(|end| *end <= isize::MAX as usize);
        let end = end.ok_or_else(|| {
            format!("expected a length below 2 to the power of 63, got {len} after {start}")
        })?;
        let reader = Reader { source, layout, end };
        let cells = reader.cells(form)?;
        Ok(Self { len, start, valid: reader.valid(form)?, cells })
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn is_null(&self, at: usize) -> bool {
        match self.valid {
            None => matches!(self.cells, Cells::Null),
            Some(bits) => bits.get(at / 8).is_none_or(|byte| byte >> (at % 8) & 1 == 0),
        }
    }
}

struct Reader<'s, S> {
    source: &'s S,
    layout: Layout,
    /// The number of values in the buffers, those before the first included.
    end: usize,
}

impl<'a, S: Source<'a>> Reader<'_, S> {
    fn expect(&self, what: &str, found: i64, wanted: i64) -> Result<(), String> {
        if found == wanted {
            return Ok(());
        }
        Err(format!("expected {wanted} {what} of an Arrow array, got {found}"))
    }

    fn valid(&self, form: &Form) -> Result<Option<&'a [u8]>, String> {
        if matches!(form, Form::Null) || self.layout.null_count == 0 {
            return Ok(None);
        }
        let bits = self.source.buffer(0, self.end.div_ceil(8))?;
        if bits.is_none() && self.layout.null_count > 0 {
            return Err(format!(
                "expected a bitmap that marks {} null values, got none",
                self.layout.null_count
            ));
        }
        Ok(bits)
    }

    /// Returns a buffer that must exist unless it is empty.
    fn bytes(&self, index: usize, count: usize, each: usize) -> Result<&'a [u8], String> {
        let bytes = count.checked_mul(each).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| {
            format!("expected a buffer that fits into memory, got {count} times {each} bytes")
        })?;
        match self.source.buffer(index, bytes)? {
            Some(found) if found.len() >= bytes => Ok(&found[..bytes]),
            None if bytes == 0 => Ok(&[]),
            _ => Err(format!("expected {bytes} bytes in buffer {index} of an Arrow array, got fewer")),
        }
    }

    fn numbers<const N: usize>(&self) -> Result<&'a [[u8; N]], String> {
        self.expect("buffers", self.layout.buffers, 2)?;
        Ok(self.bytes(1, self.end, N)?.as_chunks().0)
    }

    fn offsets(&self, is_large: bool) -> Result<Offsets<'a>, String> {
        // An empty array may lack its only offset.
        let count = if self.end == 0 { 0 } else { self.end.saturating_add(1) };
        Ok(if is_large {
            Offsets::Large(self.bytes(1, count, 8)?.as_chunks().0)
        } else {
            Offsets::Small(self.bytes(1, count, 4)?.as_chunks().0)
        })
    }

    fn pieces(&self, width: Width) -> Result<Pieces<'a>, String> {
        if width == Width::View {
            return self.views();
        }
        self.expect("buffers", self.layout.buffers, 3)?;
        let offsets = self.offsets(width == Width::Large)?;
        let total = offsets.last()?;
        Ok(Pieces::Joined(offsets, self.bytes(2, total, 1)?))
    }

    fn views(&self) -> Result<Pieces<'a>, String> {
        // Validity, views, the data buffers, and their lengths.
        let data = usize::try_from(self.layout.buffers).ok().and_then(|buffers| buffers.checked_sub(3));
        let data =
            data.ok_or_else(|| format!("expected at least 3 buffers of views, got {}", self.layout.buffers))?;
        let views = self.bytes(1, self.end, 16)?.as_chunks().0;
        let lengths: &[[u8; 8]] = self.bytes(2 + data, data, 8)?.as_chunks().0;
        let buffers = lengths.iter().enumerate().map(|(index, length)| {
            self.bytes(2 + index, size(i64::from_ne_bytes(*length), "length of a buffer")?, 1)
        });
        Ok(Pieces::Views(views, buffers.collect::<Result<_, _>>()?))
    }

    fn child(&self, index: usize, form: &'a Form) -> Result<Values<'a>, String> {
        Values::read(form, &self.source.child(index)?)
    }

    fn cells(&self, form: &'a Form) -> Result<Cells<'a>, String> {
        let children = match form {
            Form::List { .. } | Form::FixedList { .. } => 1,
            Form::Struct(fields) => fields.len() as i64,
            _ => 0,
        };
        self.expect("arrays inside", self.layout.children, children)?;
        Ok(match form {
            Form::Null => {
                // This kind has no bitmap, but some libraries reserve a buffer for one.
                if self.layout.buffers != 1 {
                    self.expect("buffers", self.layout.buffers, NO_BUFFERS)?;
                }
                Cells::Null
            }
            Form::Bool => {
                self.expect("buffers", self.layout.buffers, 2)?;
                Cells::Bool(self.bytes(1, self.end.div_ceil(8), 1)?)
            }
            Form::Int { bytes, is_signed } => self.integers(*bytes, *is_signed)?,
            Form::Float(2) => Cells::Float16(self.numbers()?),
            Form::Float(4) => Cells::Float32(self.numbers()?),
            Form::Float(_) => Cells::Float64(self.numbers()?),
            Form::Moment(Moment::Days) => Cells::Days(self.numbers()?),
            Form::Moment(unit) => Cells::Moment(self.numbers()?, *unit),
            Form::ObjectId => Cells::ObjectId(self.numbers()?),
            Form::Uuid => Cells::Uuid(self.numbers()?),
            Form::BsonDecimal => Cells::BsonDecimal(self.numbers()?),
            Form::Fixed(bytes) => {
                self.expect("buffers", self.layout.buffers, 2)?;
                Cells::Fixed(self.bytes(1, self.end, *bytes)?, *bytes)
            }
            Form::Decimal { bytes: 4, scale } => Cells::Decimal32(self.numbers()?, *scale),
            Form::Decimal { bytes: 8, scale } => Cells::Decimal64(self.numbers()?, *scale),
            Form::Decimal { scale, .. } => Cells::Decimal128(self.numbers()?, *scale),
            Form::Text(width) => Cells::Text(self.pieces(*width)?),
            Form::Code(width) => Cells::Code(self.pieces(*width)?),
            Form::Bytes(width, subtype) => Cells::Bytes(self.pieces(*width)?, *subtype),
            Form::List { is_large, item } => {
                self.expect("buffers", self.layout.buffers, 2)?;
                Cells::List(self.offsets(*is_large)?, Box::new(self.child(0, item)?))
            }
            Form::FixedList { size, item } => {
                self.expect("buffers", self.layout.buffers, 1)?;
                let items = self.child(0, item)?;
                let wanted = self.end.checked_mul(*size);
                if wanted.is_none_or(|wanted| wanted > items.len) {
                    return Err(format!(
                        "expected {} items for lists of {size}, got {}",
                        self.end, items.len
                    ));
                }
                Cells::FixedList(*size, Box::new(items))
            }
            Form::Struct(fields) => {
                self.expect("buffers", self.layout.buffers, 1)?;
                let mut columns = Vec::with_capacity(fields.len());
                for (index, field) in fields.iter().enumerate() {
                    let values = self.child(index, &field.form)?;
                    if values.len < self.end {
                        return Err(format!(
                            "expected {} values for {:?}, got {}",
                            self.end, field.name, values.len
                        ));
                    }
                    columns.push((field.name.as_str(), values));
                }
                Cells::Struct(columns)
            }
            Form::Dictionary { bytes, is_signed, values } => {
                let cells = self.integers(*bytes, *is_signed)?;
                // The parent records which of them are null.
                let indexes = Values { len: self.end, start: 0, valid: None, cells };
                let values = Values::read(values, &self.source.dictionary()?)?;
                Cells::Dictionary(Box::new(indexes), Box::new(values))
            }
        })
    }

    fn integers(&self, bytes: u8, is_signed: bool) -> Result<Cells<'a>, String> {
        Ok(match (bytes, is_signed) {
            (1, true) => Cells::Int8(self.numbers()?),
            (1, false) => Cells::UInt8(self.numbers()?),
            (2, true) => Cells::Int16(self.numbers()?),
            (2, false) => Cells::UInt16(self.numbers()?),
            (4, true) => Cells::Int32(self.numbers()?),
            (4, false) => Cells::UInt32(self.numbers()?),
            (_, true) => Cells::Int64(self.numbers()?),
            (_, false) => Cells::UInt64(self.numbers()?),
        })
    }
}

impl<'a> Offsets<'a> {
    fn last(&self) -> Result<usize, String> {
        match self {
            Self::Small(offsets) => {
                offsets.last().map_or(Ok(0), |last| size(i32::from_ne_bytes(*last).into(), "offset"))
            }
            Self::Large(offsets) => {
                offsets.last().map_or(Ok(0), |last| size(i64::from_ne_bytes(*last), "offset"))
            }
        }
    }

    #[inline]
    pub(super) fn range(&self, at: usize) -> Option<std::ops::Range<usize>> {
        Some(match self {
            Self::Small(offsets) => {
                let bound = |at: usize| usize::try_from(i32::from_ne_bytes(*offsets.get(at)?)).ok();
                bound(at)?..bound(at + 1)?
            }
            Self::Large(offsets) => {
                let bound = |at: usize| usize::try_from(i64::from_ne_bytes(*offsets.get(at)?)).ok();
                bound(at)?..bound(at + 1)?
            }
        })
    }
}

impl<'a> Pieces<'a> {
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        match self {
            Self::Joined(offsets, bytes) => bytes.get(offsets.range(at)?),
            Self::Views(views, buffers) => {
                let view = views.get(at)?;
                let number = |at: usize| {
                    let bytes = view.get(at..at + 4)?.first_chunk::<4>()?;
                    usize::try_from(i32::from_ne_bytes(*bytes)).ok()
                };
                let length = number(0)?;
                if length <= 12 {
                    return view.get(4..4 + length);
                }
                let start = number(12)?;
                buffers.get(number(8)?)?.get(start..start + length)
            }
        }
    }
}

fn size(number: i64, what: &str) -> Result<usize, String> {
    usize::try_from(number)
        .map_err(|_| format!("expected a {what} of an Arrow array from 0 on, got {number}"))
}
