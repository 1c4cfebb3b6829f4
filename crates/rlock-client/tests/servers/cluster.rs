//! Clusters: locks on every shard, waits handed over on every shard, slots that move, primaries that fail.

use std::time::Duration;

use rlock_client::{Client, Durability, Error};
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::clients::{connect_with, denied, eventually, holder, run, waiters, within};
use rlock_testkit::rights::{refusals, set_user};

async fn connect(cluster: &Cluster) -> Client {
    within("a client to connect", Client::connect(&cluster.url())).await.expect("a client")
}

/// Connections to a server that are not the test's own.
fn clients(server: &TestServer) -> usize {
    let list: String = run(&mut server.connect(), "CLIENT LIST");
    list.lines().filter(|line| line.contains("resp=3")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_every_shard_work() {
    let cluster = Cluster::start(3);
    // One of them is enough to find the others.
    let one = format!("redis+cluster://127.0.0.1:1,127.0.0.1:{}", cluster.primaries[1].port());
    let client = within("a client", Client::connect(&one)).await.unwrap();
    for (number, primary) in cluster.primaries.iter().enumerate() {
        let name = cluster.lock_on(number, 'a');
        let lock = client.lock(&name);
        let guard = within("a lock", lock.acquire()).await.unwrap();
        assert_eq!(holder(&mut primary.connect(), &name).unwrap().0.as_bytes(), guard.owner());
        assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 1);
        assert!(denied(lock.try_acquire().await));
        let again = guard.reenter().await.unwrap();
        assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 2);
        guard.release().await.unwrap();
        drop(again);
        eventually("the release", || holder(&mut primary.connect(), &name).is_none().then_some(())).await;
        // One for commands, and one for messages, since it would have waited.
        assert_eq!(clients(primary), 2);
    }
    client.close(Duration::from_secs(5)).await.unwrap();
}

/// The rows of docs/SECURITY.md, on each shard and while a slot moves.
#[tokio::test(flavor = "multi_thread")]
async fn the_least_rights_suffice_in_a_cluster() {
    let cluster = Cluster::start_with_replicas(3);
    let uses = ["connect", "wait", "a cluster", "durability"];
    for primary in &cluster.primaries {
        set_user(primary, &mut primary.connect(), "billing", &uses).unwrap();
    }
    let url = cluster.url().replace("://", "://billing:any@");
    let client = within("a client", Client::connect(&url)).await.unwrap();
    for (number, primary) in cluster.primaries.iter().enumerate() {
        let name = format!("billing:{{{}}}", cluster.lock_on(number, 'a'));
        let guard = within("a lock", client.lock(&name).acquire()).await.unwrap();
        let lock = client.lock(&name).durability(Durability::Majority);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually("a waiter", || (waiters(primary) == 1).then_some(())).await;
        guard.release().await.unwrap();
        within("a turn", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
    // Half-way the old server refers to the new one with ASK, afterwards with MOVED.
    let tag = cluster.lock_on(0, 'b');
    let lock = client.lock(format!("billing:{{{tag}}}"));
    let once = async || within("a lock", lock.acquire()).await.unwrap().release().await.unwrap();
    cluster.move_slot_of(&tag, 0, 1, once).await;
    once().await;
    client.close(Duration::from_secs(5)).await.unwrap();
    for primary in &cluster.primaries {
        assert_eq!(refusals(&mut primary.connect(), "billing").unwrap(), (0, String::new()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_is_not() {
    let single = TestServer::start();
    let url = clients::url(&single).replace("redis://", "redis+cluster://");
    let error = within("an error", Client::connect(&url)).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("redis://"), "{error}");
    let cluster = Cluster::start(2);
    let elsewhere = cluster.lock_on(1, 'a');
    let client = connect_with(&cluster.primaries[0], Client::builder()).await;
    let error = client.lock(elsewhere).acquire().await.unwrap_err();
    assert!(error.to_string().contains("connect with redis+cluster://"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_need_leave_for_what_clusters_add() {
    let cluster = Cluster::start(2);
    let may = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info +pttl";
    for primary in &cluster.primaries {
        let raw = &mut primary.connect();
        run::<()>(raw, &format!("ACL SETUSER app on >secret ~* resetchannels &rlock:grants:* {may}"));
    }
    let url = cluster.url().replace("://", "://app:secret@");
    let error = within("an error", Client::connect(&url)).await.unwrap_err();
    assert!(
        matches!(error, Error::Permission { .. })
            && error.advice().is_some_and(|advice| advice.contains("+cluster|slots")),
        "{error}"
    );
    for primary in &cluster.primaries {
        run::<()>(&mut primary.connect(), "ACL SETUSER app +cluster|slots +asking +ssubscribe");
    }
    let client = within("a client", Client::connect(&url)).await.unwrap();
    let lock = client.lock(cluster.lock_on(1, 'a'));
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter", || (waiters(&cluster.primaries[1]) == 1).then_some(())).await;
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_shard_counts_its_own_replicas() {
    let cluster = Cluster::start_with_replicas(3);
    let client = connect(&cluster).await;
    let name = cluster.lock_on(2, 'a');
    let lock = client.lock(&name).durability(Durability::Majority);
    let guard = within("a lock", lock.acquire()).await.unwrap();
    let mut replica = cluster.replicas[2].connect();
    run::<()>(&mut replica, "READONLY");
    assert_eq!(holder(&mut replica, &name).unwrap().0.as_bytes(), guard.owner());
    guard.release().await.unwrap();
    let error = client.lock(&name).durability(Durability::Replicas(2)).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Durability { wanted: 2, reached: 1, .. }), "{error}");
}
