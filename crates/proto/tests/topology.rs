//! Monitors, pools and errors of one topology, in virtual time: rules that the specification states in prose.

mod common;

use std::time::Duration;

use mangonel_bson::{self as bson, ObjectId, RawDocument};
use mangonel_proto::time::Instant;
use mangonel_proto::topology::HelloRequest;
use mangonel_proto::topology::{
    Address, ApplicationError, Cause, Effect, Event, Failure, MonitorSettings, Phase, ServerMonitoringMode,
    ServerType, Step, Topology, TopologySettings, TopologyType,
};
use proptest::prelude::*;

use common::{address, at};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const HEARTBEAT: Duration = Duration::from_secs(10);

fn settings() -> TopologySettings {
    TopologySettings { seeds: vec![address("a")], has_listeners: true, ..TopologySettings::default() }
}

fn in_mode(mode: ServerMonitoringMode, is_faas: bool) -> TopologySettings {
    TopologySettings {
        monitor: MonitorSettings { mode, is_faas, ..MonitorSettings::default() },
        ..settings()
    }
}

/// A standalone's hello reply; a counter says that it can stream.
fn hello(counter: Option<i64>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = bson::begin_document(&mut out);
    bson::append_bool(&mut out, "isWritablePrimary", true);
    bson::append_i32(&mut out, "maxWireVersion", 17);
    if let Some(counter) = counter {
        let version = bson::begin_subdocument(&mut out, "topologyVersion");
        bson::append_object_id(&mut out, "processId", ObjectId::from_bytes([1; 12]));
        bson::append_i64(&mut out, "counter", counter);
        bson::end_document(&mut out, version);
    }
    bson::append_i32(&mut out, "ok", 1);
    bson::end_document(&mut out, start);
    out
}

struct World {
    topology: Topology,
    a: Address,
}

impl World {
    fn new(settings: TopologySettings) -> World {
        let mut world = World { topology: Topology::new(settings, at(0)), a: address("a") };
        world.effects();
        world
    }

    fn step(&mut self, milliseconds: u64) -> Step {
        self.topology.poll_monitor(&self.a, at(milliseconds))
    }

    fn connect(&mut self, milliseconds: u64) {
        assert_eq!(self.step(milliseconds), Step::Connect { timeout: Some(CONNECT_TIMEOUT) });
        self.topology.handle_monitor_connected(&self.a, at(milliseconds));
    }

    fn reply(&mut self, counter: Option<i64>, is_more_to_come: bool, milliseconds: u64) {
        let bytes = hello(counter);
        let reply = RawDocument::from_bytes(&bytes).unwrap();
        self.topology.handle_monitor_reply(&self.a, reply, is_more_to_come, at(milliseconds));
    }

    fn break_line(&mut self, failure: Failure, milliseconds: u64) {
        self.topology.handle_monitor_error(&self.a, "connection reset", failure, at(milliseconds));
    }

    fn fail(&mut self, cause: Cause<'_>, milliseconds: u64) {
        let error = ApplicationError {
            address: &self.a.clone(),
            cause,
            phase: Phase::AfterHandshake,
            is_overload: false,
            generation: 0,
            pool_generation: 0,
            service_id: None,
            message: "connection reset",
        };
        self.topology.handle_application_error(&error, at(milliseconds));
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.topology.poll_effect()).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.topology.poll_event()).collect()
    }

    fn server_type(&self) -> ServerType {
        self.topology.description().servers[&self.a].server_type
    }

    fn clears(&mut self) -> Vec<bool> {
        let clear = |effect| match effect {
            Effect::ClearPool { is_interrupting, .. } => Some(is_interrupting),
            _ => None,
        };
        self.effects().into_iter().filter_map(clear).collect()
    }
}

fn write(hello: HelloRequest) -> Step {
    Step::Write { hello, timeout: Some(CONNECT_TIMEOUT) }
}

#[test]
fn a_server_that_cannot_stream_is_polled_once_per_heartbeat_on_one_connection() {
    let mut world = World::new(settings());
    world.connect(0);
    assert_eq!(world.step(0), write(HelloRequest::Handshake));
    world.reply(None, false, 10);
    assert_eq!(world.server_type(), ServerType::Standalone);
    assert_eq!(world.step(10), Step::Wait { until: at(10_010) });
    assert_eq!(world.step(10_010), write(HelloRequest::Poll));
    world.reply(None, false, 10_012);
    assert_eq!(world.step(10_012), Step::Wait { until: at(20_012) });
    assert!(!world.effects().contains(&Effect::StartPinger { address: address("a") }));
}

#[test]
fn a_server_that_can_stream_is_awaited_without_a_pause() {
    let mut world = World::new(settings());
    world.connect(0);
    world.reply(Some(1), false, 10);
    let timeout = Some(CONNECT_TIMEOUT + HEARTBEAT);
    match world.step(10) {
        Step::Write { hello: HelloRequest::Await { topology_version, max_await_time }, timeout: found } => {
            assert_eq!((topology_version.counter, max_await_time, found), (1, HEARTBEAT, timeout));
        }
        other => panic!("{other:?}"),
    }
    // More to come: the next reply is only read. Without the flag hello is sent again.
    world.reply(Some(2), true, 5_000);
    assert_eq!(world.step(5_000), Step::Read { timeout });
    world.reply(Some(2), false, 15_000);
    assert!(matches!(world.step(15_000), Step::Write { hello: HelloRequest::Await { .. }, .. }));
}

#[test]
fn cloud_functions_and_the_poll_mode_never_stream() {
    for settings in [in_mode(ServerMonitoringMode::Poll, false), in_mode(ServerMonitoringMode::Auto, true)] {
        let mut world = World::new(settings);
        world.connect(0);
        world.reply(Some(1), false, 10);
        assert_eq!(world.step(10), Step::Wait { until: at(10_010) });
    }
    let mut world = World::new(in_mode(ServerMonitoringMode::Stream, true));
    world.connect(0);
    world.reply(Some(1), false, 10);
    assert!(matches!(world.step(10), Step::Write { hello: HelloRequest::Await { .. }, .. }));
}

#[test]
fn awaited_replies_say_nothing_about_the_line_so_a_pinger_measures_it() {
    let mut world = World::new(settings());
    world.connect(0);
    world.reply(Some(1), false, 10);
    assert!(world.effects().contains(&Effect::StartPinger { address: address("a") }));
    world.reply(Some(1), true, 9_000);
    let time = |world: &World| world.topology.description().servers[&world.a].round_trip_time;
    assert_eq!(time(&world), Some(Duration::from_millis(10)));

    let a = world.a.clone();
    assert_eq!(world.topology.poll_pinger(&a, at(10)), Step::Wait { until: at(110) });
    assert!(matches!(world.topology.poll_pinger(&a, at(110)), Step::Connect { .. }));
    world.topology.handle_pinger_connected(&a, at(111));
    world.topology.handle_pinger_reply(&a, at(131));
    world.reply(Some(1), true, 19_000);
    assert_eq!(time(&world), Some(Duration::from_millis(12)));
    assert!(!world.effects().contains(&Effect::StartPinger { address: address("a") }));
}

#[test]
fn the_least_way_is_known_with_the_first_reply_after_the_handshake() {
    let monitor = MonitorSettings { heartbeat_frequency: Duration::from_millis(500), ..settings().monitor };
    let mut world = World::new(TopologySettings { monitor, ..settings() });
    world.connect(0);
    world.reply(Some(1), false, 50);
    let way = |world: &World| world.topology.description().servers[&world.a].min_round_trip_time;
    // A single sample may come from a slow start.
    assert_eq!(way(&world), Duration::ZERO);
    let a = world.a.clone();
    world.topology.poll_pinger(&a, at(150));
    world.topology.handle_pinger_connected(&a, at(151));
    world.topology.handle_pinger_reply(&a, at(201));
    world.reply(Some(1), true, 600);
    assert_eq!(way(&world), Duration::from_millis(50));
}

#[test]
fn a_known_server_that_breaks_the_line_is_tried_once_more_at_once() {
    let mut world = World::new(settings());
    world.connect(0);
    world.reply(None, false, 10);
    world.effects();
    world.step(10_010);
    world.break_line(Failure::Network, 10_020);
    assert_eq!(world.server_type(), ServerType::Unknown);
    assert_eq!(world.clears(), [false]);
    world.connect(10_020);
    world.break_line(Failure::Network, 10_030);
    assert_eq!(world.step(10_030), Step::Wait { until: at(20_030) });
}

#[test]
fn a_check_that_times_out_closes_connections_in_use() {
    let mut world = World::new(settings());
    world.connect(0);
    world.break_line(Failure::Timeout, 20_000);
    assert_eq!(world.clears(), [true]);
}

#[test]
fn a_check_asked_for_comes_half_a_second_after_the_last_at_the_earliest() {
    let mut world = World::new(settings());
    world.connect(0);
    world.break_line(Failure::Network, 100);
    world.topology.request_checks(at(200));
    assert_eq!(world.step(200), Step::Wait { until: at(600) });
    world.connect(600);
    // Requested during a check: the next one comes early.
    world.topology.request_checks(at(650));
    world.reply(None, false, 700);
    assert_eq!(world.step(700), Step::Wait { until: at(1200) });
    assert_eq!(world.step(1200), write(HelloRequest::Poll));
    // Requested long after a check: it comes at once.
    world.reply(None, false, 1300);
    world.topology.request_checks(at(9_000));
    assert_eq!(world.step(9_000), write(HelloRequest::Poll));
}

#[test]
fn an_observer_that_misses_its_check_is_woken_again_at_most_every_half_second() {
    let mut world = World::new(settings());
    let wake = [Effect::WakeMonitor { address: address("a") }];
    world.connect(0);
    world.break_line(Failure::Network, 100);
    world.effects();
    world.topology.request_checks(at(200));
    assert_eq!(world.effects(), wake);
    // It was due at 600, and nothing polled it.
    for (milliseconds, expected) in [(1099, &[][..]), (1100, &wake), (1101, &[]), (1599, &[]), (1600, &wake)]
    {
        world.topology.request_checks(at(milliseconds));
        assert_eq!(world.effects(), expected, "at {milliseconds} ms");
    }
    assert!(matches!(world.step(1600), Step::Connect { .. }));
}

#[test]
fn an_observer_is_woken_once_however_often_it_is_asked_for_a_check() {
    let mut world = World::new(settings());
    let wake = Effect::WakeMonitor { address: address("a") };
    world.connect(0);
    world.break_line(Failure::Network, 100);
    world.effects();
    world.topology.request_checks(at(200));
    assert_eq!(world.effects(), [wake]);
    // Each failure among a thousand servers wakes the waiters, which request checks of all servers again.
    for milliseconds in 201..300 {
        world.topology.request_checks(at(milliseconds));
    }
    assert_eq!(world.effects(), []);
    // Nor while it is checking: it handles the request after the check.
    world.connect(600);
    world.topology.request_checks(at(650));
    assert_eq!(world.effects(), []);
}

#[test]
fn a_network_error_of_an_operation_cancels_the_check_and_its_late_reply_is_ignored() {
    let mut world = World::new(settings());
    world.connect(0);
    world.reply(Some(1), false, 10);
    world.effects();
    world.fail(Cause::Network, 5_000);
    assert_eq!(world.server_type(), ServerType::Unknown);
    let effects = world.effects();
    let interrupt = Effect::InterruptMonitor { address: address("a") };
    assert!(effects.contains(&interrupt), "{effects:?}");
    assert!(!effects.contains(&Effect::WakeMonitor { address: address("a") }), "{effects:?}");

    world.reply(Some(2), false, 5_001);
    world.break_line(Failure::Network, 5_002);
    assert_eq!(world.server_type(), ServerType::Unknown);
    assert_eq!(world.clears(), [] as [bool; 0]);
    assert_eq!(world.step(5_002), Step::Wait { until: at(15_000) });
}

#[test]
fn a_slow_operation_changes_nothing() {
    let mut world = World::new(settings());
    world.connect(0);
    world.reply(None, false, 10);
    world.effects();
    world.fail(Cause::Timeout, 20);
    assert_eq!(world.server_type(), ServerType::Standalone);
    assert_eq!(world.effects(), []);
}

#[test]
fn a_stepped_down_server_keeps_its_pool_and_is_checked_soon() {
    for (code, clears) in [(10107, vec![]), (91, vec![false])] {
        let mut world = World::new(settings());
        world.connect(0);
        world.reply(None, false, 10);
        world.effects();
        let mut reply = Vec::new();
        let start = bson::begin_document(&mut reply);
        bson::append_i32(&mut reply, "ok", 0);
        bson::append_i32(&mut reply, "code", code);
        bson::end_document(&mut reply, start);
        world.fail(Cause::Reply(RawDocument::from_bytes(&reply).unwrap()), 1_000);
        assert_eq!(world.server_type(), ServerType::Unknown);
        assert_eq!(world.clears(), clears, "{code}");
        assert_eq!(world.step(1_000), write(HelloRequest::Poll));
    }
}

#[test]
fn an_overloaded_server_is_left_alone() {
    let mut world = World::new(settings());
    world.connect(0);
    world.reply(None, false, 10);
    world.effects();
    let a = world.a.clone();
    let error = ApplicationError {
        address: &a,
        cause: Cause::Network,
        phase: Phase::BeforeHandshake,
        is_overload: true,
        generation: 0,
        pool_generation: 0,
        service_id: None,
        message: "connection reset",
    };
    world.topology.handle_application_error(&error, at(20));
    assert_eq!(world.effects(), []);
    // During authentication the same error counts as the server's.
    let error = ApplicationError { is_overload: false, ..error };
    world.topology.handle_application_error(&error, at(20));
    assert_eq!(world.clears(), [false]);
}

#[test]
fn behind_a_load_balancer_an_error_clears_its_service_and_nothing_else() {
    let settings = TopologySettings { is_load_balanced: true, ..settings() };
    let mut topology = Topology::new(settings, at(0));
    let a = address("a");
    let opening: Vec<Effect> = std::iter::from_fn(|| topology.poll_effect()).collect();
    assert!(opening.contains(&Effect::ReadyPool { address: a.clone() }));
    assert!(!opening.contains(&Effect::StartMonitor { address: a.clone() }));
    assert_eq!(topology.poll_monitor(&a, at(0)), Step::Stop);

    let service = ObjectId::from_bytes([9; 12]);
    let mut error = ApplicationError {
        address: &a,
        cause: Cause::Network,
        phase: Phase::AfterHandshake,
        is_overload: false,
        generation: 0,
        pool_generation: 0,
        service_id: Some(service),
        message: "connection reset",
    };
    topology.handle_application_error(&error, at(1));
    let clear = Effect::ClearPool { address: a.clone(), service_id: Some(service), is_interrupting: false };
    assert_eq!(topology.poll_effect(), Some(clear));
    assert_eq!(topology.poll_effect(), None);
    assert_eq!(topology.description().servers[&a].server_type, ServerType::LoadBalancer);
    error.service_id = None;
    topology.handle_application_error(&error, at(2));
    assert_eq!(topology.poll_effect(), None);
}

#[test]
fn a_server_without_an_answer_is_described_by_what_its_first_check_is_doing() {
    let mut world = World::new(settings());
    assert_eq!(world.topology.describe(at(300)), "the deployment has a:27017 (Unknown)");
    world.step(0);
    assert!(world.topology.describe(at(300)).ends_with("(Unknown: connecting for 0.3 s)"));
    world.topology.handle_monitor_proxy(&world.a, "proxy:1080".into());
    assert!(
        world
            .topology
            .describe(at(300))
            .ends_with("(Unknown: in the SOCKS5 handshake with the proxy proxy:1080 for 0.3 s)")
    );
    world.topology.handle_monitor_securing(&world.a);
    assert!(
        world.topology.describe(at(300)).ends_with(
            "(Unknown: in the TLS handshake for 0.3 s; the server may not speak TLS on this port)"
        )
    );
    world.connect(300);
    assert!(world.topology.describe(at(500)).ends_with("(Unknown: no reply to hello for 0.5 s)"));
    world.break_line(Failure::Timeout, 600);
    let seen = world.topology.describe(at(700));
    world.step(20_000);
    assert!(!seen.ends_with("(Unknown)") && world.topology.describe(at(20_100)) == seen, "{seen}");
    world.connect(20_200);
    world.reply(None, false, 20_300);
    assert_eq!(world.topology.describe(at(20_400)), "the deployment has a:27017 (Standalone)");
    world.step(40_000);
    assert_eq!(world.topology.describe(at(41_000)), "the deployment has a:27017 (Standalone)");
}

#[test]
fn closing_tells_listeners_last_that_the_topology_closed() {
    let mut world = World::new(settings());
    world.events();
    world.topology.close(at(10));
    world.topology.close(at(11));
    let events = world.events();
    assert!(matches!(
        &events[..],
        [
            Event::ServerClosed { .. },
            Event::TopologyDescriptionChanged { new, .. },
            Event::TopologyClosed
        ] if new.topology_type == TopologyType::Unknown && new.servers.is_empty()
    ));
    assert_eq!(world.step(20), Step::Stop);
}

#[test]
fn routers_named_by_srv_records_come_and_go_but_a_replica_set_ignores_them() {
    let mut world = World::new(settings());
    world.topology.handle_srv_addresses(&[address("b"), address("c")], at(1));
    let names = |world: &World| -> Vec<String> {
        world.topology.description().servers.keys().map(|server| server.host().to_owned()).collect()
    };
    assert_eq!(names(&world), ["b", "c"]);
    // An answer without records changes nothing.
    world.topology.handle_srv_addresses(&[], at(2));
    assert_eq!(names(&world), ["b", "c"]);

    let set = TopologySettings { set_name: Some("rs".into()), ..settings() };
    let mut world = World::new(set);
    world.topology.handle_srv_addresses(&[address("b")], at(1));
    assert_eq!(names(&world), ["a"]);
}

#[test]
fn without_listeners_no_event_is_made() {
    let mut world = World::new(TopologySettings { has_listeners: false, ..settings() });
    world.connect(0);
    world.reply(None, false, 10);
    world.topology.close(at(20));
    assert_eq!(world.events(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Listeners can pair every heartbeat's start with its end, whatever the server and the application do; two checks
    /// begin at least half a second apart unless the server answered or was lost.
    #[test]
    fn every_heartbeat_that_begins_ends_once(moves in prop::collection::vec((0u8..7, 1u64..3000), 1..60)) {
        let mut world = World::new(settings());
        let mut now = 0;
        let mut open: Option<bool> = None;
        for (what, pause) in moves {
            now += pause;
            let a = world.a.clone();
            match what {
                0 | 1 => {
                    if let Step::Connect { .. } = world.step(now) {
                        world.topology.handle_monitor_connected(&a, at(now));
                    }
                }
                2 => world.reply(Some(1), false, now),
                3 => world.reply(Some(1), true, now),
                4 => world.reply(None, false, now),
                5 => world.break_line(Failure::Network, now),
                _ => world.fail(Cause::Network, now),
            }
            for event in world.events() {
                match event {
                    Event::HeartbeatStarted { is_awaited, .. } => {
                        prop_assert_eq!(open.replace(is_awaited), None);
                    }
                    Event::HeartbeatSucceeded { is_awaited, .. } | Event::HeartbeatFailed { is_awaited, .. } => {
                        prop_assert_eq!(open.take(), Some(is_awaited));
                    }
                    _ => {}
                }
            }
        }
    }

    /// A monitor that is polled again without news repeats its step, and never waits for a time in the past.
    #[test]
    fn asking_twice_changes_nothing(moves in prop::collection::vec((0u8..5, 0u64..12_000), 1..40)) {
        let mut world = World::new(settings());
        let mut now = 0;
        for (what, pause) in moves {
            now += pause;
            let step = world.step(now);
            prop_assert_eq!(world.step(now), step);
            if let Step::Wait { until } = step {
                prop_assert!(until > at(now) && until <= Instant(at(now).0 + HEARTBEAT));
            }
            let a = world.a.clone();
            match what {
                0 => world.topology.handle_monitor_connected(&a, at(now)),
                1 => world.reply(Some(1), true, now),
                2 => world.reply(None, false, now),
                3 => world.break_line(Failure::Timeout, now),
                _ => world.topology.request_checks(at(now)),
            }
        }
    }
}
