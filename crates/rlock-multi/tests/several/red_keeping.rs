//! How a red lock is kept: servers that are got back, receivers of events that ask about it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rlock_client::{Client, Event, Lost};
use rlock_multi::{RedGuard, RedHeld, RedLock};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect, connect_with, counter, eventually, holder, run, within};

/// A red lock called receivers while it was locked itself: one that asked about it waited for ever, as did all callers.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_may_check_a_red_lock() {
    let servers = [TestServer::start(), TestServer::start(), TestServer::start()];
    let (shown, looked) = (Arc::new(Mutex::new(None::<RedHeld>)), Arc::new(Mutex::new(Vec::new())));
    let mut clients = Vec::new();
    for server in &servers {
        let (shown, looked) = (shown.clone(), looked.clone());
        let look = move |event: &Event<'_>| {
            let held = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let (Some(held), Event::Released { .. } | Event::Lost { .. }) = (held, event) {
                // The answer first: the question may notice the loss, and then this is called by itself.
                let answer = held.check().is_ok();
                looked.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
            }
        };
        let builder = Client::builder().lease(Duration::from_secs(1)).on_event(look);
        clients.push(connect_with(server, builder).await);
    }
    let lock = RedLock::new(&clients, "red").unwrap();
    let show = |guard: &RedGuard| {
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard.held());
    };
    let guard = within("the lock", lock.clone().lease(Duration::from_millis(300)).renew(false).acquire())
        .await
        .unwrap();
    show(&guard);
    // Asked all the time, so that it is the question that notices the loss.
    eventually("the loss", || guard.check().is_err().then_some(())).await;
    drop(guard);
    let guard = within("the lock", lock.acquire()).await.unwrap();
    show(&guard);
    for server in &servers {
        run::<()>(&mut server.connect(), "DEL red");
    }
    assert_eq!(within("the loss", guard.lost()).await, Lost::Taken);
    drop(guard);
    eventually("answers", || {
        let looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
        (looked.len() >= 4 && looked.iter().any(|held| !held)).then_some(())
    })
    .await;
}

/// `release` returns at a quorum. The server with a release still under way denied the next lock, and was asked again after up to
/// five twelfths of the lease: until then the lock had no spare server.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_denied_is_asked_again_soon() {
    let servers = [TestServer::start(), TestServer::start(), TestServer::start()];
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(connect(server).await);
    }
    let lock = RedLock::new(&clients, "lock").unwrap();
    let mut raw = servers[0].connect();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 100");
    let guard = within("the lock", lock.acquire()).await.unwrap();
    let began = std::time::Instant::now();
    eventually("a spare server", || holder(&mut raw, "lock").filter(|(owner, _)| owner != "other")).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    guard.release().await.unwrap();
    // The load is bounded where another owner keeps that server: at last one request in a third of the lease.
    eventually("a free lock", || holder(&mut raw, "lock").is_none().then_some(())).await;
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let before = counter(&servers[0], "denied");
    let guard = within("the lock", lock.lease(Duration::from_secs(3)).acquire()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = counter(&servers[0], "denied") - before;
    assert!((4..=12).contains(&asked), "{asked}");
    guard.release().await.unwrap();
}
