//! The smallest update that makes the stored document equal to the instance: dirty bits show which scalars were set;
//! containers that were read are encoded again and compared with their original bytes.
//!
//! Others may write the same document. Elements appended to a list are pushed, so those of other writers stay. A change
//! that depends on a position, or replaces a list that was changed in place, carries a guard.
use std::collections::HashSet;

use pyo3::prelude::*;

use super::bits::{Bits, WORD};
use super::encode::{Writer, is_unversioned};
use super::fields::{EXTRA_SET, Fields, NEW, PARTIAL, State, UNCERTAIN};
use super::guard::Guard;
use super::plan::{Op, Plan};
use super::raw::{Element, Elements, Finder, append, close, open, same, skip_common};
use super::value::{coerce, default_of, located};
use crate::codec::make::is_of;

/// Values of fields that will be stored if the server accepts the update: type and value; None: removed.
pub(super) type Draft = Vec<(usize, Option<Vec<u8>>)>;

/// The parts of an update, each a run of elements, and the facts about it.
#[derive(Default)]
pub(super) struct Update {
    /// The conditions that the stored document must still meet.
    pub guard: Guard,
    /// The fields whose dirty bits it covers.
    pub sent: Bits,
    /// The known stored values after it.
    pub draft: Draft,
    /// Whether an earlier save has an unknown outcome.
    is_uncertain: bool,
    /// Whether only some fields were loaded.
    is_partial: bool,
    /// The rules for the current field.
    rules: Rules,
    set: Vec<u8>,
    unset: Vec<u8>,
    push: Vec<u8>,
    add_to_set: Vec<u8>,
    pull_all: Vec<u8>,
    inc: Vec<u8>,
}

/// How to send the change of one field.
#[derive(Clone, Copy, Default)]
struct Rules {
    /// The program assigned the field: a list that replaces another one replaces the stored list.
    is_assigned: bool,
    /// As far as this instance knows, a key that the bytes lack is also missing in the database.
    is_whole: bool,
    /// The update already has a condition on a value that contains this one.
    is_guarded: bool,
}

impl Update {
    /// The changes of a write that needs no update, since it stores the whole document.
    pub(super) fn of_whole(sent: Bits) -> Self {
        Update { sent, ..Update::default() }
    }

    /// Whether a server that finds the document must change it.
    pub(super) fn must_modify(&self) -> bool {
        !self.guard.is_empty() || !self.push.is_empty() || !self.inc.is_empty()
    }

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

    /// Requires that a stored value has not changed, unless another guard already does.
    fn guard(&mut self, path: &[u8], was: Option<&Element<'_>>) {
        if !self.rules.is_guarded {
            self.guard.equals(path, was);
        }
    }

    /// Appends to a list, or makes one; requires an unchanged list if an earlier save may have appended already.
    fn append(&mut self, path: &[u8], was: Option<&Element<'_>>, items: &[Element<'_>]) {
        if self.is_uncertain {
            self.guard(path, was);
        }
        each(&mut self.push, path, items.iter());
    }

    /// Replaces a list. If the new list was made from the former one, that must still be stored; an assigned list that
    /// shares no element with it replaces any stored value.
    fn replace(&mut self, path: &[u8], was: &Element<'_>, is: &Element<'_>) {
        if !self.rules.is_assigned || has_common(was.value, is.value) {
            self.guard(path, Some(was));
        }
        self.set(path, is);
    }

    /// Adds the changes that turn the former value at this path into the present one.
    fn change(&mut self, path: &[u8], was: Option<Element<'_>>, is: &Element<'_>, is_set: bool) {
        let Some(was) = was else {
            if is.kind != 0x04 || !self.rules.is_whole || is_empty(is.value) {
                return self.set(path, is);
            }
            let items: Vec<Element<'_>> = Elements::of(is.value).collect();
            return match is_set && items.iter().all(is_comparable) {
                true => each(&mut self.add_to_set, path, items.iter()),
                false => self.append(path, None, &items),
            };
        };
        if was.kind == is.kind && was.value == is.value {
            return;
        }
        match (was.kind, is.kind) {
            (0x03, 0x03) if let Some(changed) = changed_parts(was.value, is.value) => {
                self.rules.is_whole &= !self.is_partial;
                for (former, element) in changed {
                    self.change(&joined(path, element.key), Some(former), &element, false);
                }
            }
            (0x03, 0x03) if has_safe_keys(was.value) && has_safe_keys(is.value) && !is_empty(is.value) => {
                self.change_document(path, was.value, is.value);
            }
            (0x04, 0x04) => self.change_array(path, &was, is, is_set),
            // No operator appends to null, and two copies that both read null may each make a list.
            (0x0A, 0x04) => {
                self.guard(path, Some(&was));
                self.set(path, is);
            }
            _ => self.set(path, is),
        }
    }

    fn change_document(&mut self, path: &[u8], was: &[u8], is: &[u8]) {
        // The load may have left out a part of an embedded document.
        self.rules.is_whole &= !self.is_partial;
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

    fn change_array(&mut self, path: &[u8], was: &Element<'_>, is: &Element<'_>, is_set: bool) {
        let before: Vec<Element<'_>> = Elements::of(was.value).collect();
        let after: Vec<Element<'_>> = Elements::of(is.value).collect();
        if is_set && before.iter().chain(&after).all(is_comparable) {
            let added: Vec<_> = after.iter().filter(|item| !has(&before, item)).collect();
            let gone: Vec<_> = before.iter().filter(|old| !has(&after, old)).collect();
            return match (added.is_empty(), gone.is_empty()) {
                (true, true) => {}
                (false, true) => each(&mut self.add_to_set, path, added.into_iter()),
                (true, false) => array(&mut self.pull_all, path, gone.into_iter()),
                // No single update both adds to a list and pulls from it.
                _ => {
                    if !self.rules.is_guarded && (!self.rules.is_assigned || has_common(was.value, is.value))
                    {
                        self.guard.is_set_of(path, &before);
                    }
                    self.set(path, is);
                }
            };
        }
        if after.len() > before.len() && all_same(&before, &after[..before.len()]) {
            return self.append(path, Some(was), &after[before.len()..]);
        }
        if after.len() < before.len()
            && !(after.is_empty() && self.rules.is_assigned)
            && let Some(gone) = left_out(&before, &after)
        {
            return self.remove(path, &gone);
        }
        let changed = before.iter().zip(&after).filter(|(old, item)| !same(old, item)).count();
        if after.len() == before.len() && changed * 2 <= after.len().max(2) {
            let rules = self.rules;
            for (old, item) in before.iter().zip(&after) {
                if !same(old, item) {
                    let place = joined(path, item.key);
                    self.guard(&place, Some(old));
                    self.rules = Rules { is_assigned: false, is_guarded: true, is_whole: true };
                    self.change(&place, Some(*old), item, false);
                    self.rules = rules;
                }
            }
            return;
        }
        self.replace(path, was, is);
    }

    /// Removes elements by their values; documents only if they are still as they were loaded.
    fn remove(&mut self, path: &[u8], gone: &[Element<'_>]) {
        let mut documents: Vec<Element<'_>> = Vec::new();
        for item in gone.iter().filter(|item| item.kind == 0x03) {
            if !documents.iter().any(|known| known.value == item.value) {
                documents.push(*item);
            }
        }
        if !documents.is_empty() && !self.rules.is_guarded {
            self.guard.has_all(path, documents.iter());
        }
        array(&mut self.pull_all, path, gone.iter());
    }
}

/// The elements to remove from one list to get the other, if removing by value removes only these.
fn left_out<'a>(before: &[Element<'a>], after: &[Element<'a>]) -> Option<Vec<Element<'a>>> {
    let mut rest = after.iter().peekable();
    let mut gone: Vec<Element<'a>> = Vec::with_capacity(before.len() - after.len());
    for old in before {
        if rest.next_if(|item| same(old, item)).is_none() {
            gone.push(*old);
        }
    }
    let is_found = |old: &Element<'_>| after.iter().any(|item| same(old, item));
    // A query cannot match a single element that is a list.
    (rest.next().is_none() && !gone.iter().any(|old| old.kind == 0x04 || is_found(old))).then_some(gone)
}

fn has(some: &[Element<'_>], wanted: &Element<'_>) -> bool {
    some.iter().any(|item| same(item, wanted))
}

/// Whether two lists are the same set; an instance and the database may have different orders.
fn is_same_set(one: &Element<'_>, other: &Element<'_>) -> bool {
    if one.kind != 0x04 || other.kind != 0x04 {
        return false;
    }
    let some: Vec<Element<'_>> = Elements::of(one.value).collect();
    let others: Vec<Element<'_>> = Elements::of(other.value).collect();
    some.len() == others.len()
        && some.iter().chain(&others).all(is_comparable)
        && some.iter().all(|item| has(&others, item))
        && others.iter().all(|item| has(&some, item))
}

/// The most comparisons before two lists are assumed to have a common element, which is the safe answer.
const MOST_COMPARED: usize = 4_000_000;

/// Whether two lists have an element in common, with its keys in any order.
fn has_common(some: &[u8], others: &[u8]) -> bool {
    let known: HashSet<(u8, &[u8])> = Elements::of(some).map(|item| (item.kind, item.value)).collect();
    if Elements::of(others).any(|item| known.contains(&(item.kind, item.value))) {
        return true;
    }
    let some: Vec<Element<'_>> = Elements::of(some).collect();
    let others: Vec<Element<'_>> = Elements::of(others).collect();
    some.len().saturating_mul(others.len()) > MOST_COMPARED || others.iter().any(|item| has(&some, item))
}

fn all_same(some: &[Element<'_>], others: &[Element<'_>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| same(one, other))
}

/// Whether the server, which compares bytes, matches a value with the bytes that a model writes: not if it has keys,
/// which may be in another order.
fn is_comparable(element: &Element<'_>) -> bool {
    !matches!(element.kind, 0x03 | 0x04)
}

fn joined(path: &[u8], key: &[u8]) -> Vec<u8> {
    [path, b".", key].concat()
}

fn is_empty(document: &[u8]) -> bool {
    document.len() <= 5
}

/// Whether its keys can be parts of paths.
fn has_safe_keys(document: &[u8]) -> bool {
    Elements::of(document).all(|element| is_safe(element.key))
}

fn is_safe(key: &[u8]) -> bool {
    !key.is_empty() && key[0] != b'$' && !key.contains(&b'.')
}

/// The elements that differ between two documents, with the former and the present value. None: the keys or their order
/// differ, or a key cannot be part of a path.
fn changed_parts<'a>(was: &'a [u8], is: &'a [u8]) -> Option<Vec<(Element<'a>, Element<'a>)>> {
    let (mut before, mut after) = (Elements::of(was), Elements::of(is));
    let mut changed = Vec::new();
    loop {
        skip_common(&mut before, &mut after);
        match (before.next(), after.next()) {
            (None, None) => return Some(changed),
            (Some(former), Some(element)) if former.key == element.key && is_safe(element.key) => {
                if !same(&former, &element) {
                    changed.push((former, element));
                }
            }
            _ => return None,
        }
    }
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
pub(super) fn array<'a>(out: &mut Vec<u8>, path: &[u8], items: impl Iterator<Item = &'a Element<'a>>) {
    out.push(0x04);
    out.extend_from_slice(path);
    out.push(0);
    let start = open(out);
    for (index, item) in items.enumerate() {
        append(out, item.kind, itoa::Buffer::new().format(index).as_bytes(), item.value);
    }
    close(out, start);
}

/// Where the fields of a document are in its bytes: the type, and the range of the value.
type Places = Vec<Option<(u8, std::ops::Range<usize>)>>;

/// Walks the document once for all fields, trying the next expected field first.
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

/// A field's value in the database: type and bytes, as saved or loaded.
fn stored<'a>(state: &'a State, places: &Places, key: &'a [u8], index: usize) -> Option<Element<'a>> {
    if let Some(saved) = state.kept(index) {
        let saved = saved.as_ref()?;
        return Some(Element { kind: saved[0], key, value: &saved[1..] });
    }
    let (kind, range) = places.get(index)?.as_ref()?;
    Some(Element { kind: *kind, key, value: state.raw.get(range.clone())? })
}

/// Whether a container that was not set is certainly unchanged since the load.
fn is_untouched(plan: &Plan, index: usize, found: &Bound<'_, PyAny>) -> bool {
    if let Op::Embedded(model) = &plan.fields[index].kind.op
        && is_of(found, &model.class)
        && let Ok(embedded) = Fields::of(found)
    {
        return embedded.flags() & (NEW | EXTRA_SET) == 0 && !embedded.has_dirty() && embedded.plan.is_flat;
    }
    false
}

/// Builds the update of a document without changing the instance. None: the stored document equals the instance.
pub(super) fn build(py: Python<'_>, fields: Fields<'_>) -> PyResult<Option<Update>> {
    let plan = fields.plan;
    let mut update = Update {
        is_uncertain: fields.flags() & UNCERTAIN != 0,
        is_partial: fields.flags() & PARTIAL != 0,
        ..Update::default()
    };
    let mut draft = Vec::new();
    let dirty = fields.dirty();
    let places = fields.known().map(|state| places(&state.raw, plan)).unwrap_or_default();
    // A list usually keeps about its size. Of a long document only a part is changed.
    let room = fields.known().map_or(0, |state| state.raw.len());
    let mut encoded = Vec::with_capacity(room.clamp(256, 32 * 1024));
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
                    .value(&field.kind, &field.name, &held)
                    .map_err(|fault| crate::codec::fault::into_exception(py, fault, None))?;
            }
            let is = Elements::bare(&encoded).next();
            let is_set = matches!(field.kind.op, Op::Set(..) | Op::Refs { .. });
            // An unchanged default is not written back. The check runs the program's code, so nothing is borrowed
            // meanwhile.
            if let Some(is) = &is
                && !is_dirty
                && fields.known().is_none_or(|state| stored(&state, &places, &field.key, index).is_none())
                && is_default(py, plan, index, is)?
            {
                continue;
            }
            if let Some(is) = &is
                && !is_dirty
                && field.reads_other_forms
                && is_other_form(py, fields, index, &places, is)
            {
                continue;
            }
            let state = fields.known();
            let was = state.as_ref().and_then(|state| stored(state, &places, &field.key, index));
            let is_whole = was.is_some() || !is_dirty || !update.is_partial;
            update.rules = Rules { is_assigned: is_dirty, is_whole, is_guarded: false };
            let Some(is) = is else {
                // None: the key is missing. Unknown without the stored bytes.
                let was_null = fields.was_null(index);
                if is_dirty || was.is_some_and(|was| was.kind != 0x0A || !was_null) {
                    update.unset(&field.key);
                    draft.push((index, None));
                }
                continue;
            };
            if is_set && was.is_some_and(|was| is_same_set(&was, &is)) {
                continue;
            }
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
        extra(&mut update, &state, &state.extra, plan);
    }
    if update.is_empty() {
        return Ok(None);
    }
    count(&mut update, py, fields);
    update.sent = dirty;
    update.draft = draft;
    Ok(Some(update))
}

/// Builds the update under way again, after `adopt`: it stores the same values, whatever the instance is by now.
pub(super) fn rebuild(py: Python<'_>, fields: Fields<'_>, is_uncertain: bool) -> Option<Update> {
    let (plan, state) = (fields.plan, fields.known()?);
    let places = places(&state.raw, plan);
    let mut update = Update { is_uncertain, is_partial: fields.flags() & PARTIAL != 0, ..Update::default() };
    for (index, value) in &state.draft {
        let field = &plan.fields[*index];
        let is_assigned = state.sent.has(*index);
        let was = stored(&state, &places, &field.key, *index);
        let is_whole = was.is_some() || !is_assigned || !update.is_partial;
        update.rules = Rules { is_assigned, is_whole, is_guarded: false };
        let Some(value) = value else {
            update.unset(&field.key);
            continue;
        };
        let is = Element { kind: value[0], key: &field.key, value: &value[1..] };
        match field.is_mutable {
            true => {
                update.change(&field.key, was, &is, matches!(field.kind.op, Op::Set(..) | Op::Refs { .. }))
            }
            false => update.set(&field.key, &is),
        }
    }
    if let Some(sent) = &state.sent_extra {
        extra(&mut update, &state, sent, plan);
    }
    count(&mut update, py, fields);
    Some(update)
}

/// Adds the next version.
#[inline]
fn count(update: &mut Update, py: Python<'_>, fields: Fields<'_>) {
    if let Some(index) = fields.plan.version {
        let held = if is_unversioned(py, fields) { fields.value(py, index) } else { None };
        // The server counts from 0 where there is no version.
        let first = held.and_then(|held| held.extract::<i32>().ok()).unwrap_or(0);
        let step = first.saturating_add(1).to_le_bytes();
        append(&mut update.inc, 0x10, &fields.plan.fields[index].key, &step);
    }
}

/// Whether a value that was not set differs from the stored one only in form: after decoding and encoding, the stored
/// value is equal.
#[cold]
fn is_other_form(
    py: Python<'_>,
    fields: Fields<'_>,
    index: usize,
    places: &Places,
    is: &Element<'_>,
) -> bool {
    let field = &fields.plan.fields[index];
    let is_same = fields
        .known()
        .is_none_or(|state| stored(&state, places, &field.key, index).is_none_or(|was| same(&was, is)));
    if is_same {
        // The caller finds this out too.
        return false;
    }
    // Both run the program's code, so nothing is borrowed meanwhile.
    let Ok(read) = super::saving::stored_value(py, fields, index) else { return false };
    let mut encoded = Vec::new();
    let mut writer = Writer::new(py, fields.plan, &mut encoded);
    if writer.value(&field.kind, &field.name, &read).is_err() {
        return false;
    }
    Elements::bare(&encoded).next().is_some_and(|was| same(&was, is))
}

/// Changes of keys that no field has, to these elements.
fn extra(update: &mut Update, state: &State, now: &[u8], plan: &Plan) {
    let is_field = |element: &Element<'_>| {
        plan.field_of_key(element.key).is_some()
            || plan.tags.as_ref().is_some_and(|tags| tags.is_own(element))
    };
    let stored = state.stored_extra.as_deref().map_or_else(|| Elements::of(&state.raw), Elements::bare);
    let before: Vec<Element<'_>> = stored.filter(|element| !is_field(element)).collect();
    update.rules = Rules { is_assigned: true, is_whole: false, is_guarded: false };
    for element in Elements::bare(now) {
        let was = before.iter().find(|former| former.key == element.key).copied();
        update.change(element.key, was, &element, false);
    }
    for former in before {
        if !Elements::bare(now).any(|element| element.key == former.key) {
            update.unset(former.key);
        }
    }
}

/// Whether an encoded value equals the field's encoded default.
fn is_default(py: Python<'_>, plan: &'static Plan, index: usize, is: &Element<'_>) -> PyResult<bool> {
    let field = &plan.fields[index];
    let Some(made) = default_of(py, &field.default)? else { return Ok(false) };
    let made = coerce(&field.kind, &made).map_err(|fault| located(py, plan, index, fault))?;
    let mut encoded = Vec::new();
    Writer::new(py, plan, &mut encoded)
        .value(&field.kind, &field.name, &made)
        .map_err(|fault| crate::codec::fault::into_exception(py, fault, None))?;
    Ok(Elements::bare(&encoded).next().is_some_and(|element| same(&element, is)))
}
