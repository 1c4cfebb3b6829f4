//! Requests and replies that are lost, late or cut off on the way to a server of a cluster.

use rlock_client::Error;
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{SOON, eventually, holder, run, within};

use crate::faults::{FATES, a_waiter_survives, all_free, connect, hasty, recover_from_an_outage};

/// A cluster of one server, which says that it is where a proxy is.
async fn behind_a_proxy() -> (TestServer, Proxy) {
    let server = TestServer::builder().conf("cluster-enabled", "yes").start();
    let proxy = Proxy::to(server.port()).await;
    let mut raw = server.connect();
    let address = proxy.url();
    let (_, port) = address.rsplit_once(':').unwrap();
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

fn url(proxy: &Proxy) -> String {
    proxy.url().replace("redis://", "redis+cluster://")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_twice_whatever_happens_to_requests() {
    let (server, proxy) = behind_a_proxy().await;
    let mut raw = server.connect();
    for command in ["RLOCK.ACQUIRE", "RLOCK.RELEASE"] {
        for fate in FATES {
            let client = connect(&url(&proxy), hasty()).await;
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
    let released = |fate, outcome: Result<(), Error>| match (fate, outcome) {
        // It was granted by message, while nothing more was answered on the connection for commands.
        (Fate::Mute, Err(Error::OutcomeUnknown { .. })) => (),
        (_, outcome) => outcome.unwrap_or_else(|error| panic!("{fate:?}: {error:?}")),
    };
    a_waiter_survives(&server, &proxy, &url(&proxy), "SSUBSCRIBE", released).await;
    // One connection for commands and one for messages; another to look for the server while it is not heard.
    assert!(proxy.most_connections() <= 4, "{}", proxy.most_connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_and_holders_recover_from_an_outage() {
    let (server, proxy) = behind_a_proxy().await;
    recover_from_an_outage(&server, &proxy, &url(&proxy)).await;
}
