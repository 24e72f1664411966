//! If an update depends on the stored document: the conditions on that, which are added to the update's query.
//!
//! A condition compares whole values in their loaded form. Equal values with keys in another order do not match;
//! `adopt` then takes over the stored bytes, and the update is built again.
use super::raw::{Element, Elements, Finder, append, close, open, same};

/// Conditions on paths, as elements of a query.
#[derive(Default)]
pub(super) struct Guard(Vec<u8>);

impl Guard {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn condition(&mut self, path: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.0.push(0x03);
        self.0.extend_from_slice(path);
        self.0.push(0);
        let start = open(&mut self.0);
        write(&mut self.0);
        close(&mut self.0, start);
    }

    /// The value at this path is still this one. None: there is still no value.
    pub(super) fn equals(&mut self, path: &[u8], value: Option<&Element<'_>>) {
        self.condition(path, |out| match value {
            None => append(out, 0x08, b"$exists", b"\0"),
            // Comparing with null matches missing values too.
            Some(value) if value.kind == 0x0A => append(out, 0x10, b"$type", &0x0A_i32.to_le_bytes()),
            Some(value) => append(out, value.kind, b"$eq", value.value),
        });
    }

    /// The set at this path still has exactly these elements, in any order.
    pub(super) fn is_set_of(&mut self, path: &[u8], elements: &[Element<'_>]) {
        self.condition(path, |out| {
            super::update::array(out, b"$all", elements.iter());
            append(out, 0x10, b"$size", &(elements.len() as i32).to_le_bytes());
        });
    }

    /// The list at this path still has each of these elements.
    pub(super) fn has_all<'a>(&mut self, path: &[u8], elements: impl Iterator<Item = &'a Element<'a>>) {
        self.condition(path, |out| super::update::array(out, b"$all", elements));
    }
}

/// Returns a value that uses the stored bytes for every equal part; None if no byte differs.
pub(super) fn adopt(known: &Element<'_>, stored: &Element<'_>) -> Option<(u8, Vec<u8>)> {
    if known.kind == stored.kind && known.value == stored.value {
        return None;
    }
    if same(known, stored) {
        return Some((stored.kind, stored.value.to_vec()));
    }
    let mut out = Vec::with_capacity(known.value.len());
    let start = open(&mut out);
    let mut is_other = false;
    let mut take = |out: &mut Vec<u8>, item: &Element<'_>, found: Option<Element<'_>>| {
        let made = found.and_then(|found| adopt(item, &found));
        is_other |= made.is_some();
        match made {
            Some((kind, value)) => append(out, kind, item.key, &value),
            None => append(out, item.kind, item.key, item.value),
        }
    };
    match (known.kind, stored.kind) {
        (0x03, 0x03) => {
            let mut finder = Finder::of(stored.value);
            for item in Elements::of(known.value) {
                take(&mut out, &item, finder.find(item.key));
            }
        }
        (0x04, 0x04) => {
            let others: Vec<Element<'_>> = Elements::of(stored.value).collect();
            for (at, item) in Elements::of(known.value).enumerate() {
                let here = others.get(at).filter(|other| same(&item, other));
                take(
                    &mut out,
                    &item,
                    here.or_else(|| others.iter().find(|other| same(&item, other))).copied(),
                );
            }
        }
        _ => return None,
    }
    close(&mut out, start);
    is_other.then_some((known.kind, out))
}
