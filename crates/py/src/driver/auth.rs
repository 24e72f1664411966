//! The Python side of authentication: the user from a client's options, and a handshake's questions to the face.

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

/// Derives the keys of a password when called; this takes milliseconds, without the GIL.
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

/// When called, requests the client's next message from its responder; this may take as long as a manual login.
#[pyclass(frozen, module = "mangonel._core")]
pub struct WordQuestion {
    _entry: Entry,
    responder: Py<PyAny>,
    prompt: Prompt,
    /// The host name of the server.
    host: String,
    /// The responder's state of this conversation; `None` at its start.
    state: Option<Py<PyAny>>,
    /// The seconds left for the operation, or None.
    left: Option<f64>,
}

impl WordQuestion {
    /// Makes the question.
    pub fn new(
        responder: Py<PyAny>,
        prompt: Prompt,
        host: String,
        state: Option<Py<PyAny>>,
        left: Option<f64>,
    ) -> Self {
        WordQuestion { _entry: Entry, responder, prompt, host, state, left }
    }
}

#[entries]
#[pymethods]
impl WordQuestion {
    #[pyo3(signature = (event_loop=None))]
    fn __call__(&self, py: Python<'_>, event_loop: Option<Py<PyAny>>) -> PyResult<NextWord> {
        let challenge = self.prompt.challenge.as_ref().map(|bytes| PyBytes::new(py, bytes));
        let asked = (challenge, &self.state, self.prompt.refused, self.left, event_loop, &self.host);
        let said = self.responder.call_method1(py, "respond", asked)?;
        let (payload, token, has_successor, state) =
            said.extract::<(Vec<u8>, u64, bool, Option<Py<PyAny>>)>(py)?;
        let word = Word { payload: Hidden(payload), token, has_successor, is_last: state.is_none() };
        Ok(NextWord { _entry: Entry, word, state })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.responder)?;
        visit.call(&self.state)
    }
}

/// A responder's message. It may hold a token, so it has no public attributes.
#[pyclass(frozen, module = "mangonel._core")]
pub struct NextWord {
    _entry: Entry,
    word: Word,
    state: Option<Py<PyAny>>,
}

#[entries]
#[pymethods]
impl NextWord {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.state)
    }
}

/// Reads the result of a question's call: the answer, and the state of the conversation.
pub fn answer(found: &Bound<'_, PyAny>) -> PyResult<(Answer, Option<Py<PyAny>>)> {
    if let Ok(keys) = found.cast::<SessionKeys>() {
        return Ok((Answer::Keys(keys.get().0.clone()), None));
    }
    let next = found.cast::<NextWord>()?.get();
    Ok((Answer::Word(next.word.clone()), next.state.as_ref().map(|state| state.clone_ref(found.py()))))
}

/// The keys of a password. They are as secret as the password, so they have no public attributes.
#[pyclass(frozen, module = "mangonel._core")]
pub struct SessionKeys(pub(crate) Keys);

/// Reads a `MongoCredential`, or None.
pub fn login(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Option<Login>> {
    if given.is_none() {
        return Ok(None);
    }
    let text = |name: &str| given.getattr(name)?.extract::<Option<String>>();
    let mechanism = match text("mechanism")?.as_deref() {
        None | Some("DEFAULT") => None,
        Some(name) => Some(Mechanism::from_name(name).ok_or_else(|| {
            failure::configuration(py, &format!("expected a mechanism that Mangonel knows, got {name:?}"))
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
