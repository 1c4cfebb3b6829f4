//! Where the clients go: one server with its replica, or a cluster.

mod alone;
mod cluster;
mod logs;

use rlock_testkit::{ServerBuilder, TestServer};

pub(crate) use alone::Alone;
pub(crate) use cluster::Cluster;

/// How long a grant by message lasts until it is confirmed.
pub(crate) const CONFIRM_MS: u64 = 2_000;

/// How long a Redisson waiter at the head of its list has for its turn.
pub(crate) const FAIR_TURN_MS: u64 = 700;

/// Servers, and how to reach them.
pub(crate) enum Place {
    /// A primary and its replica, which may take over, behind a proxy.
    Alone(Box<Alone>),
    /// Primaries between which slots move.
    Cluster(Cluster),
}

impl Place {
    /// The port to ask where nothing else is known of a lock.
    pub(crate) fn entry(&self) -> u16 {
        match self {
            Place::Alone(alone) => alone.entry(),
            Place::Cluster(cluster) => cluster.ports[0],
        }
    }

    /// Whether messages are those of sharded channels.
    pub(crate) fn sharded(&self) -> bool {
        matches!(self, Place::Cluster(_))
    }

    /// Where the Rust client connects to.
    pub(crate) fn url(&self) -> String {
        match self {
            Place::Alone(alone) => format!("redis://127.0.0.1:{}", alone.own.port()),
            Place::Cluster(cluster) => {
                let hosts: Vec<_> = cluster.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
                format!("redis+cluster://{}", hosts.join(","))
            }
        }
    }

    /// The ports of the servers that serve locks now, without a proxy.
    pub(crate) fn primaries(&self) -> Vec<u16> {
        match self {
            Place::Alone(alone) => vec![alone.primary_port()],
            Place::Cluster(cluster) => cluster.ports.clone(),
        }
    }

    /// The module's warnings, in the log of any server so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match self {
            Place::Alone(alone) => alone.warnings(),
            Place::Cluster(cluster) => cluster.warnings(),
        }
    }

    /// Which server this is, and its version.
    pub(crate) fn version(&self) -> String {
        let describe = |server: &TestServer| {
            let version = server.version();
            format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch)
        };
        match self {
            Place::Alone(alone) => alone.with_primary(describe),
            Place::Cluster(cluster) => cluster.with_node(0, describe),
        }
    }
}

/// A server with what both places have in common.
fn server() -> ServerBuilder {
    TestServer::builder()
        .conf("rlock.grant-confirm-ms", CONFIRM_MS)
        .conf("rlock.fair-turn-ms", FAIR_TURN_MS)
        .conf("maxmemory-policy", "noeviction")
        .with_a_clock_that_steps()
}
