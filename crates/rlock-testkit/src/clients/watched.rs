//! A primary, two replicas and three sentinels that watch them.

use std::time::Duration;

use super::{limit_everything, url};
use crate::commands::{SOON, say, story};
use crate::{Door, ServerBuilder, TestServer, eventually};

/// The time limit for a fail-over on a busy machine: sentinels do nothing for 30 seconds after a pause of two.
pub const FAILED_OVER: Duration = Duration::from_secs(120);

/// A server and its door.
pub struct Member {
    /// The server.
    pub server: TestServer,
    /// Its door.
    pub door: Door,
}

impl Member {
    /// A server whose announced address is that of its door.
    pub fn start(configure: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Member {
        let door = Door::to(0);
        let server = configure(announcing(&door)).start();
        door.lead_to(server.port());
        Member { server, door }
    }

    /// A field of `INFO replication`, on a separate connection: sentinels cut the connections of clients.
    pub fn fact(&self, name: &str) -> Option<String> {
        let client = redis::Client::open(url(&self.server)).unwrap();
        let info: String =
            redis::cmd("INFO").arg("replication").query(&mut client.get_connection().ok()?).ok()?;
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::to_owned)
    }

    /// Whether it is a replica of this server, and has all that this one has.
    pub fn follows(&self, primary: &Member) -> bool {
        let is = |name, value: &str| self.fact(name).as_deref() == Some(value);
        let offsets = [primary.fact("master_repl_offset"), self.fact("slave_repl_offset")];
        is("master_port", &primary.door.port().to_string())
            && is("master_link_status", "up")
            && offsets[0].is_some()
            && offsets[0] == offsets[1]
    }
}

/// A server that announces the address of its door.
pub fn announcing(door: &Door) -> ServerBuilder {
    TestServer::builder()
        .conf("replica-announce-ip", "127.0.0.1")
        .conf("replica-announce-port", door.port())
        // A server that was cut off comes back soon.
        .conf("repl-timeout", 5)
}

/// A primary, two replicas and three sentinels.
pub struct Watched {
    /// The primary of the start.
    pub primary: Member,
    /// Its replicas.
    pub replicas: [Member; 2],
    /// Those that watch them as `main`.
    pub sentinels: Vec<TestServer>,
}

/// The user and password by which sentinels know each other. The default user is for clients.
pub const PEER: &str = "peer";

/// The user of a sentinel that will be stale, on the servers that it watches.
const STALE: &str = "stale";

impl Watched {
    /// Starts them, and waits until all know all.
    pub fn start() -> Watched {
        limit_everything();
        let primary = Member::start(|builder| builder);
        let follow = || {
            let line = format!("127.0.0.1 {}", primary.door.port());
            Member::start(|builder| builder.conf("replicaof", line))
        };
        let replicas = [follow(), follow()];
        let sentinels = (0..3).map(|_| sentinel(primary.door.port())).collect();
        let watched = Watched { primary, replicas, sentinels };
        watched.await_replicas();
        watched.sentinels.iter().for_each(|sentinel| knows_all(sentinel, 2));
        watched
    }

    /// Waits until the replicas have all that the primary has.
    pub fn await_replicas(&self) {
        eventually("the replicas to follow", SOON, || {
            self.replicas.iter().all(|replica| replica.follows(&self.primary)).then_some(())
        });
    }

    /// The server that replaces the primary, once all sentinels say so, and the other replica.
    pub fn await_heir(&self) -> (&Member, &Member) {
        await_heir(&self.sentinels, &self.replicas)
    }

    /// A URL of the three sentinels.
    pub fn url(&self) -> String {
        sentinel_url(self.sentinels.iter())
    }

    /// One more sentinel, which knows all, and from here on believes what it knows now: it receives no message of the others, and
    /// sees only that the servers are up.
    pub fn stale_sentinel(&self) -> TestServer {
        let members = || [&self.primary].into_iter().chain(&self.replicas);
        let allow = |rights: &str| {
            for member in members() {
                let line = format!("ACL SETUSER {STALE} on >{STALE} resetchannels {rights}");
                story(&mut member.server.connect(), &[(&line, "OK")]);
            }
        };
        allow("allkeys allchannels +@all");
        let logins = [format!("auth-user main {STALE}"), format!("auth-pass main {STALE}")];
        let stale =
            logins.iter().fold(sentinel_of(self.primary.door.port()), |b, line| b.conf("sentinel", line));
        let stale = stale.start();
        self.sentinels.iter().chain([&stale]).for_each(|sentinel| knows_all(sentinel, 3));
        allow("-@all +ping +info");
        story(&mut stale.connect(), &[(&format!("ACL SETUSER {PEER} -publish"), "OK")]);
        stale
    }
}

/// A URL of these sentinels.
pub fn sentinel_url<'s>(sentinels: impl Iterator<Item = &'s TestServer>) -> String {
    let hosts = sentinels.map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
    format!("redis+sentinel://{}/main", hosts.collect::<Vec<_>>().join(","))
}

/// Waits until a sentinel knows this number of others, and the state of both replicas.
#[track_caller]
fn knows_all(sentinel: &TestServer, others: usize) {
    let client = &mut sentinel.connect();
    eventually("a sentinel to know all", FAILED_OVER, || {
        let known = say(client, "SENTINEL MASTER main");
        let replicas = say(client, "SENTINEL REPLICAS main");
        let all = known.contains(r#""num-slaves", "2""#)
            && known.contains(&format!(r#""num-other-sentinels", "{others}""#))
            && known.contains(r#""flags", "master""#)
            // A sentinel promotes only replicas whose status it knows.
            && replicas.matches(r#""master-link-status", "ok""#).count() == 2;
        all.then_some(())
    });
}

/// The server that all sentinels take for the primary, once it is another one, and the other replica.
#[track_caller]
pub fn await_heir<'m>(sentinels: &[TestServer], replicas: &'m [Member; 2]) -> (&'m Member, &'m Member) {
    let heir = eventually("another primary", FAILED_OVER, || {
        let name =
            |sentinel: &TestServer| say(&mut sentinel.connect(), "SENTINEL GET-MASTER-ADDR-BY-NAME main");
        let named: Vec<_> = sentinels.iter().map(name).collect();
        let is = |at: &usize| {
            let port = format!("\"{}\"]", replicas[*at].door.port());
            named.iter().all(|name| name.ends_with(&port))
        };
        let heir = (0..2).find(is)?;
        (replicas[heir].fact("role")? == "master").then_some(heir)
    });
    (&replicas[heir], &replicas[1 - heir])
}

fn sentinel(primary: u16) -> TestServer {
    sentinel_of(primary).start()
}

fn sentinel_of(primary: u16) -> ServerBuilder {
    TestServer::builder()
        .sentinel()
        .conf("user", format!("{PEER} on >{PEER} allkeys allchannels +@all"))
        .conf("sentinel", format!("sentinel-user {PEER}"))
        .conf("sentinel", format!("sentinel-pass {PEER}"))
        .conf("sentinel", format!("monitor main 127.0.0.1 {primary} 2"))
        .conf("sentinel", "down-after-milliseconds main 2000")
        // An election without a winner is repeated after twice this time.
        .conf("sentinel", "failover-timeout main 4000")
}
