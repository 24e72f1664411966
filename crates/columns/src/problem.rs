//! Errors of converting documents to columns, with the place.

use std::fmt;

use mangonel_bson::RawDocument;

/// What happens to a value that does not fit its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnInvalid {
    /// The build fails with an error that names the place.
    Raise,
    /// It becomes null.
    Null,
    /// An inferred column becomes text, with this value and all earlier ones as extended JSON. In a given
    /// column of text, the value becomes extended JSON; other given columns fail.
    Text,
}

/// The error of a value, while it is passed up.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    /// Keys from the innermost outwards.
    path: Vec<String>,
    is_no_memory: bool,
}

impl Problem {
    #[cold]
    pub(crate) fn new(what: impl Into<String>) -> Box<Self> {
        Box::new(Self { what: what.into(), path: Vec::new(), is_no_memory: false })
    }

    /// The error for values that do not fit in memory.
    #[cold]
    fn no_memory(more: usize) -> Box<Self> {
        let what = format!("no memory for {more} more values");
        Box::new(Self { what, path: Vec::new(), is_no_memory: true })
    }

    #[cold]
    pub(crate) fn under(mut self: Box<Self>, key: impl Into<String>) -> Box<Self> {
        self.path.push(key.into());
        self
    }
}

impl From<mangonel_bson::Error> for Box<Problem> {
    #[cold]
    fn from(error: mangonel_bson::Error) -> Self {
        Problem::new(format!("invalid BSON: {error}"))
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Box<Problem>>;

/// Reserves room for `count` more values. Without this, a lack of memory would end the process.
#[inline]
pub(crate) fn make_room<T>(values: &mut Vec<T>, more: usize) -> Outcome {
    if values.capacity() - values.len() < more { grow(values, more) } else { Ok(()) }
}

#[cold]
fn grow<T>(values: &mut Vec<T>, more: usize) -> Outcome {
    values.try_reserve(more).map_err(|_| Problem::no_memory(more))
}

/// Appends a value.
#[inline]
pub(crate) fn append<T>(values: &mut Vec<T>, value: T) -> Outcome {
    make_room(values, 1)?;
    values.push(value);
    Ok(())
}

/// Collects the values of an iterator of known length.
pub(crate) fn collect<T>(values: impl ExactSizeIterator<Item = T>) -> Outcome<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(values.len()).map_err(|_| Problem::no_memory(values.len()))?;
    made.extend(values);
    Ok(made)
}

/// The error of a build: what was expected, what was found, and the place and document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    text: String,
    is_no_memory: bool,
}

impl Failure {
    /// Whether the cause is a lack of memory, and not the documents.
    pub fn is_no_memory(&self) -> bool {
        self.is_no_memory
    }

    pub(crate) fn without_document(problem: &Problem) -> Self {
        let mut text = problem.what.clone();
        if !problem.path.is_empty() {
            text.push_str(" at $");
            for key in problem.path.iter().rev() {
                text.push('.');
                text.push_str(key);
            }
        }
        Self { text, is_no_memory: problem.is_no_memory }
    }

    pub(crate) fn of_row(problem: &Problem, row: usize) -> Self {
        let mut failure = Self::without_document(problem);
        failure.text.push_str(&format!(" of row {row}"));
        failure
    }

    pub(crate) fn new(problem: &Problem, document: RawDocument<'_>) -> Self {
        let mut failure = Self::without_document(problem);
        if !problem.is_no_memory
            && let Ok(Some(id)) = document.get("_id")
        {
            let mut shown = Vec::new();
            if mangonel_bson::extjson::write_json_value(id, mangonel_bson::JsonMode::Relaxed, &mut shown)
                .is_ok()
            {
                failure.text.push_str(" of the document with _id ");
                failure.text.push_str(&String::from_utf8_lossy(&shown));
            }
        }
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
