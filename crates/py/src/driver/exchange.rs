//! One command being run, as its face sees it. The face does what `step` says and reports; the answer is `result()`.

use std::os::raw::c_int;
use std::sync::Arc;
use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::error::{Failure, ProtocolError};
use mangonel_proto::exchange::{Answer, Exchange as CoreExchange, Question, Step};
use mangonel_proto::ids::ShardId;
use mangonel_proto::message::{has_more_to_come, read_reply, with_body};
use mangonel_proto::time::Instant;
use mangonel_proto::topology::{Address, ServerDescription};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit, ffi};

use super::auth::{KeyQuestion, WordQuestion};
use super::chunks::ChunkTarget;
use super::core::{Core, Place, State};
use super::deadline;
use super::descriptions;
use super::direct_receive::DirectReceive;
use super::failure;
use super::link::Link;
use super::operation::{self, Maker, Operation, ReplyForm};
use super::tls::Tls;
use super::tracing::Traced;
use crate::codec::{self, Codec};
use crate::thread_end::never_unwind_this_thread;

pub const DONE: u8 = 0;
pub const WRITE: u8 = 1;
pub const READ: u8 = 2;
pub const CONNECT: u8 = 3;
pub const WAIT: u8 = 4;
pub const SLEEP: u8 = 5;
pub const ASK: u8 = 6;

/// Starts to run an operation on the connections of a shard.
#[entries]
#[pyfunction]
fn begin(core: &Bound<'_, Core>, operation: &Bound<'_, Operation>, shard: u32) -> PyResult<Exchange> {
    Exchange::begin(core, operation, shard)
}

/// Starts an operation whose reply is read later. It holds a connection until then, unless that leaves none for others.
#[entries]
#[pyfunction]
fn begin_ahead(core: &Bound<'_, Core>, operation: &Bound<'_, Operation>, shard: u32) -> PyResult<Exchange> {
    let place = core.get().ahead.take();
    let mut exchange = Exchange::start(core, operation, shard, place.is_none())?;
    exchange.place = place;
    Ok(exchange)
}

/// Adds the functions that begin an exchange, its class, and the numbers of the steps.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(begin, module)?)?;
    module.add_function(wrap_pyfunction!(begin_ahead, module)?)?;
    module.add_class::<Exchange>()?;
    let steps = [
        ("DONE", DONE),
        ("WRITE", WRITE),
        ("READ", READ),
        ("CONNECT", CONNECT),
        ("WAIT", WAIT),
        ("SLEEP", SLEEP),
        ("ASK", ASK),
    ];
    steps.iter().try_for_each(|(name, number)| module.add(*name, number))
}

/// One command being run.
#[pyclass(module = "mangonel._core")]
pub struct Exchange {
    pub(crate) core: Py<Core>,
    /// Boxed, since it has some 900 bytes and is moved several times at first.
    pub(crate) inner: Box<CoreExchange>,
    pub(crate) link: Option<Py<Link>>,
    pub(super) reading: ReplyForm,
    pub(super) codec: Py<Codec>,
    answer: Option<Py<PyAny>>,
    maker: Option<Box<dyn Maker>>,
    /// The message that answers the command, header included.
    pub(super) reply: Vec<u8>,
    /// The last network error: the cause of the coming exception.
    pub(super) cause: Option<Py<PyAny>>,
    /// Whether the connection was handed to the cursor that will read further replies.
    pub(super) has_handed_over: bool,
    /// Views of the outbound message that Python holds at this moment.
    lent: usize,
    /// The outbound message compressed, and the number of the request that it is.
    packed: Option<(i32, Vec<u8>)>,
    /// The target of the data of chunks in the reply, and the position there.
    sink: Option<(Py<ChunkTarget>, usize)>,
    /// The tracer's span, until it has ended.
    traced: Option<Traced>,
    /// The state of an authentication whose words come from a responder.
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

    /// Starts to run an operation, or with `is_aside` only enters its session.
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
        asked.limit = deadline::current(py)?;
        let tracer = core.get().tracer.as_ref();
        let traced = tracer.and_then(|tracer| Traced::begin(py, tracer, &asked));
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

    /// Compresses the message to send if its connection has negotiated that. Done here, outside of the lock.
    fn pack(&mut self, py: Python<'_>) {
        let request_id = self.inner.request_id();
        let is_packed = self.packed.as_ref().is_some_and(|packed| packed.0 == request_id);
        let Some(id) = self.inner.link().filter(|_| self.inner.may_compress()) else { return };
        if is_packed || self.lent > 0 {
            return;
        }
        let Some(compressor) = self.core.get().peek(|state| state.client.compressor(id)) else { return };
        let Some(link) = &self.link else { return };
        let packed = Link::pack(link.bind(py), compressor, self.inner.outbound());
        self.packed = packed.map(|packed| (request_id, packed));
    }

    /// Prepares the connection for chunks whose data is received outside of the message.
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

    /// Calls the user's `server_selector` for the suitable servers, if that is due.
    fn let_choose(&mut self, py: Python<'_>) {
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
            // A connection that another thread uses at this moment reads the whole message instead.
            let _ = self.arm_direct_receive(py);
        }
    }

    /// Reports the last change to the tracer, if it records the operation.
    #[inline(always)]
    fn trace(&mut self, py: Python<'_>) {
        if self.traced.is_some() {
            self.follow(py);
        }
    }

    #[cold]
    fn follow(&mut self, py: Python<'_>) {
        // Taken out meanwhile: the tracer may run anything.
        if let Some(traced) = self.traced.take() {
            traced.follow(py, self.core.get(), &mut self.inner);
            self.traced = (self.inner.step() != Step::Done).then_some(traced);
        }
    }

    /// Requests the connection that was just announced to listeners.
    fn check_out(&mut self, py: Python<'_>) {
        if self.inner.is_check_out_due() {
            self.advance(py, |inner, state, now| inner.handle_check_out(&mut state.client, now));
        }
    }

    /// Whether it holds nothing that must be released.
    fn is_over(&self) -> bool {
        let is_kept = self.inner.keeps_link() && !self.has_handed_over;
        self.inner.step() == Step::Done && self.inner.session().is_none() && !is_kept
    }

    /// Whether its reply waits for `release`, which needs what the exchange holds.
    fn is_held(&self) -> bool {
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

    /// Takes the message that arrived on the link to the core.
    pub(crate) fn take_reply(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(link) = &self.link else { return Ok(()) };
        let link = link.bind(py);
        let (told, receives_directly) = {
            let mut link = link.try_borrow_mut()?;
            link.check_not_lent()?;
            link.idle_since = link.clock.now();
            (link.note_reply(py), link.direct_receive.is_some())
        };
        let message = Link::take_message(link);
        let sizes = self.transferred(link);
        // The next reply on this connection belongs to another exchange, unless it follows without a request.
        if receives_directly && !message.as_ref().is_ok_and(|message| has_more_to_come(message)) {
            link.try_borrow_mut()?.direct_receive = None;
        }
        let message = match message {
            Ok(message) => message,
            Err(error) if error.is_out_of_memory() => return Err(failure::broken_message(py, &error)),
            Err(error) => {
                self.protocol_broken(py, &error.to_string());
                return Ok(());
            }
        };
        if let Some(owner) = told {
            Tls::remember(&owner, py);
        }
        self.advance(py, |inner, state, now| {
            if let Some((sent, received)) = sizes {
                state.client.count_bytes(sent, received);
            }
            inner.handle_reply(&mut state.client, &message, now);
        });
        if self.inner.step() == Step::Done {
            // The reply to an earlier attempt may be more informative than the last one.
            self.reply = self.inner.take_earlier_reply().unwrap_or(message);
        }
        Ok(())
    }

    /// Returns the sizes of the message sent and of the one just received, on the wire, where they are counted.
    #[inline]
    fn transferred(&self, link: &Bound<'_, Link>) -> Option<(usize, usize)> {
        if !self.core.get().is_counting() {
            return None;
        }
        let link = link.try_borrow().ok()?;
        let aside = link.direct_receive.as_ref().map_or(0, |direct| direct.received_size);
        let sent = if self.inner.is_under_way() { 0 } else { self.outbound().len() };
        Some((sent, link.received_size + aside))
    }

    /// Tells listeners that the command is about to be sent, when there are any.
    pub(crate) fn announce(&mut self, py: Python<'_>) {
        if self.inner.is_announcement_due() {
            self.advance(py, |inner, state, now| inner.announce(&mut state.client, now));
        }
    }

    pub(crate) fn sent(&mut self, py: Python<'_>) {
        let size =
            if self.core.get().is_counting() && !self.expects_reply() { self.outbound().len() } else { 0 };
        self.advance(py, |inner, state, now| {
            state.client.count_bytes(size, 0);
            inner.handle_sent(&mut state.client, now);
        });
    }

    /// The bytes that arrived cannot be a message.
    pub(crate) fn protocol_broken(&mut self, py: Python<'_>, message: &str) {
        self.advance(py, |inner, state, now| inner.handle_protocol_error(&mut state.client, message, now));
    }

    pub(crate) fn network_error(&mut self, py: Python<'_>, error: &PyErr, timed_out: bool) {
        let link = self.link.as_ref().and_then(|link| link.try_borrow(py).ok());
        let message = link.map_or_else(|| error.value(py).to_string(), |link| link.describe(py, error));
        self.cause = Some(error.value(py).clone().into_any().unbind());
        // `socket.gaierror`, without the import of a module that may not be loaded.
        let is_name_unknown = error.get_type(py).name().is_ok_and(|name| name == "gaierror");
        self.advance(py, |inner, state, now| match is_name_unknown {
            true => inner.handle_name_error(&mut state.client, &message, now),
            false => inner.handle_network_error(&mut state.client, &message, timed_out, now),
        });
    }
    /// Returns the answer in the operation's form, or the error.
    fn answer(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // No answer may have come to a later attempt.
        if let Some(reply) = self.inner.take_earlier_reply() {
            self.reply = reply;
        }
        match self.inner.failure() {
            Some(Failure::Command)
                if self.reading == ReplyForm::Unchecked && !self.inner.is_out_of_time() => {}
            Some(failure) => return Err(self.failure(py, &failure.clone())),
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
                // `$out` and `$merge` give a cursor and may fail to be confirmed.
                self.check_writes(py)?;
                let batch = self.batch(py)?;
                self.applied(py, batch)
            }
            ReplyForm::Value => {
                self.check_writes(py)?;
                self.value(py, self.body(py)?)
            }
            ReplyForm::Databases => self.databases(py),
            ReplyForm::Answer => {
                self.check_writes(py)?;
                Ok(self.answer.take().unwrap_or_else(|| py.None()))
            }
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
            ReplyForm::Raw => Ok(codec::bytes_of(py, self.body(py)?.as_bytes())?.into_any().unbind()),
            // Not needed before `release`, which says how it is read.
            ReplyForm::Held => Ok(py.None()),
        }
    }

    /// Applies the operation's `answer` function to the read value; without one, returns the value.
    fn applied(&self, py: Python<'_>, read: Py<PyAny>) -> PyResult<Py<PyAny>> {
        match &self.answer {
            Some(answer) => answer.call1(py, (read,)),
            None => Ok(read),
        }
    }

    /// Returns the answer of an exchange that is done; None while its reply is held back.
    pub(super) fn outcome(&mut self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        if self.is_held() { None } else { Some(self.answer(py)) }
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

fn held_link(py: Python<'_>, state: &State, inner: &CoreExchange) -> Option<Py<Link>> {
    inner.link().and_then(|link| state.links.get(&link)).map(|link| link.clone_ref(py))
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

#[entries]
#[pymethods]
impl Exchange {
    /// What to do next: DONE, WRITE, READ, CONNECT, WAIT, SLEEP or ASK.
    #[getter]
    pub(crate) fn step(&self) -> u8 {
        match self.inner.step() {
            Step::Done => DONE,
            Step::Write => WRITE,
            Step::Read => READ,
            Step::Connect => CONNECT,
            Step::Wait => WAIT,
            Step::Sleep(_) => SLEEP,
            Step::Ask => ASK,
        }
    }

    /// Whether the connection is still being made usable, so that what is sent next is not the command.
    #[getter]
    fn is_handshake(&self) -> bool {
        self.inner.is_handshake()
    }

    /// Host and port of the server it goes to, or the path of its socket and None; None before one was selected.
    #[getter]
    fn address(&self) -> Option<(String, Option<u16>)> {
        self.inner.server().map(|address| (address.host().to_owned(), address.port()))
    }

    /// The connection it holds, or None.
    #[getter]
    fn link(&self, py: Python<'_>) -> Option<Py<Link>> {
        self.link.as_ref().map(|link| link.clone_ref(py))
    }

    /// Whether the message to send is answered.
    #[getter]
    pub(crate) fn expects_reply(&self) -> bool {
        self.inner.expects_reply()
    }

    /// Seconds that the current step may take, or None.
    #[getter]
    pub(crate) fn step_timeout(&self) -> Option<f64> {
        let now = self.core.get().now();
        self.core.get().peek(|state| self.inner.step_timeout(&state.client, now)).map(seconds)
    }

    /// Whether `step_timeout` shrinks from call to call, since it is what is left of the whole operation's time.
    #[getter]
    pub(crate) fn is_limited(&self) -> bool {
        self.inner.is_limited()
    }

    /// Seconds from now until `handle_timeout()` is due while waiting or sleeping, or None.
    #[getter]
    pub(crate) fn time_left(&self) -> Option<f64> {
        let now = self.core.get().now();
        let deadline = self.core.get().peek(|state| self.inner.deadline(&state.client));
        deadline.map(|deadline| seconds(deadline.saturating_since(now)))
    }

    /// Call `waker` once, from any thread, when a connection may have become free.
    pub(crate) fn set_waker(&self, py: Python<'_>, waker: Py<PyAny>) -> PyResult<()> {
        let id = self.inner.id();
        // A grant since the last check would otherwise wake no waiter.
        let due = self.core.get().with(py, |state| {
            if state.client.should_wake(id) { Some(waker) } else { state.wakers.insert(id, waker) }
        });
        // A replaced waker is called too: waking for nothing is harmless, and one path is easier to trust than two.
        due.map_or(Ok(()), |waker| waker.call0(py).map(drop))
    }

    /// A connection was opened: `transport` is the face's, with a `close()`; `fd` for plain sockets, else -1.
    fn handle_connected(&mut self, py: Python<'_>, transport: Py<PyAny>, fd: i32) -> PyResult<Py<Link>> {
        self.check_not_lent()?;
        let core = self.core.clone_ref(py);
        let opening = self.inner.opening();
        let id = opening.unwrap_or_else(|| core.get().with(py, |state| state.client.next_link()));
        let link =
            Py::new(py, Link::new(id, self.inner.shard().0, transport, fd, self.core.get().clock.clone()))?;
        let kept = link.clone_ref(py);
        self.advance(py, |inner, state, now| {
            state.links.insert(id, kept);
            inner.handle_connected(&mut state.client, id, now);
        });
        Ok(link)
    }

    /// The message is about to be sent by the face's own means.
    fn handle_sending(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.announce(py);
        Ok(())
    }

    /// What to call at ASK: a function that may take long, and takes the running event loop where there is one. Its result is for `handle_answer`, an
    /// exception of it for `handle_no_answer`.
    #[getter]
    fn question(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner.question() {
            Some(Question::Servers(_)) => Err(failure::bug(py, "expected the selector to be called here")),
            Some(Question::Keys(request)) => Ok(Py::new(py, KeyQuestion::new(request))?.into_any()),
            Some(Question::Word(_, prompt)) => {
                let responder = self.core.get().responder.as_ref().map(|responder| responder.clone_ref(py));
                let responder = responder
                    .ok_or_else(|| failure::bug(py, "expected a responder for the mechanism, got none"))?;
                let left = self.inner.answer_timeout(self.core.get().now()).map(seconds);
                let host = self.inner.server().map_or(String::new(), |address| address.host().to_owned());
                let state = self.conversation.as_ref().filter(|_| prompt.challenge.is_some());
                let state = state.map(|state| state.clone_ref(py));
                Ok(Py::new(py, WordQuestion::new(responder, prompt, host, state, left))?.into_any())
            }
            None => Err(failure::bug(py, "expected an open question, got none")),
        }
    }

    /// What `question` returned.
    fn handle_answer(&mut self, py: Python<'_>, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check_not_lent()?;
        let (answer, conversation) = super::auth::answer(answer)?;
        self.conversation = conversation;
        self.advance(py, |inner, state, now| inner.handle_answer(&mut state.client, answer, now));
        Ok(())
    }

    /// `question` raised: the exchange is done, and its result raises the same.
    fn handle_no_answer(&mut self, py: Python<'_>, error: Py<PyAny>) {
        self.cause = Some(error);
        self.advance(py, |inner, state, now| inner.handle_no_answer(&mut state.client, now));
    }

    /// A whole message has arrived on the link.
    fn handle_reply(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.take_reply(py)
    }

    /// The message was sent: the exchange is done when it is not answered, and at READ when it is.
    fn handle_sent(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.sent(py);
        Ok(())
    }

    /// The bytes that arrived cannot be a message.
    fn handle_protocol_error(&mut self, py: Python<'_>, message: &str) {
        self.protocol_broken(py, message);
    }

    /// The connection broke, could not be opened, or (`timed_out`) did not answer in time.
    #[pyo3(signature = (error, timed_out=false))]
    fn handle_network_error(&mut self, error: &Bound<'_, PyAny>, timed_out: bool) {
        self.network_error(error.py(), &PyErr::from_value(error.clone()), timed_out);
    }

    /// The link is stale: take another one; nothing was sent.
    pub(crate) fn handle_link_lost(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.advance(py, |inner, state, now| inner.handle_link_lost(&mut state.client, now));
        Ok(())
    }

    /// Give up a place that others may need, unless the message was sent; nothing drives it until `resume`.
    fn step_aside(&mut self, py: Python<'_>) {
        if matches!(self.inner.step(), Step::Wait | Step::Connect) {
            self.advance(py, |inner, state, now| inner.step_aside(&mut state.client, now));
            self.place = None;
        }
    }

    /// Continue after `step_aside`.
    fn resume(&mut self, py: Python<'_>) {
        if self.inner.step() == Step::Wait {
            self.advance(py, |inner, state, now| inner.resume(&mut state.client, now));
        }
    }

    /// A connection may have become free.
    pub(crate) fn handle_wake(&mut self, py: Python<'_>) {
        self.advance(py, |inner, state, now| inner.handle_wake(&mut state.client, now));
    }

    /// The time of `time_left` is over.
    pub(crate) fn handle_timeout(&mut self, py: Python<'_>) {
        self.advance(py, |inner, state, now| inner.handle_timeout(&mut state.client, now));
    }

    /// Give up what it holds; a connection that owes a reply is closed. Does nothing once done.
    pub(crate) fn close(&mut self, py: Python<'_>) {
        self.place = None;
        self.end_lost_cursor();
        if self.is_over() || self.is_held() {
            return;
        }
        let is_kept = self.inner.keeps_link() && !std::mem::replace(&mut self.has_handed_over, true);
        let id = self.inner.id();
        let mut waker = None;
        self.advance(py, |inner, state, now| {
            waker = state.wakers.remove(&id);
            inner.give_up(&mut state.client, is_kept, now);
        });
    }

    /// Return the answer, read as the operation asked, or raise why there is none; the exchange itself when its reply is
    /// held back.
    fn result(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let outcome = slf.try_borrow_mut()?.outcome(slf.py());
        outcome.unwrap_or_else(|| Ok(slf.clone().into_any().unbind()))
    }

    /// The bytes of the reply that is held back; None when there is none, or when it says that the command failed.
    #[getter]
    fn held_reply(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.reply.is_empty() || self.inner.failure().is_some() {
            return Ok(None);
        }
        Ok(Some(codec::bytes_of(py, self.body(py)?.as_bytes())?.into_any().unbind()))
    }

    /// Return the answer that was held back, read as `Operation.hold` returned it, of the reply or of `body` in its place.
    #[pyo3(signature = (reading, body=None))]
    fn release(&mut self, py: Python<'_>, reading: usize, body: Option<&[u8]>) -> PyResult<Py<PyAny>> {
        self.reading = operation::reading(reading)?;
        if let Some(body) = body {
            let broken = |error: ProtocolError| failure::protocol_error(py, &error.to_string());
            let message = with_body(&self.reply, body).map_err(broken)?;
            self.inner.read_again(read_reply(&message).map_err(broken)?.body).map_err(broken)?;
            self.reply = message;
        }
        self.answer(py)
    }

    fn __len__(&self) -> usize {
        self.outbound().len()
    }

    /// Lends the message to send.
    ///
    /// # Safety
    /// Called by the interpreter with a valid view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut exchange = slf.try_borrow_mut()?;
        // SAFETY: the message stays where it is until it is stamped again, which only `handle_*` does, and those refuse
        // while a view is lent; the view holds a reference to the exchange.
        unsafe { lend(slf.as_any(), exchange.outbound(), view, flags) }?;
        exchange.lent += 1;
        Ok(())
    }

    /// Takes the message back.
    ///
    /// # Safety
    /// Called by the interpreter with a view from `__getbuffer__`.
    unsafe fn __releasebuffer__(&mut self, _view: *mut ffi::Py_buffer) {
        self.lent = self.lent.saturating_sub(1);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.link)?;
        visit.call(&self.answer)?;
        if let Some(maker) = &self.maker {
            maker.traverse(&visit)?;
        }
        visit.call(&self.cause)?;
        visit.call(&self.conversation)
    }

    fn __clear__(&mut self) {
        self.cause = None;
        self.conversation = None;
    }
}

/// Fills in a read-only view of `bytes`, which `owner` holds.
///
/// # Safety
/// `view` is valid, and `bytes` stay where they are for as long as the view is lent.
pub unsafe fn lend(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
    // SAFETY: the caller promises a valid view and bytes that stay; the view takes a reference of its own to the owner, which
    // so outlives it, and is read-only.
    let outcome = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, length, 1, flags) };
    if outcome == 0 {
        return Ok(());
    }
    Err(PyErr::take(owner.py())
        .unwrap_or_else(|| PyRuntimeError::new_err("expected a buffer to be filled in, got no reason")))
}

impl Drop for Exchange {
    fn drop(&mut self) {
        never_unwind_this_thread();
        // The net under a face that could not close, as when a signal handler raised before its `try` began; the faces'
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
