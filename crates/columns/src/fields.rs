//! The columns of a struct, found by key. The columns of a table are those of a struct without nulls.

use mangonel_bson::RawDocument;

use crate::column::{Column, Rules};
use crate::kind::{Field, Kind};
use crate::names::Names;
use crate::null_paths::NULL_PATHS;
use crate::problem::{Outcome, Problem};

/// Named columns of equal length, in the order in which they were given or first met.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    names: Names,
    pub(crate) columns: Vec<Column>,
}

impl Fields {
    /// Empty columns.
    pub fn new(fields: &[Field]) -> Self {
        let mut made = Self::default();
        for field in fields {
            made.add(field.name.clone(), Column::new(&field.kind));
        }
        made
    }

    /// The keys.
    pub fn names(&self) -> &[String] {
        self.names.as_slice()
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the keys and the kinds of their columns.
    pub fn kinds(&self) -> Vec<Field> {
        let pairs = self.names().iter().zip(&self.columns);
        pairs.map(|(name, column)| Field { name: name.clone(), kind: column.kind() }).collect()
    }

    pub(crate) fn add(&mut self, name: String, column: Column) {
        self.names.push(name);
        self.columns.push(column);
    }

    /// Appends a document as row number `row`. A repeated key takes its first value.
    pub(crate) fn push(&mut self, document: RawDocument<'_>, row: usize, rules: &mut Rules) -> Outcome {
        let mut expected = 0;
        let mut filled = 0;
        for field in document.fields() {
            let (key, value) = field?;
            let at = match self.names.find(key, expected) {
                Some(at) => at,
                None if rules.is_inferring => {
                    let name = std::str::from_utf8(key)
                        .map_err(|_| Problem::new("invalid BSON: a key that is no UTF-8"))?;
                    rules.count_column().map_err(|problem| problem.under(name))?;
                    if name == NULL_PATHS && rules.depth == 0 && rules.nulls.is_some() {
                        return Err(taken());
                    }
                    self.add(name.to_owned(), Column::of_nulls(&Kind::Null, row)?);
                    self.columns.len() - 1
                }
                None => continue,
            };
            let column = &mut self.columns[at];
            if column.len > row {
                continue;
            }
            if let Some(nulls) = &mut rules.nulls {
                nulls.path.enter(&self.names.as_slice()[at]);
            }
            column.push(value, rules).map_err(|problem| problem.under(String::from_utf8_lossy(key)))?;
            if let Some(nulls) = &mut rules.nulls {
                if column.ends_with_null() {
                    nulls.note()?;
                }
                nulls.path.leave();
            }
            filled += 1;
            expected = at + 1;
        }
        if filled < self.columns.len() {
            for column in &mut self.columns {
                if column.len == row {
                    column.push_null()?;
                }
            }
        }
        Ok(())
    }
}

/// The error for a field with the name of the column that tells null from missing.
#[cold]
pub(crate) fn taken() -> Box<Problem> {
    Problem::new(format!("expected no field called {NULL_PATHS:?} beside the column of that name, got one"))
}
