//! The caller's own limit wins over every outage.

use std::time::Duration;

use rlock_links::{Next, Refusal};
use tokio::time::Instant;

use super::server::{Mood, VirtualServer};
use super::{client, client_with};
use crate::Error;
use crate::config::Config;

/// The response timeout of a client with the usual settings, and what timers add.
const RESPONSE: Duration = Duration::from_millis(2_005);

/// A re-entry took two times five seconds, and the release of one hold the rest of the lease.
#[tokio::test(start_paused = true)]
async fn a_call_of_one_of_several_guards_takes_one_response_timeout_in_an_outage() {
    for mood in [Mood::Down, Mood::Silent] {
        let server = VirtualServer::start();
        let guard = client(&server).lock("held").acquire().await.unwrap();
        let again = guard.reenter().await.unwrap();
        server.set(mood);
        let in_time = |began: Instant, error: Error| {
            assert!(began.elapsed() <= RESPONSE, "{mood:?}: {:?}", began.elapsed());
            assert!(error.is_unreachable(), "{mood:?}: {error:?}");
        };
        let began = Instant::now();
        in_time(began, guard.reenter().await.unwrap_err());
        let began = Instant::now();
        in_time(began, again.release().await.unwrap_err());
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
