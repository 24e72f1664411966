//! An exchange's use of sessions, the cluster time and the other parts of a command's envelope.

mod bench;

use bench::*;
use mangonel_proto::client_session::ClientSession;
use mangonel_proto::error::Failure;
use mangonel_proto::exchange::Step;
use mangonel_proto::ids::SessionId;
use mangonel_proto::message::Replies;
use mangonel_proto::operation::{Kind, Operation, SessionChoice};
use mangonel_proto::transaction::State;
use serde_json::json;

// Sessions and cluster time

#[test]
fn a_session_is_used_again_and_a_dirty_one_never() {
    let mut bench = Bench::standalone();
    let mut exchange = bench.sent(insert());
    let clean = outbound(&exchange)["lsid"].clone();
    bench.reply(&mut exchange, &json!({"ok": 1}));
    let mut exchange = bench.sent(insert());
    assert_eq!(outbound(&exchange)["lsid"], clean);
    bench.break_line(&mut exchange);
    let exchange = bench.sent(insert());
    assert_ne!(outbound(&exchange)["lsid"], clean);
}

#[test]
fn the_session_of_a_write_that_was_not_answered_takes_one_more_write_with_the_next_number() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    let first = outbound(&exchange);
    bench.close(&mut exchange);
    let lost = exchange.lost_write().unwrap();
    let mut another = insert();
    another.session = SessionChoice::Of(lost.session_for_another(bench.now));
    let mut exchange = bench.sent(another);
    let second = outbound(&exchange);
    assert_eq!(second["lsid"], first["lsid"]);
    assert_eq!((number(&first["txnNumber"]), number(&second["txnNumber"])), (1, 2));
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert!(exchange.lost_write().is_none());
    assert!(bench.client.drain_sessions().is_empty());
}

#[test]
fn a_write_without_a_number_a_read_and_an_answered_write_are_not_lost() {
    let mut bench = Bench::standalone();
    let mut exchange = bench.sent(insert());
    bench.close(&mut exchange);
    assert!(exchange.lost_write().is_none());
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    bench.close(&mut exchange);
    assert!(exchange.lost_write().is_none());
    let mut exchange = bench.sent(insert());
    bench.break_line(&mut exchange);
    assert_eq!(exchange.retries(), 1);
    bench.connect(&mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert!(exchange.lost_write().is_none());
}

#[test]
fn the_session_of_an_open_cursor_is_kept_until_it_is_given_back() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    bench.reply(&mut exchange, &json!({"ok": 1, "cursor": {"id": 5, "ns": "shop.orders", "firstBatch": []}}));
    let session = exchange.take_session().unwrap();
    assert!(bench.client.drain_sessions().is_empty());
    let mut more = operation(Kind::ReadOnce, &json!({"getMore": 5}));
    more.session = SessionChoice::Of(session.clone());
    let mut exchange = bench.sent(more);
    bench.reply(&mut exchange, &json!({"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "nextBatch": []}}));
    assert_eq!(bench.client.drain_sessions(), [session.id]);
}

#[test]
fn a_session_comes_back_from_a_command_that_never_got_a_link() {
    let mut bench = Bench::new(with(|options| options.pool.max_pool_size = 1));
    let mut exchange = bench.sent(find());
    bench.reply(&mut exchange, &json!({"ok": 1, "cursor": {"id": 5, "ns": "shop.orders", "firstBatch": []}}));
    let session = exchange.take_session().unwrap();
    let mut holder = bench.sent(find());
    let mut more = operation(Kind::ReadOnce, &json!({"getMore": 5}));
    more.session = SessionChoice::Of(session.clone());
    let mut waiter = bench.begin(more);
    assert!(waiter.step() == Step::Wait && waiter.session() == Some(&session));
    bench.close(&mut waiter);
    bench.reply(&mut holder, &json!({"ok": 1}));
    assert!(bench.client.drain_sessions().contains(&session.id));
}

#[test]
fn a_server_without_sessions_gets_none() {
    let mut bench = Bench::primary();
    bench.hello.as_object_mut().unwrap().remove("logicalSessionTimeoutMinutes");
    let exchange = bench.sent(insert());
    assert!(outbound(&exchange).get("lsid").is_none() && outbound(&exchange).get("txnNumber").is_none());
}

#[test]
fn cluster_time_is_passed_on_and_never_goes_back() {
    let mut bench = Bench::primary();
    let time =
        |t: u32, i: u32| json!({"clusterTime": {"$timestamp": {"t": t, "i": i}}, "signature": {"keyId": 1}});
    let exchange = bench.sent(find());
    assert!(outbound(&exchange).get("$clusterTime").is_none());
    for (seen, kept) in [((10, 2), (10, 2)), ((10, 1), (10, 2)), ((11, 0), (11, 0)), ((9, 9), (11, 0))] {
        let mut exchange = bench.sent(find());
        bench.reply(&mut exchange, &json!({"ok": 1, "$clusterTime": time(seen.0, seen.1)}));
        let exchange = bench.sent(find());
        let sent = outbound(&exchange)["$clusterTime"]["clusterTime"].clone();
        assert_eq!(sent, json!({"$timestamp": {"t": kept.0, "i": kept.1}}));
    }
}

#[test]
fn a_standalone_gets_no_cluster_time() {
    let mut bench = Bench::standalone();
    let mut exchange = bench.sent(find());
    let time = json!({"clusterTime": {"$timestamp": {"t": 1, "i": 1}}});
    bench.reply(&mut exchange, &json!({"ok": 1, "$clusterTime": time}));
    assert!(outbound(&bench.sent(find())).get("$clusterTime").is_none());
}

// Envelopes

#[test]
fn a_read_preference_goes_to_replica_sets_and_a_named_secondary_may_always_answer() {
    let mode = |bench: &mut Bench, mode: Option<&str>| {
        let mut asked = find();
        asked.read_preference = mode.and_then(preference);
        outbound(&bench.sent(asked)).get("$readPreference").map(|preference| preference["mode"].clone())
    };
    let mut set = Bench::primary();
    assert_eq!(mode(&mut set, Some("secondary")), Some(json!("secondary")));
    assert_eq!(mode(&mut set, None), Some(json!("primaryPreferred")));
    let mut alone = Bench::standalone();
    assert_eq!(mode(&mut alone, None), None);
}

#[test]
fn an_aggregation_that_writes_names_no_read_preference_to_servers_before_5_0() {
    let mode = |wire_version: i32| {
        let mut bench = Bench::new(options());
        bench.hello["maxWireVersion"] = json!(wire_version);
        let mut asked = operation(Kind::Write, &json!({"aggregate": "orders"}));
        asked.read_preference = preference("secondaryPreferred");
        outbound(&bench.sent(asked)).get("$readPreference").map(|preference| preference["mode"].clone())
    };
    assert_eq!((mode(12), mode(13)), (None, Some(json!("secondaryPreferred"))));
}

#[test]
fn the_server_api_is_declared_in_every_command() {
    let mut bench = Bench::new(with(|options| options.server_api = bson(&json!({"apiVersion": "1"}))));
    let mut exchange = bench.begin(find());
    bench.open(&mut exchange);
    assert_eq!(outbound(&exchange)["hello"], json!({"$numberInt": "1"}));
    let hello = bench.hello.clone();
    bench.reply(&mut exchange, &hello);
    assert_eq!(outbound(&exchange)["apiVersion"], "1");
}

#[test]
fn an_unacknowledged_write_is_done_once_it_is_sent() {
    let mut bench = Bench::primary();
    let mut write = operation(Kind::Write, &json!({"insert": "orders"}));
    (write.replies, write.session) = (Replies::None, SessionChoice::None);
    let mut exchange = bench.sent(write);
    assert!(!exchange.expects_reply() && outbound(&exchange).get("lsid").is_none());
    assert_eq!(exchange.outbound()[16], 2, "moreToCome tells the server not to answer");
    exchange.handle_sent(&mut bench.client, bench.now);
    assert_eq!((exchange.step(), exchange.failure(), bench.sizes()), (Step::Done, None, (1, 0, 0, 0)));
}

#[test]
fn an_unacknowledged_write_that_was_sent_is_no_failure_although_it_had_to_connect_twice() {
    let mut bench = Bench::primary();
    let mut write = operation(Kind::Write, &json!({"insert": "orders"}));
    (write.replies, write.session) = (Replies::None, SessionChoice::None);
    let mut exchange = bench.begin(write);
    bench.break_line(&mut exchange);
    bench.pass(500);
    exchange.handle_timeout(&mut bench.client, bench.now);
    bench.connect(&mut exchange);
    exchange.handle_sent(&mut bench.client, bench.now);
    assert_eq!((exchange.step(), exchange.failure()), (Step::Done, None));
}

// The end of a transaction

/// Starts a transaction with a session of its own.
fn transaction(bench: &mut Bench) -> SessionId {
    let session = bench.client.open_session(ClientSession::new(true, false));
    bench.client.start_transaction(session, Vec::new(), Vec::new(), bench.now).unwrap();
    session
}

fn within(session: SessionId, mut operation: Operation) -> Operation {
    operation.session = SessionChoice::Explicit(session);
    operation
}

fn commit(session: SessionId) -> Operation {
    within(session, operation(Kind::Commit, &json!({"commitTransaction": 1})))
}

fn abort(session: SessionId) -> Operation {
    within(session, operation(Kind::Abort, &json!({"abortTransaction": 1})))
}

fn state(bench: &Bench, session: SessionId) -> State {
    bench.client.session(session).unwrap().transaction.state()
}

#[test]
fn a_transaction_that_the_server_does_not_know_ends_without_a_command() {
    let mut bench = Bench::primary();
    for (end, ended) in [(commit as fn(_) -> _, State::CommittedEmpty), (abort, State::Aborted)] {
        let session = transaction(&mut bench);
        assert!(bench.client.ends_nothing(&end(session)));
        let exchange = bench.begin(end(session));
        assert_eq!((exchange.step(), exchange.failure(), exchange.link()), (Step::Done, None, None));
        assert_eq!(state(&bench, session), ended);
    }
}

#[test]
fn a_transaction_is_open_until_the_command_that_ends_it_is_answered() {
    let mut bench = Bench::primary();
    for (end, ended) in [(commit as fn(_) -> _, State::Committed), (abort, State::Aborted)] {
        let session = transaction(&mut bench);
        let mut first = bench.sent(within(session, insert()));
        bench.reply(&mut first, &json!({"ok": 1}));
        assert!(!bench.client.ends_nothing(&end(session)));
        let mut exchange = bench.sent(end(session));
        assert_eq!(state(&bench, session), State::InProgress);
        bench.reply(&mut exchange, &json!({"ok": 1}));
        assert_eq!(state(&bench, session), ended);
    }
}

#[test]
fn a_commit_that_was_given_up_has_ended_the_transaction_once_and_may_be_sent_again() {
    let mut bench = Bench::primary();
    let session = transaction(&mut bench);
    let mut first = bench.sent(within(session, insert()));
    bench.reply(&mut first, &json!({"ok": 1}));
    let mut exchange = bench.sent(commit(session));
    bench.close(&mut exchange);
    assert_eq!(state(&bench, session), State::Committed);
    let mut again = bench.sent(commit(session));
    assert_eq!(outbound(&again)["writeConcern"]["w"], "majority");
    bench.reply(&mut again, &json!({"ok": 1}));
    bench.client.start_transaction(session, Vec::new(), Vec::new(), bench.now).unwrap();
    // Closing an exchange that is over changes nothing.
    bench.close(&mut exchange);
    bench.close(&mut again);
    assert_eq!(state(&bench, session), State::Starting);
}

#[test]
fn an_end_that_the_state_of_the_transaction_does_not_allow_is_refused_without_a_command() {
    let mut bench = Bench::primary();
    let session = bench.client.open_session(ClientSession::new(true, false));
    for end in [commit, abort] {
        let exchange = bench.begin(end(session));
        assert_eq!(
            (exchange.step(), exchange.failure()),
            (Step::Done, Some(&Failure::Usage("No transaction started")))
        );
    }
}

#[test]
fn a_commit_that_waits_for_a_server_ends_with_its_client() {
    let mut bench = Bench::primary();
    let session = transaction(&mut bench);
    let mut first = bench.sent(within(session, insert()));
    bench.reply(&mut first, &json!({"ok": 1}));
    let mut exchange = bench.sent(commit(session));
    // The retry finds no server.
    bench.break_line(&mut exchange);
    assert_ne!(exchange.step(), Step::Done);
    bench.client.close(bench.now);
    exchange.handle_wake(&mut bench.client, bench.now);
    assert_eq!((exchange.step(), state(&bench, session)), (Step::Done, State::Committed));
}
