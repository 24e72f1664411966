//! The clients: each drives the real core as the faces do, with connections of the simulated network in place of sockets.

mod observer;
mod rebirth;
mod room;
mod steps;
mod upkeep;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use mangonel_proto::client::Client;
use mangonel_proto::compress::Codec;
use mangonel_proto::error::ProtocolError;
use mangonel_proto::events::Interests;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::frame::Deframer;
use mangonel_proto::ids::{LinkId, ShardId};
use mangonel_proto::time::Instant;
use mangonel_proto::topology::Address;

pub(crate) use self::observer::Observer;
use self::room::Room;
pub(crate) use self::steps::member_of;
pub(crate) use self::upkeep::LONGEST_WAKING;
use crate::chance::Chance;
use crate::desk::{Desk, Flow};
use crate::judge::{Heard, Ledger};
use crate::plan::Plan;
use crate::queue::{EPOCH, ms};
use crate::server::member::Duty;
use crate::workload;

/// A part of a client that can wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Agent {
    /// A worker.
    Worker(usize),
    /// The monitor of a member, or its pinger (`true`).
    Observer(usize, bool),
}

/// Runs one operation after another.
pub(crate) struct Worker {
    pub(crate) desk: Desk,
    pub(crate) flow: Option<Flow>,
    pub(crate) exchange: Option<Exchange>,
    /// The connection being opened.
    pub(crate) opening: Option<usize>,
    /// The pool's generation when the opening began.
    pub(crate) generation: u32,
    /// The connection that it held after the last step.
    pub(crate) link: Option<LinkId>,
    /// The number of its current wait; timers of earlier waits are ignored.
    pub(crate) ticket: u64,
    pub(crate) begun: Instant,
    /// How often its command was sent.
    pub(crate) sends: u32,
    /// The last reply.
    pub(crate) message: Vec<u8>,
    /// Whether its operation has stepped aside, and is not driven meanwhile.
    pub(crate) is_aside: bool,
    /// Its place in a wait queue, while it is in one.
    pub(crate) queued: Option<Queued>,
    /// Whether a server reported overload.
    pub(crate) met_overload: bool,
    /// How many handshake messages it sent after its time was over.
    pub(crate) late: u32,
    /// Since when the connection has no room for its message.
    pub(crate) full_since: Option<Instant>,
    /// How often a server required reauthentication.
    pub(crate) logins: u32,
    /// The memory for the chunks of its operation.
    pub(crate) room: Option<Room>,
    /// The request whose span is open.
    pub(crate) span: Option<i32>,
}

/// A place in a wait queue.
#[derive(Clone)]
pub(crate) struct Queued {
    /// The server, and the generation of its pool.
    pub(crate) at: (Option<Address>, u32),
    /// Its ticket: those before it in the queue have smaller ones.
    pub(crate) since: u64,
    /// Whether its turn had come. It may have lost the connection before it continued, while others were served.
    pub(crate) was_granted: bool,
}

/// A connection of the pool.
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) deframer: Deframer,
    pub(crate) codec: Codec,
    pub(crate) user: Option<usize>,
    /// The member closed it, or sent unrequested bytes.
    pub(crate) is_lost: bool,
    /// The pool's generation when the opening began.
    pub(crate) generation: u32,
    /// An error on a connection of its generation cleared the pool since.
    pub(crate) is_stale: bool,
    /// Whether the member sends more replies without requests.
    pub(crate) is_streaming: bool,
}

/// One client.
pub(crate) struct Driver {
    pub(crate) number: usize,
    pub(crate) client: Client,
    pub(crate) shard: ShardId,
    pub(crate) workers: Vec<Worker>,
    pub(crate) observers: BTreeMap<(usize, bool), Observer>,
    pub(crate) links: BTreeMap<LinkId, Link>,
    pub(crate) is_watchful: bool,
    pub(crate) chance: Chance,
    /// The newest cluster time in a reply to it.
    pub(crate) told: u64,
    pub(crate) keeps_up: bool,
    /// How many operations that could succeed have ended, and how many succeeded.
    pub(crate) ended: (u64, u64),
    /// The member that it considers the primary, and since when.
    pub(crate) primary: Option<(usize, Instant)>,
    /// When its process was suspended, and until when.
    naps: Vec<(Instant, Instant)>,
    /// The routers in its last answer from DNS.
    pub(crate) named: Option<u64>,
    /// The routers at whose addresses its monitors have since found a server outside the cluster.
    pub(crate) lost: BTreeSet<usize>,
    /// The newest token that its provider has given out.
    pub(crate) token: u64,
    /// The events that its listeners received.
    pub(crate) heard: Heard,
    /// How many counted operations have ended, and how many commands were sent again.
    pub(crate) counted: u64,
    /// The sessions that its commands have used.
    pub(crate) sessions: BTreeSet<[u8; 16]>,
    /// The sessions that its parent process had used before the fork.
    pub(crate) inherited: BTreeSet<[u8; 16]>,
    /// The members in whose place monitors met a stranger, and since when.
    pub(crate) strangers: BTreeMap<usize, Instant>,
    /// Whether answers to it were damaged.
    pub(crate) is_damaged: bool,
    /// How often it was forked.
    pub(crate) forks: i64,
}

impl Driver {
    pub(crate) fn new(number: usize, whole: &Plan, mut chance: Chance, ledger: &Rc<RefCell<Ledger>>) -> Self {
        let plan = &whole.clients[number];
        let interests = Interests(plan.interests);
        let mut first = plan.options.clone();
        if plan.is_reconfigured {
            // The URI's options are not known yet, and this server does not exist.
            first.topology.seeds = vec![Address::new("elsewhere.example", 27017)];
        }
        // Pools and servers publish their creation only once.
        let hears_late = plan.hears_late && !interests.contains(Interests(0b110));
        let mut client = if hears_late {
            Client::new(first, chance.bytes(), EPOCH)
        } else {
            Client::observed(first, interests, chance.bytes(), EPOCH)
        };
        client.set_interests(interests);
        if plan.is_reconfigured {
            client.reconfigure(plan.options.clone(), EPOCH);
        }
        if plan.is_counting {
            client.begin_counting();
        }
        let shard = client.open_shard();
        let workers = (0..plan.workers.len()).map(|worker| {
            let desk = Desk::new();
            let chance = Chance::new(chance.number(), 7);
            let flow = flow_of(whole, (number, worker), &desk, ledger, chance, 0);
            Worker::new(desk, Some(flow))
        });
        let workers = workers.collect();
        Driver {
            number,
            client,
            shard,
            workers,
            observers: BTreeMap::new(),
            links: BTreeMap::new(),
            is_watchful: plan.is_watchful,
            chance,
            told: 0,
            keeps_up: false,
            ended: (0, 0),
            primary: None,
            naps: Vec::new(),
            named: None,
            lost: BTreeSet::new(),
            token: 0,
            heard: Heard::default(),
            counted: 0,
            sessions: BTreeSet::new(),
            inherited: BTreeSet::new(),
            strangers: BTreeMap::new(),
            forks: 0,
            is_damaged: false,
        }
    }

    /// Suspends its process.
    pub(crate) fn suspend(&mut self, now: Instant, until: Instant) {
        self.naps.push((now, until));
    }

    /// Returns when it runs again; `None` while it runs.
    pub(crate) fn asleep_until(&self, now: Instant) -> Option<Instant> {
        self.naps.iter().map(|(_, until)| *until).max().filter(|until| *until > now)
    }

    /// Returns how long it was suspended since a moment.
    pub(crate) fn slept_since(&self, begun: Instant) -> Duration {
        let naps = self.naps.iter().filter(|(_, until)| *until > begun);
        naps.map(|(since, until)| until.saturating_since(*since)).sum()
    }

    /// Whether all workloads are over.
    pub(crate) fn is_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.flow.is_none())
    }

    /// Whether only monitors and pingers are busy.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_done() && self.workers.iter().all(|worker| worker.exchange.is_none())
    }

    /// Describes the operations that have not ended.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let is_busy = |worker: &Worker| worker.flow.is_some() || worker.exchange.is_some();
        let busy = self.workers.iter().enumerate().filter(|(_, worker)| is_busy(worker));
        busy.map(|(number, worker)| {
            let step = worker.exchange.as_ref().map(|exchange| {
                (exchange.step(), exchange.operation().command.name().to_owned(), exchange.server().cloned())
            });
            format!("client {} worker {number} {step:?}", self.number)
        })
        .collect()
    }
}

/// Makes the workload of a worker. `turn`: how many workloads it ran before.
fn flow_of(
    plan: &Plan,
    (client, worker): (usize, usize),
    desk: &Desk,
    ledger: &Rc<RefCell<Ledger>>,
    chance: Chance,
    turn: i64,
) -> Flow {
    workload::flow(workload::Place {
        work: plan.clients[client].workers[worker],
        client,
        worker,
        desk: desk.clone(),
        ledger: Rc::clone(ledger),
        chance,
        end: EPOCH + ms(plan.end),
        // A world that waits for DNS runs for long, so its clients act seldom.
        pace: if plan.srv.is_some() { 40 } else { 1 },
        has_delayed: plan.members.iter().any(|(duty, _)| *duty == Duty::Delayed),
        has_exhaust: plan.routers == 0,
        turn,
    })
}

/// Processes bytes. Returns whether a whole message has arrived.
fn feed(deframer: &mut Deframer, mut bytes: &[u8]) -> Result<bool, ProtocolError> {
    let mut is_whole = deframer.message().is_some();
    while !bytes.is_empty() {
        let window = deframer.window();
        let count = bytes.len().min(window.len());
        window[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        is_whole = deframer.received(count)?;
    }
    Ok(is_whole)
}

impl Worker {
    pub(crate) fn new(desk: Desk, flow: Option<Flow>) -> Self {
        Worker {
            desk,
            flow,
            exchange: None,
            opening: None,
            generation: 0,
            link: None,
            ticket: 0,
            begun: EPOCH,
            sends: 0,
            message: Vec::new(),
            is_aside: false,
            queued: None,
            met_overload: false,
            late: 0,
            full_since: None,
            logins: 0,
            room: None,
            span: None,
        }
    }

    /// Whether it is using a connection.
    pub(crate) fn uses(&self, link: LinkId) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| {
            exchange.link() == Some(link) && matches!(exchange.step(), Step::Write | Step::Read)
        })
    }
}
