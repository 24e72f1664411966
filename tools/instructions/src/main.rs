//! What `tools/instructions.py` counts the instructions of: the pure crates at their usual work, row by row.
//!
//! Callgrind forgets its counts when `counting_begins` is called and writes them down when `counting_ends` is. Prints the name of every row and how often it did its
//! work, in that order, so that the two can be divided. `--slow ROW` does a twentieth of that row's work again: a
//! slowdown planted for the test of the comparison. Reads no clock.

mod codec;
#[path = "../../../crates/bson/benches/shared/documents.rs"]
mod documents;
mod protocol;

use std::hint::black_box;

/// How often each row does its work, after once uncounted that fills what is kept.
const TIMES: usize = 20;

#[inline(never)]
fn counting_begins(times: usize) -> usize {
    black_box(times)
}

#[inline(never)]
fn counting_ends() {
    black_box(());
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let slow = arguments.next().filter(|word| word == "--slow").and_then(|_| arguments.next());
    let mut is_known = slow.is_none();
    let mut row = |name: &str, work: &mut dyn FnMut()| {
        let is_slow = slow.as_deref() == Some(name);
        is_known |= is_slow;
        work();
        for _ in 0..counting_begins(TIMES + usize::from(is_slow)) {
            work();
        }
        counting_ends();
        println!("{name} {TIMES}");
    };
    codec::play(&mut row);
    protocol::play(&mut row);
    assert!(is_known, "expected the name of a row after --slow, got {slow:?}");
}
