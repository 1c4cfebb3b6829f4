//! Servers that are restarted, stopped, drained, or without the module.

use std::time::{Duration, Instant};

use rlock_client::{Client, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{
    SOON, connect, connect_with, counter, eventually, holder, run, waiters, within,
};

fn quick() -> rlock_client::Builder {
    Client::builder().response_timeout(Duration::from_millis(500))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_with_its_data_loses_no_lock() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let client = connect(&server).await;
    let held = client.lock("lock").acquire().await.unwrap();
    let port = server.port();
    let stopped = server.kill9();
    let begin = Instant::now();
    // An answer even while the server is down.
    let error = client.lock("other").acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
    let server = TestServer::builder().conf("appendonly", "yes").port(port).dir(stopped).start();
    held.check().unwrap();
    within("the release", held.release()).await.unwrap();
    assert_eq!(holder(&mut server.connect(), "lock"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_stopped_and_continues() {
    let server = TestServer::start();
    let client = connect_with(&server, quick()).await;
    let held = client.lock("held").acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    // Requests that time out here are carried out when the server continues.
    let trying = client.clone();
    let error = within("an error", trying.lock("tried").try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let releasing = tokio::spawn(held.release());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.signal(libc::SIGCONT);
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    let released = within("the release", releasing).await.unwrap();
    assert!(matches!(released, Ok(()) | Err(Error::OutcomeUnknown { .. })), "{released:?}");
    let mut raw = server.connect();
    for lock in ["held", "tried"] {
        eventually("a free lock", || holder(&mut raw, lock).is_none().then_some(())).await;
    }
    assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
}

/// A stopped server carries out earlier requests when it continues, however late: a lock that no client knew
/// about was held for as long as its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_stopped_server_carries_out_after_its_lease_leaves_no_lock() {
    let server = TestServer::start();
    let lease = Duration::from_secs(2);
    let client = connect_with(&server, quick().lease(lease)).await;
    server.signal(libc::SIGSTOP);
    let error = client.lock("lock").acquire_timeout(Duration::from_millis(700)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    // The client knows by its own clock that the lease of this request has ended.
    tokio::time::sleep(lease * 2).await;
    server.signal(libc::SIGCONT);
    eventually("the request", || (counter(&server, "acquired") == 1).then_some(())).await;
    let mut raw = server.connect();
    eventually("a free lock", || holder(&mut raw, "lock").is_none().then_some(())).await;
    assert_eq!(counter(&server, "released"), 1, "it was free at the end of its lease only");
    client.close(SOON).await.unwrap();
}

#[tokio::test]
async fn a_module_that_is_gone_is_reported() {
    let server = TestServer::start();
    let client = connect_with(&server, quick()).await;
    let port = server.port();
    let stopped = server.kill9();
    let _server = TestServer::builder().without_module().port(port).dir(stopped).start();
    for error in [
        client.lock("lock").try_acquire().await.unwrap_err(),
        client.lock("lock").acquire_timeout(SOON).await.unwrap_err(),
        client.lock("lock").locked().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::ModuleMissing { .. }), "{error}");
    }
}

/// Before a planned fail-over a server is drained: it refuses acquisitions and dismisses its waiters. A
/// client with time left waits and acquires the lock after the drain; one without gets an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_drained_is_waited_for() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = connect(&server).await;
    let held = client.lock("lock").acquire().await.unwrap();
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    run::<()>(&mut raw, "CONFIG SET rlock.accept no");
    eventually("an empty queue", || (waiters(&server) == 0).then_some(())).await;
    let lock = client.lock("free");
    let later = tokio::spawn(async move { lock.acquire().await });
    let error = client.lock("other").try_acquire().await.unwrap_err();
    assert!(
        matches!(error, Error::Refused { .. }) && error.to_string().contains("rlock.accept is no"),
        "{error}"
    );
    let error = client.lock("other").acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    within("the release", held.release()).await.unwrap();
    assert!(!waiting.is_finished() && !later.is_finished());
    run::<()>(&mut raw, "CONFIG SET rlock.accept yes");
    for waiting in [waiting, later] {
        within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}
