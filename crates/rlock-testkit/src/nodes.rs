//! Two nodes of a cluster, between which the slot of `lock` moves.

use std::time::Duration;

use crate::commands::{number, say, story};
use crate::{TestServer, eventually};
use redis::Connection;

/// How long nodes may take to agree.
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
        let node =
            || TestServer::builder().conf("cluster-enabled", "yes").conf("cluster-node-timeout", "5000");
        let nodes = [node().start(), node().start()];
        let mut clients = nodes.each_ref().map(TestServer::connect);
        let slot = number(&mut clients[0], "CLUSTER KEYSLOT lock");
        let ids = clients.each_mut().map(|client| say(client, "CLUSTER MYID").trim_matches('"').to_owned());
        assert!(slot >= 8192);
        let meet = format!("CLUSTER MEET 127.0.0.1 {}", nodes[1].port());
        for (n, slots) in ["8192 16383", "0 8191"].into_iter().enumerate() {
            let epoch = format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1);
            let slots = format!("CLUSTER ADDSLOTSRANGE {slots}");
            story(&mut clients[n], &[(&epoch, "OK"), (&slots, "OK")]);
        }
        story(&mut clients[0], &[(&meet, "OK")]);
        for client in &mut clients {
            eventually("both nodes to agree", AGREED, || {
                let info = say(client, "CLUSTER INFO");
                (info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")).then_some(())
            });
        }
        Cluster { nodes, ids, slot }
    }

    /// A connection to each node.
    pub fn clients(&self) -> [Connection; 2] {
        self.nodes.each_ref().map(TestServer::connect)
    }

    /// The slot of the lock begins to move from the first node to the second.
    #[track_caller]
    pub fn begin_to_move(&self) {
        let [first, second] = &mut self.clients();
        let (slot, [one, two]) = (self.slot, &self.ids);
        story(second, &[(&format!("CLUSTER SETSLOT {slot} IMPORTING {one}"), "OK")]);
        story(first, &[(&format!("CLUSTER SETSLOT {slot} MIGRATING {two}"), "OK")]);
    }

    /// The lock moves; its slot is still the first node's.
    #[track_caller]
    pub fn move_lock(&self) {
        self.move_key("lock");
    }

    /// One key moves; its slot is still the first node's.
    #[track_caller]
    pub fn move_key(&self, key: &str) {
        let line = format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.nodes[1].port());
        story(&mut self.nodes[0].connect(), &[(&line, "OK")]);
    }

    /// The slot is the second node's from here on.
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

    /// How many keys of the slot each node has.
    #[track_caller]
    pub fn keys(&self) -> [i64; 2] {
        let line = format!("CLUSTER COUNTKEYSINSLOT {}", self.slot);
        self.clients().each_mut().map(|client| number(client, &line))
    }
}

/// What a client is told who was sent to the second node by `ASK`.
#[track_caller]
pub fn asking(second: &mut Connection, line: &str) -> String {
    story(second, &[("ASKING", "OK")]);
    say(second, line)
}
