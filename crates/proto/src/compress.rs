//! OP_COMPRESSED: wraps and unwraps whole messages with snappy, zlib or zstd. Knows no connection, and of commands only
//! the names that must never be compressed. Spec: compression/OP_COMPRESSED.
//!
//! A server's claim is checked before memory is spent on it: the claimed size may not exceed the largest
//! message, and the message must decompress to exactly that size.

use std::fmt;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use crate::error::ProtocolError;
use crate::memory;
use crate::secret_commands::{is_hello, is_secret};

/// Wire code of OP_COMPRESSED.
pub const OP_COMPRESSED: i32 = 2012;
/// Bytes of every message header: length, request id, response to, opcode.
pub const HEADER_SIZE: usize = 16;
/// Bytes OP_COMPRESSED puts between the header and the compressed body.
pub const PREFIX_SIZE: usize = 9;
/// The largest message a server may send: maxMessageSizeBytes and 16 KiB that servers may add.
pub const MAX_MESSAGE_SIZE: usize = 48_000_000 + 16 * 1024;

/// A compression method a client and a server can agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressor {
    /// Snappy's raw format, without frames.
    Snappy,
    /// Zlib, at a level of -1 (the default, 6) or 0 to 9.
    Zlib {
        /// The URI's `zlibCompressionLevel`.
        level: i32,
    },
    /// Zstandard at its default level.
    Zstd,
}

impl Compressor {
    /// Returns the compressor that handshakes and URIs call `name`, or `None` for an unknown name.
    pub fn from_name(name: &str, zlib_level: i32) -> Option<Compressor> {
        match name {
            "snappy" => Some(Compressor::Snappy),
            "zlib" => Some(Compressor::Zlib { level: zlib_level }),
            "zstd" => Some(Compressor::Zstd),
            _ => None,
        }
    }

    /// Returns the name used in handshakes.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Snappy => "snappy",
            Compressor::Zlib { .. } => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    fn id(self) -> u8 {
        match self {
            Compressor::Snappy => 1,
            Compressor::Zlib { .. } => 2,
            Compressor::Zstd => 3,
        }
    }
}

/// Returns the first of the client's compressors that the server's hello reply named, or `None`.
pub fn negotiate<'a>(
    client: &[Compressor],
    server: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<Compressor> {
    client.iter().copied().find(|one| server.clone().into_iter().any(|name| name == one.name()))
}

/// Returns whether a command of this name may be compressed: it holds no credentials, and is not part of the
/// negotiation.
pub fn is_compressible(command_name: &str) -> bool {
    !is_secret(command_name) && !is_hello(command_name)
}

/// The reason why a message could not be compressed or decompressed. No part of it may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompressError {
    /// The message ends inside its header or prefix.
    Truncated {
        /// The number of bytes.
        found: usize,
    },
    /// The message is not OP_COMPRESSED, or holds another OP_COMPRESSED.
    Opcode {
        /// The opcode found.
        found: i32,
    },
    /// No compressor has this number.
    UnknownCompressor {
        /// The number found.
        id: u8,
    },
    /// The size the message claims to have is negative or larger than any message may be.
    Size {
        /// The claim.
        claimed: i64,
    },
    /// The compressed bytes are damaged, or do not grow to exactly the size claimed.
    Corrupt {
        /// The compressor's name.
        compressor: &'static str,
        /// The size claimed.
        claimed: usize,
    },
    /// There is no memory for the message.
    Memory {
        /// The size claimed.
        claimed: usize,
    },
    /// The compressor could not compress; only a lack of memory does this.
    Failed {
        /// The compressor's name.
        compressor: &'static str,
    },
}

impl From<CompressError> for ProtocolError {
    fn from(error: CompressError) -> Self {
        match error {
            CompressError::Memory { claimed } => ProtocolError::out_of_memory(claimed),
            other => ProtocolError::new(other.to_string()),
        }
    }
}

impl fmt::Display for CompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompressError::Truncated { found } => {
                write!(f, "expected a compressed message of at least 25 bytes, got {found}")
            }
            CompressError::Opcode { found } => {
                write!(f, "expected one layer of OP_COMPRESSED (2012), got opcode {found}")
            }
            CompressError::Memory { claimed } => write!(f, "no memory for a message of {claimed} bytes"),
            CompressError::UnknownCompressor { id } => {
                write!(f, "expected compressor 1 (snappy), 2 (zlib) or 3 (zstd), got {id}")
            }
            CompressError::Size { claimed } => {
                write!(f, "expected a message of at most {MAX_MESSAGE_SIZE} bytes, got a claim of {claimed}")
            }
            CompressError::Corrupt { compressor, claimed } => {
                write!(f, "expected {compressor} data that grows to {claimed} bytes, got damaged data")
            }
            CompressError::Failed { compressor } => write!(f, "{compressor} could not compress a message"),
        }
    }
}

impl std::error::Error for CompressError {}

/// The working memory of compression. Each part is made at first use and kept.
#[derive(Default)]
pub struct Codec {
    snappy: Option<snap::raw::Encoder>,
    deflate: Option<(i32, Compress)>,
    inflate: Option<Decompress>,
    zstd_out: Option<zstd::bulk::Compressor<'static>>,
    zstd_in: Option<zstd::bulk::Decompressor<'static>>,
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Codec")
    }
}

impl Codec {
    /// Appends `message`, a whole message with its header, to `out` as one OP_COMPRESSED message.
    ///
    /// Request id and response-to are those of `message`. An error leaves `out` unchanged.
    pub fn compress(
        &mut self,
        compressor: Compressor,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CompressError> {
        if message.len() < HEADER_SIZE {
            return Err(CompressError::Truncated { found: message.len() });
        }
        let (header, body) = message.split_at(HEADER_SIZE);
        let opcode = read_i32(header, 12);
        let claimed = i32::try_from(body.len())
            .map_err(|_| CompressError::Size { claimed: body.len().try_into().unwrap_or(i64::MAX) })?;
        if opcode == OP_COMPRESSED {
            return Err(CompressError::Opcode { found: opcode });
        }

        let start = out.len();
        out.extend_from_slice(header);
        out.extend_from_slice(&opcode.to_le_bytes());
        out.extend_from_slice(&claimed.to_le_bytes());
        out.push(compressor.id());
        let prefixed = out.len();
        let written = match self.compress_body(compressor, body, out, prefixed) {
            Some(written) => written,
            None => {
                out.truncate(start);
                return Err(CompressError::Failed { compressor: compressor.name() });
            }
        };
        out.truncate(prefixed + written);
        // The bound of each compressor adds less than 1/6 to a body, which easily fits an i32 in practice; a message
        // that would not fit is refused rather than cut.
        let length = match i32::try_from(out.len() - start) {
            Ok(length) => length,
            Err(_) => {
                out.truncate(start);
                return Err(CompressError::Size { claimed: i64::from(claimed) });
            }
        };
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 12..start + 16].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
        Ok(())
    }

    /// Writes the compressed body at `out[at..]` and returns its size; bytes behind it are undefined.
    fn compress_body(
        &mut self,
        compressor: Compressor,
        body: &[u8],
        out: &mut Vec<u8>,
        at: usize,
    ) -> Option<usize> {
        match compressor {
            Compressor::Snappy => {
                make_room(out, at + snap::raw::max_compress_len(body.len()))?;
                self.snappy.get_or_insert_with(snap::raw::Encoder::new).compress(body, &mut out[at..]).ok()
            }
            Compressor::Zlib { level } => {
                make_room(out, at + deflate_bound(body.len()))?;
                let stream = match &mut self.deflate {
                    Some((kept, stream)) if *kept == level => {
                        stream.reset();
                        stream
                    }
                    kept => {
                        // The URI's validation refuses values out of range; clamp rather than panic.
                        let compression = match level {
                            0..=9 => flate2::Compression::new(level.unsigned_abs()),
                            _ => flate2::Compression::default(),
                        };
                        &mut kept.insert((level, Compress::new(compression, true))).1
                    }
                };
                match stream.compress(body, &mut out[at..], FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
                    _ => None,
                }
            }
            Compressor::Zstd => {
                make_room(out, at + zstd::zstd_safe::compress_bound(body.len()))?;
                if self.zstd_out.is_none() {
                    self.zstd_out = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).ok();
                }
                self.zstd_out.as_mut()?.compress_to_buffer(body, &mut out[at..]).ok()
            }
        }
    }

    /// Returns the message inside `message`, a whole OP_COMPRESSED message, with its own header.
    pub fn decompress(&mut self, message: &[u8]) -> Result<Vec<u8>, CompressError> {
        if message.len() < HEADER_SIZE + PREFIX_SIZE {
            return Err(CompressError::Truncated { found: message.len() });
        }
        let opcode = read_i32(message, 12);
        if opcode != OP_COMPRESSED {
            return Err(CompressError::Opcode { found: opcode });
        }
        let original = read_i32(message, 16);
        if original == OP_COMPRESSED {
            return Err(CompressError::Opcode { found: original });
        }
        let claimed = read_i32(message, 20);
        let too_large = CompressError::Size { claimed: i64::from(claimed) };
        let Ok(size) = usize::try_from(claimed) else { return Err(too_large) };
        if size > MAX_MESSAGE_SIZE - HEADER_SIZE {
            return Err(too_large);
        }
        let id = message[24];
        let compressed = &message[HEADER_SIZE + PREFIX_SIZE..];

        let mut out = memory::zeros(HEADER_SIZE + size).ok_or(CompressError::Memory { claimed: size })?;
        let body = &mut out[HEADER_SIZE..];
        let (compressor, grown) = match id {
            1 => ("snappy", self.decompress_snappy(compressed, body)),
            2 => ("zlib", self.decompress_zlib(compressed, body)),
            3 => ("zstd", self.decompress_zstd(compressed, body)),
            _ => return Err(CompressError::UnknownCompressor { id }),
        };
        if grown != Some(size) {
            return Err(CompressError::Corrupt { compressor, claimed: size });
        }
        // `size` is within MAX_MESSAGE_SIZE, so the sum fits an i32.
        out[..4].copy_from_slice(&(claimed + HEADER_SIZE as i32).to_le_bytes());
        out[4..12].copy_from_slice(&message[4..12]);
        out[12..16].copy_from_slice(&original.to_le_bytes());
        Ok(out)
    }

    fn decompress_snappy(&mut self, compressed: &[u8], body: &mut [u8]) -> Option<usize> {
        // Snappy data states its size too; if both agree, the decoder cannot write past the body.
        if snap::raw::decompress_len(compressed).ok()? != body.len() {
            return None;
        }
        snap::raw::Decoder::new().decompress(compressed, body).ok()
    }

    fn decompress_zlib(&mut self, compressed: &[u8], body: &mut [u8]) -> Option<usize> {
        let stream = match &mut self.inflate {
            Some(stream) => {
                stream.reset(true);
                stream
            }
            kept => kept.insert(Decompress::new(true)),
        };
        match stream.decompress(compressed, body, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
            _ => None,
        }
    }

    fn decompress_zstd(&mut self, compressed: &[u8], body: &mut [u8]) -> Option<usize> {
        if self.zstd_in.is_none() {
            self.zstd_in = zstd::bulk::Decompressor::new().ok();
        }
        self.zstd_in.as_mut()?.decompress_to_buffer(compressed, body).ok()
    }
}

/// Returns the most bytes zlib makes of `length`, at any level: stored blocks, their headers, and the frame.
fn deflate_bound(length: usize) -> usize {
    length + (length >> 10) + (length >> 12) + (length >> 14) + 64
}

/// Lengthens `out` to `size` bytes; `None` when there is no memory for them.
fn make_room(out: &mut Vec<u8>, size: usize) -> Option<()> {
    out.try_reserve(size.saturating_sub(out.len())).ok()?;
    out.resize(size, 0);
    Some(())
}

/// Reads four bytes; the caller has checked that they exist.
fn read_i32(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Compressor; 5] = [
        Compressor::Snappy,
        Compressor::Zlib { level: -1 },
        Compressor::Zlib { level: 0 },
        Compressor::Zlib { level: 9 },
        Compressor::Zstd,
    ];

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend_from_slice(&(16 + body.len() as i32).to_le_bytes());
        message.extend_from_slice(&7i32.to_le_bytes());
        message.extend_from_slice(&9i32.to_le_bytes());
        message.extend_from_slice(&2013i32.to_le_bytes());
        message.extend_from_slice(body);
        message
    }

    fn compressed(compressor: Compressor, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Codec::default().compress(compressor, &message(body), &mut out).unwrap();
        out
    }

    #[test]
    fn a_message_survives_each_compressor_and_a_reused_codec() {
        let mut codec = Codec::default();
        for compressor in ALL {
            for size in [0usize, 1, 100, 70_000] {
                let original = message(&vec![b'x'; size]);
                let mut wire = vec![0xAA];
                codec.compress(compressor, &original, &mut wire).unwrap();
                assert_eq!(wire[0], 0xAA);
                assert_eq!(read_i32(&wire, 1) as usize, wire.len() - 1);
                assert_eq!(codec.decompress(&wire[1..]).unwrap(), original, "{compressor:?} {size}");
            }
        }
    }

    #[test]
    fn repetitive_messages_shrink() {
        for compressor in [Compressor::Snappy, Compressor::Zlib { level: 6 }, Compressor::Zstd] {
            assert!(compressed(compressor, &[b'a'; 100_000]).len() < 10_000, "{compressor:?}");
        }
    }

    #[test]
    fn a_claim_past_the_largest_message_is_refused_before_memory_is_taken() {
        for compressor in ALL {
            for claim in [-1i32, i32::MIN, i32::MAX, (MAX_MESSAGE_SIZE - HEADER_SIZE + 1) as i32] {
                let mut wire = compressed(compressor, b"body");
                wire[20..24].copy_from_slice(&claim.to_le_bytes());
                let error = Codec::default().decompress(&wire).unwrap_err();
                assert_eq!(error, CompressError::Size { claimed: i64::from(claim) });
            }
        }
    }

    #[test]
    fn a_body_that_grows_to_another_size_than_claimed_is_refused() {
        for compressor in ALL {
            for claim in [0i32, 999, 1001] {
                let mut wire = compressed(compressor, &[b'z'; 1000]);
                wire[20..24].copy_from_slice(&claim.to_le_bytes());
                let error = Codec::default().decompress(&wire).unwrap_err();
                assert!(matches!(error, CompressError::Corrupt { .. }), "{compressor:?} {claim}: {error}");
            }
        }
    }

    #[test]
    fn a_cut_body_is_refused() {
        for compressor in ALL {
            let wire = compressed(compressor, &(0..=255).collect::<Vec<u8>>());
            for length in 0..wire.len() {
                assert!(Codec::default().decompress(&wire[..length]).is_err(), "{compressor:?} {length}");
            }
        }
    }

    #[test]
    fn nested_and_foreign_messages_are_refused() {
        let mut nested = compressed(Compressor::Snappy, b"body");
        nested[16..20].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
        assert_eq!(Codec::default().decompress(&nested), Err(CompressError::Opcode { found: 2012 }));
        let plain = message(&[0; 40]);
        assert_eq!(Codec::default().decompress(&plain), Err(CompressError::Opcode { found: 2013 }));
        let mut unknown = compressed(Compressor::Snappy, b"body");
        unknown[24] = 0;
        assert_eq!(Codec::default().decompress(&unknown), Err(CompressError::UnknownCompressor { id: 0 }));
        let twice = Codec::default().compress(Compressor::Zstd, &nested, &mut Vec::new());
        assert_eq!(twice, Err(CompressError::Opcode { found: 2012 }));
    }

    #[test]
    fn commands_that_carry_credentials_are_never_compressed() {
        for name in
            ["hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "createUser"]
        {
            assert!(!is_compressible(name), "{name}");
        }
        assert!(is_compressible("find"));
        assert!(is_compressible("helloworld"));
    }

    #[test]
    fn the_clients_order_decides_which_compressor_is_used() {
        let client = [Compressor::Zstd, Compressor::Snappy];
        assert_eq!(negotiate(&client, ["snappy", "zstd"]), Some(Compressor::Zstd));
        assert_eq!(negotiate(&client, ["snappy", "zlib"]), Some(Compressor::Snappy));
        assert_eq!(negotiate(&client, ["zlib"]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_body_survives(body in prop::collection::vec(any::<u8>(), 0..5000), which in 0..ALL.len()) {
            let original = message(&body);
            let wire = compressed(ALL[which], &body);
            prop_assert_eq!(Codec::default().decompress(&wire).unwrap(), original);
        }

        #[test]
        fn any_bytes_are_decompressed_or_refused(
            claim in 0i32..100_000,
            id in 0u8..5,
            tail in prop::collection::vec(any::<u8>(), 0..500),
        ) {
            let mut wire = message(&[]);
            wire[12..16].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
            wire.extend_from_slice(&2013i32.to_le_bytes());
            wire.extend_from_slice(&claim.to_le_bytes());
            wire.push(id);
            wire.extend_from_slice(&tail);
            let _ = Codec::default().decompress(&wire);
        }

        #[test]
        fn a_damaged_message_never_panics(
            body in prop::collection::vec(any::<u8>(), 0..300),
            which in 0..ALL.len(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut wire = compressed(ALL[which], &body);
            let at = at.index(wire.len());
            wire[at] = byte;
            let _ = Codec::default().decompress(&wire);
        }
    }
}
