//! Ends of waits and renewals, and their events.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::server::{Mood, VirtualServer};
use super::{SECOND, client, client_with};
use crate::config::Config;
use crate::events::Hook;
use crate::{Error, Event, Guard, Lock};

/// A wait for the turn of a named owner continued after the client was closed, until the server answered.
#[tokio::test(start_paused = true)]
async fn a_close_ends_the_wait_for_a_turn() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.occupy("lock", 3600 * SECOND);
    let lock = client.lock("lock").owner("job");
    let waiting = [tokio::spawn(lock.acquire()), tokio::spawn(lock.acquire())];
    sleep(SECOND).await;
    server.set(Mood::Silent);
    let begin = Instant::now();
    client.close(Duration::ZERO).await.unwrap();
    for waiting in waiting {
        assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    }
    assert!(begin.elapsed() < SECOND / 10, "{:?}", begin.elapsed());
}

/// A receiver that released the lock because a renewal had failed waited for that renewal to end.
#[tokio::test(start_paused = true)]
async fn a_receiver_may_release_the_lock_whose_renewal_failed() {
    let server = VirtualServer::start();
    let guards = Arc::new(Mutex::new(None::<Guard>));
    let shown = guards.clone();
    let hook = Hook(Some(Arc::new(move |event: &Event<'_>| {
        if let Event::RenewalFailed { .. } = event {
            drop(shown.lock().unwrap().take());
        }
    })));
    let client = client_with(&server, Config { events: hook, ..Config::default() });
    *guards.lock().unwrap() = Some(client.lock("lock").acquire().await.unwrap());
    server.set(Mood::Silent);
    sleep(20 * SECOND).await;
    assert!(guards.lock().unwrap().is_none(), "no renewal failed");
    server.set(Mood::Answers(Duration::ZERO));
    sleep(2 * SECOND).await;
    assert_eq!(server.holder("lock"), None);
}

/// Two copies of a machine that continued from one snapshot had the same owners, and released each other's grants.
#[tokio::test(start_paused = true)]
async fn owners_are_not_made_of_what_a_snapshot_copies() {
    let server = VirtualServer::start();
    let client = client(&server);
    let mut fresh = HashSet::new();
    for _ in 0..100 {
        let guard = client.lock("lock").acquire().await.unwrap();
        let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
        let (random, _) = owner.strip_prefix(client.identity()).unwrap().split_once(':').unwrap();
        fresh.insert(u64::from_str_radix(random, 16).unwrap());
        guard.release().await.unwrap();
    }
    assert_eq!(fresh.len(), 100);
}

/// The server grants the repeat of a request whose acquisition has ended: no caller would release that.
#[tokio::test(start_paused = true)]
async fn a_grant_for_an_acquisition_that_has_ended_is_released() {
    let server = VirtualServer::start();
    let client = client(&server);
    client.lock("lock").acquire().await.unwrap().release().await.unwrap();
    let released = server.times("RLOCK.RELEASE").len();
    server.say("granted 0 another:7 lock 1 5000 0");
    sleep(SECOND).await;
    assert_eq!(server.times("RLOCK.RELEASE").len(), released, "a grant of another client was released");
    server.say(&format!("granted 0 {}0123456789abcdef:7 lock 1 5000 0", client.identity()));
    sleep(SECOND).await;
    assert_eq!(server.times("RLOCK.RELEASE").len(), released + 1);
}

/// The view of a hold that was released kept its turn alive: a `try` beside another acquisition of that owner waited for it.
#[tokio::test(start_paused = true)]
async fn a_view_of_a_released_hold_does_not_delay_a_try() {
    let server = VirtualServer::start();
    let lock = client(&server).lock("lock").owner("me");
    let guard = lock.acquire().await.unwrap();
    let _view = guard.held();
    guard.release().await.unwrap();
    server.occupy("lock", 3600 * SECOND);
    let _waiting = tokio::spawn(lock.acquire());
    sleep(SECOND).await;
    let begin = Instant::now();
    assert!(matches!(lock.try_acquire().await, Err(Error::Denied { .. })));
    assert!(begin.elapsed() < SECOND / 10, "{:?}", begin.elapsed());
}

/// A `try` during a release waited for its end, and after it for another acquisition of that owner.
#[tokio::test(start_paused = true)]
async fn a_try_during_a_release_waits_for_no_other_acquisition() {
    let server = VirtualServer::start();
    let lock = client(&server).lock("lock").owner("me");
    let guard = lock.acquire().await.unwrap();
    server.set(Mood::Answers(SECOND));
    let release = tokio::spawn(guard.release());
    sleep(SECOND / 10).await;
    server.occupy("lock", 3600 * SECOND);
    let _waiting = tokio::spawn(lock.acquire());
    sleep(SECOND / 10).await;
    let begin = Instant::now();
    assert!(matches!(lock.try_acquire().await, Err(Error::Denied { .. })));
    assert!(begin.elapsed() < SECOND, "{:?}", begin.elapsed());
    release.await.unwrap().unwrap();
}

/// In a cluster messages have a connection of their own: a late one ended what its release had kept.
#[tokio::test(start_paused = true)]
async fn a_late_message_does_not_end_what_is_kept() {
    let server = VirtualServer::start();
    let client = client(&server);
    let guard = client.lock("lock").at_least(60 * SECOND).acquire().await.unwrap();
    let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
    guard.release().await.unwrap();
    server.say(&format!("granted 0 {owner} lock 1 5000 0"));
    sleep(SECOND).await;
    assert!(server.times("RLOCK.RELEASE").is_empty() && server.holder("lock").is_some());
}

/// A lock with a renewal that stayed unanswered.
async fn with_a_stray(server: &VirtualServer, lock: Lock) -> Guard {
    let guard = lock.lease(3 * SECOND).acquire().await.unwrap();
    sleep(SECOND * 9 / 10).await;
    server.set(Mood::Silent);
    sleep(SECOND).await;
    server.set(Mood::Answers(Duration::ZERO));
    sleep(SECOND).await;
    guard.check().unwrap();
    guard
}

/// A lock whose release was answered counted as one that was not released, while late requests were awaited.
#[tokio::test(start_paused = true)]
async fn a_close_after_the_answer_to_a_release_leaves_no_lock() {
    for at_least in [0, 60] {
        let server = VirtualServer::start();
        let client = client(&server);
        let guard = with_a_stray(&server, client.lock("lock").at_least(at_least * SECOND)).await;
        guard.release().await.unwrap();
        assert_eq!(client.close(SECOND / 10).await, Ok(()), "{at_least} s");
    }
}

/// Holds that were never answered kept a client alive that was closed, with all its memory.
#[tokio::test(start_paused = true)]
async fn a_closed_client_leaves_nothing_behind() {
    let server = VirtualServer::start();
    let client = client(&server);
    let tasks = client.shared_by_tasks();
    let (kept, dropped) = (client.lock("kept").await.unwrap(), client.lock("dropped").await.unwrap());
    let view = kept.held();
    server.set(Mood::Silent);
    drop(dropped);
    let _ = client.close(SECOND).await;
    sleep(SECOND).await;
    drop(kept);
    assert!(view.check().is_err());
    drop(view);
    sleep(SECOND).await;
    assert!(tasks.upgrade().is_none(), "something of the client is left");
}
