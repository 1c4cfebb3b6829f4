//! Sessions: one heartbeat for all holds of a connection, and their end where it is unproven.

use std::time::Duration;

use tokio::time::sleep;

use super::server::{Mood, VirtualServer};
use super::{SECOND, client};

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
