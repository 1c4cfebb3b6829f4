//! The servers of a planned fail-over, and how it is done.

use std::time::{Duration, Instant};

use redis::{Connection, Value};
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::clients::watched::{PEER, Watched, sentinel_url};
use rlock_testkit::rights::{refusals, set_user};
use rlock_testkit::{Door, ServerName, TestServer, wait_for_replicas_in_sync};

use crate::clock::boot_ns;

/// A way in which an operator replaces a primary on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `SENTINEL FAILOVER`: the old primary accepts writes until a Sentinel demotes it, some ten seconds later.
    Sentinel,
    /// The same, after `CLIENT PAUSE 15000 WRITE` on the old primary.
    Paused,
    /// `SENTINEL FAILOVER name COORDINATED`: Valkey from 9.0 on.
    Coordinated,
    /// `CLUSTER FAILOVER` on a replica.
    Cluster,
    /// `FAILOVER` behind an address that leads to the new primary a moment later.
    Address,
}

impl Way {
    const ALL: [Way; 5] = [Way::Sentinel, Way::Paused, Way::Coordinated, Way::Cluster, Way::Address];

    /// By its name; `all` are those that the server under test offers.
    pub fn named(name: &str) -> Option<Vec<Way>> {
        if name != "all" {
            return Some(vec![Way::ALL.into_iter().find(|way| way.name() == name)?]);
        }
        let coordinates =
            TestServer::builder().without_module().start().version().is_at_least(ServerName::Valkey, 9, 0);
        let other = if coordinates { Way::Paused } else { Way::Coordinated };
        Some(Way::ALL.into_iter().filter(|way| *way != other).collect())
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Sentinel => "sentinel",
            Way::Paused => "paused",
            Way::Coordinated => "coordinated",
            Way::Cluster => "cluster",
            Way::Address => "address",
        }
    }

    /// Whether a lock can be lost that was acquired between promotion and switch.
    pub(super) fn loses(self) -> bool {
        self == Way::Sentinel
    }
}

/// The servers.
pub(super) enum Stage {
    /// The last one is a Sentinel that believes for ever in the first primary.
    Watched(Way, Box<Watched>, TestServer),
    Cluster(Cluster),
    Address {
        old: TestServer,
        new: TestServer,
        door: Door,
    },
}

/// A fail-over that was done, in ns of the boot clock.
#[derive(Clone, Copy)]
pub(super) struct Moved<'s> {
    pub(super) new: &'s TestServer,
    /// When the new primary was seen to be one.
    pub(super) promoted: i64,
    /// From when on a client can know of it.
    pub(super) findable: i64,
}

/// How long a planned fail-over may take.
const DONE: Duration = Duration::from_secs(30);

impl Stage {
    pub(super) fn start(way: Way) -> Stage {
        match way {
            Way::Sentinel | Way::Paused | Way::Coordinated => {
                let watched = Watched::start();
                let stale = watched.stale_sentinel();
                for sentinel in watched.sentinels.iter().chain([&stale]) {
                    let set =
                        set_user(sentinel, &mut sentinel.connect_as(PEER, PEER), "default", &["Sentinel"]);
                    set.unwrap_or_else(|problem| panic!("{problem}"));
                }
                Stage::Watched(way, Box::new(watched), stale)
            }
            Way::Cluster => Stage::Cluster(Cluster::start_with_replicas(3)),
            Way::Address => {
                let old = TestServer::start();
                let line = format!("127.0.0.1 {}", old.port());
                let new = TestServer::builder().conf("replicaof", line).start();
                wait_for_replicas_in_sync(&old, &new);
                let door = Door::to(old.port());
                Stage::Address { old, new, door }
            }
        }
    }

    /// A prefix of the names of all locks: in a cluster they are on one primary.
    pub(super) fn tag(&self) -> String {
        match self {
            Stage::Cluster(cluster) => format!("{{{}}}", cluster.lock_on(0, 'm')),
            _ => String::new(),
        }
    }

    /// The URLs of clients that begin before the fail-over, and after it.
    ///
    /// With Sentinels, the first ones name those that are well, the others a stale one first; or those name the stale one first,
    /// and these nothing else.
    pub(super) fn urls(&self) -> [String; 2] {
        let one = match self {
            Stage::Watched(way, watched, stale) => {
                let stale_first = sentinel_url([stale].into_iter().chain(&watched.sentinels));
                return match way {
                    Way::Sentinel => [watched.url(), stale_first],
                    _ => [stale_first, sentinel_url([stale].into_iter())],
                };
            }
            Stage::Cluster(cluster) => cluster.url(),
            Stage::Address { door, .. } => format!("redis://127.0.0.1:{}", door.port()),
        };
        [one.clone(), one]
    }

    /// The primary before the fail-over.
    pub(super) fn old(&self) -> &TestServer {
        match self {
            Stage::Watched(_, watched, _) => &watched.primary.server,
            Stage::Cluster(cluster) => &cluster.primaries[0],
            Stage::Address { old, .. } => old,
        }
    }

    /// The commands that Sentinels refused: clients have the least rights there.
    pub(super) fn refusals(&self) -> Option<String> {
        let Stage::Watched(_, watched, stale) = self else { return None };
        let refused = |sentinel: &TestServer| match refusals(&mut sentinel.connect_as(PEER, PEER), "default")
        {
            Ok((0, _)) => None,
            Ok((_, what)) => Some(format!("a Sentinel refused {what}")),
            Err(problem) => Some(problem),
        };
        watched.sentinels.iter().chain([stale]).find_map(refused)
    }

    /// Whether a client that has moved has no connection to the old primary.
    pub(super) fn is_left(&self) -> bool {
        !matches!(self, Stage::Cluster(_))
    }

    /// Replaces the primary. `later`: how long its address leads to the old one, in a way in which it moves.
    pub(super) fn fail_over(&self, later: Duration) -> Result<Moved<'_>, String> {
        match self {
            Stage::Watched(way, watched, _) => replaced_by_sentinels(*way, watched),
            Stage::Cluster(cluster) => {
                let new = &cluster.replicas[0];
                says_ok(&mut new.connect(), "CLUSTER FAILOVER")?;
                let promoted = promotion_of([new])?.1;
                Ok(Moved { new, promoted, findable: promoted })
            }
            Stage::Address { old, new, door } => {
                says_ok(&mut old.connect(), "FAILOVER")?;
                let promoted = promotion_of([new])?.1;
                std::thread::sleep(later);
                door.lead_to(new.port());
                Ok(Moved { new, promoted, findable: boot_ns() })
            }
        }
    }
}

fn replaced_by_sentinels(way: Way, watched: &Watched) -> Result<Moved<'_>, String> {
    let sentinel = &mut watched.sentinels.first().ok_or("no sentinel")?.connect_as(PEER, PEER);
    match way {
        Way::Paused => {
            says_ok(&mut watched.primary.server.connect(), "CLIENT PAUSE 15000 WRITE")?;
            says_ok(sentinel, "SENTINEL FAILOVER main")?;
        }
        Way::Coordinated => says_ok(sentinel, "SENTINEL FAILOVER main COORDINATED")?,
        _ => says_ok(sentinel, "SENTINEL FAILOVER main")?,
    }
    let (new, promoted) = promotion_of(watched.replicas.each_ref().map(|replica| &replica.server))?;
    Ok(Moved { new, promoted, findable: promoted })
}

/// Waits until one of these servers is a primary, and when it was.
fn promotion_of<const N: usize>(servers: [&TestServer; N]) -> Result<(&TestServer, i64), String> {
    // On new connections: a server that changes its role ends some.
    let is_primary = |server: &&TestServer| {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).ok()?;
        let role: Value = redis::cmd("ROLE").query(&mut client.get_connection().ok()?).ok()?;
        matches!(&role, Value::Array(fields) if fields.first() == Some(&Value::BulkString(b"master".to_vec()))).then_some(())
    };
    let end = Instant::now() + DONE;
    while Instant::now() < end {
        if let Some(new) = servers.into_iter().find(|server| is_primary(server).is_some()) {
            return Ok((new, boot_ns()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let logs: Vec<String> = servers.iter().map(|server| server.log()).collect();
    Err(format!("no replica was promoted within {DONE:?}: {}", logs.join("\n")))
}

fn says_ok(connection: &mut Connection, line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    match command.query::<Value>(connection) {
        Ok(Value::Okay) => Ok(()),
        other => Err(format!("{line}: {other:?}")),
    }
}
