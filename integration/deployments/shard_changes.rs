//! Every kind of lock in a cluster of three primaries and three replicas while primaries fail or are replaced, and the
//! Rust client on it. `make cluster` runs this.

mod slots;

use std::time::Duration;

use redis::Connection;
use rlock_client::Durability;
use rlock_testkit::clients;
use rlock_testkit::clients::cluster::{await_role, failing_soon, slot};
use rlock_testkit::clients::contest::Contest;
use rlock_testkit::commands::{SOON, counter, say, story};
use rlock_testkit::held::{Awaited, KINDS, all_is_held, hold};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::whole_slots::moves_whole_slots;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};
use slots::{await_replicas, cluster, place_on, replica_agrees};

/// The time limit for a fail-over on a busy machine.
const FAILED_OVER: Duration = Duration::from_secs(40);

/// Waits until a server serves its shard as the primary.
#[track_caller]
fn await_heir(heir: &TestServer, place: &str) -> Connection {
    await_role(heir, "master");
    let client = &mut heir.connect();
    let line = format!("RLOCK.CANCEL {place} absent");
    eventually("the heir to serve", FAILED_OVER, || (say(client, &line) == "0").then_some(()));
    heir.connect()
}

/// Holds locks of every kind on a primary, with waiters, and waits until its replica has them and the last token.
#[track_caller]
fn held_and_awaited(primary: &TestServer, replica: &TestServer, place: &str) -> (i64, Awaited) {
    let token = hold(&mut primary.connect(), place);
    let awaited = Awaited::start(primary, place);
    wait_for_replicas_in_sync(primary, replica);
    (token, awaited)
}

/// Asserts that a former primary serves no client, has no waiters, and has granted nothing since.
#[track_caller]
fn is_no_primary(server: &TestServer, heir: &TestServer, place: &str, hand_offs: u64) {
    await_role(server, "slave");
    let client = &mut server.connect();
    // A server that rejoins takes the cluster for down at first.
    eventually("it to know its primary", FAILED_OVER, || {
        let said = say(client, &format!("RLOCK.CANCEL {place} absent"));
        (!said.starts_with("!CLUSTERDOWN ")).then_some(())
    });
    for kind in &KINDS {
        let said = say(client, &format!("{} BLOCK 0", kind.ask(place, "s:1")));
        assert!(said.starts_with("!MOVED ") && said.ends_with(&format!(":{}", heir.port())), "{said}");
    }
    assert_eq!((counter(server, "waiters"), counter(server, "hand_offs")), (0, hand_offs));
}

#[test]
fn a_primary_that_is_killed() {
    let mut cluster = cluster();
    let place = place_on(&cluster, 0);
    let (token, awaited) = held_and_awaited(&cluster.primaries[0], &cluster.replicas[0], &place);
    let port = cluster.primaries[0].port();
    let stopped = cluster.kill(0);
    for waiting in &awaited.blocked {
        let told = waiting.answer();
        assert!(told.starts_with("the connection ended"), "{told}");
    }
    let heir = &cluster.replicas[0];
    let client = &mut await_heir(heir, &place);
    all_is_held(client, &place);
    let awaited = Awaited::start(heir, &place);
    let old = failing_soon().port(port).dir(stopped).start();
    is_no_primary(&old, heir, &place, 0);
    awaited.are_served(client, token);
    replica_agrees(heir, &old);
}

/// After its pause it still acts as the primary, until the cluster corrects it.
#[test]
fn a_primary_that_stands_still() {
    let cluster = cluster();
    let place = place_on(&cluster, 1);
    let (old, heir) = (&cluster.primaries[1], &cluster.replicas[1]);
    let (token, awaited) = held_and_awaited(old, heir, &place);
    old.signal(libc::SIGSTOP);
    let client = &mut await_heir(heir, &place);
    all_is_held(client, &place);
    let there = Awaited::start(heir, &place);
    old.signal(libc::SIGCONT);
    awaited.were_sent_away();
    is_no_primary(old, heir, &place, 0);
    there.are_served(client, token);
    replica_agrees(heir, old);
}

/// There and back: each server is promoted and demoted.
#[test]
fn a_primary_that_is_replaced_on_purpose() {
    let cluster = cluster();
    let place = place_on(&cluster, 2);
    let servers = [&cluster.primaries[2], &cluster.replicas[2]];
    let slot = slot(&mut servers[0].connect(), &place);
    for (old, heir) in [(servers[0], servers[1]), (servers[1], servers[0])] {
        cluster.await_slot(slot, old);
        await_replicas(&cluster);
        let (token, awaited) = held_and_awaited(old, heir, &place);
        let hand_offs = counter(old, "hand_offs");
        story(&mut heir.connect(), &[("CLUSTER FAILOVER", "OK")]);
        awaited.were_sent_away();
        let client = &mut await_heir(heir, &place);
        is_no_primary(old, heir, &place, hand_offs);
        all_is_held(client, &place);
        Awaited::start(heir, &place).are_served(client, token);
        wait_for_replicas_in_sync(heir, old);
        replica_agrees(heir, old);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn never_two_holders_of_any_kind() {
    fastrand::seed(clients::seed());
    let mut cluster = cluster();
    let place = place_on(&cluster, 0);
    let slot = slot(&mut cluster.primaries[0].connect(), &place);
    let contest = Contest::of_all_kinds(&place, Durability::Replicas(1));
    let workers = contest.begin(&cluster, 5).await;
    let at_once = moves_whole_slots(&cluster.primaries[0]);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        contest.go_on(60).await;
        cluster.move_slot_of(&place, from, to, async || contest.go_on(8).await).await;
        cluster.await_slot(slot, &cluster.primaries[to]);
    }
    for (from, to) in [(0, 1), (1, 0)].into_iter().filter(|_| at_once) {
        contest.go_on(60).await;
        cluster.begin_at_once(slot, from, to).unwrap();
        cluster.await_slot(slot, &cluster.primaries[to]);
    }
    contest.go_on(60).await;
    cluster.await_agreement();
    let port = cluster.primaries[0].port();
    let stopped = cluster.kill(0);
    let heir = &cluster.replicas[0];
    await_role(heir, "master");
    // It has lost its data, so it must come back as a replica.
    let old = failing_soon().port(port).dir(stopped).start();
    contest.go_on(100).await;
    contest.end(workers).await;
    let client = &mut heir.connect();
    eventually("all to be free", SOON, || {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
        // A waiter at the primary's death that did not come back is still in the fair lock's list; and a lease key in
        // transit when its hold was released expires later.
        let passes = |key: &&String| key.starts_with("redisson_lock_") || key.contains(":rwlock_timeout:");
        let left = keys.iter().filter(|key| !passes(key));
        (left.count() == 0 && counter(heir, "waiters") == 0).then_some(())
    });
    story(client, &[("CONFIG SET rlock.fair-turn-ms 100", "OK")]);
    let last = Waiting::line(heir, &format!("RLOCK.ACQUIRE {place}fair last 1000000 FAIR BLOCK 0"));
    assert_eq!(last.answer(), "[1, 1000000, 0]");
    let lists = format!("EXISTS redisson_lock_queue:{place}fair redisson_lock_timeout:{place}fair");
    story(client, &[(&lists, "0")]);
    await_role(&old, "slave");
    replica_agrees(heir, &old);
}
