//! Three primaries between which slots move.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Connection, Value};
use rlock_testkit::clients;
use rlock_testkit::whole_slots::moves_whole_slots;
use rlock_testkit::{ServerName, TestServer, eventually};

use super::{logs, server};

/// How many there are.
const NODES: usize = 3;

/// How long a slot that moves as a whole may take.
const MOVED: Duration = Duration::from_secs(10);

/// How long they may take to agree.
const AGREED: Duration = Duration::from_secs(30);

pub(crate) struct Cluster {
    pub(crate) ports: Vec<u16>,
    nodes: Mutex<Vec<Option<TestServer>>>,
    ids: Vec<String>,
}

fn builder() -> rlock_testkit::ServerBuilder {
    // No node is taken for dead: there are no replicas.
    server().conf("cluster-enabled", "yes").conf("cluster-node-timeout", 15_000).conf("appendonly", "yes")
}

fn run<T: redis::FromRedisValue>(connection: &mut Connection, line: &str) -> Result<T, redis::RedisError> {
    let words: Vec<&str> = line.split(' ').collect();
    redis::cmd(words[0]).arg(&words[1..]).query(connection)
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let nodes = clients::cluster::Cluster::start_as(builder, NODES, 0).primaries;
        let ids = nodes.iter().map(clients::cluster::id).collect();
        let ports = nodes.iter().map(TestServer::port).collect();
        Cluster { ports, nodes: Mutex::new(nodes.into_iter().map(Some).collect()), ids }
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Option<TestServer>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with_node<T>(&self, node: usize, work: impl FnOnce(&TestServer) -> T) -> T {
        work(self.nodes()[node % NODES].as_ref().expect("a node"))
    }

    pub(crate) fn kill_and_restart(&self, node: usize) {
        let mut nodes = self.nodes();
        let node = node % NODES;
        let stopped = nodes[node].take().expect("a node").kill9();
        let server = builder().port(self.ports[node]).dir(stopped).start();
        eventually("the node to be back", AGREED, || {
            let info: String = clients::run(&mut server.connect(), "CLUSTER INFO");
            info.contains("cluster_state:ok").then_some(())
        });
        nodes[node] = Some(server);
    }

    /// The module's warnings, before restarts as well.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.nodes()
            .iter()
            .flatten()
            .flat_map(|node| logs::warnings(&node.log()).collect::<Vec<_>>())
            .collect()
    }

    pub(crate) fn set_clock_ahead(&self, seconds: i64) {
        self.nodes().iter().flatten().for_each(|node| node.set_clock_ahead(seconds));
    }

    /// Moves the slot of a lock to the next node, key by key or all at once; an error of a server ends it half-way, and
    /// the next attempt continues.
    pub(crate) fn move_slot_of(&self, key: &str, at_once: bool) -> Result<(), redis::RedisError> {
        let nodes = self.nodes();
        let mut clients: Vec<Connection> = nodes.iter().flatten().map(TestServer::connect).collect();
        let slot: usize = run(&mut clients[0], &format!("CLUSTER KEYSLOT {key}"))?;
        let from = owner(&mut clients[0], slot, &self.ports)?;
        let to = (from + 1) % NODES;
        let (source, target) = (&self.ids[from], &self.ids[to]);
        run::<()>(&mut clients[to], &format!("CLUSTER SETSLOT {slot} IMPORTING {source}"))?;
        run::<()>(&mut clients[from], &format!("CLUSTER SETSLOT {slot} MIGRATING {target}"))?;
        loop {
            let count = if at_once { 1_000 } else { 1 };
            let keys: Vec<String> =
                run(&mut clients[from], &format!("CLUSTER GETKEYSINSLOT {slot} {count}"))?;
            if keys.is_empty() {
                break;
            }
            let port = self.ports[to].to_string();
            let mut command = redis::cmd("MIGRATE");
            command.arg(&["127.0.0.1", &port, "", "0", "5000", "KEYS"]).arg(&keys);
            command.query::<Value>(&mut clients[from])?;
        }
        for node in [to, from].into_iter().chain((0..NODES).filter(|node| *node != to && *node != from)) {
            run::<()>(&mut clients[node], &format!("CLUSTER SETSLOT {slot} NODE {target}"))?;
        }
        Ok(())
    }

    /// Whether the servers move slots as a whole.
    pub(crate) fn moves_whole_slots(&self) -> bool {
        self.with_node(0, moves_whole_slots)
    }

    /// Moves the slot of a lock to the next node, with all its keys at one moment, and every node learns it. The copy of
    /// each key takes this many microseconds, in which leases end and are renewed.
    pub(crate) fn move_whole_slot_of(&self, key: &str, copy_us: u64) -> Result<(), redis::RedisError> {
        let nodes = self.nodes();
        let mut clients: Vec<Connection> = nodes.iter().flatten().map(TestServer::connect).collect();
        let slot: usize = run(&mut clients[0], &format!("CLUSTER KEYSLOT {key}"))?;
        let from = owner(&mut clients[0], slot, &self.ports)?;
        let to = (from + 1) % NODES;
        run::<()>(&mut clients[from], &format!("CONFIG SET rdb-key-save-delay {copy_us}"))?;
        if nodes[from].as_ref().expect("a node").version().name == ServerName::Valkey {
            let target = &self.ids[to];
            let order = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}");
            run::<()>(&mut clients[from], &order)?;
        } else {
            run::<String>(&mut clients[to], &format!("CLUSTER MIGRATION IMPORT {slot} {slot}"))?;
        }
        let deadline = Instant::now() + MOVED;
        for client in &mut clients {
            while owner(client, slot, &self.ports)? != to {
                if Instant::now() > deadline {
                    return Err((redis::ErrorKind::Client, "the slot does not move as a whole").into());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }
}

/// The number of the node that has a slot.
fn owner(client: &mut Connection, slot: usize, ports: &[u16]) -> Result<usize, redis::RedisError> {
    let ranges: Vec<Vec<Value>> = run(client, "CLUSTER SLOTS")?;
    let number = |value: &Value| match value {
        Value::Int(number) => usize::try_from(*number).unwrap_or_default(),
        _ => 0,
    };
    let range = ranges.iter().find(|range| (number(&range[0])..=number(&range[1])).contains(&slot));
    let port = range.and_then(|range| match &range[2] {
        Value::Array(node) => node.get(1).map(number),
        _ => None,
    });
    Ok(ports.iter().position(|known| Some(usize::from(*known)) == port).unwrap_or(0))
}
