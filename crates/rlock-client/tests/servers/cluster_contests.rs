//! Many clients want the same locks of a cluster while it changes: no two ever hold one, and nothing is left behind.

use std::sync::Arc;
use std::time::Duration;

use rlock_client::{Client, Durability};
use rlock_testkit::clients::cluster::{Cluster, failing_soon};
use rlock_testkit::clients::contest::Contest;
use rlock_testkit::clients::{connect_to_new, eventually, seed, waiters, within};

use crate::cluster_changes::owner;

/// A lease that outlasts a fail-over on a busy machine.
const LEASE: Duration = Duration::from_secs(24);

#[tokio::test(flavor = "multi_thread")]
async fn never_two_holders() {
    fastrand::seed(seed());
    let mut cluster = Cluster::start_with_replicas(3);
    let names = (0..3).map(|number| cluster.lock_on(number, 'a')).collect();
    let contest = Contest::new(names, Durability::Replicas(1));
    let workers = contest.begin(&cluster, 4).await;
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        contest.go_on(50).await;
        cluster.move_slot_of(&contest.names[0], from, to, async || contest.go_on(20).await).await;
    }
    cluster.await_agreement();
    contest.go_on(50).await;
    let port = cluster.primaries[0].port();
    let stopped = cluster.kill(0);
    let heir = &cluster.replicas[0];
    eventually("a new primary", || (heir.info("replication")["role"] == "master").then_some(())).await;
    // It has lost its data, so it must come back as a replica.
    let _old = failing_soon().port(port).dir(stopped).start();
    contest.go_on(100).await;
    contest.end(workers).await;
    for (server, name) in [heir, &cluster.primaries[0], &cluster.primaries[1]].iter().zip(&contest.names) {
        eventually("all locks to be free", || owner(server, name).is_none().then_some(())).await;
        eventually("an empty queue", || (waiters(server) == 0).then_some(())).await;
    }
}

/// A server that gives a slot away ends all subscriptions in it unasked, at any moment between request and reply.
#[tokio::test(flavor = "multi_thread")]
async fn many_slots_move_while_others_are_being_subscribed_to() {
    fastrand::seed(seed());
    let cluster = Cluster::start(2);
    let names: Vec<_> = ('a'..='z').map(|letter| cluster.lock_on(0, letter)).collect();
    let contest = Contest::new(names, Durability::None);
    let workers = contest.begin(&cluster, 20).await;
    for (from, to) in [(0, 1), (1, 0)] {
        for name in &contest.names {
            cluster.move_slot_of(name, from, to, async || ()).await;
        }
        contest.go_on(100).await;
    }
    contest.end(workers).await;
    for name in &contest.names {
        eventually("all locks to be free", || owner(&cluster.primaries[0], name).is_none().then_some(()))
            .await;
    }
    for primary in &cluster.primaries {
        eventually("an empty queue", || (waiters(primary) == 0).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_at_one_moment() {
    fastrand::seed(seed());
    let cluster = Cluster::start(2);
    let names: Vec<_> = ('a'..='f').map(|letter| cluster.lock_on(0, letter)).collect();
    let contest = Contest::new(names, Durability::None);
    let workers = contest.begin(&cluster, 6).await;
    for (from, to) in [(0, 1), (1, 0)] {
        for name in &contest.names {
            if !cluster.move_slot_at_once(name, from, to) {
                println!("this server cannot do that");
            }
        }
        contest.go_on(50).await;
    }
    contest.end(workers).await;
    for name in &contest.names {
        eventually("all locks to be free", || owner(&cluster.primaries[0], name).is_none().then_some(()))
            .await;
    }
}

/// A CANCEL that was refused here once shifted the replies to all that was sent with it: a release that had been
/// redirected was taken for done, and the lock stayed held until the end of its lease.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one history")]
async fn cancellations_while_slots_move_leave_nothing_behind() {
    let cluster = Cluster::start(3);
    let client = connect_to_new(&Client::builder().lease(LEASE), &cluster.url()).await;
    let mut random = fastrand::Rng::with_seed(seed());
    let names: Arc<Vec<_>> = Arc::new(['a', 'b', 'c', 'd'].map(|letter| cluster.lock_on(0, letter)).into());
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (client, names, mut random) = (client.clone(), names.clone(), random.fork());
        tasks.push(tokio::spawn(async move {
            for _ in 0..100 {
                let lock = client.lock(&names[random.usize(..names.len())]);
                let life = Duration::from_micros(random.u64(..6_000));
                match random.u8(..3) {
                    0 => drop(tokio::time::timeout(life, lock.acquire()).await),
                    1 => drop(tokio::time::timeout(life, lock.try_acquire()).await),
                    _ => {
                        if let Ok(Ok(guard)) = tokio::time::timeout(life * 4, lock.acquire()).await {
                            drop(tokio::time::timeout(life / 8, guard.release()).await);
                        }
                    }
                }
            }
        }));
    }
    for (from, to) in [(0, 1), (1, 2)] {
        for name in names.iter() {
            cluster
                .move_slot_of(name, from, to, async || tokio::time::sleep(Duration::from_millis(20)).await)
                .await;
        }
    }
    for task in tasks {
        within("a task", task).await.unwrap();
    }
    // Long before any lease ends.
    for name in names.iter() {
        eventually("a free lock", || owner(&cluster.primaries[2], name).is_none().then_some(())).await;
        within("the lock", client.lock(name).acquire()).await.unwrap().release().await.unwrap();
    }
    for primary in &cluster.primaries {
        eventually("an empty queue", || (waiters(primary) == 0).then_some(())).await;
    }
    client.close(Duration::from_secs(20)).await.unwrap();
}
