//! Counts the types of the values at each path of documents, to infer a schema. Builds no column.

use mangonel_bson::binary;
use mangonel_bson::element::ELEMENTS;
use mangonel_bson::{RawDocument, RawValue};

use crate::MAX_DEPTH;
use crate::names::Names;

/// The most paths that are counted: documents that use data as keys would fill the memory.
pub const MAX_PATHS: usize = 10_000;

/// The values at one path: their number by type, and the values inside documents and arrays.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// By the type's row in [`ELEMENTS`]; the last is that of [`UUID`].
    counts: [u64; UUIDS + 1],
    /// The keys of the documents here, in the order of their first appearance.
    names: Names,
    fields: Vec<Self>,
    /// The values of the arrays here.
    items: Option<Box<Self>>,
    /// The last document with this key: a repeated key takes its first value.
    seen_in: u64,
}

/// Row numbers by type code.
const ROWS: [u8; 256] = {
    let mut table = [0; 256];
    let mut row = 0;
    while row < ELEMENTS.len() {
        table[ELEMENTS[row].code as usize] = row as u8;
        row += 1;
    }
    table
};

/// The type under which binary values of subtype 4 are counted, since columns distinguish them.
pub const UUID: &str = "uuid";
const UUIDS: usize = ELEMENTS.len();

fn row_of(value: &RawValue<'_>) -> usize {
    match value {
        RawValue::Binary(value) if value.subtype == binary::UUID && value.bytes.len() == 16 => UUIDS,
        other => ROWS[other.element_type() as u8 as usize] as usize,
    }
}

impl Place {
    /// The types here with their counts, in the order of their codes.
    pub fn types(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ELEMENTS.iter().map(|row| row.name).chain([UUID]).zip(self.counts).filter(|(_, count)| *count > 0)
    }

    /// The keys of the documents here and the values under each.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.names.as_slice().iter().map(String::as_str).zip(&self.fields)
    }

    /// The values of the arrays here.
    pub fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    fn add(&mut self, name: String) -> usize {
        self.names.push(name);
        self.fields.push(Self::default());
        self.fields.len() - 1
    }
}

/// The types at each path of the documents that were added.
#[derive(Clone, Debug, Default)]
pub struct TypeCounts {
    root: Place,
    rules: Rules,
}

#[derive(Clone, Debug, Default)]
struct Rules {
    /// Documents so far, including nested ones.
    documents: u64,
    paths: usize,
    left_out: u64,
}

impl TypeCounts {
    /// The documents themselves, which are counted as "object".
    pub fn root(&self) -> &Place {
        &self.root
    }

    /// The number of values that were not counted: at paths beyond [`MAX_PATHS`], or deeper than
    ///     [`MAX_DEPTH`].
    pub fn left_out(&self) -> u64 {
        self.rules.left_out
    }

    /// Adds the values of a document.
    ///
    /// # Errors
    /// The bytes are no BSON. The document was counted in part.
    pub fn add(&mut self, document: RawDocument<'_>) -> mangonel_bson::Result<()> {
        count(&mut self.root, RawValue::Document(document), &mut self.rules, 0)
    }
}

fn count(
    place: &mut Place,
    value: RawValue<'_>,
    rules: &mut Rules,
    depth: usize,
) -> mangonel_bson::Result<()> {
    place.counts[row_of(&value)] += 1;
    match value {
        RawValue::Document(document) => count_fields(place, document, rules, depth),
        RawValue::Array(array) => {
            for item in array.iter() {
                let item = item?;
                if place.items.is_none() {
                    if !has_room(rules, depth) {
                        continue;
                    }
                    place.items = Some(Box::default());
                }
                if let Some(items) = &mut place.items {
                    count(items, item, rules, depth + 1)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn count_fields(
    place: &mut Place,
    document: RawDocument<'_>,
    rules: &mut Rules,
    depth: usize,
) -> mangonel_bson::Result<()> {
    rules.documents += 1;
    let this = rules.documents;
    let mut expected = 0;
    for field in document.fields() {
        let (key, value) = field?;
        let at = match place.names.find(key, expected) {
            Some(at) => at,
            None if has_room(rules, depth) => place.add(String::from_utf8_lossy(key).into_owned()),
            None => continue,
        };
        expected = at + 1;
        let inner = &mut place.fields[at];
        if inner.seen_in != this {
            inner.seen_in = this;
            count(inner, value, rules, depth + 1)?;
        }
    }
    Ok(())
}

/// Counts one more path, or records that a value is left out.
fn has_room(rules: &mut Rules, depth: usize) -> bool {
    let has_room = rules.paths < MAX_PATHS && depth < MAX_DEPTH;
    if has_room {
        rules.paths += 1;
    } else {
        rules.left_out += 1;
    }
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(place: &Place) -> Vec<(&'static str, u64)> {
        place.types().collect()
    }

    #[test]
    fn the_first_value_of_a_repeated_key_counts() {
        // {a: 1, a: null}
        let bytes = b"\x0f\0\0\0\x10a\0\x01\0\0\0\x0aa\0\0";
        let mut counts = TypeCounts::default();
        for _ in 0..2 {
            counts.add(RawDocument::from_bytes(bytes).unwrap()).unwrap();
        }
        let (name, place) = counts.root().fields().next().unwrap();
        assert_eq!((name, types(place)), ("a", vec![("int", 2)]));
        assert_eq!(types(counts.root()), [("object", 2)]);
    }

    #[test]
    fn paths_beyond_the_limit_are_left_out_and_told() {
        let mut counts =
            TypeCounts { rules: Rules { paths: MAX_PATHS, ..Rules::default() }, ..TypeCounts::default() };
        counts.add(RawDocument::from_bytes(b"\x08\0\0\0\x0aa\0\0").unwrap()).unwrap();
        assert_eq!(counts.root().fields().count(), 0);
        assert_eq!(counts.left_out(), 1);
    }
}
