//! The interface between a workload and the world. Workloads are plain `async` functions; each `await` is an operation
//! or a pause, and the world resumes them when it is over.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mangonel_bson::RawDocument;
use mangonel_proto::client::Client;
use mangonel_proto::error::Failure;
use mangonel_proto::ids::LinkId;
use mangonel_proto::operation::Operation;
use mangonel_proto::reply::{Facts, Labels};
use mangonel_proto::session::ServerSession;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::Address;

/// A running workload.
pub(crate) type Flow = Pin<Box<dyn Future<Output = ()>>>;

type Change = Box<dyn FnOnce(&mut Client, Instant)>;

/// A workload's request.
pub(crate) enum Ask {
    /// Run this operation, and lay the chunks of its replies into this much memory.
    Run(Box<Operation>, Option<usize>),
    /// Wait this long.
    Sleep(Duration),
    /// Do this with the client.
    Change(Change),
}

/// How an operation ended.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// When it was begun.
    pub(crate) begun: Option<Instant>,
    /// When it ended.
    pub(crate) ended: Option<Instant>,
    /// Its last reply; empty without one.
    pub(crate) body: Vec<u8>,
    /// The reason why it failed.
    pub(crate) failure: Option<Failure>,
    /// The facts that the core read from the reply.
    pub(crate) facts: Facts,
    /// How often it was sent.
    pub(crate) sends: u32,
    /// The label that only the client adds.
    pub(crate) label: Option<&'static str>,
    /// Whether it failed because no connection could be opened.
    pub(crate) is_overload: bool,
    /// Whether it was given up.
    pub(crate) is_cancelled: bool,
    /// The server that it used.
    pub(crate) server: Option<Address>,
    /// The pinned connection of an open cursor, to be given back.
    pub(crate) pinned: Option<LinkId>,
    /// The session of an open cursor.
    pub(crate) session: Option<ServerSession>,
    /// The memory into which chunks were laid.
    pub(crate) room: Option<Vec<u8>>,
}

impl Ending {
    /// Whether the reply has `ok: 1`.
    pub(crate) fn is_ok(&self) -> bool {
        self.failure.is_none() && !self.is_cancelled
    }

    /// Whether it succeeded without any error.
    pub(crate) fn is_fine(&self) -> bool {
        self.is_ok() && !self.facts.has_write_errors
    }

    /// The reply.
    pub(crate) fn document(&self) -> Option<RawDocument<'_>> {
        RawDocument::from_bytes(&self.body).ok()
    }

    /// Whether the error has a label from the server or the driver.
    pub(crate) fn has_label(&self, label: &str) -> bool {
        let labels = self.document().and_then(|body| body.get_array("errorLabels").ok().flatten());
        let given = labels.into_iter().flat_map(|labels| labels.iter()).flatten();
        self.label == Some(label)
            || given
                .filter_map(|value| match value {
                    mangonel_bson::RawValue::String(text) => Some(text),
                    _ => None,
                })
                .any(|text| text == label)
    }

    /// Returns the labels.
    pub(crate) fn labels(&self) -> Labels {
        self.facts.labels
    }
}

#[derive(Default)]
struct Papers {
    ask: Option<Ask>,
    answer: Option<Box<Ending>>,
    now: Option<Instant>,
}

/// The place where a workload and the world meet.
#[derive(Clone, Default)]
pub(crate) struct Desk(Rc<RefCell<Papers>>);

impl Desk {
    pub(crate) fn new() -> Self {
        Desk::default()
    }

    /// Returns the virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.0.borrow().now.unwrap_or(crate::queue::EPOCH)
    }

    async fn ask(&self, ask: Ask) -> Box<Ending> {
        self.0.borrow_mut().ask = Some(ask);
        poll_fn(|_| match self.0.borrow_mut().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Runs an operation.
    pub(crate) async fn run(&self, operation: Operation) -> Box<Ending> {
        self.ask(Ask::Run(Box::new(operation), None)).await
    }

    /// Runs an operation whose reply's chunks are laid aside, into this many bytes of memory.
    pub(crate) async fn run_filtered(&self, operation: Operation, size: usize) -> Box<Ending> {
        self.ask(Ask::Run(Box::new(operation), Some(size))).await
    }

    /// Waits this many milliseconds.
    pub(crate) async fn sleep(&self, milliseconds: u64) {
        self.ask(Ask::Sleep(Duration::from_millis(milliseconds))).await;
    }

    /// Does something with the client.
    pub(crate) async fn with<T: 'static>(
        &self,
        change: impl FnOnce(&mut Client, Instant) -> T + 'static,
    ) -> T {
        let place = Rc::new(RefCell::new(None));
        let made = Rc::clone(&place);
        let change = move |client: &mut Client, now| *made.borrow_mut() = Some(change(client, now));
        self.ask(Ask::Change(Box::new(change))).await;
        let value = place.borrow_mut().take();
        value.expect("the world does what it is asked before it answers")
    }

    /// Gives back the connection of a cursor that is over.
    pub(crate) async fn release(&self, pinned: Option<LinkId>, is_drained: bool) {
        if let Some(link) = pinned {
            self.with(move |client, now| client.release_pinned(link, is_drained, now)).await;
        }
    }

    /// Resumes a flow with an answer, or begins it. Returns its next request; `None` when it is over.
    pub(crate) fn go_on(&self, flow: &mut Flow, answer: Option<Box<Ending>>, now: Instant) -> Option<Ask> {
        {
            let mut papers = self.0.borrow_mut();
            (papers.answer, papers.now) = (answer, Some(now));
        }
        match flow.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => None,
            Poll::Pending => self.0.borrow_mut().ask.take(),
        }
    }
}
