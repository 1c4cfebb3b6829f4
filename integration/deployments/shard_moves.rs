//! Every kind of lock in a cluster of three primaries and three replicas while a slot moves with all its keys at one moment.
//! `make cluster` runs this.

mod slots;

use std::time::Duration;

use rlock_testkit::clients::cluster::{Cluster, await_role, slot};
use rlock_testkit::commands::{SOON, counter, say, story};
use rlock_testkit::held::{Awaited, all_is_held, hold};
use rlock_testkit::whole_slots::moves_whole_slots;
use rlock_testkit::{Subscriber, TestServer, eventually, wait_for_replicas_in_sync};
use slots::{cluster, place_on, replica_agrees};

/// How long a fail-over may take on a busy machine.
const FAILED_OVER: Duration = Duration::from_secs(40);

/// Keys that make the copy of a slot take five seconds.
const FILLERS: usize = 100;

/// Redis from 8.4 on, and Valkey from 9.0 on, which asks that every module declares that it can bear it.
#[test]
fn a_slot_moves_at_one_moment() {
    let Some((cluster, place, slot)) = movable() else { return };
    let source = &cluster.primaries[0];
    let token = hold(&mut source.connect(), &place);
    let awaited = Awaited::start(source, &place);
    cluster.begin_at_once(slot, 0, 1).unwrap();
    cluster.await_slot(slot, &cluster.primaries[1]);
    awaited.were_sent_away();
    eventually("an empty queue", SOON, || (counter(source, "waiters") == 0).then_some(()));
    all_are_served(&cluster.primaries[1], &place, token);
    replica_agrees(&cluster.primaries[1], &cluster.replicas[1]);
}

/// A cluster, a place on its first primary, and the slot of that; none where the server refuses to move a slot at one moment.
#[track_caller]
fn movable() -> Option<(Cluster, String, usize)> {
    let cluster = cluster();
    let place = place_on(&cluster, 0);
    let slot = slot(&mut cluster.primaries[0].connect(), &place);
    if !moves_whole_slots(&cluster.primaries[0]) {
        cluster.begin_at_once(slot, 0, 1).expect_err("a server that moves no slots at one moment");
        return None;
    }
    Some((cluster, place, slot))
}

/// Leases end while the slot is copied, and the timer grants the locks to waiters. The other server has every grant.
#[test]
fn what_is_granted_while_a_slot_is_copied_is_held_there() {
    const LOCKS: usize = 60;
    let Some((cluster, place, slot)) = movable() else { return };
    let source = &cluster.primaries[0];
    let client = &mut source.connect();
    // The copy takes half a second and more.
    story(client, &[("CONFIG SET rdb-key-save-delay 1000", "OK")]);
    for key in 0..600 {
        story(client, &[(&format!("SET {place}:{key} x"), "OK")]);
    }
    let mut grants = Subscriber::connect(source).ssubscribe(&[format!("{place}grants")]);
    for lock in 0..LOCKS {
        let line = format!("RLOCK.ACQUIRE {place}{lock} n:1 {}", 200 + lock * 20);
        assert!(say(client, &line).starts_with("[1, "));
        let line = format!("RLOCK.ACQUIRE {place}{lock} e:1 60000 ENQUEUE 0 {place}grants");
        story(client, &[("CONFIG SET rlock.grant-confirm-ms 60000", "OK"), (&line, "[0, 0, 0]")]);
    }
    cluster.begin_at_once(slot, 0, 1).unwrap();
    cluster.await_slot(slot, &cluster.primaries[1]);
    let there = &mut cluster.primaries[1].connect();
    let mut granted = 0;
    // The subscription ends with the slot, after all that was granted.
    while let Some(Some((_, message))) = catch(|| grants.next(Duration::from_secs(2))) {
        let message = String::from_utf8(message).unwrap();
        if message.starts_with("granted ") {
            granted += 1;
            let key = message.split(' ').nth(3).unwrap();
            story(there, &[(&format!("HGETALL {key}"), r#"["e:1", "1"]"#)]);
        }
    }
    println!("{granted} of {LOCKS} were granted before the slot had moved");
    assert!(granted > 0);
}

/// Waits until a replica of a primary that died serves the shard, and no server takes the cluster for down.
#[track_caller]
fn takes_over(heir: &TestServer, others: &[TestServer]) {
    await_role(heir, "master");
    for server in others.iter().chain([heir]) {
        eventually("the cluster to be up", FAILED_OVER, || {
            say(&mut server.connect(), "CLUSTER INFO").contains("cluster_state:ok").then_some(())
        });
    }
}

/// Shows that all that was held is held, and that waiters get it.
#[track_caller]
fn all_are_served(owner: &TestServer, place: &str, token: i64) {
    let client = &mut owner.connect();
    all_is_held(client, place);
    Awaited::start(owner, place).are_served(client, token);
}

/// The server that a slot leaves, or the one to which it moves, dies during the copy, and its replica takes over. The locks stay
/// with the shard that had them, and the other shard keeps no key.
#[test]
fn a_primary_that_dies_while_a_slot_is_copied() {
    for victim in [0, 1] {
        let Some((mut cluster, place, slot)) = movable() else { return };
        let source = &cluster.primaries[0];
        let client = &mut source.connect();
        let token = hold(client, &place);
        story(client, &[("CONFIG SET rdb-key-save-delay 50000", "OK")]);
        for key in 0..FILLERS {
            story(client, &[(&format!("SET {place}:{key} x"), "OK")]);
        }
        // Redis answers blocked clients of a cluster that is down, so no client waits where the other server dies.
        let _awaited = (victim == 0).then(|| Awaited::start(source, &place));
        wait_for_replicas_in_sync(source, &cluster.replicas[0]);
        cluster.begin_at_once(slot, 0, 1).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let stopped = cluster.kill(victim);
        let heir = &cluster.replicas[victim];
        takes_over(heir, &cluster.primaries);
        drop(stopped);
        let (owner, other) = match victim {
            0 => (heir, &cluster.primaries[0]),
            _ => (&cluster.primaries[0], heir),
        };
        // Redis tries again, with the new primary.
        let _ = say(&mut other.connect(), "CLUSTER MIGRATION CANCEL ALL");
        cluster.await_slot(slot, owner);
        for key in 0..FILLERS {
            story(&mut owner.connect(), &[(&format!("DEL {place}:{key}"), "1")]);
        }
        all_are_served(owner, &place, token);
        eventually("the other shard to keep no key", FAILED_OVER, || {
            (say(&mut other.connect(), "DBSIZE") == "0").then_some(())
        });
        assert_eq!((counter(other, "waiters"), counter(other, "hand_offs")), (0, 0));
    }
}

/// Runs what panics when a subscription was ended by the server.
fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
}
