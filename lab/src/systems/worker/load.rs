//! Many connections acquire and release at a time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use super::clock;
use super::way::Way;

/// Each connection has a thread and a lock of its own.
pub(super) fn run(connect: &dyn Fn() -> Box<dyn Way>, connections: usize, ms: usize) {
    let (ends, pairs, begin) = (AtomicBool::new(false), AtomicUsize::new(0), Barrier::new(connections + 1));
    let (ends, pairs, begin) = (&ends, &pairs, &begin);
    let (done, nanoseconds) = scope(|threads| {
        for number in 0..connections {
            let mut way = connect();
            threads.spawn(move || {
                let key = format!("bench-load-{number}");
                begin.wait();
                while !ends.load(Ordering::Relaxed) {
                    way.acquire(&key, ends);
                    way.release(&key);
                    pairs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        begin.wait();
        let began = clock();
        sleep(Duration::from_millis(ms as u64));
        let (done, end) = (pairs.load(Ordering::Relaxed), clock());
        ends.store(true, Ordering::Relaxed);
        (done, end - began)
    });
    println!("{done} {nanoseconds}");
}
