//! Behind a load balancer a cursor and a transaction are pinned to one connection. Spec: load-balancers.

mod bench;

use bench::*;
use mangonel_proto::auth::login::Login;
use mangonel_proto::auth::{Credential, Mechanism, Secret};
use mangonel_proto::client_session::ClientSession;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::ids::SessionId;
use mangonel_proto::operation::{Kind, Operation, SessionChoice};
use mangonel_proto::transaction::End;
use serde_json::json;

fn bench() -> Bench {
    let options = with(|options| {
        (options.topology.is_direct, options.topology.is_load_balanced) = (false, true);
    });
    let mut hello = primary();
    hello["msg"] = json!("isdbgrid");
    hello["serviceId"] = json!({"$oid": "61".repeat(12)});
    Bench { hello, ..Bench::new(options) }
}

fn open_cursor(bench: &mut Bench) -> Exchange {
    let mut first = bench.sent(find());
    bench.reply(&mut first, &json!({"ok": 1, "cursor": {"id": 5, "ns": "shop.orders", "firstBatch": []}}));
    assert!(first.keeps_link());
    first
}

fn next_batch(first: &Exchange) -> Operation {
    let mut next = operation(Kind::ReadOnce, &json!({"getMore": 5, "collection": "orders"}));
    next.pinned = first.link();
    next
}

fn lose(bench: &mut Bench, exchange: &mut Exchange) {
    let link = exchange.link().unwrap();
    exchange.handle_link_lost(&mut bench.client, bench.now);
    assert!(bench.client.poll_closing().contains(&link));
}

/// Starts a transaction; returns its session.
fn transaction(bench: &mut Bench) -> SessionId {
    let session = bench.client.open_session(ClientSession::new(false, false));
    bench.client.start_transaction(session, Vec::new(), Vec::new(), bench.now).unwrap();
    session
}

fn in_session(session: SessionId, mut operation: Operation) -> Operation {
    operation.session = SessionChoice::Explicit(session);
    operation
}

fn end(session: SessionId, end: End) -> Operation {
    match end {
        End::Commit => in_session(session, operation(Kind::Commit, &json!({"commitTransaction": 1}))),
        End::Abort => in_session(session, operation(Kind::Abort, &json!({"abortTransaction": 1}))),
    }
}

#[test]
fn a_cursor_whose_connection_the_server_closed_fails_before_anything_is_sent() {
    let mut bench = bench();
    let first = open_cursor(&mut bench);
    let mut next = bench.begin(next_batch(&first));
    assert_eq!((next.step(), next.link()), (Step::Write, first.link()));
    lose(&mut bench, &mut next);
    assert_eq!(next.step(), Step::Done);
    assert!(message(&next).contains("the connection of the cursor was lost"), "{}", message(&next));
    assert_eq!((next.retries(), bench.sizes()), (0, (0, 0, 0, 0)));
}

#[test]
fn a_cursors_connection_that_outlives_its_event_loop_is_counted_as_closed() {
    let mut bench = bench();
    let link = open_cursor(&mut bench).link().unwrap();
    bench.client.close_shard(bench.shard);
    bench.client.release_pinned(link, true, bench.now);
    assert_eq!(bench.client.poll_closing(), [link]);
    let snapshots = bench.client.pool_snapshots();
    let counts: Vec<_> = snapshots.values().map(|known| &known.counts).collect();
    assert_eq!((counts.len(), counts[0].created, counts[0].closed.iter().sum::<u64>()), (1, 1, 1));
}

#[test]
fn a_transaction_whose_connection_the_server_closed_has_to_run_again() {
    let mut bench = bench();
    let session = transaction(&mut bench);
    let first = bench.run(in_session(session, insert()));
    let mut second = bench.begin(in_session(session, insert()));
    assert_eq!((second.step(), bench.sizes()), (Step::Write, (0, 1, 0, 0)));
    lose(&mut bench, &mut second);
    assert_eq!((first.failure(), second.step()), (None, Step::Done));
    assert!(message(&second).contains("the connection of the transaction was lost"), "{}", message(&second));
    assert_eq!((second.label(), bench.sizes()), (Some("TransientTransactionError"), (0, 0, 0, 0)));
}

/// Authenticates the user, on a new connection or again.
fn let_in(bench: &mut Bench, exchange: &mut Exchange) {
    bench.reply(exchange, &json!({"ok": 1, "done": true, "conversationId": 1, "payload": ""}));
}

/// Begins an operation on its own or its transaction's connection; the server requires reauthentication, and the
/// connection breaks.
fn lose_at_login(
    bench: &mut Bench,
    operation: Operation,
    how: impl Fn(&mut Bench, &mut Exchange),
) -> Exchange {
    let mut exchange = bench.begin(operation);
    if exchange.step() == Step::Connect {
        bench.connect(&mut exchange);
        let_in(bench, &mut exchange);
    }
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 391, "errmsg": "again"}));
    assert!(outbound(&exchange).get("saslStart").is_some(), "{}", outbound(&exchange));
    how(bench, &mut exchange);
    exchange
}

fn bench_with_user() -> Bench {
    let Bench { hello, .. } = bench();
    let credential = Credential {
        username: Some("ada".to_owned()),
        password: Some(Secret::new("engine")),
        source: "$external".to_owned(),
        mechanism: Some(Mechanism::Plain),
    };
    let options = with(|options| {
        (options.topology.is_direct, options.topology.is_load_balanced) = (false, true);
        options.login = Some(Login::new(credential, [7; 32]));
    });
    Bench { hello, ..Bench::new(options) }
}

fn begin_transaction(bench: &mut Bench) -> SessionId {
    let session = transaction(bench);
    let mut first = bench.begin(in_session(session, insert()));
    bench.connect(&mut first);
    let_in(bench, &mut first);
    bench.reply(&mut first, &json!({"ok": 1}));
    assert_eq!((first.failure(), bench.sizes()), (None, (0, 1, 0, 0)));
    session
}

#[test]
fn a_transaction_whose_connection_is_lost_while_its_user_is_asked_again_has_to_run_again() {
    let leaves = |bench: &mut Bench, exchange: &mut Exchange| {
        bench.reply(exchange, &json!({"ok": 0, "code": 91, "errmsg": "it shuts down"}));
    };
    for how in [&Bench::break_line as &dyn Fn(&mut Bench, &mut Exchange), &leaves] {
        let mut bench = bench_with_user();
        let session = begin_transaction(&mut bench);
        let second = lose_at_login(&mut bench, in_session(session, insert()), how);
        assert_eq!((second.step(), second.retries()), (Step::Done, 0));
        assert_eq!((second.label(), bench.sizes()), (Some("TransientTransactionError"), (0, 0, 0, 0)));
    }
}

#[test]
fn what_no_connection_is_bound_to_goes_on_after_a_login_that_was_lost() {
    let mut bench = bench_with_user();
    let session = transaction(&mut bench);
    let first = lose_at_login(&mut bench, in_session(session, insert()), Bench::break_line);
    assert!(matches!(first.step(), Step::Sleep(_)), "{:?}", first.step());
    let mut bench = bench_with_user();
    let session = begin_transaction(&mut bench);
    let ending = end(session, End::Commit);
    let commit = lose_at_login(&mut bench, ending, Bench::break_line);
    assert!(matches!(commit.step(), Step::Sleep(_)), "{:?}", commit.step());
}

#[test]
fn a_transaction_that_has_not_begun_takes_another_connection() {
    let mut bench = bench();
    bench.run(find());
    let session = transaction(&mut bench);
    let mut first = bench.begin(in_session(session, insert()));
    assert_eq!(outbound(&first)["startTransaction"], true);
    lose(&mut bench, &mut first);
    bench.connect(&mut first);
    assert_eq!((first.step(), first.retries()), (Step::Write, 0));
    assert_eq!(outbound(&first)["startTransaction"], true);
}

#[test]
fn the_end_of_a_transaction_is_sent_on_another_connection_once() {
    for kind in [End::Commit, End::Abort] {
        let mut bench = bench();
        let session = transaction(&mut bench);
        bench.run(in_session(session, insert()));
        let ending = end(session, kind);
        let mut exchange = bench.begin(ending);
        lose(&mut bench, &mut exchange);
        assert_eq!((exchange.step(), exchange.retries()), (Step::Connect, 1));
        bench.connect(&mut exchange);
        bench.reply(&mut exchange, &json!({"ok": 1}));
        bench.client.end_session(session, bench.now);
        assert_eq!((exchange.failure(), bench.sizes()), (None, (1, 0, 0, 0)));
    }
}

#[test]
fn a_commit_that_an_overloaded_server_refuses_gives_its_connection_back_while_it_waits() {
    let mut bench = bench();
    let session = transaction(&mut bench);
    bench.run(in_session(session, insert()));
    let ending = end(session, End::Commit);
    let mut exchange = bench.begin(ending);
    let labels = ["SystemOverloadedError", "RetryableError"];
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 462, "errmsg": "too much", "errorLabels": labels}));
    assert!(matches!(exchange.step(), Step::Sleep(_)), "{:?}", exchange.step());
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn a_transactions_connection_that_is_lost_while_a_statement_waits_for_an_overloaded_server_is_given_up_once()
{
    let mut bench = bench();
    let session = transaction(&mut bench);
    bench.run(in_session(session, insert()));
    let mut statement = bench.begin(in_session(session, find()));
    let link = statement.link().unwrap();
    let labels = ["SystemOverloadedError", "RetryableError"];
    bench.reply(&mut statement, &json!({"ok": 0, "code": 462, "errmsg": "too much", "errorLabels": labels}));
    let Step::Sleep(until) = statement.step() else { panic!("{:?}", statement.step()) };
    bench.client.link_lost(bench.shard, link, bench.now);
    statement.handle_timeout(&mut bench.client, until);
    assert!(message(&statement).contains("the connection of the transaction was lost"));
    let counts = &bench.client.pool_snapshots()[&address()].counts;
    assert_eq!((counts.created, counts.closed.iter().sum::<u64>()), (1, 1));
}

#[test]
fn an_abort_that_reports_its_first_attempt_gives_back_the_connection_of_its_second() {
    let mut bench = bench();
    let session = transaction(&mut bench);
    bench.run(in_session(session, insert()));
    let ending = end(session, End::Abort);
    let mut exchange = bench.begin(ending);
    bench.break_line(&mut exchange);
    bench.settle(&mut exchange);
    bench.reply(
        &mut exchange,
        &json!({"ok": 0, "code": 20, "errmsg": "none", "errorLabels": ["NoWritesPerformed"]}),
    );
    assert!(message(&exchange).contains("connection reset"), "{:?}", exchange.failure());
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn a_commit_whose_connection_is_known_to_be_lost_is_sent_on_another_one() {
    let mut bench = bench();
    let session = transaction(&mut bench);
    bench.run(in_session(session, insert()));
    let link = bench.client.session_mut(session).unwrap().transaction.pin().unwrap().link.unwrap();
    bench.client.link_lost(bench.shard, link, bench.now);
    let ending = end(session, End::Commit);
    let mut exchange = bench.begin(ending);
    assert_eq!((exchange.step(), exchange.retries()), (Step::Connect, 1));
    bench.connect(&mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert_eq!(exchange.failure(), None);
}
