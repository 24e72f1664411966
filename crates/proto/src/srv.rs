//! SRV records as a list of routers that changes: which of them to use, and when to query again. Queries no DNS server
//! and draws no random number; the code that reads the records checks the names.
//! Spec: initial-dns-seedlist-discovery, "srvMaxHosts"; polling-srv-records-for-mongos-discovery.

use std::time::Duration;

use crate::topology::Address;

/// The least time between two queries.
pub const MIN_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Returns when to query DNS again: when the answer expires, but never too soon.
///
/// `ttl` is the least time to live of all records; `None` after a failed query, which is repeated after a heartbeat.
pub fn poll_interval(ttl: Option<Duration>, heartbeat_frequency: Duration) -> Duration {
    ttl.map_or(heartbeat_frequency, |ttl| ttl.max(MIN_POLL_INTERVAL))
}

/// Returns the routers to use from now on: those in use that are still listed, then others at random until there are
/// `max_hosts`. Zero or no limit means all of them.
///
/// `random` returns a fresh random number at each call.
pub fn choose_hosts(
    in_use: &[Address],
    named: &[Address],
    max_hosts: Option<usize>,
    mut random: impl FnMut() -> u64,
) -> Vec<Address> {
    let mut chosen: Vec<Address> = Vec::new();
    let mut others: Vec<Address> = Vec::new();
    for address in named {
        let list = if in_use.contains(address) { &mut chosen } else { &mut others };
        if !list.contains(address) {
            list.push(address.clone());
        }
    }
    let limit = max_hosts.filter(|&limit| limit > 0).unwrap_or(usize::MAX);
    // Only after the limit was lowered can more than the limit be in use.
    chosen.truncate(limit);
    if chosen.len() + others.len() <= limit {
        chosen.append(&mut others);
        return chosen;
    }
    while chosen.len() < limit && !others.is_empty() {
        let at = random() % others.len() as u64;
        chosen.push(others.swap_remove(at as usize));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(names: &str) -> Vec<Address> {
        names.chars().map(|name| Address::new(&name.to_string(), 1)).collect()
    }

    fn never() -> u64 {
        panic!("no choice was needed")
    }

    #[test]
    fn without_a_limit_all_named_hosts_are_used() {
        for limit in [None, Some(0), Some(3), Some(9)] {
            assert_eq!(choose_hosts(&[], &addresses("abc"), limit, never), addresses("abc"));
        }
    }

    #[test]
    fn hosts_in_use_stay_while_they_are_named() {
        let chosen = choose_hosts(&addresses("ab"), &addresses("dcba"), Some(2), never);
        assert_eq!(chosen, addresses("ba"));
        let chosen = choose_hosts(&addresses("ab"), &addresses("cdb"), Some(2), || 1);
        assert_eq!(chosen, addresses("bd"));
    }

    #[test]
    fn every_host_can_be_chosen_and_none_twice() {
        let mut counts = [0; 4];
        for seed in 0..400u64 {
            let mut state = seed;
            let chosen = choose_hosts(&[], &addresses("abcda"), Some(2), || {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                state >> 33
            });
            assert_eq!(chosen.len(), 2);
            assert_ne!(chosen[0], chosen[1]);
            for address in chosen {
                counts[(address.host().as_bytes()[0] - b'a') as usize] += 1;
            }
        }
        assert!(counts.iter().all(|&count| (100..300).contains(&count)), "{counts:?}");
    }

    #[test]
    fn dns_is_asked_when_its_answer_expires_but_not_all_the_time() {
        let heartbeat = Duration::from_secs(10);
        let seconds = |ttl| poll_interval(Some(Duration::from_secs(ttl)), heartbeat).as_secs();
        assert_eq!((seconds(0), seconds(60), seconds(3600)), (60, 60, 3600));
        assert_eq!(poll_interval(None, heartbeat), heartbeat);
    }
}
