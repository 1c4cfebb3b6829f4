//! Locks on several servers whose futures are dropped at any moment, and guards that are dropped anywhere.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rlock_client::Client;
use rlock_multi::{LockAll, RedLock};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect, eventually, holder, seed, waiters, within};
use tokio::task::JoinSet;

/// Polls a future `polls` times, with a little time in between, then drops it.
async fn poll_and_drop<T>(work: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..polls {
        if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(value);
        }
        tokio::time::sleep(Duration::from_micros(50)).await;
    }
    None
}

/// Three servers and a client of each.
async fn three() -> (Vec<TestServer>, Vec<Client>) {
    let servers: Vec<_> = (0..3).map(|_| TestServer::start()).collect();
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(connect(server).await);
    }
    (servers, clients)
}

/// These locks are free everywhere, and the queues are empty.
async fn all_free(servers: &[TestServer], locks: &[&str]) {
    for server in servers {
        let mut raw = server.connect();
        for lock in locks {
            eventually("a free lock", || holder(&mut raw, lock).is_none().then_some(())).await;
        }
        eventually("an empty queue", || (waiters(server) == 0).then_some(())).await;
    }
}

/// Two locks on the first server, one on each of the others.
fn all(clients: &[Client]) -> LockAll {
    LockAll::new(clients.iter().map(|client| client.lock("a")).chain([clients[0].lock("b")])).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_of_all_is_dropped_after_every_number_of_polls() {
    let (servers, clients) = three().await;
    let locks = all(&clients);
    for polls in 0..40 {
        // Another client holds one of the locks, and releases it meanwhile.
        let taken = clients[polls % 3].lock("a").acquire().await.unwrap();
        let waiting = poll_and_drop(locks.acquire(), polls);
        let release = async {
            tokio::time::sleep(Duration::from_micros(polls as u64 * 40)).await;
            taken.release().await.unwrap();
        };
        let (gotten, ()) = within("both", async { tokio::join!(waiting, release) }).await;
        drop(gotten);
        all_free(&servers, &["a", "b"]).await;
        drop(poll_and_drop(locks.try_acquire(), polls / 2).await);
        all_free(&servers, &["a", "b"]).await;
        let guard = within("the locks", locks.acquire()).await.unwrap();
        drop(poll_and_drop(guard.release(), polls / 2).await);
        all_free(&servers, &["a", "b"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_red_lock_is_dropped_after_every_number_of_polls() {
    let (servers, clients) = three().await;
    let lock = RedLock::new(&clients, "a").unwrap();
    for polls in 0..40 {
        // On one of the servers another client has it, every third time on two.
        let taken = clients[polls % 3].lock("a").acquire().await.unwrap();
        let second = if polls % 3 == 0 { clients[1].lock("a").try_acquire().await.ok() } else { None };
        drop(poll_and_drop(lock.acquire(), polls).await);
        taken.release().await.unwrap();
        drop(second);
        all_free(&servers, &["a"]).await;
        drop(poll_and_drop(lock.try_acquire(), polls).await);
        all_free(&servers, &["a"]).await;
        let guard = within("the lock", lock.acquire()).await.unwrap();
        drop(poll_and_drop(guard.release(), polls / 2).await);
        all_free(&servers, &["a"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_random_cancellations_leave_nothing_behind() {
    let (servers, clients) = three().await;
    let mut random = fastrand::Rng::with_seed(seed());
    let mut tasks = JoinSet::new();
    for _ in 0..12 {
        let (clients, mut random) = (clients.clone(), random.fork());
        tasks.spawn(async move {
            for _ in 0..60 {
                let life = Duration::from_micros(random.u64(..8_000));
                if random.bool() {
                    let lock = RedLock::new(&clients, "red").unwrap();
                    if let Ok(Ok(guard)) = tokio::time::timeout(life, lock.acquire()).await {
                        drop(poll_and_drop(guard.release(), random.usize(..6)).await);
                    }
                } else if let Ok(Ok(guard)) = tokio::time::timeout(life, all(&clients).acquire()).await {
                    drop(poll_and_drop(guard.release(), random.usize(..6)).await);
                }
            }
        });
    }
    within("the tasks", async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    all_free(&servers, &["a", "b", "red"]).await;
    // And everything still works.
    within("the locks", all(&clients).acquire()).await.unwrap().release().await.unwrap();
    let red = RedLock::new(&clients, "red").unwrap();
    within("the lock", red.acquire()).await.unwrap().release().await.unwrap();
}

#[test]
fn guards_are_dropped_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (servers, clients) = runtime.block_on(three());
    let (locks, red) = (all(&clients), RedLock::new(&clients, "red").unwrap());
    let guards = (runtime.block_on(locks.acquire()).unwrap(), runtime.block_on(red.acquire()).unwrap());
    std::thread::spawn(move || drop(guards)).join().unwrap();
    runtime.block_on(all_free(&servers, &["a", "b", "red"]));
    // After the runtime nothing happens but the end of the leases.
    let guards = (runtime.block_on(locks.acquire()).unwrap(), runtime.block_on(red.acquire()).unwrap());
    drop(runtime);
    drop(guards);
}
