//! What only the client's own time decides, in virtual time: hours pass in milliseconds.

mod ends;
mod leases;
mod limits;
mod server;
mod session;

use std::sync::Arc;
use std::time::Duration;

use rlock_links::{Clock, Router};
use tokio::time::{Instant, sleep};

use crate::config::Config;
use crate::{Client, Error, Lost, State};
use server::{Mood, VirtualServer};

const SECOND: Duration = Duration::from_secs(1);

/// What the client counts on of a lease of 30 s.
const COUNTED: Duration = Duration::from_millis(29_698);

fn client(server: &VirtualServer) -> Client {
    client_with(server, Config::default())
}

fn client_with(server: &VirtualServer, config: Config) -> Client {
    let connector = Arc::new(server.clone());
    Client::start(config, Clock::Tokio(Instant::now()), "virtual".into(), |links, watch| {
        Router::to_one(connector, links, watch)
    })
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_every_third_of_its_lease_for_hours() {
    let server = VirtualServer::start();
    let client = client(&server);
    let guard = client.lock("lock").acquire().await.unwrap();
    for _ in 0..3 * 3600 {
        sleep(SECOND).await;
        assert!(guard.check().unwrap() >= Duration::from_secs(19));
        assert_eq!(server.holder("lock").unwrap(), guard.owner());
    }
    let times = server.times("RLOCK.RENEW");
    // Timers are exact to the millisecond, and their lateness adds up.
    assert!((1_078..=1_080).contains(&times.len()), "{}", times.len());
    for (number, at) in times.iter().enumerate() {
        let due = Duration::from_secs(10 * (number as u64 + 1));
        assert!(*at >= due && *at < due + Duration::from_millis(2) * (number as u32 + 1), "{number}: {at:?}");
    }
    guard.release().await.unwrap();
    sleep(100 * SECOND).await;
    assert_eq!(server.times("RLOCK.RENEW").len(), times.len(), "renewed after its end");
}

#[tokio::test(start_paused = true)]
async fn failing_renewals_are_tried_again_until_the_deadline_and_no_longer() {
    for mood in [Mood::Down, Mood::Silent] {
        let server = VirtualServer::start();
        let client = client(&server);
        let begin = Instant::now();
        let guard = client.lock("lock").acquire().await.unwrap();
        sleep(15 * SECOND).await;
        server.set(mood);
        let renewed_at = 10 * SECOND;
        sleep(10 * SECOND).await;
        assert_eq!(guard.state(), State::Renewing, "{mood:?}: a failed renewal loses nothing");
        guard.check().unwrap();
        assert_eq!(guard.lost().await, Lost::Unreachable);
        let took = begin.elapsed();
        let end = renewed_at + COUNTED;
        assert!(took >= end && took < end + Duration::from_millis(10), "{mood:?}: {took:?}");
        // Lost stays lost when the server is back.
        server.set(Mood::Answers(Duration::ZERO));
        sleep(60 * SECOND).await;
        assert_eq!(guard.state(), State::Lost(Lost::Unreachable));
        assert!(matches!(guard.release().await, Err(Error::LockLost { why: Lost::Unreachable, .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn one_renewal_that_succeeds_in_time_saves_the_lock() {
    let server = VirtualServer::start();
    let client = client(&server);
    let guard = client.lock("lock").acquire().await.unwrap();
    for _ in 0..20 {
        server.set(Mood::Down);
        sleep(18 * SECOND).await;
        server.set(Mood::Answers(Duration::ZERO));
        sleep(12 * SECOND).await;
        assert_eq!(guard.state(), State::Held);
    }
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_sending_of_its_request() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.set(Mood::Answers(SECOND));
    let guard = client.lock("lock").lease(30 * SECOND).try_acquire().await.unwrap();
    let left = guard.check().unwrap();
    assert!(left <= COUNTED - SECOND, "{left:?}");
    // A reply after the end of the lease gives no lock.
    let late = client.lock("late").lease(SECOND / 2).try_acquire().await;
    assert!(matches!(late, Err(Error::Transport { .. })), "{late:?}");
    sleep(20 * SECOND).await;
    assert_eq!(server.holder("late"), None);
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
async fn a_long_wait_outlives_every_time_limit_of_a_request() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.occupy("lock", 3600 * SECOND);
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    sleep(600 * SECOND).await;
    assert!(!waiting.is_finished());
    // It asked now and then, as the holder's lease suggests, and no more.
    let asked = server.times("RLOCK.ACQUIRE").len();
    assert!((10..30).contains(&asked), "{asked}");
    server.free("lock");
    let guard = waiting.await.unwrap().unwrap();
    // Confirmed, so it has its full lease.
    sleep(9 * SECOND).await;
    assert_eq!(server.holder("lock").unwrap(), guard.owner());
    assert_eq!(server.times("RLOCK.RENEW").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_does_not_depend_on_one_message() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.occupy("lock", 20 * SECOND);
    let lock = client.lock("lock");
    let waiting = tokio::spawn(lock.acquire());
    sleep(5 * SECOND).await;
    // The lock is granted, and the message is lost.
    server.grant_in_silence("lock");
    let begin = Instant::now();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(server.holder("lock").unwrap(), guard.owner());
    // It asked at the end of the lease that the holder had left.
    assert!(begin.elapsed() <= 20 * SECOND, "{:?}", begin.elapsed());
    guard.release().await.unwrap();
}

/// The end of a named owner's wait was taken for the end of that owner's next one, which had just begun.
#[tokio::test(start_paused = true)]
async fn a_message_about_an_earlier_wait_does_not_end_the_next_one() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.occupy("lock", 3600 * SECOND);
    let waiting = tokio::spawn(client.lock("lock").owner("me").acquire_timeout(10 * SECOND));
    sleep(SECOND).await;
    server.say("timeout 0 me lock");
    sleep(SECOND).await;
    server.free("lock");
    let guard = tokio::time::timeout(2 * SECOND, waiting).await.expect("the lock").unwrap().unwrap();
    assert_eq!(server.holder("lock").unwrap(), guard.owner());
    guard.release().await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_grant_after_a_wait_has_timed_out_leaves_no_holder() {
    let server = VirtualServer::start();
    let client = client(&server);
    server.occupy("lock", 3600 * SECOND);
    let lock = client.lock("lock");
    let error = lock.acquire_timeout(10 * SECOND).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
    sleep(SECOND).await;
    assert_eq!(server.times("RLOCK.CANCEL").len(), 1);
    server.free("lock");
    sleep(SECOND).await;
    assert_eq!(server.holder("lock"), None);
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
