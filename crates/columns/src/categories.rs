//! Repeated texts: each is stored once, and values are indexes into them.

use std::collections::HashMap;

use crate::column::{Texts, offset};
use crate::problem::{Outcome, append};

/// Indexes into distinct texts, which are in the order of their first appearance.
#[derive(Clone, Debug)]
pub struct Categories {
    /// The index of each value's text; zero for nulls.
    pub indexes: Vec<i32>,
    /// The texts.
    pub texts: Texts,
    /// Cleared once no more values come.
    places: HashMap<Box<[u8]>, i32>,
}

impl Categories {
    pub(crate) fn new() -> Self {
        Self { indexes: Vec::new(), texts: Texts::new(), places: HashMap::new() }
    }

    pub(crate) fn push(&mut self, text: &[u8]) -> Outcome {
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let place = offset(self.places.len())?;
                self.texts.push(text)?;
                self.places.insert(text.into(), place);
                place
            }
        };
        append(&mut self.indexes, place)
    }

    /// Returns one of the values.
    pub fn get(&self, at: usize) -> &[u8] {
        self.indexes.get(at).map_or(&[], |index| self.texts.get(*index as usize))
    }

    /// How many texts there are.
    pub fn count(&self) -> usize {
        self.texts.offsets.len() - 1
    }

    pub(crate) fn shrink(&mut self) {
        self.places = HashMap::new();
        self.indexes.shrink_to_fit();
        self.texts.offsets.shrink_to_fit();
        self.texts.bytes.shrink_to_fit();
    }
}
