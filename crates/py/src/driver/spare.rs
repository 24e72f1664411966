//! Memory that a connection needs only while it is used: buffers to receive into, and compression's working memory. The
//! process keeps it, so that idle connections hold none; the last used is the next used, since the processor's caches
//! hold it. Knows no connection.

use mangonel_proto::compress::Codec;
use mangonel_proto::frame::Deframer;
use pyo3::prelude::*;

use crate::codec::cell::GilCell;

/// The most working memories of compression; rarely do as many threads compress at once.
const MOST_CODECS: usize = 8;

static DEFRAMERS: GilCell<Deframers> = GilCell::new(Deframers { spare: Vec::new(), unneeded: 0 });
#[expect(clippy::vec_box, reason = "only a pointer moves between here and the user")]
static CODECS: GilCell<Vec<Box<Codec>>> = GilCell::new(Vec::new());

struct Deframers {
    #[expect(clippy::vec_box, reason = "only a pointer moves between here and a link")]
    spare: Vec<Box<Deframer>>,
    /// The least length of `spare` since the last `free_unneeded`.
    unneeded: usize,
}

/// Returns an empty deframer.
#[inline]
pub fn deframer(py: Python<'_>) -> Box<Deframer> {
    let take = |deframers: &mut Deframers| {
        let deframer = deframers.spare.pop();
        deframers.unneeded = deframers.unneeded.min(deframers.spare.len());
        deframer
    };
    // SAFETY: moving a box runs no other code.
    unsafe { DEFRAMERS.with(py, take) }.unwrap_or_default()
}

/// Keeps an empty deframer.
#[inline]
pub fn keep_deframer(py: Python<'_>, deframer: Box<Deframer>) {
    debug_assert!(deframer.is_empty());
    // SAFETY: moving a box and growing a vector run no other code.
    unsafe { DEFRAMERS.with(py, |deframers| deframers.spare.push(deframer)) }
}

/// Frees the deframers that no connection needed since the last call. For monitors, whose heartbeats go on while all
/// other connections are idle.
pub fn free_unneeded(py: Python<'_>) {
    let free = |deframers: &mut Deframers| {
        deframers.spare.drain(..deframers.unneeded);
        deframers.unneeded = deframers.spare.len();
    };
    // SAFETY: freeing vectors of bytes runs no other code.
    unsafe { DEFRAMERS.with(py, free) }
}

/// Returns working memory for compression.
pub fn codec(py: Python<'_>) -> Box<Codec> {
    // SAFETY: moving a box runs no other code.
    unsafe { CODECS.with(py, Vec::pop) }.unwrap_or_default()
}

/// Keeps working memory whose message is done.
pub fn keep_codec(py: Python<'_>, codec: Box<Codec>) {
    let keep = |codecs: &mut Vec<Box<Codec>>| {
        if codecs.len() < MOST_CODECS {
            codecs.push(codec);
        }
    };
    // SAFETY: moving or freeing what the box holds, memory of C libraries, runs no other code.
    unsafe { CODECS.with(py, keep) }
}
