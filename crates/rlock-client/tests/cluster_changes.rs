//! Clusters that change: slots that move to another server, primaries that fail.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::cluster::{Cluster, failing_soon};
use common::{counter, eventually, holder, seed, waiters, within};
use rlock_client::{Builder, Client, Durability, Error, State};
use rlock_testkit::{TestServer, wait_for_replicas_in_sync};
use tokio::task::JoinHandle;

/// A lease that outlasts a fail-over on a busy machine.
const LEASE: Duration = Duration::from_secs(24);

async fn connect(cluster: &Cluster, builder: Builder) -> Client {
    within("a client to connect", builder.connect(&cluster.url())).await.expect("a client")
}

/// Waits for a lock in a task; gives it back at once and says that it was there.
fn wait_for(client: &Client, name: &str) -> JoinHandle<Result<(), Error>> {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.lock().await?.unlock().await })
}

async fn await_waiters(server: &TestServer, count: u64) {
    eventually("waiters", || (waiters(server) == count).then_some(())).await;
}

fn owner(server: &TestServer, lock: &str) -> Option<Vec<u8>> {
    holder(&mut server.connect(), lock).map(|(owner, _)| owner.into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_with_locks_that_are_held_and_awaited() {
    let cluster = Cluster::start(3);
    let (from, to) = (&cluster.primaries[0], &cluster.primaries[2]);
    // Renewed every second.
    let client = connect(&cluster, Client::builder().watchdog_timeout(Duration::from_secs(3))).await;
    let tag = cluster.lock_on(0, 'a');
    let names = ["1", "2", "3"].map(|end| format!("{{{tag}}}{end}"));
    let held = client.lock(&names[0]).lock().await.unwrap();
    let briefly = client.lock(&names[1]).lock().await.unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| wait_for(&client, &names[0])).collect();
    await_waiters(from, 5).await;
    // Heard on the same connection, and not moved.
    let stays = cluster.lock_on(0, 'b');
    let staying = client.lock(&stays).lock().await.unwrap();
    let mut stayer = wait_for(&client, &stays);
    await_waiters(from, 6).await;
    let half_way = async || {
        // The first server has the slot, the other the locks.
        await_waiters(from, 1).await;
        assert_eq!((owner(from, &stays).unwrap(), waiters(to)), (staying.owner().to_vec(), 0));
        let renewed = counter(to, "renewed");
        eventually("renewals there", || (counter(to, "renewed") >= renewed + 2).then_some(())).await;
        assert!(client.lock(&names[0]).try_lock().await.unwrap().is_none());
        assert!(client.lock(&names[0]).is_held_by(held.owner()).await.unwrap());
        // Whatever is new begins there.
        let new = within("a lock", client.lock(&names[2]).lock()).await.unwrap();
        within("its release", new.unlock()).await.unwrap();
        within("a release", briefly.unlock()).await.unwrap();
        waiting.push(wait_for(&client, &names[0]));
    };
    cluster.move_slot_of(&names[0], 0, 2, half_way).await;
    // All ask again there.
    await_waiters(to, 6).await;
    held.check().unwrap();
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    within("the release", held.unlock()).await.unwrap();
    for waiting in waiting {
        within("a lock", waiting).await.unwrap().unwrap();
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut stayer).await.is_err());
    within("the release", staying.unlock()).await.unwrap();
    within("the lock", stayer).await.unwrap().unwrap();
    assert_eq!(names.each_ref().map(|name| owner(to, name)), [None, None, None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_waits_outlive_a_primary() {
    let mut cluster = Cluster::start_with_replicas(3);
    let client = connect(&cluster, Client::builder().watchdog_timeout(LEASE)).await;
    let [name, other] = [0, 1].map(|number| cluster.lock_on(number, 'a'));
    let held = client.lock(&name).durability(Durability::Replicas(1)).lock().await.unwrap();
    let elsewhere = client.lock(&other).lock().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| wait_for(&client, &name)).collect();
    await_waiters(&cluster.primaries[0], 3).await;
    wait_for_replicas_in_sync(&cluster.primaries[0], &cluster.replicas[0]);
    cluster.kill(0);
    let heir = &cluster.replicas[0];
    // The queue was in the old primary's memory: they come again by themselves.
    await_waiters(heir, 3).await;
    assert_eq!(heir.info("replication")["role"], "master");
    eventually("a renewal there", || (counter(heir, "renewed") > 0).then_some(())).await;
    eventually("the renewal's reply", || (held.state() == State::Held).then_some(())).await;
    assert_eq!(owner(heir, &name).unwrap(), held.owner());
    within("the release", held.unlock()).await.unwrap();
    for waiting in waiting {
        within("a lock", waiting).await.unwrap().unwrap();
    }
    elsewhere.check().unwrap();
    within("the release", elsewhere.unlock()).await.unwrap();
    assert_eq!(owner(heir, &name), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_an_answer_waits_while_the_cluster_is_down() {
    let mut cluster = Cluster::start_with_replicas(3);
    let client = connect(&cluster, Client::builder().watchdog_timeout(LEASE)).await;
    let [failing, other] = [0, 1].map(|number| client.lock(cluster.lock_on(number, 'a')));
    assert!(!failing.is_locked().await.unwrap());
    cluster.kill(0);
    let down = || {
        let info: String = common::run(&mut cluster.primaries[0].connect(), "CLUSTER INFO");
        info.contains("cluster_state:fail").then_some(())
    };
    eventually("the cluster to be down", down).await;
    // One shard has failed, and the cluster refuses everything until the replica has taken over.
    within("a lock", other.lock()).await.unwrap().unlock().await.unwrap();
    within("a lock", failing.lock()).await.unwrap().unlock().await.unwrap();
}

/// Locks that many take in turn, and who is inside.
struct Contest {
    names: Vec<String>,
    durability: Durability,
    inside: Vec<AtomicUsize>,
    turns: AtomicUsize,
    over: AtomicBool,
}

impl Contest {
    fn new(names: Vec<String>, durability: Durability) -> Arc<Contest> {
        let inside = names.iter().map(|_| AtomicUsize::new(0)).collect();
        let (turns, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Contest { names, durability, inside, turns, over })
    }

    /// Lets so many tasks of each of three clients take part.
    async fn begin(self: &Arc<Self>, cluster: &Cluster, tasks: usize) -> Vec<JoinHandle<()>> {
        let mut workers = Vec::new();
        for _ in 0..3 {
            let client = connect(cluster, Client::builder().watchdog_timeout(LEASE)).await;
            workers.extend((0..tasks).map(|_| tokio::spawn(self.clone().take_part(client.clone()))));
        }
        workers
    }

    async fn end(&self, workers: Vec<JoinHandle<()>>) {
        self.over.store(true, Ordering::SeqCst);
        for worker in workers {
            within("an end", worker).await.unwrap();
        }
    }

    /// Takes locks as fast as it can, and sees to it that nobody else has them.
    async fn take_part(self: Arc<Self>, client: Client) {
        while !self.over.load(Ordering::SeqCst) {
            let number = fastrand::usize(..self.names.len());
            let lock = client.lock(&self.names[number]).durability(self.durability);
            let guard = match lock.lock().await {
                Ok(guard) => guard,
                // A fail-over may come between the lock and its replica: then it is given back.
                Err(Error::Durability { .. } | Error::Transport { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(self.inside[number].fetch_add(1, Ordering::SeqCst), 0, "two hold lock {number}");
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..5))).await;
            guard.check().unwrap();
            self.inside[number].fetch_sub(1, Ordering::SeqCst);
            self.turns.fetch_add(1, Ordering::SeqCst);
            match guard.unlock().await {
                Ok(()) | Err(Error::OutcomeUnknown { .. }) => (),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits for so many turns more.
    async fn go_on(&self, turns: usize) {
        let goal = self.turns.load(Ordering::SeqCst) + turns;
        eventually("more turns", || (self.turns.load(Ordering::SeqCst) >= goal).then_some(())).await;
    }
}

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
        eventually("nobody to wait", || (waiters(server) == 0).then_some(())).await;
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
        eventually("nobody to wait", || (waiters(primary) == 0).then_some(())).await;
    }
}
