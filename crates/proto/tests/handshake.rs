//! Handshakes of an exchange with a user, with a virtual clock and fake replies: the messages, the effects of failures
//! on the pool and the topology, and reauthentication.

mod bench;

use std::time::Duration;

use bench::*;
use mangonel_proto::auth::external::{Hidden, Word};
use mangonel_proto::auth::login::Login;
use mangonel_proto::auth::{Credential, Mechanism, Secret};
use mangonel_proto::compress::Compressor;
use mangonel_proto::error::Failure;
use mangonel_proto::events::{CloseReason, Event, Interests, PoolEvent};
use mangonel_proto::exchange::{Answer, Exchange, Question, Step};
use mangonel_proto::operation::Operation;
use mangonel_proto::options::ClientOptions;
use mangonel_proto::topology::{Address, ServerType};
use serde_json::{Value, json};

fn with_user(mechanism: Option<Mechanism>) -> ClientOptions {
    let credential = Credential {
        username: Some("ada".to_owned()),
        password: (mechanism != Some(Mechanism::Oidc)).then(|| Secret::new("engine")),
        source: "admin".to_owned(),
        mechanism,
    };
    ClientOptions { login: Some(Login::new(credential, [7; 32])), ..options() }
}

/// The pool events since the last call.
fn heard_of_pools(bench: &mut Bench) -> Vec<PoolEvent> {
    let heard = bench.client.poll_events().into_iter();
    heard.filter_map(|event| if let Event::Pool { event, .. } = event { Some(event) } else { None }).collect()
}

fn plain() -> Bench {
    Bench::new(with_user(Some(Mechanism::Plain)))
}

fn is_known(bench: &Bench) -> bool {
    bench.client.description().servers[&address()].server_type != ServerType::Unknown
}

fn word(token: u64) -> Answer {
    Answer::Word(Word { payload: Hidden(vec![token as u8]), token, has_successor: true, is_last: true })
}

/// Opens a connection and answers hello.
fn say_hello(bench: &mut Bench, exchange: &mut Exchange) {
    bench.open(exchange);
    let hello = bench.hello.clone();
    bench.reply(exchange, &hello);
}

fn done() -> Value {
    json!({"ok": 1, "done": true, "conversationId": 1, "payload": ""})
}

#[test]
fn a_handshake_says_which_backpressure_the_driver_follows() {
    let mut bench = Bench::standalone();
    let mut exchange = bench.begin(find());
    bench.open(&mut exchange);
    assert_eq!(outbound(&exchange)["backpressure"], "2");
}

#[test]
fn the_command_is_sent_after_the_user_was_let_in() {
    let mut bench = plain();
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    let start = outbound(&exchange);
    assert_eq!((&start["mechanism"], &start["$db"]), (&json!("PLAIN"), &json!("admin")));
    assert_eq!(bench.sizes(), (0, 0, 1, 0), "the connection is not usable yet");
    bench.reply(&mut exchange, &done());
    assert_eq!(outbound(&exchange)["find"], "orders");
    assert_eq!(bench.sizes(), (0, 1, 0, 0));
}

#[test]
fn the_replies_of_a_login_tell_the_cluster_time() {
    let mut bench = plain();
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    let time = json!({"clusterTime": {"$timestamp": {"t": 10, "i": 2}}});
    let mut reply = done();
    reply["$clusterTime"] = time.clone();
    bench.reply(&mut exchange, &reply);
    assert_eq!(outbound(&exchange)["$clusterTime"], time);
}

#[test]
fn a_refused_user_ends_the_exchange_clears_the_pool_and_doubts_the_server() {
    let mut bench = plain();
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 18, "errmsg": "Authentication failed."}));
    let Some(Failure::Authentication { message, code, reply }) = exchange.failure() else {
        panic!("expected a refused user, got {:?}", exchange.failure())
    };
    assert_eq!(*code, Some(18));
    assert!(!reply.is_empty());
    for part in ["a.example:27017", "\"ada\"", "PLAIN", "\"admin\""] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(!message.contains("engine"));
    assert!(!is_known(&bench));
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_user_refused_in_a_retry_leaves_the_error_of_the_attempt_that_was_sent() {
    let mut bench = plain();
    let mut exchange = bench.begin(insert());
    say_hello(&mut bench, &mut exchange);
    bench.reply(&mut exchange, &done());
    bench.break_line(&mut exchange);
    bench.rouse(&mut exchange);
    say_hello(&mut bench, &mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 18, "errmsg": "Authentication failed."}));
    assert!(message(&exchange).contains("connection reset"), "{}", message(&exchange));
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_line_that_breaks_before_the_user_was_asked_for_says_nothing_of_the_server_and_later_it_does() {
    for after_hello in [false, true] {
        let mut bench = plain();
        let mut exchange = bench.begin(find());
        if after_hello {
            say_hello(&mut bench, &mut exchange);
        } else {
            bench.open(&mut exchange);
        }
        bench.break_line(&mut exchange);
        assert_eq!(is_known(&bench), !after_hello);
        assert!(matches!(exchange.step(), Step::Sleep(_)), "nothing was sent, so it is tried again");
        bench.close(&mut exchange);
    }
}

#[test]
fn a_name_that_cannot_be_looked_up_is_no_sign_of_load() {
    let mut bench = plain();
    let mut exchange = bench.begin(find());
    assert_eq!(exchange.step(), Step::Connect);
    exchange.handle_name_error(&mut bench.client, "name or service not known", bench.now);
    assert!(!is_known(&bench));
    bench.close(&mut exchange);
}

#[test]
fn a_server_that_shuts_down_while_it_authenticates_is_tried_again() {
    let mut bench = plain();
    let mut exchange = bench.begin(insert());
    say_hello(&mut bench, &mut exchange);
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 91, "errmsg": "shutting down"}));
    assert!(matches!(exchange.step(), Step::Sleep(_)));
    bench.close(&mut exchange);
}

#[test]
fn nobody_authenticates_to_an_arbiter() {
    let mut bench = plain();
    bench.hello["arbiterOnly"] = json!(true);
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    assert_eq!(outbound(&exchange)["find"], "orders");
    bench.close(&mut exchange);
}

#[test]
fn an_exchange_closed_while_a_question_is_open_gives_its_connection_up() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Oidc)));
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    assert_eq!(exchange.step(), Step::Ask);
    bench.close(&mut exchange);
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
    assert_eq!(bench.client.poll_closing().len(), 1);
    exchange.handle_answer(&mut bench.client, word(1), bench.now);
    assert_eq!(exchange.step(), Step::Done, "an answer that comes too late changes nothing");
}

#[test]
fn a_server_that_closes_the_connection_while_a_question_is_open_is_tried_again() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Oidc)));
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    exchange.handle_answer(&mut bench.client, word(1), bench.now);
    assert_eq!(exchange.step(), Step::Write);
    exchange.handle_link_lost(&mut bench.client, bench.now);
    assert!(matches!(exchange.step(), Step::Sleep(_)), "{:?}", exchange.step());
    assert_eq!((bench.sizes(), bench.client.poll_closing().len()), ((0, 0, 0, 0), 1));
    bench.close(&mut exchange);
}

#[test]
fn a_question_without_an_answer_says_nothing_of_the_server() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Oidc)));
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    exchange.handle_no_answer(&mut bench.client, bench.now);
    assert_eq!(exchange.failure(), Some(&Failure::Unanswered));
    assert!(is_known(&bench));
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_token_is_said_inside_the_next_hello_until_the_server_refuses_it() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Oidc)));
    let mut first = bench.begin(find());
    say_hello(&mut bench, &mut first);
    first.handle_answer(&mut bench.client, word(1), bench.now);
    bench.reply(&mut first, &done());
    let mut second = bench.begin(find());
    bench.open(&mut second);
    assert!(outbound(&second).get("speculativeAuthenticate").is_some());
    let hello = bench.hello.clone();
    bench.reply(&mut second, &hello);
    // The server did not accept it inside hello, so it is requested separately.
    second.handle_answer(&mut bench.client, word(1), bench.now);
    bench.reply(&mut second, &json!({"ok": 0, "code": 18, "errmsg": "no"}));
    let Some(Question::Word(_, prompt)) = second.question() else { panic!("expected another try") };
    assert_eq!(prompt.refused, Some(1));
    let mut third = bench.begin(find());
    bench.open(&mut third);
    assert!(outbound(&third).get("speculativeAuthenticate").is_none());
    for exchange in [&mut first, &mut second, &mut third] {
        bench.close(exchange);
    }
}

#[test]
fn a_server_that_ends_a_conversation_before_it_proved_itself_is_not_trusted() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Gssapi)));
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    let first = Word { payload: Hidden(vec![1]), token: 0, has_successor: false, is_last: false };
    exchange.handle_answer(&mut bench.client, Answer::Word(first), bench.now);
    assert_eq!(outbound(&exchange)["mechanism"], "GSSAPI");
    assert_eq!(outbound(&exchange)["autoAuthorize"], json!({"$numberInt": "1"}));
    bench.reply(&mut exchange, &done());
    let Some(Failure::Authentication { message, code: None, .. }) = exchange.failure() else {
        panic!("expected a server that is not trusted, got {:?}", exchange.failure())
    };
    assert!(message.contains("before it proved who it is"), "{message}");
}

#[test]
fn tokens_are_tried_three_times_at_most() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Oidc)));
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    for token in 1..=3 {
        assert_eq!(exchange.step(), Step::Ask);
        exchange.handle_answer(&mut bench.client, word(token), bench.now);
        bench.reply(&mut exchange, &json!({"ok": 0, "code": 18, "errmsg": "no"}));
    }
    assert!(matches!(exchange.failure(), Some(Failure::Authentication { code: Some(18), .. })));
}

#[test]
fn a_server_that_wants_to_see_the_user_again_gets_the_same_command_on_the_same_connection() {
    let mut bench = plain();
    let mut exchange = bench.begin(insert());
    say_hello(&mut bench, &mut exchange);
    bench.reply(&mut exchange, &done());
    let (link, first) = (exchange.link(), outbound(&exchange));
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 391, "errmsg": "again"}));
    assert_eq!(outbound(&exchange)["mechanism"], "PLAIN");
    bench.reply(&mut exchange, &done());
    assert_eq!((exchange.link(), outbound(&exchange)), (link, first));
    bench.reply(&mut exchange, &json!({"ok": 1}));
    assert_eq!((exchange.failure(), exchange.retries()), (None, 0));
    assert_eq!(bench.sizes(), (1, 0, 0, 0));
}

#[test]
fn a_user_who_is_refused_later_loses_one_connection_and_the_server_keeps_its_name() {
    let mut bench = plain();
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    bench.reply(&mut exchange, &done());
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 391, "errmsg": "again"}));
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 18, "errmsg": "no"}));
    assert!(matches!(exchange.failure(), Some(Failure::Authentication { .. })));
    assert!(is_known(&bench));
    assert_eq!(bench.sizes(), (0, 0, 0, 0));
}

#[test]
fn a_connection_that_is_lost_while_its_user_is_asked_again_is_given_up_once() {
    let mut bench = Bench::new(with_user(Some(Mechanism::Oidc)));
    bench.client.set_interests(Interests::POOLS);
    let mut exchange = bench.begin(find());
    say_hello(&mut bench, &mut exchange);
    exchange.handle_answer(&mut bench.client, word(1), bench.now);
    bench.reply(&mut exchange, &done());
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 391, "errmsg": "again"}));
    let link = exchange.link().unwrap();
    assert_eq!(exchange.step(), Step::Ask);
    bench.client.poll_events();
    // Its face hears at once that the server closed it.
    bench.client.link_lost(bench.shard, link, bench.now);
    assert_eq!(bench.client.poll_closing(), [link]);
    assert_eq!(bench.client.poll_events().len(), 0);
    exchange.handle_answer(&mut bench.client, word(2), bench.now);
    exchange.handle_link_lost(&mut bench.client, bench.now);
    let cleared = PoolEvent::Cleared { service_id: None, is_interrupting: false };
    let closed = PoolEvent::ConnectionClosed { link, reason: CloseReason::Error };
    assert_eq!(heard_of_pools(&mut bench), [cleared, PoolEvent::CheckedIn { link }, closed]);
    let snapshots = bench.client.pool_snapshots();
    let counts: Vec<_> = snapshots.values().map(|known| &known.counts).collect();
    assert_eq!((counts[0].created, counts[0].closed.iter().sum::<u64>()), (1, 1));
}

#[test]
fn a_connection_opened_in_the_background_to_a_server_that_has_left_is_told_and_counted_as_closed() {
    let mut options = options();
    (options.topology.is_direct, options.pool.min_pool_size) = (false, 1);
    let mut bench = Bench { hello: standalone(), ..Bench::new(options) };
    bench.hello["msg"] = json!("isdbgrid");
    bench.client.set_interests(Interests::POOLS);
    let mut filling = bench.begin(Operation::filling(address()).unwrap());
    let link = bench.open(&mut filling);
    let (elsewhere, now) = (Address::new("b.example", 27017), bench.now);
    bench.client.with_topology(|topology| topology.handle_srv_addresses(&[elsewhere], now));
    assert_eq!(bench.client.poll_closing(), [link]);
    let hello = bench.hello.clone();
    bench.reply(&mut filling, &hello);
    assert_eq!(filling.step(), Step::Done);
    let closed = PoolEvent::ConnectionClosed { link, reason: CloseReason::PoolClosed };
    assert_eq!(heard_of_pools(&mut bench).last(), Some(&closed));
    let counts = &bench.client.pool_snapshots()[&address()].counts;
    assert_eq!((counts.created, counts.closed.iter().sum::<u64>()), (1, 1));
}

#[test]
fn a_client_that_is_closed_closes_connections_in_their_handshakes_too() {
    let mut bench = plain();
    let mut exchange = bench.begin(find());
    let link = bench.open(&mut exchange);
    bench.client.close(bench.now);
    assert_eq!(bench.client.poll_closing(), [link]);
    exchange.handle_network_error(&mut bench.client, "closed", false, bench.now);
    bench.now = bench.now + Duration::from_secs(1);
    exchange.handle_timeout(&mut bench.client, bench.now);
    assert_eq!(exchange.failure(), Some(&Failure::Closed));
}

#[test]
fn a_client_without_a_user_shows_code_391_to_its_caller() {
    let mut bench = Bench::primary();
    let mut exchange = bench.sent(find());
    bench.reply(&mut exchange, &json!({"ok": 0, "code": 391, "errmsg": "again"}));
    assert_eq!(exchange.failure(), Some(&Failure::Command));
}

#[test]
fn keys_are_asked_for_once_for_each_salt() {
    let mut bench = Bench::new(with_user(Some(Mechanism::ScramSha256)));
    let mut questions = 0;
    for _ in 0..3 {
        let mut exchange = bench.begin(find());
        say_hello(&mut bench, &mut exchange);
        let payload = outbound(&exchange)["payload"]["$binary"]["base64"].as_str().unwrap().to_owned();
        let first = String::from_utf8(base64(&payload)).unwrap();
        let server_first = format!("r={}SERVER,s=c2FsdA==,i=4096", first.split_once("r=").unwrap().1);
        bench.reply(
            &mut exchange,
            &json!({"ok": 1, "done": false, "conversationId": 1, "payload": server_first}),
        );
        if let Some(Question::Keys(request)) = exchange.question() {
            questions += 1;
            exchange.handle_answer(&mut bench.client, Answer::Keys(request.derive()), bench.now);
        }
        assert!(outbound(&exchange).get("saslContinue").is_some());
        bench.close(&mut exchange);
    }
    assert_eq!(questions, 1);
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

#[test]
fn compression_is_agreed_in_hello_and_never_used_for_credentials() {
    let compressors = vec![Compressor::Zstd, Compressor::Snappy];
    let mut bench = Bench::new(ClientOptions { compressors, ..options() });
    bench.hello["compression"] = json!(["zlib", "snappy"]);
    let mut exchange = bench.begin(find());
    bench.open(&mut exchange);
    assert_eq!(outbound(&exchange)["compression"], json!(["zstd", "snappy"]));
    assert!(!exchange.may_compress());
    let hello = bench.hello.clone();
    bench.reply(&mut exchange, &hello);
    let link = exchange.link().unwrap();
    assert_eq!(bench.client.compressor(link), Some(Compressor::Snappy));
    assert!(exchange.may_compress());
    bench.reply(&mut exchange, &json!({"ok": 1}));
    let secret = operation(mangonel_proto::operation::Kind::Write, &json!({"createUser": "x"}));
    assert!(!bench.sent(secret).may_compress());
}
