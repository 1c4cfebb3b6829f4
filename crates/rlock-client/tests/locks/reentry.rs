//! Several guards of one hold: entered and released at the same time, and with replies lost.

use std::task::{Context, Waker};
use std::time::Duration;

use rlock_client::{Client, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{SOON, connect, eventually, holder, within};

/// When two tasks released the last two guards at the same time, both released the last hold, and one of them
/// learned that the lock had no longer been held.
#[tokio::test(flavor = "multi_thread")]
async fn two_guards_released_at_once_were_both_held() {
    let server = TestServer::start();
    let client = connect(&server).await;
    for round in 0..2_000 {
        let one = within("the lock", client.lock("lock").acquire()).await.unwrap();
        let two = one.reenter().await.unwrap();
        let (one, two) = (tokio::spawn(one.release()), tokio::spawn(two.release()));
        let outcomes = (within("a release", one).await.unwrap(), within("a release", two).await.unwrap());
        assert_eq!(outcomes, (Ok(()), Ok(())), "round {round}");
    }
    assert_eq!(holder(&mut server.connect(), "lock"), None);
    client.close(SOON).await.unwrap();
}

/// Holds whose release was carried out but not confirmed were counted on: a re-entry asked for one hold
/// too many, was denied it, and took a lock that was held for lost.
#[tokio::test(flavor = "multi_thread")]
async fn holds_that_may_have_been_released_are_not_counted_on() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    let builder = Client::builder().response_timeout(Duration::from_millis(500));
    let client = within("a client", builder.connect(&proxy.url())).await.unwrap();
    let guard = within("the lock", client.lock("lock").acquire()).await.unwrap();
    let others = [guard.reenter().await.unwrap(), guard.reenter().await.unwrap()];
    for other in others {
        proxy.once("RLOCK.RELEASE", Fate::CutAfter);
        let outcome = within("an outcome", other.release()).await;
        assert!(matches!(outcome, Err(Error::OutcomeUnknown { .. })), "{outcome:?}");
        let lock = client.lock("lock");
        within("another connection", async { while lock.locked().await.is_err() {} }).await;
    }
    let mut raw = server.connect();
    assert_eq!(holder(&mut raw, "lock").unwrap().1, 1);
    let again = tokio::join!(guard.reenter(), guard.reenter(), guard.reenter());
    let again = [again.0.unwrap(), again.1.unwrap(), again.2.unwrap()];
    guard.check().unwrap();
    assert_eq!(holder(&mut raw, "lock").unwrap().1, 4);
    drop(again);
    eventually("one hold", || (holder(&mut raw, "lock").unwrap().1 == 1).then_some(())).await;
    guard.release().await.unwrap();
    assert_eq!(holder(&mut raw, "lock"), None);
}

/// The release of a guard that was not the last, given up when the last one was gone too, released whatever
/// the owner held by that time: an owner that the user names may hold the lock again.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_given_up_late_ends_no_later_hold_of_its_owner() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let lock = client.lock("lock").owner("me");
    let mut raw = server.connect();
    for _ in 0..20 {
        let one = within("the lock", lock.acquire()).await.unwrap();
        let two = one.reenter().await.unwrap();
        let mut release = Box::pin(one.release());
        let polled = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        within("the last release", two.release()).await.unwrap();
        if polled.is_ready() {
            // On a busy machine the answer may come while it is asked for.
            continue;
        }
        let later = within("the lock", lock.acquire()).await.unwrap();
        drop(release);
        // Its requests are answered before these.
        for _ in 0..5 {
            client.lock("other").acquire().await.unwrap().release().await.unwrap();
        }
        assert_eq!(holder(&mut raw, "lock"), Some(("me".to_string(), 1)));
        later.release().await.unwrap();
    }
}
