//! Sets of fields, by their indexes in a plan. The first 128 fit in two words, so that most models need no memory
//! besides the set; the words for others are allocated when the first of those is added.

/// Fields in one word.
pub(super) const WORD: usize = u64::BITS as usize;

/// Words stored in the set itself.
const FIRST: usize = 2;

/// Fields stored in the set itself.
pub(super) const IN_PLACE: usize = FIRST * WORD;

/// The part of a set for fields beyond the first two words.
#[derive(Clone, Default)]
#[expect(clippy::box_collection, reason = "one pointer in every state; few models have so many fields")]
pub(super) struct Rest(Option<Box<Vec<u64>>>);

impl Rest {
    #[cold]
    fn word(&self, word: usize) -> u64 {
        self.0.as_ref().and_then(|words| words.get(word)).copied().unwrap_or(0)
    }

    #[cold]
    fn word_mut(&mut self, word: usize) -> &mut u64 {
        let words = self.0.get_or_insert_default();
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        &mut words[word]
    }

    fn words(&self) -> &[u64] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.word(index / WORD) & bit(index) != 0
    }

    pub(super) fn add(&mut self, index: usize) {
        *self.word_mut(index / WORD) |= bit(index);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words().iter().all(|word| *word == 0)
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

/// A set of fields.
#[derive(Clone, Default)]
pub(super) struct Bits {
    first: [u64; FIRST],
    rest: Rest,
}

#[inline]
fn bit(index: usize) -> u64 {
    1 << (index % WORD)
}

impl Bits {
    /// Joins two parts that were kept apart into a set.
    #[inline]
    pub(super) fn of(first: [u64; FIRST], rest: Rest) -> Self {
        Bits { first, rest }
    }

    /// Its two parts.
    #[inline]
    pub(super) fn into_parts(self) -> ([u64; FIRST], Rest) {
        (self.first, self.rest)
    }

    #[inline]
    pub(super) fn has(&self, index: usize) -> bool {
        match self.first.get(index / WORD) {
            Some(word) => word & bit(index) != 0,
            None => self.rest.has(index - IN_PLACE),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, index: usize) {
        match self.first.get_mut(index / WORD) {
            Some(word) => *word |= bit(index),
            None => self.rest.add(index - IN_PLACE),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, index: usize) {
        match self.first.get_mut(index / WORD) {
            Some(word) => *word &= !bit(index),
            None => *self.rest.word_mut(index / WORD - FIRST) &= !bit(index),
        }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        *self = Bits::default();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == [0; FIRST] && self.rest.is_empty()
    }

    /// Whether every field of another set is in this one.
    #[inline]
    pub(super) fn covers(&self, other: &Bits) -> bool {
        self.first.iter().zip(&other.first).all(|(mine, theirs)| theirs & !mine == 0)
            && (other.rest.0.is_none()
                || other.rest.words().iter().enumerate().all(|(at, word)| word & !self.rest.word(at) == 0))
    }

    /// The fields that are in either set.
    #[inline]
    pub(super) fn with(mut self, other: &Bits) -> Bits {
        for (mine, theirs) in self.first.iter_mut().zip(&other.first) {
            *mine |= theirs;
        }
        for (at, word) in other.rest.words().iter().enumerate() {
            *self.rest.word_mut(at) |= word;
        }
        self
    }

    /// The fields that are in this set and not in the other.
    #[inline]
    pub(super) fn without(&self, other: &Bits) -> Bits {
        let mut left = self.clone();
        for (mine, theirs) in left.first.iter_mut().zip(&other.first) {
            *mine &= !theirs;
        }
        for (at, word) in other.rest.words().iter().enumerate() {
            *left.rest.word_mut(at) &= !word;
        }
        left
    }

    /// The number of words, and the words themselves: word i has the bits of the fields from 64 * i on.
    #[inline]
    pub(super) fn words(&self) -> usize {
        FIRST + self.rest.words().len()
    }

    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        match self.first.get(at) {
            Some(word) => *word,
            None => self.rest.word(at - FIRST),
        }
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<T: IntoIterator<Item = usize>>(indexes: T) -> Self {
        let mut bits = Bits::default();
        for index in indexes {
            bits.add(index);
        }
        bits
    }
}
