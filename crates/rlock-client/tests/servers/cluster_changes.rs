//! Clusters that change: slots that move to another server, primaries that fail.

use std::time::{Duration, Instant};

use rlock_client::{Builder, Client, Guard, Lost};
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::clients::{counter, denied, eventually, holder, run, waiters, within};

use crate::sentinel::wait_for;

/// A lease that outlasts a fail-over on a busy machine.
const LEASE: Duration = Duration::from_secs(24);

async fn connect(cluster: &Cluster, builder: Builder) -> Client {
    within("a client to connect", builder.connect(&cluster.url())).await.expect("a client")
}

async fn await_waiters(server: &TestServer, count: u64) {
    eventually("waiters", || (waiters(server) == count).then_some(())).await;
}

pub(crate) fn owner(server: &TestServer, lock: &str) -> Option<Vec<u8>> {
    holder(&mut server.connect(), lock).map(|(owner, _)| owner.into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_with_locks_that_are_held_and_awaited() {
    let cluster = Cluster::start(3);
    let (from, to) = (&cluster.primaries[0], &cluster.primaries[2]);
    // Renewed every second.
    let client = connect(&cluster, Client::builder().lease(Duration::from_secs(3))).await;
    let tag = cluster.lock_on(0, 'a');
    let names = ["1", "2", "3"].map(|end| format!("{{{tag}}}{end}"));
    let held = client.lock(&names[0]).acquire().await.unwrap();
    let briefly = client.lock(&names[1]).acquire().await.unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| wait_for(&client, &names[0])).collect();
    await_waiters(from, 5).await;
    // Heard on the same connection, and not moved.
    let stays = cluster.lock_on(0, 'b');
    let staying = client.lock(&stays).acquire().await.unwrap();
    let mut stayer = wait_for(&client, &stays);
    await_waiters(from, 6).await;
    let half_way = async || {
        // The first server has the slot, the other the locks.
        await_waiters(from, 1).await;
        assert_eq!((owner(from, &stays).unwrap(), waiters(to)), (staying.owner().to_vec(), 0));
        let renewed = counter(to, "renewed");
        eventually("renewals there", || (counter(to, "renewed") >= renewed + 2).then_some(())).await;
        assert!(denied(client.lock(&names[0]).try_acquire().await));
        assert_eq!(client.lock(&names[0]).hold_count(held.owner()).await.unwrap(), 1);
        // Whatever is new begins there.
        let new = within("a lock", client.lock(&names[2]).acquire()).await.unwrap();
        within("its release", new.release()).await.unwrap();
        within("a release", briefly.release()).await.unwrap();
        waiting.push(wait_for(&client, &names[0]));
    };
    cluster.move_slot_of(&names[0], 0, 2, half_way).await;
    // All ask again there.
    await_waiters(to, 6).await;
    held.check().unwrap();
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    within("the release", held.release()).await.unwrap();
    for waiting in waiting {
        within("a lock", waiting).await.unwrap().unwrap();
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut stayer).await.is_err());
    within("the release", staying.release()).await.unwrap();
    within("the lock", stayer).await.unwrap().unwrap();
    assert_eq!(names.each_ref().map(|name| owner(to, name)), [None, None, None]);
}

/// The next server may have tied the session to a connection that has ended since: the heartbeats of the old one proved the hold until
/// the end of its lease.
#[tokio::test(flavor = "multi_thread")]
async fn once_the_next_server_was_asked_the_old_one_proves_no_session() {
    let cluster = Cluster::start(3);
    let next = &cluster.primaries[2];
    let grace = Duration::from_secs(3);
    let client = connect(&cluster, Client::builder().lease(LEASE)).await;
    let name = cluster.lock_on(0, 'a');
    // It has a connection to the next server.
    let _there = client.lock(cluster.lock_on(2, 'a')).acquire().await.unwrap();
    let began = Instant::now();
    let held = client.lock(&name).session_grace(grace).acquire().await.unwrap();
    cluster
        .move_slot_of(&name, 0, 2, async || {
            run::<()>(&mut next.connect(), "CLIENT PAUSE 30000 WRITE");
            let lost = within("the loss", held.lost()).await;
            let after = began.elapsed();
            run::<()>(&mut next.connect(), "CLIENT UNPAUSE");
            assert_eq!(lost, Lost::Unreachable);
            // A renewal is due after a third of the lease; its connection is given up after half the grace.
            assert!(after < LEASE / 3 + grace + Duration::from_millis(800), "{after:?}");
        })
        .await;
}

/// After a re-entry the heartbeats of this server prove the hold, and nothing else does.
async fn reenter_at(next: &TestServer, held: &Guard) {
    let entered = within("a re-entry", held.reenter()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(2), held.lost()).await.is_err());
    next.signal(libc::SIGSTOP);
    let lost = tokio::time::timeout(LEASE / 6, held.lost()).await;
    next.signal(libc::SIGCONT);
    assert_eq!(lost.ok(), Some(Lost::Unreachable));
    drop(entered);
}

/// A re-entry was carried out by the next server, which tied the session to its connection: the heartbeats of the old one proved the
/// hold until the end of its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_reentry_ties_the_session_to_the_server_that_carried_it_out() {
    let cluster = Cluster::start(3);
    let next = &cluster.primaries[2];
    let client = connect(&cluster, Client::builder().lease(LEASE)).await;
    let tag = cluster.lock_on(0, 'a');
    let [half_way, moved] = ["1", "2"].map(|end| format!("{{{tag}}}{end}"));
    let acquire =
        async |name| client.lock(name).session_grace(Duration::from_millis(1_500)).acquire().await.unwrap();
    // By ASK.
    let first = acquire(&half_way).await;
    let second = acquire(&moved).await;
    cluster.move_slot_of(&half_way, 0, 2, async || reenter_at(next, &first).await).await;
    // By MOVED.
    reenter_at(next, &second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_an_answer_waits_while_the_cluster_is_down() {
    let mut cluster = Cluster::start_with_replicas(3);
    let client = connect(&cluster, Client::builder().lease(LEASE)).await;
    let [failing, other] = [0, 1].map(|number| client.lock(cluster.lock_on(number, 'a')));
    assert!(!failing.locked().await.unwrap());
    cluster.kill(0);
    let down = || {
        let info: String = clients::run(&mut cluster.primaries[0].connect(), "CLUSTER INFO");
        info.contains("cluster_state:fail").then_some(())
    };
    eventually("the cluster to be down", down).await;
    // One shard has failed, and the cluster refuses everything until the replica has taken over.
    within("a lock", other.acquire()).await.unwrap().release().await.unwrap();
    within("a lock", failing.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_at_one_moment() {
    let cluster = Cluster::start(2);
    let client = connect(&cluster, Client::builder().lease(LEASE)).await;
    let name = cluster.lock_on(0, 'z');
    let held = client.lock(&name).acquire().await.unwrap();
    let waiting = wait_for(&client, &name);
    await_waiters(&cluster.primaries[0], 1).await;
    if !cluster.move_slot_at_once(&name, 0, 1) {
        println!("this server cannot do that");
        return;
    }
    await_waiters(&cluster.primaries[1], 1).await;
    assert_eq!(owner(&cluster.primaries[1], &name).unwrap(), held.owner());
    within("the release", held.release()).await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap();
}
