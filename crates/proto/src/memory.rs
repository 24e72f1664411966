//! Memory whose size the peer or the data decides: asked for in a way that can be refused.

/// What is smaller comes from what the process has already, or nothing at all would go on.
const LEAST_ASKED: usize = 64 * 1024;

/// Returns `size` zeros, or `None` when there is no memory for them.
pub(crate) fn zeros(size: usize) -> Option<Vec<u8>> {
    if size > LEAST_ASKED {
        // Asked for first, since zeros that come untouched from the kernel cannot be asked for with an answer. Seen from
        // outside, or the compiler would take the answer for granted.
        let mut asked: Vec<u8> = Vec::new();
        asked.try_reserve_exact(size).ok()?;
        std::hint::black_box(&mut asked);
    }
    Some(vec![0; size])
}

/// Returns a copy, or `None` when there is no memory for it.
pub(crate) fn copy_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.extend_from_slice(bytes);
    Some(copy)
}
