//! Builds a table in chunks from documents.

use mangonel_bson::RawDocument;

use crate::column::{Column, Rules};
use crate::fields::{Fields, taken};
use crate::kind::{Field, Kind};
use crate::null_paths::{NULL_PATHS, NullPaths};
use crate::problem::{Failure, OnInvalid, Problem};

/// The most BSON in one chunk. Its text is at most six times as long, so every offset fits in 31 bits.
const CHUNK_BYTES: usize = 128 << 20;

/// Some rows of a table.
#[derive(Clone, Debug)]
pub struct Chunk {
    rows: usize,
    fields: Fields,
    /// Appended to the columns when the table is taken.
    null_paths: Option<Column>,
}

impl Chunk {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        self.fields.columns()
    }
}

/// Columns and their values.
#[derive(Clone, Debug)]
pub struct Table {
    /// Names and kinds of the columns.
    pub fields: Vec<Field>,
    /// The rows; each chunk has the kinds in `fields`.
    pub chunks: Vec<Chunk>,
}

/// Makes a table of documents.
#[derive(Debug)]
pub struct Builder {
    fields: Fields,
    rows: usize,
    bytes: usize,
    chunk_rows: usize,
    chunks: Vec<Chunk>,
    /// All appended rows and bytes of BSON.
    appended: (usize, usize),
    rules: Rules,
}

impl Builder {
    /// Starts a table.
    ///
    /// With `schema`, other fields of documents are ignored; without one, each new field adds a column.
    pub fn new(schema: Option<&[Field]>, on_invalid: OnInvalid, chunk_rows: usize) -> Self {
        Self {
            fields: Fields::new(schema.unwrap_or_default()),
            rows: 0,
            bytes: 0,
            chunk_rows: chunk_rows.max(1),
            chunks: Vec::new(),
            appended: (0, 0),
            rules: Rules {
                is_inferring: schema.is_none(),
                on_invalid,
                columns: 0,
                depth: 0,
                has_categories: false,
                nulls: None,
            },
        }
    }

    /// Stores inferred string columns as categories.
    #[must_use]
    pub fn with_categories(mut self) -> Self {
        self.rules.has_categories = true;
        self
    }

    /// Adds a last column, `NULL_PATHS`, with the paths of each row's null fields, to tell null from missing.
    ///
    /// # Errors
    /// The schema has a column of that name.
    pub fn with_null_paths(mut self) -> Result<Self, Failure> {
        if self.fields.names().iter().any(|name| name == NULL_PATHS) {
            return Err(Failure::without_document(&taken()));
        }
        self.rules.nulls = Some(NullPaths::new());
        Ok(self)
    }

    /// Appends a document as a row.
    ///
    /// # Errors
    /// A value does not fit, or the bytes are no BSON. The builder is unusable then.
    pub fn push(&mut self, document: RawDocument<'_>) -> Result<(), Failure> {
        let size = document.as_bytes().len();
        if self.rows == self.chunk_rows || self.bytes + size > CHUNK_BYTES {
            self.seal();
        }
        self.fields
            .push(document, self.rows, &mut self.rules)
            .and_then(|()| self.rules.nulls.as_mut().map_or(Ok(()), NullPaths::end_row))
            .map_err(|problem| Failure::new(&problem, document))?;
        self.rows += 1;
        self.bytes += size;
        self.appended.0 += 1;
        self.appended.1 += size;
        Ok(())
    }

    /// Returns how many rows and how many bytes of BSON were appended in total.
    pub fn appended(&self) -> (usize, usize) {
        self.appended
    }

    /// Rows in whole chunks.
    pub fn full_chunks(&self) -> usize {
        self.chunks.len() + usize::from(self.rows == self.chunk_rows)
    }

    /// Ends the chunk that is being filled; the next begins with the same kinds.
    fn seal(&mut self) {
        if self.rows == 0 {
            return;
        }
        let mut next = Fields::new(&self.fields.kinds());
        // A growing vector is copied and reserves up to twice what it needs; the next chunk is likely to be as long as
        // this one.
        for (column, like) in next.columns.iter_mut().zip(&self.fields.columns) {
            column.reserve(like);
        }
        let mut fields = std::mem::replace(&mut self.fields, next);
        fields.columns.iter_mut().for_each(Column::shrink);
        let null_paths = self.rules.nulls.as_mut().map(|nulls| nulls.take(self.rows));
        self.chunks.push(Chunk { rows: self.rows, fields, null_paths });
        self.rows = 0;
        self.bytes = 0;
    }

    /// Returns all rows with their current kinds, and keeps those kinds for the next rows, so that a table
    /// taken in parts has one schema.
    ///
    /// # Errors
    /// A column of an earlier chunk cannot be widened without changing a value.
    pub fn take(&mut self) -> Result<Table, Failure> {
        self.seal();
        let fields = self.settle()?;
        let chunks = std::mem::take(&mut self.chunks);
        Ok(self.table(fields, chunks))
    }

    /// Returns the first chunk, or the rows so far if none is full; otherwise as `take`.
    ///
    /// # Errors
    /// As for `take`.
    pub fn take_chunk(&mut self) -> Result<Table, Failure> {
        if self.chunks.is_empty() {
            self.seal();
        }
        let fields = self.settle()?;
        let count = self.chunks.len().min(1);
        let chunks = self.chunks.drain(..count).collect();
        Ok(self.table(fields, chunks))
    }

    fn table(&self, mut fields: Vec<Field>, mut chunks: Vec<Chunk>) -> Table {
        if self.rules.nulls.is_some() {
            fields.push(NullPaths::field());
        }
        for chunk in &mut chunks {
            if let Some(column) = chunk.null_paths.take() {
                chunk.fields.add(NULL_PATHS.to_owned(), column);
            }
        }
        Table { fields, chunks }
    }

    /// Widens all chunks to the current kinds, which no longer change.
    fn settle(&mut self) -> Result<Vec<Field>, Failure> {
        let fields = self.fields.kinds();
        let failure = |problem: Box<Problem>| Failure::without_document(&problem);
        for chunk in &mut self.chunks {
            chunk.fields.widen(&fields, chunk.rows).map_err(failure)?;
            if let Some(field) = differing(&chunk.fields.kinds(), &fields) {
                let what = "expected integers that a double holds, got larger ones; give a schema";
                return Err(failure(Problem::new(what).under(field)));
            }
        }
        self.rules.is_inferring = false;
        Ok(fields)
    }
}

fn differing(found: &[Field], wanted: &[Field]) -> Option<String> {
    found.iter().zip(wanted).find(|(found, wanted)| found != wanted).map(|(field, _)| field.name.clone())
}

impl Table {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.chunks.iter().map(Chunk::rows).sum()
    }

    /// The kind of the whole: a struct of the columns.
    pub fn kind(&self) -> Kind {
        Kind::Struct(self.fields.clone())
    }
}
