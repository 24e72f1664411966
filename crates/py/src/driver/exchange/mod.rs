//! One command being run, as its face sees it. The face does what `step` says and reports; the answer is `result()`.
//! This module has its state, its beginning and end, and the only function that changes the core's exchange.

mod methods;
mod reports;
mod selector;

pub use methods::{CONNECT, DONE, READ, WAIT, WRITE, lend, register};

use mangonel_proto::exchange::{Exchange as CoreExchange, Step};
use mangonel_proto::ids::ShardId;
use mangonel_proto::operation::Kind;
use mangonel_proto::time::Instant;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::chunks::ChunkTarget;
use super::core::{Core, Place, State};
use super::deadline;
use super::direct_receive::DirectReceive;
use super::failure;
use super::link::Link;
use super::operation::{Maker, Operation, ReplyForm};
use super::tracing::Traced;
use crate::codec::Codec;
use crate::thread_end::never_unwind_this_thread;

/// One command being run.
#[pyclass(module = "mangonel._core")]
pub struct Exchange {
    pub(crate) core: Py<Core>,
    /// Boxed, since it has some 900 bytes and is first moved several times.
    pub(crate) inner: Box<CoreExchange>,
    pub(crate) link: Option<Py<Link>>,
    pub(super) reading: ReplyForm,
    pub(super) codec: Py<Codec>,
    pub(super) answer: Option<Py<PyAny>>,
    pub(super) maker: Option<Box<dyn Maker>>,
    /// The message that answers the command, header included.
    pub(super) reply: Vec<u8>,
    /// The last network error: the cause of the coming exception.
    pub(super) cause: Option<Py<PyAny>>,
    /// Whether the connection was handed to the cursor that will read further replies.
    pub(super) has_handed_over: bool,
    /// The number of views of the outbound message that Python holds now.
    lent: usize,
    /// The compressed outbound message, and its request number.
    packed: Option<(i32, Vec<u8>)>,
    /// The target of the data of chunks in the reply, and the position there.
    sink: Option<(Py<ChunkTarget>, usize)>,
    /// The tracer's span, until it has ended.
    traced: Option<Traced>,
    /// The state of an authentication whose messages come from a responder.
    conversation: Option<Py<PyAny>>,
    /// Its place among the exchanges that may hold a connection between two calls.
    place: Option<Place>,
}

impl Exchange {
    /// Starts to run an operation.
    #[inline]
    pub fn begin(core: &Bound<'_, Core>, operation: &Bound<'_, Operation>, shard: u32) -> PyResult<Self> {
        Exchange::start(core, operation, shard, false)
    }

    /// Starts to run an operation; with `is_aside`, only enters its session.
    fn start(
        core: &Bound<'_, Core>,
        operation: &Bound<'_, Operation>,
        shard: u32,
        is_aside: bool,
    ) -> PyResult<Self> {
        let py = core.py();
        let (asked, reading, codec, answer, maker, sink) = {
            let mut operation = operation.try_borrow_mut()?;
            let asked = operation.operation.take();
            let asked = asked
                .ok_or_else(|| failure::bug(py, "expected an operation not yet begun, got a used one"))?;
            let (answer, maker) = (operation.answer.take(), operation.maker.take());
            let sink = operation.sink.take();
            (asked, operation.reading, operation.codec.clone_ref(py), answer, maker, sink)
        };
        let mut asked = asked;
        // Even after the end of a block's time, a transaction must be aborted.
        asked.limit = deadline::current(py, asked.kind == Kind::Abort)?;
        let tracer = core.get().tracer.as_ref();
        let traced = tracer.and_then(|tracer| Traced::begin(py, core.get(), tracer, &asked));
        asked.is_traced = traced.is_some();
        let now = core.get().now();
        let (inner, link) = core.get().with(py, |state| {
            let begin = if is_aside { CoreExchange::begin_aside } else { CoreExchange::begin };
            let mut inner = Box::new(begin(&mut state.client, ShardId(shard), asked, now));
            inner.count_end(&mut state.client, now);
            let link = held_link(py, state, &inner);
            (inner, link)
        });
        let core = core.clone().unbind();
        let mut exchange = Exchange {
            core,
            inner,
            link,
            reading,
            codec,
            answer,
            maker,
            reply: Vec::new(),
            cause: None,
            has_handed_over: false,
            lent: 0,
            packed: None,
            sink,
            traced,
            conversation: None,
            place: None,
        };
        exchange.trace(py);
        if exchange.core.get().selector.is_some() {
            exchange.let_choose(py);
        }
        exchange.check_out(py);
        if exchange.core.get().compresses {
            exchange.pack(py);
        }
        if exchange.sink.is_some() {
            exchange.arm_direct_receive(py)?;
        }
        Ok(exchange)
    }

    /// Compresses the message to send if its connection has negotiated that; outside the lock.
    fn pack(&mut self, py: Python<'_>) {
        let request_id = self.inner.request_id();
        let is_packed = self.packed.as_ref().is_some_and(|packed| packed.0 == request_id);
        let Some(id) = self.inner.link().filter(|_| self.inner.may_compress()) else { return };
        if is_packed || self.lent > 0 {
            return;
        }
        let Some(compressor) = self.core.get().peek(|state| state.client.compressor(id)) else { return };
        let packed = Link::pack(py, compressor, self.inner.outbound());
        self.packed = packed.map(|packed| (request_id, packed));
    }

    /// Prepares the connection to receive the data of chunks outside the message.
    fn arm_direct_receive(&mut self, py: Python<'_>) -> PyResult<()> {
        let (Some((target, at)), Some(link)) = (&self.sink, &self.link) else { return Ok(()) };
        let mut link = link.bind(py).try_borrow_mut()?;
        if self.inner.step() == Step::Write && !self.inner.is_handshake() && link.direct_receive.is_none() {
            link.direct_receive = Some(Box::new(DirectReceive::new(py, target, *at)?));
        }
        Ok(())
    }

    /// Returns the message to send.
    pub(crate) fn outbound(&self) -> &[u8] {
        match &self.packed {
            Some((request_id, packed)) if *request_id == self.inner.request_id() => packed,
            _ => self.inner.outbound(),
        }
    }

    /// Runs one change of the core's exchange, and switches to its new link if it has one.
    fn advance(&mut self, py: Python<'_>, change: impl FnOnce(&mut CoreExchange, &mut State, Instant)) {
        let core = self.core.clone_ref(py);
        let now = core.get().now();
        let inner = &mut self.inner;
        let link = core.get().with(py, |state| {
            change(inner, state, now);
            inner.count_end(&mut state.client, now);
            held_link(py, state, inner)
        });
        // A link that another thread closed is unregistered, but must still be read to its end.
        if link.is_some() || self.inner.link().is_none() {
            self.link = link;
        }
        self.trace(py);
        if core.get().selector.is_some() {
            self.let_choose(py);
        }
        self.check_out(py);
        if core.get().compresses {
            self.pack(py);
        }
        if self.sink.is_some() {
            // A connection that another thread is using reads the whole message instead.
            let _ = self.arm_direct_receive(py);
        }
    }

    /// Reports the last change to the tracer, if it records the operation.
    #[inline(always)]
    pub(super) fn trace(&mut self, py: Python<'_>) {
        if self.traced.is_some() {
            self.follow(py);
        }
    }

    #[cold]
    fn follow(&mut self, py: Python<'_>) {
        let is_answered = self.inner.step() == Step::Done && self.inner.failure().is_none();
        let has_write_errors = is_answered && self.inner.facts().has_write_errors;
        if has_write_errors && self.reply.is_empty() {
            // `take_reply` calls this again with the reply, which determines the caller's result.
            return;
        }
        let refused = if has_write_errors { self.write_error(py) } else { None };
        // Taken out for the call: the tracer may run any code.
        if let Some(traced) = self.traced.take() {
            traced.follow(py, self.core.get(), &mut self.inner, refused);
            self.traced = (self.inner.step() != Step::Done).then_some(traced);
        }
    }

    /// Requests the connection whose check-out was just announced to listeners.
    fn check_out(&mut self, py: Python<'_>) {
        if self.inner.is_check_out_due() {
            self.advance(py, |inner, state, now| inner.handle_check_out(&mut state.client, now));
        }
    }

    /// Whether its next steps call no user code, which would need the context of its task.
    pub(crate) fn is_unobserved(&self, py: Python<'_>) -> bool {
        let core = self.core.get();
        self.traced.is_none() && core.selector.is_none() && core.publisher(py).is_none()
    }

    /// Whether it holds nothing that must be released.
    fn is_over(&self) -> bool {
        let is_kept = self.inner.keeps_link() && !self.has_handed_over;
        self.inner.step() == Step::Done && self.inner.session().is_none() && !is_kept
    }

    /// Whether its reply waits for `release`, which needs what the exchange holds.
    pub(super) fn is_held(&self) -> bool {
        self.reading == ReplyForm::Held && self.inner.step() == Step::Done
    }

    fn check_not_lent(&self) -> PyResult<()> {
        if self.lent > 0 {
            return Err(PyBufferError::new_err(
                "expected the outbound message to be released, got it still in use",
            ));
        }
        Ok(())
    }
}

fn held_link(py: Python<'_>, state: &State, inner: &CoreExchange) -> Option<Py<Link>> {
    inner.link().and_then(|link| state.links.get(&link)).map(|link| link.clone_ref(py))
}

impl Drop for Exchange {
    fn drop(&mut self) {
        never_unwind_this_thread();
        // For a face that could not close, for example because a signal handler raised before its `try`; usually its
        // `finally` comes first. An exception may be pending here, so no Python code is run.
        if let Some(traced) = self.traced.take() {
            Core::call_soon(&self.core, traced.into_ending());
        }
        self.end_lost_cursor();
        if self.is_over() {
            return;
        }
        let is_kept = self.inner.keeps_link() && !self.has_handed_over;
        Core::change_in_drop(&self.core, |state, now| {
            let waker = state.wakers.remove(&self.inner.id());
            self.inner.give_up(&mut state.client, is_kept, now);
            waker
        });
    }
}
