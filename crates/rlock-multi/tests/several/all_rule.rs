//! The order in which locks are asked for, kept, released and waited for.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rlock_client::{Client, Error, Lock};
use rlock_multi::{LockAll, lock_all};
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{connect, connect_with, denied, eventually, holder, run, waiters, within};

const SHORT: Duration = Duration::from_millis(300);

/// The requests about locks: `ask a`, `wait a`, `release a`.
type Requests = Arc<Mutex<Vec<String>>>;

/// A client of this server, and its requests.
async fn watched(server: &TestServer) -> (Proxy, Client, Requests) {
    let proxy = Proxy::to(server.port()).await;
    let requests = Requests::default();
    let seen = requests.clone();
    proxy.rule(move |words| {
        let verb = match words[0].as_str() {
            "RLOCK.ACQUIRE" if words.iter().any(|word| word == "ENQUEUE") => "wait",
            "RLOCK.ACQUIRE" => "ask",
            "RLOCK.RELEASE" => "release",
            _ => return Fate::Pass,
        };
        seen.lock().unwrap().push(format!("{verb} {}", words[1]));
        Fate::Pass
    });
    let client = within("a client", Client::connect(&proxy.url())).await.unwrap();
    (proxy, client, requests)
}

fn has(requests: &Requests, one: &str) -> bool {
    requests.lock().unwrap().iter().any(|request| request == one)
}

fn locks(client: &Client, names: &[&str]) -> Vec<Lock> {
    names.iter().map(|name| client.lock(name)).collect()
}

fn keys(server: &TestServer) -> Vec<String> {
    let mut keys: Vec<String> = run(&mut server.connect(), "KEYS *");
    keys.sort_unstable();
    keys
}

/// Waits until exactly these locks are held on the server.
async fn held(server: &TestServer, names: &[&str]) {
    eventually("these locks and no others", || (keys(server) == names).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_batch_first_then_the_locks_before_the_denied_one_are_kept() {
    let server = TestServer::start();
    let (_proxy, client, requests) = watched(&server).await;
    let mut raw = server.connect();
    for other in ["b", "d"] {
        run::<Vec<u64>>(&mut raw, &format!("RLOCK.ACQUIRE {other} other 60000"));
    }
    let waiting = tokio::spawn(lock_all(locks(&client, &["e", "d", "c", "b", "a"])));
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    held(&server, &["a", "b", "d"]).await;
    assert_eq!(requests.lock().unwrap()[..5], ["ask a", "ask b", "ask c", "ask d", "ask e"]);
    assert!(has(&requests, "wait b") && has(&requests, "release c") && has(&requests, "release e"));
    assert!(!has(&requests, "release a") && !has(&requests, "wait d"));
    requests.lock().unwrap().clear();
    run::<u64>(&mut raw, "RLOCK.RELEASE b other");
    // The rest in one batch again, of which only what comes before d is kept.
    eventually("the next wait", || (has(&requests, "wait d") && waiters(&server) == 1).then_some(())).await;
    held(&server, &["a", "b", "c", "d"]).await;
    {
        let requests = requests.lock().unwrap();
        let asked: Vec<_> = requests.iter().filter(|request| request.starts_with("ask")).collect();
        assert_eq!(asked[..3], ["ask c", "ask d", "ask e"], "{requests:?}");
    }
    assert!(!["a", "b", "c"].iter().any(|kept| has(&requests, &format!("release {kept}"))));
    run::<u64>(&mut raw, "RLOCK.RELEASE d other");
    let guard = within("the locks", waiting).await.unwrap().unwrap();
    assert_eq!(guard.locks().iter().map(|held| held.name()[0]).collect::<Vec<_>>(), b"abcde");
    held(&server, &["a", "b", "c", "d", "e"]).await;
    guard.release().await.unwrap();
    held(&server, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_holds_nothing() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let locks = LockAll::new(locks(&client, &["c", "b", "a"])).unwrap();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE b other 60000");
    assert!(denied(locks.try_acquire().await));
    held(&server, &["b"]).await;
    let error = within("a time-out", locks.acquire_timeout(SHORT)).await.unwrap_err();
    let Error::Timeout { lock, waited, .. } = error else { panic!("{error}") };
    assert!(lock == "b" && waited >= SHORT, "{lock} {waited:?}");
    held(&server, &["b"]).await;
    assert_eq!(waiters(&server), 0);
    // Waiting cannot fix this: it is an error at once, and what was acquired is released.
    run::<()>(&mut raw, "SET b1 text");
    let broken = LockAll::new(["a", "b1", "c"].map(|name| client.lock(name))).unwrap();
    let error = within("an error", broken.acquire()).await.unwrap_err();
    assert!(matches!(error, Error::NotALock { .. }), "{error}");
    held(&server, &["b", "b1"]).await;
}

/// Other code holds b and waits for a, in an order of its own: both wait, until the limit of one of them.
#[tokio::test(flavor = "multi_thread")]
async fn against_another_order_only_a_limit_helps() {
    let server = TestServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let second = other.lock("b").acquire().await.unwrap();
    let both = LockAll::new(locks(&client, &["a", "b"])).unwrap();
    let (waiting, limit) = (tokio::spawn(both.acquire_timeout(SHORT * 3)), Instant::now() + SHORT * 3);
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    let first = within("the other lock", other.lock("a").acquire()).await.unwrap();
    assert!(Instant::now() >= limit);
    assert!(matches!(waiting.await.unwrap(), Err(Error::Timeout { lock, .. }) if lock == "b"));
    drop((first, second));
    within("both locks", both.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_out_of_reach_is_waited_for() {
    let servers = [TestServer::start(), TestServer::start()];
    let builder = || Client::builder().response_timeout(Duration::from_millis(500));
    let first = connect_with(&servers[0], builder()).await;
    let proxy = Proxy::to(servers[1].port()).await;
    let second = within("a client", builder().connect(&proxy.url())).await.unwrap();
    let locks = LockAll::new([second.lock("b"), first.lock("a"), first.lock("c")]).unwrap();
    proxy.set_down(true);
    let error = within("an answer", locks.try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    held(&servers[0], &[]).await;
    let error = within("an answer", locks.acquire_timeout(SHORT)).await.unwrap_err();
    assert!(
        matches!(&error, Error::Timeout { lock, .. } if lock == "b") && error.is_unreachable(),
        "{error}"
    );
    held(&servers[0], &[]).await;
    let waiting = tokio::spawn(locks.acquire());
    eventually("the first lock", || holder(&mut servers[0].connect(), "a")).await;
    // Locks after it are held for no longer than the answer may take.
    within("the last lock", first.lock("c").acquire()).await.unwrap().release().await.unwrap();
    assert!(!waiting.is_finished());
    proxy.set_down(false);
    within("all locks", waiting).await.unwrap().unwrap().release().await.unwrap();
    held(&servers[0], &[]).await;
    held(&servers[1], &[]).await;
}

/// The place in the queue for b is kept, however often the lease of a ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ended_during_the_wait_is_acquired_again() {
    let server = TestServer::start();
    let (_proxy, client, requests) = watched(&server).await;
    let mut raw = server.connect();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE b other 60000");
    // A named owner is refused until the guard of its lost lock is dropped.
    let short = client.lock("a").lease(SHORT).renew(false).owner("me");
    let waiting = tokio::spawn(lock_all([client.lock("b"), short]));
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    held(&server, &["b"]).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE b other");
    let guard = within("the locks", waiting).await.unwrap().unwrap();
    assert!(guard.check().is_ok_and(|left| left < SHORT));
    assert!(!has(&requests, "release b"));
    assert_eq!(requests.lock().unwrap().iter().filter(|request| *request == "ask a").count(), 2);
    assert!(holder(&mut raw, "a").is_some() && holder(&mut raw, "b").is_some());
}

/// Another owner acquires a after its lease has ended: b is released before a is waited for, since others wait in that order.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_another_owner_has_by_then_is_waited_for_in_order() {
    let server = TestServer::start();
    let (_proxy, client, requests) = watched(&server).await;
    let mut raw = server.connect();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE b other 60000");
    let short = client.lock("a").lease(SHORT).renew(false);
    let waiting = tokio::spawn(lock_all([client.lock("b"), short.clone()]));
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    held(&server, &["b"]).await;
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE a third 60000");
    run::<u64>(&mut raw, "RLOCK.RELEASE b other");
    eventually("a wait for a", || (has(&requests, "wait a") && waiters(&server) == 1).then_some(())).await;
    held(&server, &["a"]).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE a third");
    let guard = within("the locks", waiting).await.unwrap().unwrap();
    guard.check().unwrap();
}
