//! A primary with a replica behind a proxy. The primary is killed and comes back, or the replica takes over.

use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rlock_testkit::clients::run;
use rlock_testkit::{Door, ServerBuilder, TestServer, eventually, poll};

use super::{logs, server};

/// How long a fail-over may take.
const TAKEN_OVER: Duration = Duration::from_secs(20);

/// How many locks are acquired between two checks of whether a replica is linked.
const AT_ONCE: u64 = 20;

/// The servers, which are `None` only while one is being replaced.
struct Pair {
    primary: Option<TestServer>,
    replica: Option<TestServer>,
}

pub(crate) struct Alone {
    pub(crate) proxy: Door,
    /// For the Rust client, which of a server that is alone expects that it stays the primary.
    pub(crate) own: Door,
    pair: Mutex<Pair>,
    port: AtomicU16,
    /// Whether the servers write an append only file, on the disk before they answer.
    pub(crate) aof: bool,
    different: Mutex<Vec<String>>,
    /// Warnings of servers that no longer exist.
    warnings: Mutex<Vec<String>>,
}

fn one(aof: bool) -> ServerBuilder {
    // A snapshot on the disk begins as soon as a replica asks for it, and not at the server's next beat, at which the
    // module checks whether its writes have a reader.
    let (appends, diskless) = if aof { ("yes", "yes") } else { ("no", "no") };
    server().conf("appendonly", appends).conf("repl-diskless-sync", diskless)
}

impl Alone {
    /// With an append only file the replica is there from the beginning; without one it is attached later.
    pub(crate) fn start(aof: bool) -> Alone {
        let primary = one(aof).start();
        let port = primary.port();
        let replica = aof.then(|| follower(aof, port, || {}));
        let pair = Mutex::new(Pair { primary: Some(primary), replica });
        Alone {
            proxy: Door::to(port),
            own: Door::to(port),
            pair,
            port: AtomicU16::new(port),
            aof,
            different: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    fn pair(&self) -> MutexGuard<'_, Pair> {
        self.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn entry(&self) -> u16 {
        self.proxy.port()
    }

    pub(crate) fn primary_port(&self) -> u16 {
        self.port.load(SeqCst)
    }

    pub(crate) fn with_primary<T>(&self, work: impl FnOnce(&TestServer) -> T) -> T {
        work(self.pair().primary.as_ref().expect("the primary"))
    }

    pub(crate) fn with_both<T>(&self, work: impl FnOnce(&TestServer, &TestServer) -> T) -> T {
        let pair = self.pair();
        work(pair.primary.as_ref().expect("the primary"), pair.replica.as_ref().expect("the replica"))
    }

    /// Steps the clocks of both.
    pub(crate) fn set_clock_ahead(&self, seconds: i64) {
        let pair = self.pair();
        for server in pair.primary.iter().chain(&pair.replica) {
            server.set_clock_ahead(seconds);
        }
    }

    /// Leads every new connection to this server.
    fn serve_from(&self, server: &TestServer) {
        self.port.store(server.port(), SeqCst);
        self.proxy.lead_to(server.port());
        self.own.lead_to(server.port());
        self.own.cut(|| true);
    }

    /// Cuts connections of all clients, or each that `chosen` says.
    pub(crate) fn cut(&self, mut chosen: impl FnMut() -> bool) {
        self.proxy.cut(&mut chosen);
        self.own.cut(chosen);
    }

    /// Kills the primary, and starts it anew from its append only file.
    pub(crate) fn kill_and_restart(&self) {
        let mut pair = self.pair();
        let stopped = pair.primary.take().expect("the primary").kill9();
        let primary = one(self.aof).dir(stopped).start();
        if let Some(replica) = &pair.replica {
            run::<redis::Value>(&mut replica.connect(), &format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        }
        self.serve_from(&primary);
        pair.primary = Some(primary);
    }

    /// Attaches a replica to a primary without one, while locks are acquired; whether it did.
    pub(crate) fn attach(&self) -> bool {
        let mut pair = self.pair();
        let none = pair.replica.is_none();
        if none {
            let primary = pair.primary.as_ref().expect("the primary");
            let mut last = 0;
            let replica = follower(self.aof, primary.port(), || last = acquire_one_more(primary, last));
            rlock_testkit::wait_for_replicas_in_sync(primary, &replica);
            let different = different(primary, &replica, last);
            self.different.lock().unwrap_or_else(PoisonError::into_inner).extend(different);
            pair.replica = Some(replica);
        }
        none
    }

    /// Locks that were acquired while a replica was attached, and that were not the same there when it was linked.
    pub(crate) fn different_on_replicas(&self) -> Vec<String> {
        std::mem::take(&mut *self.different.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The module's warnings, on any server so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let pair = self.pair();
        let mut all = std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        for server in pair.primary.iter().chain(&pair.replica) {
            all.extend(logs::warnings(&server.log()));
        }
        all
    }

    /// Lets the replica take over as it is done where nothing may be lost; `false` where the servers did not agree.
    pub(crate) fn switch(&self) -> bool {
        if self.attach() {
            // The replica must have later writes as well, not only its first copy.
            std::thread::sleep(Duration::from_millis(300));
        }
        let mut pair = self.pair();
        let (Some(primary), Some(replica)) = (&pair.primary, &pair.replica) else { return false };
        let linked = is_linked_soon(replica);
        let to = ["TO", "127.0.0.1", &replica.port().to_string(), "TIMEOUT", "5000"];
        if !linked || redis::cmd("FAILOVER").arg(&to).query::<()>(&mut primary.connect()).is_err() {
            return false;
        }
        let leads = || (replica.info("replication")["role"] == "master").then_some(());
        if poll(Duration::from_secs(8), leads).is_none() {
            return false;
        }
        // The old primary lives, and notifies its clients itself of its demotion.
        self.serve_from(replica);
        let Pair { primary, replica } = &mut *pair;
        std::mem::swap(primary, replica);
        true
    }

    /// Kills the primary; the replica takes over with what it has, and gets a new replica.
    pub(crate) fn promote(&self) {
        let mut pair = self.pair();
        let Some(replica) = pair.replica.take() else { return };
        let killed = pair.primary.take().expect("the primary").kill9();
        let log = logs::read(killed.data.path());
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(logs::warnings(&log));
        run::<redis::Value>(&mut replica.connect(), "REPLICAOF NO ONE");
        self.serve_from(&replica);
        pair.primary = Some(replica);
    }
}

/// A replica, once it is linked; meanwhile something is done again and again.
fn follower(aof: bool, primary: u16, mut meanwhile: impl FnMut()) -> TestServer {
    let replica = one(aof).start();
    run::<redis::Value>(&mut replica.connect(), &format!("REPLICAOF 127.0.0.1 {primary}"));
    eventually("the replica to be linked", TAKEN_OVER, || {
        meanwhile();
        is_linked(&replica).then_some(())
    });
    replica
}

/// The name of a lock that is acquired while a replica is attached.
fn attached(number: u64) -> String {
    format!("attached:{number}")
}

/// Acquires locks of which no other client knows for a moment; the number of the last.
fn acquire_one_more(primary: &TestServer, last: u64) -> u64 {
    let client = &mut primary.connect();
    for number in last..last + AT_ONCE {
        let mut acquire = redis::cmd("RLOCK.ACQUIRE");
        let _ = acquire.arg(&[&attached(number), "alice", "60000"]).query::<redis::Value>(client);
    }
    last + AT_ONCE
}

/// Those of these locks that end at another time on the replica, or are not there; they are deleted.
fn different(primary: &TestServer, replica: &TestServer, last: u64) -> Vec<String> {
    let (here, there) = (&mut primary.connect(), &mut replica.connect());
    let ends = |client: &mut redis::Connection, name: &str| {
        redis::cmd("PEXPIRETIME").arg(name).query::<i64>(client).unwrap_or(-1)
    };
    let mut names: Vec<String> = (0..last).map(attached).collect();
    names.retain(|name| {
        let different = ends(here, name) != ends(there, name);
        let _ = redis::cmd("DEL").arg(name).query::<u64>(here);
        different
    });
    names
}

fn is_linked(replica: &TestServer) -> bool {
    replica.info("replication").get("master_link_status").is_some_and(|status| status == "up")
}

/// After a fault the replica may need a moment to come back.
fn is_linked_soon(replica: &TestServer) -> bool {
    poll(Duration::from_secs(3), || is_linked(replica).then_some(())).is_some()
}
