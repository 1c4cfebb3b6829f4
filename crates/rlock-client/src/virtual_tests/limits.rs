//! The caller's own limit wins over every outage.

use std::time::Duration;

use rlock_links::{Next, Refusal};
use tokio::time::{Instant, sleep};

use super::server::{Mood, VirtualServer};
use super::{SECOND, client, client_with};
use crate::Error;
use crate::config::Config;

/// The response timeout of a client with the usual settings, and what timers add.
const RESPONSE: Duration = Duration::from_millis(2_005);

/// Each call that sets no limit of its own took the rest of the lease, or two times five seconds.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_limit_takes_one_response_timeout_in_an_outage() {
    for mood in [Mood::Down, Mood::Silent] {
        let server = VirtualServer::start();
        let client = client(&server);
        let (lock, guard) = (client.lock("lock"), client.lock("held").acquire().await.unwrap());
        let again = guard.reenter().await.unwrap();
        server.set(mood);
        let in_time = |began: Instant, error: Error, what: &str| {
            assert!(began.elapsed() <= RESPONSE, "{mood:?} {what}: {:?}", began.elapsed());
            assert!(error.is_unreachable(), "{mood:?} {what}: {error:?}");
            assert!(format!("{error:?}").contains("virtual"), "no server in {error:?}");
        };
        let began = Instant::now();
        in_time(began, lock.try_acquire().await.unwrap_err(), "try_acquire");
        let began = Instant::now();
        in_time(began, lock.locked().await.unwrap_err(), "locked");
        let began = Instant::now();
        in_time(began, lock.info().await.unwrap_err(), "info");
        let began = Instant::now();
        in_time(began, lock.force_release().await.unwrap_err(), "force_release");
        let began = Instant::now();
        in_time(began, guard.reenter().await.unwrap_err(), "reenter");
        let began = Instant::now();
        in_time(began, again.release().await.unwrap_err(), "release of one hold");
        let began = Instant::now();
        let error = guard.release().await.unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{mood:?}: {error:?}");
        in_time(began, error, "release");
        // It continues in the background.
        assert_eq!(server.holder("held").is_some(), mood == Mood::Down);
        server.set(Mood::Answers(Duration::ZERO));
        sleep(10 * SECOND).await;
        assert_eq!(server.holder("held"), None, "{mood:?}");
    }
}

/// Leaving the work under a lock lasted until the lease had ended.
#[tokio::test(start_paused = true)]
async fn work_that_ends_in_an_outage_is_left_within_a_response_timeout() {
    for mood in [Mood::Down, Mood::Silent] {
        let server = VirtualServer::start();
        let client = client(&server);
        let (cut, began) = (server.clone(), Instant::now());
        let outcome = client.lock("lock").run(|_| async move { cut.set(mood) }).await;
        // It was held until the end of the work.
        assert_eq!(outcome, Ok(()), "{mood:?}");
        assert!(began.elapsed() <= RESPONSE, "{mood:?}: {:?}", began.elapsed());
    }
}

/// A wait that ended in an outage looked like one that another owner outlasted.
#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_in_an_outage_carries_the_cause() {
    for (mood, why) in [(Mood::Down, "connection refused"), (Mood::Silent, "no reply")] {
        let server = VirtualServer::start();
        let client = client(&server);
        client.lock("first").acquire().await.unwrap().release().await.unwrap();
        server.set(mood);
        let began = Instant::now();
        let error = client.lock("lock").acquire_timeout(4 * SECOND).await.unwrap_err();
        assert!(began.elapsed() <= 4 * SECOND + Duration::from_millis(5), "{:?}", began.elapsed());
        assert!(error.is_unreachable() && matches!(error, Error::Timeout { .. }), "{error:?}");
        let text = format!("the server virtual is unreachable: {why}");
        assert!(error.to_string().contains(&text), "{mood:?}: {error}");
        let cause = std::error::Error::source(&error).expect("the cause");
        assert!(cause.to_string().contains("virtual"), "{cause}");
    }
    // With another holder it carries none.
    let server = VirtualServer::start();
    server.occupy("lock", 3600 * SECOND);
    let error = client(&server).lock("lock").acquire_timeout(4 * SECOND).await.unwrap_err();
    assert!(!error.is_unreachable() && error.to_string().contains("see its holder"), "{error}");
}

/// A limit that is made from a short lease is not the limit of the first connection, which takes several round trips.
#[tokio::test(start_paused = true)]
async fn the_first_connection_has_a_second_whatever_the_lease() {
    let server = VirtualServer::start();
    server.state().dial = Duration::from_millis(900);
    let client = client_with(&server, Config { lease: Duration::from_millis(600), ..Config::default() });
    client.lock("lock").try_acquire().await.unwrap().release().await.unwrap();
    // The user's own limit counts even there.
    let client =
        client_with(&server, Config { response: Some(Duration::from_millis(300)), ..Config::default() });
    let began = Instant::now();
    let error = client.lock("lock").try_acquire().await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    assert!(began.elapsed() <= Duration::from_millis(305), "{:?}", began.elapsed());
}

/// A demoted server refused two requests. The answer to the first ended the connection before the answer to the second was read: that
/// caller got an error in place of the lock at the new primary.
#[tokio::test(start_paused = true)]
async fn a_demoted_server_is_asked_again_though_its_connection_has_ended() {
    let server = VirtualServer::start();
    let client = client(&server);
    let router = &client.spec("lock").handle.all.shared.router;
    let refused =
        Refusal { code: "READONLY".into(), details: "You can't write against a read only replica.".into() };
    assert!(matches!(router.learn(None, &refused), Next::Later));
    let refused = Refusal { code: "NOPERM".into(), ..refused };
    assert!(matches!(router.learn(None, &refused), Next::Refused));
}
