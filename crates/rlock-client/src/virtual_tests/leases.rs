//! Leases of the client and of a lock: renewed, unless the lock says that it is not.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::server::{Mood, VirtualServer};
use super::{COUNTED, SECOND, client};
use crate::config::Config;
use crate::{Client, Guard, Lost};

/// A client whose locks have this lease.
fn client_with(server: &VirtualServer, lease: Duration) -> Client {
    super::client_with(server, Config { lease, ..Config::default() })
}

/// The lock is held for an hour, and renewed every third of this lease.
async fn is_renewed_for_an_hour(server: &VirtualServer, guard: Guard, lease: Duration) {
    let before = server.times("RLOCK.RENEW").len();
    for _ in 0..3600 {
        sleep(SECOND).await;
        let left = guard.check().unwrap();
        assert!(left >= lease * 6 / 10 && left < lease, "{left:?} of {lease:?}");
        assert_eq!(server.holder("lock").unwrap(), guard.owner());
    }
    let renewals = (server.times("RLOCK.RENEW").len() - before) as u32;
    let planned = (3600 * SECOND).as_millis() as u32 * 3 / lease.as_millis() as u32;
    assert!((planned * 99 / 100..=planned).contains(&renewals), "{renewals} of {planned}");
    guard.release().await.unwrap();
}

/// Only the Rust client did not renew a lock with its own lease: the lock was lost after that lease.
#[tokio::test(start_paused = true)]
async fn a_lease_of_a_lock_is_renewed_every_third_of_it() {
    let server = VirtualServer::start();
    let client = client(&server);
    for lease in [3 * SECOND, 6 * SECOND, 300 * SECOND] {
        let guard = client.lock("lock").lease(lease).acquire().await.unwrap();
        is_renewed_for_an_hour(&server, guard, lease).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_client_is_that_of_its_locks_and_renewed() {
    let server = VirtualServer::start();
    let client = client_with(&server, 6 * SECOND);
    let guard = client.lock("lock").acquire().await.unwrap();
    is_renewed_for_an_hour(&server, guard, 6 * SECOND).await;
    let guard = client.lock("lock").lease(60 * SECOND).acquire().await.unwrap();
    is_renewed_for_an_hour(&server, guard, 60 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_renewed_ends_with_its_lease() {
    let server = VirtualServer::start();
    let client = client(&server);
    // The client's lease, and one of its own.
    let locks = [(client.lock("a"), COUNTED), (client.lock("b").lease(60 * SECOND), 2 * COUNTED)];
    for (lock, counted) in locks {
        let begin = Instant::now();
        let guard = lock.renew(false).acquire().await.unwrap();
        assert_eq!(guard.lost().await, Lost::Expired);
        let took = begin.elapsed();
        assert!(took >= counted && took < counted + Duration::from_millis(10), "{took:?}");
        assert!(server.times("RLOCK.RENEW").is_empty());
    }
}

/// The renewal waited for a sixth of the client's lease, and the lock was lost before.
#[tokio::test(start_paused = true)]
async fn a_short_lease_leaves_a_connection_that_does_not_answer_in_time() {
    let server = VirtualServer::start();
    let client = client(&server);
    let guard = client.lock("lock").lease(3 * SECOND).acquire().await.unwrap();
    for _ in 0..20 {
        let renewals = server.times("RLOCK.RENEW").len();
        while server.times("RLOCK.RENEW").len() == renewals {
            sleep(SECOND / 20).await;
            guard.check().unwrap();
        }
        sleep(SECOND / 20).await;
        // The next renewal is not answered.
        server.set(Mood::Silent);
        sleep(SECOND * 12 / 10).await;
        server.set(Mood::Answers(Duration::ZERO));
        sleep(SECOND).await;
        guard.check().unwrap();
    }
    assert!(server.state().dials.len() > 20, "{} connections", server.state().dials.len());
    guard.release().await.unwrap();
}
