//! The rules of an exchange, with a virtual clock and fake replies.

mod bench;

use std::time::Duration;

use bench::*;
use mangonel_proto::client::Action;
use mangonel_proto::client_session::ClientSession;
use mangonel_proto::error::Failure;
use mangonel_proto::events::{CheckOutFailure, Event, Interests, PoolEvent};
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::message::Replies;
use mangonel_proto::operation::{Kind, SessionChoice};
use serde_json::json;

// Retries

/// A client with one connection for all, for which an operation waits 200 ms.
fn narrow() -> Bench {
    Bench::new(with(|options| {
        options.pool.max_pool_size = 1;
        options.wait_queue_timeout = Some(Duration::from_millis(200));
    }))
}

#[test]
fn a_read_is_sent_again_once_when_the_line_breaks() {
    let mut bench = Bench::standalone();
    let mut exchange = bench.sent(find());
    let first = request_id(&exchange);
    bench.break_line(&mut exchange);
    bench.connect(&mut exchange);
    assert_ne!(request_id(&exchange), first);
    assert_eq!(outbound(&exchange)["find"], "orders");
    assert_eq!(exchange.retries(), 1);
    bench.break_line(&mut exchange);
    assert_eq!(exchange.step(), Step::Done);
    assert!(message(&exchange).contains("a.example:27017: connection reset"));
}

#[test]
fn a_read_is_not_sent_again_when_retry_reads_is_off() {
    let mut bench = Bench::new(with(|options| options.retry_reads = false));
    let mut exchange = bench.sent(find());
    bench.break_line(&mut exchange);
    assert!(matches!(exchange.failure(), Some(Failure::Network { timed_out: false, .. })));
}

#[test]
fn a_get_more_is_never_sent_again() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(operation(Kind::ReadOnce, &json!({"getMore": 1})));
    bench.break_line(&mut exchange);
    assert!(matches!(exchange.failure(), Some(Failure::Network { .. })));
}

#[test]
fn a_read_is_sent_again_after_a_retryable_code_and_not_after_another() {
    for (code, again) in [(11600, true), (91, true), (10107, true), (11000, false), (59, false)] {
        let mut bench = Bench::primary();
        let mut exchange = bench.sent(find());
        bench.reply(&mut exchange, &json!({"ok": 0, "code": code, "errmsg": "no"}));
        bench.settle(&mut exchange);
        assert_eq!(exchange.step() == Step::Write, again, "code {code}");
        if again {
            bench.reply(&mut exchange, &json!({"ok": 0, "code": code, "errmsg": "no"}));
        }
        assert_eq!(exchange.failure(), Some(&Failure::Command), "code {code}");
        let (_, out, pending, waiting) = bench.sizes();
        assert_eq!((out, pending, waiting), (0, 0, 0), "code {code}");
    }
}

#[test]
fn a_write_is_sent_again_with_the_same_session_and_transaction_number() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    let first = outbound(&exchange);
    assert_eq!(number(&first["txnNumber"]), 1);
    bench.break_line(&mut exchange);
    bench.connect(&mut exchange);
    let second = outbound(&exchange);
    assert_eq!((&second["lsid"], &second["txnNumber"]), (&first["lsid"], &first["txnNumber"]));
}

#[test]
fn a_write_is_sent_again_when_the_server_labels_its_error() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    let labelled = json!({"ok": 0, "code": 10107, "errmsg": "no", "errorLabels": ["RetryableWriteError"]});
    bench.reply(&mut exchange, &labelled);
    bench.settle(&mut exchange);
    assert_eq!((exchange.step(), exchange.retries()), (Step::Write, 1));
    bench.reply(&mut exchange, &labelled);
    assert_eq!(exchange.failure(), Some(&Failure::Command));
}

#[test]
fn a_write_is_not_sent_again_without_the_label() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 10107, "errmsg": "no"}));
    assert_eq!(exchange.failure(), Some(&Failure::Command));
}

#[test]
fn insert_is_not_retried_when_retry_writes_is_off() {
    let mut bench = Bench::new(with(|options| options.retry_writes = false));
    let mut exchange = bench.sent(insert());
    assert!(outbound(&exchange).get("txnNumber").is_none());
    bench.break_line(&mut exchange);
    assert!(matches!(exchange.failure(), Some(Failure::Network { .. })));
}

#[test]
fn a_standalone_gets_neither_transaction_numbers_nor_retried_writes() {
    let mut bench = Bench::standalone();
    let mut exchange = bench.sent(insert());
    assert!(outbound(&exchange).get("txnNumber").is_none() && outbound(&exchange).get("lsid").is_some());
    bench.break_line(&mut exchange);
    assert!(matches!(exchange.failure(), Some(Failure::Network { .. })));
}

#[test]
fn every_write_of_a_session_takes_the_next_transaction_number() {
    let mut bench = Bench::primary();
    bench.run(insert());
    let exchange = bench.sent(insert());
    assert_eq!(number(&outbound(&exchange)["txnNumber"]), 2);
}

#[test]
fn a_timed_out_read_is_sent_again_and_leaves_other_connections_alone() {
    let mut bench = Bench::primary();
    let (mut idle, mut slow) = (bench.sent(find()), bench.sent(find()));
    bench.reply(&mut idle, &json!({"ok": 1}));
    slow.handle_network_error(&mut bench.client, "timed out", true, bench.now);
    assert_eq!(slow.step(), Step::Write, "the idle connection is used at once");
    slow.handle_network_error(&mut bench.client, "timed out", true, bench.now);
    assert!(matches!(slow.failure(), Some(Failure::Network { timed_out: true, .. })));
}

#[test]
fn a_read_whose_link_a_missed_heartbeat_closed_is_sent_again_once_and_says_why() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    for retries in [1, 2] {
        let link = exchange.link().unwrap();
        bench.miss_heartbeat();
        assert!(bench.client.poll_closing().contains(&link));
        exchange.handle_network_error(
            &mut bench.client,
            "the server closed the connection",
            false,
            bench.now,
        );
        if retries == 1 {
            bench.settle(&mut exchange);
            assert_eq!((exchange.step(), exchange.retries()), (Step::Write, 1));
        }
    }
    let said = message(&exchange);
    assert!(said.contains("heartbeat") && !said.contains("the server closed"), "{said}");
}

#[test]
fn an_operation_under_way_when_its_client_is_closed_says_so() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    bench.client.close(bench.now);
    exchange.handle_network_error(&mut bench.client, "the server closed the connection", false, bench.now);
    let said = message(&exchange);
    assert!(said.contains("the client was closed while the operation ran"), "{said}");
}

#[test]
fn a_link_closed_before_anything_was_sent_is_no_attempt() {
    let mut bench = Bench::standalone();
    bench.run(insert());
    let mut exchange = bench.begin(insert());
    let old = exchange.link().unwrap();
    exchange.handle_link_lost(&mut bench.client, bench.now);
    assert_eq!(bench.client.poll_closing(), [old]);
    bench.connect(&mut exchange);
    assert_eq!((exchange.step(), exchange.retries()), (Step::Write, 0));
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert_eq!((exchange.failure(), bench.sizes()), (None, (1, 0, 0, 0)));
}

#[test]
fn listeners_hear_a_command_once_whose_link_was_lost_before_it_was_sent() {
    let mut bench = Bench::standalone();
    bench.run(insert());
    bench.client.set_interests(Interests::COMMANDS);
    let mut exchange = bench.begin(insert());
    exchange.handle_link_lost(&mut bench.client, bench.now);
    // A face announces before every message, so also before the hello of the next connection.
    assert!(!exchange.is_announcement_due());
    bench.connect(&mut exchange);
    exchange.announce(&mut bench.client, bench.now);
    bench.reply(&mut exchange, &json!({"ok": 1}));
    let events = bench.client.poll_events();
    let started = events.iter().filter(|event| matches!(event, Event::CommandStarted { .. }));
    assert_eq!((started.count(), events.len()), (1, 2));
}

#[test]
fn the_cursor_of_a_cancelled_find_is_killed_when_its_explicit_session_ends() {
    let mut bench = Bench::primary();
    let session = bench.client.open_session(ClientSession::new(true, false));
    let mut operation = find();
    operation.session = SessionChoice::Explicit(session);
    let mut exchange = bench.sent(operation);
    let id = bench.client.session(session).unwrap().server().unwrap().id;
    let server = exchange.server().cloned().unwrap();
    bench.client.poll_actions();
    exchange.close(&mut bench.client, bench.now);
    assert_eq!(bench.client.poll_actions(), []);
    bench.client.end_session(session, bench.now);
    assert_eq!(bench.client.poll_actions(), [Action::KillSession(server, id)]);
}

// Server selection and handshakes

#[test]
fn server_selection_ends_in_an_error_that_names_the_address_and_the_reason() {
    let mut bench = Bench::primary();
    let mut exchange = bench.begin(find());
    let begun = bench.now;
    loop {
        match exchange.step() {
            Step::Connect => {
                exchange.handle_network_error(&mut bench.client, "connection refused", false, bench.now);
            }
            Step::Sleep(until) => {
                assert!(until > bench.now && exchange.deadline(&bench.client) == Some(until));
                bench.now = until;
                exchange.handle_timeout(&mut bench.client, bench.now);
            }
            Step::Done => break,
            other => panic!("expected to connect or to sleep, got {other:?}"),
        }
    }
    let waited = bench.now.saturating_since(begun);
    assert!(waited <= Duration::from_secs(30) && waited >= Duration::from_secs(29), "{waited:?}");
    assert!(matches!(exchange.failure(), Some(Failure::ServerSelection(_))));
    let words = message(&exchange);
    assert!(
        words.contains("within 30 s") && words.contains("a.example:27017: connection refused"),
        "{words}"
    );
    bench.close(&mut exchange);
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_server_that_comes_up_in_time_is_used() {
    let mut bench = Bench::primary();
    let mut exchange = bench.begin(find());
    bench.break_line(&mut exchange);
    let Step::Sleep(until) = exchange.step() else { panic!("{:?}", exchange.step()) };
    exchange.handle_timeout(&mut bench.client, bench.now);
    assert_eq!(exchange.step(), Step::Sleep(until), "too early changes nothing");
    bench.now = until;
    exchange.handle_timeout(&mut bench.client, bench.now);
    bench.connect(&mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert_eq!(exchange.failure(), None);
}

#[test]
fn a_refused_handshake_is_tried_again_and_says_why() {
    let mut bench = Bench::new(with(|options| options.server_selection_timeout = Duration::ZERO));
    let mut exchange = bench.begin(find());
    let link = bench.open(&mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 0, "errmsg": "not now"}));
    assert!(message(&exchange).contains("the handshake was refused: not now"), "{}", message(&exchange));
    assert_eq!((bench.client.poll_closing(), bench.sizes()), (vec![link], (0, 0, 0, 0)));
}

#[test]
fn a_server_of_another_wire_version_is_refused_at_once() {
    for (least, most, words) in [(0, 8, "MongoDB 4.4"), (99, 100, "99")] {
        let mut bench = Bench::primary();
        bench.hello = json!({"ok": 1, "minWireVersion": least, "maxWireVersion": most});
        let exchange = bench.begin(find());
        assert!(matches!(exchange.failure(), Some(Failure::Configuration(_))));
        assert!(message(&exchange).contains(words), "{}", message(&exchange));
    }
}

#[test]
fn a_retry_that_finds_servers_of_another_version_ends_with_the_error_of_the_attempt_that_was_sent() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    bench.break_line(&mut exchange);
    bench.hello = json!({"ok": 1, "minWireVersion": 99, "maxWireVersion": 100});
    bench.rouse(&mut exchange);
    assert_eq!(exchange.step(), Step::Done);
    assert!(message(&exchange).contains("connection reset"), "{}", message(&exchange));
}

#[test]
fn a_cursor_s_server_whose_pool_is_not_ready_is_asked_once_with_and_without_listeners() {
    for interests in [Interests::default(), Interests::POOLS] {
        let mut bench = Bench::new(with(|options| {
            options.topology.is_direct = false;
            options.topology.set_name = Some("rs0".into());
        }));
        bench.hello["hosts"] = json!(["a.example:27017"]);
        let mut lost = bench.sent(find());
        bench.break_line(&mut lost);
        // A member that is recovering is known, but runs no operation except its cursor's.
        bench.hello["ismaster"] = json!(false);
        bench.client.set_interests(interests);
        let mut asked = operation(Kind::ReadOnce, &json!({"getMore": 5}));
        asked.server = Some(address());
        let mut exchange = bench.begin(asked);
        exchange.handle_check_out(&mut bench.client, bench.now);
        assert_eq!((exchange.is_check_out_due(), exchange.step()), (false, Step::Connect));
    }
}

#[test]
fn a_member_of_another_replica_set_is_never_selected() {
    for hello in [primary(), standalone()] {
        let mut bench = Bench::new(with(|options| options.topology.set_name = Some("rs1".into())));
        bench.hello = hello;
        let mut exchange = bench.begin(find());
        assert_eq!(exchange.step(), Step::Wait);
        bench.pass(30_000);
        exchange.handle_timeout(&mut bench.client, bench.now);
        assert!(message(&exchange).contains("rs1"), "{}", message(&exchange));
    }
}

#[test]
fn an_operation_waits_for_the_monitor_and_no_longer_than_asked() {
    let mut bench = Bench::primary();
    bench.is_down = true;
    let mut exchange = bench.begin(find());
    assert_eq!((exchange.step(), bench.sizes()), (Step::Wait, (0, 0, 0, 0)));
    bench.is_down = false;
    bench.rouse(&mut exchange);
    assert_eq!(exchange.step(), Step::Connect);
    let mut impatient = {
        let mut bench = Bench::primary();
        bench.is_down = true;
        let exchange = bench.begin(find());
        (bench, exchange)
    };
    impatient.0.pass(30_000);
    impatient.1.handle_timeout(&mut impatient.0.client, impatient.0.now);
    assert!(matches!(impatient.1.failure(), Some(Failure::ServerSelection(_))));
}

#[test]
fn the_handshake_names_the_driver_and_carries_no_session() {
    let mut bench = Bench::primary();
    let mut exchange = bench.begin(find());
    bench.open(&mut exchange);
    let hello = outbound(&exchange);
    assert_eq!(hello["client"]["driver"]["name"], "test");
    assert!(hello.get("lsid").is_none() && exchange.expects_reply());
    assert_eq!(exchange.step_timeout(&bench.client, bench.now), Some(Duration::from_secs(20)));
}

// The pool

#[test]
fn an_idle_link_is_used_at_once() {
    let mut bench = Bench::primary();
    bench.run(find());
    let exchange = bench.begin(find());
    assert_eq!(exchange.step(), Step::Write);
    assert_eq!(bench.sizes(), (0, 1, 0, 0));
}

#[test]
fn a_server_or_a_link_that_came_at_the_last_moment_is_used_though_the_timer_is_first() {
    let mut bench = Bench::primary();
    bench.is_down = true;
    let mut exchange = bench.begin(find());
    bench.is_down = false;
    bench.pass(30_000);
    bench.discover();
    exchange.handle_timeout(&mut bench.client, bench.now);
    assert_eq!(exchange.step(), Step::Connect);

    let mut bench = narrow();
    let mut holder = bench.sent(find());
    let mut waiter = bench.begin(find());
    bench.pass(200);
    bench.reply(&mut holder, &json!({"ok": 1}));
    waiter.handle_timeout(&mut bench.client, bench.now);
    assert_eq!((waiter.step(), bench.sizes()), (Step::Write, (0, 1, 0, 0)));
}

#[test]
fn waiting_for_a_link_ends_in_an_error_that_says_what_the_pool_does() {
    let mut bench = narrow();
    let mut holder = bench.sent(find());
    let mut waiter = bench.begin(find());
    assert_eq!((waiter.step(), bench.sizes()), (Step::Wait, (0, 1, 0, 1)));
    bench.pass(199);
    waiter.handle_timeout(&mut bench.client, bench.now);
    assert_eq!(waiter.step(), Step::Wait);
    bench.pass(1);
    waiter.handle_timeout(&mut bench.client, bench.now);
    assert!(matches!(waiter.failure(), Some(Failure::WaitQueue(_))));
    assert!(message(&waiter).contains("0.2 s: 1 in use, 0 being opened, 1 waiting"), "{}", message(&waiter));
    bench.reply(&mut holder, &json!({"ok": 1}));
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn the_check_out_of_a_waiter_ends_whose_time_is_over_before_it_hears_that_the_client_was_closed() {
    let mut bench = narrow();
    let _holder = bench.sent(find());
    bench.client.set_interests(Interests::POOLS);
    let mut waiter = bench.begin(find());
    waiter.handle_check_out(&mut bench.client, bench.now);
    assert_eq!((waiter.step(), bench.sizes()), (Step::Wait, (0, 1, 0, 1)));
    bench.client.close(bench.now);
    bench.client.poll_events();
    bench.pass(200);
    waiter.handle_timeout(&mut bench.client, bench.now);
    assert_eq!(waiter.failure(), Some(&Failure::Closed));
    let heard = bench.client.poll_events();
    let is_end = |event: &Event| {
        matches!(
            event,
            Event::Pool { event: PoolEvent::CheckOutFailed { reason: CheckOutFailure::PoolClosed, .. }, .. }
        )
    };
    assert_eq!(heard.iter().filter(|event| is_end(event)).count(), 1);
}

#[test]
fn what_steps_aside_is_in_no_ones_way_and_has_its_whole_time_when_it_is_resumed() {
    let mut bench = Bench::new(with(|options| {
        options.pool.max_pool_size = 1;
        options.timeout = Some(Duration::from_millis(200));
    }));
    let mut first = bench.begin(find());
    assert_eq!((first.step(), bench.sizes()), (Step::Connect, (0, 0, 1, 0)));
    first.step_aside(&mut bench.client, bench.now);
    assert_eq!((first.step(), bench.sizes()), (Step::Wait, (0, 0, 0, 0)));
    let mut holder = bench.sent(find());
    let mut second = bench.begin(find());
    assert_eq!((second.step(), bench.sizes()), (Step::Wait, (0, 1, 0, 1)));
    second.step_aside(&mut bench.client, bench.now);
    bench.reply(&mut holder, &json!({"ok": 1}));
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
    bench.pass(500);
    for aside in [&mut first, &mut second] {
        aside.resume(&mut bench.client, bench.now);
        assert_eq!((aside.step(), bench.sizes()), (Step::Write, (0, 1, 0, 0)));
        assert_eq!(aside.step_timeout(&bench.client, bench.now), Some(Duration::from_millis(200)));
        bench.reply(aside, &json!({"ok": 1}));
    }
    // What holds a connection keeps it.
    holder = bench.begin(find());
    holder.step_aside(&mut bench.client, bench.now);
    holder.resume(&mut bench.client, bench.now);
    assert_eq!((holder.step(), bench.sizes()), (Step::Write, (0, 1, 0, 0)));
}

#[test]
fn what_begins_aside_takes_nothing_before_it_is_resumed() {
    let mut bench = Bench::primary();
    let mut known = bench.sent(find());
    bench.reply(&mut known, &json!({"ok": 1}));
    let (shard, now) = (bench.shard, bench.now);
    let mut exchange = Exchange::begin_aside(&mut bench.client, shard, insert(), now);
    assert_eq!((exchange.step(), bench.sizes()), (Step::Wait, (1, 0, 0, 0)));
    exchange.resume(&mut bench.client, now);
    assert_eq!(outbound(&exchange)["insert"], "orders");
}

#[test]
fn a_retry_that_finds_no_free_link_ends_with_the_error_of_the_attempt_that_was_sent() {
    let mut bench = narrow();
    let mut write = bench.sent(insert());
    let mut second = bench.begin(find());
    bench.break_line(&mut write);
    second.handle_wake(&mut bench.client, bench.now);
    bench.connect(&mut second);
    write.handle_wake(&mut bench.client, bench.now);
    assert_eq!((write.step(), bench.sizes()), (Step::Wait, (0, 1, 0, 1)));
    bench.pass(200);
    write.handle_timeout(&mut bench.client, bench.now);
    assert!(matches!(write.failure(), Some(Failure::Network { .. })), "{:?}", write.failure());
}

#[test]
fn a_retry_that_has_to_wait_has_the_whole_time_for_it() {
    let mut bench = narrow();
    let mut first = bench.sent(find());
    let mut second = bench.begin(find());
    bench.pass(150);
    bench.break_line(&mut first);
    // The waiter was granted the place, so the retry queues behind it.
    assert_eq!(first.step(), Step::Wait);
    second.handle_wake(&mut bench.client, bench.now);
    bench.connect(&mut second);
    bench.pass(100);
    first.handle_timeout(&mut bench.client, bench.now);
    assert_eq!(first.step(), Step::Wait);
    bench.reply(&mut second, &json!({"ok": 1}));
    first.handle_wake(&mut bench.client, bench.now);
    assert_eq!(first.step(), Step::Write);
}

#[test]
fn a_link_that_owes_a_reply_is_never_checked_in() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    let link = exchange.link().unwrap();
    exchange.handle_sent(&mut bench.client, bench.now);
    assert_eq!(exchange.step(), Step::Read);
    bench.close(&mut exchange);
    assert_eq!((bench.client.poll_closing(), bench.sizes()), (vec![link], (0, 0, 0, 0)));
}

#[test]
fn a_link_with_the_wrong_reply_is_closed_and_nothing_is_sent_again() {
    let mut bench = Bench::primary();
    for wrong in [op_msg(&json!({"ok": 1}), 4242, 0), op_msg(&json!({"ok": 1}), 0, 1), vec![0; 16], vec![]] {
        let mut exchange = bench.sent(find());
        let link = exchange.link().unwrap();
        exchange.handle_reply(&mut bench.client, &wrong, bench.now);
        assert!(matches!(exchange.failure(), Some(Failure::Protocol(_))));
        assert!(message(&exchange).starts_with("a.example:27017: "));
        assert_eq!((bench.client.poll_closing(), bench.sizes()), (vec![link], (0, 0, 0, 0)));
    }
}

#[test]
fn an_error_on_a_link_of_an_older_generation_closes_no_newer_one() {
    let mut bench = Bench::primary();
    let (mut first, mut second) = (bench.sent(find()), bench.sent(find()));
    bench.break_line(&mut first);
    bench.connect(&mut first);
    bench.reply(&mut first, &json!({"ok": 1}));
    assert_eq!(bench.sizes(), (1, 1, 0, 0));
    bench.break_line(&mut second);
    assert_eq!(second.step(), Step::Write, "the new connection is there for the retry");
}

#[test]
fn a_broken_line_closes_the_idle_ones_too() {
    let mut bench = Bench::primary();
    let (mut idle, mut broken) = (bench.sent(find()), bench.sent(find()));
    let links = [broken.link().unwrap(), idle.link().unwrap()];
    bench.reply(&mut idle, &json!({"ok": 1}));
    bench.break_line(&mut broken);
    let mut closing = bench.client.poll_closing();
    bench.rouse(&mut broken);
    closing.sort();
    assert_eq!(
        (closing, broken.step()),
        (
            {
                let mut l = links.to_vec();
                l.sort();
                l
            },
            Step::Connect
        )
    );
}

#[test]
fn a_command_larger_than_the_server_takes_is_not_sent() {
    let mut bench = Bench::primary();
    bench.hello["maxMessageSizeBytes"] = json!(1000);
    let mut exchange = bench.begin(operation(Kind::Write, &json!({"insert": "x".repeat(2000)})));
    bench.connect(&mut exchange);
    assert!(matches!(exchange.failure(), Some(Failure::TooLarge(_))));
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

// Exhaust cursors

fn exhaust(bench: &mut Bench) -> Exchange {
    let mut asked = operation(Kind::ReadOnce, &json!({"getMore": 5}));
    asked.replies = Replies::Exhaust;
    let mut exchange = bench.sent(asked);
    assert_eq!(exchange.outbound()[18], 1, "exhaustAllowed");
    let batch = json!({"ok": 1, "cursor": {"id": 5, "ns": "shop.orders", "nextBatch": []}});
    let message = op_msg(&batch, request_id(&exchange), MORE_TO_COME);
    exchange.handle_reply(&mut bench.client, &message, bench.now);
    assert!(exchange.step() == Step::Done && exchange.more_to_come());
    exchange
}

fn pinned(exchange: &Exchange) -> mangonel_proto::operation::Operation {
    let mut next = operation(Kind::ReadOnce, &json!({"getMore": 5}));
    (next.pinned, next.is_under_way, next.replies) = (exchange.link(), true, Replies::Exhaust);
    next
}

#[test]
fn a_link_with_more_to_come_stays_out_until_its_last_reply() {
    let mut bench = Bench::primary();
    let first = exhaust(&mut bench);
    assert_eq!(bench.sizes(), (0, 1, 0, 0));
    let mut next = bench.begin(pinned(&first));
    assert_eq!((next.step(), next.link()), (Step::Read, first.link()));
    let batch = json!({"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "nextBatch": []}});
    next.handle_reply(&mut bench.client, &op_msg(&batch, 77, 0), bench.now);
    assert!(next.step() == Step::Done && !next.more_to_come());
    bench.client.release_pinned(first.link().unwrap(), true, bench.now);
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn a_link_with_more_to_come_is_closed_when_nobody_reads_on() {
    let mut bench = Bench::primary();
    let first = exhaust(&mut bench);
    let link = first.link().unwrap();
    bench.client.release_pinned(link, false, bench.now);
    assert_eq!((bench.client.poll_closing(), bench.sizes()), (vec![link], (0, 0, 0, 0)));
}

#[test]
fn an_error_with_more_to_come_is_the_last_word_so_that_its_link_is_not_left_behind() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    let error = json!({"ok": 0, "code": 91, "errmsg": "shutting down"});
    let message = op_msg(&error, request_id(&exchange), MORE_TO_COME);
    exchange.handle_reply(&mut bench.client, &message, bench.now);
    assert_eq!((exchange.step(), exchange.keeps_link()), (Step::Done, true));
    exchange.give_up(&mut bench.client, true, bench.now);
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_line_that_breaks_under_an_exhaust_cursor_closes_the_idle_ones_of_its_generation() {
    let mut bench = Bench::primary();
    let mut earlier = bench.sent(find());
    bench.break_line(&mut earlier);
    bench.close(&mut earlier);
    let (mut idle, streaming) = (bench.sent(find()), exhaust(&mut bench));
    bench.reply(&mut idle, &json!({"ok": 1}));
    assert_eq!(bench.sizes(), (1, 1, 0, 0));
    let mut next = bench.begin(pinned(&streaming));
    bench.break_line(&mut next);
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_link_that_was_granted_before_its_pool_was_cleared_does_not_clear_it_again() {
    let mut bench =
        Bench::new(with(|options| (options.pool.max_pool_size, options.retry_reads) = (2, false)));
    let (mut free, mut lost) = (bench.sent(find()), bench.sent(find()));
    let mut waiter = bench.begin(find());
    bench.reply(&mut free, &json!({"ok": 1}));
    bench.break_line(&mut lost);
    waiter.handle_wake(&mut bench.client, bench.now);
    assert_eq!(waiter.step(), Step::Write);
    bench.run(insert());
    bench.break_line(&mut waiter);
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn reading_on_from_a_lost_link_is_a_network_error() {
    let mut bench = Bench::primary();
    let first = exhaust(&mut bench);
    bench.client.link_lost(bench.shard, first.link().unwrap(), bench.now);
    let next = bench.begin(pinned(&first));
    assert!(message(&next).contains("the connection of the cursor was lost"));
}

// The end of a client

#[test]
fn a_closed_client_runs_nothing() {
    let mut bench = Bench::primary();
    bench.run(find());
    bench.client.close(bench.now);
    let exchange = bench.begin(find());
    assert_eq!((exchange.failure(), bench.sizes()), (Some(&Failure::Closed), (0, 0, 0, 0)));
}

#[test]
fn closing_the_client_ends_what_is_under_way_at_its_next_event() {
    let mut bench = Bench::new(with(|options| options.pool.max_pool_size = 2));
    let mut flying = bench.sent(find());
    let mut opening = bench.begin(find());
    let mut waiting = bench.begin(find());
    bench.client.close(bench.now);
    assert_eq!(bench.client.poll_closing(), [flying.link().unwrap()]);
    assert_eq!(bench.client.poll_wakers(), [waiting.id()]);
    waiting.handle_wake(&mut bench.client, bench.now);
    bench.break_line(&mut flying);
    let link = bench.open(&mut opening);
    for exchange in [&waiting, &flying, &opening] {
        assert_eq!(exchange.failure(), Some(&Failure::Closed));
    }
    assert!(bench.client.poll_closing().contains(&link));
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_retry_whose_client_was_closed_ends_with_the_error_of_the_attempt_that_was_sent() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    bench.break_line(&mut exchange);
    assert_eq!((exchange.step(), exchange.retries()), (Step::Wait, 1));
    bench.client.close(bench.now);
    exchange.handle_wake(&mut bench.client, bench.now);
    assert_eq!(exchange.step(), Step::Done);
    assert!(message(&exchange).contains("connection reset"), "{}", message(&exchange));
}

#[test]
fn a_reply_that_comes_after_the_client_was_closed_still_closes_its_link() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    let link = exchange.link().unwrap();
    bench.client.close(bench.now);
    bench.client.poll_closing();
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert_eq!((exchange.failure(), bench.client.poll_closing()), (None, vec![link]));
}

#[test]
fn a_forked_child_starts_with_an_empty_pool_and_other_sessions() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    let parent = outbound(&exchange)["lsid"].clone();
    bench.client.restart_in_child([9; 16], bench.now);
    bench.close(&mut exchange);
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
    let exchange = bench.sent(insert());
    assert_ne!(outbound(&exchange)["lsid"], parent);
}

#[test]
fn a_command_has_a_session_although_its_server_was_lost_while_the_connection_was_made() {
    let mut bench = Bench::primary();
    let first = bench.sent(find());
    let mut writer = bench.begin(insert());
    bench.open(&mut writer);
    let mut reader = first;
    bench.break_line(&mut reader);
    assert_eq!(bench.client.session_timeout(), None, "nothing is known of the deployment");
    let hello = bench.hello.clone();
    bench.reply(&mut writer, &hello);
    let body = outbound(&writer);
    assert!(body["lsid"].is_object());
    assert_eq!(number(&body["txnNumber"]), 1);
}

#[test]
fn a_command_of_an_explicit_session_is_sent_although_its_server_was_lost_while_the_connection_was_made() {
    let mut bench = Bench::primary();
    let mut first = bench.sent(find());
    let session = bench.client.open_session(ClientSession::new(true, false));
    let mut operation = insert();
    operation.session = SessionChoice::Explicit(session);
    let mut writer = bench.begin(operation);
    bench.open(&mut writer);
    bench.break_line(&mut first);
    assert_eq!(bench.client.session_timeout(), None, "nothing is known of the deployment");
    let hello = bench.hello.clone();
    bench.reply(&mut writer, &hello);
    assert_eq!((writer.step(), writer.failure()), (Step::Write, None));
}

#[test]
fn a_find_that_is_given_up_has_its_session_killed_and_a_write_has_not() {
    let mut bench = Bench::primary();
    for (operation, is_killed) in [(find(), true), (insert(), false)] {
        let mut exchange = bench.sent(operation);
        let id = exchange.session().unwrap().id;
        bench.client.poll_actions();
        bench.close(&mut exchange);
        let kills = bench.client.poll_actions();
        assert_eq!(kills.contains(&Action::KillSession(address(), id)), is_killed);
    }
}

#[test]
fn the_session_of_a_find_is_not_killed_while_it_is_tried_again() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    bench.break_line(&mut exchange);
    bench.settle(&mut exchange);
    let kills = |bench: &mut Bench| {
        bench.client.poll_actions().iter().filter(|action| matches!(action, Action::KillSession(..))).count()
    };
    assert_eq!(kills(&mut bench), 0);
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert_eq!(kills(&mut bench), 1);
}
