//! The server's memory before and after.

use std::env;
use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rlock_testkit::{TestServer, eventually};

use crate::wire::connect;
use crate::work::Scene;

/// The contended cycles of `make test`.
const CYCLES: u64 = 24_000;

/// The difference that is not a leak. The smallest block that exists, lost once in each step of any kind of work,
/// makes more.
const NOISE: i64 = 1_024;

type Work = fn(&mut Scene<'_>) -> u64;

/// The kinds of work, and how many of the contended cycles make one of these.
const KINDS: [(&str, u64, Work); 6] = [
    ("SET, DEL, BLPOP", 1, |scene| scene.plain_hand_offs(100)),
    ("hand-offs", 1, |scene| scene.hand_offs(100)),
    ("waits that end", 10, |scene| scene.ended_waits()),
    ("departures", 20, |scene| scene.departures()),
    ("readers, writers and FAIR", 20, |scene| scene.modes()),
    ("other calls", 100, |scene| scene.calls()),
];

/// In how many parts each kind is done, and in how many at most while the memory has grown in each.
const BATCHES: u64 = 3;
const MOST: u64 = 5;

/// The number of equal readings in a row: the server frees some of the clients' memory a little later, in steps of
/// 100 ms.
const SAME: usize = 15;

/// The memory in use while only the observer is connected.
#[track_caller]
fn at_rest(server: &TestServer) -> i64 {
    let mut observer = connect(server);
    eventually("all to be gone", Duration::from_secs(20), || {
        (observer.info("clients", "connected_clients") == 1).then_some(())
    });
    let (mut last, mut same) = (0, 0);
    eventually("the memory to settle", Duration::from_secs(60), || {
        sleep(Duration::from_millis(20));
        let used = observer.info("memory", "used_memory");
        same = if used == last { same + 1 } else { 0 };
        last = used;
        (same == SAME).then_some(used)
    })
}

/// The growth of the memory by a kind of work, in the batch with the least growth: tables of the server change their
/// size from time to time, but a leak shows in each batch. There are more batches while each has shown one.
#[track_caller]
fn growth(server: &TestServer, used: &mut u64, kind: usize, cycles: u64) -> i64 {
    let ((name, _, work), mut before, mut done) = (KINDS[kind], at_rest(server), 0);
    let (begin, mut grown) = (Instant::now(), Vec::new());
    for batch in 1..=MOST {
        if batch > BATCHES && grown.iter().any(|grown| *grown <= NOISE) {
            break;
        }
        let mut scene = Scene::new(server, used);
        while done < cycles * batch / BATCHES {
            done += work(&mut scene);
        }
        drop(scene);
        let after = at_rest(server);
        grown.push(after - before);
        before = after;
    }
    let each = grown.iter().sum::<i64>() as f64 / done as f64;
    let line = format!("{name}: {done} in {:.1?}, {grown:?} bytes, {each:.4} for each\n", begin.elapsed());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    grown.into_iter().min().expect("there are batches")
}

#[test]
fn memory_after_very_many_cycles_is_what_it_was_before() {
    let cycles = env::var("RLOCK_LEAK_CYCLES").ok().map(|cycles| cycles.parse().expect("a number"));
    let cycles = cycles.unwrap_or(CYCLES);
    // What is logged as slow takes memory too.
    let server = TestServer::builder().conf("slowlog-log-slower-than", "-1").start();
    let used = &mut 0;
    let mut scene = Scene::new(&server, used);
    for (_, _, work) in KINDS.iter().chain(&KINDS) {
        work(&mut scene);
    }
    drop(scene);
    let null = growth(&server, used, 0, cycles).max(0);
    for (kind, (name, share, _)) in KINDS.iter().enumerate().skip(1) {
        let grown = growth(&server, used, kind, cycles / share);
        assert!(grown <= null + NOISE, "{name}: {grown} bytes more, and {null} without the module");
    }
}
