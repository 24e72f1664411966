//! Why documents do not become columns, with the place.

use std::fmt;

use mangonel_bson::RawDocument;

/// What happens to a value that does not fit its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
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
}

impl Problem {
    #[cold]
    pub(crate) fn new(what: impl Into<String>) -> Box<Self> {
        Box::new(Self { what: what.into(), path: Vec::new() })
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

/// Why a build ended: what was expected and found, where, and in which document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn without_document(problem: &Problem) -> Self {
        let mut text = problem.what.clone();
        if !problem.path.is_empty() {
            text.push_str(" at $");
            for key in problem.path.iter().rev() {
                text.push('.');
                text.push_str(key);
            }
        }
        Self(text)
    }

    pub(crate) fn of_row(problem: &Problem, row: usize) -> Self {
        let Self(text) = Self::without_document(problem);
        Self(format!("{text} of row {row}"))
    }

    pub(crate) fn new(problem: &Problem, document: RawDocument<'_>) -> Self {
        let Self(mut text) = Self::without_document(problem);
        if let Ok(Some(id)) = document.get("_id") {
            let mut shown = Vec::new();
            if mangonel_bson::extjson::write_json_value(id, mangonel_bson::JsonMode::Relaxed, &mut shown)
                .is_ok()
            {
                text.push_str(" of the document with _id ");
                text.push_str(&String::from_utf8_lossy(&shown));
            }
        }
        Self(text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}
