//! Shrinks a failing plan: fewer faults, workers and clients, a shorter run, as long as it still fails.

use crate::plan::Plan;
use crate::world::{Report, play};

/// The most plans that are tried.
const TRIALS: usize = 300;

/// Returns the smallest plan found that still fails, its report, and how many were played.
pub fn shrink(plan: &Plan) -> (Plan, Report, usize) {
    let mut best = plan.clone();
    let (mut report, _) = play(&best, false);
    let mut trials = 0;
    let mut has_shrunk = true;
    while has_shrunk && trials < TRIALS {
        has_shrunk = false;
        for smaller in candidates(&best) {
            trials += 1;
            let (found, _) = play(&smaller, false);
            if what(&found) == what(&report) {
                (best, report, has_shrunk) = (smaller, found, true);
                break;
            }
            if trials >= TRIALS {
                break;
            }
        }
    }
    (best, report, trials)
}

/// Returns the start of the first violation in a report, without its numbers: a smaller plan must fail in the same way.
fn what(report: &Report) -> Option<String> {
    Some(report.violations.first()?.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect())
}

fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        found.push(smaller);
    };
    if plan.faults.len() > 1 {
        let half = plan.faults.len() / 2;
        with(&|plan| plan.faults.truncate(half));
        with(&|plan| {
            plan.faults.drain(..half);
        });
    }
    for fault in 0..plan.faults.len() {
        with(&|plan| {
            plan.faults.remove(fault);
        });
    }
    if plan.end > 500 {
        with(&|plan| {
            plan.end /= 2;
            let end = plan.end;
            plan.faults.retain(|fault| fault.at <= end);
        });
    }
    // Positions identify clients and workers, so only the last one may be removed.
    if plan.clients.len() > 1 {
        with(&|plan| {
            plan.clients.pop();
        });
    }
    for client in 0..plan.clients.len() {
        if plan.clients[client].workers.len() > 1 {
            with(&|plan| {
                plan.clients[client].workers.pop();
            });
        }
        if plan.clients[client].interests != 0 {
            with(&|plan| plan.clients[client].interests = 0);
        }
    }
    if plan.split > 0 {
        with(&|plan| plan.split = 0);
    }
    found
}
