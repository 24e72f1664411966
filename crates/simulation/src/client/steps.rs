//! Carries out the steps of exchanges: connect, write, read, wait, sleep. The faces do the same with sockets.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use mangonel_bson::RawValue;
use mangonel_proto::auth::Mechanism;
use mangonel_proto::auth::external::{Hidden, Prompt, Word};
use mangonel_proto::auth::scram::{KeyCache, KeyRequest, Keys};
use mangonel_proto::compress::Codec;
use mangonel_proto::error::{Failure, ProtocolError};
use mangonel_proto::exchange::{Answer, Exchange, Question, Step};
use mangonel_proto::frame::Deframer;
use mangonel_proto::ids::{ExchangeId, LinkId};
use mangonel_proto::message::read_reply;
use mangonel_proto::operation::Operation;
use mangonel_proto::pool::Pool;
use mangonel_proto::read_preference::Mode;

use super::room::{Room, Taken};
use super::{Agent, Link, feed};
use crate::desk::{Ask, Ending};
use crate::judge::time_told;
use crate::network::{Chunk, Owner};
use crate::packing;
use crate::plan;
use crate::queue::ms;
use crate::server::login::{LOGINS, REAUTHENTICATION_REQUIRED, TOKEN};
use crate::server::member::Duty;
use crate::trace::Who;
use crate::wire::{Request, name_of};
use crate::world::{Event, World};

/// How many milliseconds an answer takes: keys are derived, tokens fetched.
const ANSWERING: &[u64] = &[5, 5, 5, 80, 600];
/// For how many milliseconds an operation steps aside.
const ASIDE: &[u64] = &[0, 1, 30, 700];
/// How long a worker waits before it checks whether a full connection has room.
const DRAINING: Duration = ms(10);

/// Returns the member of an address.
pub(crate) fn member_of(address: &str) -> usize {
    address.strip_prefix('m').and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or_default()
}

impl World {
    /// Begins a worker's work.
    pub(crate) fn begin(&mut self, client: usize, worker: usize) {
        self.go_on_with(client, worker, None);
    }

    /// Passes a workload its result, and does what it requests next.
    pub(super) fn go_on_with(&mut self, client: usize, worker: usize, answer: Option<Box<Ending>>) {
        let mut answer = answer;
        let now = self.queue.now();
        loop {
            let driver = &mut self.drivers[client];
            let place = &mut driver.workers[worker];
            let Some(flow) = &mut place.flow else { return };
            match place.desk.go_on(flow, answer.take(), now) {
                None => {
                    place.flow = None;
                    return;
                }
                Some(Ask::Change(change)) => {
                    change(&mut driver.client, now);
                    answer = Some(Box::default());
                }
                Some(Ask::Sleep(delay)) => {
                    place.ticket = self.queue.ticket();
                    let ticket = self.drivers[client].workers[worker].ticket;
                    self.queue.after(delay, Event::Timer(client, Agent::Worker(worker), ticket));
                    return;
                }
                Some(Ask::Run(operation, room)) => {
                    place.room = room.map(Room::new);
                    self.run_operation(client, worker, *operation);
                    return;
                }
            }
        }
    }

    /// Begins an operation.
    pub(crate) fn run_operation(&mut self, client: usize, worker: usize, mut operation: Operation) {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        operation.is_traced = self.plan.clients[client].is_traced && !driver.client.ends_nothing(&operation);
        let is_aside = !operation.is_filling && driver.chance.percent(self.plan.clients[client].asides);
        let begin = if is_aside { Exchange::begin_aside } else { Exchange::begin };
        let exchange = begin(&mut driver.client, driver.shard, operation, now);
        let place = &mut driver.workers[worker];
        place.is_aside = false;
        (place.begun, place.sends, place.queued, place.met_overload) = (now, 0, None, false);
        (place.logins, place.late, place.full_since) = (0, 0, None);
        place.message.clear();
        let is_over = exchange.step() == Step::Done;
        place.exchange = Some(exchange);
        if is_aside && !is_over {
            return self.wait_aside(client, worker);
        }
        self.drive(client, worker);
    }

    /// Lets an operation step aside.
    fn wait_aside(&mut self, client: usize, worker: usize) {
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        (place.is_aside, place.ticket) = (true, self.queue.ticket());
        let (ticket, delay) = (place.ticket, ms(driver.chance.pick(ASIDE)));
        self.queue.after(delay, Event::Timer(client, Agent::Worker(worker), ticket));
    }

    /// Does the exchange's steps until it must wait.
    pub(crate) fn drive(&mut self, client: usize, worker: usize) {
        loop {
            let now = self.queue.now();
            let ticket = self.queue.ticket();
            let driver = &mut self.drivers[client];
            let place = &mut driver.workers[worker];
            place.ticket = ticket;
            let Some(exchange) = &mut place.exchange else { return };
            if exchange.is_check_out_due() {
                exchange.handle_check_out(&mut driver.client, now);
                continue;
            }
            self.note_link(client, worker);
            self.note_queue(client, worker);
            self.note_span(client, worker);
            let driver = &mut self.drivers[client];
            let place = &mut driver.workers[worker];
            let Some(exchange) = &mut place.exchange else { return };
            let agent = Agent::Worker(worker);
            let (step, me) = (exchange.step(), Who::Client(client));
            self.trace.note(now, me, me, || {
                let (name, failure) = (exchange.operation().command.name(), exchange.failure());
                let how = failure.map_or(String::new(), |failure| format!(", {failure:?}"));
                format!("worker {worker}: {name} {step:?} on {:?}{how}", exchange.link())
            });
            let asides = self.plan.clients[client].asides;
            let may_step_aside = step == Step::Connect || (step == Step::Wait && place.queued.is_some());
            if may_step_aside && !exchange.operation().is_filling && driver.chance.percent(asides) {
                exchange.step_aside(&mut driver.client, now);
                place.queued = None;
                let opening = place.opening.take();
                self.wait_aside(client, worker);
                return opening.into_iter().for_each(|line| self.close_client(line));
            }
            match step {
                Step::Connect => {
                    let host = exchange.server().map_or(0, |server| member_of(server.as_str()));
                    if place.opening.is_none() && self.unnamed.contains(&(client, host)) {
                        let message = "the name is not known";
                        exchange.handle_name_error(&mut driver.client, message, now);
                        continue;
                    }
                    if place.opening.is_none() {
                        let member = exchange.server().map_or(0, |server| member_of(server.as_str()));
                        let pool = driver.client.pool(&plan::address(member), driver.shard);
                        place.generation = pool.map_or(0, Pool::generation);
                        let line = self.open_line(client, Owner::Worker(worker), member);
                        self.drivers[client].workers[worker].opening = Some(line);
                    }
                    return self.limit(client, worker);
                }
                Step::Write => {
                    if self.write_out(client, worker) {
                        continue;
                    }
                    return;
                }
                Step::Read => {
                    let link = exchange.link();
                    self.limit(client, worker);
                    return self.read_on(client, link);
                }
                Step::Wait => {
                    if let Some(deadline) = exchange.deadline(&driver.client) {
                        self.queue.at(deadline, Event::Timer(client, agent, ticket));
                    }
                    return;
                }
                Step::Sleep(until) => {
                    self.queue.at(until, Event::Timer(client, agent, ticket));
                    return;
                }
                Step::Ask => {
                    let question = exchange.question();
                    let driver = &mut self.drivers[client];
                    let Some(exchange) = &mut driver.workers[worker].exchange else { return };
                    match question {
                        Some(Question::Servers(servers)) => {
                            let kept = servers.iter().filter(|_| driver.chance.percent(90));
                            let chosen = kept.map(|server| server.address.clone()).collect();
                            exchange.handle_answer(&mut driver.client, Answer::Servers(chosen), now);
                        }
                        // Another thread derives them.
                        Some(Question::Keys(_) | Question::Word(..)) => {
                            let took = ms(driver.chance.pick(ANSWERING));
                            let left = exchange.answer_timeout(now).unwrap_or(took).min(took);
                            self.queue.after(left, Event::Timer(client, agent, ticket));
                            return;
                        }
                        _ => exchange.handle_no_answer(&mut driver.client, now),
                    }
                }
                Step::Done => return self.finish(client, worker),
            }
        }
    }

    /// Sends the current message. Returns whether another step is due at once.
    fn write_out(&mut self, client: usize, worker: usize) -> bool {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let Some(exchange) = &mut place.exchange else { return false };
        let Some(link) = exchange.link() else { return false };
        let Some(known) = driver.links.get_mut(&link) else {
            place.full_since = None;
            let message = "another thread closed the connection";
            exchange.handle_network_error(&mut driver.client, message, false, now);
            return true;
        };
        if known.is_lost {
            place.full_since = None;
            exchange.handle_link_lost(&mut driver.client, now);
            let goes_on = exchange.step() != Step::Write || exchange.link() != Some(link);
            if !goes_on {
                self.blame(format!("client {client} tries a lost connection without end"));
            }
            return goes_on;
        }
        let (line, is_streaming) = (known.line, known.is_streaming);
        exchange.announce(&mut driver.client, now);
        let message = exchange.outbound().to_vec();
        let is_login = name_of(&message).is_some_and(|name| LOGINS.contains(&name));
        let is_command = !exchange.is_handshake() && !is_login;
        place.late += u32::from(!is_command && exchange.answer_timeout(now) == Some(Duration::ZERO));
        let compressor = driver.client.compressor(link).filter(|_| exchange.may_compress());
        let mut packed = Vec::new();
        if let Some(compressor) = compressor
            && known.codec.compress(compressor, &message, &mut packed).is_err()
        {
            self.blame(format!("client {client} could not compress a message"));
            return false;
        }
        // Part of the message may go out at once, so this counts as sending it.
        if is_command && place.full_since.is_none() {
            place.sends += 1;
            match Request::read(&message) {
                Some(_) if is_streaming => {
                    self.blame(format!("client {client} sends on a connection from which more is to come"));
                }
                Some(request) => self.judge_send(client, worker, &request),
                None => self.blame(format!("client {client} sends what is no message")),
            }
        }
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        if !self.network.has_room(line, message.len(), self.plan.buffer) {
            // The system takes the message once the server has read some bytes; until then the step continues.
            place.full_since.get_or_insert(now);
            let ticket = place.ticket;
            self.queue.after(DRAINING, Event::Drained(client, worker, ticket));
            self.limit(client, worker);
            return false;
        }
        place.full_since = None;
        if let Some(room) = place.room.as_mut().filter(|_| is_command) {
            // Bytes that an earlier attempt received do not belong to this one.
            *room = Room::new(room.bytes.len());
        }
        let Some(exchange) = &mut place.exchange else { return false };
        let is_answered = exchange.expects_reply();
        let sent = if packed.is_empty() { message.len() } else { packed.len() };
        driver.client.count_bytes(sent, 0);
        exchange.handle_sent(&mut driver.client, now);
        self.send(line, true, Chunk::Bytes(if packed.is_empty() { message } else { packed }));
        if !is_answered {
            return true;
        }
        self.limit(client, worker);
        false
    }

    /// Sends the rest of a message if its connection now has room.
    pub(crate) fn go_on_writing(&mut self, client: usize, worker: usize, ticket: u64) {
        let place = &self.drivers[client].workers[worker];
        let is_writing = place.exchange.as_ref().is_some_and(|exchange| exchange.step() == Step::Write);
        if place.ticket == ticket && is_writing && self.write_out(client, worker) {
            self.drive(client, worker);
        }
    }

    /// Schedules the end of the step that was just begun.
    fn limit(&mut self, client: usize, worker: usize) {
        let driver = &self.drivers[client];
        let place = &driver.workers[worker];
        let now = self.queue.now();
        let limit = place.exchange.as_ref().and_then(|exchange| exchange.step_timeout(&driver.client, now));
        if let Some(limit) = limit {
            let ticket = place.ticket;
            self.queue.at(now + limit, Event::Timer(client, Agent::Worker(worker), ticket));
        }
    }

    /// Records which connection a worker has, and which it gave up.
    fn note_link(&mut self, client: usize, worker: usize) {
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let link = place.exchange.as_ref().and_then(Exchange::link);
        if place.link == link {
            return;
        }
        if let Some(known) = place.link.and_then(|old| driver.links.get_mut(&old)) {
            known.user = None;
        }
        place.link = link;
        let taken = link.and_then(|new| driver.links.get_mut(&new));
        let other = taken.and_then(|known| known.user.replace(worker)).filter(|&other| other != worker);
        if let Some(other) = other {
            self.blame(format!("client {client} gave connection {link:?} to workers {other} and {worker}"));
        }
    }

    /// Turns a finished exchange into the operation's result, and lets the workload continue.
    fn finish(&mut self, client: usize, worker: usize) {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let Some(mut exchange) = place.exchange.take() else { return };
        let is_kept = exchange.keeps_link();
        exchange.count_end(&mut driver.client, now);
        driver.counted += u64::from(is_counted(&exchange));
        let mut message = exchange.take_earlier_reply().unwrap_or_else(|| std::mem::take(&mut place.message));
        // A message that was refused, or that an earlier attempt received, is no reply.
        if !matches!(exchange.failure(), None | Some(Failure::Command)) {
            message.clear();
        }
        let has_cursor = exchange.facts().cursor.as_ref().is_some_and(|cursor| cursor.id != 0);
        let session = if exchange.failure().is_none() && has_cursor { exchange.take_session() } else { None };
        let pinned = exchange.link().filter(|_| is_kept && has_cursor && exchange.failure().is_none());
        self.judge_span_end(client, worker, &mut exchange);
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let ending = Ending {
            pinned,
            begun: Some(place.begun),
            ended: Some(now),
            body: message.get(21..).unwrap_or_default().to_vec(),
            failure: exchange.failure().cloned(),
            facts: exchange.facts().clone(),
            sends: place.sends,
            label: exchange.label(),
            is_overload: exchange.is_overload_error(),
            is_cancelled: false,
            server: exchange.server().cloned(),
            session,
            room: place.room.take().map(|room| room.bytes),
        };
        exchange.give_up(&mut driver.client, is_kept && pinned.is_none(), now);
        self.note_link(client, worker);
        self.report.operations += 1;
        let wants_secondary =
            exchange.operation().read_preference.as_ref().is_some_and(|wish| wish.mode() == Mode::Secondary);
        let bearing = self.plan.members.iter().filter(|(duty, _)| *duty == Duty::Bearing).count();
        let has_tags =
            exchange.operation().read_preference.as_ref().is_some_and(|wish| !wish.tag_sets().is_empty());
        // A set of one has no secondary to read from, and no member with every tag.
        if (bearing > 1 || !wants_secondary) && !has_tags && !ended_nothing(&exchange) {
            let counted = &mut self.drivers[client].ended;
            *counted = (counted.0 + 1, counted.1 + u64::from(ending.is_ok()));
        }
        self.judge_ending(client, worker, &exchange, &ending);
        self.go_on_with(client, worker, Some(Box::new(ending)));
    }

    /// Gives up a worker's operation, as a cancelled task does, and lets the worker continue.
    pub(crate) fn cancel(&mut self, client: usize, worker: usize) {
        if let Some(ending) = self.give_up(client, worker) {
            self.follow_up(client);
            self.go_on_with(client, worker, Some(Box::new(ending)));
        }
    }

    /// Gives up a worker's operation. Returns how that ended; `None` if it had none.
    pub(super) fn give_up(&mut self, client: usize, worker: usize) -> Option<Ending> {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let mut exchange = place.exchange.take()?;
        let is_kept = exchange.keeps_link();
        exchange.give_up(&mut driver.client, is_kept, now);
        place.room = None;
        driver.counted += u64::from(is_counted(&exchange));
        let opening = place.opening.take();
        let ending = Ending {
            begun: Some(place.begun),
            ended: Some(now),
            sends: place.sends,
            is_cancelled: true,
            ..Ending::default()
        };
        self.trace
            .note(now, Who::Client(client), Who::Client(client), || format!("worker {worker} is cancelled"));
        if let Some(line) = opening {
            self.close_client(line);
        }
        self.note_link(client, worker);
        self.judge_span_end(client, worker, &mut exchange);
        Some(ending)
    }

    /// Called when the time of an agent's wait is over.
    pub(crate) fn time_over(&mut self, client: usize, agent: Agent, ticket: u64) {
        let worker = match agent {
            Agent::Observer(member, is_pinger) => {
                return self.observer_time_over(client, member, is_pinger, ticket);
            }
            Agent::Worker(worker) => worker,
        };
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        if place.ticket != ticket {
            return;
        }
        let Some(exchange) = &mut place.exchange else {
            return self.go_on_with(client, worker, Some(Box::default()));
        };
        match exchange.step() {
            _ if std::mem::take(&mut place.is_aside) => {
                place.begun = now;
                exchange.resume(&mut driver.client, now);
            }
            Step::Wait | Step::Sleep(_) => exchange.handle_timeout(&mut driver.client, now),
            Step::Ask if driver.chance.percent(self.plan.clients[client].unanswered) => {
                exchange.handle_no_answer(&mut driver.client, now);
            }
            Step::Ask => {
                let answer = match exchange.question() {
                    Some(Question::Keys(request)) => Answer::Keys(derived(&request)),
                    Some(Question::Word(mechanism, prompt)) => {
                        Answer::Word(next_word(mechanism, &prompt, &mut driver.token))
                    }
                    _ => return,
                };
                exchange.handle_answer(&mut driver.client, answer, now);
            }
            _ => {
                let opening = place.opening.take();
                place.full_since = None;
                exchange.handle_network_error(&mut driver.client, "timed out", true, now);
                if let Some(line) = opening {
                    self.close_client(line);
                }
            }
        }
        self.drive(client, worker);
    }

    /// Called when a connection that a client opens is established.
    pub(crate) fn client_connected(&mut self, line: usize) {
        let now = self.queue.now();
        let known = &self.network.lines[line];
        let client = known.client;
        let worker = match known.owner {
            Owner::Worker(worker) => worker,
            Owner::Observer(member, is_pinger) => return self.observer_connected(client, member, is_pinger),
            Owner::Link(_) => return,
        };
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        if place.opening != Some(line) {
            return;
        }
        place.opening = None;
        let Some(exchange) = &mut place.exchange else { return };
        let link = exchange.opening().unwrap_or_else(|| driver.client.next_link());
        let made = Link {
            line,
            deframer: Deframer::default(),
            codec: Codec::default(),
            user: None,
            is_lost: false,
            generation: place.generation,
            is_stale: false,
            is_streaming: false,
        };
        driver.links.insert(link, made);
        self.network.lines[line].owner = Owner::Link(link);
        exchange.handle_connected(&mut driver.client, link, now);
        self.drive(client, worker);
    }

    /// Called when bytes reached a client.
    pub(crate) fn client_received(&mut self, line: usize, bytes: &[u8]) {
        let known = &self.network.lines[line];
        let client = known.client;
        match known.owner {
            Owner::Worker(_) => {}
            Owner::Observer(member, is_pinger) => self.observer_received(client, member, is_pinger, bytes),
            Owner::Link(link) => self.link_received(client, link, bytes),
        }
    }

    fn link_received(&mut self, client: usize, link: LinkId, bytes: &[u8]) {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let Some(known) = driver.links.get_mut(&link) else { return };
        let Some(worker) = known.user.filter(|&worker| driver.workers[worker].uses(link)) else {
            if known.is_streaming {
                // Read at the observer's next step.
                if feed(&mut known.deframer, bytes).is_err() {
                    known.is_lost = true;
                    if driver.is_damaged {
                        return;
                    }
                    self.blame(format!("client {client} cannot read ahead on {link:?}"));
                }
                return;
            }
            known.is_lost = true;
            if driver.is_watchful {
                driver.client.link_lost(driver.shard, link, now);
            }
            return;
        };
        let mut left = bytes;
        let mut filtered = None;
        let aside;
        let place = &mut driver.workers[worker];
        let is_command = place.exchange.as_ref().is_some_and(|exchange| !exchange.is_handshake());
        // A message that began to arrive before it was requested bypasses the filter.
        let is_filtered = is_command && known.deframer.is_empty();
        if let Some(room) = place.room.as_mut().filter(|room| is_filtered && !room.is_plain) {
            match room.take_in(bytes) {
                Taken::Part => return,
                Taken::Whole(message, rest) => (aside, filtered) = (rest, Some(message)),
                Taken::Plain(message) => (aside, room.is_plain) = (message, true),
            }
            left = &aside;
        }
        let is_whole = match feed(&mut known.deframer, left) {
            Ok(is_whole) => is_whole,
            Err(error) => return self.refuse_message(client, worker, &error),
        };
        let message = match filtered {
            Some(message) => message,
            None if !is_whole => return,
            None => match known.deframer.take() {
                Ok(message) => message,
                Err(error) => return self.refuse_message(client, worker, &error),
            },
        };
        let has_more = !known.deframer.is_empty();
        let message = match packing::is_packed(&message).then(|| known.codec.decompress(&message)) {
            None => message,
            Some(Ok(message)) => message,
            Some(Err(error)) => return self.refuse_message(client, worker, &error.into()),
        };
        let driver = &mut self.drivers[client];
        let place = &mut driver.workers[worker];
        let Some(exchange) = &mut place.exchange else { return };
        // The next message may be filtered again.
        place.room.iter_mut().for_each(|room| room.is_plain = false);
        driver.client.count_bytes(0, message.len());
        let is_command =
            is_command && name_of(exchange.outbound()).is_none_or(|name| !LOGINS.contains(&name));
        exchange.handle_reply(&mut driver.client, &message, now);
        let is_streaming = exchange.more_to_come();
        if !matches!(exchange.failure(), Some(Failure::Protocol(_))) {
            driver.told = driver.told.max(time_told(&message));
        }
        if let Some(known) = driver.links.get_mut(&link) {
            known.is_streaming = is_streaming;
        }
        // A damaged answer ends a stream of which more has arrived.
        if has_more && !is_streaming && !driver.is_damaged {
            return self.blame(format!("client {client} got more than one message on {link:?}"));
        }
        if is_command {
            place.logins += u32::from(exchange.facts().code == Some(REAUTHENTICATION_REQUIRED));
            place.met_overload |= exchange.facts().labels.is_overloaded || overloads(&message);
            place.message = message;
        }
        self.drive(client, worker);
    }

    /// Called when a worker received bytes that the core refuses; the judges decide whether it should have.
    fn refuse_message(&mut self, client: usize, worker: usize, error: &ProtocolError) {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        if let Some(exchange) = &mut driver.workers[worker].exchange {
            exchange.handle_protocol_error(&mut driver.client, &error.to_string(), now);
        }
        self.drive(client, worker);
    }

    /// Reads messages that arrived on a connection before they were requested.
    fn read_on(&mut self, client: usize, link: Option<LinkId>) {
        let known = link.and_then(|link| Some((link, self.drivers[client].links.get_mut(&link)?)));
        let Some((link, known)) = known.filter(|(_, known)| known.is_streaming) else { return };
        let (is_lost, user) = (known.is_lost, known.user);
        if known.deframer.message().is_some() {
            return self.link_received(client, link, &[]);
        }
        let worker = user.filter(|&worker| is_lost && self.drivers[client].workers[worker].uses(link));
        if let Some(worker) = worker {
            self.break_link(client, worker);
        }
    }

    /// Called when the other side closed a connection, or no longer has it.
    pub(crate) fn client_hears_end(&mut self, line: usize) {
        let now = self.queue.now();
        let known = &mut self.network.lines[line];
        let client = known.client;
        let owner = known.owner;
        match owner {
            Owner::Observer(member, is_pinger) => {
                known.is_client_open = false;
                self.network.settle(line);
                self.observer_lost(client, member, is_pinger, false);
            }
            Owner::Worker(worker) => {
                known.is_client_open = false;
                self.network.settle(line);
                let driver = &mut self.drivers[client];
                let place = &mut driver.workers[worker];
                if place.opening == Some(line) {
                    place.opening = None;
                    if let Some(exchange) = &mut place.exchange {
                        exchange.handle_network_error(&mut driver.client, "connection refused", false, now);
                    }
                    self.drive(client, worker);
                }
            }
            Owner::Link(link) => {
                let driver = &mut self.drivers[client];
                let Some(known) = driver.links.get_mut(&link) else { return };
                known.is_lost = true;
                let user = known.user.filter(|&worker| driver.workers[worker].uses(link));
                match user {
                    Some(worker) => self.break_link(client, worker),
                    None if driver.is_watchful && !known.is_streaming => {
                        driver.client.link_lost(driver.shard, link, now)
                    }
                    None => {}
                }
            }
        }
    }

    /// Called when a worker's connection broke.
    pub(crate) fn break_link(&mut self, client: usize, worker: usize) {
        let now = self.queue.now();
        let broken = self.note_break(client, worker);
        let driver = &mut self.drivers[client];
        driver.workers[worker].full_since = None;
        if let Some(exchange) = &mut driver.workers[worker].exchange {
            exchange.handle_network_error(&mut driver.client, "connection reset", false, now);
        }
        if let Some((server, generation)) = broken
            && driver.client.pool(&server, driver.shard).is_some_and(|pool| pool.generation() == generation)
        {
            self.blame(format!(
                "client {client}: the pool of {server} was not cleared when a connection broke"
            ));
        }
        self.drive(client, worker);
    }

    /// Continues a woken worker, unless it has already continued.
    pub(crate) fn wake_late(&mut self, client: usize, worker: usize, id: ExchangeId) {
        let place = &self.drivers[client].workers[worker];
        let is_waiting = |exchange: &Exchange| exchange.id() == id && exchange.step() == Step::Wait;
        if place.exchange.as_ref().is_some_and(is_waiting) && !place.is_aside {
            self.wake(client, worker);
        }
    }

    /// Called when a grant or a change of the deployment may have arrived for a worker.
    pub(crate) fn wake(&mut self, client: usize, worker: usize) {
        let now = self.queue.now();
        let driver = &mut self.drivers[client];
        let Some(exchange) = &mut driver.workers[worker].exchange else { return };
        if !driver.client.should_wake(exchange.id()) {
            return;
        }
        exchange.handle_wake(&mut driver.client, now);
        self.drive(client, worker);
    }

    /// Returns the member to which a worker's exchange goes.
    pub(crate) fn server_of(&self, client: usize, worker: usize) -> Option<usize> {
        let exchange = self.drivers[client].workers[worker].exchange.as_ref()?;
        let server = exchange.server()?;
        debug_assert_eq!(*server, plan::address(member_of(server.as_str())));
        Some(member_of(server.as_str()))
    }
}

/// Returns the client's next message in a mechanism for which the core knows only the order of messages.
fn next_word(mechanism: Mechanism, prompt: &Prompt, token: &mut u64) -> Word {
    if mechanism == Mechanism::Oidc {
        if prompt.refused.is_some_and(|refused| refused >= *token) {
            *token += 1;
        }
        // To the core, 0 means no token.
        *token = (*token).max(1);
        let payload = Hidden(format!("{TOKEN}{token}").into_bytes());
        return Word { payload, token: *token, has_successor: true, is_last: true };
    }
    let said = prompt.challenge.as_deref().and_then(|challenge| challenge.strip_prefix(b"challenge "));
    let said: u32 = said.and_then(|said| std::str::from_utf8(said).ok()?.parse().ok()).unwrap_or_default();
    let most = if mechanism == Mechanism::Gssapi { 2 } else { 1 };
    let payload = Hidden(format!("word {said}").into_bytes());
    Word { payload, token: 0, has_successor: false, is_last: said == most }
}

/// Derives keys, each once: it takes more of the machine's time than a whole run.
fn derived(request: &KeyRequest) -> Keys {
    static KNOWN: LazyLock<Mutex<KeyCache>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().find(request.id()).cloned();
    found.unwrap_or_else(|| {
        let keys = request.derive();
        known().keep(request.id(), keys.clone());
        keys
    })
}

fn overloads(message: &[u8]) -> bool {
    let labels = read_reply(message).ok().and_then(|reply| reply.body.get_array("errorLabels").ok()?);
    labels.is_some_and(|labels| {
        labels.iter().any(|label| matches!(label, Ok(RawValue::String("SystemOverloadedError"))))
    })
}

/// Whether it ended a transaction that the server does not know, for which nothing is sent.
fn ended_nothing(exchange: &Exchange) -> bool {
    exchange.operation().kind.end().is_some() && exchange.failure().is_none() && exchange.server().is_none()
}

/// Whether metrics count it.
fn is_counted(exchange: &Exchange) -> bool {
    !exchange.operation().is_silent && !ended_nothing(exchange)
}
