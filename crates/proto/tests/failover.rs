//! Failovers in virtual time: many seeds, each a minute of kills, step-downs and pauses under load.
//! Specs: server-discovery-and-monitoring, retryable-writes.

mod bench;
mod simulator;

use std::time::Duration;

use simulator::{Fault, Simulator};

/// Runs a minute with a fault every 12 s or so; returns the world at its end.
fn minute(seed: u64, faults: &[Fault]) -> Simulator {
    let mut world = Simulator::new(seed, 6, 60);
    for number in 0..4 {
        let (jitter, kind) = (world.roll(3000), world.roll(faults.len() as u64));
        world.fault_at(3000 + number * 14_000 + jitter, faults[kind as usize]);
    }
    world.run();
    world
}

fn check(seed: u64, world: &Simulator) {
    assert!(world.outcome.errors.is_empty(), "seed {seed}: {:?}", world.outcome.errors);
    assert!(world.outcome.acknowledged.len() > 1000, "seed {seed}: too little was done");
    for value in &world.outcome.acknowledged {
        assert_eq!(world.set.applied.get(value), Some(&1), "seed {seed}: how often {value} was applied");
    }
    assert!(world.set.applied.values().all(|count| *count == 1), "seed {seed}: a write was applied twice");
}

#[test]
fn no_write_is_lost_doubled_or_refused_while_primaries_are_killed_and_step_down() {
    let mut longest = Duration::ZERO;
    for seed in 1..25 {
        let world = minute(seed, &[Fault::Kill, Fault::StepDown]);
        check(seed, &world);
        longest = longest.max(world.outcome.longest);
    }
    println!("longest stall {longest:?}");
    // The longest election takes 3 s; the driver takes the rest.
    assert!(longest < Duration::from_millis(3600), "{longest:?}");
}

#[test]
fn a_primary_that_stands_still_costs_no_more_than_it_stands_still() {
    for seed in 1..25 {
        let world = minute(seed, &[Fault::Pause, Fault::Kill, Fault::StepDown]);
        check(seed, &world);
        assert!(
            world.outcome.longest < Duration::from_millis(8600),
            "seed {seed}: {:?}",
            world.outcome.longest
        );
    }
}
