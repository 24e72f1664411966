//! Authentication as Python sees it: the user of a client, read from its options, and the questions that a handshake
//! asks its face.

use mangonel_proto::auth::login::Login;
use mangonel_proto::auth::scram::{KeyRequest, Keys};
use mangonel_proto::auth::{Credential, Mechanism, Secret};
use pyo3::prelude::*;

use super::failure;

/// Derives the keys of a password when called; a matter of milliseconds, without the interpreter's lock.
#[pyclass(frozen, module = "mangonel._core")]
pub struct KeyQuestion(KeyRequest);

impl KeyQuestion {
    /// Makes the question.
    pub fn new(request: KeyRequest) -> Self {
        KeyQuestion(request)
    }
}

#[pymethods]
impl KeyQuestion {
    fn __call__(&self, py: Python<'_>) -> SessionKeys {
        SessionKeys(py.detach(|| self.0.derive()))
    }
}

/// The keys of a password. They are as good as the password, so there is nothing to look at.
#[pyclass(frozen, module = "mangonel._core")]
pub struct SessionKeys(pub(crate) Keys);

/// Reads a `MongoCredential`, or None.
pub fn login(py: Python<'_>, credential: &Bound<'_, PyAny>) -> PyResult<Option<Login>> {
    if credential.is_none() {
        return Ok(None);
    }
    let text = |name: &str| credential.getattr(name)?.extract::<Option<String>>();
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
    let seed: [u8; 32] = py.import("os")?.call_method1("urandom", (32,))?.extract()?;
    Ok(Some(Login::new(credential, seed)))
}
