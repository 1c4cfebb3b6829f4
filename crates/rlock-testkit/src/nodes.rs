//! Two nodes of a cluster, between which the slot of `lock` moves.

use std::time::Duration;

use crate::TestServer;
use crate::clients::cluster;
use crate::commands::{number, say, story};
use redis::Connection;

/// The time limit for nodes to agree.
pub const AGREED: Duration = Duration::from_secs(30);

/// Two nodes; `lock`, which all tests use, is on the first.
pub struct Cluster {
    /// The two servers.
    pub nodes: [TestServer; 2],
    /// Their names in the cluster.
    pub ids: [String; 2],
    /// The slot of the lock.
    pub slot: i64,
}

impl Cluster {
    /// Two nodes, each with half of the slots.
    #[track_caller]
    pub fn start() -> Cluster {
        let primaries = cluster::Cluster::start_as(|| cluster::node(5_000), 2, 0).primaries;
        let [second, first] = <[_; 2]>::try_from(primaries).expect("two nodes");
        let slot = number(&mut first.connect(), "CLUSTER KEYSLOT lock");
        assert!(slot >= 8192);
        let nodes = [first, second];
        Cluster { ids: nodes.each_ref().map(cluster::id), nodes, slot }
    }

    /// A connection to each node.
    pub fn clients(&self) -> [Connection; 2] {
        self.nodes.each_ref().map(TestServer::connect)
    }

    /// Begins to move the slot of the lock from the first node to the second.
    #[track_caller]
    pub fn begin_to_move(&self) {
        let [first, second] = &mut self.clients();
        let (slot, [one, two]) = (self.slot, &self.ids);
        story(second, &[(&format!("CLUSTER SETSLOT {slot} IMPORTING {one}"), "OK")]);
        story(first, &[(&format!("CLUSTER SETSLOT {slot} MIGRATING {two}"), "OK")]);
    }

    /// Moves the lock; its slot still belongs to the first node.
    #[track_caller]
    pub fn move_lock(&self) {
        self.move_key("lock");
    }

    /// Moves one key; its slot still belongs to the first node.
    #[track_caller]
    pub fn move_key(&self, key: &str) {
        let line = format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.nodes[1].port());
        story(&mut self.nodes[0].connect(), &[(&line, "OK")]);
    }

    /// Gives the slot to the second node.
    #[track_caller]
    pub fn end_move(&self) {
        let line = format!("CLUSTER SETSLOT {} NODE {}", self.slot, self.ids[1]);
        self.clients().iter_mut().rev().for_each(|client| story(client, &[(&line, "OK")]));
    }

    /// The keys of the slot that have not moved.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let client = &mut self.nodes[0].connect();
        redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(self.slot).arg(1_000).query(client).unwrap()
    }

    /// The number of keys of the slot on each node.
    #[track_caller]
    pub fn keys(&self) -> [i64; 2] {
        let line = format!("CLUSTER COUNTKEYSINSLOT {}", self.slot);
        self.clients().each_mut().map(|client| number(client, &line))
    }
}

/// The answer of the second node to a client that `ASK` sent there.
#[track_caller]
pub fn asking(second: &mut Connection, line: &str) -> String {
    story(second, &[("ASKING", "OK")]);
    say(second, line)
}
