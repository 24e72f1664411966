//! The crate's one error: what was expected, what was found, at which byte and under which key.

use std::borrow::Cow;
use std::fmt;

/// The kind of failure, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not BSON: a length, a terminator, a type code or UTF-8 is wrong.
    Malformed,
    /// The element exists but holds another type than the caller asked for.
    WrongType,
    /// Nesting goes deeper than the limit.
    TooDeep,
    /// A text (JSON, hex, decimal) does not follow its grammar.
    Syntax,
    /// A value exists but does not fit its target.
    OutOfRange,
}

/// A failed read, write or conversion.
///
/// Boxed, so that a `Result` stays as small as its value on the hot path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    offset: Option<usize>,
    /// Keys from the innermost element outwards.
    path: Vec<String>,
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Builds an error without a place; add one with [`Error::at`] and [`Error::under`].
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), offset: None, path: Vec::new() }))
    }

    #[cold]
    pub(crate) fn malformed(offset: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Malformed, message).at(offset)
    }

    #[cold]
    pub(crate) fn syntax(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Syntax, message)
    }

    #[cold]
    pub(crate) fn range(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::OutOfRange, message)
    }

    /// Records the byte of the document or text at which the error happened, unless one is recorded already.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Adds the start of its document to the recorded offset.
    #[must_use]
    pub fn shift(mut self, base: usize) -> Self {
        if let Some(offset) = &mut self.0.offset {
            *offset += base;
        }
        self
    }

    /// Records the key under which the error happened; call once per level, innermost first.
    #[must_use]
    pub fn under(mut self, key: &str) -> Self {
        self.0.path.push(key.to_owned());
        self
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the byte at which the error happened, counted from the start of the read bytes.
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// Returns the dotted path of keys to the error, empty at the top.
    pub fn path(&self) -> String {
        let keys: Vec<&str> = self.0.path.iter().rev().map(String::as_str).collect();
        keys.join(".")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(offset) = self.0.offset {
            write!(f, " at byte {offset}")?;
        }
        if !self.0.path.is_empty() {
            write!(f, " under \"{}\"", self.path())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
