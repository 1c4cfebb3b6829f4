//! A cluster of real servers.

use std::collections::HashSet;
use std::time::Duration;

use crate::commands::{say, text};
use crate::{ServerBuilder, Stopped, TestServer, eventually, wait_for_replicas_in_sync};
use redis::Connection;

use super::run;

/// The time limit for nodes to agree on a busy machine.
const AGREED: Duration = Duration::from_secs(60);

const SLOTS: usize = 16_384;

/// Primaries that share the slots equally, each with one replica or none.
pub struct Cluster {
    /// Each has an equal share of the slots.
    pub primaries: Vec<TestServer>,
    /// One for each primary, or none.
    pub replicas: Vec<TestServer>,
}

impl Cluster {
    /// Primaries that take each other for dead after 15 seconds: in no test.
    pub fn start(primaries: usize) -> Cluster {
        Cluster::start_as(|| node(15_000), primaries, 0)
    }

    /// Each with a replica that takes over soon.
    pub fn start_with_replicas(primaries: usize) -> Cluster {
        Cluster::start_as(failing_soon, primaries, primaries)
    }

    /// Each with a replica that takes over when its primary has been silent for this time, in ms.
    pub fn start_failing_after(primaries: usize, timeout: u32) -> Cluster {
        Cluster::start_as(|| failing_after(timeout), primaries, primaries)
    }

    /// Primaries with as many replicas or none, each as `node` says, which has `cluster-enabled` on.
    pub fn start_as(node: impl Fn() -> ServerBuilder, primaries: usize, replicas: usize) -> Cluster {
        let primaries: Vec<_> = (0..primaries).map(|_| node().start()).collect();
        let replicas: Vec<_> = (0..replicas).map(|_| node().start()).collect();
        for (number, server) in primaries.iter().chain(&replicas).enumerate() {
            run::<()>(&mut server.connect(), &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
        }
        for (number, server) in primaries.iter().enumerate() {
            let (first, last) =
                (number * SLOTS / primaries.len(), (number + 1) * SLOTS / primaries.len() - 1);
            run::<()>(&mut server.connect(), &format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
        let cluster = Cluster { primaries, replicas };
        cluster.meet();
        for (primary, replica) in cluster.primaries.iter().zip(&cluster.replicas) {
            run::<()>(&mut replica.connect(), &format!("CLUSTER REPLICATE {}", id(primary)));
            wait_for_replicas_in_sync(primary, replica);
        }
        cluster.await_agreement();
        cluster
    }

    fn meet(&self) {
        let first = &mut self.primaries[0].connect();
        for other in self.servers().skip(1) {
            run::<()>(first, &format!("CLUSTER MEET 127.0.0.1 {}", other.port()));
        }
        self.await_agreement();
    }

    /// Waits until all servers know each other, and agree on all slots.
    pub fn await_agreement(&self) {
        let count = self.servers().count();
        eventually("all nodes to agree", AGREED, || {
            let views: HashSet<String> = self.servers().map(view).collect();
            let known = |server: &TestServer| {
                let info: String = run(&mut server.connect(), "CLUSTER INFO");
                info.contains("cluster_state:ok") && info.contains(&format!("cluster_known_nodes:{count}\r"))
            };
            (views.len() == 1 && self.servers().all(known)).then_some(())
        });
    }

    /// All servers.
    pub fn servers(&self) -> impl Iterator<Item = &TestServer> {
        self.primaries.iter().chain(&self.replicas)
    }

    /// A URL of all primaries of the start.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.primaries.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// A lock on the primary of this number, another one for each `letter`.
    pub fn lock_on(&self, primary: usize, letter: char) -> String {
        let mut connection = self.primaries[primary].connect();
        let share = |slot: usize| slot * self.primaries.len() / SLOTS;
        let names = (0..).map(|number| format!("{letter}:{number}"));
        names.into_iter().find(|name| share(slot(&mut connection, name)) == primary).expect("one of many")
    }

    /// Kills a primary.
    pub fn kill(&mut self, primary: usize) -> Stopped {
        self.primaries.remove(primary).kill9()
    }

    /// Moves the slot of `lock` in one step with all its keys, as newer servers can. `false` if this server cannot.
    pub fn move_slot_at_once(&self, lock: &str, from: usize, to: usize) -> bool {
        let slot = slot(&mut self.primaries[from].connect(), lock);
        let begun = self.begin_at_once(slot, from, to);
        match &begun {
            Ok(()) => self.await_slot(slot, &self.primaries[to]),
            Err(refusals) => println!("{refusals}"),
        }
        begun.is_ok()
    }

    /// Begins to move a slot in one step with all its keys; the refusals if the servers cannot.
    pub fn begin_at_once(&self, slot: usize, from: usize, to: usize) -> Result<(), String> {
        let [from, to] = [from, to].map(|primary| &self.primaries[primary]);
        let valkey = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", id(to));
        let redis = format!("CLUSTER MIGRATION IMPORT {slot} {slot}");
        let said = [(from, valkey), (to, redis)].map(|(server, line)| say(&mut server.connect(), &line));
        if said.iter().all(|said| said.starts_with('!')) { Err(said.join("; ")) } else { Ok(()) }
    }

    /// Waits until all servers say that this one has the slot.
    #[track_caller]
    pub fn await_slot(&self, slot: usize, on: &TestServer) {
        eventually("all to know the owner of the slot", AGREED, || {
            self.servers().all(|server| owner_of(server, slot) == Some(on.port())).then_some(())
        });
    }

    /// Moves the slot of `lock` from one primary to another key by key; `half_way` is called after its keys have
    /// moved, before the slot does.
    pub async fn move_slot_of(&self, lock: &str, from: usize, to: usize, half_way: impl AsyncFnOnce()) {
        let (from, to) = (&self.primaries[from], &self.primaries[to]);
        let (source, target) = (&mut from.connect(), &mut to.connect());
        let slot = slot(source, lock);
        run::<()>(target, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
        run::<()>(source, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
        // Until no key is left: locks acquired here meanwhile can add keys.
        loop {
            let keys: Vec<String> = run(source, &format!("CLUSTER GETKEYSINSLOT {slot} 1000"));
            if keys.is_empty() {
                break;
            }
            for key in keys {
                run::<String>(source, &format!("MIGRATE 127.0.0.1 {} {key} 0 10000", to.port()));
            }
        }
        half_way().await;
        for server in [to, from].into_iter().chain(self.servers()) {
            let mut connection = server.connect();
            let role: String = run::<Vec<redis::Value>>(&mut connection, "ROLE")
                .first()
                .and_then(|role| redis::from_redis_value_ref(role).ok())
                .expect("a role");
            if role == "master" {
                run::<()>(&mut connection, &format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
            }
        }
    }
}

/// A server of a cluster, which takes others for dead after `timeout` milliseconds.
pub(crate) fn node(timeout: u32) -> ServerBuilder {
    TestServer::builder().conf("cluster-enabled", "yes").conf("cluster-node-timeout", timeout)
}

/// A server that is replaced 3 seconds after its end.
pub fn failing_soon() -> ServerBuilder {
    failing_after(3_000)
}

/// A server that is replaced this time after its end, in ms.
fn failing_after(timeout: u32) -> ServerBuilder {
    node(timeout).conf("cluster-replica-validity-factor", "0")
}

/// Waits until a server is `master` or `slave`. Asks on new connections: a server that changes its role ends some,
/// and a paused server does not answer.
#[track_caller]
pub fn await_role(server: &TestServer, role: &str) {
    eventually(role, AGREED, || {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).expect("a URL");
        let answer: redis::Value = redis::cmd("ROLE").query(&mut client.get_connection().ok()?).ok()?;
        text(&answer).starts_with(&format!("[\"{role}\"")).then_some(())
    });
}

/// The name of a node in its cluster.
pub fn id(server: &TestServer) -> String {
    run(&mut server.connect(), "CLUSTER MYID")
}

/// The slot of a name.
pub fn slot(connection: &mut Connection, name: &str) -> usize {
    run(connection, &format!("CLUSTER KEYSLOT {name}"))
}

/// The port of the primary that has a slot, as a server sees it.
fn owner_of(server: &TestServer, slot: usize) -> Option<u16> {
    let ranges: Vec<Vec<redis::Value>> = run(&mut server.connect(), "CLUSTER SLOTS");
    let number = |value: &redis::Value| match value {
        redis::Value::Int(number) => usize::try_from(*number).expect("no negative number"),
        other => panic!("no number: {other:?}"),
    };
    let range = ranges.iter().find(|range| (number(&range[0])..=number(&range[1])).contains(&slot))?;
    match &range[2] {
        redis::Value::Array(primary) => u16::try_from(number(&primary[1])).ok(),
        other => panic!("no server: {other:?}"),
    }
}

/// The slots as a server sees them: sorted, since the order differs between servers.
fn view(server: &TestServer) -> String {
    let slots: Vec<redis::Value> = run(&mut server.connect(), "CLUSTER SLOTS");
    let mut slots: Vec<_> = slots.iter().map(|range| format!("{range:?}")).collect();
    slots.sort();
    slots.join("\n")
}
