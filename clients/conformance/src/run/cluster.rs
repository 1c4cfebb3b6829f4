//! Scenarios in a cluster.

use std::time::{Duration, Instant};

use rlock_testkit::clients::cluster::{Cluster, slot};
use rlock_testkit::{TestServer, wait_for_replicas_in_sync};

use super::world::shown;
use super::{DEADLINE, Problem, Run};
use crate::scenario::{Primaries, Server};

const PRIMARIES: usize = 3;

/// Three primaries, as the scenario says.
pub(super) fn start(server: &Server, primaries: Primaries) -> Cluster {
    // A primary is replaced after three seconds; without a replica it is never taken for dead.
    let (timeout, replicas) = match primaries {
        Primaries::Alone => (15_000, 0),
        Primaries::Replicated => (3_000, PRIMARIES),
    };
    let node = || {
        let node = TestServer::builder().conf("cluster-enabled", "yes").conf("cluster-node-timeout", timeout);
        let node = node.conf("cluster-replica-validity-factor", "0");
        server.conf.iter().fold(node, |node, (name, value)| node.conf(name, value))
    };
    Cluster::start_as(node, PRIMARIES, replicas)
}

/// A command of the runner's own, to the server that has the slot of its key.
pub(super) fn raw(cluster: &Cluster, words: &[String], wanted: Option<&str>) -> Result<(), Problem> {
    let end = Instant::now() + DEADLINE;
    loop {
        let found = ask(cluster, words);
        let right = found.as_deref().is_ok_and(|found| wanted.is_none_or(|wanted| wanted == found));
        if right {
            return Ok(());
        }
        if Instant::now() >= end || wanted.is_none() {
            return Err(format!("{words:?}: {found:?}, not {wanted:?}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ask(cluster: &Cluster, words: &[String]) -> Result<String, String> {
    let (name, arguments) = words.split_first().ok_or("an empty command")?;
    let mut refusal = "no server".to_string();
    for server in cluster.servers() {
        let reply: redis::RedisResult<redis::Value> =
            redis::cmd(name).arg(arguments).query(&mut server.connect());
        match reply {
            Ok(value) => return Ok(shown(&value)),
            Err(error) => refusal = error.to_string(),
        }
    }
    Err(refusal)
}

impl Run<'_> {
    /// The server, or those of the cluster.
    pub(super) fn servers(&self) -> Vec<&TestServer> {
        self.cluster.iter().flat_map(Cluster::servers).chain(&self.server).collect()
    }

    pub(super) fn cluster_ports(&self) -> Option<Vec<u16>> {
        let cluster = self.cluster.as_ref()?;
        Some(cluster.servers().map(TestServer::port).collect())
    }

    /// Moves the slot of a lock to the next primary, which has it alone after `half_way`.
    pub(super) fn move_slot(&self, lock: &str, half_way: Duration) -> Result<(), Problem> {
        let cluster = self.cluster.as_ref().ok_or("no cluster")?;
        let from = primary_of(cluster, lock)?;
        let to = (from + 1) % cluster.primaries.len();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(cluster.move_slot_of(lock, from, to, async || tokio::time::sleep(half_way).await));
        Ok(())
    }

    /// Kills the primary of a lock, once its replica has all.
    pub(super) fn kill_primary(&mut self, lock: &str) -> Result<(), Problem> {
        let cluster = self.cluster.as_mut().ok_or("no cluster")?;
        let primary = primary_of(cluster, lock)?;
        let (Some(server), Some(replica)) = (cluster.primaries.get(primary), cluster.replicas.get(primary))
        else {
            return Err("no primary, or none with a replica".into());
        };
        wait_for_replicas_in_sync(server, replica);
        drop(cluster.kill(primary));
        Ok(())
    }
}

/// The place of the primary that has the lock, as the cluster began.
fn primary_of(cluster: &Cluster, lock: &str) -> Result<usize, Problem> {
    let server = cluster.primaries.first().ok_or("no primary")?;
    let slot = slot(&mut server.connect(), lock);
    Ok(slot * PRIMARIES / 16_384)
}
