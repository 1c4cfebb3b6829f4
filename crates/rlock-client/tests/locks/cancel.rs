//! Futures that are dropped at any moment, guards that outlive their runtime, clients that end.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rlock_client::{Client, Error, Lost, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{
    SOON, connect, connect_with, denied, eventually, holder, run, seed, url, waiters, within,
};

/// Polls a future `polls` times, with a little time in between, then drops it.
async fn poll_and_drop<T>(work: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..polls {
        if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(value);
        }
        tokio::time::sleep(Duration::from_micros(30)).await;
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_random_cancellations_leave_nothing_behind() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let mut random = fastrand::Rng::with_seed(seed());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (client, mut random) = (client.clone(), random.fork());
        tasks.spawn(async move {
            for _ in 0..200 {
                let lock = client.lock(format!("lock{}", random.u8(..4)));
                let life = Duration::from_micros(random.u64(..4_000));
                match random.u8(..4) {
                    0 => drop(tokio::time::timeout(life, lock.acquire()).await),
                    1 => drop(tokio::time::timeout(life, lock.try_acquire()).await),
                    2 => drop(poll_and_drop(lock.acquire(), random.usize(..8)).await),
                    _ => {
                        if let Ok(Ok(guard)) = tokio::time::timeout(life * 4, lock.acquire()).await {
                            let inner = poll_and_drop(guard.reenter(), random.usize(..5)).await;
                            drop(poll_and_drop(guard.release(), random.usize(..5)).await);
                            drop(inner);
                        }
                    }
                }
            }
        });
    }
    let work = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    // Seconds; more than twenty of them where others use the machine as well.
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the tasks to end");
    let mut raw = server.connect();
    for lock in 0..4 {
        let name = format!("lock{lock}");
        eventually("a free lock", || holder(&mut raw, &name).is_none().then_some(())).await;
    }
    eventually("an empty queue", || (waiters(&server) == 0).then_some(())).await;
    // And everything still works.
    within("the lock", client.lock("lock0").acquire()).await.unwrap().release().await.unwrap();
    client.close(SOON).await.unwrap();
}

#[tokio::test]
async fn a_wait_is_dropped_after_every_number_of_polls() {
    let server = TestServer::start();
    let client = connect(&server).await;
    for polls in 0..30 {
        let guard = client.lock("lock").acquire().await.unwrap();
        let lock = client.lock("lock");
        let wait = poll_and_drop(lock.acquire(), polls);
        let release = async {
            tokio::time::sleep(Duration::from_micros(polls as u64 * 20)).await;
            guard.release().await.unwrap();
        };
        let (gotten, ()) = tokio::join!(wait, release);
        drop(gotten);
        let mut raw = server.connect();
        eventually("a free lock", || holder(&mut raw, "lock").is_none().then_some(())).await;
        eventually("an empty queue", || (waiters(&server) == 0).then_some(())).await;
    }
}

/// A driver that has no room for a request lets it wait, and a later one may pass it: a release that passed its request left behind
/// a lock without a holder.
#[tokio::test(flavor = "multi_thread")]
async fn the_requests_of_many_acquisitions_go_out_in_their_order() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let locks: Vec<_> = (0..300).map(|number| client.lock(format!("lock{number}"))).collect();
    let mut raw = server.connect();
    for turns in (0..12).cycle().take(60) {
        let mut waits: Vec<_> = locks.iter().map(|lock| Box::pin(lock.acquire())).collect();
        for wait in &mut waits {
            drop(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        waits.into_iter().rev().for_each(drop);
        eventually("free locks", || (run::<u64>(&mut raw, "DBSIZE") == 0).then_some(())).await;
    }
}

#[tokio::test]
async fn every_other_operation_is_dropped_after_every_number_of_polls() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let mut raw = server.connect();
    for polls in 0..12 {
        let lock = client.lock("lock");
        drop(poll_and_drop(lock.try_acquire(), polls).await);
        drop(poll_and_drop(lock.run(|_| tokio::task::yield_now()), polls).await);
        drop(poll_and_drop(lock.locked(), polls).await);
        // A named owner whose turn was given up gives it to the next.
        let named = client.lock("lock").owner("job");
        drop(poll_and_drop(named.acquire(), polls).await);
        let guard = within("the lock", named.acquire()).await.unwrap();
        let inner = poll_and_drop(guard.reenter(), polls).await;
        guard.check().unwrap();
        drop(inner);
        drop(poll_and_drop(guard.release(), polls).await);
        eventually("a free lock", || holder(&mut raw, "lock").is_none().then_some(())).await;
        eventually("an empty queue", || (waiters(&server) == 0).then_some(())).await;
    }
    client.close(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tens_of_thousands_of_races_leave_nothing_that_is_renewed() {
    let server = TestServer::start();
    // A busy machine must not make the client give a connection up: try_lock would say so. Nor must it lose
    // locks because it had no time to renew them.
    let lease = Duration::from_secs(9);
    let builder = Client::builder().lease(lease).response_timeout(SOON);
    let client = connect_with(&server, builder).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..100 {
        let client = client.clone();
        tasks.spawn(async move {
            // Ten tasks to a lock; half of them drop their guards.
            let lock = client.lock(format!("lock{}", task / 10));
            for round in 0..300 {
                match lock.try_acquire().await {
                    Ok(guard) if round % 2 == 0 => drop(guard),
                    Ok(guard) => guard.release().await.unwrap(),
                    outcome => assert!(denied(outcome)),
                }
            }
        });
    }
    let work = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    // Seconds; many more where others use the machine as well.
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the races to end");
    let mut raw = server.connect();
    for lock in 0..10 {
        let name = format!("lock{lock}");
        eventually("a free lock", || holder(&mut raw, &name).is_none().then_some(())).await;
    }
    // Not by the counter of owners that held nothing: repeated releases count there as well.
    let renewed = || server.info("commandstats").get("cmdstat_rlock.renew").cloned();
    let before = renewed();
    // A renewal of whatever would still be renewed, and a half.
    tokio::time::sleep(lease / 2).await;
    assert_eq!(renewed(), before, "something is renewed still");
}

#[test]
fn a_guard_is_dropped_without_a_runtime_and_while_panicking() {
    let server = TestServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(connect(&server));
    let mut raw = server.connect();
    let guard = runtime.block_on(client.lock("lock").acquire()).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(eventually("the release", || holder(&mut raw, "lock").is_none().then_some(())));
    let guard = runtime.block_on(client.lock("lock").acquire()).unwrap();
    let panicked = std::thread::spawn(move || {
        let _guard = guard;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    runtime.block_on(eventually("the release", || holder(&mut raw, "lock").is_none().then_some(())));
    // After the runtime: the lock's lease ends by itself, and nothing else happens.
    let guard = runtime.block_on(client.lock("lock").lease(Duration::from_millis(300)).acquire()).unwrap();
    drop(runtime);
    drop(guard);
    drop(client);
    rlock_testkit::eventually("the end of the lease", SOON, || {
        holder(&mut raw, "lock").is_none().then_some(())
    });
}

#[tokio::test]
async fn a_shutdown_flushes_releases_ends_waits_and_tells_holders() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let guards: Vec<_> = {
        let mut guards = Vec::new();
        for lock in 0..500 {
            guards.push(client.lock(format!("lock{lock}")).acquire().await.unwrap());
        }
        guards
    };
    let (kept, lock) = (client.lock("kept").acquire().await.unwrap(), client.lock("kept"));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    drop(guards);
    let other = client.clone();
    assert_eq!(client.close(Duration::from_secs(3)).await, Err(Error::Unflushed { locks: 1 }));
    assert_eq!(within("the wait", waiting).await.unwrap().unwrap_err(), Error::Closed);
    assert_eq!(kept.state(), State::Lost(Lost::Closed));
    assert_eq!(within("the loss", kept.lost()).await, Lost::Closed);
    let keys: Vec<String> = run(&mut raw, "KEYS *");
    assert_eq!((keys, waiters(&server)), (vec!["kept".to_string()], 0));
    assert_eq!(other.lock("new").try_acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(other.lock("new").acquire().await.unwrap_err(), Error::Closed);
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_after_its_releases() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let guard = client.lock("lock").acquire().await.unwrap();
    drop(client);
    // The guard keeps what it needs.
    tokio::time::sleep(Duration::from_millis(100)).await;
    guard.check().unwrap();
    drop(guard);
    eventually("the release", || holder(&mut raw, "lock").is_none().then_some(())).await;
    eventually("the connections' end", || {
        let clients: String = run(&mut raw, "CLIENT LIST");
        (clients.lines().count() == 1).then_some(())
    })
    .await;
    assert!(Client::connect(&url(&server)).await.is_ok());
}
