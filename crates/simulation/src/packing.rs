//! Compressed messages as a server reads and makes them, directly with the compressors' libraries.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;
/// Length, request id, response to.
const IDS: usize = 12;
/// The length of the header and of the fields before the compressed bytes.
const PREFIX: usize = 25;

thread_local! {
    /// Made once for each thread, since each fills hundreds of kilobytes with zeros.
    static ZLIB: RefCell<(Compress, Decompress)> =
        RefCell::new((Compress::new(Compression::fast(), true), Decompress::new(true)));
}

/// The compressors by their numbers.
pub const NAMES: [&str; 4] = ["noop", "snappy", "zlib", "zstd"];

/// Whether a message is compressed.
pub fn is_packed(message: &[u8]) -> bool {
    message.get(IDS..16) == Some(&OP_COMPRESSED.to_le_bytes())
}

/// Returns the message inside a compressed one, and the compressor's number; `None` if it is invalid.
pub fn unpack(message: &[u8]) -> Option<(Vec<u8>, u8)> {
    let word = |at: usize| Some(i32::from_le_bytes(*message.get(at..)?.first_chunk()?));
    let (opcode, size, id) = (word(16)?, word(20)? as usize, *message.get(24)?);
    let packed = message.get(PREFIX..)?;
    let body = match id {
        1 => snap::raw::Decoder::new().decompress_vec(packed).ok()?,
        2 => inflate(packed, size)?,
        3 => zstd::bulk::decompress(packed, size).ok()?,
        _ => return None,
    };
    if body.len() != size || opcode != OP_MSG {
        return None;
    }
    let length = (16 + body.len()) as i32;
    Some(([&length.to_le_bytes(), message.get(4..IDS)?, &opcode.to_le_bytes(), &body].concat(), id))
}

/// Returns a message compressed.
pub fn pack(message: &[u8], id: u8) -> Option<Vec<u8>> {
    let body = message.get(16..)?;
    let packed = match id {
        1 => snap::raw::Encoder::new().compress_vec(body).ok()?,
        2 => deflate(body)?,
        3 => zstd::bulk::compress(body, 1).ok()?,
        _ => return None,
    };
    let mut out = ((PREFIX + packed.len()) as i32).to_le_bytes().to_vec();
    out.extend_from_slice(&message[4..IDS]);
    for word in [OP_COMPRESSED, OP_MSG, body.len() as i32] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.push(id);
    out.extend_from_slice(&packed);
    Some(out)
}

fn deflate(body: &[u8]) -> Option<Vec<u8>> {
    ZLIB.with_borrow_mut(|(compress, _)| {
        compress.reset();
        let mut packed = Vec::with_capacity(body.len() + body.len() / 1000 + 64);
        let status = compress.compress_vec(body, &mut packed, FlushCompress::Finish).ok()?;
        (status == Status::StreamEnd).then_some(packed)
    })
}

/// `size`: the uncompressed size.
fn inflate(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    ZLIB.with_borrow_mut(|(_, decompress)| {
        decompress.reset(true);
        // One byte more, so that too long a message is noticed.
        let mut body = Vec::with_capacity(size + 1);
        let status = decompress.decompress_vec(packed, &mut body, FlushDecompress::Finish).ok()?;
        (status == Status::StreamEnd).then_some(body)
    })
}
