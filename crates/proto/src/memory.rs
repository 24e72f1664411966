//! Allocates memory whose size the peer or the data decides, in a way that can fail.

/// Smaller allocations are not checked: without memory for those, nothing could continue anyway.
const LEAST_ASKED: usize = 64 * 1024;

/// Returns `size` zeros, or `None` when there is no memory for them.
pub(crate) fn zeros(size: usize) -> Option<Vec<u8>> {
    if size > LEAST_ASKED {
        // Reserved first, since `vec!`, which gets zeros from the kernel without a write, cannot report a failure.
        // Without `black_box` the compiler would assume that the reservation succeeds.
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
