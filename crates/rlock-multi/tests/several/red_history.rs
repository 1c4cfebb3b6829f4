//! Many tasks want one lock on five servers, of which two are dead and others are paused now and again: no
//! two ever hold it at once. `RLOCK_SOAK_SECONDS` says for how long (8).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rlock_client::Client;
use rlock_multi::RedLock;
use rlock_testkit::clients::{seconds, seed, within};
use tokio::task::JoinSet;

use crate::five::{Five, Way};

const LEASE: Duration = Duration::from_millis(1_500);

/// A hold: from the end of the first check that said it was valid to the beginning of the last.
type Hold = (Instant, Instant, usize);

fn builder() -> rlock_client::Builder {
    Client::builder().lease(LEASE)
}

/// Takes the lock again and again, and looks all the time whether it is still held.
async fn contend(lock: RedLock, who: usize, over: Arc<AtomicBool>, history: Arc<Mutex<Vec<Hold>>>) {
    let mut random = fastrand::Rng::with_seed(who as u64);
    while !over.load(Ordering::SeqCst) {
        let Ok(guard) = lock.acquire_timeout(Duration::from_secs(2)).await else { continue };
        if guard.check().is_err() {
            continue;
        }
        let first = Instant::now();
        let mut last = first;
        // Some hold on until they lose it.
        let longest = if random.u8(..4) == 0 { 4_000 } else { 20 };
        let until = first + Duration::from_millis(random.u64(..longest));
        while Instant::now() < until {
            let before = Instant::now();
            if guard.check().is_err() {
                break;
            }
            last = before;
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        history.lock().unwrap().push((first, last, who));
        if random.bool() { drop(guard) } else { _ = guard.release().await }
    }
}

/// Stops one server after the other for a while, sometimes longer than the lease, sometimes several.
fn disturb(five: &Five, random: &mut fastrand::Rng, living: std::ops::Range<usize>, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let stopped: Vec<usize> = (0..random.usize(1..=2)).map(|_| random.usize(living.clone())).collect();
        stopped.iter().for_each(|server| five.at(*server).signal(libc::SIGSTOP));
        std::thread::sleep(Duration::from_millis(random.u64(..2_500)));
        stopped.iter().for_each(|server| five.at(*server).signal(libc::SIGCONT));
        std::thread::sleep(Duration::from_millis(random.u64(..1_500)));
    }
}

fn never_two_at_once(mut history: Vec<Hold>) {
    history.sort_unstable();
    for pair in history.windows(2) {
        let [(_, end, one), (begin, _, other)] = pair else { unreachable!("windows of two") };
        assert!(end <= begin, "{one} and {other} held it at once for {:?}", *end - *begin);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn never_two_hold_it_at_once() {
    let mut random = fastrand::Rng::with_seed(seed());
    let time = seconds("RLOCK_SOAK_SECONDS", 8);
    let mut five = Five::start().await;
    let history = Arc::new(Mutex::new(Vec::new()));
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for who in 0..4 {
        let lock = five.lock(builder, "lock");
        tasks.spawn(contend(lock, who, over.clone(), history.clone()));
    }
    let five = tokio::task::spawn_blocking(move || {
        disturb(&five, &mut random, 0..5, time * 2 / 5);
        let before = Instant::now();
        (0..2).for_each(|server| five.fail(server, Way::Killed));
        // Two are dead, and all others are well: the turns continue.
        std::thread::sleep(time / 5);
        disturb(&five, &mut random, 2..5, time * 2 / 5);
        (five, before)
    });
    let (five, killed) = five.await.unwrap();
    over.store(true, Ordering::SeqCst);
    within("the tasks", async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    let history = std::mem::take(&mut *history.lock().unwrap());
    let late = history.iter().filter(|(first, ..)| *first > killed).count();
    println!("{} holds, {late} of them with two servers dead", history.len());
    assert!(late > 0 && history.len() > late);
    never_two_at_once(history);
    five.all_free(2..5, "lock").await;
}
