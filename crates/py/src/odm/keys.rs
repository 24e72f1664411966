//! Finding a field by its key where there are many: below that, comparing one after another is faster.
use std::collections::HashMap;

/// From here on keys are looked up in a table.
const MANY: usize = 64;

/// The positions of keys, if they are many.
#[derive(Default)]
pub(super) struct Keys(Option<HashMap<Box<[u8]>, usize>>);

impl Keys {
    pub(super) fn new<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        Keys((keys.len() > MANY).then(|| keys.enumerate().map(|(at, key)| (key.into(), at)).collect()))
    }

    /// The place of a key; `search` is asked where there are few.
    #[inline]
    pub(super) fn find(&self, key: &[u8], search: impl FnOnce() -> Option<usize>) -> Option<usize> {
        match &self.0 {
            Some(table) => table.get(key).copied(),
            None => search(),
        }
    }

    /// The place of the key that the input starts with, up to its NUL.
    pub(super) fn find_terminated(
        &self,
        input: &[u8],
        search: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        match &self.0 {
            Some(table) => table.get(&input[..memchr::memchr(0, input)?]).copied(),
            None => search(),
        }
    }
}
