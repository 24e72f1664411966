//! The column that tells null from missing: for each row, the paths of the fields whose value is null. Any
//! other null of the row is a field that the document lacks. Written while columns are built, read when rows
//! become documents.

use crate::bits::Bits;
use crate::column::{Column, Data, Texts, offset};
use crate::kind::{Field, Kind};
use crate::problem::{Outcome, append};

/// The column's name: servers refuse most updates with such a field, so hardly any document has one.
pub const NULL_PATHS: &str = "$null";

/// Keys and indexes, joined with dots. Dots and backslashes in a key are escaped with a backslash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    text: String,
    /// The length before each key.
    starts: Vec<usize>,
}

impl Path {
    pub fn enter(&mut self, key: &str) {
        if !self.starts.is_empty() {
            self.starts.push(self.text.len());
            self.text.push('.');
        } else {
            self.starts.push(0);
        }
        for letter in key.chars() {
            if matches!(letter, '.' | '\\') {
                self.text.push('\\');
            }
            self.text.push(letter);
        }
    }

    pub fn leave(&mut self) {
        self.text.truncate(self.starts.pop().unwrap_or_default());
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The column under construction.
#[derive(Clone, Debug)]
pub(crate) struct NullPaths {
    pub path: Path,
    offsets: Vec<i32>,
    texts: Texts,
}

impl NullPaths {
    pub fn new() -> Self {
        Self { path: Path::default(), offsets: vec![0], texts: Texts::new() }
    }

    pub fn field() -> Field {
        Field { name: NULL_PATHS.to_owned(), kind: Kind::List(Box::new(Kind::Text)) }
    }

    /// Notes that the value at the path is null.
    pub fn note(&mut self) -> Outcome {
        self.texts.push(self.path.text().as_bytes())
    }

    pub fn end_row(&mut self) -> Outcome {
        append(&mut self.offsets, offset(self.texts.offsets.len() - 1)?)
    }

    /// Returns the column of the finished rows; the next one begins empty.
    pub fn take(&mut self, rows: usize) -> Column {
        let Self { offsets, texts, .. } = std::mem::replace(self, Self::new());
        let of = |data, len| Column { data, len, nulls: 0, valid: Bits::default() };
        let count = texts.offsets.len() - 1;
        let mut column = of(Data::List { offsets, items: Box::new(of(Data::Text(texts), count)) }, rows);
        column.shrink();
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_different_keys_differ() {
        let path = |keys: &[&str]| {
            let mut path = Path::default();
            keys.iter().for_each(|key| path.enter(key));
            path.text().to_owned()
        };
        assert_eq!(path(&["a", "b"]), "a.b");
        assert_eq!(path(&["a.b"]), "a\\.b");
        assert_eq!(path(&["a\\", "b"]), "a\\\\.b");
        assert_eq!(path(&[""]), "");
        assert_eq!(path(&["", ""]), ".");
    }
}
