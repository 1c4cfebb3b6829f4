//! Servers that are restarted, stopped, drained, or without the module.

use std::time::Duration;

use rlock_client::{Client, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{SOON, connect_with, counter, eventually, holder};

fn quick() -> rlock_client::Builder {
    Client::builder().response_timeout(Duration::from_millis(500))
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
