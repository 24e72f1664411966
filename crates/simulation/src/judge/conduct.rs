//! Checks that a client sends only what it may send: numbers of writes, sessions, times, the first message.

use mangonel_bson::RawDocument;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::message::read_reply;
use mangonel_proto::topology::{Address, TopologyType};

use super::{Use, limit_of};
use crate::client::member_of;
use crate::network::Owner;
use crate::packing;
use crate::plan::{API_VERSION, address};
use crate::server::login::LOGINS;
use crate::wire::Request;
use crate::world::World;

impl World {
    /// Called when a whole message reached a member.
    pub(crate) fn judge_command(&mut self, line: usize, request: &Request<'_>) {
        let known = &self.network.lines[line];
        let is_hello = matches!(request.name, "hello" | "isMaster");
        let is_login = LOGINS.contains(&request.name);
        let is_observer = matches!(known.owner, Owner::Observer(..));
        let says_who = request.body.get_document("client").is_ok_and(|told| told.is_some());
        let packed = known.packs.map(|compressor| packing::NAMES[usize::from(compressor)]);
        let mut broken = Vec::new();
        if known.messages == 1 && !(is_hello && says_who) {
            broken.push("is the first message of a connection, expected hello".into());
        } else if known.messages > 1 && is_hello && matches!(known.owner, Owner::Link(_)) {
            broken.push("was sent again on a connection of the pool".into());
        }
        if self.plan.is_balanced() && is_observer {
            broken.push("was sent by a monitor to a load balancer".into());
        }
        let has_api = !self.plan.clients[known.client].options.server_api.is_empty();
        if request.body.get_str("apiVersion").ok().flatten() != has_api.then_some(API_VERSION) {
            broken.push("does not say the server API's version of its client".into());
        }
        let topology = &self.plan.clients[known.client].options.topology;
        if topology.is_direct && topology.seeds[0] != address(known.member) {
            broken.push("was not sent to the one server of its client".into());
        }
        if is_login && is_observer {
            broken.push("was sent by a monitor".into());
        }
        if !is_hello && !is_login && !self.set.logins.is_in(line) {
            broken.push("was sent before the user was let in".into());
        }
        match packed {
            Some(_) if is_hello || is_login => broken.push("was compressed".into()),
            Some(name) if !self.set.compressors.contains(&name) => {
                broken.push(format!("was compressed with {name}, which the server does not have"));
            }
            _ => {}
        }
        for what in broken {
            self.blame(format!("{} {what}", request.name));
        }
    }

    /// Called when a command is about to be sent.
    pub(crate) fn judge_send(&mut self, client: usize, worker: usize, request: &Request<'_>) {
        let now = self.queue.now();
        let driver = &self.drivers[client];
        let place = &driver.workers[worker];
        let Some(exchange) = &place.exchange else { return };
        let mut broken: Vec<String> = Vec::new();
        let met = exchange.server().and_then(|server| driver.strangers.get(&member_of(server.as_str())));
        // A message that waited for room was written earlier, and a server outside the set has no cluster time.
        let is_fresh = place.full_since.is_none() && met.is_none();
        if is_fresh
            && driver.told > 0
            && request.session.is_some()
            && request.cluster_time < Some(driver.told)
        {
            broken.push(format!("gossips {:?}, was told {}", request.cluster_time, driver.told));
        }
        if is_fresh && driver.client.is_closed() {
            broken.push("is sent by a closed client".into());
        }
        let (session, number) = exchange.stamped_session(&driver.client).unzip();
        if (session, number.flatten()) != (request.session, request.number) {
            broken.push(format!("is said to be number {number:?} in another session than it is"));
        }
        let shown = exchange.sent_document();
        let shown = RawDocument::from_bytes(&shown).ok().and_then(|shown| shown.iter().next()?.ok());
        if shown.is_none_or(|first| first.key != request.name) {
            broken.push("is shown as another command".into());
        }
        if let Some(limit) = limit_of(exchange, driver.client.options().timeout) {
            let until = place.begun + limit;
            let left = until.saturating_since(now).as_millis() as u64;
            if now >= until {
                broken.push("is sent when its time is over".into());
            }
            let has_none = matches!(request.name, "getMore" | "killCursors");
            if !has_none && request.max_time.is_none_or(|most| most > left) {
                broken.push(format!("has maxTimeMS {:?}, and {left} ms are left", request.max_time));
            }
        }
        if request.name == "commitTransaction"
            && place.sends > 1
            && !place.met_overload
            && place.logins == 0
            && !request.wants_majority
        {
            broken.push("repeats a commit without asking for a majority".into());
        }
        let id = exchange.id();
        let is_implicit = exchange.session().is_some();
        // A client that knows only its seeds may take the first server that it meets for the deployment; so may a
        // forked child.
        let is_single = driver.client.description().topology_type == TopologyType::Single;
        let is_new = driver.forks > 0 && driver.client.options().topology.set_name.is_none();
        let is_free =
            exchange.operation().server.is_none() && !request.is_in_transaction && !is_single && !is_new;
        if is_free && met.is_some_and(|since| *since < place.begun) {
            broken.push("goes to a server that is none of the set".into());
        }
        if request.session.is_some_and(|session| driver.inherited.contains(&session)) {
            broken.push("uses a session of the process that it was forked from".into());
        }
        self.drivers[client].sessions.extend(request.session);
        let mut ledger = self.ledger.borrow_mut();
        if let Some(session) = request.session {
            // A cursor stays in the session that it was opened in.
            let is_new = is_implicit && request.name != "getMore";
            if is_new && ledger.spoiled.get(&session).is_some_and(|spoiler| *spoiler != id) {
                broken.push("uses a session whose state on the server is not known".into());
            }
            if let Some(number) = request.number {
                let last = ledger.uses.get(&session).copied();
                let is_fine = match last {
                    None => true,
                    Some(last) if last.exchange == id => {
                        // A statement is sent again only when it was refused unseen, and then starts again.
                        last.number == number && (request.is_starting || !last.is_starting)
                    }
                    Some(last) if request.is_in_transaction && !request.is_starting => {
                        last.number == number && last.is_transaction
                    }
                    Some(last) if request.is_starting && last.number == number => {
                        // The transaction was refused before it began, so it begins again.
                        last.is_transaction
                    }
                    Some(last) => number > last.number,
                };
                if !is_fine {
                    broken.push(format!("has number {number} after {last:?}"));
                }
                let is_transaction = request.is_in_transaction;
                let is_starting = request.is_starting;
                ledger.uses.insert(session, Use { number, exchange: id, is_transaction, is_starting });
                if let Some(intent) = request.intent {
                    let first = *ledger.numbers.entry(intent).or_insert((session, number));
                    if first != (session, number) {
                        broken
                            .push(format!("repeats write {intent} as number {number}, first as {}", first.1));
                    }
                }
            }
        }
        if request.is_in_transaction && request.number.is_none() {
            broken.push("belongs to a transaction and has no number".into());
        }
        drop(ledger);
        for what in broken {
            self.blame(format!("client {client}: {} {what}", request.name));
        }
    }

    /// Checks which spans a worker's exchange begins and ends: one end for each beginning, and one span at a time.
    pub(crate) fn note_span(&mut self, client: usize, worker: usize) {
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let Some(exchange) = &mut place.exchange else { return };
        if let Err(what) = take_span(&mut place.span, exchange) {
            self.blame(format!("client {client}: {what}"));
        }
    }

    /// Called when an exchange is over, and its span with it.
    pub(crate) fn judge_span_end(&mut self, client: usize, worker: usize, exchange: &mut Exchange) {
        let place = &mut self.drivers[client].workers[worker];
        let mut told = take_span(&mut place.span, exchange);
        if let (Some(request), Ok(())) = (place.span.take(), &told) {
            told = Err(format!("the span of request {request} has no end"));
        }
        if let Err(what) = told {
            self.blame(format!("client {client}: {what}"));
        }
    }

    /// Called when the connection of a worker's command is about to be reported as broken. Returns its server and
    /// generation if its pool must be cleared.
    pub(crate) fn note_break(&mut self, client: usize, worker: usize) -> Option<(Address, u32)> {
        let driver = &mut self.drivers[client];
        let exchange = driver.workers[worker].exchange.as_ref()?;
        if exchange.is_handshake() || exchange.step() != Step::Read {
            return None;
        }
        let id = exchange.id();
        if let Some(session) = Request::read(exchange.outbound()).and_then(|request| request.session) {
            self.ledger.borrow_mut().spoiled.insert(session, id);
        }
        let (server, link) = (exchange.server().cloned()?, exchange.link()?);
        let generation = driver.client.pool(&server, driver.shard)?.generation();
        let member = self.server_of(client, worker);
        let lines = &self.network.lines;
        let driver = &mut self.drivers[client];
        let is_current = driver.links.get(&link).is_some_and(|known| known.generation == generation);
        if is_current {
            for known in driver.links.values_mut() {
                known.is_stale |= Some(lines[known.line].member) == member && known.generation <= generation;
            }
        }
        // Behind a load balancer each service has its own generation.
        (is_current && !self.plan.is_balanced()).then_some((server, generation))
    }
}

/// Returns the cluster time in a reply; 0 for none.
pub(crate) fn time_told(message: &[u8]) -> u64 {
    let time = read_reply(message).ok().and_then(|reply| reply.body.get_document("$clusterTime").ok()?);
    let time = time.and_then(|time| time.get_timestamp("clusterTime").ok()?);
    time.map_or(0, |time| time.to_u64())
}

/// Processes an exchange's reports of its spans. `open`: the request whose span is open.
fn take_span(open: &mut Option<i32>, exchange: &mut Exchange) -> Result<(), String> {
    if open.is_some() && exchange.take_command_end().is_some() {
        *open = None;
    }
    if let Some(facts) = exchange.take_command_start()
        && let Some(other) = open.replace(facts.request_id)
    {
        return Err(format!("the span of {} began within that of request {other}", facts.name));
    }
    match exchange.take_command_end() {
        Some(end) => match open.take() {
            Some(_) => Ok(()),
            None => Err(format!("a span ended that had not begun: {end:?}")),
        },
        None => Ok(()),
    }
}
