//! Compares the results of operations with the log on which all members agree in the end.

use std::collections::BTreeMap;
use std::rc::Rc;

use mangonel_proto::error::Failure;
use mangonel_proto::exchange::Exchange;
use mangonel_proto::operation::Kind;
use mangonel_proto::read_preference::Mode;

use super::{Verdict, limit_of};
use crate::client::{Driver, LONGEST_WAKING, member_of};
use crate::desk::Ending;
use crate::plan::{Kind as Happening, WRONG_PASSWORD};
use crate::queue::ms;
use crate::server::answer::SIDES;
use crate::server::login::{PASSWORD, REAUTHENTICATION_REQUIRED};
use crate::server::member::Duty;
use crate::server::set::LARGEST;
use crate::workload::{ACCOUNTS, START_BALANCE};
use crate::world::World;

/// How much later than its limit an operation may end: a step never has less than a millisecond. Each message of a
/// running login adds one.
const SLACK_MS: u64 = 3;

/// A cursor of another session.
const FOREIGN_CURSOR: i64 = 50738;
/// `NotPrimaryNoSecondaryOk`.
const NOT_PRIMARY_NO_SECONDARY_OK: i64 = 13435;

impl World {
    /// Called when an operation ended.
    pub(crate) fn judge_ending(
        &mut self,
        client: usize,
        worker: usize,
        exchange: &Exchange,
        ending: &Ending,
    ) {
        let driver = &self.drivers[client];
        let options = driver.client.options();
        let place = &driver.workers[worker];
        let (kind, now) = (exchange.operation().kind, self.queue.now());
        let name = exchange.operation().command.name();
        let mut broken = Vec::new();
        let how = match &ending.failure {
            None => "ok",
            Some(Failure::ServerSelection(_)) => "server selection",
            Some(Failure::WaitQueue(_)) => "wait queue",
            Some(Failure::TimeLimit(_)) => "time limit",
            Some(Failure::Network { timed_out: true, .. }) => "timeout",
            Some(Failure::Network { .. }) => "network",
            Some(Failure::Command) => "refused",
            Some(Failure::Configuration(_)) => "configuration",
            Some(Failure::Authentication { .. }) => "authentication",
            Some(Failure::TooLarge(_)) => "too large",
            Some(Failure::Unanswered) => "unanswered",
            Some(Failure::Protocol(_)) => "protocol",
            Some(Failure::Closed) => "closed",
            Some(_) => "other",
        };
        *self.report.endings.entry(how).or_default() += 1;
        let says_nothing_sent = matches!(
            ending.failure,
            Some(
                Failure::ServerSelection(_)
                    | Failure::WaitQueue(_)
                    | Failure::TimeLimit(_)
                    | Failure::TooLarge(_)
                    | Failure::Configuration(_)
                    | Failure::Usage(_)
                    | Failure::Authentication { .. }
            )
        );
        if says_nothing_sent && ending.sends > place.logins {
            broken.push(format!("says that nothing was sent, and was sent {} times: {how}", ending.sends));
        }
        if ending.is_overload && ending.sends > place.logins {
            broken.push(format!("says that the server did nothing, and was sent {} times", ending.sends));
        }
        let plan = &self.plan.clients[client];
        if plan.is_outsider && ending.is_ok() && ending.sends > 0 {
            broken.push("was answered, and its user cannot be let in".into());
        }
        if let Some(failure) = &ending.failure
            && shows_password(failure)
        {
            broken.push(format!("shows the password: {failure:?}"));
        }
        if let (Some(Failure::Authentication { message, .. }), 0, false) =
            (&ending.failure, self.set.logins.refusals, plan.is_outsider)
        {
            broken.push(format!("the right user was refused by none but the driver: {message}"));
        }
        if let Some(Failure::Protocol(message)) = &ending.failure
            && !driver.is_damaged
        {
            broken.push(format!("a good reply was refused: {message}"));
        }
        if let Some(Failure::ServerSelection(message)) = &ending.failure
            && !message.contains("last attempt")
            && !options.has_selector
            && exchange.operation().read_preference.is_none()
            && exchange.operation().server.is_none()
            && driver.client.description().primary().is_some()
            && (!plan.wakes_late
                || driver.primary.is_some_and(|(_, since)| now.saturating_since(since) > ms(LONGEST_WAKING)))
            && !options.topology.is_direct
        {
            broken.push(format!("found no primary, and knows one: {message}"));
        }
        let is_single = options.topology.is_direct;
        let is_elsewhere = exchange.operation().read_preference.is_some() || is_single && kind == Kind::Read;
        match ending.facts.code {
            Some(REAUTHENTICATION_REQUIRED)
                if matches!(ending.failure, Some(Failure::Command)) && place.logins == 1 =>
            {
                broken.push("was asked to log in once more, and did not".into());
            }
            Some(FOREIGN_CURSOR) => broken.push("is not in the session of its cursor".into()),
            Some(NOT_PRIMARY_NO_SECONDARY_OK) if is_elsewhere => {
                broken.push("may go to a secondary, and did not say so".into());
            }
            _ => {}
        }
        let limit = limit_of(exchange, options.timeout);
        if let Some(limit) = limit {
            let spent = now.saturating_since(place.begun);
            let slack = ms(SLACK_MS + u64::from(place.late));
            if spent > limit + slack + driver.slept_since(place.begun) {
                broken.push(format!("took {spent:?}, and its limit is {limit:?}"));
            }
        }
        if exchange.is_out_of_time() && limit.is_none() {
            broken.push("ran out of time, and has no limit".into());
        }
        let is_network = matches!(ending.failure, Some(Failure::Network { .. }));
        let is_numbered = matches!(kind, Kind::RetryableWrite | Kind::Commit | Kind::Abort);
        if exchange.is_retryable_write_error() && !(is_network && is_numbered) {
            broken.push(format!("is called a write that may be sent again, and ended as {how}"));
        }
        if ending.sends > exchange.retries() + 1 + place.logins {
            broken.push(format!("was sent {} times in {} retries", ending.sends, exchange.retries()));
        }
        let is_misled = self.plan.faults.iter().any(|fault| matches!(fault.kind, Happening::Mislead(..)));
        if let (Some(Failure::Configuration(message)), false) = (&ending.failure, is_misled)
            && message.starts_with("Sessions are not supported")
        {
            broken.push(format!("was refused: {message}"));
        }
        let is_limited = limit.is_some();
        let is_repeatable = match kind {
            Kind::Read => options.retry_reads,
            Kind::RetryableWrite => options.retry_writes,
            Kind::Commit | Kind::Abort => true,
            _ => false,
        };
        let usual = if is_repeatable { 2 } else { 1 };
        let most = match (place.met_overload, is_limited && is_repeatable) {
            (_, true) => u32::MAX,
            (true, false) => (1 + options.max_adaptive_retries).max(usual),
            (false, false) => usual,
        };
        if ending.sends > most.saturating_add(place.logins) {
            broken.push(format!("was sent {} times, at most {most} are allowed", ending.sends));
        }
        if let (None, Some(server)) = (&ending.failure, &ending.server)
            && let Some(preference) = &exchange.operation().read_preference
            && exchange.operation().server.is_none()
            && !is_single
        {
            let known = driver.primary.filter(|(member, _)| *member == member_of(server.as_str()));
            if preference.mode() == Mode::Secondary && known.is_some_and(|(_, since)| since < place.begun) {
                broken.push("wants a secondary, and went to the primary".into());
            }
            let (member, is_direct) = (member_of(server.as_str()), self.plan.routers == 0);
            let knows_primary = driver.primary.is_some_and(|(_, since)| since < place.begun);
            let is_stale = self.plan.members.get(member).is_some_and(|(duty, _)| *duty == Duty::Delayed);
            if is_direct && is_stale && knows_primary && preference.max_staleness_seconds().is_some() {
                broken.push("went to a member that is staler than it allows".into());
            }
            let is_strict = matches!(preference.mode(), Mode::Secondary | Mode::Nearest);
            let side = [("side".to_owned(), SIDES[member % 2].to_owned())];
            let suits = preference.tag_sets().iter().any(|set| set.is_matched_by(&side));
            if is_direct && is_strict && !preference.tag_sets().is_empty() && !suits {
                broken.push("went to a member that has not the tags".into());
            }
        }
        for what in broken {
            self.blame(format!("client {client} worker {worker}: {name} {what}"));
        }
    }

    /// The printed form of a client's options holds no password.
    fn judge_secrecy(&mut self) {
        let is_talkative = |driver: &Driver| shows_password(driver.client.options());
        if let Some(client) = self.drivers.iter().position(is_talkative) {
            self.blame(format!("client {client} shows the password when it is printed"));
        }
    }

    /// A client that has time gets something done in a run without faults.
    fn judge_liveliness(&mut self) {
        let is_idle = |driver: &Driver| {
            let options = driver.client.options();
            let has_time = options.timeout.is_none() && options.socket_timeout.is_none();
            let is_outsider = self.plan.clients[driver.number].is_outsider;
            let has_room = self.plan.setting.largest == LARGEST;
            has_time && has_room && !is_outsider && driver.ended.0 > 0 && driver.ended.1 == 0
        };
        let idle = self.drivers.iter().position(is_idle);
        if let (true, Some(client)) = (self.plan.faults.is_empty(), idle) {
            self.blame(format!("client {client} got nothing done in a world without faults"));
        }
    }

    /// Compares all results with the log.
    pub(crate) fn judge(&mut self) {
        if !self.ledger.borrow().violations.is_empty() {
            return;
        }
        self.judge_closed();
        self.judge_last_words();
        self.judge_liveliness();
        self.judge_secrecy();
        let Some(primary) = self.set.primary() else {
            return self.blame("the members elected no primary in the end".into());
        };
        let log = &self.set.members[primary].data.log;
        let mut broken = Vec::new();
        let follows = |duty: Duty| matches!(duty, Duty::Bearing | Duty::Hidden);
        for (number, member) in self.set.members.iter().enumerate().filter(|(_, member)| follows(member.duty))
        {
            let theirs = &member.data.log;
            // The last no-op may still be on its way.
            let common = theirs.len().min(log.len());
            if log.len() - common > 2 || !theirs.iter().zip(log).all(|(one, other)| Rc::ptr_eq(one, other)) {
                broken.push(format!("member {number} did not catch up: the model is wrong"));
            }
        }
        // Intent -> how often, and where.
        let mut found: BTreeMap<i64, (u32, usize)> = BTreeMap::new();
        for (position, entry) in log.iter().enumerate() {
            for write in entry.writes.iter().filter(|write| write.intent > 0) {
                let place = found.entry(write.intent).or_insert((0, position));
                place.0 += 1;
            }
        }
        let ledger = self.ledger.borrow();
        let may_lose = self.plan.faults.iter().any(|fault| fault.kind == Happening::Forget);
        if ledger.losses > 0 && !may_lose {
            broken.push("a stream was told that its place in the log is gone, and it is not".into());
        }
        let mut safe: Vec<(usize, i64)> = Vec::new();
        for (intent, known) in &ledger.writes {
            let (count, position) = found.get(intent).copied().unwrap_or_default();
            let is_fine = match known.verdict {
                Verdict::Safe => count == 1,
                Verdict::Nothing => count == 0,
                Verdict::Open | Verdict::Done | Verdict::Unknown => count <= 1,
            };
            if !is_fine {
                broken.push(format!(
                    "write {intent} was called {:?}, and is there {count} times",
                    known.verdict
                ));
            }
            if known.verdict == Verdict::Safe {
                safe.push((position, *intent));
            }
        }
        safe.sort_unstable();
        let mut newest = crate::queue::EPOCH;
        for (_, intent) in &safe {
            let known = ledger.writes[intent];
            if known.ended.is_some_and(|ended| ended < newest) {
                broken.push(format!("write {intent} ended before one began that comes before it in the log"));
            }
            newest = newest.max(known.begun);
        }
        let orders: Vec<(usize, i64)> = log
            .iter()
            .enumerate()
            .flat_map(|(position, entry)| entry.writes.iter().map(move |write| (position, write)))
            .filter(|(_, write)| write.collection == 0)
            .map(|(position, write)| (position, write.intent))
            .collect();
        for (number, stream) in ledger.streams.iter().enumerate() {
            let expected = orders.iter().filter(|(position, _)| *position >= stream.start);
            let expected: Vec<i64> = expected.map(|(_, intent)| *intent).take(stream.shown.len()).collect();
            if expected != stream.shown {
                let at = expected.iter().zip(&stream.shown).position(|(one, other)| one != other);
                broken.push(format!(
                    "stream {number} left the log at its change {at:?} of {}",
                    stream.shown.len()
                ));
            }
        }
        let data = &self.set.members[primary].data;
        let total: i64 = data.scan(2, log.len()).iter().map(|(_, value)| value).sum();
        if total != ACCOUNTS * START_BALANCE {
            broken.push(format!("the accounts hold {total}, expected {}", ACCOUNTS * START_BALANCE));
        }
        drop(ledger);
        broken.into_iter().for_each(|what| self.blame(what));
    }
}

fn shows_password(printed: &dyn std::fmt::Debug) -> bool {
    let text = format!("{printed:?}");
    text.contains(PASSWORD) || text.contains(WRONG_PASSWORD)
}
