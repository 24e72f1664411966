//! The bytes of a field name, stored for comparing the next name of a document sixteen bytes at a time, NUL included:
//! no scan for its end, no hash. Knows nothing about Python.

/// The longest stored name, with its NUL.
pub(crate) const LONGEST: usize = 128;
/// How many bytes of a name are compared at once.
pub(crate) const HEAD: usize = 16;

/// A name and its NUL. Small, so that its neighbour shares its cache line.
pub(crate) struct Name {
    /// The first sixteen bytes, padded with zeros.
    head: [u64; 2],
    /// A mask of the bytes of `head` that belong to the name.
    mask: [u64; 2],
    /// The bytes after them.
    rest: Box<[u8]>,
    /// The length with the NUL. 0: no name.
    length: u8,
    /// Whether JSON writes it unchanged: no quotes, backslashes or control characters.
    is_plain: bool,
}

impl Name {
    /// A name that no input starts with.
    pub(crate) fn none() -> Self {
        // A bit that the mask removes from every input.
        Self { head: [1, 0], mask: [0; 2], rest: Box::default(), length: 0, is_plain: false }
    }

    /// `bytes` end with the only NUL and are at most `LONGEST`.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let head = &bytes[..bytes.len().min(HEAD)];
        let (mut padded, mut mask) = ([0; HEAD], [0; HEAD]);
        padded[..head.len()].copy_from_slice(head);
        mask[..head.len()].fill(0xFF);
        let rest = bytes[head.len()..].into();
        let name = &bytes[..bytes.len() - 1];
        let is_plain = name.iter().all(|c| matches!(c, 0x20..0x80) && !matches!(c, b'"' | b'\\'));
        Self { head: words(&padded), mask: words(&mask), rest, length: bytes.len() as u8, is_plain }
    }

    /// The length with the NUL.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length.into()
    }

    /// The name itself.
    #[cold]
    pub(crate) fn text(&self) -> Vec<u8> {
        let head = self.head.iter().flat_map(|word| word.to_le_bytes()).take(self.length());
        let mut text: Vec<u8> = head.chain(self.rest.iter().copied()).collect();
        text.pop();
        text
    }

    /// Copies the name and its NUL, and zeros behind a short one.
    ///
    /// # Safety
    /// `to` must have room for its length and for sixteen bytes.
    #[inline(always)]
    pub(crate) unsafe fn copy_to(&self, to: *mut u8) {
        let head = u128::from(self.head[0]) | u128::from(self.head[1]) << 64;
        // SAFETY: there is room for the head, and behind it for the rest, which no caller has in `to`.
        unsafe {
            to.cast::<u128>().write_unaligned(head.to_le());
            if self.length > HEAD as u8 {
                std::ptr::copy_nonoverlapping(self.rest.as_ptr(), to.add(HEAD), self.rest.len());
            }
        }
    }

    /// Tells whether the input starts with this name.
    #[inline]
    pub(crate) fn starts(&self, input: &[u8]) -> bool {
        match input.first_chunk::<HEAD>() {
            Some(head) => self.fits(head) && (self.length <= HEAD as u8 || self.rest_fits(&input[HEAD..])),
            None => self.starts_short(input),
        }
    }

    /// Tells whether the input, which begins like this, may start with this name: whether it does, if the name is not
    /// longer.
    #[inline(always)]
    pub(crate) fn fits(&self, head: &[u8; HEAD]) -> bool {
        let found = words(head);
        found[0] & self.mask[0] == self.head[0] && found[1] & self.mask[1] == self.head[1]
    }

    /// Tells whether the input starts with what follows the head.
    #[inline(always)]
    pub(crate) fn rest_fits(&self, input: &[u8]) -> bool {
        input.starts_with(&self.rest)
    }

    /// Tells whether the input starts with this name and a quote where the NUL would be, as in JSON.
    #[inline]
    pub(crate) fn starts_quoted(&self, input: &[u8]) -> bool {
        // The sentinel is not plain either.
        if !self.is_plain {
            return false;
        }
        let last = usize::from(self.length) - 1;
        let Some(head) = input.first_chunk::<HEAD>() else { return self.starts_quoted_short(input, last) };
        let found = words(head);
        let differs = [(found[0] & self.mask[0]) ^ self.head[0], (found[1] & self.mask[1]) ^ self.head[1]];
        match last {
            0..8 => differs == [u64::from(b'"') << (last * 8), 0],
            8..HEAD => differs == [0, u64::from(b'"') << (last * 8 - 64)],
            _ => {
                differs == [0, 0]
                    && input[HEAD..].starts_with(&self.rest[..last - HEAD])
                    && input.get(last) == Some(&b'"')
            }
        }
    }

    fn starts_quoted_short(&self, input: &[u8], last: usize) -> bool {
        input.get(last) == Some(&b'"')
            && input[..last].iter().enumerate().all(|(at, byte)| {
                let shift = at % 8 * 8;
                (self.head[at / 8] >> shift) as u8 == *byte
            })
    }

    /// Compares near the end of the input.
    fn starts_short(&self, input: &[u8]) -> bool {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.head[0].to_le_bytes());
        head[8..].copy_from_slice(&self.head[1].to_le_bytes());
        // The input is shorter than a head, so a longer name cannot be its start.
        matches!(self.length(), 1..=HEAD) && input.starts_with(&head[..self.length()])
    }
}

#[inline]
fn words(bytes: &[u8; HEAD]) -> [u64; 2] {
    let number = u128::from_le_bytes(*bytes);
    [number as u64, (number >> 64) as u64]
}

/// Hashes the bytes of a name: they are few, and no adversary matters (a collision only costs a comparison).
#[inline]
pub(crate) fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    for word in chunks.iter().chain([&tail]) {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    hash ^ (hash >> 32)
}

/// The first and the last eight bytes of a text of eight to sixteen.
pub(crate) type Halves = [[u8; 8]; 2];

/// Returns both halves of a text that has them.
#[inline(always)]
pub(crate) fn halves(bytes: &[u8]) -> Option<Halves> {
    match (bytes.first_chunk(), bytes.last_chunk(), bytes.len()) {
        (Some(first), Some(last), ..=16) => Some([*first, *last]),
        _ => None,
    }
}

const HIGH: u64 = 0x8080_8080_8080_8080;

/// Tells whether all bytes of a text are ASCII.
#[inline(always)]
pub(crate) fn are_ascii([first, last]: Halves) -> bool {
    (u64::from_le_bytes(first) | u64::from_le_bytes(last)) & HIGH == 0
}

/// Tells whether all bytes are ASCII.
#[inline]
pub(crate) fn is_ascii(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let seen = chunks.iter().fold(0, |seen, chunk| seen | u64::from_le_bytes(*chunk));
    // The last eight bytes, overlapping the others, rather than the rest one by one.
    let tail = match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |seen, byte| seen | u64::from(*byte)),
    };
    (seen | tail) & HIGH == 0
}
