//! Sessions of durable locks and of the blocking interface.

use std::time::Duration;

use rlock_client::{Client, Durability, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::{connect, connect_with, denied, holder, run, within};

const GRACE: Duration = Duration::from_secs(1);

/// The connections that the holds of a lock are tied to.
async fn sessions(client: &Client, lock: &str) -> Vec<u64> {
    // Its own connection may just have been killed.
    let info = within("an answer", async {
        loop {
            match client.lock(lock).info().await {
                Ok(info) => return info,
                Err(Error::Transport { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    info.holders.iter().filter_map(|holder| holder.session).collect()
}

/// The renewals that wait for replicas use a connection of their own, which must not keep the tie.
#[tokio::test(flavor = "multi_thread")]
async fn a_durable_lock_is_tied_to_the_connection_of_the_heartbeat() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    let client = connect_with(&primary, Client::builder().session_grace(GRACE)).await;
    let lock = client.lock("lock").durability(Durability::Replicas(1));
    let guard = within("the replica", lock.acquire()).await.unwrap();
    let tied = sessions(&client, "lock").await;
    let list: String = run(&mut primary.connect(), "CLIENT LIST");
    let tied = list.lines().find(|line| line.contains(&format!("id={} ", tied[0]))).expect("it is connected");
    assert!(!tied.contains("cmd=wait"), "{tied}");
    tokio::time::sleep(2 * GRACE).await;
    guard.check().unwrap();
    assert_eq!(holder(&mut primary.connect(), "lock").unwrap().0.as_bytes(), guard.owner());
    let other = connect(&primary).await;
    assert!(denied(other.lock("lock").try_acquire().await));
    guard.release().await.unwrap();
}

#[test]
fn the_blocking_interface_has_sessions_too() {
    let server = TestServer::start();
    let client = rlock_client::blocking::Client::connect(&clients::url(&server)).unwrap();
    let lock = client.lock("lock").session_grace(GRACE);
    let guard = lock.acquire().unwrap();
    assert!(lock.info().unwrap().holders[0].session.is_some());
    guard.release().unwrap();
}

#[tokio::test]
async fn a_grace_that_no_heartbeat_keeps_alive_is_refused() {
    let server = TestServer::start();
    let client = connect(&server).await;
    for grace in [Duration::ZERO, Duration::MAX] {
        let lock = client.lock("lock").session_grace(grace);
        let builder = Client::builder().session_grace(grace);
        for error in
            [lock.acquire().await.unwrap_err(), builder.connect(&clients::url(&server)).await.unwrap_err()]
        {
            assert!(matches!(error, Error::Invalid { .. }), "{error}");
        }
    }
}
