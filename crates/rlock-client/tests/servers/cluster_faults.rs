//! Requests and replies that are lost, late or cut off on the way to a server of a cluster.

use std::time::Duration;

use rlock_client::{Builder, Client, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{SOON, eventually, holder, outage, run, waiters, within};

/// Long after the client has given the connection up and asked again, in ms.
const LATE: u64 = 1_500;

/// All that can go wrong with one request.
const FATES: [Fate; 5] = [Fate::Swallow, Fate::CutBefore, Fate::CutAfter, Fate::Mute, Fate::Late(LATE)];

/// A cluster of one server, which says that it is where a proxy is.
async fn behind_a_proxy() -> (TestServer, Proxy) {
    let server = TestServer::builder().conf("cluster-enabled", "yes").start();
    let proxy = Proxy::to(server.port()).await;
    let mut raw = server.connect();
    let (_, port) =
        proxy.url().rsplit_once(':').map(|(host, port)| (host.to_string(), port.to_string())).unwrap();
    run::<()>(&mut raw, "CONFIG SET cluster-announce-ip 127.0.0.1");
    run::<()>(&mut raw, &format!("CONFIG SET cluster-announce-port {port}"));
    run::<()>(&mut raw, "CLUSTER ADDSLOTSRANGE 0 16383");
    eventually("the cluster to begin", || {
        let info: String = run(&mut raw, "CLUSTER INFO");
        let slots: String = format!("{:?}", run::<Vec<redis::Value>>(&mut raw, "CLUSTER SLOTS"));
        (info.contains("cluster_state:ok") && slots.contains(&format!("int({port})"))).then_some(())
    })
    .await;
    (server, proxy)
}

/// A client that gives a connection up soon, and not so soon that a busy machine looks like a fault.
async fn connect(proxy: &Proxy) -> Client {
    connect_with(proxy, Client::builder()).await
}

async fn connect_with(proxy: &Proxy, builder: Builder) -> Client {
    let builder = builder.response_timeout(Duration::from_millis(500));
    let url = proxy.url().replace("redis://", "redis+cluster://");
    within("a client to connect", builder.connect(&url)).await.unwrap()
}

/// The lock is free, and the queue is empty.
async fn all_free(server: &TestServer, lock: &str) {
    let mut raw = server.connect();
    eventually("a free lock", || holder(&mut raw, lock).is_none().then_some(())).await;
    eventually("an empty queue", || (waiters(server) == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_twice_whatever_happens_to_requests() {
    let (server, proxy) = behind_a_proxy().await;
    let mut raw = server.connect();
    for command in ["RLOCK.ACQUIRE", "RLOCK.RELEASE"] {
        for fate in FATES {
            let client = connect(&proxy).await;
            let late = proxy.late();
            proxy.once(command, fate);
            let guard = within("the lock", client.lock("lock").acquire()).await.unwrap();
            let owner = String::from_utf8(guard.owner().to_vec()).unwrap();
            if command == "RLOCK.ACQUIRE" && matches!(fate, Fate::Late(_)) {
                // It finds the owner there and adds nothing.
                eventually("the late request", || (proxy.late() > late).then_some(())).await;
            }
            assert_eq!(holder(&mut raw, "lock"), Some((owner, 1)), "{command} {fate:?}");
            drop(guard);
            all_free(&server, "lock").await;
            client.close(SOON).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_survives_whatever_happens_to_its_requests() {
    let (server, proxy) = behind_a_proxy().await;
    let mut raw = server.connect();
    for command in ["SSUBSCRIBE", "RLOCK.ACQUIRE", "RLOCK.RENEW"] {
        for fate in FATES {
            let client = connect(&proxy).await;
            run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
            proxy.once(command, fate);
            let lock = client.lock("lock");
            let waiting = tokio::spawn(async move { lock.acquire().await });
            eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
            run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
            let guard = within("the lock", waiting).await.unwrap().unwrap();
            guard.check().unwrap();
            if command == "RLOCK.RENEW" {
                // It confirms what the message gave, and is sent only if the lock is held for a while.
                let whole = Duration::from_secs(6);
                eventually("the confirmation", || (guard.check().unwrap() > whole).then_some(())).await;
            }
            assert_eq!(holder(&mut raw, "lock").unwrap().0.as_bytes(), guard.owner(), "{command} {fate:?}");
            match (fate, guard.release().await) {
                // It was granted by message, while nothing more was answered on the connection for commands.
                (Fate::Mute, Err(Error::OutcomeUnknown { .. })) => (),
                (_, outcome) => outcome.unwrap_or_else(|error| panic!("{command} {fate:?}: {error:?}")),
            }
            all_free(&server, "lock").await;
            client.close(SOON).await.unwrap();
        }
    }
    // One connection for commands and one for messages; another to look for the server while it is not heard.
    assert!(proxy.most_connections() <= 4, "{}", proxy.most_connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_and_holders_recover_from_an_outage() {
    let (server, proxy) = behind_a_proxy().await;
    let mut raw = server.connect();
    let (outage, lease) = outage();
    let client = connect_with(&proxy, Client::builder().lease(lease)).await;
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock other 60000");
    let held = client.lock("held").acquire().await.unwrap();
    let lock = client.lock("lock");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    proxy.set_down(true);
    tokio::time::sleep(outage).await;
    run::<u64>(&mut raw, "RLOCK.RELEASE lock other");
    held.check().unwrap();
    proxy.set_down(false);
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    within("the release", held.release()).await.unwrap();
    all_free(&server, "held").await;
}
