//! Rules of simulated connections that no seed is certain to exercise.

use std::time::Duration;

use mangonel_simulation::chance::Chance;
use mangonel_simulation::network::{Chunk, Network, Owner};
use mangonel_simulation::queue::EPOCH;

#[test]
fn bytes_that_are_sent_again_after_a_partition_arrive_before_those_sent_behind_them() {
    let mut network = Network::new(vec![vec![1_000]], 0, Chance::new(1, 3));
    let line = network.open(0, Owner::Observer(0, false), 0);
    let mut arrivals = network.send(line, false, Chunk::Bytes(b"first".to_vec()), EPOCH);
    network.blocked.insert((0, 0, false));
    assert!(network.pass(line, false).is_none());
    // The second is on its way when the partition ends.
    arrivals.extend(network.send(line, false, Chunk::Bytes(b"second".to_vec()), EPOCH));
    network.blocked.clear();
    arrivals.extend(network.unblock(EPOCH + Duration::from_micros(1)));
    let came: Vec<Vec<u8>> = arrivals[1..]
        .iter()
        .map(|arrival| match network.pass(arrival.line, arrival.to_server) {
            Some(Chunk::Bytes(bytes)) => bytes,
            other => panic!("expected bytes, got {other:?}"),
        })
        .collect();
    assert_eq!(came, [b"first".to_vec(), b"second".to_vec()]);
}

#[test]
fn nothing_arrives_behind_the_end_of_a_connection() {
    let mut network = Network::new(vec![vec![1_000]], 0, Chance::new(1, 3));
    let line = network.open(0, Owner::Observer(0, false), 0);
    network.cut_after(line, false, 2);
    assert_eq!(network.send(line, false, Chunk::Bytes(b"first".to_vec()), EPOCH).len(), 3);
    assert_eq!(network.send(line, false, Chunk::Bytes(b"second".to_vec()), EPOCH).len(), 0);
    assert_eq!(network.send(line, true, Chunk::Bytes(b"question".to_vec()), EPOCH).len(), 0);
}
