//! Locking and unlocking, against a real server.

use std::time::Duration;

use rlock_client::{Client, Error, Lost, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{
    connect, connect_with, denied, eventually, holder, run, seconds, waiters, within,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_denied_and_released() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let lock = client.lock("lock");
    assert!(!lock.locked().await.unwrap());
    assert_eq!(lock.info().await.unwrap().remaining, None);
    let guard = lock.try_acquire().await.expect("a free lock");
    let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
    assert!(owner.starts_with(client.identity()));
    assert_eq!(holder(&mut raw, "lock"), Some((owner.clone(), 1)));
    // Two tasks with one handle exclude each other.
    assert!(denied(lock.try_acquire().await));
    assert!(lock.locked().await.unwrap() && lock.hold_count(&owner).await.unwrap() > 0);
    assert!(!lock.hold_count("somebody").await.unwrap() > 0);
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
    let left = lock.info().await.unwrap().remaining.expect("a lease");
    assert!(left > Duration::from_secs(20) && left <= Duration::from_secs(30), "{left:?}");
    let sure = guard.check().unwrap();
    assert!(sure > Duration::from_secs(20) && sure < left, "{sure:?} {left:?}");
    assert_eq!(guard.state(), State::Held);
    let held = guard.held();
    // A token is for the work: cancelling it does nothing to the lock.
    guard.cancellation_token().cancel();
    assert_eq!((guard.state(), guard.cancellation_token().is_cancelled()), (State::Held, false));
    guard.release().await.unwrap();
    assert_eq!((holder(&mut raw, "lock"), held.state()), (None, State::Released));
    assert!(matches!(held.check(), Err(Error::LockLost { why: Lost::Released, .. })));
}

/// Drivers give up a reply after half a second, and some after a few seconds more; servers close connections
/// that are idle. A wait is not a missing reply, and neither waiters nor holders are idle.
///
/// `RLOCK_WAIT_SECONDS` says for how long (5); from 25 on it is the client with its own settings.
#[tokio::test]
async fn a_wait_outlasts_all_limits_of_time() {
    let wait = seconds("RLOCK_WAIT_SECONDS", 5);
    // In the same proportion as a minute is to the client's own: it allows five seconds for an answer.
    let response = (wait / 5).min(Duration::from_secs(5));
    let lease = (wait / 2).min(Duration::from_secs(30));
    let server = TestServer::start();
    let idle = (response * 3).as_secs().max(3);
    run::<()>(&mut server.connect(), &format!("CONFIG SET timeout {idle}"));
    let client =
        async || connect_with(&server, Client::builder().response_timeout(response).lease(lease)).await;
    let (holder_s, waiter_s) = (client().await, client().await);
    let guard = holder_s.lock("lock").acquire().await.unwrap();
    let waiting = tokio::spawn(waiter_s.lock("lock").acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    let connections = || {
        let mut own = server.connect();
        let (number, list): (u64, String) = (run(&mut own, "CLIENT ID"), run(&mut own, "CLIENT LIST"));
        let ids = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok());
        let mut ids: Vec<u64> = ids.filter(|id| *id != number).collect();
        ids.sort_unstable();
        ids
    };
    let before = connections();
    tokio::time::sleep(wait).await;
    guard.check().unwrap();
    assert_eq!((waiters(&server), waiting.is_finished()), (1, false));
    assert_eq!(connections(), before, "the clients have the connections that they had");
    guard.release().await.unwrap();
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    assert_eq!(holder(&mut server.connect(), "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_named_owner_enters_again_and_takes_up_its_predecessors_holds() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let lock = client.lock("lock").owner("job");
    let first = lock.acquire().await.unwrap();
    let second = lock.try_acquire().await.expect("its own lock");
    assert_eq!(holder(&mut raw, "lock"), Some(("job".into(), 2)));
    assert!(denied(client.lock("lock").owner("other").try_acquire().await));
    drop(first);
    second.release().await.unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
    // Dropped and taken again at once: the release of the one must not end the other.
    for _ in 0..200 {
        let guard = lock.try_acquire().await.expect("its own lock");
        drop(guard);
    }
    let guard = lock.acquire().await.unwrap();
    client.lock("else").try_acquire().await.unwrap().release().await.unwrap();
    assert_eq!(holder(&mut raw, "lock"), Some(("job".into(), 1)));
    guard.release().await.unwrap();
    // A predecessor that crashed with two holds.
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock job 60000");
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock job 60000");
    let guard = lock.try_acquire().await.expect("the predecessor's holds");
    guard.release().await.unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
}

#[tokio::test]
async fn named_owners_wait_for_their_turn() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let lock = client.lock("lock").owner("job");
    let waits: Vec<_> = (0..10)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    assert!(denied(lock.try_acquire().await));
    run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
    let mut guards = Vec::new();
    for wait in waits {
        guards.push(within("the lock", wait).await.unwrap().unwrap());
    }
    assert_eq!(holder(&mut raw, "lock"), Some(("job".into(), 10)));
    drop(guards);
    eventually("the release", || holder(&mut raw, "lock").is_none().then_some(())).await;
}

#[tokio::test]
async fn work_runs_under_the_lock_and_is_dropped_when_it_is_lost() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().lease(Duration::from_secs(3))).await;
    let (lock, mut raw) = (client.lock("lock"), server.connect());
    let value = lock
        .run(|held| async move {
            held.check().unwrap();
            7
        })
        .await;
    assert_eq!(value, Ok(7));
    assert_eq!(holder(&mut raw, "lock"), None);
    let taker = client.lock("lock");
    let lost = lock.run(|_| async move {
        assert!(taker.force_release().await.unwrap());
        std::future::pending::<()>().await;
    });
    let error = within("the loss", lost).await.unwrap_err();
    assert_eq!(error, Error::LockLost { lock: "lock".into(), why: Lost::Taken });
}

#[tokio::test]
async fn something_else_under_the_locks_name_is_a_loss_at_once() {
    let server = TestServer::start();
    let client = connect_with(&server, Client::builder().lease(Duration::from_secs(9))).await;
    let mut raw = server.connect();
    // A key of another type, and a hash that is not a lock.
    for command in ["SET lock value", "HSET lock some data"] {
        let begin = std::time::Instant::now();
        let guard = client.lock("lock").acquire().await.unwrap();
        run::<u64>(&mut raw, "DEL lock");
        run::<redis::Value>(&mut raw, command);
        assert_eq!(within("the loss", guard.lost()).await, Lost::Taken, "{command}");
        // By the first renewal, not at the end of the lease.
        assert!(begin.elapsed() < Duration::from_secs(8), "{command}");
        drop(guard);
        run::<u64>(&mut raw, "DEL lock");
        // Before a renewal, a release finds out, and so does a re-entry.
        let guard = client.lock("lock").acquire().await.unwrap();
        let again = client.lock("lock2").acquire().await.unwrap();
        run::<u64>(&mut raw, "DEL lock lock2");
        run::<redis::Value>(&mut raw, command);
        run::<redis::Value>(&mut raw, &command.replace("lock", "lock2"));
        assert_eq!(
            guard.release().await.unwrap_err(),
            Error::LockLost { lock: "lock".into(), why: Lost::Taken },
            "{command}"
        );
        let error = again.reenter().await.unwrap_err();
        assert_eq!(error, Error::LockLost { lock: "lock2".into(), why: Lost::Taken }, "{command}");
        drop(again);
        // The other values are left alone.
        client.lock("free").acquire().await.unwrap().release().await.unwrap();
        assert_eq!(run::<u64>(&mut raw, "EXISTS lock lock2"), 2, "{command}");
        run::<u64>(&mut raw, "DEL lock lock2");
    }
}
