//! A lock on five servers, of which some fail.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rlock_client::{Client, Error, Lost};
use rlock_multi::RedLock;
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{denied, eventually, holder, run, url, within};

use crate::five::{Five, WAYS, Way, hasty};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_on_all_servers_denied_and_released() {
    let five = Five::start().await;
    let (lock, other) = (five.lock(Client::builder, "lock"), five.lock(Client::builder, "lock"));
    let mut owners = HashSet::new();
    for round in 1..=3 {
        let guard = within("the lock", lock.acquire()).await.unwrap();
        let left = guard.check().unwrap();
        assert!(left > Duration::from_secs(20) && left < Duration::from_secs(30), "{left:?}");
        // Servers that answer later than the quorum have it soon after.
        let all = || five.holders(0..5, "lock").into_iter().collect::<Option<Vec<_>>>();
        owners.extend(eventually("the lock everywhere", all).await);
        // Every attempt has owners of its own.
        assert_eq!(owners.len(), round * 5, "{owners:?}");
        assert!(denied(within("a denial", other.try_acquire()).await));
        let limit = Duration::from_millis(100);
        let error = within("a time-out", other.acquire_timeout(limit)).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        let held = guard.held();
        if round == 1 {
            drop(guard)
        } else {
            within("the release", guard.release()).await.unwrap()
        }
        assert!(matches!(held.check(), Err(Error::LockLost { why: Lost::Released, .. })));
        five.all_free(0..5, "lock").await;
    }
    assert_eq!(within("the work", lock.run(async |held| held.check().is_ok())).await, Ok(true));
    five.all_free(0..5, "lock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_of_five_may_fail_in_any_way() {
    let case = async |way| {
        let mut five = Five::start().await;
        let (lock, other) = (five.lock(hasty, "lock"), five.lock(hasty, "lock"));
        for failed in [1, 2] {
            five.fail(failed - 1, way);
            let guard = within("the lock", lock.acquire()).await.unwrap();
            guard.check().unwrap();
            let holders = five.holders(failed..5, "lock").into_iter().flatten().count();
            assert!(holders >= 3, "{way:?} {failed} {holders}");
            let outcome = within("a denial", other.try_acquire()).await;
            assert!(matches!(outcome, Err(Error::Denied { .. })), "{way:?} {failed} {outcome:?}");
            within("the release", guard.release()).await.unwrap();
            five.all_free(failed..5, "lock").await;
            let guard = within("the other's turn", other.acquire()).await.unwrap();
            drop(guard);
            five.all_free(failed..5, "lock").await;
        }
        // A grant on a failed server is released when it is back, if a request reached it at all.
        (0..2).for_each(|server| five.mend(server, way));
        five.all_free(0..5, "lock").await;
    };
    // All ways at once: most of the time is waited.
    join_all(WAYS.map(case)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_or_all_servers_gone_nothing_is_acquired_and_nothing_stays() {
    let case = async |way| {
        let mut five = Five::start().await;
        let lock = five.lock(hasty, "lock");
        within("the lock", lock.acquire()).await.unwrap().release().await.unwrap();
        five.all_free(0..5, "lock").await;
        for failed in [3, 5] {
            (if failed == 3 { 0..3 } else { 3..5 }).for_each(|server| five.fail(server, way));
            let error = within("an answer", lock.try_acquire()).await.unwrap_err();
            assert!(matches!(error, Error::Transport { .. }), "{way:?} {failed} {error}");
            let error =
                within("a time-out", lock.acquire_timeout(Duration::from_millis(500))).await.unwrap_err();
            assert!(matches!(error, Error::Timeout { .. }), "{way:?} {failed} {error}");
            five.all_free(failed..5, "lock").await;
        }
        let waiting = tokio::spawn(lock.acquire());
        (0..5).for_each(|server| five.mend(server, way));
        within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
        five.all_free(0..5, "lock").await;
    };
    join_all(WAYS.map(case)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_renews_it_and_without_one_it_is_lost_in_time() {
    let lease = Duration::from_secs(4);
    let builder = || hasty().lease(lease).response_timeout(Duration::from_millis(600));
    let case = async |way| {
        let mut five = Five::start().await;
        let lock = five.lock(builder, "lock");
        let guard = within("the lock", lock.acquire()).await.unwrap();
        eventually("the lock everywhere", || {
            five.holders(0..5, "lock").iter().all(Option::is_some).then_some(())
        })
        .await;
        (0..2).for_each(|server| five.fail(server, way));
        tokio::time::sleep(lease * 2).await;
        guard.check().unwrap_or_else(|error| panic!("{way:?} {error}"));
        five.fail(2, way);
        // No renewal that was sent later is confirmed: the quorum's end is before its server's.
        let failed = Instant::now();
        if let Ok(left) = guard.check() {
            assert!(Instant::now() + left < failed + lease, "{left:?}");
        }
        let held = guard.held();
        assert_eq!(within("the loss", held.lost()).await, Lost::Unreachable);
        assert!(matches!(guard.check(), Err(Error::LockLost { why: Lost::Unreachable, .. })));
        // It is released where it was left, and stays lost when the servers come back.
        five.all_free(3..5, "lock").await;
        (0..3).for_each(|server| five.mend(server, way));
        let other = five.lock(builder, "lock");
        let others = within("the other's turn", other.acquire()).await.unwrap();
        assert!(guard.check().is_err() && others.check().is_ok());
        assert!(matches!(guard.release().await, Err(Error::LockLost { why: Lost::Unreachable, .. })));
        others.release().await.unwrap();
        five.all_free(0..5, "lock").await;
    };
    join_all(WAYS.map(case)).await;
}

/// All servers fail under a held lock: it is lost before any of them would grant it to another owner, and
/// comes back with none of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_servers_all_fail_is_lost_in_time() {
    let lease = Duration::from_secs(4);
    let builder = || hasty().lease(lease).response_timeout(Duration::from_millis(600));
    let case = async |way| {
        let mut five = Five::start().await;
        let guard = within("the lock", five.lock(builder, "lock").acquire()).await.unwrap();
        eventually("the lock everywhere", || {
            five.holders(0..5, "lock").iter().all(Option::is_some).then_some(())
        })
        .await;
        (0..5).for_each(|server| five.fail(server, way));
        let failed = Instant::now();
        // No renewal that was sent later is confirmed.
        if let Ok(left) = guard.check() {
            assert!(Instant::now() + left < failed + lease, "{way:?}: {left:?}");
        }
        assert_eq!(within("the loss", guard.lost()).await, Lost::Unreachable, "{way:?}");
        assert!(matches!(guard.check(), Err(Error::LockLost { why: Lost::Unreachable, .. })));
        (0..5).for_each(|server| five.mend(server, way));
        let other = five.lock(builder, "lock");
        let others = within("the other's turn", other.acquire()).await.unwrap();
        assert!(guard.check().is_err() && others.check().is_ok(), "{way:?}");
        drop(guard);
        within("the release", others.release()).await.unwrap();
        five.all_free(0..5, "lock").await;
    };
    join_all(WAYS.map(case)).await;
}

/// Tells when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Three of five servers give the lock to others. To the first of them the lock came when three had it already: taken away
/// there before it came, as this test did on busy machines, it stayed, and the lock was held by a quorum for ever.
#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock_that_is_lost_is_dropped() {
    let five = Five::start().await;
    let lock = five.lock(|| hasty().lease(Duration::from_secs(12)), "lock");
    five.proxies[0].once("RLOCK.ACQUIRE", Fate::Slow(500));
    let takers = five.clients(Client::builder);
    let (dropped, ended) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let mut taken = Vec::new();
    let (at_work, ends, servers, by_others) = (Dropped(dropped.clone()), &ended, &five, &mut taken);
    let outcome = lock.run(async move |held| {
        let _at_work = at_work;
        held.check().unwrap();
        let all = || servers.holders(0..5, "lock").iter().all(Option::is_some).then_some(());
        eventually("the lock everywhere", all).await;
        for taker in &takers[..3] {
            assert!(taker.lock("lock").force_release().await.unwrap());
            by_others.push(taker.lock("lock").acquire().await.unwrap());
        }
        std::future::pending::<()>().await;
        ends.store(true, Ordering::SeqCst);
    });
    let outcome = within("the end of the work", outcome).await;
    assert!(matches!(outcome, Err(Error::LockLost { .. })), "{outcome:?}");
    assert!(dropped.load(Ordering::SeqCst) && !ended.load(Ordering::SeqCst));
    for guard in taken {
        guard.release().await.unwrap();
    }
    five.all_free(0..5, "lock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_restart_one_after_the_other_join_again() {
    let mut five = Five::start().await;
    let lock = five.lock(|| hasty().lease(Duration::from_secs(4)), "lock");
    let guard = within("the lock", lock.acquire()).await.unwrap();
    for server in [0, 1, 2, 3] {
        five.fail(server, Way::Killed);
        five.mend(server, Way::Killed);
        eventually("the lock everywhere", || {
            five.holders(0..5, "lock").iter().all(Option::is_some).then_some(())
        })
        .await;
        guard.check().unwrap();
    }
    guard.release().await.unwrap();
    five.all_free(0..5, "lock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_with_lost_or_late_replies_are_released_everywhere() {
    for fate in [Fate::Mute, Fate::CutAfter, Fate::Late(1_700)] {
        let five = Five::start().await;
        let lock = five.lock(hasty, "lock");
        // All links are there.
        within("the lock", lock.acquire()).await.unwrap().release().await.unwrap();
        five.all_free(0..5, "lock").await;
        let met: Vec<_> = five.proxies[..3].iter().map(|proxy| proxy.once("RLOCK.ACQUIRE", fate)).collect();
        let outcome = within("an answer", lock.try_acquire()).await;
        assert!(matches!(outcome, Err(Error::Transport { .. }) | Ok(_)), "{fate:?} {outcome:?}");
        assert!(met.iter().all(|met| met.load(std::sync::atomic::Ordering::SeqCst)));
        drop(outcome);
        if let Fate::Late(_) = fate {
            let late = || five.proxies[..3].iter().all(|proxy| proxy.late() == 1).then_some(());
            eventually("the late requests", late).await;
        }
        five.all_free(0..5, "lock").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_its_own_ends_everywhere() {
    let five = Five::start().await;
    let lock = five.lock(hasty, "lock").lease(Duration::from_secs(2)).renew(false);
    let guard = within("the lock", lock.acquire()).await.unwrap();
    assert!(guard.check().unwrap() < Duration::from_secs(2));
    assert_eq!(within("the end of the lease", guard.lost()).await, Lost::Expired);
    let guard = within("the lock", lock.acquire()).await.unwrap();
    within("the release", guard.release()).await.unwrap();
    five.all_free(0..5, "lock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_red_locks_are_refused() {
    let (server, bare) =
        (TestServer::start(), [(); 2].map(|()| TestServer::builder().without_module().start()));
    let at = |server: &TestServer, host: &str| {
        Client::builder().connect_lazy(&format!("redis://{host}:{}", server.port())).unwrap()
    };
    let none = RedLock::new([], "lock").unwrap_err().to_string();
    assert!(none.contains("at least one server") && none.contains("five"), "{none}");
    let twice = RedLock::new(&[at(&server, "127.0.0.1"), at(&server, "127.0.0.1")], "lock").unwrap_err();
    assert!(twice.to_string().contains(&server.port().to_string()), "{twice}");
    // Two of three servers will never do.
    let clients = [at(&server, "127.0.0.1"), at(&bare[0], "127.0.0.1"), at(&bare[1], "localhost")];
    let lock = RedLock::new(&clients, "lock").unwrap();
    assert_eq!((lock.quorum(), lock.name()), (2, &b"lock"[..]));
    let error = within("an answer", lock.try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::ModuleMissing { .. }), "{error}");
    let error = within("an answer", lock.acquire()).await.unwrap_err();
    assert!(matches!(error, Error::ModuleMissing { .. }), "{error}");
    let [client, ..] = clients;
    client.close(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_by_two_addresses_is_refused() {
    let servers = [(); 2].map(|()| TestServer::start());
    let proxy = Proxy::to(servers[0].port()).await;
    let urls = [url(&servers[0]), url(&servers[1]), proxy.url()];
    let clients = urls.map(|url| Client::builder().connect_lazy(&url).unwrap());
    let lock = RedLock::new(&clients, "lock").unwrap();
    // At the first attempt already, and however it is asked for.
    for outcome in
        [lock.try_acquire().await.map(|_| ()), lock.acquire().await.map(|_| ()), lock.run(async |_| ()).await]
    {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        for url in [url(&servers[0]), proxy.url()] {
            assert!(error.to_string().contains(url.trim_start_matches("redis://")), "{error}");
        }
    }
    for server in &servers {
        assert_eq!(holder(&mut server.connect(), "lock"), None);
    }
    // A server that does not report its identity passes.
    run::<()>(&mut servers[0].connect(), "ACL SETUSER shy on nopass ~* &* +@all -info");
    let shy = |url: String| url.replace("redis://", "redis://shy:any@");
    let urls = [shy(url(&servers[0])), url(&servers[1]), shy(proxy.url())];
    let clients = urls.map(|url| Client::builder().connect_lazy(&url).unwrap());
    let guard = RedLock::new(&clients, "lock").unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();
}
