//! Semaphores through the client: the number of holders, waiting, renewals, losses.

use std::time::Duration;

use rlock_client::{Client, Error, Lost};
use rlock_testkit::TestServer;
use rlock_testkit::clients::{denied, within};

use crate::read_write::start;

#[tokio::test]
async fn there_are_as_many_holders_as_permits() {
    let (_server, client) = start().await;
    let printers = client.semaphore("printers", 2);
    let (one, two) = (printers.acquire().await.unwrap(), printers.acquire().await.unwrap());
    assert!(denied(printers.try_acquire().await));
    let info = printers.info().await.unwrap();
    assert_eq!((info.kind.as_str(), info.holder_count), ("permits", 2));
    let three = tokio::spawn(client.semaphore("printers", 2).acquire());
    within("the third to wait", async {
        while printers.info().await.unwrap().waiter_count < 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    one.release().await.unwrap();
    let three = three.await.unwrap().unwrap();
    assert!(denied(printers.try_acquire().await));
    three.release().await.unwrap();
    two.release().await.unwrap();
    assert!(!printers.locked().await.unwrap());
    client.close(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_permit_is_one_however_many_guards_it_has() {
    let (_server, client) = start().await;
    let printers = client.semaphore("printers", 2);
    let outer = printers.acquire().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    assert_eq!(printers.info().await.unwrap().holder_count, 1);
    outer.release().await.unwrap();
    inner.check().unwrap();
    assert_eq!(printers.info().await.unwrap().holder_count, 1);
    inner.release().await.unwrap();
    assert!(!printers.locked().await.unwrap());
    client.close(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_permit_is_renewed_and_a_loss_is_noticed() {
    let server = TestServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let client = Client::builder().lease(Duration::from_millis(300)).connect(&url).await.unwrap();
    let printers = client.semaphore("printers", 1);
    let guard = printers.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    guard.check().unwrap();
    assert!(denied(printers.try_acquire().await));
    assert!(printers.force_release().await.unwrap());
    let lost = within("the loss", guard.lost()).await;
    assert_eq!(lost, Lost::Taken);
    drop(guard);
    client.close(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn wrong_numbers_and_other_kinds_are_refused() {
    let (_server, client) = start().await;
    for permits in [0, 1 << 31] {
        let refused = client.semaphore("printers", permits).try_acquire().await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{permits}: {refused:?}");
    }
    let lock = client.lock("plain").acquire().await.unwrap();
    let other = client.semaphore("plain", 3).try_acquire().await;
    assert!(matches!(other, Err(Error::NotALock { .. })), "{other:?}");
    lock.release().await.unwrap();
    let permit = client.semaphore("printers", 3).acquire().await.unwrap();
    let other = client.lock("printers").try_acquire().await;
    assert!(matches!(other, Err(Error::NotALock { .. })), "{other:?}");
    permit.release().await.unwrap();
    client.close(Duration::from_secs(5)).await.unwrap();
}
