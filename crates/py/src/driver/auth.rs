//! Authentication as Python sees it: the user of a client, read from its options, and the questions that a handshake
//! asks its face.

use mangonel_entries::entries;
use mangonel_proto::auth::external::{Hidden, Prompt, Word};
use mangonel_proto::auth::login::Login;
use mangonel_proto::auth::scram::{KeyRequest, Keys};
use mangonel_proto::auth::{Credential, Mechanism, Secret};
use mangonel_proto::exchange::Answer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

use super::failure;
use crate::thread_end::Entry;

/// Derives the keys of a password when called; a matter of milliseconds, without the interpreter's lock.
#[pyclass(frozen, module = "mangonel._core")]
pub struct KeyQuestion(KeyRequest);

impl KeyQuestion {
    /// Makes the question.
    pub fn new(request: KeyRequest) -> Self {
        KeyQuestion(request)
    }
}

#[entries]
#[pymethods]
impl KeyQuestion {
    #[pyo3(signature = (event_loop=None))]
    fn __call__(&self, py: Python<'_>, event_loop: Option<Py<PyAny>>) -> SessionKeys {
        let _ = event_loop;
        SessionKeys(py.detach(|| self.0.derive()))
    }
}

/// Asks the client's responder for its next word when called, which may take as long as a person takes to log in.
#[pyclass(frozen, module = "mangonel._core")]
pub struct WordQuestion {
    _entry: Entry,
    responder: Py<PyAny>,
    prompt: Prompt,
    /// Seconds that the operation has left, or None.
    left: Option<f64>,
}

impl WordQuestion {
    /// Makes the question.
    pub fn new(responder: Py<PyAny>, prompt: Prompt, left: Option<f64>) -> Self {
        WordQuestion { _entry: Entry, responder, prompt, left }
    }
}

#[entries]
#[pymethods]
impl WordQuestion {
    #[pyo3(signature = (event_loop=None))]
    fn __call__(&self, py: Python<'_>, event_loop: Option<Py<PyAny>>) -> PyResult<NextWord> {
        let bytes = |bytes: Option<&Vec<u8>>| bytes.map(|bytes| PyBytes::new(py, bytes));
        let challenge = bytes(self.prompt.challenge.as_ref());
        let previous = bytes(self.prompt.previous.as_ref().map(|hidden| &hidden.0));
        let asked = (challenge, previous, self.prompt.refused, self.left, event_loop);
        let said = self.responder.call_method1(py, "respond", asked)?;
        let (payload, token, has_successor) = said.extract::<(Vec<u8>, u64, bool)>(py)?;
        Ok(NextWord(Word { payload: Hidden(payload), token, has_successor }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.responder)
    }
}

/// What a responder said. It may hold a token, so there is nothing to look at.
#[pyclass(frozen, module = "mangonel._core")]
pub struct NextWord(Word);

/// Reads what a question's call returned.
pub fn answer(found: &Bound<'_, PyAny>) -> PyResult<Answer> {
    if let Ok(keys) = found.cast::<SessionKeys>() {
        return Ok(Answer::Keys(keys.get().0.clone()));
    }
    Ok(Answer::Word(found.cast::<NextWord>()?.get().0.clone()))
}

/// The keys of a password. They are as good as the password, so there is nothing to look at.
#[pyclass(frozen, module = "mangonel._core")]
pub struct SessionKeys(pub(crate) Keys);

/// Reads a `MongoCredential`, or None.
pub fn login(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Option<Login>> {
    if given.is_none() {
        return Ok(None);
    }
    let text = |name: &str| given.getattr(name)?.extract::<Option<String>>();
    let mechanism =
        match text("mechanism")?.as_deref() {
            None | Some("DEFAULT") => None,
            Some(name) => Some(Mechanism::from_name(name).ok_or_else(|| {
                failure::configuration(py, &format!("the mechanism {name} is not supported"))
            })?),
        };
    let credential = Credential {
        username: text("username")?,
        password: text("password")?.map(Secret::new),
        source: text("source")?.unwrap_or_else(|| "admin".to_owned()),
        mechanism,
    };
    let allowed_hosts = given.getattr("allowed_hosts")?.extract::<Option<Vec<String>>>()?;
    let seed: [u8; 32] = py.import("os")?.call_method1("urandom", (32,))?.extract()?;
    let mut login = Login::new(credential, seed);
    if let Some(patterns) = allowed_hosts {
        login.allow_hosts(patterns);
    }
    Ok(Some(login))
}
