//! The keys of documents, found by their bytes. Knows no values.

use std::collections::HashMap;

/// With more keys than this, a key is looked up in a table.
const FEW: usize = 12;

/// Keys in the order in which they were given or first met.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<String>,
    /// Filled if there are many.
    places: HashMap<String, usize>,
}

impl Names {
    /// The keys.
    pub fn as_slice(&self) -> &[String] {
        &self.names
    }

    /// Adds a key.
    pub fn push(&mut self, name: String) {
        self.names.push(name);
        if self.names.len() > FEW {
            for (at, name) in self.names.iter().enumerate().skip(self.places.len()) {
                self.places.entry(name.clone()).or_insert(at);
            }
        }
    }

    /// Returns the place of a key, which is `expected` if documents have their keys in one order.
    #[inline]
    pub fn find(&self, key: &[u8], expected: usize) -> Option<usize> {
        if self.names.get(expected).is_some_and(|name| name.as_bytes() == key) {
            return Some(expected);
        }
        if self.names.len() <= FEW {
            return self.names.iter().position(|name| name.as_bytes() == key);
        }
        self.places.get(std::str::from_utf8(key).ok()?).copied()
    }
}
