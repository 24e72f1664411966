//! Field names seen before, as Python strings: the same name in a thousand documents is one object, found without
//! hashing when it follows the same name as last time. Knows nothing about values.
use pyo3::ffi;

/// Longest name (with its NUL) that is kept.
pub(super) const LONGEST: usize = 32;
const SLOTS: usize = 4096;

/// The bytes of a name and its NUL, padded, for comparing sixteen at a time.
#[derive(Clone, Copy)]
pub(super) struct Name {
    words: [u128; 2],
    masks: [u128; 2],
    /// With the NUL; 0 for an empty slot.
    length: u8,
}

impl Name {
    pub(super) const EMPTY: Self = Self { words: [0; 2], masks: [0; 2], length: 0 };

    /// `bytes` end with the only NUL and are at most `LONGEST`.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut padded = [0; LONGEST];
        let mut mask = [0; LONGEST];
        padded[..bytes.len()].copy_from_slice(bytes);
        mask[..bytes.len()].fill(0xFF);
        Self { words: words(&padded), masks: words(&mask), length: bytes.len() as u8 }
    }

    /// The length with the NUL.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.length.into()
    }

    /// Tells whether the input starts with this name.
    #[inline]
    pub(super) fn starts(&self, input: &[u8]) -> bool {
        if let Some(head) = input.first_chunk::<LONGEST>() {
            let found = words(head);
            let first = (found[0] & self.masks[0]) ^ self.words[0];
            if self.length <= 16 {
                return first == 0 && self.length != 0;
            }
            return first | ((found[1] & self.masks[1]) ^ self.words[1]) == 0;
        }
        let mut bytes = [0; LONGEST];
        bytes[..16].copy_from_slice(&self.words[0].to_ne_bytes());
        bytes[16..].copy_from_slice(&self.words[1].to_ne_bytes());
        self.length != 0 && input.starts_with(&bytes[..self.length()])
    }
}

#[inline]
fn words(bytes: &[u8; LONGEST]) -> [u128; 2] {
    let (low, high) = bytes.split_at(16);
    [
        u128::from_ne_bytes(low.try_into().unwrap_or_default()),
        u128::from_ne_bytes(high.try_into().unwrap_or_default()),
    ]
}

struct Slot {
    name: Name,
    /// The slot that followed last time.
    next: u16,
    /// Owned; null for an empty slot.
    string: *mut ffi::PyObject,
    is_interned: bool,
}

/// A direct-mapped table: a collision replaces.
pub(super) struct KeyCache {
    slots: Vec<Slot>,
}

impl KeyCache {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Looks for the name expected after the one in slot `previous`. Returns the borrowed string, the slot, and the
    /// length with the NUL.
    #[inline]
    pub(super) fn predicted(&self, previous: u16, input: &[u8]) -> Option<(*mut ffi::PyObject, u16, usize)> {
        let next = self.slots.get(usize::from(previous))?.next;
        let slot = self.slots.get(usize::from(next))?;
        slot.name.starts(input).then(|| (slot.string, next, slot.name.length()))
    }

    /// Finds or makes the string of a name of 1 to `LONGEST` bytes, NUL included, that is ASCII. Returns a borrowed
    /// string, its slot, and the string it replaced, which the caller releases when the table is no longer borrowed.
    ///
    /// # Safety
    /// The GIL must be held.
    pub(super) unsafe fn find(
        &mut self,
        previous: u16,
        bytes: &[u8],
    ) -> Option<(*mut ffi::PyObject, u16, *mut ffi::PyObject)> {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || Slot {
                name: Name::EMPTY,
                next: 0,
                string: std::ptr::null_mut(),
                is_interned: false,
            });
        }
        let index = (hash(bytes) % SLOTS as u64) as u16;
        let slot = &mut self.slots[usize::from(index)];
        let mut replaced = std::ptr::null_mut();
        if slot.name.length() == bytes.len() && slot.name.starts(bytes) {
            // A name that came twice is worth interning: lookups with a literal then compare addresses.
            if !slot.is_interned {
                slot.is_interned = true;
                // SAFETY: the slot owns its string; interning swaps it for the canonical one.
                unsafe { ffi::PyUnicode_InternInPlace(&mut slot.string) };
            }
        } else {
            // SAFETY: the bytes are valid for their length; the result is a new reference or null.
            let made = unsafe { super::text::ascii(&bytes[..bytes.len() - 1]) };
            if made.is_null() {
                return None;
            }
            replaced = std::mem::replace(&mut slot.string, made);
            slot.name = Name::new(bytes);
            slot.is_interned = false;
        }
        let string = slot.string;
        if let Some(before) = self.slots.get_mut(usize::from(previous)) {
            before.next = index;
        }
        Some((string, index, replaced))
    }
}

/// FNV over words: short inputs, no adversary (a collision costs one string).
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64 ^ bytes.len() as u64;
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    for word in chunks.iter().chain([&tail]) {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    hash ^ (hash >> 32)
}
