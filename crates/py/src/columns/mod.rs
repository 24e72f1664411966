//! Tables of columns as Python objects: batches of a cursor go in, readers of Arrow take them out. The GIL is
//! released while columns are built. Knows no cursor and no library that reads tables.
mod export;
mod import;
mod interface;
mod json_lines;
mod source;
mod type_counter;

use std::sync::Arc;

use mangonel_bson::RawDocument;
use mangonel_columns::{Builder, Failure, Field, Kind, OnInvalid, Table};
use mangonel_entries::entries;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyString, PyTuple};

use crate::driver::batch::{Batch, next_in};

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ColumnBuilder>()?;
    module.add_class::<ArrowTable>()?;
    module.add_class::<type_counter::TypeCounter>()?;
    module.add_class::<source::ArrowReader>()?;
    module.add_class::<source::ArrowRows>()?;
    module.add_class::<source::ArrowSource>()?;
    module.add_function(wrap_pyfunction!(json_lines::documents_of_json_lines, module)?)
}

/// Makes columns of documents.
///
/// Args:
///     schema: pairs of a name and a kind; None: inferred. See `mangonel.arrow`.
///     on_invalid: "raise", "null" or "string": what happens to a value that does not fit.
///     chunk_rows: rows in one chunk.
///     missing: "null", or "distinguish": a last column tells null from missing.
///     has_categories: columns of strings that are inferred are dictionary-encoded.
#[pyclass(module = "mangonel._core")]
pub struct ColumnBuilder {
    /// None after a failure.
    builder: Option<Builder>,
}

#[entries]
#[pymethods]
impl ColumnBuilder {
    #[new]
    #[pyo3(signature = (schema, on_invalid, chunk_rows, missing="null", has_categories=false))]
    fn new(
        schema: Option<&Bound<'_, PyAny>>,
        on_invalid: &str,
        chunk_rows: usize,
        missing: &str,
        has_categories: bool,
    ) -> PyResult<Self> {
        let on_invalid = match on_invalid {
            "raise" => OnInvalid::Raise,
            "null" => OnInvalid::Null,
            "string" => OnInvalid::Text,
            other => {
                return Err(PyValueError::new_err(format!(
                    "expected \"raise\", \"null\" or \"string\" as on_invalid, got {other:?}"
                )));
            }
        };
        let fields = schema.map(fields_of).transpose()?;
        let mut builder = Builder::new(fields.as_deref(), on_invalid, chunk_rows);
        if has_categories {
            builder = builder.with_categories();
        }
        match missing {
            "null" => {}
            "distinguish" => {
                builder = builder
                    .with_null_paths()
                    .map_err(|failure| PyValueError::new_err(failure.to_string()))?;
            }
            other => {
                return Err(PyValueError::new_err(format!(
                    "expected \"null\" or \"distinguish\" as missing, got {other:?}"
                )));
            }
        }
        Ok(Self { builder: Some(builder) })
    }

    /// Append the documents that are left in a batch.
    fn add(&mut self, py: Python<'_>, batch: &Bound<'_, Batch>) -> PyResult<()> {
        let (message, start, end) = batch.try_borrow_mut()?.take_documents();
        self.build(py, |builder| {
            let mut position = start;
            while let Some(range) = next_in(&message, position, end).map_err(Problem::Bytes)? {
                position = range.end;
                let (document, _) = prefix(&message[range])?;
                builder.push(document).map_err(Problem::Invalid)?;
            }
            Ok(())
        })
    }

    /// Append concatenated documents.
    fn add_bytes(&mut self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        self.build(py, |builder| {
            let mut rest = data;
            while !rest.is_empty() {
                let (document, after) = prefix(rest)?;
                builder.push(document).map_err(Problem::Invalid)?;
                rest = after;
            }
            Ok(())
        })
    }

    /// How many chunks are full.
    #[getter]
    fn full_chunks(&self) -> usize {
        self.builder.as_ref().map_or(0, Builder::full_chunks)
    }

    /// How many documents were appended, and of how many bytes.
    #[getter]
    fn appended(&self) -> (usize, usize) {
        self.builder.as_ref().map_or((0, 0), Builder::appended)
    }

    /// Return the rows so far as a table; its kinds hold for all later rows.
    fn take(&mut self, py: Python<'_>) -> PyResult<ArrowTable> {
        self.taken(py, Builder::take)
    }

    /// Return the first full chunk as a table, or the rows so far if none is full; otherwise like `take`.
    fn take_chunk(&mut self, py: Python<'_>) -> PyResult<ArrowTable> {
        self.taken(py, Builder::take_chunk)
    }
}

impl ColumnBuilder {
    fn taken(
        &mut self,
        py: Python<'_>,
        take: fn(&mut Builder) -> Result<Table, Failure>,
    ) -> PyResult<ArrowTable> {
        let mut table = None;
        self.build(py, |builder| {
            table = Some(take(builder).map_err(Problem::Invalid)?);
            Ok(())
        })?;
        let table = table.ok_or_else(|| PyRuntimeError::new_err("the builder made no table"))?;
        Ok(ArrowTable { table: Arc::new(table) })
    }
}

enum Problem {
    Bytes(String),
    Invalid(Failure),
}

fn prefix(bytes: &[u8]) -> Result<(RawDocument<'_>, &[u8]), Problem> {
    RawDocument::prefix(bytes).map_err(|error| Problem::Bytes(format!("invalid BSON: {error}")))
}

impl ColumnBuilder {
    /// Runs `action` without the GIL.
    fn build(
        &mut self,
        py: Python<'_>,
        action: impl FnOnce(&mut Builder) -> Result<(), Problem> + Send,
    ) -> PyResult<()> {
        let Some(mut builder) = self.builder.take() else {
            return Err(PyRuntimeError::new_err("an earlier document did not fit; start a new table"));
        };
        let (result, builder) = py.detach(move || (action(&mut builder), builder));
        let text = match result {
            Ok(()) => {
                self.builder = Some(builder);
                return Ok(());
            }
            Err(Problem::Bytes(text)) => text,
            Err(Problem::Invalid(failure)) if failure.is_no_memory() => {
                return Err(PyMemoryError::new_err(failure.to_string()));
            }
            Err(Problem::Invalid(failure)) => failure.to_string(),
        };
        let class = py.import("mangonel.arrow.errors")?.getattr("ColumnError")?;
        Err(PyErr::from_value(class.call1((text,))?))
    }
}

/// A table of columns, which any library that reads Arrow can use without copying: `pyarrow.table(t)`,
/// `polars.DataFrame(t)`, `duckdb.sql("from t")`.
#[pyclass(frozen, module = "mangonel._core")]
pub struct ArrowTable {
    table: Arc<Table>,
}

#[entries]
#[pymethods]
impl ArrowTable {
    /// How many rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.table.rows()
    }

    /// How many rows.
    fn __len__(&self) -> usize {
        self.table.rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.table.fields.iter().map(|field| field.name.as_str()).collect()
    }

    /// The names of the columns and what they hold.
    #[getter]
    fn kinds(&self) -> Vec<(&str, String)> {
        self.table.fields.iter().map(|field| (field.name.as_str(), field.kind.name())).collect()
    }

    /// The table as a capsule of an ArrowArrayStream. Spec: the Arrow PyCapsule interface.
    ///
    /// Args:
    ///     requested_schema: ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        export::stream(py, self.table.clone())
    }

    /// The kinds of the columns as a capsule of an ArrowSchema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.table)
    }

    fn __repr__(&self) -> String {
        let columns: Vec<String> =
            self.table.fields.iter().map(|field| format!("{}: {}", field.name, field.kind.name())).collect();
        format!("<ArrowTable of {} rows, {}>", self.table.rows(), columns.join(", "))
    }
}

/// Reads pairs of a name and a kind.
fn fields_of(pairs: &Bound<'_, PyAny>) -> PyResult<Vec<Field>> {
    let mut fields = Vec::new();
    for pair in pairs.try_iter()? {
        let (name, kind) = pair?.extract::<(String, Bound<'_, PyAny>)>()?;
        if fields.iter().any(|field: &Field| field.name == name) {
            return Err(PyValueError::new_err(format!("expected each name once, got {name:?} twice")));
        }
        fields.push(Field { name, kind: kind_of(&kind)? });
    }
    Ok(fields)
}

/// Reads a kind: a name, or a tuple of a name and its parameters.
fn kind_of(kind: &Bound<'_, PyAny>) -> PyResult<Kind> {
    if let Ok(name) = kind.cast::<PyString>() {
        return Ok(match name.to_str()? {
            "null" => Kind::Null,
            "bool" => Kind::Bool,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "double" => Kind::Double,
            "date" => Kind::Date { has_zone: true },
            "naive_date" => Kind::Date { has_zone: false },
            "object_id" => Kind::ObjectId,
            "uuid" => Kind::Uuid,
            "string" => Kind::Text,
            "category" => Kind::Category,
            "binary" => Kind::Binary,
            other => {
                return Err(PyValueError::new_err(format!("expected the name of a kind, got {other:?}")));
            }
        });
    }
    let parts = kind.cast::<PyTuple>()?;
    let name: String = parts.get_item(0)?.extract()?;
    match name.as_str() {
        "decimal" => {
            let (_, precision, scale) = parts.extract::<(String, u8, u8)>()?;
            if !(1..=38).contains(&precision) || scale > precision {
                return Err(PyValueError::new_err(format!(
                    "expected a precision of 1 to 38 and no larger scale, got {precision} and {scale}"
                )));
            }
            Ok(Kind::Decimal { precision, scale })
        }
        "list" => Ok(Kind::List(Box::new(kind_of(&parts.get_item(1)?)?))),
        "struct" => Ok(Kind::Struct(fields_of(parts.get_item(1)?.cast::<PyList>()?.as_any())?)),
        other => Err(PyTypeError::new_err(format!("expected decimal, list or struct, got {other:?}"))),
    }
}
