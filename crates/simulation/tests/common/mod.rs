//! Functions that tests of simulated servers share.

use mangonel_proto::time::Instant;
use mangonel_simulation::server::Set;

/// Runs a set's next event.
pub fn go_on(set: &mut Set, now: &mut Instant) {
    let next = (0..set.later.len()).min_by_key(|event| set.later[*event].0).expect("something ticks always");
    let (when, event) = set.later.remove(next);
    *now = when.max(*now);
    set.handle(event, *now);
}
