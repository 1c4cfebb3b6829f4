//! Holds that outlast their release, that end their renewals, and that go to another process.

use std::process::Command;
use std::time::Duration;

use rlock_client::{Client, Error, Lost};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{SOON, connect, denied, eventually, holder, run, url, waiters, within};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_stays_held_for_at_least_its_time() {
    let server = TestServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let mut raw = server.connect();
    for drops in [false, true] {
        let lock = client.lock("job").at_least(2 * SECOND).session_grace(SECOND);
        let began = Instant::now();
        let guard = lock.acquire().await.unwrap();
        if drops {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        let kept = || (run::<i64>(&mut raw, "PTTL job") <= 2_000).then_some(());
        eventually("the lease to be cut", kept).await;
        assert!(denied(other.lock("job").try_acquire().await));
        assert!(denied(lock.try_acquire().await), "each acquisition is another owner");
        within("the lock", other.lock("job").acquire()).await.unwrap().release().await.unwrap();
        let took = began.elapsed();
        assert!(took >= 2 * SECOND - Duration::from_millis(50) && took < 3 * SECOND, "{took:?}");
    }
    // After that time a release is a release.
    let guard = client.lock("job").at_least(SECOND / 5).acquire().await.unwrap();
    sleep(SECOND / 4).await;
    guard.release().await.unwrap();
    assert_eq!(holder(&mut raw, "job"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_leaves_a_lock_alone_that_is_kept() {
    let server = TestServer::start();
    let client = connect(&server).await;
    client
        .lock("job")
        .at_least(60 * SECOND)
        .session_grace(SECOND / 5)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    client.close(SOON).await.unwrap();
    sleep(SECOND).await;
    let left: i64 = run(&mut server.connect(), "PTTL job");
    assert!((57_000..60_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_for_a_caller_that_never_got_the_lock() {
    let server = TestServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let guard = other.lock("job").acquire().await.unwrap();
    let waiting = tokio::spawn(client.lock("job").at_least(60 * SECOND).acquire());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    waiting.abort();
    guard.release().await.unwrap();
    within("the lock", other.lock("job").acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_not_renewed_beyond_its_limit() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let lock = client.lock("job").lease(SECOND / 2).max_hold(SECOND);
    let began = Instant::now();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, Lost::Overdue);
    let took = began.elapsed();
    assert!(took >= SECOND && took < 3 * SECOND / 2 + SECOND / 10, "{took:?}");
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().contains("longer than its limit"), "{error}");
    // Work that ends in time knows nothing of it.
    lock.run(|held| async move { held.check().map(|_| ()) }).await.unwrap().unwrap();
}

/// Not a test: the other process of the next one.
#[tokio::test]
async fn in_another_process() {
    let (Ok(url), Ok(owner)) = (std::env::var("RLOCK_TEST_URL"), std::env::var("RLOCK_TEST_OWNER")) else {
        return;
    };
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock("job").lease(SECOND).adopt(&owner).await.unwrap();
    assert_eq!(guard.owner(), owner.as_bytes());
    sleep(2 * SECOND).await;
    guard.release().await.unwrap();
    println!("adopted and released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_goes_from_one_process_to_another() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let mut raw = server.connect();
    let guard =
        client.lock("job").lease(30 * SECOND).session_grace(SECOND / 5).fenced().acquire().await.unwrap();
    let (owner, token) = (guard.owner().to_vec(), guard.token());
    let detached = within("the detaching", guard.detach()).await.unwrap();
    assert_eq!((&detached.owner, detached.token), (&owner, token));
    assert!(detached.left > 29 * SECOND && detached.left < 30 * SECOND, "{:?}", detached.left);
    // Neither the end of the client nor that of its connection ends the hold.
    client.close(SOON).await.unwrap();
    sleep(SECOND).await;
    let name = String::from_utf8(owner).unwrap();
    assert_eq!(holder(&mut raw, "job"), Some((name.clone(), 1)));
    let other = tokio::task::spawn_blocking({
        let url = url(&server);
        move || {
            let program = std::env::current_exe().unwrap();
            let mut command = Command::new(program);
            command.args(["--exact", "lasting::in_another_process", "--nocapture"]);
            command.env("RLOCK_TEST_URL", url).env("RLOCK_TEST_OWNER", name).output().unwrap()
        }
    });
    let output = within("the other process", other).await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("adopted and released"), "{output:?}");
    assert_eq!(holder(&mut raw, "job"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_adopted_or_detached_is_refused() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let lock = client.lock("job");
    let nothing = lock.adopt("somebody").await.unwrap_err();
    assert!(matches!(nothing, Error::LockLost { why: Lost::Taken, .. }), "{nothing}");
    assert_eq!(holder(&mut raw, "job"), None, "it was acquired anew");
    let guard = lock.acquire().await.unwrap();
    let here = lock.adopt(guard.owner()).await.unwrap_err();
    assert!(matches!(here, Error::Invalid { .. }), "{here}");
    let again = guard.reenter().await.unwrap();
    let several = again.detach().await.unwrap_err();
    assert!(matches!(&several, Error::Invalid { message } if message.contains("other guards")), "{several}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    eventually("the release", || holder(&mut raw, "job").is_none().then_some(())).await;
    let gone = lock.acquire().await.unwrap();
    run::<u64>(&mut raw, "DEL job");
    let lost = gone.detach().await.unwrap_err();
    assert!(matches!(lost, Error::LockLost { why: Lost::Taken, .. }), "{lost}");
}
