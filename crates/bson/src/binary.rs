//! Binary values and the names of their subtypes. Knows nothing of UUID layouts or vectors.
//! Spec: bsonspec.org, uuid.

/// Arbitrary bytes, the default.
pub const GENERIC: u8 = 0x00;
/// Compiled function code.
pub const FUNCTION: u8 = 0x01;
/// Generic bytes in an old form, with a second length inside the payload.
pub const OLD_BINARY: u8 = 0x02;
/// UUID in the byte order of an old driver; the bytes do not tell which driver.
pub const UUID_LEGACY: u8 = 0x03;
/// UUID in network byte order.
pub const UUID: u8 = 0x04;
/// MD5 digest.
pub const MD5: u8 = 0x05;
/// Value encrypted by client-side encryption.
pub const ENCRYPTED: u8 = 0x06;
/// Compressed column of a time series.
pub const COLUMN: u8 = 0x07;
/// Value that must not be logged.
pub const SENSITIVE: u8 = 0x08;
/// Packed vector of numbers; see the bson-binary-vector specification.
pub const VECTOR: u8 = 0x09;
/// First of the subtypes that users may define.
pub const USER_DEFINED: u8 = 0x80;

/// A binary value inside a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBinary<'a> {
    /// What the bytes mean; see the constants of this module.
    pub subtype: u8,
    /// The payload; for [`OLD_BINARY`] without its inner length.
    pub bytes: &'a [u8],
}
