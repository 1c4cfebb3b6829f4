//! Five independent servers, and clients that reach each through a proxy.

use std::time::Duration;

use rlock_client::{Builder, Client};
use rlock_multi::RedLock;
use rlock_testkit::TestServer;
use rlock_testkit::clients::proxy::{Fate, Proxy};
use rlock_testkit::clients::{eventually, holder, waiters};
use rustix::process::Signal;

/// How a server can fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Its process is killed.
    Killed,
    /// Its process is stopped.
    Stopped,
    /// Every request takes longer than an attempt may.
    Slowed,
}

/// Every way to fail.
pub(crate) const WAYS: [Way; 3] = [Way::Killed, Way::Stopped, Way::Slowed];

/// The servers; those that were killed are gone.
pub(crate) struct Five {
    /// The servers that run.
    pub(crate) servers: Vec<Option<TestServer>>,
    /// One before each server.
    pub(crate) proxies: Vec<Proxy>,
}

impl Five {
    /// Starts five servers, each behind a proxy.
    pub(crate) async fn start() -> Five {
        let servers: Vec<_> = (0..5).map(|_| Some(TestServer::start())).collect();
        let mut proxies = Vec::new();
        for server in servers.iter().flatten() {
            proxies.push(Proxy::to(server.port()).await);
        }
        Five { servers, proxies }
    }

    /// Clients of all five, as another process has them.
    pub(crate) fn clients(&self, builder: impl Fn() -> Builder) -> Vec<Client> {
        self.proxies.iter().map(|proxy| builder().connect_lazy(&proxy.url()).unwrap()).collect()
    }

    /// The lock of another process.
    pub(crate) fn lock(&self, builder: impl Fn() -> Builder, name: &str) -> RedLock {
        RedLock::new(&self.clients(builder), name).unwrap()
    }

    /// A server fails in this way.
    pub(crate) fn fail(&mut self, server: usize, way: Way) {
        match way {
            Way::Killed => drop(self.servers[server].take().expect("a server").kill9()),
            Way::Stopped => self.at(server).signal(Signal::STOP.as_raw()),
            Way::Slowed => self.proxies[server].rule(|_| Fate::Slow(3_000)),
        }
    }

    /// Undoes what can be undone; a server that was killed starts anew, without its memory.
    pub(crate) fn mend(&mut self, server: usize, way: Way) {
        match way {
            Way::Killed => {
                let port = self.proxies[server].target();
                self.servers[server] = Some(TestServer::builder().port(port).start());
            }
            Way::Stopped => self.at(server).signal(Signal::CONT.as_raw()),
            Way::Slowed => self.proxies[server].rule(|_| Fate::Pass),
        }
    }

    /// One of the running servers.
    pub(crate) fn at(&self, server: usize) -> &TestServer {
        self.servers[server].as_ref().expect("a server that was not killed")
    }

    /// The holder of the lock on each of these servers.
    pub(crate) fn holders(
        &self,
        servers: impl IntoIterator<Item = usize>,
        lock: &str,
    ) -> Vec<Option<String>> {
        let owner = |server| holder(&mut self.at(server).connect(), lock).map(|(owner, _)| owner);
        servers.into_iter().map(owner).collect()
    }

    /// Waits until the lock is free on all of these servers: long before its lease would end.
    pub(crate) async fn all_free(&self, servers: impl IntoIterator<Item = usize> + Clone, lock: &str) {
        eventually("free locks", || {
            self.holders(servers.clone(), lock).iter().all(Option::is_none).then_some(())
        })
        .await;
        for server in servers {
            assert_eq!(waiters(self.at(server)), 0);
        }
    }
}

/// Gives a connection up soon, but late enough that a busy machine does not look like a fault.
pub(crate) fn hasty() -> Builder {
    Client::builder().response_timeout(Duration::from_millis(1_500))
}
