//! A primary, two replicas and three sentinels that watch them.

use std::time::Duration;

use rlock_testkit::clients;
use rlock_testkit::{Door, ServerBuilder, TestServer, eventually};

use rlock_testkit::clients::limit_everything;
use rlock_testkit::commands::{SOON, say};

/// The time limit for a fail-over on a busy machine: sentinels do nothing for 30 seconds after a pause of two.
pub(crate) const FAILED_OVER: Duration = Duration::from_secs(120);

/// A server and its door.
pub(crate) struct Member {
    pub(crate) server: TestServer,
    pub(crate) door: Door,
}

impl Member {
    pub(crate) fn start(configure: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Member {
        let door = Door::to(0);
        let server = configure(announcing(&door)).start();
        door.lead_to(server.port());
        Member { server, door }
    }

    /// A field of `INFO replication`, on a separate connection: sentinels cut the connections of clients.
    pub(crate) fn fact(&self, name: &str) -> Option<String> {
        let client = redis::Client::open(clients::url(&self.server)).unwrap();
        let info: String =
            redis::cmd("INFO").arg("replication").query(&mut client.get_connection().ok()?).ok()?;
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::to_owned)
    }

    pub(crate) fn follows(&self, primary: &Member) -> bool {
        let is = |name, value: &str| self.fact(name).as_deref() == Some(value);
        let offsets = [primary.fact("master_repl_offset"), self.fact("slave_repl_offset")];
        is("master_port", &primary.door.port().to_string())
            && is("master_link_status", "up")
            && offsets[0].is_some()
            && offsets[0] == offsets[1]
    }
}

/// A server that announces the address of its door.
pub(crate) fn announcing(door: &Door) -> ServerBuilder {
    TestServer::builder()
        .conf("replica-announce-ip", "127.0.0.1")
        .conf("replica-announce-port", door.port())
        // A server that was cut off comes back soon.
        .conf("repl-timeout", 5)
}

pub(crate) struct Watched {
    pub(crate) primary: Member,
    pub(crate) replicas: [Member; 2],
    pub(crate) sentinels: Vec<TestServer>,
}

impl Watched {
    pub(crate) fn start() -> Watched {
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
        for sentinel in &watched.sentinels {
            let client = &mut sentinel.connect();
            eventually("a sentinel to know all", FAILED_OVER, || {
                let known = say(client, "SENTINEL MASTER main");
                let replicas = say(client, "SENTINEL REPLICAS main");
                let all = known.contains(r#""num-slaves", "2""#)
                    && known.contains(r#""num-other-sentinels", "2""#)
                    && known.contains(r#""flags", "master""#)
                    // A sentinel promotes only replicas whose status it knows.
                    && replicas.matches(r#""master-link-status", "ok""#).count() == 2;
                all.then_some(())
            });
        }
        watched
    }

    pub(crate) fn await_replicas(&self) {
        eventually("the replicas to follow", SOON, || {
            self.replicas.iter().all(|replica| replica.follows(&self.primary)).then_some(())
        });
    }

    pub(crate) fn await_heir(&self) -> (&Member, &Member) {
        await_heir(&self.sentinels, &self.replicas)
    }

    pub(crate) fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        format!("redis+sentinel://{}/main", hosts.collect::<Vec<_>>().join(","))
    }
}

/// The server that all sentinels take for the primary, once it is another one, and the other replica.
pub(crate) fn await_heir<'m>(
    sentinels: &[TestServer],
    replicas: &'m [Member; 2],
) -> (&'m Member, &'m Member) {
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
    TestServer::builder()
        .sentinel()
        .conf("sentinel", format!("monitor main 127.0.0.1 {primary} 2"))
        .conf("sentinel", "down-after-milliseconds main 2000")
        // An election without a winner is repeated after twice this time.
        .conf("sentinel", "failover-timeout main 4000")
        .start()
}
