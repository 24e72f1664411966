//! Converts a column to a wider kind.

use crate::column::{Column, Data, Texts, is_exact};
use crate::fields::Fields;
use crate::kind::{Field, Kind};
use crate::problem::{Outcome, collect};
use crate::text::push_text;

impl Column {
    /// Converts this column to `kind`. False: a value would change, so nothing was converted.
    pub(crate) fn widen(&mut self, kind: &Kind) -> Outcome<bool> {
        let data = match (&mut self.data, kind) {
            (Data::Null, _) => Column::of_nulls(kind, self.len)?.data,
            (Data::Int32(values), Kind::Int64) => {
                Data::Int64(collect(values.iter().map(|value| i64::from(*value)))?)
            }
            (Data::Int32(values), Kind::Double) => {
                Data::Double(collect(values.iter().map(|value| f64::from(*value)))?)
            }
            (Data::Int64(values), Kind::Double) => {
                if !values.iter().all(|value| is_exact(*value)) {
                    return Ok(false);
                }
                Data::Double(collect(values.iter().map(|value| *value as f64))?)
            }
            (Data::Uuid(values), Kind::Binary) => {
                let mut texts = Texts::new();
                for (at, value) in values.iter().enumerate() {
                    let is_there = self.nulls == 0 || self.valid.get(at);
                    texts.push(if is_there { value } else { &[] })?;
                }
                Data::Binary(texts)
            }
            (Data::Struct(fields), Kind::Struct(wanted)) => {
                fields.widen(wanted, self.len)?;
                return Ok(true);
            }
            (Data::List { items, .. }, Kind::List(wanted)) => return items.widen(wanted),
            (Data::Text(_), Kind::Text) => return Ok(true),
            (_, Kind::Text) => Data::Text(self.texts()?),
            // The same kind: inference asks for no other.
            _ => return Ok(true),
        };
        self.data = data;
        Ok(true)
    }

    /// Returns every value as text: scalars as in JSON, without quotes.
    fn texts(&self) -> Outcome<Texts> {
        let mut texts = Texts::new();
        for at in 0..self.len {
            if self.nulls == 0 || self.valid.get(at) {
                push_text(self, at, false, &mut texts.bytes)?;
            }
            texts.end()?;
        }
        Ok(texts)
    }
}

impl Fields {
    /// Widens each column, and adds missing ones as nulls. The wanted names begin with the present ones.
    pub(crate) fn widen(&mut self, wanted: &[Field], len: usize) -> Outcome {
        for (at, field) in wanted.iter().enumerate() {
            match self.columns.get_mut(at) {
                Some(column) => {
                    column.widen(&field.kind)?;
                }
                None => self.add(field.name.clone(), Column::of_nulls(&field.kind, len)?),
            }
        }
        Ok(())
    }
}
