//! Read/write locks through the client: downgrades, renewals, counts of holds.

use redis::Value;
use rlock_client::{Client, Error, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect, denied, run, within};
use std::time::Duration;

pub(crate) async fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let client = connect(&server).await;
    (server, client)
}

#[tokio::test]
async fn a_downgrade_keeps_the_owner_and_its_settings() {
    let (_server, client) = start().await;
    let pages = client.read_write_lock("pages");
    let writer = pages.write().acquire().await.unwrap();
    let owner = writer.owner().to_vec();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.owner(), owner);
    assert_eq!(reader.state(), State::Held);
    drop(reader);
    within("the release of the guard that was dropped", async {
        while pages.read().locked().await.unwrap() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // An owner of the user's own, and a lease.
    for renew in [true, false] {
        let named = pages.write().owner("me").lease(Duration::from_secs(60)).renew(renew);
        let reader = named.acquire().await.unwrap().downgrade().await.unwrap();
        assert_eq!(reader.owner(), b"me");
        assert!(reader.check().unwrap() > Duration::from_secs(50));
        reader.release().await.unwrap();
        assert!(!pages.read().locked().await.unwrap());
    }
}

#[tokio::test]
async fn both_sides_are_renewed() {
    let server = TestServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let client = Client::builder().lease(Duration::from_millis(900)).connect(&url).await.unwrap();
    let (a, b) = (client.read_write_lock("a"), client.read_write_lock("b"));
    let (reader, writer) = (a.read().acquire().await.unwrap(), b.write().acquire().await.unwrap());
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    reader.check().unwrap();
    writer.check().unwrap();
    assert!(denied(a.write().try_acquire().await));
    assert!(denied(b.read().try_acquire().await));
    reader.release().await.unwrap();
    writer.release().await.unwrap();
}

#[tokio::test]
async fn a_writer_may_be_fenced_and_all_of_an_owner_is_released() {
    let (server, client) = start().await;
    let mut raw = server.connect();
    let pages = client.read_write_lock("pages");
    let writer = pages.write().fenced().acquire().await.unwrap();
    assert!(writer.token().is_some_and(|token| token > 0));
    writer.release().await.unwrap();
    for mode in ["WRITE", "READ"] {
        run::<Value>(&mut raw, &format!("RLOCK.ACQUIRE pages gone:1 100000 {mode}"));
    }
    assert!(client.lock("pages").release_all_of("gone:1").await.unwrap());
    assert!(!pages.read().locked().await.unwrap());
    assert!(!client.lock("pages").release_all_of("gone:1").await.unwrap());
}

#[tokio::test]
async fn dropped_waits_of_readers_and_writers_leave_nothing_behind() {
    let (_server, client) = start().await;
    let pages = client.read_write_lock("pages");
    let writer = pages.write().acquire().await.unwrap();
    for _ in 0..50 {
        for side in [pages.read().any(), pages.write().any()] {
            let wait = tokio::time::timeout(Duration::from_millis(fastrand::u64(0..4)), side.acquire());
            assert!(wait.await.is_err());
        }
    }
    within("an empty queue", async {
        while pages.read().info().await.unwrap().waiter_count > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    writer.release().await.unwrap();
    within("a free lock", async {
        while pages.read().locked().await.unwrap() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[test]
fn the_blocking_facade_has_them_too() {
    let server = TestServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let client = rlock_client::blocking::Client::connect(&url).unwrap();
    let pages = client.read_write_lock("pages");
    let (read, write) = (pages.read(), pages.write());
    let writer = write.acquire().unwrap();
    assert!(denied(read.try_acquire()));
    let reader = writer.downgrade().unwrap();
    let other = read.try_acquire().expect("readers share");
    assert!(denied(write.try_acquire()));
    reader.release().unwrap();
    other.release().unwrap();
    client.lock("job").fair().acquire().unwrap().release().unwrap();
    client.close(Duration::from_secs(5)).unwrap();
}

/// Two readers made from one writer were one owner to the server: the release of the first ended what the
/// second believed to hold, and a writer acquired the lock beside it.
#[tokio::test]
async fn a_writer_that_has_entered_twice_becomes_a_reader_only_with_its_last_guard() {
    let (_server, client) = start().await;
    let pages = client.read_write_lock("pages");
    for write in [pages.write(), pages.write().owner("me")] {
        let one = write.acquire().await.unwrap();
        let two = one.reenter().await.unwrap();
        let refused = one.downgrade().await.unwrap_err();
        assert!(
            matches!(&refused, Error::Invalid { message } if message.contains("other guards")),
            "{refused}"
        );
        two.check().unwrap();
        assert!(denied(pages.read().try_acquire().await), "a reader beside a writer");
        let reader = two.downgrade().await.unwrap();
        let other = pages.read().try_acquire().await.expect("readers share");
        other.release().await.unwrap();
        assert!(denied(pages.write().try_acquire().await), "a writer beside a reader");
        reader.release().await.unwrap();
        assert!(!pages.read().locked().await.unwrap());
    }
}

/// INFO shows a hundred holders at most, and an owner that writes and reads only with the hold that came first.
#[tokio::test]
async fn whether_an_owner_holds_it_does_not_depend_on_how_many_do() {
    let (server, client) = start().await;
    let mut raw = server.connect();
    let pages = client.read_write_lock("pages");
    for reader in 0..120 {
        run::<Value>(&mut raw, &format!("RLOCK.ACQUIRE pages reader:{reader} 100000 READ"));
    }
    for reader in 0..120 {
        assert_eq!(pages.read().hold_count(format!("reader:{reader}")).await.unwrap(), 1, "reader:{reader}");
    }
    assert_eq!(pages.read().info().await.unwrap().holders.len(), 100);
    let both = client.read_write_lock("both");
    for line in ["WRITE", "WRITE", "READ"] {
        run::<Value>(&mut raw, &format!("RLOCK.ACQUIRE both me 100000 {line}"));
    }
    assert_eq!(both.write().hold_count("me").await.unwrap(), 2);
    assert_eq!(both.read().hold_count("me").await.unwrap(), 1);
    assert_eq!(client.lock("both").hold_count("me").await.unwrap(), 3);
    assert_eq!(pages.write().hold_count("reader:7").await.unwrap(), 0);
}
