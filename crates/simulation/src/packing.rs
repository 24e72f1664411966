//! Compressed messages as a server reads and makes them, straight by the compressors' libraries.

use std::io::Read;

use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};

const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;
/// Length, request id, response to.
const IDS: usize = 12;
/// The header and what stands before the compressed bytes.
const PREFIX: usize = 25;

/// The compressors by their numbers.
pub const NAMES: [&str; 4] = ["noop", "snappy", "zlib", "zstd"];

/// Whether a message is compressed.
pub fn is_packed(message: &[u8]) -> bool {
    message.get(IDS..16) == Some(&OP_COMPRESSED.to_le_bytes())
}

/// Returns the message inside of a compressed one, and the compressor's number; `None` when it is none.
pub fn unpack(message: &[u8]) -> Option<(Vec<u8>, u8)> {
    let word = |at: usize| Some(i32::from_le_bytes(*message.get(at..)?.first_chunk()?));
    let (opcode, size, id) = (word(16)?, word(20)? as usize, *message.get(24)?);
    let packed = message.get(PREFIX..)?;
    let mut body = Vec::new();
    match id {
        1 => body = snap::raw::Decoder::new().decompress_vec(packed).ok()?,
        2 => drop(ZlibDecoder::new(packed).read_to_end(&mut body).ok()?),
        3 => body = zstd::bulk::decompress(packed, size).ok()?,
        _ => return None,
    }
    if body.len() != size || opcode != OP_MSG {
        return None;
    }
    let length = (16 + body.len()) as i32;
    Some(([&length.to_le_bytes(), message.get(4..IDS)?, &opcode.to_le_bytes(), &body].concat(), id))
}

/// Returns a message compressed.
pub fn pack(message: &[u8], id: u8) -> Option<Vec<u8>> {
    let body = message.get(16..)?;
    let mut packed = Vec::new();
    match id {
        1 => packed = snap::raw::Encoder::new().compress_vec(body).ok()?,
        2 => drop(ZlibEncoder::new(body, Compression::fast()).read_to_end(&mut packed).ok()?),
        3 => packed = zstd::bulk::compress(body, 1).ok()?,
        _ => return None,
    }
    let mut out = ((PREFIX + packed.len()) as i32).to_le_bytes().to_vec();
    out.extend_from_slice(&message[4..IDS]);
    for word in [OP_COMPRESSED, OP_MSG, body.len() as i32] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.push(id);
    out.extend_from_slice(&packed);
    Some(out)
}
