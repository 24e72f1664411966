//! Some hundred seeds, each a few seconds of clients, servers, network and faults; `make rest-seeds` plays some
//! thousand.

use std::sync::OnceLock;

use mangonel_simulation::picture::draw;
use mangonel_simulation::plan::{Fault, Kind, Target, Work, address};
use mangonel_simulation::queue::ms;
use mangonel_simulation::server::stranger::Stranger;
use mangonel_simulation::{Plan, Report, play};

/// The number of seeds: two hundred, or the value of MANGONEL_SEEDS.
fn seeds() -> u64 {
    std::env::var("MANGONEL_SEEDS").map_or(200, |count| count.parse().expect("a number"))
}

/// Seeds that failed once. Each fault also has its own test, since a seed gives another run once the world gains a
/// feature.
const KEPT: &[u64] = &[
    1795707044756013,
    1795707748635335,
    1795738999326696,
    1795751231595811,
    1795754972672005,
    1795755203324187,
    1795771751301555,
    1795775047344581,
    1795775049313220,
    1795777030831882,
    1795777934346837,
    1795777935206405,
    1795794997130564,
    1795798053332391,
    1795799011943558,
    1795800042290324,
    1795800199309328,
    1795857307933341,
    1795857391739332,
    1795857629919980,
    1795858513237641,
    1795858612883633,
    1795859307133470,
    1795859344743803,
    1795860715052258,
    1795863076201694,
];

/// The reports of the first half of the seeds, which two tests read. Each tenth has to be played the same again.
fn first_half() -> &'static [Report] {
    static PLAYED: OnceLock<Vec<Report>> = OnceLock::new();
    PLAYED.get_or_init(|| (1..=seeds() / 2).map(report).collect())
}

fn report(seed: u64) -> Report {
    let (mut report, _) = play(&Plan::new(seed), false);
    if seed.is_multiple_of(10) {
        let again = play(&Plan::new(seed), false).0;
        if (report.hash, report.operations) != (again.hash, again.operations) {
            report.violations.push("it is played otherwise when it is played again".into());
        }
    }
    report
}

/// Returns the failures of the seeds.
fn failures(seeds: impl Iterator<Item = u64>) -> Vec<String> {
    seeds.filter_map(|seed| failure(seed, &report(seed))).collect()
}

fn failure(seed: u64, report: &Report) -> Option<String> {
    let violations = report.violations.join("; ");
    (!violations.is_empty()).then(|| format!("make simulate SEED={seed}: {violations}"))
}

#[test]
fn every_promise_holds_in_the_first_half_of_the_seeds() {
    let failed: Vec<_> = (1..).zip(first_half()).filter_map(|(seed, report)| failure(seed, report)).collect();
    assert_eq!(failed, Vec::<String>::new());
}

#[test]
fn every_promise_holds_in_the_second_half_of_the_seeds() {
    assert_eq!(failures(seeds() / 2 + 1..=seeds()), Vec::<String>::new());
}

#[test]
fn every_promise_holds_in_seeds_that_failed_once() {
    assert_eq!(failures(KEPT.iter().copied()), Vec::<String>::new());
}

#[test]
fn a_machine_that_only_a_pinger_reached_is_not_known_as_strange() {
    // Monitors are connected by then, pingers are not.
    let mut plan = Plan::new(57);
    plan.faults = vec![Fault { at: 20, kind: Kind::Mislead(Target::Member(1), Stranger::Recovering, 3_000) }];
    assert_eq!(play(&plan, false).0.violations, Vec::<String>::new());
}

#[test]
fn a_batch_that_is_asked_of_what_is_of_no_set_any_more_needs_no_time_of_the_set() {
    let mut plan = Plan::new(6);
    plan.clients.iter_mut().for_each(|client| client.workers = vec![Work::Browse; 3]);
    let ghosts = (0..3).map(|member| Kind::Mislead(Target::Member(member), Stranger::Ghost, 300));
    // Monitors are connected again, and pools are not.
    let cuts = [4, 8, 12].map(|line| Kind::Cut { line, to_server: false, bytes: 0 });
    plan.faults = ghosts.chain(cuts).map(|kind| Fault { at: 300, kind }).collect();
    assert_eq!(play(&plan, false).0.violations, Vec::<String>::new());
}

#[test]
fn a_transaction_that_its_clients_one_server_refuses_to_end_may_take_all_the_time_it_has() {
    let mut plan = Plan::new(18);
    let mut client = plan.clients[0].clone();
    let options = &mut client.options;
    (options.topology.is_direct, options.topology.seeds) = (true, vec![address(0)]);
    (options.timeout, options.server_selection_timeout) = (Some(ms(20_000)), ms(400));
    client.workers = vec![Work::Transfer];
    // The further the members, the fewer the attempts of a minute.
    plan.latency.iter_mut().flatten().for_each(|microseconds| *microseconds = 2_000);
    (plan.clients, plan.end) = (vec![client], 400);
    // It is a secondary from then on.
    plan.faults = vec![Fault { at: 300, kind: Kind::StepDown }];
    assert_eq!(play(&plan, false).0.violations, Vec::<String>::new());
}

#[test]
fn a_router_whose_name_led_elsewhere_is_not_expected_in_use_before_dns_names_it_again() {
    let mut plan = Plan::new(7);
    assert_eq!((plan.routers, plan.srv), (3, Some(0)));
    let stranger = Kind::Mislead(Target::Member(1), Stranger::Standalone, 2_000);
    // Monitors are connected again, a second after DNS was asked.
    let cuts = (0..40).map(|line| Kind::Cut { line: line * 4, to_server: false, bytes: 0 });
    let faults = std::iter::once(stranger).chain(cuts).map(|kind| Fault { at: 61_000, kind });
    (plan.faults, plan.end) = (faults.collect(), 63_500);
    assert_eq!(play(&plan, false).0.violations, Vec::<String>::new());
}

#[test]
fn the_world_is_as_rough_as_it_says() {
    let (mut operations, mut elections, mut rollbacks) = (0, 0, 0);
    let mut endings = std::collections::BTreeMap::new();
    // The rarest ending occurs once in some hundred seeds.
    let every = ["ok", "network", "refused", "timeout", "server selection", "wait queue", "time limit"];
    let played = first_half();
    let further = (played.len() as u64 + 1..=400).map(report);
    for (seed, report) in (1..).zip(played.iter().cloned().chain(further)) {
        operations += report.operations;
        elections += report.elections;
        rollbacks += report.rollbacks;
        for (how, count) in report.endings {
            *endings.entry(how).or_insert(0u64) += count;
        }
        if seed == 40 {
            assert!(
                operations > 15_000 && elections > 20 && rollbacks > 0,
                "{operations} {elections} {rollbacks}"
            );
        }
        if seed >= 40 && every.iter().all(|how| endings.contains_key(how)) {
            return;
        }
    }
    panic!("of {every:?} no operation ended in one way or more: {endings:?}");
}

#[test]
fn a_run_is_drawn_with_all_who_took_part() {
    let plan = Plan::new(7);
    let (report, trace) = play(&plan, true);
    let page = draw(&plan, &report, &trace.words, "make simulate SEED=7");
    assert!(page.ends_with("</svg></body></html>\n") && page.contains("make simulate SEED=7"));
    for who in ["Client(0)", "Member(0)"] {
        assert!(page.contains(&format!(">{who}</text>")), "{who} has no column");
    }
}
