//! Explicit sessions: transfers between accounts in transactions, and sessions that read their own writes.

use mangonel_bson::{append_i32, append_i64};
use mangonel_proto::client_session::ClientSession;
use mangonel_proto::error::Failure;
use mangonel_proto::ids::SessionId;
use mangonel_proto::operation::{Kind, Operation, SessionChoice};
use mangonel_proto::transaction::End;

use super::writes::addition;
use super::{ACCOUNTS, COUNTERS, Place, START_BALANCE, append_level, command, command_of};
use crate::desk::Ending;
use crate::judge::Verdict;
use crate::server::cursor::batch_of;
use crate::wire::{append_document, document};

/// The most runs of a transaction, and of its commit.
pub(crate) const RUNS: u32 = 4;

fn in_session(mut operation: Operation, session: SessionId) -> Operation {
    operation.session = SessionChoice::Explicit(session);
    operation
}

/// Moves value from one account to another, or reads them all.
pub(super) async fn transfer(place: &mut Place, turn: i64) {
    let session = place.desk.with(|client, _| client.open_session(ClientSession::new(true, false))).await;
    if place.chance.percent(25) {
        read_accounts(place, session).await;
    } else if place.chance.percent(5) {
        commit_nothing(place, session).await;
    } else {
        for run in 0..RUNS {
            if run_transfer(place, session, turn, i64::from(run)).await {
                break;
            }
        }
    }
    place.desk.with(move |client, now| client.end_session(session, now)).await;
}

/// Uses a transaction in a way that its state does not allow, which is refused without a command.
async fn misuse(place: &mut Place, session: SessionId, wrong: &'static [End]) {
    if !place.chance.percent(10) {
        return;
    }
    for end in wrong {
        let begun = place.desk.with(move |client, _| {
            client.session_mut(session).map(|session| session.transaction.begin_end(*end))
        });
        let begun = begun.await;
        if !matches!(begun, Some(Err(_))) {
            place.blame(format!("a transaction could be ended by {end:?}: {begun:?}"));
        }
    }
}

/// Commits an empty transaction.
async fn commit_nothing(place: &mut Place, session: SessionId) {
    misuse(place, session, &[End::Commit, End::Abort]).await;
    start(place, session).await;
    let again =
        place.desk.with(move |client, now| client.start_transaction(session, Vec::new(), Vec::new(), now));
    if again.await.is_ok() {
        place.blame("a transaction could be started in another".into());
    }
    if end(place, session, End::Commit).await.is_some() {
        place.blame("a transaction of nothing was sent".into());
    }
    misuse(place, session, &[End::Abort]).await;
}

async fn start(place: &mut Place, session: SessionId) -> bool {
    let is_safe = place.chance.percent(80);
    let concern = concern(is_safe);
    let level = document(|out| mangonel_bson::append_str(out, "level", "snapshot"));
    let started =
        place.desk.with(move |client, now| client.start_transaction(session, level, concern, now)).await;
    if started.is_err() {
        place.blame(format!("a transaction cannot be started: {started:?}"));
    }
    is_safe
}

fn concern(is_safe: bool) -> Vec<u8> {
    document(|out| {
        if is_safe {
            mangonel_bson::append_str(out, "w", "majority");
        } else {
            append_i32(out, "w", 1);
        }
    })
}

/// Returns whether the transfer is over and need not run again.
async fn run_transfer(place: &mut Place, session: SessionId, turn: i64, run: i64) -> bool {
    let is_safe = start(place, session).await;
    let (from, amount) = (place.chance.below(ACCOUNTS as u64) as i64, place.chance.between(1, 9) as i64);
    let to = (from + 1 + place.chance.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
    let intents = [place.intent(turn, run * 2), place.intent(turn, run * 2 + 1)];
    for intent in intents {
        place.ledger.borrow_mut().begin(intent, place.desk.now());
    }
    for (key, add, intent) in [(from, -amount, intents[0]), (to, amount, intents[1])] {
        let mut statement = addition("accounts", key, add, intent, None);
        statement.kind = Kind::RetryableWrite;
        let ending = place.desk.run(in_session(statement, session)).await;
        if !ending.is_fine() {
            let is_again = ending.has_label("TransientTransactionError");
            end(place, session, End::Abort).await;
            for intent in intents {
                place.ledger.borrow_mut().end(intent, Verdict::Nothing, place.desk.now());
            }
            return !is_again;
        }
        if place.chance.percent(20) {
            place.desk.sleep(5).await;
        }
    }
    if place.chance.percent(10) {
        end(place, session, End::Abort).await;
        misuse(place, session, &[End::Commit, End::Abort]).await;
        for intent in intents {
            place.ledger.borrow_mut().end(intent, Verdict::Nothing, place.desk.now());
        }
        return true;
    }
    for _ in 0..RUNS {
        let Some(ending) = end(place, session, End::Commit).await else { return true };
        let is_unknown = ending.has_label("UnknownTransactionCommitResult");
        let verdict = if ending.is_fine() {
            if is_safe { Verdict::Safe } else { Verdict::Done }
        } else if ending.has_label("TransientTransactionError") && !is_unknown {
            Verdict::Nothing
        } else {
            Verdict::Unknown
        };
        for intent in intents {
            place.ledger.borrow_mut().end(intent, verdict, place.desk.now());
        }
        if !is_unknown || ending.is_fine() {
            return verdict != Verdict::Nothing;
        }
        place.desk.sleep(10).await;
    }
    true
}

/// Ends a transaction as a session does. Returns the result; `None` if nothing had to be sent.
async fn end(place: &mut Place, session: SessionId, which: End) -> Option<Box<Ending>> {
    let (name, kind) = match which {
        End::Commit => ("commitTransaction", Kind::Commit),
        End::Abort => ("abortTransaction", Kind::Abort),
    };
    let mut operation = in_session(command_of(name, 1, kind, |_| {}), session);
    operation.database = "admin".into();
    let ending = place.desk.run(operation).await;
    if let Some(Failure::Usage(_)) = &ending.failure {
        place.blame(format!("a transaction cannot be ended: {ending:?}"));
        return None;
    }
    let is_unsent = ending.is_ok() && ending.body.is_empty();
    (!is_unsent).then_some(ending)
}

/// Reads all accounts in one transaction: their total is always the same.
async fn read_accounts(place: &mut Place, session: SessionId) {
    start(place, session).await;
    let mut seen = Vec::new();
    for key in 0..ACCOUNTS {
        let find = command("find", "accounts", Kind::Read, |out| {
            crate::wire::append_document(out, "filter", |out| append_i64(out, "_id", key));
        });
        let ending = place.desk.run(in_session(find, session)).await;
        if !ending.is_ok() {
            end(place, session, End::Abort).await;
            return;
        }
        let cursor = ending.document().and_then(|body| body.get_document("cursor").ok().flatten());
        seen.extend(cursor.map(|cursor| batch_of(cursor, "_id", "value")).unwrap_or_default());
        if place.chance.percent(20) {
            place.desk.sleep(3).await;
        }
    }
    let total: i64 = seen.iter().map(|(_, value)| value).sum();
    if seen.len() as i64 != ACCOUNTS || total != ACCOUNTS * START_BALANCE {
        place.blame(format!("one snapshot shows {total} on {} accounts", seen.len()));
    }
    end(place, session, End::Commit).await;
}

/// Counts up and reads in a causal session: it reads its own writes, and nothing that it has read disappears.
pub(super) async fn causal(place: &mut Place, turn: i64) {
    let session = place.desk.with(|client, _| client.open_session(ClientSession::new(true, false))).await;
    let key = place.chance.below(COUNTERS) as i64;
    let mut least = 0;
    for step in 0..place.chance.between(2, 5) as i64 {
        let intent = place.intent(turn, step);
        let is_writing = place.chance.percent(50);
        if is_writing {
            let now = place.desk.now();
            place.ledger.borrow_mut().begin(intent, now);
            place.ledger.borrow_mut().counts.entry(key).or_default().push((intent, now));
            let write = addition("counters", key, 1, intent, Some(true));
            let ending = place.desk.run(in_session(write, session)).await;
            place.enter(intent, &ending, true);
            if ending.is_fine() {
                least += 1;
            }
        } else {
            let mut find = command("find", "counters", Kind::Read, |out| {
                crate::wire::append_document(out, "filter", |out| append_i64(out, "_id", key));
                append_level(out, "majority");
            });
            find.read_preference = place.preference();
            let ending = place.desk.run(in_session(find, session)).await;
            let Some(cursor) = ending.document().and_then(|body| body.get_document("cursor").ok().flatten())
            else {
                continue;
            };
            let value = batch_of(cursor, "_id", "value").first().map_or(0, |(_, value)| *value);
            if value < least {
                place.blame(format!("a causal session read {value} of counter {key}, and knows of {least}"));
            }
            least = value;
        }
    }
    if place.chance.percent(30) {
        hand_over(place, session, key, least).await;
    }
    place.desk.with(move |client, now| client.end_session(session, now)).await;
}

/// Continues in another session, advanced to the times of the first one: it sees no less.
async fn hand_over(place: &mut Place, from: SessionId, key: i64, least: i64) {
    let opened = place.desk.with(move |client, _| {
        let known = client.session_mut(from)?;
        let (time, cluster) = (known.operation_time()?, known.cluster_time()?.1.clone());
        let session = client.open_session(ClientSession::new(true, false));
        let next = client.session_mut(session)?;
        next.advance_cluster_time(&cluster);
        next.advance_operation_time(time);
        Some(session)
    });
    let Some(session) = opened.await else { return };
    let mut find = command("find", "counters", Kind::Read, |out| {
        append_document(out, "filter", |out| append_i64(out, "_id", key));
        append_level(out, "majority");
    });
    find.read_preference = place.preference();
    let ending = place.desk.run(in_session(find, session)).await;
    let value = found(&ending).and_then(|found| found.first().map(|(_, value)| *value));
    if value.is_some_and(|value| value < least) {
        place.blame(format!(
            "a session read {value:?} of counter {key}, and was told of one that knows of {least}"
        ));
    }
    place.desk.with(move |client, now| client.end_session(session, now)).await;
}

/// Reads all accounts several times in a snapshot session, and in another session at the same snapshot time: nothing
/// changes.
pub(super) async fn snapshot(place: &mut Place) {
    let mut sessions = vec![open_snapshot(place, None).await];
    let mut first = None;
    for _ in 0..place.chance.between(2, 4) {
        let session = sessions[sessions.len() - 1];
        let find = command("find", "accounts", Kind::Read, |_| {});
        let ending = place.desk.run(in_session(find, session)).await;
        let Some(seen) = found(&ending) else { break };
        let total: i64 = seen.iter().map(|(_, value)| value).sum();
        if total != ACCOUNTS * START_BALANCE || *first.get_or_insert_with(|| seen.clone()) != seen {
            place.blame(format!("a snapshot shows {seen:?}, and showed {first:?}"));
        }
        let time = place.desk.with(move |client, _| client.session_mut(session)?.snapshot_time()).await;
        if time.is_none() {
            place.blame("a snapshot session does not know its moment".into());
        }
        if place.chance.percent(30) {
            sessions.push(open_snapshot(place, time).await);
        }
        let pause = place.chance.pick(&[0, 5, 40]);
        place.desk.sleep(pause).await;
    }
    for session in sessions {
        place.desk.with(move |client, now| client.end_session(session, now)).await;
    }
}

async fn open_snapshot(place: &Place, at: Option<u64>) -> SessionId {
    let opened = place.desk.with(move |client, _| {
        let mut session = ClientSession::new(false, true);
        at.into_iter().for_each(|at| session.set_snapshot_time(at));
        client.open_session(session)
    });
    opened.await
}

/// Returns the content of a batch; `None` without one.
fn found(ending: &Ending) -> Option<Vec<(i64, i64)>> {
    let cursor = ending.document()?.get_document("cursor").ok()??;
    ending.is_ok().then(|| batch_of(cursor, "_id", "value"))
}
