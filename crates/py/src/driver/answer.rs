//! The result of a finished exchange: the reply in the operation's form, or the failure as an exception.

use std::ops::Range;

use mangonel_bson::{RawDocument, RawValue};
use mangonel_proto::error::Failure;
use mangonel_proto::message::read_reply;
use mangonel_proto::operation::Kind;
use mangonel_proto::reply::CursorFacts;
use pyo3::prelude::*;

use super::batch::{Batch, next_in};
use super::core::Core;
use super::exchange::Exchange;
use super::failure;
use super::lost;
use super::open_cursor::OpenCursor;
use super::operation::ReplyForm;
use super::pending::LostCursor;
use super::session::ImplicitSession;
use crate::codec::{self, Codec};

/// Keys of a write's reply that do not describe the write.
const GOSSIP: &[&str] = &["ok", "$clusterTime", "operationTime", "opTime", "electionId"];

impl Exchange {
    /// Returns the answer in the operation's form, or the error.
    pub(super) fn answer(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // A later attempt may have had no answer.
        if let Some(reply) = self.inner.take_earlier_reply() {
            self.reply = reply;
        }
        match self.inner.failure() {
            Some(Failure::Command)
                if self.reading == ReplyForm::Unchecked && !self.inner.is_out_of_time() => {}
            Some(failure) => return self.refuse(py, self.failure(py, &failure.clone())),
            None => {}
        }
        if self.reply.is_empty() {
            let answer = self.answer.take();
            return match answer {
                Some(answer) if self.reading == ReplyForm::Answer => Ok(answer),
                Some(answer) => answer.call1(py, (py.None(),)),
                None => Ok(py.None()),
            };
        }
        match self.reading {
            ReplyForm::Document | ReplyForm::Unchecked => self.decode(py, self.body(py)?.as_bytes()),
            ReplyForm::First => {
                let first = self.first(py, self.body(py)?)?;
                self.applied(py, first)
            }
            ReplyForm::Batch | ReplyForm::RawBatch => {
                // `$out` and `$merge` return a cursor, and their write concern may fail.
                self.check_writes(py)?;
                let batch = self.batch(py)?;
                self.applied(py, batch)
            }
            ReplyForm::Value => {
                self.check_writes(py)?;
                self.value(py, self.body(py)?)
            }
            ReplyForm::Databases => self.databases(py),
            ReplyForm::Answer => match self.check_writes(py) {
                Ok(()) => Ok(self.answer.take().unwrap_or_else(|| py.None())),
                Err(error) => self.refuse(py, error),
            },
            ReplyForm::Apply => {
                if self.answer.is_none() {
                    self.check_writes(py)?;
                }
                let reply = self.decode(py, self.body(py)?.as_bytes())?;
                self.applied(py, reply)
            }
            ReplyForm::Made => {
                self.check_writes(py)?;
                match self.maker.take() {
                    Some(maker) => maker.make(self, py),
                    None => Ok(py.None()),
                }
            }
            ReplyForm::WithBatch => self.with_batch(py),
            ReplyForm::Write => self.decode(py, &without(py, self.body(py)?, GOSSIP)?),
            ReplyForm::Raw => Ok(codec::bytes_of(py, self.body(py)?.as_bytes())?.into_any().unbind()),
            // Read only in `release`, which knows how.
            ReplyForm::Held => Ok(py.None()),
        }
    }

    /// Raises an error, unless it is of an abort: the server ends the transaction by itself.
    #[cold]
    fn refuse(&self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        let kind = self.inner.operation().kind;
        if kind.end().is_none() {
            return Err(error);
        }
        let is_of_connection = failure::is_a(py, &error, "ConnectionFailure");
        if kind == Kind::Abort && (is_of_connection || failure::is_a(py, &error, "OperationFailure")) {
            return Ok(py.None());
        }
        if kind == Kind::Commit && is_of_connection {
            // The transaction may have been committed: running it again could apply it twice.
            return Err(failure::unlabelled(py, error, "TransientTransactionError"));
        }
        Err(error)
    }

    /// Applies the operation's `answer` function to the read value; without one, returns the value.
    fn applied(&self, py: Python<'_>, read: Py<PyAny>) -> PyResult<Py<PyAny>> {
        match &self.answer {
            Some(answer) => answer.call1(py, (read,)),
            None => Ok(read),
        }
    }

    /// Returns the answer of an exchange that is done; None while its reply is withheld.
    pub(super) fn outcome(&mut self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        if self.is_held() { None } else { Some(self.answer(py)) }
    }

    pub(super) fn failure(&self, py: Python<'_>, failure: &Failure) -> PyErr {
        lost::note(&self.inner);
        if let (Failure::Unanswered, Some(error)) = (failure, &self.cause) {
            return PyErr::from_value(error.bind(py).clone());
        }
        let error = if *failure == Failure::Command {
            match self
                .body(py)
                .and_then(|body| codec::decode_document(py, body.as_bytes(), Codec::for_errors(py)?.get()))
            {
                Ok(reply) => self
                    .not_confirmed(py, &reply)
                    .unwrap_or_else(|| failure::refused(py, reply, || self.time_limits(py))),
                Err(error) => error,
            }
        } else if let Failure::Network { message, timed_out: true } = failure {
            failure::late(py, message, || self.time_limits(py))
        } else {
            failure::to_python(py, failure)
        };
        let mut error = self.labelled(py, error);
        if self.inner.is_retryable_write_error() {
            error = failure::labelled(py, error, "RetryableWriteError");
        }
        if self.inner.is_overload_error() {
            error = failure::labelled(py, error, "SystemOverloadedError");
            error = failure::labelled(py, error, "RetryableError");
        }
        if let Some(cause) = &self.cause {
            error.set_cause(py, Some(PyErr::from_value(cause.bind(py).clone())));
        }
        if self.inner.is_out_of_time() {
            return failure::out_of_time(py, &error);
        }
        error
    }

    /// Returns the write concern error of a failed reply for commands where it takes precedence: a commit,
    /// and an aggregation that writes.
    fn not_confirmed(&self, py: Python<'_>, reply: &Py<PyAny>) -> Option<PyErr> {
        let is_first = self.inner.operation().kind == Kind::Commit
            || matches!(self.reading, ReplyForm::Batch | ReplyForm::RawBatch);
        let is_told = is_first && self.inner.facts().has_write_errors;
        is_told.then(|| failure::not_confirmed(py, reply.clone_ref(py))).flatten()
    }

    /// The configured time limits, as timeout errors name them.
    pub(super) fn time_limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let limits = self.core.get().peek(|state| {
            let options = state.client.options();
            [options.timeout, options.socket_timeout, options.connect_timeout]
                .map(|limit| limit.map(|limit| limit.as_secs_f64()))
        });
        py.import("mangonel._faces.deadline")?
            .getattr("limits_by_name")?
            .call1((limits[0], limits[1], limits[2]))
    }

    pub(super) fn labelled(&self, py: Python<'_>, error: PyErr) -> PyErr {
        match self.inner.label() {
            Some(label) => failure::labelled(py, error, label),
            None => error,
        }
    }

    pub(super) fn body(&self, py: Python<'_>) -> PyResult<RawDocument<'_>> {
        let reply = read_reply(&self.reply).map_err(|error| failure::protocol_error(py, error))?;
        Ok(reply.body)
    }

    pub(super) fn decode(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
        codec::decode_document(py, bytes, self.codec.get())
    }

    /// Decodes a value that is not a document, by wrapping it in one.
    pub(super) fn decode_alone(&self, py: Python<'_>, value: RawValue<'_>) -> PyResult<Py<PyAny>> {
        let mut wrapped = Vec::new();
        let start = mangonel_bson::begin_document(&mut wrapped);
        mangonel_bson::append_value(&mut wrapped, "value", value);
        mangonel_bson::end_document(&mut wrapped, start);
        Ok(self.decode(py, &wrapped)?.bind(py).get_item("value")?.unbind())
    }

    pub(super) fn value(&self, py: Python<'_>, body: RawDocument<'_>) -> PyResult<Py<PyAny>> {
        let found = body.get("value").map_err(|error| failure::protocol_error(py, error))?;
        match found {
            Some(RawValue::Document(document)) => self.decode(py, document.as_bytes()),
            Some(RawValue::Null) | None => Ok(py.None()),
            Some(other) => self.decode_alone(py, other),
        }
    }

    pub(super) fn first(&self, py: Python<'_>, body: RawDocument<'_>) -> PyResult<Py<PyAny>> {
        let cursor = self.inner.facts().cursor.as_ref();
        let cursor =
            cursor.ok_or_else(|| failure::protocol_error(py, "expected a cursor in the reply, got none"))?;
        let batch = RawDocument::from_bytes(&body.as_bytes()[cursor.batch.clone()])
            .map_err(|error| failure::protocol_error(py, error))?;
        match batch.iter().next() {
            None => Ok(py.None()),
            Some(Ok(element)) => match element.value {
                RawValue::Document(document) => self.decode(py, document.as_bytes()),
                _ => Err(failure::protocol_error(py, "expected a document in firstBatch, got another type")),
            },
            Some(Err(error)) => Err(failure::protocol_error(py, error)),
        }
    }

    /// Raises when a write or its write concern failed.
    pub(super) fn check_writes(&self, py: Python<'_>) -> PyResult<()> {
        if self.inner.facts().has_write_errors {
            let reply = self.write(py, self.body(py)?)?;
            if let Some(error) = failure::write_refused(py, reply) {
                return Err(self.labelled(py, error));
            }
        }
        Ok(())
    }

    /// Returns the error that the caller will get for the writes in an answered command's reply.
    #[cold]
    pub(super) fn write_error(&self, py: Python<'_>) -> Option<PyErr> {
        // A caller that requested the whole document checks its errors itself; an `answer` function raises them.
        let is_checked = matches!(
            self.reading,
            ReplyForm::Batch
                | ReplyForm::RawBatch
                | ReplyForm::Value
                | ReplyForm::Answer
                | ReplyForm::Made
                | ReplyForm::Apply
        );
        if is_checked { self.check_writes(py).err() } else { None }
    }

    /// Returns the reply to a refused write without the keys of GOSSIP.
    pub(super) fn write(&self, py: Python<'_>, body: RawDocument<'_>) -> PyResult<Py<PyAny>> {
        codec::decode_document(py, &without(py, body, GOSSIP)?, Codec::for_errors(py)?.get())
    }

    pub(crate) fn batch(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // The meaning of a reply without a cursor depends on the command, so the caller decides.
        let Some(cursor) = self.inner.facts().cursor.clone() else { return Ok(py.None()) };
        self.batch_of(py, &cursor)
    }

    /// The array `databases` as if it were a cursor's last batch.
    pub(super) fn databases(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let body = self.body(py)?;
        let found = body.get("databases").map_err(|error| failure::protocol_error(py, error))?;
        let Some(RawValue::Array(array)) = found else {
            return Err(failure::protocol_error(py, "expected databases in the reply, got none"));
        };
        // The array borrows from the body, so the distance of the two is its offset.
        let start = array.as_bytes().as_ptr() as usize - body.as_bytes().as_ptr() as usize;
        let cursor = CursorFacts {
            id: 0,
            namespace: 0..0,
            batch: start..start + array.as_bytes().len(),
            post_batch_resume_token: None,
        };
        self.batch_of(py, &cursor)
    }

    pub(super) fn batch_of(&mut self, py: Python<'_>, cursor: &CursorFacts) -> PyResult<Py<PyAny>> {
        let offset = read_reply(&self.reply).map(|reply| reply.body_start).unwrap_or_default();
        let session = self.inner.take_session();
        let session = session
            .map(|session| Py::new(py, ImplicitSession::new(self.core.clone_ref(py), session)))
            .transpose()?;
        self.has_handed_over = self.inner.keeps_link();
        let pinned = self.inner.keeps_link().then(|| self.inner.link().map(|link| link.0)).flatten();
        let mut batch = Batch::new(
            std::mem::take(&mut self.reply),
            offset,
            cursor,
            self.codec.clone_ref(py),
            session,
            pinned,
            self.reading == ReplyForm::RawBatch,
        );
        batch.is_streaming = self.inner.more_to_come();
        batch.server = self.inner.server().map(ToString::to_string).unwrap_or_default();
        if cursor.id != 0 && self.is_first() {
            let (server, namespace) = (batch.server.clone(), batch.namespace().to_owned());
            let (core, is_streaming) = (self.core.clone_ref(py), batch.is_streaming);
            let opened = OpenCursor::new(core, server, namespace, cursor.id, pinned, is_streaming);
            batch.opened = Some(Py::new(py, opened)?);
        }
        Ok(Py::new(py, batch)?.into_any())
    }

    /// Returns the range in the reply of the only document of a finished cursor; None: there are more documents, or
    /// none.
    pub(crate) fn only_document(&self) -> Option<Range<usize>> {
        let cursor = self.inner.facts().cursor.as_ref().filter(|cursor| cursor.id == 0)?;
        let offset = read_reply(&self.reply).ok()?.body_start;
        let end = offset + cursor.batch.end.saturating_sub(1);
        let found = next_in(&self.reply, offset + cursor.batch.start + 4, end).ok()??;
        (found.end >= end).then_some(found)
    }

    /// How many documents an update matched and modified.
    pub(crate) fn counts(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        let body = self.body(py)?;
        let count = |key| match body.get(key) {
            Ok(Some(RawValue::Int32(count))) => Ok(count.into()),
            Ok(Some(RawValue::Int64(count))) => Ok(count),
            _ => Err(failure::protocol_error(
                py,
                "expected n and nModified in the reply to an update, got none",
            )),
        };
        Ok((count("n")?, count("nModified")?))
    }

    /// The message that answers the command.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.reply
    }

    /// Whether the reply holds a cursor's first batch.
    fn is_first(&self) -> bool {
        self.inner.operation().command.name() != "getMore"
    }

    /// Has the cursor of a reply killed if no caller has received it.
    #[inline]
    pub(super) fn end_lost_cursor(&mut self) {
        // Usually the batch has taken the reply, or none has arrived yet.
        if !self.reply.is_empty()
            && let Some(cursor) = self.take_lost_cursor()
        {
            Core::end_lost(&self.core, cursor, false);
        }
    }

    /// Takes out the cursor of a first batch that no caller has received. A cursor in an implicit session ends with the
    /// session.
    fn take_lost_cursor(&mut self) -> Option<LostCursor> {
        let is_batch = matches!(
            self.reading,
            ReplyForm::Batch | ReplyForm::RawBatch | ReplyForm::WithBatch | ReplyForm::Made
        );
        let is_kept = self.inner.session().is_some() || self.inner.keeps_link();
        if self.reply.is_empty() || !is_batch || is_kept || !self.is_first() {
            return None;
        }
        let reply = std::mem::take(&mut self.reply);
        let cursor = self.inner.facts().cursor.as_ref().filter(|cursor| cursor.id != 0)?;
        let server = self.inner.server()?.to_string();
        let body = read_reply(&reply).ok()?.body;
        Some(LostCursor {
            server,
            namespace: cursor.namespace_in(body.as_bytes()),
            id: cursor.id,
            pinned: None,
        })
    }

    pub(super) fn with_batch(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rest = without(py, self.body(py)?, &["cursor"])?;
        let reply = self.decode(py, &rest)?;
        let batch = if self.inner.facts().cursor.is_some() { self.batch(py)? } else { py.None() };
        Ok((reply, batch).into_pyobject(py)?.into_any().unbind())
    }
}

/// Copies a document without some of its keys.
fn without(py: Python<'_>, body: RawDocument<'_>, keys: &[&str]) -> PyResult<Vec<u8>> {
    let mut kept = Vec::new();
    let start = mangonel_bson::begin_document(&mut kept);
    for element in body.iter() {
        let element = element.map_err(|error| failure::protocol_error(py, error))?;
        if !keys.contains(&element.key) {
            mangonel_bson::append_value(&mut kept, element.key, element.value);
        }
    }
    mangonel_bson::end_document(&mut kept, start);
    Ok(kept)
}
