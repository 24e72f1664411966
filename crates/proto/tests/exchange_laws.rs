//! After any events in any order, the pool's counts are right and nothing is left behind.

mod bench;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bench::*;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::ids::LinkId;
use mangonel_proto::message::Replies;
use mangonel_proto::operation::{Kind, SessionChoice};
use proptest::prelude::*;
use serde_json::json;

const MAX_POOL_SIZE: usize = 3;
const MAX_CONNECTING: usize = 2;

/// An event for one of the existing exchanges.
#[derive(Debug, Clone, Copy)]
enum Event {
    Begin(u8),
    /// Do what the step requires, successfully.
    GoOn,
    Answer(Answer),
    BreakLine {
        timed_out: bool,
    },
    LoseLinkBeforeSending,
    LoseIdleOrBusyLink,
    /// Wake up or time out for no reason.
    Disturb,
    Cancel,
    RunWoken,
    Pass(u16),
    CloseClient,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Refused,
    Retryable,
    OpenCursor,
    Garbage,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..5u8).prop_map(Event::Begin),
        20 => Just(Event::GoOn),
        4 => prop_oneof![Just(Answer::Refused), Just(Answer::Retryable), Just(Answer::OpenCursor), Just(Answer::Garbage)]
            .prop_map(Event::Answer),
        3 => any::<bool>().prop_map(|timed_out| Event::BreakLine { timed_out }),
        1 => Just(Event::LoseLinkBeforeSending),
        3 => Just(Event::LoseIdleOrBusyLink),
        2 => Just(Event::Disturb),
        4 => Just(Event::Cancel),
        8 => Just(Event::RunWoken),
        2 => (0..2000u16).prop_map(Event::Pass),
    ]
}

/// A face without sockets: a set of links represents the open connections.
struct Face {
    bench: Bench,
    exchanges: BTreeMap<u64, Exchange>,
    open: BTreeSet<LinkId>,
    woken: Vec<u64>,
    sessions_out: usize,
    closed: bool,
}

impl Face {
    fn new() -> Self {
        let mut options = options();
        options.pool.max_pool_size = MAX_POOL_SIZE;
        options.pool.max_connecting = MAX_CONNECTING;
        options.pool.max_idle_time = Some(Duration::from_secs(5));
        options.wait_queue_timeout = Some(Duration::from_secs(4));
        options.server_selection_timeout = Duration::from_secs(3);
        Face {
            bench: Bench::new(options),
            exchanges: BTreeMap::new(),
            open: BTreeSet::new(),
            woken: Vec::new(),
            sessions_out: 0,
            closed: false,
        }
    }

    fn happen(&mut self, event: Event, which: usize) {
        match event {
            Event::Begin(kind) => self.begin(kind),
            Event::Pass(milliseconds) => self.bench.pass(u64::from(milliseconds)),
            Event::LoseIdleOrBusyLink => {
                if let Some(link) = self.open.iter().nth(which % self.open.len().max(1)).copied() {
                    self.bench.client.link_lost(self.bench.shard, link, self.bench.now);
                }
            }
            Event::RunWoken => self.run_woken(),
            Event::CloseClient => {
                self.closed = true;
                self.bench.client.close(self.bench.now);
            }
            _ => {
                let Some(key) = self.exchanges.keys().nth(which % self.exchanges.len().max(1)).copied()
                else {
                    return;
                };
                let mut exchange = self.exchanges.remove(&key).unwrap();
                if self.happen_to(&mut exchange, event) {
                    self.exchanges.insert(key, exchange);
                }
            }
        }
        self.deliver();
        self.check();
    }

    fn begin(&mut self, kind: u8) {
        let mut asked = match kind {
            0 | 1 => find(),
            2 => insert(),
            3 => operation(Kind::ReadOnce, &json!({"getMore": 1})),
            _ => operation(Kind::Write, &json!({"insert": "orders"})),
        };
        if kind == 4 {
            (asked.replies, asked.session) = (Replies::None, SessionChoice::None);
        }
        let exchange = self.bench.begin(asked);
        self.exchanges.insert(exchange.id().0, exchange);
    }

    /// Returns whether the exchange continues.
    fn happen_to(&mut self, exchange: &mut Exchange, event: Event) -> bool {
        let Bench { client, now, .. } = &mut self.bench;
        match (event, exchange.step()) {
            (Event::Cancel, _) | (_, Step::Done) => {
                exchange.close(client, *now);
                exchange.close(client, *now);
                assert_eq!(exchange.step(), Step::Done);
                self.sessions_out += usize::from(exchange.take_session().is_some());
                return false;
            }
            (_, Step::Write | Step::Read)
                if exchange.link().is_some_and(|link| !self.open.contains(&link)) =>
            {
                exchange.handle_network_error(client, "the server closed the connection", false, *now);
            }
            (Event::GoOn, Step::Connect) => {
                let link = self.bench.open(exchange);
                self.open.insert(link);
            }
            (Event::GoOn, Step::Write | Step::Read) if !exchange.expects_reply() => {
                exchange.handle_sent(client, *now);
            }
            (Event::GoOn, Step::Write | Step::Read) => {
                let hello = self.bench.hello.clone();
                self.bench.reply(exchange, &hello);
            }
            (Event::GoOn, Step::Sleep(until)) => {
                *now = (*now).max(until);
                exchange.handle_timeout(client, *now);
            }
            (Event::Answer(answer), Step::Write | Step::Read) if exchange.expects_reply() => {
                let document = match answer {
                    Answer::Refused => json!({"ok": 0, "code": 59, "errmsg": "no"}),
                    Answer::Retryable => {
                        json!({"ok": 0, "code": 91, "errmsg": "no", "errorLabels": ["RetryableWriteError"]})
                    }
                    Answer::OpenCursor => {
                        json!({"ok": 1, "cursor": {"id": 5, "ns": "a.b", "firstBatch": []}, "maxWireVersion": 21})
                    }
                    Answer::Garbage => {
                        exchange.handle_reply(client, &[1, 2, 3], *now);
                        return true;
                    }
                };
                self.bench.reply(exchange, &document);
            }
            (Event::BreakLine { timed_out }, Step::Connect | Step::Write | Step::Read) => {
                exchange.handle_network_error(client, "broken", timed_out, *now);
            }
            (Event::LoseLinkBeforeSending, Step::Write) => exchange.handle_link_lost(client, *now),
            (Event::Disturb, _) => {
                exchange.handle_wake(client, *now);
                exchange.handle_timeout(client, *now);
            }
            _ => {}
        }
        true
    }

    /// Closes links and wakes waiters, as a face does after every call.
    fn deliver(&mut self) {
        self.bench.discover();
        while self.bench.client.has_pending() {
            self.bench.client.poll_actions();
            for link in self.bench.client.poll_closing() {
                self.open.remove(&link);
            }
            self.woken.extend(self.bench.client.poll_wakers().iter().map(|waker| waker.0));
        }
    }

    /// Lets the woken exchanges run, later than they were woken.
    fn run_woken(&mut self) {
        for waker in std::mem::take(&mut self.woken) {
            if let Some(exchange) = self.exchanges.get_mut(&waker) {
                let waited = exchange.step() == Step::Wait;
                exchange.handle_wake(&mut self.bench.client, self.bench.now);
                let link = exchange.link().filter(|_| waited && exchange.step() == Step::Write);
                assert!(link.is_none_or(|link| self.open.contains(&link)), "granted a link that is closed");
            }
        }
    }

    fn check(&self) {
        let (idle, out, pending, waiting) = self.bench.sizes();
        assert!(idle + out + pending <= MAX_POOL_SIZE, "{:?}", self.bench.sizes());
        assert!(pending <= MAX_CONNECTING, "{:?}", self.bench.sizes());
        if !self.closed {
            let stuck =
                waiting > 0 && (idle > 0 || (out + pending < MAX_POOL_SIZE && pending < MAX_CONNECTING));
            assert!(!stuck, "an operation waits although a connection is free: {:?}", self.bench.sizes());
        }
        let held: Vec<_> = self.exchanges.values().filter_map(Exchange::link).collect();
        assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), held.len(), "two exchanges hold one link");
        for exchange in self.exchanges.values() {
            if exchange.step() == Step::Done && !exchange.more_to_come() {
                assert_eq!(exchange.link(), None, "a finished exchange holds a link");
            }
            if self.closed && exchange.step() == Step::Wait {
                assert!(
                    self.woken.contains(&exchange.id().0),
                    "a waiter was not told that the client is closed"
                );
            }
        }
    }

    /// Gives everything up; then only idle links may be open, and every session is back.
    fn finish(&mut self) {
        for (_, mut exchange) in std::mem::take(&mut self.exchanges) {
            self.bench.close(&mut exchange);
        }
        self.deliver();
        let (idle, out, pending, waiting) = self.bench.sizes();
        assert_eq!((out, pending, waiting), (0, 0, 0));
        assert_eq!(idle, self.open.len(), "open links that no pool knows: {:?}", self.open);
        let sessions = self.bench.client.drain_sessions();
        assert_eq!(
            sessions.iter().collect::<BTreeSet<_>>().len(),
            sessions.len(),
            "a session came back twice"
        );
        assert_eq!(self.sessions_out, 0, "a closed exchange kept its session");
        self.bench.client.close(self.bench.now);
        self.deliver();
        assert_eq!(self.open.len(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn closing_at_every_step_leaves_the_books_of_the_pool_right(
        events in prop::collection::vec((event(), any::<usize>()), 1..120)
    ) {
        let mut face = Face::new();
        for (event, which) in events {
            face.happen(event, which);
        }
        face.finish();
    }

    #[test]
    fn closing_the_client_at_any_moment_leaves_nothing_open(
        before in prop::collection::vec((event(), any::<usize>()), 1..60),
        after in prop::collection::vec((event(), any::<usize>()), 0..60),
    ) {
        let mut face = Face::new();
        for (event, which) in before {
            face.happen(event, which);
        }
        face.happen(Event::CloseClient, 0);
        for (event, which) in after {
            face.happen(event, which);
        }
        face.finish();
    }
}
