//! Read/write locks through the client: shared holds, waiting, downgrades, watchdogs, losses.

use redis::Value;
use rlock_client::{Client, Error, Lost, State};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{connect, denied, run, within};
use std::time::Duration;

pub(crate) async fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let client = connect(&server).await;
    (server, client)
}

#[tokio::test]
async fn readers_share_and_a_writer_is_alone() {
    let (_server, client) = start().await;
    let pages = client.read_write_lock("pages");
    let (one, two) = (pages.read().acquire().await.unwrap(), pages.read().acquire().await.unwrap());
    assert!(denied(pages.write().try_acquire().await));
    let info = pages.read().info().await.unwrap();
    assert_eq!((info.kind.as_str(), info.holder_count), ("readwrite", 2));
    assert!(info.holders.iter().all(|holder| holder.mode.as_deref() == Some("read")));
    one.release().await.unwrap();
    assert!(denied(pages.write().try_acquire().await));
    two.release().await.unwrap();
    let writer = pages.write().try_acquire().await.expect("a lock without readers");
    assert!(denied(pages.read().try_acquire().await));
    assert!(denied(pages.write().try_acquire().await));
    let inner = writer.reenter().await.unwrap();
    writer.release().await.unwrap();
    assert!(pages.read().locked().await.unwrap());
    inner.release().await.unwrap();
    assert!(!pages.read().locked().await.unwrap());
    client.close(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn waiting_readers_are_granted_the_lock_together() {
    let (_server, client) = start().await;
    let pages = client.read_write_lock("pages");
    let writer = pages.write().acquire().await.unwrap();
    let readers: Vec<_> = (0..5).map(|_| tokio::spawn(pages.read().acquire())).collect();
    let others = pages.clone();
    within("five waiters", async {
        while others.read().info().await.unwrap().waiter_count < 5 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let next = tokio::spawn(pages.write().acquire());
    within("six waiters", async {
        while others.read().info().await.unwrap().waiter_count < 6 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(within("a reader", reader).await.unwrap().unwrap());
    }
    assert!(!next.is_finished());
    // A reader that comes later does not overtake the writer.
    assert!(denied(pages.read().try_acquire().await));
    for guard in guards {
        guard.release().await.unwrap();
    }
    let writer = within("the writer", next).await.unwrap().unwrap();
    writer.release().await.unwrap();
}

#[tokio::test]
async fn a_downgrade_lets_readers_in_and_no_writer() {
    let (server, client) = start().await;
    let mut raw = server.connect();
    let pages = client.read_write_lock("pages");
    let writer = pages.write().acquire().await.unwrap();
    let owner = writer.owner().to_vec();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.owner(), owner);
    assert_eq!(reader.state(), State::Held);
    assert!(denied(pages.write().try_acquire().await));
    let other = pages.read().try_acquire().await.expect("readers share");
    // It is renewed as what it is now.
    run::<i64>(&mut raw, "PEXPIRE pages 1000000");
    other.release().await.unwrap();
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
async fn a_reader_that_was_forced_out_learns_it() {
    let server = TestServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    // It is renewed, and finds out, every third of it; the rest is for a busy machine.
    let client = Client::builder().lease(Duration::from_millis(1_500)).connect(&url).await.unwrap();
    let mut raw = server.connect();
    let lock = client.read_write_lock("pages");
    let (one, two) = (lock.read().acquire().await.unwrap(), lock.read().acquire().await.unwrap());
    let owner = String::from_utf8(one.owner().to_vec()).unwrap();
    run::<Value>(&mut raw, &format!("RLOCK.FORCERELEASE pages {owner}"));
    assert_eq!(within("the loss", one.lost()).await, Lost::Taken);
    two.check().unwrap();
    assert!(matches!(two.release().await, Ok(())));
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
async fn a_plain_lock_of_that_name_is_another_kind() {
    let (_server, client) = start().await;
    let _guard = client.lock("pages").acquire().await.unwrap();
    let pages = client.read_write_lock("pages");
    let error = pages.read().try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::NotALock { .. }), "{error}");
    let error = pages.write().acquire().await.unwrap_err();
    assert!(error.to_string().contains("leave READ and WRITE out"), "{error}");
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

#[tokio::test]
async fn a_fair_lock_waits_in_redissons_list() {
    let (server, client) = start().await;
    let mut raw = server.connect();
    let lock = client.lock("job").fair();
    let guard = lock.acquire().await.unwrap();
    let next = tokio::spawn(lock.acquire());
    let owner = within("a waiter in the list", async {
        loop {
            let list = run::<Vec<String>>(&mut raw, "LRANGE redisson_lock_queue:{job} 0 -1");
            if let [owner] = list.as_slice() {
                return owner.clone();
            }
            // The waiter is a task of this very thread.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(owner.starts_with(client.identity()), "{owner}");
    guard.release().await.unwrap();
    let guard = within("the next", next).await.unwrap().unwrap();
    assert_eq!(guard.owner(), owner.as_bytes());
    assert_eq!(run::<i64>(&mut raw, "EXISTS redisson_lock_queue:{job} redisson_lock_timeout:{job}"), 0);
    guard.release().await.unwrap();
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
