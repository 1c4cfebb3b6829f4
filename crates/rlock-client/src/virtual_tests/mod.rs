//! What only the client's own time decides, in virtual time: hours pass in milliseconds.

mod ends;
mod limits;
mod server;
mod session;

use std::sync::Arc;
use std::time::Duration;

use rlock_links::{Clock, Router};
use tokio::time::{Instant, sleep};

use crate::config::Config;
use crate::{Client, Error, State};
use server::{Mood, VirtualServer};

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &VirtualServer) -> Client {
    client_with(server, Config::default())
}

fn client_with(server: &VirtualServer, config: Config) -> Client {
    let connector = Arc::new(server.clone());
    Client::start(config, Clock::Tokio(Instant::now()), "virtual".into(), |links, watch| {
        Router::to_one(connector, links, watch)
    })
}

/// Only the Rust client did not renew a lock with its own lease: the lock was lost after that lease.
#[tokio::test(start_paused = true)]
async fn a_lease_of_a_lock_is_renewed_every_third_of_it() {
    let server = VirtualServer::start();
    let client = client(&server);
    for lease in [3 * SECOND, 6 * SECOND, 300 * SECOND] {
        let before = server.times("RLOCK.RENEW").len();
        let guard = client.lock("lock").lease(lease).acquire().await.unwrap();
        for _ in 0..3600 {
            sleep(SECOND).await;
            let left = guard.check().unwrap();
            assert!(left >= lease * 6 / 10 && left < lease, "{left:?} of {lease:?}");
        }
        let renewals = (server.times("RLOCK.RENEW").len() - before) as u32;
        let planned = (3600 * SECOND).as_millis() as u32 * 3 / lease.as_millis() as u32;
        assert!((planned * 99 / 100..=planned).contains(&renewals), "{renewals} of {planned}");
        guard.release().await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn one_renewal_that_succeeds_in_time_saves_the_lock() {
    let server = VirtualServer::start();
    let client = client(&server);
    let guard = client.lock("lock").acquire().await.unwrap();
    for _ in 0..20 {
        server.set(Mood::Down);
        sleep(18 * SECOND).await;
        assert_eq!(guard.state(), State::Renewing);
        server.set(Mood::Answers(Duration::ZERO));
        sleep(12 * SECOND).await;
        assert_eq!(guard.state(), State::Held);
    }
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn connecting_is_tried_for_ever_at_bounded_intervals() {
    let server = VirtualServer::start();
    server.set(Mood::Down);
    let client = client(&server);
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    sleep(3600 * SECOND).await;
    let dials = server.state().dials.clone();
    assert!((3600..8000).contains(&dials.len()), "{}", dials.len());
    assert!(dials.windows(2).all(|pair| pair[1] - pair[0] <= SECOND + Duration::from_millis(2)));
    assert!(!waiting.is_finished());
    server.set(Mood::Answers(Duration::ZERO));
    tokio::time::timeout(2 * SECOND, waiting)
        .await
        .expect("the lock")
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_is_sent_behind_the_renewal_under_way() {
    let server = VirtualServer::start();
    let client = client(&server);
    for drops in [false, true] {
        let (renewals, releases) = (server.times("RLOCK.RENEW").len(), server.times("RLOCK.RELEASE").len());
        let guard = client.lock("lock").acquire().await.unwrap();
        sleep(9 * SECOND).await;
        server.set(Mood::Answers(3 * SECOND / 2));
        sleep(2 * SECOND).await;
        let renewed = *server.times("RLOCK.RENEW").last().expect("a renewal under way");
        server.set(Mood::Answers(Duration::ZERO));
        if drops {
            drop(guard)
        } else {
            guard.release().await.unwrap()
        }
        sleep(100 * SECOND).await;
        assert_eq!(server.times("RLOCK.RENEW").len(), renewals + 1, "renewed after its end");
        let released = server.times("RLOCK.RELEASE")[releases..].to_vec();
        assert!(released.len() == 1 && released[0] >= renewed, "{renewed:?} {released:?}");
        assert_eq!(server.holder("lock"), None);
    }
}

/// The confirmation waited for a connection for as long as it took, whatever limit the wait had.
#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_with_the_grant_does_not_prolong_the_wait() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.occupy("lock", 3600 * SECOND);
    let begin = Instant::now();
    let waiting = tokio::spawn(client.lock("lock").acquire_timeout(10 * SECOND));
    sleep(4 * SECOND).await;
    // The message is the last before the server goes down.
    server.free("lock");
    server.set(Mood::Down);
    let outcome = tokio::time::timeout(100 * SECOND, waiting).await.expect("the end of the wait");
    let error = outcome.unwrap().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begin.elapsed() <= 10 * SECOND + Duration::from_millis(5), "{:?}", begin.elapsed());
}

/// A close did not notify a lock that was handed out after it had notified all holders: the work under it ran for ever.
#[tokio::test(start_paused = true)]
async fn a_lock_asked_for_before_a_shutdown_is_not_handed_out_after_it() {
    let server = VirtualServer::start();
    let client = client(&server);
    client.lock("before").acquire().await.unwrap().release().await.unwrap();
    server.set(Mood::Answers(2 * SECOND));
    let work = tokio::spawn(client.lock("lock").run(|_| std::future::pending::<()>()));
    sleep(SECOND).await;
    client.close(10 * SECOND).await.unwrap();
    let outcome = tokio::time::timeout(100 * SECOND, work).await.expect("the end of the work").unwrap();
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    assert_eq!(server.holder("lock"), None);
}
