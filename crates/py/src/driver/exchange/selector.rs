//! The user's `server_selector`, which chooses among the suitable servers.

use std::sync::Arc;

use mangonel_proto::exchange::{Answer, Question};
use mangonel_proto::topology::{Address, ServerDescription};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Exchange;
use crate::driver::descriptions;

impl Exchange {
    /// Calls the user's `server_selector` for the suitable servers, if that is due.
    pub(super) fn let_choose(&mut self, py: Python<'_>) {
        while let Some(Question::Servers(servers)) = self.inner.question() {
            let core = self.core.clone_ref(py);
            let Some(selector) = &core.get().selector else { return };
            match choose(py, selector, &servers) {
                Ok(chosen) => self.advance(py, |inner, state, now| {
                    inner.handle_answer(&mut state.client, Answer::Servers(chosen), now);
                }),
                Err(error) => {
                    self.cause = Some(error.into_value(py).into_any());
                    self.advance(py, |inner, state, now| inner.handle_no_answer(&mut state.client, now));
                }
            }
        }
    }
}

/// Returns the addresses of the servers that the user's function selects from these.
fn choose(
    py: Python<'_>,
    selector: &Py<PyAny>,
    servers: &[Arc<ServerDescription>],
) -> PyResult<Vec<Address>> {
    let described = py.import("mangonel.server_description")?.getattr("described")?;
    let shown = PyList::empty(py);
    for server in servers {
        shown.append(described.call1(descriptions::server(py, server)?)?)?;
    }
    let mut chosen = Vec::new();
    let answer = selector.bind(py).call1((shown,))?;
    let refusal = |found: &Bound<'_, PyAny>| -> PyResult<PyErr> {
        Ok(PyTypeError::new_err(format!(
            "expected server_selector to return a list of the ServerDescriptions it was given, got {}",
            found.repr()?
        )))
    };
    let Ok(servers_left) = answer.try_iter() else { return Err(refusal(&answer)?) };
    for server in servers_left {
        let server = server?;
        let address =
            server.getattr("address").and_then(|address| address.extract::<(String, Option<u16>)>());
        let Ok(address) = address else { return Err(refusal(&answer)?) };
        let known = servers
            .iter()
            .find(|known| descriptions::address_of(&known.address) == (address.0.as_str(), address.1));
        chosen.extend(known.map(|known| known.address.clone()));
    }
    Ok(chosen)
}
