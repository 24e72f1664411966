//! The bounds of a whole exchange: its time limit, the back-off under overload, and which of several errors the caller
//! gets. Specs: client-side-operations-timeout, client-backpressure, retryable-writes.

mod bench;

use std::time::Duration;

use bench::*;
use mangonel_proto::error::Failure;
use mangonel_proto::exchange::{Exchange, Step};
use mangonel_proto::operation::{Kind, Limit, Operation};
use serde_json::{Value, json};

fn within(milliseconds: u64, mut operation: Operation) -> Operation {
    operation.limit = Limit::Within(Duration::from_millis(milliseconds));
    operation
}

fn left(bench: &Bench, exchange: &Exchange) -> Option<u128> {
    exchange.step_timeout(&bench.client, bench.now).map(|left| left.as_millis())
}

fn overloaded() -> Value {
    json!({"ok": 0, "code": 462, "errmsg": "too busy", "errorLabels": ["SystemOverloadedError", "RetryableError"]})
}

/// Lets a back-off pass; returns how long it took.
fn rest(bench: &mut Bench, exchange: &mut Exchange) -> Duration {
    let Step::Sleep(until) = exchange.step() else {
        panic!("expected a back-off, got {:?}", exchange.step())
    };
    let waited = until.saturating_since(bench.now);
    bench.now = bench.now.max(until);
    exchange.handle_timeout(&mut bench.client, bench.now);
    waited
}

// The limit of the time

#[test]
fn what_is_left_of_the_time_limits_every_wait_and_the_servers_own_work() {
    let mut bench = Bench::new(with(|options| options.socket_timeout = Some(Duration::from_millis(10))));
    let mut exchange = bench.begin(within(500, find()));
    assert_eq!(left(&bench, &exchange), Some(500), "connecting");
    bench.pass(100);
    bench.open(&mut exchange);
    assert_eq!(left(&bench, &exchange), Some(400), "handshake");
    bench.pass(100);
    let hello = bench.hello.clone();
    bench.reply(&mut exchange, &hello);
    assert_eq!(left(&bench, &exchange), Some(300), "the command, despite socketTimeoutMS");
    assert_eq!(number(&outbound(&exchange)["maxTimeMS"]), 300);
}

#[test]
fn the_server_is_told_no_limit_that_it_would_keep_for_later_batches() {
    for command in ["find", "aggregate", "listIndexes"] {
        let mut bench = Bench::standalone();
        let mut asked = within(700, operation(Kind::Read, &json!({command: "orders"})));
        asked.omits_max_time = true;
        let exchange = bench.sent(asked);
        assert_eq!(left(&bench, &exchange), Some(700));
        assert_eq!(outbound(&exchange)["maxTimeMS"], Value::Null, "{command}");
    }
}

#[test]
fn the_clients_limit_holds_unless_the_operation_has_its_own() {
    let options = with(|options| options.timeout = Some(Duration::from_millis(800)));
    for (limit, expected) in [
        (Limit::OfClient, Some(800)),
        (Limit::None, None),
        (Limit::Within(Duration::from_millis(9000)), Some(9000)),
    ] {
        let mut bench = Bench::new(options.clone());
        let mut operation = find();
        operation.limit = limit;
        let exchange = bench.sent(operation);
        assert_eq!(left(&bench, &exchange), expected);
    }
}

#[test]
fn a_commands_own_limits_give_way_to_the_operations() {
    let mut bench = Bench::primary();
    let command =
        json!({"insert": "orders", "maxTimeMS": 5, "writeConcern": {"w": 2, "wtimeout": 9}, "ordered": true});
    let body = outbound(&bench.sent(within(700, operation(Kind::RetryableWrite, &command))));
    assert_eq!(number(&body["maxTimeMS"]), 700);
    assert_eq!((&body["writeConcern"]["wtimeout"], &body["ordered"]), (&Value::Null, &json!(true)));
    assert_eq!(number(&body["writeConcern"]["w"]), 2);
}

#[test]
fn a_get_more_keeps_the_wait_that_its_cursor_asked_for() {
    let mut bench = Bench::primary();
    let body =
        outbound(&bench.sent(within(700, operation(Kind::ReadOnce, &json!({"getMore": 1, "maxTimeMS": 5})))));
    assert_eq!(number(&body["maxTimeMS"]), 5);
    let body = outbound(&bench.sent(within(700, operation(Kind::ReadOnce, &json!({"getMore": 1})))));
    assert_eq!(body["maxTimeMS"], Value::Null);
}

#[test]
fn a_get_more_waits_no_longer_than_what_is_left_when_it_is_sent() {
    let mut bench = Bench::primary();
    let wait = json!({"getMore": 1, "maxTimeMS": 650});
    let mut exchange = bench.begin(within(700, operation(Kind::ReadOnce, &wait)));
    bench.open(&mut exchange);
    bench.pass(100);
    let hello = bench.hello.clone();
    bench.reply(&mut exchange, &hello);
    assert_eq!(number(&outbound(&exchange)["maxTimeMS"]), 600);

    let mut exchange = bench.sent(within(700, operation(Kind::ReadOnce, &wait)));
    assert_eq!(number(&outbound(&exchange)["maxTimeMS"]), 650);
    bench.pass(200);
    bench.reply(&mut exchange, &overloaded());
    rest(&mut bench, &mut exchange);
    assert!(number(&outbound(&exchange)["maxTimeMS"]) <= 500, "the second time as well");
}

#[test]
fn nothing_is_sent_when_the_way_takes_longer_than_what_is_left() {
    let mut bench = Bench::primary();
    bench.run(find());
    let exchange = bench.begin(within(0, find()));
    assert!(
        matches!(exchange.failure(), Some(Failure::TimeLimit(message)) if message.contains("raise timeoutMS"))
    );
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn within_its_limit_a_read_is_sent_again_as_often_as_the_line_breaks() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(within(5_000, find()));
    for _ in 0..7 {
        bench.pass(10);
        bench.break_line(&mut exchange);
        bench.settle(&mut exchange);
        assert_eq!(exchange.step(), Step::Write);
    }
    bench.pass(5_000);
    bench.break_line(&mut exchange);
    assert!(matches!(exchange.failure(), Some(Failure::Network { .. })));
    assert!(exchange.is_out_of_time());
}

fn stepping_down() -> Value {
    json!({"ok": 0, "code": 91, "errmsg": "stepping down", "errorLabels": ["RetryableWriteError"]})
}

#[test]
fn a_failure_that_only_the_end_of_time_keeps_from_another_attempt_is_one_of_time() {
    for (operation, reply, is_one) in [
        (find(), stepping_down(), true),
        (insert(), stepping_down(), true),
        (find(), json!({"ok": 0, "code": 2, "errmsg": "bad value"}), false),
        (insert(), json!({"ok": 0, "code": 91, "errmsg": "without the label"}), false),
        (operation(Kind::Write, &json!({"drop": "orders"})), stepping_down(), false),
        (
            insert(),
            json!({"ok": 1, "n": 1, "writeConcernError": {"code": 91}, "errorLabels": ["RetryableWriteError"]}),
            false,
        ),
    ] {
        let mut bench = Bench::primary();
        let mut exchange = bench.sent(within(500, operation));
        bench.pass(600);
        bench.reply(&mut exchange, &reply);
        assert_eq!(exchange.step(), Step::Done);
        assert_eq!(exchange.is_out_of_time(), is_one, "{reply}");
    }
}

#[test]
fn without_a_limit_no_failure_is_one_of_time() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    bench.pass(100_000);
    for _ in 0..2 {
        bench.reply(&mut exchange, &stepping_down());
        bench.settle(&mut exchange);
    }
    assert_eq!((exchange.step(), exchange.is_out_of_time()), (Step::Done, false));
}

#[test]
fn a_search_that_ends_with_the_limit_is_one_of_time_and_one_that_ends_before_is_not() {
    for (milliseconds, is_one) in [(200, true), (60_000, false)] {
        let mut bench = Bench::primary();
        let mut exchange = bench.sent(within(milliseconds, insert()));
        bench.is_down = true;
        bench.break_line(&mut exchange);
        bench.pass(milliseconds.min(30_000));
        exchange.handle_timeout(&mut bench.client, bench.now);
        assert!(message(&exchange).contains("connection reset"));
        assert_eq!(exchange.is_out_of_time(), is_one);
    }
}

#[test]
fn looking_for_a_server_ends_with_the_limit() {
    let mut bench = Bench::primary();
    bench.is_down = true;
    let mut exchange = bench.begin(within(200, find()));
    assert_eq!(exchange.deadline(&bench.client), Some(bench.now + Duration::from_millis(200)));
    bench.pass(200);
    exchange.handle_timeout(&mut bench.client, bench.now);
    assert!(message(&exchange).contains("within 0.2 s"), "{}", message(&exchange));
}

fn impatient(connect_timeout: Option<Duration>) -> Bench {
    Bench::new(with(|options| {
        options.server_selection_timeout = Duration::from_millis(100);
        options.connect_timeout = connect_timeout;
    }))
}

#[test]
fn the_time_to_look_for_a_server_limits_neither_opening_a_connection_nor_the_login() {
    for (connect_timeout, milliseconds) in [(Some(Duration::from_secs(20)), Some(20_000)), (None, None)] {
        let mut bench = impatient(connect_timeout);
        let mut exchange = bench.begin(find());
        assert_eq!(left(&bench, &exchange), milliseconds, "connecting");
        bench.pass(5_000);
        bench.open(&mut exchange);
        assert_eq!(left(&bench, &exchange), milliseconds, "handshake");
        bench.pass(5_000);
        let hello = bench.hello.clone();
        bench.reply(&mut exchange, &hello);
        assert_eq!(exchange.step(), Step::Write, "the command follows");
    }
}

#[test]
fn the_operations_limit_holds_while_a_connection_is_opened_without_a_connect_timeout() {
    let mut bench = impatient(None);
    let mut exchange = bench.begin(within(500, find()));
    assert_eq!(left(&bench, &exchange), Some(500));
    bench.pass(200);
    bench.open(&mut exchange);
    assert_eq!(left(&bench, &exchange), Some(300));
}

#[test]
fn the_search_for_a_server_starts_anew_once_after_a_connection_that_took_long() {
    let mut bench = Bench::new(with(|options| options.server_selection_timeout = Duration::from_secs(5)));
    let mut exchange = bench.begin(find());
    for _ in 0..2 {
        let words = exchange.failure().map(|failure| format!("{failure:?}"));
        assert_eq!(exchange.step(), Step::Connect, "{words:?}");
        bench.pass(20_000);
        exchange.handle_network_error(&mut bench.client, "timed out", true, bench.now);
        if exchange.step() != Step::Done {
            rest(&mut bench, &mut exchange);
            bench.rouse(&mut exchange);
        }
    }
    assert!(message(&exchange).contains("within 5 s"), "{}", message(&exchange));
    assert!(message(&exchange).contains("timed out"), "{}", message(&exchange));
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn the_search_for_a_server_starts_anew_after_an_attempt_that_took_long() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    bench.pass(60_000);
    bench.is_down = true;
    bench.break_line(&mut exchange);
    assert_eq!(exchange.step(), Step::Wait);
    assert_eq!(exchange.deadline(&bench.client), Some(bench.now + Duration::from_secs(30)));
}

// Which error the caller gets

#[test]
fn that_no_server_is_left_for_a_retry_says_less_than_why_it_was_needed() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(insert());
    bench.is_down = true;
    bench.break_line(&mut exchange);
    bench.pass(30_000);
    exchange.handle_timeout(&mut bench.client, bench.now);
    assert!(message(&exchange).contains("connection reset"));
}

#[test]
fn an_attempt_that_wrote_nothing_says_less_than_the_one_before() {
    let labelled = json!({"ok": 0, "code": 91, "errmsg": "first", "errorLabels": ["RetryableWriteError"]});
    for (labels, expected) in [(json!(["NoWritesPerformed"]), 91), (json!([]), 10107)] {
        let mut bench = Bench::primary();
        let mut exchange = bench.sent(insert());
        bench.reply(&mut exchange, &labelled);
        bench.settle(&mut exchange);
        bench.reply(
            &mut exchange,
            &json!({"ok": 0, "code": 10107, "errmsg": "second", "errorLabels": labels}),
        );
        assert_eq!(exchange.failure(), Some(&Failure::Command));
        assert_eq!(exchange.facts().code, Some(expected));
        assert_eq!(exchange.take_earlier_reply().is_some(), expected == 91);
    }
}

#[test]
fn an_attempt_without_an_answer_says_more_than_those_before_that_wrote_nothing() {
    let mut refusal = overloaded();
    refusal["errorLabels"].as_array_mut().unwrap().push(json!("NoWritesPerformed"));
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(within(5000, insert()));
    for _ in 0..2 {
        bench.reply(&mut exchange, &refusal);
        rest(&mut bench, &mut exchange);
    }
    bench.is_down = true;
    bench.break_line(&mut exchange);
    bench.pass(5000);
    exchange.handle_timeout(&mut bench.client, bench.now);
    assert!(message(&exchange).contains("connection reset"), "{:?}", exchange.failure());
    assert!(!exchange.facts().labels.wrote_nothing);
}

#[test]
fn a_broken_line_under_a_retryable_write_is_labelled_so() {
    let mut bench = Bench::primary();
    for (operation, is_labelled) in
        [(insert(), true), (operation(Kind::Write, &json!({"drop": "orders"})), false)]
    {
        let mut exchange = bench.sent(operation);
        while exchange.step() != Step::Done {
            bench.break_line(&mut exchange);
            bench.settle(&mut exchange);
        }
        assert_eq!(exchange.is_retryable_write_error(), is_labelled);
    }
}

// Overload

#[test]
fn an_overloaded_server_is_asked_again_twice_after_growing_waits_whatever_the_command() {
    for kind in [Kind::Read, Kind::ReadOnce, Kind::RetryableWrite, Kind::Write, Kind::Command] {
        let mut bench = Bench::primary();
        let mut exchange = bench.sent(operation(kind, &json!({"something": 1})));
        for longest in [200, 400] {
            bench.reply(&mut exchange, &overloaded());
            assert_eq!(bench.sizes().1, 0, "the connection goes back to its pool meanwhile");
            assert!(rest(&mut bench, &mut exchange) <= Duration::from_millis(longest));
            assert_eq!(exchange.step(), Step::Write, "{kind:?}");
        }
        bench.reply(&mut exchange, &overloaded());
        assert_eq!(exchange.failure(), Some(&Failure::Command), "{kind:?}");
    }
}

#[test]
fn an_overloaded_server_is_not_asked_again_when_retries_are_off() {
    let cases: [(Kind, bool, bool); 4] = [
        (Kind::Read, false, true),
        (Kind::Write, true, false),
        (Kind::Command, true, false),
        (Kind::Command, false, true),
    ];
    for (kind, reads, writes) in cases {
        let mut bench =
            Bench::new(with(|options| (options.retry_reads, options.retry_writes) = (reads, writes)));
        let mut exchange = bench.sent(operation(kind, &json!({"something": 1})));
        bench.reply(&mut exchange, &overloaded());
        assert_eq!(exchange.step(), Step::Done, "{kind:?}");
    }
}

#[test]
fn an_overloaded_server_names_the_base_of_the_waits() {
    let mut bench = Bench::primary();
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        let mut exchange = bench.sent(find());
        let mut reply = overloaded();
        reply["baseBackoffMS"] = json!(3000);
        bench.reply(&mut exchange, &reply);
        longest = longest.max(rest(&mut bench, &mut exchange));
        bench.reply(&mut exchange, &json!({"ok": 1}));
    }
    assert!(longest > Duration::from_millis(3000) && longest < Duration::from_millis(6000), "{longest:?}");
}

#[test]
fn a_server_that_names_no_wait_at_all_is_left_alone_all_the_same() {
    let mut bench = Bench::primary();
    let mut reply = overloaded();
    reply["baseBackoffMS"] = json!(0);
    let waits = (0..5).map(|_| {
        let mut exchange = bench.sent(find());
        bench.reply(&mut exchange, &reply);
        let wait = rest(&mut bench, &mut exchange);
        bench.reply(&mut exchange, &json!({"ok": 1}));
        wait
    });
    assert!(waits.sum::<Duration>() > Duration::ZERO);
}

#[test]
fn a_back_off_never_outlives_the_operations_limit() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(within(50, find()));
    let mut reply = overloaded();
    reply["baseBackoffMS"] = json!(10_000);
    bench.reply(&mut exchange, &reply);
    match exchange.step() {
        Step::Done => assert_eq!(exchange.failure(), Some(&Failure::Command)),
        Step::Sleep(until) => assert!(until < bench.now + Duration::from_millis(50)),
        other => panic!("expected an end or a short wait, got {other:?}"),
    }
}

#[test]
fn a_connection_without_a_reply_for_the_whole_limit_is_not_tried_again() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(within(500, find()));
    // A wait in whole milliseconds may end a fraction early.
    bench.pass(499);
    exchange.handle_network_error(&mut bench.client, "timed out", true, bench.now);
    let Some(Failure::Network { timed_out: true, message }) = exchange.failure() else {
        panic!("expected a time-out, got {:?}", exchange.failure());
    };
    assert!(message.ends_with("raise timeoutMS, or the argument of timeout()"), "{message}");
}
