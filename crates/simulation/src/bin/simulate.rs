//! Plays seeds: a failed one, a range, or new ones for this many seconds. It shrinks a failing plan and prints its
//! command.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mangonel_simulation::picture::draw;
use mangonel_simulation::shrink::shrink;
use mangonel_simulation::{Plan, play};

const USAGE: &str = "usage: simulate [--seed N | --seeds FIRST COUNT | --list FIRST COUNT | --seconds S] [--html FILE] [--words]
  --seed N              play one seed
  --seeds FIRST COUNT   play this many, from the first
  --list FIRST COUNT    play this many, and list all that fail
  --seconds S           play new seeds for so long (60)
  --html FILE           draw the failing run, or that of --seed
  --words               print all that is said in the run of --seed";

enum Choice {
    One(u64),
    Range(u64, u64),
    List(u64, u64),
    Time(u64),
}

struct Arguments {
    choice: Choice,
    html: Option<String>,
    has_words: bool,
}

fn arguments() -> Option<Arguments> {
    let mut found = Arguments { choice: Choice::Time(60), html: None, has_words: false };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut number = || given.next()?.parse().ok();
        match name.as_str() {
            "--seed" => found.choice = Choice::One(number()?),
            "--seeds" => found.choice = Choice::Range(number()?, number()?),
            "--list" => found.choice = Choice::List(number()?, number()?),
            "--seconds" => found.choice = Choice::Time(number()?),
            "--html" => found.html = Some(given.next()?),
            "--words" => found.has_words = true,
            _ => return None,
        }
    }
    Some(found)
}

/// The counts of all threads.
#[derive(Default)]
struct Sums {
    next: AtomicU64,
    seeds: AtomicU64,
    operations: AtomicU64,
    commands: AtomicU64,
    rollbacks: AtomicU64,
    elections: AtomicU64,
    has_failed: AtomicBool,
    failed: AtomicU64,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let failed = match arguments.choice {
        Choice::One(seed) => return show(seed, &arguments),
        Choice::Range(first, count) => run(first, count, None),
        Choice::List(first, count) => return list(first, count),
        Choice::Time(seconds) => run(new_seed(), u64::MAX, Some(Duration::from_secs(seconds))),
    };
    let Some(seed) = failed else { return ExitCode::SUCCESS };
    explain(seed, arguments.html.as_deref());
    ExitCode::FAILURE
}

/// Plays one seed, and prints the result.
fn show(seed: u64, arguments: &Arguments) -> ExitCode {
    let plan = Plan::new(seed);
    let (report, trace) = play(&plan, true);
    if arguments.has_words {
        for word in &trace.words {
            println!("{:>12.3} ms  {:?} -> {:?}  {}", word.at as f64 / 1000.0, word.from, word.to, word.text);
        }
    }
    println!(
        "seed {seed}: {} operations, {} commands, {} elections, {} rollbacks, {:?}, hash {:016x}",
        report.operations, report.commands, report.elections, report.rollbacks, report.endings, report.hash
    );
    if report.violations.is_empty() {
        if let Some(file) = &arguments.html {
            write(file, &draw(&plan, &report, &trace.words, &command(seed)));
        }
        return ExitCode::SUCCESS;
    }
    explain(seed, arguments.html.as_deref());
    ExitCode::FAILURE
}

/// Plays seeds, and prints each failure.
fn list(first: u64, count: u64) -> ExitCode {
    let mut operations = 0;
    let failed = (first..first.saturating_add(count)).filter(|seed| {
        let (report, _) = play(&Plan::new(*seed), false);
        operations += report.operations;
        if let Some(violation) = report.violations.first() {
            println!("seed {seed}: {violation}");
        }
        !report.violations.is_empty()
    });
    let failed = failed.count();
    println!("{failed} of {count} seeds failed, {operations} operations");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays seeds on all processors. Returns the first seed found to fail.
fn run(first: u64, count: u64, limit: Option<Duration>) -> Option<u64> {
    let (sums, begun) = (Sums::default(), Instant::now());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !sums.has_failed.load(Ordering::Relaxed)
                    && limit.is_none_or(|limit| begun.elapsed() < limit)
                {
                    let position = sums.next.fetch_add(1, Ordering::Relaxed);
                    if position >= count {
                        return;
                    }
                    let seed = first.wrapping_add(position);
                    let (report, _) = play(&Plan::new(seed), false);
                    sums.seeds.fetch_add(1, Ordering::Relaxed);
                    sums.operations.fetch_add(report.operations, Ordering::Relaxed);
                    sums.commands.fetch_add(report.commands, Ordering::Relaxed);
                    sums.rollbacks.fetch_add(report.rollbacks, Ordering::Relaxed);
                    sums.elections.fetch_add(report.elections, Ordering::Relaxed);
                    if !report.violations.is_empty() && !sums.has_failed.swap(true, Ordering::Relaxed) {
                        sums.failed.store(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let sum = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} seeds from {first}: {} operations, {} commands, {} elections, {} rollbacks in {:.1} s",
        sum(&sums.seeds),
        sum(&sums.operations),
        sum(&sums.commands),
        sum(&sums.elections),
        sum(&sums.rollbacks),
        begun.elapsed().as_secs_f64()
    );
    sums.has_failed.load(Ordering::Relaxed).then(|| sum(&sums.failed))
}

/// Prints the failure, how to play it again, and what remains of the plan after shrinking.
fn explain(seed: u64, html: Option<&str>) {
    let plan = Plan::new(seed);
    let (report, _) = play(&plan, false);
    println!("seed {seed} failed: {}", report.violations.join("; "));
    println!("play it again: {}", command(seed));
    let (smaller, report, trials) = shrink(&plan);
    println!(
        "made smaller in {trials} plays: {} clients, {:?}, ends at {} ms: {}",
        smaller.clients.len(),
        smaller.clients.iter().map(|client| &client.workers).collect::<Vec<_>>(),
        smaller.end,
        report.violations.join("; ")
    );
    smaller.faults.iter().for_each(|fault| println!("  at {} ms {:?}", fault.at, fault.kind));
    if let Some(file) = html {
        let (report, trace) = play(&smaller, true);
        write(file, &draw(&smaller, &report, &trace.words, &command(seed)));
    }
}

fn command(seed: u64) -> String {
    format!("make simulate SEED={seed}")
}

fn write(file: &str, text: &str) {
    match std::fs::write(file, text) {
        Ok(()) => println!("picture: {file}"),
        Err(error) => eprintln!("cannot write {file}: {error}"),
    }
}

/// Returns where new seeds start: the time, in microseconds.
fn new_seed() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |since| since.as_micros() as u64)
}
