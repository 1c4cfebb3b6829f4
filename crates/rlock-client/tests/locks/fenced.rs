//! Fenced locks: each guard has a token, larger than all before.

use std::time::Duration;

use rlock_client::{Client, Durability, Error, Waiting, blocking};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{SOON, connect, connect_with, eventually, run, url, waiters, within};

/// The last token, as it stands in the server.
fn stored(server: &TestServer) -> Option<u64> {
    run(&mut server.connect(), "GET redisson_lock_token:{lock}")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_guard_has_a_larger_token() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let plain = client.lock("lock").acquire().await.unwrap();
    assert_eq!((plain.token(), stored(&server)), (None, None));
    plain.release().await.unwrap();
    let lock = client.lock("lock").fenced();
    let mut last = 0;
    for _ in 0..3 {
        let guard = lock.try_acquire().await.expect("a free lock");
        let token = guard.token().expect("a token");
        assert!(token > last && stored(&server) == Some(token), "{token} after {last}");
        // Entered again, it has a new one, and all guards tell the newest.
        let inner = guard.reenter().await.unwrap();
        assert!(inner.token() > Some(token) && inner.token() == guard.token());
        last = guard.token().unwrap();
        inner.release().await.unwrap();
        guard.release().await.unwrap();
    }
    let seen = lock.run(|held| async move { held.token() }).await.unwrap();
    assert!(seen > Some(last), "{seen:?} after {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poller_gets_a_token_with_the_lock() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let other = connect_with(&server, Client::builder().waiting(Waiting::Polling)).await;
    let guard = client.lock("lock").fenced().acquire().await.unwrap();
    let first = guard.token();
    let waiter = tokio::spawn(other.lock("lock").fenced().acquire());
    guard.release().await.unwrap();
    let guard = within("the lock", waiter).await.unwrap().unwrap();
    assert!(guard.token() > first && guard.token() == stored(&server), "{:?}", guard.token());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_owner_that_enters_again_has_a_new_token() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let lock = client.lock("lock").fenced().owner("worker:7");
    let first = lock.acquire().await.unwrap();
    let before = first.token();
    let second = lock.acquire().await.unwrap();
    assert!(second.token() > before && second.token() == first.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_where_the_lock_is() {
    let (server, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&server);
    let client = connect_with(&server, Client::builder().durability_wait(Duration::from_secs(10))).await;
    let guard = client.lock("lock").fenced().durability(Durability::Replicas(1)).acquire().await.unwrap();
    assert_eq!(stored(&replica), guard.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_there_cannot_be_is_an_error() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let guard = client.lock("lock").acquire().await.unwrap();
    let waiter = tokio::spawn(client.lock("lock").fenced().acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    let _: () = run(&mut server.connect(), "SET redisson_lock_token:{lock} many");
    guard.release().await.unwrap();
    let error = within("the refusal", waiter).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Refused { message } if message.contains("fencing token")), "{error}");
    client.close(SOON).await.unwrap();
}

#[test]
fn threads_have_tokens_too() {
    let server = TestServer::start();
    let client = blocking::Client::connect(&url(&server)).unwrap();
    let guard = client.lock("lock").fenced().acquire().unwrap();
    let token = guard.token();
    assert_eq!(stored(&server), token);
    guard.release().unwrap();
    assert!(client.lock("lock").fenced().try_acquire().expect("a free lock").token() > token);
}
