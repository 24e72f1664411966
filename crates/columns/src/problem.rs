//! Why documents do not become columns, with the place.

use std::fmt;

use mangonel_bson::RawDocument;

/// What happens to a value that does not fit its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnInvalid {
    /// The build fails and says where.
    Raise,
    /// It becomes null.
    Null,
    /// An inferred column becomes text, with this value and all before as extended JSON; so does a value for a column
    /// that is given as text. Other given columns fail.
    Text,
}

/// What is wrong with a value, on its way up.
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

    /// There is no memory for so many values more.
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

/// Makes room for so many values more; without it they would end the process where there is no memory.
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

/// Collects as many values as the iterator says that it has.
pub(crate) fn collect<T>(values: impl ExactSizeIterator<Item = T>) -> Outcome<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(values.len()).map_err(|_| Problem::no_memory(values.len()))?;
    made.extend(values);
    Ok(made)
}

/// Why a build ended: what was expected and found, where, and in which document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    text: String,
    is_no_memory: bool,
}

impl Failure {
    /// Whether nothing is wrong with the documents: there was no memory for their values.
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
