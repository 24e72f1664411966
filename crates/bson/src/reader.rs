//! Borrowing, checked reader: walks a document's bytes and hands out values that point into them.
//!
//! Nothing is trusted: every length, terminator, type code and UTF-8 sequence is checked when it is reached. Of an
//! embedded document only the length is checked until it is walked; `validate` checks everything. Offsets in errors
//! count from the start of the document that was being walked.

use std::iter::FusedIterator;

use crate::binary::RawBinary;
use crate::bytes::{MIN_DOCUMENT, cstring_end, document_length, read_value, utf8, value_end};
use crate::error::{Error, ErrorKind, Result};
use crate::object_id::ObjectId;
use crate::timestamp::Timestamp;
pub use crate::value::RawValue;

/// A document inside a buffer. Its length and terminator are right; its elements are unchecked until walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDocument<'a>(pub(crate) &'a [u8]);

/// One element of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawElement<'a> {
    /// The key; any text without a zero byte.
    pub key: &'a str,
    /// The value, pointing into the document.
    pub value: RawValue<'a>,
}

impl<'a> RawDocument<'a> {
    /// Takes bytes that hold exactly one document.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when the length prefix is not the number of bytes, or the last byte is not zero.
    #[inline]
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        match Self::prefix(bytes)? {
            (document, []) => Ok(document),
            (document, rest) => Err(Error::malformed(
                0,
                format!(
                    "expected one document, got length {} and {} more bytes",
                    document.0.len(),
                    rest.len()
                ),
            )),
        }
    }

    /// Takes the document at the start of `bytes`, and also returns the bytes behind it.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when the length prefix is below 5 or beyond the bytes, or the terminator is missing.
    #[inline]
    pub fn prefix(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let length = document_length(bytes, 0)?;
        let (document, rest) = bytes.split_at(length);
        Ok((Self(document), rest))
    }

    /// Returns the whole document, length and terminator included.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Tells whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == MIN_DOCUMENT
    }

    /// Returns the document without its terminator, so that no value can claim it.
    #[inline]
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.0[..self.0.len() - 1]
    }

    /// Walks the elements in order; after an error there are no more.
    #[inline]
    pub fn iter(&self) -> Iter<'a> {
        Iter { body: self.body(), at: 4 }
    }

    /// Walks the elements as [`RawDocument::iter`] does, without checking that keys are UTF-8: for callers
    /// that only compare them.
    #[inline]
    pub fn fields(&self) -> Fields<'a> {
        Fields(self.iter())
    }

    /// Finds the first element with this key, stepping over others without decoding their values.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when an element up to the wanted one cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<RawValue<'a>>> {
        let mut iter = self.iter();
        let body = iter.body;
        while iter.at < body.len() {
            let code = body[iter.at];
            let start = iter.at + 1;
            let end = cstring_end(body, start)?;
            if &body[start..end] == key.as_bytes() {
                let (value, _) = read_value(body, code, end + 1).map_err(|e| e.under(key))?;
                return Ok(Some(value));
            }
            iter.at = value_end(body, code, end + 1)?;
        }
        Ok(None)
    }

    /// Finds an integer that may have been stored as int32, int64 or a double without a fraction.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_i64_lenient(&self, key: &str) -> Result<Option<i64>> {
        self.get_as(key, "an integer", |value| value.as_i64_lenient())
    }

    /// Finds a truth value that may have been stored as a boolean or a number.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_bool_lenient(&self, key: &str) -> Result<Option<bool>> {
        self.get_as(key, "a boolean or number", |value| value.as_bool_lenient())
    }

    /// Finds a string.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_str(&self, key: &str) -> Result<Option<&'a str>> {
        self.get_as(key, "string", |value| match value {
            RawValue::String(text) => Some(text),
            _ => None,
        })
    }

    /// Finds an embedded document.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_document(&self, key: &str) -> Result<Option<RawDocument<'a>>> {
        self.get_as(key, "object", |value| match value {
            RawValue::Document(document) => Some(document),
            _ => None,
        })
    }

    /// Finds an array.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_array(&self, key: &str) -> Result<Option<RawArray<'a>>> {
        self.get_as(key, "array", |value| match value {
            RawValue::Array(array) => Some(array),
            _ => None,
        })
    }

    /// Finds an ObjectId.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_object_id(&self, key: &str) -> Result<Option<ObjectId>> {
        self.get_as(key, "objectId", |value| match value {
            RawValue::ObjectId(id) => Some(id),
            _ => None,
        })
    }

    /// Finds a timestamp.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_timestamp(&self, key: &str) -> Result<Option<Timestamp>> {
        self.get_as(key, "timestamp", |value| match value {
            RawValue::Timestamp { time, increment } => Some(Timestamp { time, increment }),
            _ => None,
        })
    }

    /// Finds a date, in milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_datetime(&self, key: &str) -> Result<Option<i64>> {
        self.get_as(key, "date", |value| match value {
            RawValue::DateTime(milliseconds) => Some(milliseconds),
            _ => None,
        })
    }

    /// Finds a binary value.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_binary(&self, key: &str) -> Result<Option<RawBinary<'a>>> {
        self.get_as(key, "binData", |value| match value {
            RawValue::Binary(binary) => Some(binary),
            _ => None,
        })
    }

    fn get_as<T>(
        &self,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(RawValue<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        match convert(value) {
            Some(value) => Ok(Some(value)),
            None => {
                Err(Error::new(ErrorKind::WrongType, format!("expected {wanted} for \"{key}\", got {value}")))
            }
        }
    }
}

impl<'a> IntoIterator for RawDocument<'a> {
    type Item = Result<RawElement<'a>>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An array inside a buffer: a document whose keys are positions, which are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArray<'a>(RawDocument<'a>);

impl<'a> RawArray<'a> {
    /// Takes a document as an array, with any keys.
    #[inline]
    pub fn from_document(document: RawDocument<'a>) -> Self {
        Self(document)
    }

    /// Returns the document that holds the values.
    #[inline]
    pub fn as_document(&self) -> RawDocument<'a> {
        self.0
    }

    /// Returns the whole array, length and terminator included.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// Tells whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Walks the values in order, with any keys; after an error there are no more.
    #[inline]
    pub fn iter(&self) -> Values<'a> {
        Values(self.0.fields())
    }
}

impl<'a> IntoIterator for RawArray<'a> {
    type Item = Result<RawValue<'a>>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

/// Walks the elements of a document.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    /// The document without its terminator, so that no value can claim it.
    body: &'a [u8],
    /// The next element's type code; the body's length when there is none.
    at: usize,
}

impl Iter<'_> {
    /// Returns where the next element starts, counted from the start of the document.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<RawElement<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let code = *self.body.get(self.at)?;
        match read_element(self.body, code, self.at + 1) {
            Ok((element, end)) => {
                self.at = end;
                Some(Ok(element))
            }
            Err(error) => {
                self.at = self.body.len();
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Iter<'_> {}

/// Walks the keys and values of a document; a key is its bytes, none of them zero.
#[derive(Clone, Debug)]
pub struct Fields<'a>(Iter<'a>);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a [u8], RawValue<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let body = self.0.body;
        let code = *body.get(self.0.at)?;
        let start = self.0.at + 1;
        let read = cstring_end(body, start).and_then(|end| {
            let (value, after) = read_value(body, code, end + 1)?;
            Ok((&body[start..end], value, after))
        });
        match read {
            Ok((key, value, after)) => {
                self.0.at = after;
                Some(Ok((key, value)))
            }
            Err(error) => {
                self.0.at = body.len();
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Fields<'_> {}

/// Walks the values of an array.
#[derive(Clone, Debug)]
pub struct Values<'a>(Fields<'a>);

impl<'a> Iterator for Values<'a> {
    type Item = Result<RawValue<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|field| field.map(|(_, value)| value))
    }
}

impl FusedIterator for Values<'_> {}

#[inline]
fn read_element<'a>(body: &'a [u8], code: u8, at: usize) -> Result<(RawElement<'a>, usize)> {
    let end = cstring_end(body, at)?;
    let key = utf8(body, at, end)?;
    match read_value(body, code, end + 1) {
        Ok((value, end)) => Ok((RawElement { key, value }, end)),
        Err(error) => Err(error.under(key)),
    }
}
