//! The smallest update that makes the stored document what the instance is: dirty bits say which scalars were set, and
//! containers that were read are encoded again and compared with the bytes they came from.
use pyo3::prelude::*;

use super::bits::WORD;
use super::encode::Writer;
use super::fields::{EXTRA_SET, Fields, NEW, State};
use super::plan::{Op, Plan};
use super::raw::{Element, Elements, Finder, append, close, open, same};
use super::value::{coerce, default_of, located};
use crate::codec::encode::Name;
use crate::codec::make::is_of;

/// The parts of an update, each a run of elements.
#[derive(Default)]
pub(super) struct Update {
    set: Vec<u8>,
    unset: Vec<u8>,
    push: Vec<u8>,
    add_to_set: Vec<u8>,
    pull_all: Vec<u8>,
    inc: Vec<u8>,
}

impl Update {
    fn is_empty(&self) -> bool {
        self.set.is_empty()
            && self.unset.is_empty()
            && self.push.is_empty()
            && self.add_to_set.is_empty()
            && self.pull_all.is_empty()
            && self.inc.is_empty()
    }

    /// Writes the update as a document.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = open(out);
        let parts: [(&[u8], &[u8]); 6] = [
            (b"$set", &self.set),
            (b"$unset", &self.unset),
            (b"$push", &self.push),
            (b"$addToSet", &self.add_to_set),
            (b"$pullAll", &self.pull_all),
            (b"$inc", &self.inc),
        ];
        for (name, elements) in parts {
            if elements.is_empty() {
                continue;
            }
            out.push(0x03);
            out.extend_from_slice(name);
            out.push(0);
            let inner = open(out);
            out.extend_from_slice(elements);
            close(out, inner);
        }
        close(out, start);
    }

    fn set(&mut self, path: &[u8], element: &Element<'_>) {
        append(&mut self.set, element.kind, path, element.value);
    }

    fn unset(&mut self, path: &[u8]) {
        append(&mut self.unset, 0x02, path, b"\x01\0\0\0\0");
    }

    /// Brings a value at this path from what it was to what it is.
    fn change(&mut self, path: &[u8], was: Option<Element<'_>>, is: &Element<'_>, is_set: bool) {
        let Some(was) = was else { return self.set(path, is) };
        if was.kind == is.kind && was.value == is.value {
            return;
        }
        match (was.kind, is.kind) {
            (0x03, 0x03) if has_safe_keys(was.value) && has_safe_keys(is.value) && !is_empty(is.value) => {
                self.change_document(path, was.value, is.value);
            }
            (0x04, 0x04) => self.change_array(path, was.value, is, is_set),
            _ => self.set(path, is),
        }
    }

    fn change_document(&mut self, path: &[u8], was: &[u8], is: &[u8]) {
        let mut before = Finder::of(was);
        for element in Elements::of(is) {
            let former = before.find(element.key);
            if former.is_some_and(|former| same(&former, &element)) {
                continue;
            }
            self.change(&joined(path, element.key), former, &element, false);
        }
        let mut after = Finder::of(is);
        for former in Elements::of(was) {
            if after.find(former.key).is_none() {
                self.unset(&joined(path, former.key));
            }
        }
    }

    fn change_array(&mut self, path: &[u8], was: &[u8], is: &Element<'_>, is_set: bool) {
        let before: Vec<Element<'_>> = Elements::of(was).collect();
        let after: Vec<Element<'_>> = Elements::of(is.value).collect();
        let all_same = |some: &[Element<'_>], others: &[Element<'_>]| {
            some.len() == others.len() && some.iter().zip(others).all(|(one, other)| same(one, other))
        };
        if is_set {
            let added: Vec<_> =
                after.iter().filter(|item| !before.iter().any(|old| same(old, item))).collect();
            let gone: Vec<_> =
                before.iter().filter(|old| !after.iter().any(|item| same(old, item))).collect();
            match (added.is_empty(), gone.is_empty()) {
                (true, true) => {}
                (false, true) => each(&mut self.add_to_set, path, added.into_iter()),
                (true, false) => array(&mut self.pull_all, path, gone.into_iter()),
                _ => self.set(path, is),
            }
            return;
        }
        if after.len() > before.len() && !before.is_empty() && all_same(&before, &after[..before.len()]) {
            return each(&mut self.push, path, after[before.len()..].iter());
        }
        if after.len() < before.len() && !after.is_empty() {
            let gone: Vec<Element<'_>> =
                before.iter().filter(|old| !after.iter().any(|item| same(old, item))).copied().collect();
            let kept: Vec<Element<'_>> =
                before.iter().filter(|old| !gone.iter().any(|item| same(old, item))).copied().collect();
            if all_same(&kept, &after) {
                return array(&mut self.pull_all, path, gone.iter());
            }
        }
        let changed = before.iter().zip(&after).filter(|(old, item)| !same(old, item)).count();
        if after.len() == before.len() && changed * 2 <= after.len().max(2) {
            for (old, item) in before.iter().zip(&after) {
                if !same(old, item) {
                    self.change(&joined(path, item.key), Some(*old), item, false);
                }
            }
            return;
        }
        self.set(path, is);
    }
}

fn joined(path: &[u8], key: &[u8]) -> Vec<u8> {
    [path, b".", key].concat()
}

fn is_empty(document: &[u8]) -> bool {
    document.len() <= 5
}

/// Whether paths can be built of the keys.
fn has_safe_keys(document: &[u8]) -> bool {
    Elements::of(document)
        .all(|element| !element.key.is_empty() && element.key[0] != b'$' && !element.key.contains(&b'.'))
}

/// Writes `path: {$each: [items]}`.
fn each<'a>(out: &mut Vec<u8>, path: &[u8], items: impl Iterator<Item = &'a Element<'a>>) {
    out.push(0x03);
    out.extend_from_slice(path);
    out.push(0);
    let start = open(out);
    array(out, b"$each", items);
    close(out, start);
}

/// Writes `path: [items]`.
fn array<'a>(out: &mut Vec<u8>, path: &[u8], items: impl Iterator<Item = &'a Element<'a>>) {
    out.push(0x04);
    out.extend_from_slice(path);
    out.push(0);
    let start = open(out);
    for (index, item) in items.enumerate() {
        append(out, item.kind, itoa::Buffer::new().format(index).as_bytes(), item.value);
    }
    close(out, start);
}

/// Where the fields of a document stand in its bytes: the type, and the range of the value.
type Places = Vec<Option<(u8, std::ops::Range<usize>)>>;

/// Looks the document up once for all fields, the next expected one first.
fn places(raw: &[u8], plan: &Plan) -> Places {
    let mut places: Places = vec![None; plan.fields.len()];
    let mut next = 0;
    for element in Elements::of(raw) {
        let index = match plan.fields.get(next) {
            Some(field) if field.key == element.key => Some(next),
            _ => plan.field_of_key(element.key),
        };
        if let Some(index) = index {
            let start = element.value.as_ptr() as usize - raw.as_ptr() as usize;
            places[index] = Some((element.kind, start..start + element.value.len()));
            next = index + 1;
        }
    }
    places
}

/// What a field was in the database: its type and value, as it was saved or loaded.
fn stored<'a>(state: &'a State, places: &Places, key: &'a [u8], index: usize) -> Option<Element<'a>> {
    if let Some(saved) = state.kept(index) {
        let saved = saved.as_ref()?;
        return Some(Element { kind: saved[0], key, value: &saved[1..] });
    }
    let (kind, range) = places.get(index)?.as_ref()?;
    Some(Element { kind: *kind, key, value: state.raw.get(range.clone())? })
}

/// Whether a container that nobody set is surely as it was loaded.
fn is_untouched(plan: &Plan, index: usize, found: &Bound<'_, PyAny>) -> bool {
    if let Op::Embedded(model) = &plan.fields[index].kind.op
        && is_of(found, &model.class)
        && let Ok(embedded) = Fields::of(found)
    {
        return embedded.flags() & (NEW | EXTRA_SET) == 0 && !embedded.has_dirty() && embedded.plan.is_flat;
    }
    false
}

/// Builds the update of a document, and moves its dirty bits to those under way. None: nothing changed.
pub(super) fn build(py: Python<'_>, fields: Fields<'_>) -> PyResult<Option<Update>> {
    let plan = fields.plan;
    let mut update = Update::default();
    let mut draft = Vec::new();
    let dirty = fields.dirty();
    let places = fields.known().map(|state| places(&state.raw, plan)).unwrap_or_default();
    let mut encoded = Vec::with_capacity(256);
    for at in 0..dirty.words().max(plan.mutable.words()) {
        let mut left = dirty.word(at) | plan.mutable.word(at);
        while left != 0 {
            let index = at * WORD + left.trailing_zeros() as usize;
            left &= left - 1;
            if plan.id == Some(index) || plan.version == Some(index) {
                continue;
            }
            let field = &plan.fields[index];
            let is_dirty = dirty.has(index);
            let Some(held) =
                fields.value(py, index).filter(|held| is_dirty || !is_untouched(plan, index, held))
            else {
                continue;
            };
            encoded.clear();
            if !(held.is_none() && field.omits_none) {
                let mut writer = Writer::new(py, plan, &mut encoded);
                writer
                    .value(&field.kind, Name::Text(&field.key), &held)
                    .map_err(|fault| crate::codec::fault::into_exception(py, fault, None))?;
            }
            let is = Elements::bare(&encoded).next();
            let is_set = matches!(field.kind.op, Op::Set(..) | Op::Refs { .. });
            // A default that nobody changed is not written back. Looking runs code, so nothing is borrowed meanwhile.
            if let Some(is) = &is
                && !is_dirty
                && fields.known().is_none_or(|state| stored(&state, &places, &field.key, index).is_none())
                && is_default(py, plan, index, is)?
            {
                continue;
            }
            let state = fields.known();
            let was = state.as_ref().and_then(|state| stored(state, &places, &field.key, index));
            let Some(is) = is else {
                // None: no key. Without the stored bytes nobody knows whether there is one.
                let was_null = fields.was_null(index);
                if is_dirty || was.is_some_and(|was| was.kind != 0x0A || !was_null) {
                    update.unset(&field.key);
                    draft.push((index, None));
                }
                continue;
            };
            if is_dirty {
                if plan.keeps_raw && was.is_some_and(|was| was.kind == is.kind && was.value == is.value) {
                    continue;
                }
                if field.is_mutable {
                    update.change(&field.key, was, &is, is_set);
                } else {
                    update.set(&field.key, &is);
                }
            } else {
                if was.is_some_and(|was| same(&was, &is)) {
                    continue;
                }
                update.change(&field.key, was, &is, is_set);
            }
            if plan.keeps_raw {
                let mut kept = vec![is.kind];
                kept.extend_from_slice(is.value);
                draft.push((index, Some(kept)));
            }
        }
    }
    if fields.flags() & EXTRA_SET != 0
        && let Some(state) = fields.known()
    {
        extra(&mut update, &state, plan);
    }
    fields.clear_dirty();
    if update.is_empty() {
        return Ok(None);
    }
    if let Some(index) = plan.version {
        append(&mut update.inc, 0x10, &plan.fields[index].key, &1_i32.to_le_bytes());
    }
    if !dirty.is_empty() || !draft.is_empty() {
        let mut state = fields.state();
        state.sent = dirty;
        state.draft = draft;
    }
    Ok(Some(update))
}

/// Changes of keys that no field has.
fn extra(update: &mut Update, state: &State, plan: &Plan) {
    let is_field = |key: &[u8]| {
        plan.field_of_key(key).is_some()
            || plan.tags.as_ref().is_some_and(|tags| &tags.key[..tags.key.len() - 1] == key)
    };
    let before: Vec<Element<'_>> =
        Elements::of(&state.raw).filter(|element| !is_field(element.key)).collect();
    for element in Elements::bare(&state.extra) {
        let was = before.iter().find(|former| former.key == element.key).copied();
        update.change(element.key, was, &element, false);
    }
    for former in before {
        if !Elements::bare(&state.extra).any(|element| element.key == former.key) {
            update.unset(former.key);
        }
    }
}

/// Whether an encoded value is what the field's default encodes to.
fn is_default(py: Python<'_>, plan: &'static Plan, index: usize, is: &Element<'_>) -> PyResult<bool> {
    let field = &plan.fields[index];
    let Some(made) = default_of(py, &field.default)? else { return Ok(false) };
    let made = coerce(&field.kind, &made).map_err(|fault| located(py, plan, index, fault))?;
    let mut encoded = Vec::new();
    Writer::new(py, plan, &mut encoded)
        .value(&field.kind, Name::Text(&field.key), &made)
        .map_err(|fault| crate::codec::fault::into_exception(py, fault, None))?;
    Ok(Elements::bare(&encoded).next().is_some_and(|element| same(&element, is)))
}
