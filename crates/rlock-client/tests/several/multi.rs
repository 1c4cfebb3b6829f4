//! Several locks at once, against real servers: order, waiting, loss, release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rlock_client::{Client, Error, Lock, Lost, MultiLock, Plain};
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{
    connect, connect_with, counter, denied, eventually, holder, run, waiters, within,
};
use tokio::task::JoinSet;

/// A lock of these names, in this order.
fn multi(client: &Client, names: &[&str]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| client.lock(name))).unwrap()
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
    let locks = multi(&client, &names);
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
async fn all_or_nothing_and_what_comes_later_is_not_held_while_waiting() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let locks = multi(&client, &["c", "b", "a"]);
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE b other 60000");
    assert!(denied(locks.try_acquire().await));
    eventually("nothing else", || (run::<Vec<String>>(&mut raw, "KEYS *") == ["b"]).then_some(())).await;
    let limit = Duration::from_millis(200);
    let error = within("a time-out", locks.acquire_timeout(limit)).await.unwrap_err();
    let Error::Timeout { lock, waited, .. } = error else { panic!("{error}") };
    assert!(lock == "b" && waited >= limit, "{lock} {waited:?}");
    eventually("nothing else", || (run::<Vec<String>>(&mut raw, "KEYS *") == ["b"]).then_some(())).await;
    let waiting = tokio::spawn(locks.acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    // The locks before it are held, those after it are not.
    eventually("c is free", || holder(&mut raw, "c").is_none().then_some(())).await;
    assert!(holder(&mut raw, "a").is_some());
    run::<u64>(&mut raw, "RLOCK.RELEASE b other");
    let guard = within("the locks", waiting).await.unwrap().unwrap();
    guard.check().unwrap();
    assert_eq!(run::<Vec<String>>(&mut raw, "KEYS *").len(), 3);
    drop(guard);
    all_free(&server, &["a", "b", "c"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opposite_orders_never_deadlock_and_never_hold_both() {
    let server = TestServer::start();
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    let orders: [&[&str]; 6] =
        [&["a", "b"], &["b", "a"], &["b", "c", "a"], &["c", "a"], &["c", "b"], &["a", "c", "b"]];
    let busy = Arc::new([const { AtomicBool::new(false) }; 3]);
    let mut tasks = JoinSet::new();
    for (number, order) in orders.into_iter().enumerate() {
        let locks = multi(&clients[number % 3], order);
        let busy = busy.clone();
        tasks.spawn(async move {
            for round in 0..40 {
                let guard = locks.acquire().await.unwrap();
                let flags = || order.iter().map(|name| &busy[usize::from(name.as_bytes()[0] - b'a')]);
                assert!(flags().all(|flag| !flag.swap(true, Ordering::SeqCst)), "{order:?}");
                tokio::task::yield_now().await;
                guard.check().unwrap();
                flags().for_each(|flag| flag.store(false, Ordering::SeqCst));
                if round % 2 == 0 { drop(guard) } else { guard.release().await.unwrap() }
            }
        });
    }
    let work = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    // Each deadlock would last until the bound of a wait, 4 seconds.
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("no deadlock");
    all_free(&server, &["a", "b", "c"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_keeps_to_no_order_does_not_block_it_for_ever() {
    let server = TestServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let second = other.lock("b").acquire().await.unwrap();
    let locks = multi(&client, &["a", "b"]);
    let waiting = tokio::spawn(locks.acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    // Now both have what the other wants, until the bound of the wait.
    let first = within("the other lock", other.lock("a").acquire()).await.unwrap();
    assert!(!waiting.is_finished());
    drop((first, second));
    within("both locks", waiting).await.unwrap().unwrap().release().await.unwrap();
    all_free(&server, &["a", "b"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_lost_is_a_loss_of_all() {
    let servers = [TestServer::start(), TestServer::start()];
    let builder = || Client::builder().lease(Duration::from_secs(3));
    let clients = [connect_with(&servers[0], builder()).await, connect_with(&servers[1], builder()).await];
    let locks = MultiLock::new(clients.iter().map(|client| client.lock("lock"))).unwrap();
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
    // The same for work that is run under them.
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
async fn a_server_that_is_out_of_reach_is_waited_for_and_holds_nothing_up_for_long() {
    let servers = [TestServer::start(), TestServer::start()];
    let builder = || Client::builder().response_timeout(Duration::from_millis(500));
    let first = connect_with(&servers[0], builder()).await;
    let proxy = Proxy::to(servers[1].port()).await;
    let second = within("a client", builder().connect(&proxy.url())).await.unwrap();
    let locks = MultiLock::new([second.lock("b"), first.lock("a")]).unwrap();
    proxy.set_down(true);
    let error = within("an answer", locks.try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    all_free(&servers[0], &["a"]).await;
    let began = Instant::now();
    let error = within("an answer", locks.acquire_timeout(Duration::from_millis(300))).await.unwrap_err();
    assert!(matches!(&error, Error::Timeout { lock, .. } if lock == "b"), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(300));
    all_free(&servers[0], &["a"]).await;
    let waiting = tokio::spawn(locks.acquire());
    let mut raw = servers[0].connect();
    eventually("the first lock", || holder(&mut raw, "a")).await;
    // Another client waits for it no longer than the bound.
    let other = within("the other's turn", first.lock("a").acquire()).await.unwrap();
    assert!(!waiting.is_finished());
    drop(other);
    proxy.set_down(false);
    within("both locks", waiting).await.unwrap().unwrap().release().await.unwrap();
    all_free(&servers[0], &["a"]).await;
    all_free(&servers[1], &["b"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "to be split: several settings in one test")]
async fn settings_are_those_of_the_locks() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    assert!(matches!(MultiLock::new::<Plain>([]), Err(Error::Invalid { .. })));
    let short = client.lock("b").lease(Duration::from_secs(1)).renew(false);
    let locks = MultiLock::new([client.lock("a"), short.clone(), short]).unwrap();
    assert_eq!(locks.names().count(), 2);
    let guard = within("the locks", locks.acquire()).await.unwrap();
    assert!(guard.check().unwrap() < Duration::from_secs(1));
    assert_eq!(within("the end of the lease", guard.lost()).await, Lost::Expired);
    assert_eq!(guard.check(), Err(Error::LockLost { lock: "b".into(), why: Lost::Expired }));
    drop(guard);
    all_free(&server, &["a", "b"]).await;
    // The future of `run` borrows nothing: it can be spawned.
    let work = MultiLock::new([client.lock("a")]).unwrap().run(|held| async move { held.check().is_ok() });
    assert_eq!(within("the work", tokio::spawn(work)).await.unwrap(), Ok(true));
    // The first of each pair was taken: a reader for a writer, a lock without a token for a fenced one.
    let pages = client.read_write_lock("pages");
    for two_ways in [
        [pages.read().any(), pages.write().any()],
        [pages.write().any(), client.lock("pages").any()],
        [client.lock("pages"), client.lock("pages").fenced()].map(Lock::any),
        [client.lock("pages").fenced(), client.lock("pages")].map(Lock::any),
        [client.lock("pages"), client.lock("pages").fair()].map(Lock::any),
        [client.lock("pages").fair().fenced(), client.lock("pages").fenced()].map(Lock::any),
        [pages.write(), pages.write().fenced()].map(Lock::any),
    ] {
        let error = MultiLock::new(two_ways).unwrap_err();
        assert!(matches!(&error, Error::Invalid { message } if message.contains("pages")), "{error}");
    }
    let fenced =
        MultiLock::new([client.lock("f").fenced(), client.lock("p"), client.lock("f").fenced()]).unwrap();
    let guard = within("the locks", fenced.acquire()).await.unwrap();
    assert_eq!(guard.locks().iter().map(|held| held.token().is_some()).collect::<Vec<_>>(), [true, false]);
    guard.release().await.unwrap();
    // The shortest limit of the locks counts unless there is another.
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE a other 60000");
    let limit = Duration::from_millis(50);
    let locks = MultiLock::new([client.lock("a").wait(limit), client.lock("b")]).unwrap();
    assert!(matches!(within("a time-out", locks.acquire()).await, Err(Error::Timeout { .. })));
    let waiting = tokio::spawn(locks.wait(Duration::from_secs(60)).acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    tokio::time::sleep(limit * 2).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE a other");
    within("the locks", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// The bound of a round doubles each time, and a round is as short as a lease that is not renewed: after some sixty the
/// bound was longer than a time can be, and the wait ended in a panic.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_very_many_rounds_continues() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE b other 60000");
    let lease = Duration::from_millis(100);
    let locks = MultiLock::new(["a", "b"].map(|name| client.lock(name).lease(lease).renew(false))).unwrap();
    let rounds = || counter(&server, "released");
    let waiting = tokio::spawn(locks.acquire());
    within("a hundred rounds", async {
        while rounds() < 100 && !waiting.is_finished() {
            tokio::time::sleep(lease).await;
        }
    })
    .await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    waiting.abort();
    run::<u64>(&mut raw, "RLOCK.RELEASE b other");
    all_free(&server, &["a", "b"]).await;
}
