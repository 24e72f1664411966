//! Writes documents as JSON that names attributes, embedded ones included, with defaults for missing keys.
//! The result is an instance's own JSON, made from bytes alone. Knows Python only while the shape is made;
//! writing needs no GIL.
use pyo3::prelude::*;

use super::bits::Bits;
use super::encode::Writer;
use super::keys::Keys;
use super::plan::{Default, Field, Op, Plan, Type, Unknown};
use super::raw::{self, Element, Elements};
use super::value::default_of;
use crate::codec::datetime::split;

/// The kind of a value whose JSON differs from that of its bytes.
enum Kind {
    Plain,
    Date,
    /// An id; a DBRef is written as its id.
    Reference,
    Model(usize),
    Each(Box<Kind>),
    Values(Box<Kind>),
    /// The tag's key, and its values with their models.
    Union(Vec<u8>, Vec<(Vec<u8>, usize)>),
}

struct Row {
    key: Vec<u8>,
    name: Vec<u8>,
    kind: Kind,
    /// Type and value to use if the key is missing.
    default: Option<(u8, Vec<u8>)>,
}

/// One model.
struct Node {
    rows: Vec<Row>,
    keys: Keys,
    tag: Option<Vec<u8>>,
    /// The tag in the model's documents: an element; empty for a model without one.
    own: Vec<u8>,
    members: Vec<(Vec<u8>, usize)>,
    /// Whether keys that no field has are written too.
    keeps: bool,
}

/// The models whose documents may occur inside documents of one model.
pub(super) struct Names {
    nodes: Vec<Node>,
    known: Vec<*const Plan>,
}

// SAFETY: the pointers are to plans, which live for ever; they are compared by `node` alone, under the GIL, and never
// followed. Everything else is plain data.
unsafe impl Send for Names {}
// SAFETY: nothing changes through a shared reference: `node`, which adds, takes `&mut`, and is over when `of` returns.
unsafe impl Sync for Names {}

impl Names {
    /// Makes the names for a model's documents.
    pub(super) fn of(py: Python<'_>, plan: &'static Plan) -> PyResult<Self> {
        let mut names = Names { nodes: Vec::new(), known: Vec::new() };
        names.node(py, plan)?;
        Ok(names)
    }

    fn node(&mut self, py: Python<'_>, plan: &'static Plan) -> PyResult<usize> {
        if let Some(index) = self.known.iter().position(|known| std::ptr::eq(*known, plan)) {
            return Ok(index);
        }
        let index = self.nodes.len();
        self.known.push(plan);
        self.nodes.push(Node {
            rows: Vec::new(),
            keys: Keys::default(),
            tag: None,
            own: plan.tags.as_ref().map_or_else(Vec::new, |tags| tags.own.clone()),
            members: Vec::new(),
            keeps: plan.is_dynamic && plan.unknown == Unknown::Keep,
        });
        let mut rows = Vec::with_capacity(plan.fields.len());
        for field in &plan.fields {
            rows.push(Row {
                key: field.key.clone(),
                name: field.attribute.bind(py).to_str()?.as_bytes().to_vec(),
                kind: self.kind(py, &field.kind)?,
                default: default(py, plan, field)?,
            });
        }
        let mut members = Vec::new();
        if let Some(tags) = &plan.tags {
            for (tag, model) in &tags.models {
                members.push((tag.clone(), self.node(py, model.plan(py)?)?));
            }
        }
        let node = &mut self.nodes[index];
        node.tag = plan.tags.as_ref().map(|tags| tags.key[..tags.key.len() - 1].to_vec());
        node.keys = Keys::new(rows.iter().map(|row| row.key.as_slice()));
        node.rows = rows;
        node.members = members;
        Ok(index)
    }

    fn kind(&mut self, py: Python<'_>, kind: &'static Type) -> PyResult<Kind> {
        Ok(match &kind.op {
            Op::Date => Kind::Date,
            Op::Ref { .. } => Kind::Reference,
            Op::Refs { .. } => Kind::Each(Box::new(Kind::Reference)),
            Op::Embedded(model) => Kind::Model(self.node(py, model.plan(py)?)?),
            Op::List(inner) | Op::Set(inner, _) | Op::TupleOf(inner) => match self.kind(py, inner)? {
                Kind::Plain => Kind::Plain,
                inner => Kind::Each(Box::new(inner)),
            },
            Op::Dict(inner) => match self.kind(py, inner)? {
                Kind::Plain => Kind::Plain,
                inner => Kind::Values(Box::new(inner)),
            },
            Op::Union(union) => {
                let mut models = Vec::new();
                for (tag, model) in &union.models {
                    models.push((tag.clone(), self.node(py, model.plan(py)?)?));
                }
                let key = union.tag.strip_suffix(b"\0").unwrap_or(&union.tag).to_vec();
                if models.is_empty() { Kind::Plain } else { Kind::Union(key, models) }
            }
            _ => Kind::Plain,
        })
    }

    /// Appends a checked document under its attributes' names. `only`: the requested fields.
    pub(super) fn rename(&self, data: &[u8], only: Option<&Bits>, out: &mut Vec<u8>) {
        self.document(0, data, only, out);
    }

    fn document(&self, index: usize, data: &[u8], only: Option<&Bits>, out: &mut Vec<u8>) {
        let node = &self.nodes[index];
        let tag = node.tag.as_deref().and_then(|tag| Elements::of(data).find(|element| element.key == tag));
        let chosen = tag.as_ref().and_then(|tag| among(&node.members, tag));
        // The requested fields are numbered as in the family's root; a member has the root's fields first, in the same
        // order.
        let node = chosen.map_or(node, |chosen| &self.nodes[chosen]);
        let start = raw::open(out);
        let mut seen = Bits::default();
        for element in Elements::of(data) {
            if node.tag.as_deref() == Some(element.key) {
                continue;
            }
            match node.keys.find(element.key, || node.rows.iter().position(|row| row.key == element.key)) {
                Some(at) => {
                    seen.add(at);
                    self.value(&node.rows[at].kind, &node.rows[at].name, &element, out);
                }
                None if node.keeps => raw::append(out, element.kind, element.key, element.value),
                None => {}
            }
        }
        for (at, row) in node.rows.iter().enumerate() {
            if let Some((kind, value)) = &row.default
                && !seen.has(at)
                && only.is_none_or(|only| only.has(at))
            {
                self.value(&row.kind, &row.name, &Element { kind: *kind, key: &row.key, value }, out);
            }
        }
        out.extend_from_slice(&node.own);
        raw::close(out, start);
    }

    fn value(&self, kind: &Kind, name: &[u8], element: &Element<'_>, out: &mut Vec<u8>) {
        match (kind, element.kind) {
            (Kind::Date, 0x09) => {
                let millis = element.value.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
                let day = split(millis);
                let text = format!("{:04}-{:02}-{:02}\0", day.year, day.month, day.day);
                let mut value = (text.len() as u32).to_le_bytes().to_vec();
                value.extend_from_slice(text.as_bytes());
                raw::append(out, 0x02, name, &value);
            }
            (Kind::Reference, 0x03) => {
                let id = Elements::of(element.value).find(|part| part.key == b"$id");
                let found = id.as_ref().unwrap_or(element);
                raw::append(out, found.kind, name, found.value);
            }
            (Kind::Model(index), 0x03) => {
                raw::append(out, 0x03, name, &[]);
                self.document(*index, element.value, None, out);
            }
            (Kind::Each(inner), 0x04) | (Kind::Values(inner), 0x03) => {
                raw::append(out, element.kind, name, &[]);
                let start = raw::open(out);
                for part in Elements::of(element.value) {
                    self.value(inner, part.key, &part, out);
                }
                raw::close(out, start);
            }
            (Kind::Union(key, models), 0x03) => {
                let tag = Elements::of(element.value).find(|part| part.key == key);
                let chosen = match (&tag, models.as_slice()) {
                    (Some(tag), _) => among(models, tag),
                    (None, [(_, only)]) => Some(*only),
                    _ => None,
                };
                match chosen {
                    Some(index) => {
                        raw::append(out, 0x03, name, &[]);
                        self.document(index, element.value, None, out);
                    }
                    None => raw::append(out, element.kind, name, element.value),
                }
            }
            _ => raw::append(out, element.kind, name, element.value),
        }
    }
}

fn among(models: &[(Vec<u8>, usize)], tag: &Element<'_>) -> Option<usize> {
    let found = models.iter().find(|(known, _)| known.first() == Some(&tag.kind) && &known[1..] == tag.value);
    found.map(|(_, index)| *index)
}

/// A field's value if its key is missing; None if the key is required.
fn default(py: Python<'_>, plan: &'static Plan, field: &'static Field) -> PyResult<Option<(u8, Vec<u8>)>> {
    if matches!(field.default, Default::ObjectId) {
        return Ok(None);
    }
    let Some(made) = default_of(py, &field.default)? else { return Ok(None) };
    let mut element = Vec::new();
    let written = Writer::new(py, plan, &mut element).value(&field.kind, &field.name, &made);
    // A default that cannot be stored is left out: saving the document reports it.
    Ok(written
        .ok()
        .and_then(|()| Elements::bare(&element).next())
        .map(|found| (found.kind, found.value.to_vec())))
}
