//! Fenced locks: each guard has a token, larger than all before.

mod common;

use std::time::Duration;

use common::{SOON, connect, connect_with, eventually, run, url, waiters, within};
use rlock_client::{Client, Durability, Error, Waiting, blocking};
use rlock_testkit::TestServer;

/// The last token, as it stands in the server.
fn stored(server: &TestServer) -> Option<u64> {
    run(&mut server.connect(), "GET redisson_lock_token:{lock}")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_guard_has_a_larger_token() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let plain = client.lock("lock").lock().await.unwrap();
    assert_eq!((plain.token(), stored(&server)), (None, None));
    plain.unlock().await.unwrap();
    let lock = client.fenced_lock("lock");
    let mut last = 0;
    for _ in 0..3 {
        let guard = lock.try_lock().await.unwrap().expect("a free lock");
        let token = guard.token().expect("a token");
        assert!(token > last && stored(&server) == Some(token), "{token} after {last}");
        // Entered again, it has a new one, and all guards tell the newest.
        let inner = guard.reenter().await.unwrap();
        assert!(inner.token() > Some(token) && inner.token() == guard.token());
        last = guard.token().unwrap();
        inner.unlock().await.unwrap();
        guard.unlock().await.unwrap();
    }
    let seen = lock.run(|held| async move { held.token() }).await.unwrap();
    assert!(seen > Some(last), "{seen:?} after {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_gets_a_token_with_the_lock() {
    for waiting in [Waiting::Queue, Waiting::Polling] {
        let server = TestServer::start();
        let client = connect(&server).await;
        let other = connect_with(&server, Client::builder().waiting(waiting)).await;
        let guard = client.fenced_lock("lock").lock().await.unwrap();
        let first = guard.token();
        let waiter = tokio::spawn(other.fenced_lock("lock").lock());
        if waiting == Waiting::Queue {
            eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
        }
        guard.unlock().await.unwrap();
        let guard = within("the lock", waiter).await.unwrap().unwrap();
        assert!(guard.token() > first && guard.token() == stored(&server), "{:?}", guard.token());
        // It is renewed as any other, and that takes no token.
        let sure = guard.check().unwrap();
        assert!(sure > Duration::from_secs(15), "{sure:?}");
        guard.unlock().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_owner_that_enters_again_has_a_new_token() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let lock = client.fenced_lock("lock").owner("worker:7");
    let first = lock.lock().await.unwrap();
    let before = first.token();
    let second = lock.lock().await.unwrap();
    assert!(second.token() > before && second.token() == first.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_where_the_lock_is() {
    let (server, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&server);
    let client = connect_with(&server, Client::builder().durability_wait(Duration::from_secs(10))).await;
    let guard = client.fenced_lock("lock").durability(Durability::Replicas(1)).lock().await.unwrap();
    assert_eq!(stored(&replica), guard.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_there_cannot_be_is_an_error() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let guard = client.lock("lock").lock().await.unwrap();
    let waiter = tokio::spawn(client.fenced_lock("lock").lock());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    let _: () = run(&mut server.connect(), "SET redisson_lock_token:{lock} many");
    guard.unlock().await.unwrap();
    let error = within("the refusal", waiter).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Refused { message } if message.contains("fencing token")), "{error}");
    client.shutdown(SOON).await.unwrap();
}

#[test]
fn threads_have_tokens_too() {
    let server = TestServer::start();
    let client = blocking::Client::connect(&url(&server)).unwrap();
    let guard = client.fenced_lock("lock").lock().unwrap();
    let token = guard.token();
    assert_eq!(stored(&server), token);
    guard.unlock().unwrap();
    assert!(client.fenced_lock("lock").try_lock().unwrap().expect("a free lock").token() > token);
}
