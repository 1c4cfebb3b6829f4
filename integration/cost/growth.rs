//! How a hand-off by ENQUEUE grows with the number of waiters: instructions, and data that is not in the core's first cache.

use std::thread;

use rlock_testkit::TestServer;

use crate::hand_offs::{LAPS, OPTIONS, WARM_UP, counted};
use crate::laps::Way;
use crate::profile::{self, Profile};
use crate::store;

/// The same caches on every machine: 32 KiB for data, a last-level cache of 32 MiB.
const CACHES: &str = "--cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL=33554432,16,64";

/// The numbers of waiters between which `make bench` measures the growth.
const NUMBERS: [usize; 2] = [2, 10_000];

/// The most that the instructions may grow, as a factor: more waiters stand in deeper trees. On three servers it was 1.09.
const MOST: f64 = 1.12;

/// The folder of the stored figures.
const FOLDER: &str = "growth";

/// Of one hand-off.
#[derive(Debug, Clone, Copy)]
struct Count {
    instructions: f64,
    misses: f64,
}

#[track_caller]
fn count(waiters: usize) -> Count {
    let server = profile::start(TestServer::builder().conf("hz", 1), &format!("{OPTIONS} {CACHES}"));
    thread::sleep(WARM_UP);
    let text = counted(server, Way::Enqueue, waiters);
    assert!(Profile::of(&text).effects == 0.0, "the module still sends effects");
    let words =
        |name| text.lines().find_map(|line| line.strip_prefix(name)).expect("a line").split_whitespace();
    let of = |event: &str| {
        let at = words("events: ").position(|one| one == event).expect("this event");
        let total: f64 = words("totals: ").nth(at).and_then(|total| total.parse().ok()).expect("a number");
        total / LAPS as f64
    };
    Count { instructions: of("Ir"), misses: of("D1mr") + of("D1mw") }
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_hand_off_hardly_grows_with_the_waiters() {
    let counts = NUMBERS.map(count);
    println!("\n{:>8} {:>12} {:>14}", "waiters", "instructions", "first-level misses");
    let lines = NUMBERS.iter().zip(&counts).map(|(waiters, Count { instructions, misses })| {
        println!("{waiters:8} {instructions:12.0} {misses:14.0}");
        format!(
            "    {{ \"waiters\": {waiters}, \"instructions\": {instructions:.0}, \"misses\": {misses:.0} }}"
        )
    });
    let lines: Vec<String> = lines.collect();
    if store::is_wanted() {
        store::write(FOLDER, &format!("  \"counts\": [\n{}\n  ]", lines.join(",\n")));
    }
    let [few, many] = counts.map(|count| count.instructions);
    assert!(many <= few * MOST, "{few:.0} instructions with {NUMBERS:?} waiters became {many:.0}");
}
