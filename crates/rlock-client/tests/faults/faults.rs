//! Requests and replies that are lost, late or cut off, at every step of acquire, renew and release.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rlock_client::{Builder, Client, Error, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{SOON, counter, eventually, holder, outage, run, waiters, within};
use tokio::task::JoinSet;

/// Long after the client has given the connection up and asked again, in ms.
const LATE: u64 = 1_500;

/// All that can go wrong with one request.
pub(crate) const FATES: [Fate; 6] =
    [Fate::Swallow, Fate::CutBefore, Fate::CutAfter, Fate::Mute, Fate::Late(LATE), Fate::Pass];

/// Those after which a request is not answered within the response timeout.
const SILENT: [Fate; 3] = [Fate::Swallow, Fate::Mute, Fate::Late(LATE)];

/// Gives up a connection soon, so that tests are quick, and not so soon that a busy machine looks like a fault.
pub(crate) fn hasty() -> Builder {
    Client::builder().response_timeout(Duration::from_millis(500))
}

async fn through(server: &TestServer, builder: Builder) -> (Proxy, Client) {
    let proxy = Proxy::to(server.port()).await;
    let client = connect(&proxy.url(), builder).await;
    (proxy, client)
}

pub(crate) async fn connect(url: &str, builder: Builder) -> Client {
    within("a client to connect", builder.connect(url)).await.unwrap()
}

/// The server has had what came late.
async fn late_requests(proxy: &Proxy, fate: Fate) {
    if matches!(fate, Fate::Late(_)) {
        eventually("the late request", || (proxy.late() == 1).then_some(())).await;
    }
}

/// The lock is free, and the queue is empty.
pub(crate) async fn all_free(server: &TestServer, lock: &str) {
    let mut raw = server.connect();
    eventually("a free lock", || holder(&mut raw, lock).is_none().then_some(())).await;
    eventually("an empty queue", || (waiters(server) == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_survives_whatever_happens_to_its_request() {
    let server = TestServer::start();
    let mut raw = server.connect();
    for fate in FATES {
        for waits in [false, true] {
            let (proxy, client) = through(&server, hasty()).await;
            proxy.once("RLOCK.ACQUIRE", fate);
            let lock = client.lock("lock");
            let guard = if waits {
                within("the lock", lock.acquire()).await.unwrap()
            } else if SILENT.contains(&fate) {
                // There is no time for another request.
                let error = within("an answer", lock.try_acquire()).await.unwrap_err();
                assert!(error.is_unreachable(), "{fate:?}: {error}");
                late_requests(&proxy, fate).await;
                all_free(&server, "lock").await;
                continue;
            } else {
                within("the lock", lock.try_acquire()).await.expect("a free lock")
            };
            guard.check().unwrap();
            let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
            // What comes late finds the owner there and adds nothing.
            late_requests(&proxy, fate).await;
            assert_eq!(holder(&mut raw, "lock"), Some((owner, 1)), "{fate:?}");
            guard.release().await.unwrap();
            assert_eq!(holder(&mut raw, "lock"), None, "{fate:?}");
            client.close(SOON).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_everything_is_over_leaves_no_lock() {
    let server = TestServer::start();
    let (proxy, client) = through(&server, hasty()).await;
    let sent = proxy.once("RLOCK.ACQUIRE", Fate::Late(LATE));
    // Given up long before the request arrives …
    let lock = client.lock("lock");
    let trying = tokio::spawn(async move { lock.try_acquire().await });
    eventually("the request", || sent.load(Ordering::SeqCst).then_some(())).await;
    trying.abort();
    assert!(trying.await.unwrap_err().is_cancelled());
    late_requests(&proxy, Fate::Late(LATE)).await;
    assert_eq!(counter(&server, "acquired"), 1);
    // … and its lock comes back long before the lease of 30 s ends.
    all_free(&server, "lock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_says_what_is_known_of_it() {
    let server = TestServer::start();
    let mut raw = server.connect();
    for fate in FATES {
        let (proxy, client) = through(&server, hasty()).await;
        let guard = client.lock("lock").acquire().await.unwrap();
        proxy.once("RLOCK.RELEASE", fate);
        let outcome = within("the outcome", guard.release()).await;
        match fate {
            // The first one never arrived: the repeat released.
            Fate::Pass | Fate::CutBefore | Fate::Slow(_) => assert_eq!(outcome, Ok(()), "{fate:?}"),
            // The first one released, and the repeat cannot know; or the answer did not come in time.
            Fate::CutAfter | Fate::Swallow | Fate::Mute | Fate::Late(_) => {
                assert!(matches!(outcome, Err(Error::OutcomeUnknown { .. })), "{fate:?}: {outcome:?}");
            }
        }
        // The release continues in the background.
        eventually("a free lock", || holder(&mut raw, "lock").is_none().then_some(())).await;
    }
    // A guard that is dropped needs no outcome.
    for fate in FATES {
        let (proxy, client) = through(&server, hasty()).await;
        let guard = client.lock("lock").acquire().await.unwrap();
        proxy.once("RLOCK.RELEASE", fate);
        drop(guard);
        all_free(&server, "lock").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_renewal_does_not_lose_the_lock() {
    let server = Arc::new(TestServer::start());
    let mut tasks = JoinSet::new();
    // At the same time, since renewals take theirs.
    for fate in FATES {
        let server = server.clone();
        tasks.spawn(async move {
            let lock = format!("{fate:?}");
            let (proxy, client) = through(&server, hasty().lease(Duration::from_secs(4))).await;
            let guard = client.lock(&lock).acquire().await.unwrap();
            let renewals = Arc::new(AtomicUsize::new(0));
            let seen = renewals.clone();
            proxy.rule(move |words| {
                let first = words[0] == "RLOCK.RENEW" && seen.fetch_add(1, Ordering::SeqCst) == 0;
                if first { fate } else { Fate::Pass }
            });
            eventually("more renewals", || (renewals.load(Ordering::SeqCst) >= 4).then_some(())).await;
            guard.check().unwrap_or_else(|error| panic!("{fate:?}: {error}"));
            guard.release().await.unwrap();
            all_free(&server, &lock).await;
        });
    }
    while tasks.join_next().await.transpose().unwrap().is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_survives_whatever_happens_to_its_requests() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    // A release is answered on the connection on which it was sent.
    let released =
        |fate, outcome: Result<(), Error>| outcome.unwrap_or_else(|error| panic!("{fate:?}: {error:?}"));
    a_waiter_survives(&server, &proxy, &proxy.url(), "SUBSCRIBE", released).await;
}

/// Waits for a lock while its requests meet every fate; `released` judges each release.
pub(crate) async fn a_waiter_survives(
    server: &TestServer,
    proxy: &Proxy,
    url: &str,
    subscribe: &str,
    released: impl Fn(Fate, Result<(), Error>),
) {
    let mut raw = server.connect();
    for command in [subscribe, "RLOCK.ACQUIRE", "RLOCK.RENEW"] {
        for fate in FATES {
            let client = connect(url, hasty()).await;
            run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
            proxy.once(command, fate);
            let lock = client.lock("lock");
            let waiting = tokio::spawn(async move { lock.acquire().await });
            eventually("a waiter", || (waiters(server) == 1).then_some(())).await;
            run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
            let guard = within("the lock", waiting).await.unwrap().unwrap();
            guard.check().unwrap();
            if command == "RLOCK.RENEW" {
                // It confirms what the message gave, and is sent only if the lock is held for a while.
                let whole = Duration::from_secs(6);
                eventually("the confirmation", || (guard.check().unwrap() > whole).then_some(())).await;
            }
            assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner(), "{command} {fate:?}");
            released(fate, guard.release().await);
            all_free(server, "lock").await;
            client.close(SOON).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_leaves_the_queue_whatever_happens() {
    let server = TestServer::start();
    let mut raw = server.connect();
    for command in ["RLOCK.CANCEL", "RLOCK.RELEASE", "RLOCK.ACQUIRE"] {
        for fate in FATES {
            let (proxy, client) = through(&server, hasty()).await;
            run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
            let met = proxy.once(command, fate);
            let met = || met.load(Ordering::SeqCst).then_some(());
            let lock = client.lock("lock");
            let waiting = tokio::spawn(async move { lock.acquire().await });
            if command == "RLOCK.ACQUIRE" {
                eventually("the request", met).await;
            } else {
                eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
            }
            waiting.abort();
            eventually("the request", met).await;
            late_requests(&proxy, fate).await;
            eventually("an empty queue", || (waiters(&server) == 0).then_some(())).await;
            run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
            all_free(&server, "lock").await;
            client.close(SOON).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_keep_their_places_when_the_connection_is_cut() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let connected = || server.info("clients").get("connected_clients").cloned();
    let without = connected();
    let (proxy, client) = through(&server, Client::builder()).await;
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let (order, mut got) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (lock, order) = (client.lock("lock"), order.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.send(number).unwrap();
            guard.release().await.unwrap();
        });
        eventually("a waiter", || (waiters(&server) == number + 1).then_some(())).await;
        if number % 5 == 4 {
            proxy.cut();
        }
    }
    // The server has a repeat of each before the lock is free: a waiter without one loses its place. A request that passed before the last
    // cut, or has not arrived yet, counted once, and the release came first.
    proxy.set_down(true);
    eventually("the ends of the connections", || (connected() == without).then_some(())).await;
    let calls = || {
        let acquire = server.info("commandstats").get("cmdstat_rlock.acquire").cloned().unwrap_or_default();
        acquire.split([',', '=']).nth(1).and_then(|calls| calls.parse::<u64>().ok()).unwrap_or_default()
    };
    let before = calls();
    proxy.set_down(false);
    eventually("repeats", || (calls() >= before + 20).then_some(())).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
    for number in 0..20 {
        assert_eq!(within("a turn", got.recv()).await, Some(number));
    }
    assert_eq!(proxy.most_connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_and_holders_recover_from_an_outage() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    recover_from_an_outage(&server, &proxy, &proxy.url()).await;
}

/// A waiter and a holder outlive an outage of the proxy.
pub(crate) async fn recover_from_an_outage(server: &TestServer, proxy: &Proxy, url: &str) {
    let mut raw = server.connect();
    let (outage, lease) = outage();
    let client = connect(url, Client::builder().lease(lease)).await;
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let held = client.lock("held").acquire().await.unwrap();
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(server) == 1).then_some(())).await;
    proxy.set_down(true);
    let dropped = client.lock("dropped").acquire_timeout(Duration::from_millis(50)).await;
    assert!(matches!(dropped, Err(Error::Timeout { .. })), "{dropped:?}");
    // Longer than the pause between attempts to connect ever gets; drivers retry on their own for 15 seconds at most.
    tokio::time::sleep(outage).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
    held.check().unwrap();
    proxy.set_down(false);
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    eventually("the renewal", || (held.state() == State::Held).then_some(())).await;
    held.release().await.unwrap();
    guard.release().await.unwrap();
    all_free(server, "held").await;
}
