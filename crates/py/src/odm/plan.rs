//! The compiled plan of a model: for each field the bytes of its key, its value's offset in an instance, and the
//! allowed values. Made from the description that `mangonel.odm` writes at a model's first use; immutable, and kept for
//! the life of the process. Knows no BSON layout beyond type numbers.
use std::cell::{Cell as Slot, OnceCell};

use mangonel_entries::entries;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::bits::Bits;
use super::keys::Keys;
use super::packing;
use super::raw::Element;
use crate::codec::Codec;
use crate::codec::name::Name;
use crate::codec::slot;
use crate::codec::text;

/// The most fields of one model: this is the width of indexes in `attributes`.
const MOST_FIELDS: usize = u16::MAX as usize;

/// Bytes of an instance before its first slot; `fields` defines them.
pub(super) const HEAD: usize = size_of::<ffi::PyObject>() + 48;

/// Bytes of a slot.
const SLOT: usize = size_of::<*mut ffi::PyObject>();

/// The Rust object of one model class, before and after it is compiled.
pub struct Model {
    /// The class. Held for ever: plans of other models, and of its family, point to it.
    pub(super) class: Py<PyType>,
    /// The hidden subclass of partly loaded instances, of the same size; embedded documents have none.
    partial: OnceCell<Py<PyType>>,
    plan: Slot<Option<&'static Plan>>,
    /// The offsets of object pointers in its instances; set when `lifetime` takes the class over.
    pub(super) slots: OnceCell<Vec<usize>>,
    /// Memory of released instances, empty but complete, each with its reference to the class.
    pub(super) free: std::cell::RefCell<Vec<*mut ffi::PyObject>>,
}

/// A reference to a model that Python objects may hold.
#[derive(Clone, Copy)]
pub(super) struct ModelRef(pub(super) &'static Model);

// SAFETY: the model is never freed. Its cells are read and written by holders of the GIL only, whichever thread they
// are: all that reaches them takes a `Python`, or is a slot of a class, which the interpreter calls with the GIL held.
unsafe impl Send for ModelRef {}
// SAFETY: a shared reference gives no more than a copy of it would: the model, whose cells holders of the GIL alone
// touch, one at a time.
unsafe impl Sync for ModelRef {}

impl Model {
    /// The plan, compiled by the first call.
    #[inline]
    pub(super) fn plan(&'static self, py: Python<'_>) -> PyResult<&'static Plan> {
        match self.plan.get() {
            Some(plan) => Ok(plan),
            None => self.compiled(py),
        }
    }

    #[cold]
    fn compiled(&'static self, py: Python<'_>) -> PyResult<&'static Plan> {
        self.class.bind(py).getattr("__plan__")?.call_method0("compile")?;
        self.plan
            .get()
            .ok_or_else(|| PyTypeError::new_err("expected __plan__.compile() to set the plan, got none"))
    }

    /// The hidden class of partly loaded instances, made for the first of them.
    pub(super) fn partial_class(&'static self, py: Python<'_>) -> PyResult<&'static Py<PyType>> {
        if let Some(class) = self.partial.get() {
            return Ok(class);
        }
        self.class.bind(py).getattr("__plan__")?.call_method0("make_partial")?;
        self.partial
            .get()
            .ok_or_else(|| PyTypeError::new_err("expected __plan__.make_partial() to set a class, got none"))
    }
}

/// The size of a class's instances.
fn size_of_instances(class: &Bound<'_, PyType>) -> usize {
    // SAFETY: a live type, and a number in it that does not change once the class is made.
    unsafe { (*class.as_type_ptr()).tp_basicsize as usize }
}

/// How a missing key is filled.
pub(super) enum Default {
    /// The key must be present.
    Required,
    Value(Py<PyAny>),
    List,
    Dict,
    Set,
    ObjectId,
    /// Called without arguments.
    Factory(Py<PyAny>),
}

/// One condition on a value, checked when an instance is made, set or saved.
pub(super) struct Check {
    pub kind: CheckKind,
    pub bound: Py<PyAny>,
}

/// What a [`Check`] compares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckKind {
    Ge,
    Gt,
    Le,
    Lt,
    MinLength,
    MaxLength,
    MultipleOf,
    /// `bound` is a compiled pattern's `search`.
    Pattern,
    /// `bound` is called with the value: False or ValueError refuses it.
    Predicate,
}

/// The Python type of a value, which decides the BSON types that it accepts.
pub(super) enum Op {
    Any,
    Str,
    Int,
    Float,
    Bool,
    Bytes,
    Datetime,
    /// A datetime with a time zone.
    AwareDatetime,
    Date,
    ObjectId,
    Decimal,
    /// A BSON class, or UUID: the value that the codec decodes must be an instance.
    Instance(Py<PyAny>),
    None,
    /// One of these values.
    Literal(Py<PyTuple>),
    /// Members by value.
    Enum(Py<PyAny>, Py<PyDict>),
    List(Box<Type>),
    Set(Box<Type>, bool),
    /// A tuple with one type for all elements.
    TupleOf(Box<Type>),
    Tuple(Vec<Type>),
    Dict(Box<Type>),
    Embedded(&'static Model),
    Union(Union),
    /// `load` from and `dump` to the BSON form; `class`: the class that values must have, or None.
    Custom {
        load: Py<PyAny>,
        dump: Py<PyAny>,
        class: Py<PyAny>,
    },
    /// The id of another document; the program sees the result of `make(id, siblings)`. `slots` has the offsets of its
    /// document, maker, siblings and id.
    Ref {
        make: Py<PyAny>,
        class: Py<PyAny>,
        inner: Box<Type>,
        slots: [usize; 4],
    },
    /// Ids of other documents, handled like `Ref`.
    Refs {
        make: Py<PyAny>,
        class: Py<PyAny>,
        inner: Box<Type>,
    },
    /// A GeoJSON object with one attribute, `coordinates`, at this offset.
    Geo {
        class: Py<PyType>,
        name: String,
        offset: usize,
    },
}

/// A type with its options.
pub(super) struct Type {
    pub op: Op,
    pub nullable: bool,
    /// Its name in errors.
    pub label: String,
    /// Called with a value of another type, in models that cast.
    pub cast: Option<Py<PyAny>>,
    pub checks: Vec<Check>,
}

/// Alternatives: embedded classes are chosen by a tag, all other types by the BSON type.
pub(super) struct Union {
    /// The tag's key, the BSON bytes (type, then value) of its values, and their models.
    pub tag: Vec<u8>,
    pub models: Vec<(Vec<u8>, &'static Model)>,
    pub others: Vec<Type>,
}

/// One field.
pub(super) struct Field {
    /// The key with its NUL, for comparing.
    pub name: Name,
    /// The key.
    pub key: Vec<u8>,
    /// The offset of the value in an instance.
    pub offset: usize,
    pub kind: Type,
    pub default: Default,
    /// Stays raw bytes until it is read: if the query requests it (1) or always (2).
    pub lazy: u8,
    /// Whether the value may change without being set: a container or an embedded document.
    pub is_mutable: bool,
    /// Also reads stored values in another form than it writes, such as legacy points or values to cast.
    pub reads_other_forms: bool,
    /// Whether None is stored as a missing key.
    pub omits_none: bool,
    /// Refuses changes once the document is stored.
    pub is_frozen: bool,
    /// The server increments it at each save.
    pub is_version: bool,
    /// The attribute, interned.
    pub attribute: Py<PyString>,
    /// The attribute as UTF-8.
    text: Box<[u8]>,
    /// The last str that had this text, or null. Owned, so that no other str can have its address.
    seen: Slot<*mut ffi::PyObject>,
}

impl Field {
    /// Whether this is the field's attribute. Most names are recognised by their address: interned ones, and the keys
    /// of one `json.loads`, which are shared.
    #[inline(always)]
    pub(super) fn is_called(&self, name: &Bound<'_, PyString>) -> bool {
        let address = name.as_ptr();
        address == self.attribute.as_ptr() || address == self.seen.get() || self.is_equal(name)
    }

    /// Compares texts, and keeps the str if they are equal; a name that is not UTF-8 never matches.
    #[inline(never)]
    fn is_equal(&self, name: &Bound<'_, PyString>) -> bool {
        if !text_of(name).is_some_and(|text| is_same(text, &self.text)) {
            return false;
        }
        // An instance of a subclass may hold any amount of data; an exact str is as long as the field's name.
        if name.is_exact_instance_of::<PyString>() {
            let former = self.seen.replace(name.clone().into_ptr());
            // SAFETY: null, or the reference to a str that was taken here. The end of an exact str runs no code, and `name`
            // shows that the GIL is held.
            unsafe { ffi::Py_XDECREF(former) };
        }
        true
    }
}

/// The UTF-8 of a name, or None if it has none.
#[inline(always)]
fn text_of<'a>(name: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    // SAFETY: a str, alive for as long as the reference to it, and a `Bound` shows that the GIL is held.
    let text = unsafe { text::utf8(name.as_ptr()) };
    if text.is_none() {
        drop(PyErr::take(name.py()));
    }
    text
}

/// Models of one collection by the value of a tag.
pub(super) struct Tags {
    pub name: Name,
    /// The key with its NUL.
    pub key: Vec<u8>,
    /// Type and value of the tag, and the model.
    pub models: Vec<(Vec<u8>, &'static Model)>,
    /// The tag that this model writes: a whole element; empty for a root that writes none.
    pub own: Vec<u8>,
}

impl Tags {
    /// Whether an element is a tag, of whichever class.
    pub(super) fn is_named(&self, element: &Element<'_>) -> bool {
        &self.key[..self.key.len() - 1] == element.key
    }

    /// Whether an element is the tag that this model writes.
    pub(super) fn is_own(&self, element: &Element<'_>) -> bool {
        self.is_named(element)
            && self.own.first() == Some(&element.kind)
            && self.own.get(1 + self.key.len()..) == Some(element.value)
    }
}

/// The treatment of unknown keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Keep,
    Ignore,
    Forbid,
}

/// A compiled model.
pub struct Plan {
    pub(super) model: &'static Model,
    pub(super) fields: Vec<Field>,
    /// Interned attribute names and their fields, by address.
    attributes: Vec<(usize, u16)>,
    pub(super) size: usize,
    /// Every field.
    pub(super) all: Bits,
    /// Fields that may change without being set.
    pub(super) mutable: Bits,
    /// Fields of a document whose values, if given as dicts, may stay BSON until they are read.
    pub(super) packable: Bits,
    /// The size of the packed fields of the last document, in bytes.
    pub(super) packed_size: Slot<usize>,
    keys: Keys,
    names: Keys,
    pub(super) keeps_raw: bool,
    /// Whether the program sees keys that no field has, and may change them.
    pub(super) is_dynamic: bool,
    pub(super) has_refs: bool,
    pub(super) tags: Option<Tags>,
    pub(super) unknown: Unknown,
    pub(super) is_document: bool,
    /// Whether a wrong value is returned as the driver decodes it, instead of an error.
    pub(super) forgives: bool,
    /// Whether dirty bits are enough to track it as an embedded document: none of its fields is mutable.
    pub(super) is_flat: bool,
    pub(super) id: Option<usize>,
    pub(super) version: Option<usize>,
    pub(super) after_load: Option<Py<PyAny>>,
    pub(super) codec: Py<Codec>,
}

impl Plan {
    /// Finds a field by its interned attribute name.
    #[inline]
    pub(super) fn field_of(&self, name: *mut ffi::PyObject) -> Option<usize> {
        let mask = self.attributes.len() - 1;
        let mut at = (name as usize >> 4) & mask;
        loop {
            let (address, index) = self.attributes[at];
            if address == name as usize {
                return Some(index.into());
            }
            if address == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// Finds a field by its attribute; `next`: the expected field, since values are usually in order.
    #[inline(always)]
    pub(super) fn field_named(&self, name: &Bound<'_, PyString>, next: usize) -> Option<usize> {
        match self.fields.get(next) {
            Some(field) if field.is_called(name) => Some(next),
            _ => self.field_called(name),
        }
    }

    /// Finds a field by its attribute, without interning the name: it may come from a request, and CPython 3.12 never
    /// frees an interned str.
    #[inline(never)]
    pub(super) fn field_called(&self, name: &Bound<'_, PyString>) -> Option<usize> {
        if let Some(index) = self.field_of(name.as_ptr()) {
            return Some(index);
        }
        let text = text_of(name)?;
        self.names.find(text, || self.fields.iter().position(|field| *field.text == *text))
    }

    /// Finds the field of a key.
    #[inline]
    pub(super) fn field_of_key(&self, key: &[u8]) -> Option<usize> {
        self.keys.find(key, || self.fields.iter().position(|field| field.key == key))
    }

    /// Finds the field whose key the input starts with, searching from the expected field and wrapping around.
    #[inline(never)]
    pub(super) fn field_at(&self, input: &[u8], next: usize) -> Option<usize> {
        self.keys.find_terminated(input, || {
            let fields = self.fields.as_slice();
            let next = next.min(fields.len());
            let starts = |field: &Field| field.name.starts(input);
            let ahead = fields[next..].iter().position(starts).map(|index| next + index);
            ahead.or_else(|| fields[..next].iter().position(starts))
        })
    }
}

/// Whether two texts are equal; names are short, so this avoids a call.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    /// The first and the last four bytes, which may overlap, or eight.
    #[inline(always)]
    fn ends(text: &[u8]) -> Option<(u64, u64)> {
        match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last))),
            _ => {
                let (first, last) = (text.first_chunk()?, text.last_chunk()?);
                Some((u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()))
            }
        }
    }
    one.len() == other.len()
        && match (ends(one), ends(other)) {
            (Some(one), Some(other)) if one != other => false,
            (Some(_), Some(_)) if one.len() <= 16 => true,
            _ => one == other,
        }
}

fn attribute_table(fields: &[Field]) -> Vec<(usize, u16)> {
    let size = (fields.len() * 2 + 2).next_power_of_two();
    let mut table = vec![(0, 0); size];
    for (index, field) in fields.iter().enumerate() {
        let address = field.attribute.as_ptr() as usize;
        let mut at = (address >> 4) & (size - 1);
        while table[at].0 != 0 {
            at = (at + 1) & (size - 1);
        }
        table[at] = (address, index as u16);
    }
    table
}

/// A model class's Rust half; `compile` gives it its plan.
#[pyclass(frozen, module = "mangonel._core", name = "OdmModel")]
pub struct OdmModel {
    pub(super) model: ModelRef,
}

#[entries]
#[pymethods]
impl OdmModel {
    #[new]
    fn new(class: &Bound<'_, PyType>) -> Self {
        let model = Box::leak(Box::new(Model {
            class: class.clone().unbind(),
            partial: OnceCell::new(),
            plan: Slot::new(None),
            slots: OnceCell::new(),
            free: std::cell::RefCell::new(Vec::new()),
        }));
        OdmModel { model: ModelRef(model) }
    }

    /// Compile from a description; see `mangonel.odm.model.describe`.
    fn compile(&self, py: Python<'_>, spec: &Bound<'_, PyDict>) -> PyResult<()> {
        let plan = read_plan(py, self.model.0, spec)?;
        self.model.0.plan.set(Some(Box::leak(Box::new(plan))));
        Ok(())
    }

    /// Forget the plan, since a new subclass changes the tags.
    fn reset(&self) {
        self.model.0.plan.set(None);
    }

    /// Take the hidden class of partly loaded instances.
    fn set_partial(&self, class: &Bound<'_, PyType>) -> PyResult<()> {
        let model = self.model.0;
        if size_of_instances(class) != size_of_instances(model.class.bind(class.py())) {
            return Err(PyTypeError::new_err("expected a class whose instances are as long as the model's"));
        }
        // The first class is kept: it may have instances.
        let _ = model.partial.set(class.clone().unbind());
        Ok(())
    }
}

/// The model of a class; an error if it is not a model.
pub(super) fn model_of(class: &Bound<'_, PyAny>) -> PyResult<&'static Model> {
    let found = class.getattr(pyo3::intern!(class.py(), "__model__"))?;
    Ok(found.cast::<OdmModel>().map_err(PyErr::from)?.get().model.0)
}

fn required<'py>(spec: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    spec.get_item(key)?
        .ok_or_else(|| PyValueError::new_err(format!("expected {key:?} in the description, got none")))
}

fn read_plan(py: Python<'_>, model: &'static Model, spec: &Bound<'_, PyDict>) -> PyResult<Plan> {
    let rows = required(spec, "fields")?.cast_into::<PyList>()?;
    if rows.len() > MOST_FIELDS {
        return Err(PyTypeError::new_err(format!(
            "expected at most {MOST_FIELDS} fields, got {}; put some into an Embedded or a dict",
            rows.len()
        )));
    }
    let size = size_of_instances(model.class.bind(py));
    let mut fields = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let field = read_field(&row.cast_into::<PyDict>()?)?;
        // Values are read and written there without further checks.
        if field.offset < HEAD || field.offset > size - SLOT || field.offset % SLOT != 0 {
            return Err(PyValueError::new_err(format!(
                "expected the offset of a slot of {size} bytes' instances, got {}",
                field.offset
            )));
        }
        fields.push(field);
    }
    let tags = required(spec, "tags")?;
    let tags = if tags.is_none() { None } else { Some(read_tags(&tags.cast_into::<PyTuple>()?)?) };
    let flag = |key: &str| required(spec, key)?.is_truthy();
    let unknown = match required(spec, "unknown")?.extract::<String>()?.as_str() {
        "keep" => Unknown::Keep,
        "ignore" => Unknown::Ignore,
        "forbid" => Unknown::Forbid,
        other => {
            return Err(PyValueError::new_err(format!(
                "expected 'keep', 'ignore' or 'forbid' for __unknown__, got {other:?}"
            )));
        }
    };
    let mask = |test: &dyn Fn(&Field) -> bool| -> Bits {
        fields.iter().enumerate().filter(|(_, field)| test(field)).map(|(index, _)| index).collect()
    };
    let mutable = mask(&|field| field.is_mutable);
    let has_mutable = !mutable.is_empty();
    let is_lazy = fields.iter().any(|field| field.lazy != 0);
    let is_document = flag("is_document")?;
    let is_dynamic = flag("is_dynamic")?;
    // An id is read without decoding, so it is not packed.
    let packable = mask(&|field| is_document && field.key != b"_id" && packing::is_packable(&field.kind));
    let after_load = required(spec, "after_load")?;
    Ok(Plan {
        model,
        attributes: attribute_table(&fields),
        size,
        all: mask(&|_| true),
        mutable,
        packable,
        packed_size: Slot::new(0),
        keys: Keys::new(fields.iter().map(|field| field.key.as_slice())),
        names: Keys::new(fields.iter().map(|field| &*field.text)),
        keeps_raw: is_document && (is_dynamic || has_mutable || is_lazy),
        has_refs: flag("has_refs")?,
        tags,
        unknown,
        is_document,
        forgives: flag("forgives")?,
        is_dynamic,
        is_flat: !has_mutable,
        id: fields.iter().position(|field| field.key == b"_id"),
        version: fields.iter().position(|field| field.is_version),
        after_load: (!after_load.is_none()).then(|| after_load.unbind()),
        codec: Codec::from_options(&required(spec, "codec_options")?)?,
        fields,
    })
}

fn read_field(row: &Bound<'_, PyDict>) -> PyResult<Field> {
    let py = row.py();
    let key = required(row, "key")?.extract::<String>()?.into_bytes();
    if key.contains(&0) {
        let key = String::from_utf8_lossy(&key);
        return Err(PyValueError::new_err(format!("expected a key without NUL, got {key:?}")));
    }
    let mut with_nul = key.clone();
    with_nul.push(0);
    if with_nul.len() > crate::codec::name::LONGEST {
        return Err(PyValueError::new_err(format!("expected a key of at most 127 bytes, got {}", key.len())));
    }
    let attribute = required(row, "attribute")?.extract::<String>()?;
    let default = required(row, "default")?.cast_into::<PyTuple>()?;
    let value = default.get_item(1)?.unbind();
    let default = match default.get_item(0)?.extract::<String>()?.as_str() {
        "required" => Default::Required,
        "value" => Default::Value(value),
        "list" => Default::List,
        "dict" => Default::Dict,
        "set" => Default::Set,
        "object_id" => Default::ObjectId,
        _ => Default::Factory(value),
    };
    let flag = |key: &str| required(row, key)?.is_truthy();
    Ok(Field {
        name: Name::new(&with_nul),
        key,
        offset: required(row, "offset")?.extract()?,
        kind: read_type(&required(row, "type")?.cast_into::<PyDict>()?)?,
        default,
        lazy: required(row, "lazy")?.extract()?,
        reads_other_forms: required(row, "reads_other_forms")?.extract()?,
        is_mutable: flag("is_mutable")?,
        omits_none: flag("omits_none")?,
        is_frozen: flag("is_frozen")?,
        is_version: flag("is_version")?,
        attribute: PyString::intern(py, &attribute).unbind(),
        text: attribute.as_bytes().into(),
        seen: Slot::new(std::ptr::null_mut()),
    })
}

fn read_tags(row: &Bound<'_, PyTuple>) -> PyResult<Tags> {
    let key = row.get_item(0)?.extract::<String>()?;
    let mut with_nul = key.into_bytes();
    with_nul.push(0);
    let own = row.get_item(2)?.extract::<Vec<u8>>()?;
    Ok(Tags { name: Name::new(&with_nul), key: with_nul, models: read_models(&row.get_item(1)?)?, own })
}

fn read_models(rows: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<u8>, &'static Model)>> {
    let mut models = Vec::new();
    for row in rows.try_iter()? {
        let row = row?.cast_into::<PyTuple>()?;
        models.push((row.get_item(0)?.extract::<Vec<u8>>()?, model_of(&row.get_item(1)?)?));
    }
    Ok(models)
}

fn read_type(spec: &Bound<'_, PyDict>) -> PyResult<Type> {
    let op = required(spec, "op")?.extract::<String>()?;
    let argument = || required(spec, "argument");
    let inner = || -> PyResult<Box<Type>> { Ok(Box::new(read_type(&argument()?.cast_into::<PyDict>()?)?)) };
    let several = |rows: &Bound<'_, PyAny>| -> PyResult<Vec<Type>> {
        rows.try_iter()?.map(|row| read_type(&row?.cast_into::<PyDict>()?)).collect()
    };
    let op = match op.as_str() {
        "any" => Op::Any,
        "str" => Op::Str,
        "int" => Op::Int,
        "float" => Op::Float,
        "bool" => Op::Bool,
        "bytes" => Op::Bytes,
        "datetime" if argument()?.is_truthy()? => Op::AwareDatetime,
        "datetime" => Op::Datetime,
        "date" => Op::Date,
        "object_id" => Op::ObjectId,
        "decimal" => Op::Decimal,
        "none" => Op::None,
        "instance" => Op::Instance(argument()?.unbind()),
        "literal" => Op::Literal(argument()?.cast_into::<PyTuple>()?.unbind()),
        "enum" => {
            let pair = argument()?.cast_into::<PyTuple>()?;
            Op::Enum(pair.get_item(0)?.unbind(), pair.get_item(1)?.cast_into::<PyDict>()?.unbind())
        }
        "list" => Op::List(inner()?),
        "set" => Op::Set(inner()?, false),
        "frozenset" => Op::Set(inner()?, true),
        "tuple_of" => Op::TupleOf(inner()?),
        "tuple" => Op::Tuple(several(&argument()?)?),
        "dict" => Op::Dict(inner()?),
        "embedded" => Op::Embedded(model_of(&argument()?)?),
        "union" => {
            let row = argument()?.cast_into::<PyTuple>()?;
            let mut tag = row.get_item(0)?.extract::<String>()?.into_bytes();
            tag.push(0);
            Op::Union(Union {
                tag,
                models: read_models(&row.get_item(1)?)?,
                others: several(&row.get_item(2)?)?,
            })
        }
        "custom" => {
            let row = argument()?.cast_into::<PyTuple>()?;
            Op::Custom {
                load: row.get_item(0)?.unbind(),
                dump: row.get_item(1)?.unbind(),
                class: row.get_item(2)?.unbind(),
            }
        }
        "ref" | "refs" => {
            let row = argument()?.cast_into::<PyTuple>()?;
            let make = row.get_item(0)?.unbind();
            let class = row.get_item(1)?.unbind();
            let inner = Box::new(read_type(&row.get_item(2)?.cast_into::<PyDict>()?)?);
            if op == "ref" {
                Op::Ref { make, class, inner, slots: row.get_item(3)?.extract()? }
            } else {
                Op::Refs { make, class, inner }
            }
        }
        "geo" => {
            let row = argument()?.cast_into::<PyTuple>()?;
            Op::Geo {
                class: row.get_item(0)?.cast_into::<PyType>()?.unbind(),
                name: row.get_item(1)?.extract()?,
                offset: row.get_item(2)?.extract()?,
            }
        }
        other => return Err(PyValueError::new_err(format!("expected a known type, got {other:?}"))),
    };
    let cast = required(spec, "cast")?;
    let mut checks = Vec::new();
    for row in required(spec, "checks")?.try_iter()? {
        let row = row?.cast_into::<PyTuple>()?;
        let kind = match row.get_item(0)?.extract::<String>()?.as_str() {
            "ge" => CheckKind::Ge,
            "gt" => CheckKind::Gt,
            "le" => CheckKind::Le,
            "lt" => CheckKind::Lt,
            "min_length" => CheckKind::MinLength,
            "max_length" => CheckKind::MaxLength,
            "multiple_of" => CheckKind::MultipleOf,
            "pattern" => CheckKind::Pattern,
            _ => CheckKind::Predicate,
        };
        checks.push(Check { kind, bound: row.get_item(1)?.unbind() });
    }
    Ok(Type {
        op,
        nullable: required(spec, "nullable")?.is_truthy()?,
        label: required(spec, "label")?.extract()?,
        cast: (!cast.is_none()).then(|| cast.unbind()),
        checks,
    })
}

/// Return the offset of a `__slots__` member in an instance.
#[entries]
#[pyfunction]
pub fn odm_offset(member: &Bound<'_, PyAny>) -> PyResult<usize> {
    slot::offset(member, None).ok_or_else(|| PyTypeError::new_err("expected the member of a slot"))
}
