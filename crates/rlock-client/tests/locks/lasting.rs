//! Holds that outlast their release, that end their renewals, and that go to another process.

use std::time::Duration;

use rlock_client::Error;
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect, denied, eventually, holder, run, within};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_dropped_keeps_its_lock_for_at_least_its_time() {
    let server = TestServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let mut raw = server.connect();
    let lock = client.lock("job").at_least(2 * SECOND).session_grace(SECOND);
    let began = Instant::now();
    drop(lock.acquire().await.unwrap());
    let kept = || (run::<i64>(&mut raw, "PTTL job") <= 2_000).then_some(());
    eventually("the lease to be cut", kept).await;
    assert!(denied(lock.try_acquire().await), "each acquisition is another owner");
    within("the lock", other.lock("job").acquire()).await.unwrap().release().await.unwrap();
    let took = began.elapsed();
    assert!(took >= 2 * SECOND - Duration::from_millis(50) && took < 3 * SECOND, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_adopted_or_detached_is_refused() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let lock = client.lock("job").fenced();
    let guard = lock.acquire().await.unwrap();
    let here = lock.adopt(guard.owner()).await.unwrap_err();
    assert!(matches!(here, Error::Invalid { .. }), "{here}");
    let again = guard.reenter().await.unwrap();
    let several = again.detach().await.unwrap_err();
    assert!(matches!(&several, Error::Invalid { message } if message.contains("other guards")), "{several}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    eventually("the release", || holder(&mut raw, "job").is_none().then_some(())).await;
    let guard = lock.acquire().await.unwrap();
    let (owner, token) = (guard.owner().to_vec(), guard.token());
    let detached = within("the detaching", guard.detach()).await.unwrap();
    assert_eq!((&detached.owner, detached.token), (&owner, token));
    let guard = client.lock("job").adopt(&owner).await.unwrap();
    assert_eq!(guard.owner(), owner);
    guard.release().await.unwrap();
}
