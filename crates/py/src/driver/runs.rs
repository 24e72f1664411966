//! The models of a bulk write as the statements of commands, in runs of equal commands. Spec: crud (bulk write).
//!
//! A model is an instance of a class of `mangonel.operations`, whose constants and attributes are read here.

use mangonel_entries::entries;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyRange, PyString, PyType};

use crate::codec::{self, Codec, slot};

/// The order of commands if the caller requires none.
const COMMANDS: [&str; 3] = ["insert", "update", "delete"];

/// Adds this module's functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(write_form, module)?)?;
    module.add_function(wrap_pyfunction!(write_runs, module)?)
}

/// An attribute of all models of one class: its name, and the offset of its slot if it is one.
struct Attribute<'py>(&'py Bound<'py, PyString>, Option<usize>);

impl<'py> Attribute<'py> {
    fn of(class: &Bound<'py, PyType>, name: &'py Bound<'py, PyString>) -> PyResult<Self> {
        let member = class.getattr_opt(name)?;
        Ok(Attribute(name, member.and_then(|member| slot::offset(&member, Some(class)))))
    }

    /// Reads it from a model of that class.
    #[inline]
    fn read(&self, model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the offset is of the model's class.
        match self.1.and_then(|offset| unsafe { slot::read(model, offset) }) {
            Some(value) => Ok(value),
            None => model.getattr(self.0),
        }
    }
}

type Field<'py> = (&'static str, Bound<'py, PyAny>);

/// The facts that all models of one class share.
pub(super) struct Kind<'py> {
    class: Bound<'py, PyType>,
    filter: Attribute<'py>,
    document: Attribute<'py>,
    upsert: Attribute<'py>,
    options: Attribute<'py>,
    /// Its index in `COMMANDS`.
    command: usize,
    form: Form<'py>,
    /// Whether a repetition would change other documents than the first time.
    repeats: bool,
}

enum Form<'py> {
    Document,
    Deletion { limit: Bound<'py, PyAny> },
    Replacement,
    Update { is_of_many: bool },
}

impl<'py> Kind<'py> {
    fn of(class: Bound<'py, PyType>) -> PyResult<Self> {
        let py = class.py();
        let name = class.getattr(intern!(py, "_COMMAND"))?.cast_into::<PyString>()?;
        let name = name.to_str()?;
        let form = match name {
            "insert" => Form::Document,
            "delete" => Form::Deletion { limit: class.getattr(intern!(py, "_LIMIT"))? },
            _ => match class.getattr(intern!(py, "_MULTI"))?.extract::<Option<bool>>()? {
                None => Form::Replacement,
                Some(is_of_many) => Form::Update { is_of_many },
            },
        };
        let command = COMMANDS.iter().position(|each| *each == name).unwrap_or_default();
        let repeats = class.getattr(intern!(py, "_REPEATS"))?.is_truthy()?;
        let [filter, document, upsert, options] =
            [intern!(py, "_filter"), intern!(py, "_doc"), intern!(py, "_upsert"), intern!(py, "_options")]
                .map(|name| Attribute::of(&class, name));
        let (filter, document, upsert, options) = (filter?, document?, upsert?, options?);
        Ok(Kind { class, filter, document, upsert, options, command, form, repeats })
    }

    /// Returns the fields of a model's statement without its options; an insert has none.
    fn fields(&self, model: &Bound<'py, PyAny>) -> PyResult<impl Iterator<Item = Field<'py>>> {
        let py = model.py();
        let bool = |value| PyBool::new(py, value).to_owned().into_any();
        let field = |attribute: &Attribute<'py>, name: &'static str| {
            attribute.read(model).map(|value| Some((name, value)))
        };
        let fields = match &self.form {
            Form::Document => [None, None, None, None],
            Form::Deletion { limit } => {
                [field(&self.filter, "q")?, Some(("limit", limit.clone())), None, None]
            }
            Form::Replacement | Form::Update { .. } => {
                let upsert = field(&self.upsert, "upsert")?.filter(|(_, value)| !value.is_none());
                let (multi, upsert) = match self.form {
                    // An update of one document includes `multi: False`, as in other drivers, because errors show the
                    // statement.
                    Form::Update { is_of_many: false } => {
                        (Some(false), upsert.or_else(|| Some(("upsert", bool(false)))))
                    }
                    Form::Update { .. } => (Some(true), upsert),
                    _ => (None, upsert),
                };
                let multi = multi.map(|multi| ("multi", bool(multi)));
                [field(&self.filter, "q")?, field(&self.document, "u")?, multi, upsert]
            }
        };
        Ok(fields.into_iter().flatten())
    }

    /// Returns a model in the form of the command's array, without its options and unchecked.
    fn form(&self, model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if matches!(self.form, Form::Document) {
            return self.document.read(model);
        }
        let statement = PyDict::new(model.py());
        for (name, value) in self.fields(model)? {
            statement.set_item(name, value)?;
        }
        Ok(statement.into_any())
    }

    /// Appends an update or a deletion in that form as BSON.
    pub(super) fn encode(&self, model: &Bound<'py, PyAny>, codec: &Codec, out: &mut Vec<u8>) -> PyResult<()> {
        codec::encode_fields(model.py(), self.fields(model)?, codec, out, || self.form(model))
    }

    /// Returns the form of a model for a command, with its documents checked: the model itself, or the document to
    /// insert. With options, or documents that need further checks, it is the statement.
    fn write(&self, model: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if !self.options.read(&model)?.is_none() || !self.is_plain(&model)? {
            return model.call_method0(intern!(model.py(), "_statement"));
        }
        match self.form {
            Form::Document => self.document.read(&model),
            _ => Ok(model),
        }
    }

    fn is_plain(&self, model: &Bound<'py, PyAny>) -> PyResult<bool> {
        if matches!(self.form, Form::Deletion { .. }) {
            return Ok(true);
        }
        let document = self.document.read(model)?;
        let Ok(document) = document.cast_exact::<PyDict>() else {
            return Ok(false);
        };
        if matches!(self.form, Form::Document) {
            return Ok(true);
        }
        let Some((first, _)) = document.iter().next() else {
            return Ok(false);
        };
        let Ok(first) = first.cast_exact::<PyString>() else {
            return Ok(false);
        };
        let is_operator = first.to_str().is_ok_and(|name| name.starts_with('$'));
        Ok(is_operator != matches!(self.form, Form::Replacement))
    }
}

/// The kind of the last model: looked up once for consecutive models of one class.
pub(super) struct Kinds<'py>(Option<Kind<'py>>);

impl<'py> Kinds<'py> {
    pub(super) fn new() -> Self {
        Kinds(None)
    }

    /// Returns the kind of a model. `base`: the base class of all models, to check that it is a model; None if that is
    /// known.
    pub(super) fn of(
        &mut self,
        model: &Bound<'py, PyAny>,
        base: Option<&Bound<'py, PyType>>,
    ) -> PyResult<&Kind<'py>> {
        let known = self.0.take().filter(|kind| kind.class.as_type_ptr() == model.get_type_ptr());
        let kind = match known {
            Some(kind) => kind,
            None => {
                let class = model.get_type();
                if let Some(base) = base
                    && !class.is_subclass(base)?
                {
                    let message = format!(
                        "{} is not a valid request: expected a write such as InsertOne",
                        model.repr()?
                    );
                    return Err(PyTypeError::new_err(message));
                }
                Kind::of(class)?
            }
        };
        Ok(self.0.insert(kind))
    }
}

/// Return a write model in the form of the command's array, without its options and unchecked.
#[entries]
#[pyfunction]
fn write_form<'py>(model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Kind::of(model.get_type())?.form(model)
}

/// The writes of one command.
struct Run<'py> {
    command: usize,
    writes: Bound<'py, PyList>,
    /// The caller's index of each write; empty if they are consecutive.
    indexes: Vec<usize>,
    first: usize,
    is_retryable: bool,
}

/// Return the models as runs of equal commands. `run` makes one of the name of the command, its writes, the caller's
/// index of each, and whether the command can be sent again. Not `ordered`: one run for each command.
#[entries]
#[pyfunction]
fn write_runs<'py>(
    requests: &Bound<'py, PyList>,
    ordered: bool,
    base: &Bound<'py, PyType>,
    run: &Bound<'py, PyType>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let made = run;
    let py = requests.py();
    let mut kinds = Kinds::new();
    let mut runs: Vec<Run<'py>> = Vec::new();
    for (index, model) in requests.iter().enumerate() {
        let kind = kinds.of(&model, Some(base))?;
        let (command, repeats) = (kind.command, kind.repeats);
        let write = kind.write(model)?;
        let place = match runs.last() {
            _ if !ordered => runs.iter().position(|run| run.command == command),
            Some(run) if run.command == command => Some(runs.len() - 1),
            _ => None,
        };
        let place = place.unwrap_or_else(|| {
            let writes = PyList::empty(py);
            runs.push(Run { command, writes, indexes: Vec::new(), first: index, is_retryable: true });
            runs.len() - 1
        });
        let run = &mut runs[place];
        run.writes.append(write)?;
        if !ordered {
            run.indexes.push(index);
        }
        run.is_retryable &= !repeats;
    }
    if !ordered {
        runs.sort_by_key(|run| run.command);
    }
    runs.into_iter()
        .map(|run| {
            let indexes = if ordered {
                let end = (run.first + run.writes.len()).cast_signed();
                PyRange::new(py, run.first.cast_signed(), end)?.into_any()
            } else {
                PyList::new(py, run.indexes)?.into_any()
            };
            made.call1((COMMANDS[run.command], run.writes, indexes, run.is_retryable))
        })
        .collect()
}
