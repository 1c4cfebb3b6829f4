//! A slot that moves as a whole, all its keys at one moment: `CLUSTER MIGRATESLOTS` of Valkey from 9.0 on, and
//! `CLUSTER MIGRATION` of Redis from 8.4 on.

use redis::Connection;

use crate::commands::{say, story};
use crate::nodes::{AGREED, Cluster};
use crate::{ServerName, TestServer, eventually};

/// Keys that make the copy of a slot take long.
const FILLERS: usize = 100;

/// Between two keys of a slow copy, in microseconds.
const SLOW: u32 = 20_000;

/// Whether this server moves slots as a whole.
pub fn moves_whole_slots(server: &TestServer) -> bool {
    let version = server.version();
    version.is_at_least(ServerName::Valkey, 9, 0) || version.is_at_least(ServerName::Redis, 8, 4)
}

/// Two nodes that move slots as a whole; `None` for servers that do not.
#[track_caller]
pub fn cluster() -> Option<Cluster> {
    let cluster = Cluster::start();
    if moves_whole_slots(&cluster.nodes[0]) {
        return Some(cluster);
    }
    let [first, second] = &mut cluster.clients();
    for client in [first, second] {
        let said = [cluster.migrate_slots(1), cluster.import()].map(|line| say(client, &line));
        assert!(said.iter().all(|said| said.starts_with("!ERR")), "{said:?}");
    }
    None
}

impl Cluster {
    fn is_valkey(&self) -> bool {
        self.nodes[0].version().name == ServerName::Valkey
    }

    fn migrate_slots(&self, to: usize) -> String {
        format!("CLUSTER MIGRATESLOTS SLOTSRANGE {0} {0} NODE {1}", self.slot, self.ids[to])
    }

    fn import(&self) -> String {
        format!("CLUSTER MIGRATION IMPORT {0} {0}", self.slot)
    }

    /// The slot begins to move from the other node to this one.
    #[track_caller]
    pub fn begin_whole(&self, to: usize) {
        let clients = &mut self.clients();
        if self.is_valkey() {
            story(&mut clients[1 - to], &[(&self.migrate_slots(to), "OK")]);
        } else {
            let said = say(&mut clients[to], &self.import());
            assert!(!said.starts_with('!'), "{said}");
        }
    }

    /// Both nodes agree that this node has the slot.
    #[track_caller]
    pub fn await_whole(&self, to: usize) {
        let clients = &mut self.clients();
        eventually("the slot to move", AGREED, || {
            let moved = say(&mut clients[1 - to], "EXISTS lock").starts_with("!MOVED ");
            (moved && !say(&mut clients[to], "EXISTS lock").starts_with('!')).then_some(())
        });
    }

    /// The slot moves to this node, from its beginning to its end.
    #[track_caller]
    pub fn move_whole(&self, to: usize) {
        self.begin_whole(to);
        self.await_whole(to);
    }

    /// The next copy of the slot from the first node takes some two seconds: its keys come one after the other, and what
    /// changes meanwhile comes behind them.
    #[track_caller]
    pub fn slow_copy(&self) {
        let first = &mut self.nodes[0].connect();
        story(first, &[(&format!("CONFIG SET rdb-key-save-delay {SLOW}"), "OK")]);
        let mut fillers = redis::pipe();
        for number in 0..FILLERS {
            // Larger than the buffer that the copy goes through.
            fillers.cmd("SET").arg(format!("{{lock}}:filler:{number}")).arg(vec![b'x'; 70_000]).ignore();
        }
        fillers.query::<()>(first).expect("SET works");
    }

    /// Waits until the first node copies the slot: the copy has its keys as they were before.
    #[track_caller]
    pub fn await_copy(&self) {
        let first = &mut self.nodes[0].connect();
        let (status, copies) = if self.is_valkey() {
            ("CLUSTER GETSLOTMIGRATIONS", "snapshotting")
        } else {
            ("CLUSTER MIGRATION STATUS ALL", "send-bulk-and-stream")
        };
        eventually("a copy of the slot", AGREED, || say(first, status).contains(copies).then_some(()));
    }

    /// The slot is still the first node's.
    #[track_caller]
    pub fn is_first(&self, second: &mut Connection) {
        let said = say(second, "EXISTS lock");
        assert!(said.starts_with("!MOVED "), "{said}");
    }

    /// The slot stays where it is after all.
    #[track_caller]
    pub fn cancel_whole(&self) {
        let [first, second] = &mut self.clients();
        if self.is_valkey() {
            story(first, &[("CLUSTER CANCELSLOTMIGRATIONS", "OK")]);
        } else {
            assert_eq!(say(second, "CLUSTER MIGRATION CANCEL ALL"), "1");
        }
    }
}
