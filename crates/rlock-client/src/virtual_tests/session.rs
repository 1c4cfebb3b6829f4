//! Sessions: one heartbeat for all holds of a connection, and their end where it is unproven.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::server::{Mood, VirtualServer};
use super::{SECOND, client};
use crate::{Error, Lost};

/// What the client counts on of a grace of one second.
const GRACE_COUNTED: Duration = Duration::from_millis(988);

#[tokio::test(start_paused = true)]
async fn one_heartbeat_serves_all_locks_of_a_connection() {
    let server = VirtualServer::start();
    let client = client(&server);
    let mut guards = Vec::new();
    for number in 0..50 {
        let lock = client.lock(format!("lock:{number}")).session_grace(SECOND);
        guards.push(lock.acquire().await.unwrap());
    }
    sleep(59 * SECOND).await;
    for guard in &guards {
        assert!(guard.check().unwrap() > SECOND / 2, "{:?}", guard.check());
    }
    let beats = server.times("HELLO").len();
    assert!((230..=238).contains(&beats), "{beats} in a minute");
    assert_eq!(server.times("RLOCK.RENEW").len(), 50 * 5, "renewals are as without a session");
    // Without ties the connection is asked as before, every 2 seconds.
    drop(guards);
    sleep(60 * SECOND).await;
    let idle = server.times("HELLO").len() - beats;
    assert!((28..=31).contains(&idle), "{idle} in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_lost_a_grace_after_the_connection_was_last_proven() {
    for mood in [Mood::Silent, Mood::Down] {
        for renew in [true, false] {
            let server = VirtualServer::start();
            let client = client(&server);
            let lock = client.lock("lock").session_grace(SECOND).renew(renew);
            let guard = lock.acquire().await.unwrap();
            sleep(2 * SECOND).await;
            let proven = server.times("HELLO").last().copied().unwrap();
            server.set(mood);
            assert_eq!(guard.lost().await, Lost::Unreachable, "{mood:?}");
            let took = server.since_start() - proven;
            assert!(
                took >= GRACE_COUNTED && took < GRACE_COUNTED + Duration::from_millis(5),
                "{mood:?}: {took:?}"
            );
            // Lost is lost, though the server may have it still.
            server.set(Mood::Answers(Duration::ZERO));
            sleep(10 * SECOND).await;
            assert!(matches!(guard.release().await, Err(Error::LockLost { why: Lost::Unreachable, .. })));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn holds_are_tied_to_the_next_connection() {
    // Down for half a grace, and half-open for as long: requests on the old connection are never answered.
    for mood in [Mood::Silent, Mood::Down] {
        let server = VirtualServer::start();
        let client = client(&server);
        let watched = client.lock("watched").session_grace(SECOND).acquire().await.unwrap();
        let fixed = client
            .lock("fixed")
            .session_grace(SECOND)
            .lease(60 * SECOND)
            .renew(false)
            .acquire()
            .await
            .unwrap();
        sleep(5 * SECOND).await;
        server.set(mood);
        sleep(SECOND / 2).await;
        let back = server.since_start();
        server.set(Mood::Answers(Duration::ZERO));
        sleep(SECOND).await;
        watched.check().unwrap();
        fixed.check().unwrap();
        let renewed = server.times("RLOCK.RENEW");
        assert_eq!(renewed.len(), 2, "{mood:?}: {renewed:?}");
        assert_eq!(renewed[0], renewed[1], "in one piece");
        assert!(renewed[0] - back < SECOND / 2, "{mood:?}: {:?}", renewed[0] - back);
        sleep(40 * SECOND).await;
        // Tying it anew did not make the fixed lease longer.
        assert!(fixed.check().unwrap() < SECOND);
        let began = Instant::now();
        assert_eq!(timeout(20 * SECOND, fixed.lost()).await.unwrap(), Lost::Expired);
        assert!(began.elapsed() > 10 * SECOND, "{:?}", began.elapsed());
        watched.check().unwrap();
    }
}

/// Its renewal was under way on a connection that had died, and was waited for as long as any request.
#[tokio::test(start_paused = true)]
async fn a_renewal_on_a_dead_connection_keeps_no_hold_from_the_next() {
    let server = VirtualServer::start();
    let client = client(&server);
    let guard = client.lock("lock").session_grace(SECOND).acquire().await.unwrap();
    sleep(10 * SECOND - Duration::from_millis(50)).await;
    server.set(Mood::Silent);
    sleep(Duration::from_millis(350)).await;
    assert_eq!(server.times("RLOCK.RENEW").len(), 1, "one is under way");
    server.set(Mood::Answers(Duration::ZERO));
    sleep(SECOND).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grace_that_no_heartbeat_keeps_alive_is_refused() {
    let server = VirtualServer::start();
    let client = client(&server);
    for grace in [Duration::ZERO, Duration::from_millis(99), Duration::MAX] {
        let error = client.lock("lock").session_grace(grace).acquire().await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        assert!(crate::Client::builder().session_grace(grace).connect("redis://127.0.0.1:1").await.is_err());
    }
    assert!(server.times("RLOCK.ACQUIRE").is_empty());
}
