//! Inspecting locks and connections, and ending the holds of other owners.

use std::time::Duration;

use redis::Value;
use rlock_client::Error;
use rlock_testkit::TestServer;
use rlock_testkit::clients::{SOON, connect, eventually, run, within};

#[tokio::test]
async fn info_shows_holders_and_waiters() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let client = connect(&server).await;
    let lock = client.lock("job");
    let free = lock.info().await.unwrap();
    assert_eq!((free.kind.as_str(), free.remaining, free.locked()), ("none", None, false));
    run::<Value>(&mut raw, "RLOCK.ACQUIRE job alice:1 100000");
    run::<Value>(&mut raw, "RLOCK.ACQUIRE job alice:1 100000");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_timeout(SOON * 50).await }
    });
    let info = within("a waiter", async {
        loop {
            let info = lock.info().await.unwrap();
            if info.waiter_count == 1 {
                return info;
            }
        }
    })
    .await;
    assert_eq!((info.kind.as_str(), info.holder_count, info.holds_of("alice:1")), ("mutex", 1, 2));
    assert_eq!(info.remaining, Some(info.holders[0].remaining));
    assert!((50_000..=100_000).contains(&info.holders[0].remaining.as_millis()), "{info:?}");
    let first = &info.queue[0];
    assert!(first.owner.starts_with(client.identity().as_bytes()) && first.via == "enqueue", "{first:?}");
    // The client asks for 2 ms more, so that no wait is shorter than asked for.
    let longest = SOON * 50 + Duration::from_millis(2);
    assert!(first.wait_left.is_some_and(|left| left > SOON * 25 && left <= longest), "{first:?}");
    assert!(first.client_id > 0 && first.age < SOON, "{first:?}");
    run::<i64>(&mut raw, "PERSIST job");
    assert_eq!(lock.info().await.unwrap().remaining, Some(Duration::MAX));
    waiter.abort();
}

#[tokio::test]
async fn holds_of_others_can_be_ended() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let lock = connect(&server).await.lock("job");
    for command in ["RLOCK.ACQUIRE job alice:1 100000", "RLOCK.ACQUIRE job alice:1 100000"] {
        run::<Value>(&mut raw, command);
    }
    assert!(!lock.release_all_of("bob:1").await.unwrap());
    assert!(!lock.force_release_of("bob:1").await.unwrap());
    assert!(lock.release_all_of("alice:1").await.unwrap());
    assert!(!lock.locked().await.unwrap());
    run::<Value>(&mut raw, "RLOCK.ACQUIRE job alice:1 100000");
    assert!(lock.force_release_of("alice:1").await.unwrap());
    assert!(!lock.locked().await.unwrap());
}

#[tokio::test]
async fn whether_there_is_a_connection_can_be_asked() {
    let server = TestServer::start();
    let lock = connect(&server).await.lock("job");
    assert_eq!(lock.connected(), Ok(()));
    let (port, data) = (server.port(), server.kill9());
    let why = eventually("the loss of the connection", || lock.connected().err()).await;
    assert!(matches!(why, Error::Transport { .. }), "{why:?}");
    let _server = TestServer::builder().port(port).dir(data).start();
    eventually("another connection", || lock.connected().ok()).await;
}
