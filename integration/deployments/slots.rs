//! A cluster of three primaries with a replica each, from the tests of the client, and what it does to one slot.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::time::Duration;

use redis::Connection;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

use rlock_testkit::clients::cluster::{Cluster, id, slot};
use rlock_testkit::commands::{say, story};

/// How long nodes may take to agree on a busy machine.
pub(crate) const AGREED: Duration = Duration::from_secs(40);

/// Three primaries, and a replica of each that takes over soon.
#[track_caller]
pub(crate) fn cluster() -> Cluster {
    rlock_testkit::clients::limit_everything();
    let cluster = Cluster::start_with_replicas(3);
    await_replicas(&cluster);
    cluster
}

/// Waits until all servers know all three replicas: a primary sends messages of its shard to those that it knows of,
/// and one that others take for a primary is not voted for.
#[track_caller]
pub(crate) fn await_replicas(cluster: &Cluster) {
    let known = |server: &TestServer| {
        let nodes = say(&mut server.connect(), "CLUSTER NODES");
        nodes.matches(" slave ").count() + nodes.matches("myself,slave ").count() == 3
    };
    eventually("all to know the replicas", AGREED, || cluster.servers().all(known).then_some(()));
}

/// A hash tag whose slot is that of the primary of this number.
#[track_caller]
pub(crate) fn place_on(cluster: &Cluster, primary: usize) -> String {
    format!("{{{}}}", cluster.lock_on(primary, 'p'))
}

/// A slot on its way from one primary to another, key by key.
pub(crate) struct Move<'c> {
    cluster: &'c Cluster,
    pub(crate) from: &'c TestServer,
    pub(crate) to: &'c TestServer,
    slot: usize,
}

impl<'c> Move<'c> {
    #[track_caller]
    pub(crate) fn begin(cluster: &'c Cluster, place: &str, from: usize, to: usize) -> Move<'c> {
        let (from, to) = (&cluster.primaries[from], &cluster.primaries[to]);
        let (source, target) = (&mut from.connect(), &mut to.connect());
        let slot = slot(source, place);
        story(target, &[(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)), "OK")]);
        story(source, &[(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)), "OK")]);
        Move { cluster, from, to, slot }
    }

    /// The keys that have not moved.
    #[track_caller]
    pub(crate) fn keys(&self) -> Vec<String> {
        let client = &mut self.from.connect();
        redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(self.slot).arg(1_000).query(client).unwrap()
    }

    /// One key moves; it may have ended meanwhile.
    #[track_caller]
    pub(crate) fn key(&self, key: &str) {
        let line = format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.to.port());
        let said = say(&mut self.from.connect(), &line);
        assert!(["OK", "NOKEY"].contains(&said.as_str()), "{key}: {said}");
    }

    /// The slot is the other's from here on, and all know it.
    #[track_caller]
    pub(crate) fn end(self) {
        let line = format!("CLUSTER SETSLOT {} NODE {}", self.slot, id(self.to));
        for server in [self.to, self.from] {
            story(&mut server.connect(), &[(&line, "OK")]);
        }
        self.cluster.await_slot(self.slot, self.to);
    }
}

/// Waits until a server takes its primary for one. After a fail-over an old message can make each of two servers the other's replica
/// for a moment, and Redis 8.6 looks for their primary without an end in KEYS and SCAN.
#[track_caller]
fn await_primary(replica: &TestServer, primary: &TestServer) {
    let (client, id) = (&mut replica.connect(), id(primary));
    eventually("the replica to know its primary", AGREED, || {
        let nodes = say(client, "CLUSTER NODES");
        // The id, the address, the flags.
        let mut after = nodes.split(&id).skip(1);
        after
            .any(|rest| rest.split(' ').nth(2).is_some_and(|flags| flags.starts_with("master")))
            .then_some(())
    });
}

/// Whether a server's replica has the same keys, with the same ends.
#[track_caller]
pub(crate) fn replica_agrees(primary: &TestServer, replica: &TestServer) {
    wait_for_replicas_in_sync(primary, replica);
    await_primary(replica, primary);
    let dataset = |client: &mut Connection| {
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
        keys.sort();
        let ends: Vec<_> = keys.iter().map(|key| say(client, &format!("PEXPIRETIME {key}"))).collect();
        (keys, ends)
    };
    let there = &mut replica.connect();
    story(there, &[("READONLY", "OK")]);
    assert_eq!(dataset(there), dataset(&mut primary.connect()));
}
