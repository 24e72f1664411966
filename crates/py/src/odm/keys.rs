//! Finds a field by its key if there are many fields; for fewer, comparing one after another is faster.
use std::collections::HashMap;

/// With this many keys or more, a key is looked up in a table.
const MANY: usize = 64;

/// The indexes of keys, if they are many.
#[derive(Default)]
pub(super) struct Keys(Option<HashMap<Box<[u8]>, usize>>);

impl Keys {
    pub(super) fn new<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        Keys((keys.len() > MANY).then(|| keys.enumerate().map(|(at, key)| (key.into(), at)).collect()))
    }

    /// The index of a key; `search` finds it among few.
    #[inline]
    pub(super) fn find(&self, key: &[u8], search: impl FnOnce() -> Option<usize>) -> Option<usize> {
        match &self.0 {
            Some(table) => table.get(key).copied(),
            None => search(),
        }
    }

    /// The index of the key with which the input starts, up to its NUL.
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
