//! Vectors of numbers inside binary values of subtype 9. Does no arithmetic on them.
//! Spec: bson-binary-vector.

use crate::binary::{RawBinary, VECTOR};
use crate::error::{Error, ErrorKind, Result};

/// The type of the numbers; the discriminant is the stored byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dtype {
    /// Signed bytes.
    Int8 = 0x03,
    /// Single bits, eight to a byte, the first in the highest place.
    PackedBit = 0x10,
    /// 32-bit floating point numbers, little-endian.
    Float32 = 0x27,
}

impl Dtype {
    /// Finds the type of a stored byte.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0x03 => Some(Self::Int8),
            0x10 => Some(Self::PackedBit),
            0x27 => Some(Self::Float32),
            _ => None,
        }
    }
}

/// A vector inside a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawVector<'a> {
    dtype: Dtype,
    padding: u8,
    data: &'a [u8],
}

impl<'a> RawVector<'a> {
    /// Reads the two bytes of header and checks that the rest agrees with them.
    ///
    /// # Errors
    /// [`ErrorKind::WrongType`] for another subtype, [`ErrorKind::Malformed`] for an unknown type of number,
    /// a padding that the type or the length does not allow, or a cut number.
    pub fn from_binary(binary: RawBinary<'a>) -> Result<Self> {
        if binary.subtype != VECTOR {
            return Err(Error::new(
                ErrorKind::WrongType,
                format!("expected binary subtype 9 for a vector, got {}", binary.subtype),
            ));
        }
        let [code, padding, data @ ..] = binary.bytes else {
            return Err(Error::malformed(
                0,
                format!("expected two bytes before a vector, got {}", binary.bytes.len()),
            ));
        };
        let Some(dtype) = Dtype::from_code(*code) else {
            return Err(Error::malformed(
                0,
                format!("expected vector type 0x03, 0x10 or 0x27, got 0x{code:02X}"),
            ));
        };
        Self::new(dtype, *padding, data)
    }

    /// Makes a vector; [`RawVector::append_payload`] writes it.
    ///
    /// # Errors
    /// As [`RawVector::from_binary`].
    pub fn new(dtype: Dtype, padding: u8, data: &'a [u8]) -> Result<Self> {
        let max_padding = match (dtype, data) {
            (Dtype::PackedBit, [_, ..]) => 7,
            _ => 0,
        };
        if padding > max_padding {
            return Err(Error::malformed(
                1,
                format!("expected a vector padding of at most {max_padding}, got {padding}"),
            ));
        }
        if dtype == Dtype::Float32 && !data.len().is_multiple_of(4) {
            return Err(Error::malformed(
                2,
                format!("expected a multiple of 4 bytes for a float32 vector, got {}", data.len()),
            ));
        }
        Ok(Self { dtype, padding, data })
    }

    /// Returns the type of the numbers.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns how many low bits of the last byte are unused in a vector of bits.
    pub fn padding(&self) -> u8 {
        self.padding
    }

    /// Returns the numbers as stored.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns how many numbers there are.
    pub fn len(&self) -> usize {
        match self.dtype {
            Dtype::Int8 => self.data.len(),
            Dtype::Float32 => self.data.len() / 4,
            Dtype::PackedBit => self.data.len() * 8 - usize::from(self.padding),
        }
    }

    /// Tells whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns whether an unused bit is set, which writers must not do.
    pub fn has_stray_bits(&self) -> bool {
        let mask = (1u16 << self.padding) as u8 - 1;
        self.data.last().is_some_and(|last| last & mask != 0)
    }

    /// Walks the numbers of a float32 vector; nothing for other types.
    pub fn floats(&self) -> impl Iterator<Item = f32> + use<'a> {
        let data = if self.dtype == Dtype::Float32 { self.data } else { &[] };
        let (numbers, _) = data.as_chunks::<4>();
        numbers.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// Walks the numbers of an int8 vector; nothing for other types.
    pub fn ints(&self) -> impl Iterator<Item = i8> + use<'a> {
        let data = if self.dtype == Dtype::Int8 { self.data } else { &[] };
        data.iter().map(|&byte| byte as i8)
    }

    /// Walks the bits of a packed vector; nothing for other types.
    pub fn bits(&self) -> impl Iterator<Item = bool> + use<'a> {
        let (data, length) = match self.dtype {
            Dtype::PackedBit => (self.data, self.len()),
            _ => (&[][..], 0),
        };
        (0..length).map(move |i| data[i / 8] >> (7 - i % 8) & 1 == 1)
    }

    /// Appends header and numbers: the payload of a binary value of subtype 9.
    pub fn append_payload(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.dtype as u8, self.padding]);
        out.extend_from_slice(self.data);
    }
}

/// Appends the payload of a float32 vector.
pub fn append_floats(out: &mut Vec<u8>, numbers: &[f32]) {
    out.extend_from_slice(&[Dtype::Float32 as u8, 0]);
    out.reserve(numbers.len() * 4);
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Appends the payload of an int8 vector.
pub fn append_ints(out: &mut Vec<u8>, numbers: &[i8]) {
    out.extend_from_slice(&[Dtype::Int8 as u8, 0]);
    out.extend(numbers.iter().map(|&number| number as u8));
}
