//! Several locks together, against real servers: order, loss, release, settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rlock_client::{Client, Error, Lock, Lost, Plain};
use rlock_multi::{LockAll, lock_all};
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{connect, connect_with, eventually, holder, run, waiters, within};

/// A lock of these names, in this order.
fn all(client: &Client, names: &[&str]) -> LockAll {
    LockAll::new(names.iter().map(|name| client.lock(name))).unwrap()
}

/// These locks are free, and the queue is empty.
async fn all_free(server: &TestServer, locks: &[&str]) {
    let mut raw = server.connect();
    for lock in locks {
        eventually("a free lock", || holder(&mut raw, lock).is_none().then_some(())).await;
    }
    eventually("an empty queue", || (waiters(server) == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_that_are_free_are_taken_in_one_round_trip() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    let client = within("a client", Client::connect(&proxy.url())).await.unwrap();
    let names = ["e", "d", "c", "b", "a", "c"];
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    proxy.rule(move |words| {
        if words[0] == "RLOCK.ACQUIRE" {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Pass
    });
    // All requests are sent while nothing can be answered …
    server.signal(libc::SIGSTOP);
    let locks = all(&client, &names);
    let locking = tokio::spawn(locks.acquire());
    eventually("five requests", || (asked.load(Ordering::SeqCst) == 5).then_some(())).await;
    server.signal(libc::SIGCONT);
    let guard = within("the locks", locking).await.unwrap().unwrap();
    // … and no others are needed.
    assert_eq!(asked.load(Ordering::SeqCst), 5);
    let mut raw = server.connect();
    for held in guard.locks() {
        let name = std::str::from_utf8(held.name()).unwrap();
        assert_eq!(holder(&mut raw, name).unwrap().0.as_bytes(), held.owner());
    }
    assert_eq!(guard.locks().iter().map(|held| held.name()[0]).collect::<Vec<_>>(), b"abcde");
    assert!(guard.check().unwrap() > Duration::from_secs(20));
    guard.release().await.unwrap();
    assert_eq!(run::<Vec<String>>(&mut raw, "KEYS *"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_lost_is_a_loss_of_all() {
    let servers = [TestServer::start(), TestServer::start()];
    let builder = || Client::builder().lease(Duration::from_secs(3));
    let clients = [connect_with(&servers[0], builder()).await, connect_with(&servers[1], builder()).await];
    let locks = LockAll::new(clients.iter().map(|client| client.lock("lock"))).unwrap();
    let guard = within("the locks", locks.acquire()).await.unwrap();
    let held = guard.held();
    assert_eq!(held.locks().len(), 2);
    assert!(clients[1].lock("lock").force_release().await.unwrap());
    assert_eq!(within("the loss", held.lost()).await, Lost::Taken);
    let lost = held.locks().iter().find(|held| held.check().is_err()).expect("the one that was lost");
    assert!(lost.owner().starts_with(clients[1].identity().as_bytes()));
    assert!(matches!(guard.check(), Err(Error::LockLost { why: Lost::Taken, .. })));
    // The other one is held until the guard is gone.
    assert!(clients[0].lock("lock").locked().await.unwrap());
    assert!(matches!(guard.release().await, Err(Error::LockLost { why: Lost::Taken, .. })));
    all_free(&servers[0], &["lock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_locks_of_which_one_is_lost_is_dropped() {
    let servers = [TestServer::start(), TestServer::start()];
    let builder = || Client::builder().lease(Duration::from_secs(3));
    let clients = [connect_with(&servers[0], builder()).await, connect_with(&servers[1], builder()).await];
    let locks = LockAll::new(clients.iter().map(|client| client.lock("lock"))).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let (end, taker) = (ended.clone(), clients[0].lock("lock"));
    let outcome = locks.run(|_| async move {
        taker.force_release().await.unwrap();
        std::future::pending::<()>().await;
        end.store(true, Ordering::SeqCst);
    });
    let outcome = within("the end of the work", outcome).await;
    assert!(matches!(outcome, Err(Error::LockLost { why: Lost::Taken, .. })), "{outcome:?}");
    assert!(!ended.load(Ordering::SeqCst));
    for server in &servers {
        all_free(server, &["lock"]).await;
    }
    assert_eq!(within("the work", locks.run(async |held| held.check().is_ok())).await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_those_of_the_locks() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let short = client.lock("b").lease(Duration::from_secs(1)).renew(false);
    let locks = LockAll::new([client.lock("a"), short.clone(), short]).unwrap();
    assert_eq!(locks.names().count(), 2);
    let guard = within("the locks", locks.acquire()).await.unwrap();
    assert!(guard.check().unwrap() < Duration::from_secs(1));
    assert_eq!(within("the end of the lease", guard.lost()).await, Lost::Expired);
    assert_eq!(guard.check(), Err(Error::LockLost { lock: "b".into(), why: Lost::Expired }));
    drop(guard);
    all_free(&server, &["a", "b"]).await;
    // The future of `run` borrows nothing: it can be spawned.
    let work = LockAll::new([client.lock("a")]).unwrap().run(|held| async move { held.check().is_ok() });
    assert_eq!(within("the work", tokio::spawn(work)).await.unwrap(), Ok(true));
    let fenced =
        LockAll::new([client.lock("f").fenced(), client.lock("p"), client.lock("f").fenced()]).unwrap();
    let guard = within("the locks", fenced.acquire()).await.unwrap();
    assert_eq!(guard.locks().iter().map(|held| held.token().is_some()).collect::<Vec<_>>(), [true, false]);
    guard.release().await.unwrap();
    // The shortest limit of the locks counts unless there is another.
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE a other 60000");
    let limited = [client.lock("a").wait(Duration::from_millis(50)), client.lock("b")];
    assert!(matches!(within("a time-out", lock_all(limited.clone())).await, Err(Error::Timeout { .. })));
    let waiting = tokio::spawn(LockAll::new(limited).unwrap().wait(Duration::from_secs(60)).acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE a other");
    within("the locks", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// The first of each pair was taken: a reader for a writer, a lock without a token for a fenced one.
#[tokio::test]
async fn one_name_in_two_ways_is_refused() {
    let server = TestServer::start();
    let client = connect(&server).await;
    assert!(
        matches!(LockAll::new::<Plain>([]), Err(Error::Invalid { message }) if message.contains("at least one"))
    );
    let pages = client.read_write_lock("pages");
    for two_ways in [
        [pages.read().any(), pages.write().any()],
        [pages.write().any(), client.lock("pages").any()],
        [client.lock("pages"), client.lock("pages").fenced()].map(Lock::any),
        [client.lock("pages").fenced(), client.lock("pages")].map(Lock::any),
        [client.lock("pages"), client.lock("pages").fair()].map(Lock::any),
        [client.lock("pages").fair().fenced(), client.lock("pages").fenced()].map(Lock::any),
        [pages.write(), pages.write().fenced()].map(Lock::any),
        [client.semaphore("pages", 2), client.semaphore("pages", 3)].map(Lock::any),
    ] {
        let error = LockAll::new(two_ways).unwrap_err();
        assert!(matches!(&error, Error::Invalid { message } if message.contains("pages")), "{error}");
    }
}
