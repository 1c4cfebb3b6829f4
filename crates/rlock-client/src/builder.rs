//! Client configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rlock_links::{Clock, Endpoint};

use crate::client::Client;
use crate::config::{Config, Durability, Waiting};
use crate::error::Error;
use crate::events::{Event, Hook};

/// Client configuration; see [`Client::builder`].
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    config: Config,
}

impl Builder {
    /// Sets the lease of all locks that set none, 30 seconds by default. Locks are renewed every third of their lease;
    /// see [`Lock::renew`](crate::Lock::renew). From 100 ms, since a renewal needs a round trip, to 2^43 ms.
    ///
    /// After a crash, the lock is free after this time. An outage loses locks if it lasts longer than two thirds of the
    /// lease, since the last renewal may be a third of it old: see [`Builder::renewals_per_lease`].
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.config.lease = lease;
        self
    }

    /// Sets how often locks are renewed in the time of their lease, 3 by default; from 2 to 20. More renewals cost more
    /// requests, and locks survive a longer outage. With a lease of 60 s, that is 40 s with 3 renewals and 54 s with 10.
    pub fn renewals_per_lease(mut self, count: u32) -> Builder {
        self.config.renewals = count;
        self
    }

    /// Sets the session grace of all locks that set none; see [`Lock::session_grace`](crate::Lock::session_grace).
    pub fn session_grace(mut self, grace: Duration) -> Builder {
        self.config.session_grace = Some(grace);
        self
    }

    /// Limits how long [`Lock::acquire`](crate::Lock::acquire) waits, for all locks without a limit of their own.
    pub fn wait(mut self, wait: Duration) -> Builder {
        self.config.wait = Some(wait);
        self
    }

    /// Sets how the client waits for locks.
    pub fn waiting(mut self, waiting: Waiting) -> Builder {
        self.config.waiting = waiting;
        self
    }

    /// Sets how many replicas must have a lock before `acquire` returns it, for all locks that do not set it.
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.config.durability = durability;
        self
    }

    /// Sets how long replicas may take to receive a lock, 1 second by default.
    pub fn durability_wait(mut self, wait: Duration) -> Builder {
        self.config.durability_wait = wait;
        self
    }

    /// Sets how long a server may take to answer before the client opens another connection. The default is a sixth
    /// of the client's lease, at least 50 ms and at most 2 seconds; the first connection may take 1 second or more.
    ///
    /// For renewals of a lock with a shorter lease than the client's, the default is a sixth of the lock's lease, at least 50 ms.
    pub fn response_timeout(mut self, time: Duration) -> Builder {
        self.config.response = Some(time);
        self
    }

    /// Sets the trusted certificate authorities, as certificates in PEM, instead of those of the platform.
    ///
    /// The platform's authorities are those in `SSL_CERT_FILE` or `SSL_CERT_DIR`, or else the system's.
    #[cfg(feature = "tls")]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Builder {
        self.config.login.root_certificates(pem.as_ref().to_vec());
        self
    }

    /// Sets the client's certificate chain and key, in PEM, for servers that ask for them (`tls-auth-clients`, on by
    /// default).
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Builder {
        self.config.login.client_certificate(chain.as_ref().to_vec(), key.as_ref().to_vec());
        self
    }

    /// Names the client, for its owners and connections (CLIENT LIST). The default is the program's name.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.config.login.name = Some(name.into());
        self
    }

    /// Sets the receiver of [`Event`]s, for metrics and logs.
    ///
    /// The receiver is called while a lock is returned or ended, also on the task that renews all locks. It must be
    /// quick and must not block. A panic in it is caught.
    ///
    /// ```
    /// use rlock_client::{Client, Event};
    ///
    /// let builder = Client::builder().on_event(|event| match event {
    ///     Event::Acquired { waited, .. } => println!("acquired after {waited:?}"),
    ///     Event::Lost { why, .. } => eprintln!("lost: {why}"),
    ///     _ => (),
    /// });
    /// # drop(builder);
    /// ```
    pub fn on_event(mut self, receiver: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Builder {
        self.config.events = Hook(Some(Arc::new(receiver)));
        self
    }

    /// Connects to the server that a URL names; see [`Client::connect`]. Needs a tokio runtime, which the client uses
    /// until it ends.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`], and [`Error::Invalid`] for bad settings.
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let client = self.connect_lazy(url)?;
        client.probe().await?;
        Ok(client)
    }

    /// Connects to the server of a client of the `redis` driver, with that client's settings: address, TLS, user,
    /// password and database. The client opens its own connections. Needs a tokio runtime, as [`Builder::connect`] does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rlock_testkit::TestServer::start();
    /// # let url = format!("redis://127.0.0.1:{}", server.port());
    /// let driver = redis::Client::open(url)?;
    /// let client = rlock_client::Client::builder().connect_like(&driver).await?;
    /// # client.lock("a").await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    pub async fn connect_like(self, driver: &redis::Client) -> Result<Client, Error> {
        self.config.check()?;
        let endpoint = Endpoint::of_server(driver.get_connection_info(), &self.config.login)?;
        let client = self.start(endpoint);
        client.probe().await?;
        Ok(client)
    }

    /// Starts to connect, without waiting for the outcome. Use it for servers that may be down
    /// when the program starts. Needs a tokio runtime, as [`Builder::connect`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a bad URL or bad settings; other errors appear when you acquire locks.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn connect_lazy(self, url: &str) -> Result<Client, Error> {
        self.config.check()?;
        let endpoint = Endpoint::parse(url, &self.config.login)?;
        Ok(self.start(endpoint))
    }

    fn start(self, endpoint: Endpoint) -> Client {
        let server = endpoint.destination();
        Client::start(self.config, Clock::System, server, |links, watch| endpoint.route(links, watch))
    }
}

impl Client {
    /// Connects to the server or servers that a URL names, with the default settings.
    ///
    /// | URL | the client uses |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | this server |
    /// | `redis+sentinel://[user:password@]host[:port],…/service[/database]` | the primary that the Sentinels name |
    /// | `redis+cluster://[user:password@]host[:port],…` | a cluster: for each lock, the primary of its slot |
    /// | `rediss://`, `rediss+sentinel://`, `rediss+cluster://` | the same over TLS, with the feature `tls` |
    /// | `unix:///path[?db=…&user=…&pass=…]` | the server behind this socket |
    ///
    /// `valkey` and `valkeys` are the same as `redis` and `rediss`. The command `rlock` takes the same URLs.
    ///
    /// User and password are those of the servers' ACL; percent-encode all characters except letters and digits.
    /// Sentinels do not receive them: give their own user and password at the end,
    /// `?sentinel_username=…&sentinel_password=…`. The default port is 6379, for Sentinels 26379. For a cluster, one
    /// reachable server is enough, several are better.
    ///
    /// Over TLS, servers must prove their names to the platform's authorities, or to those of
    /// `Builder::root_certificates`. The names that Sentinels and clusters announce must be in the certificates
    /// (`cluster-preferred-endpoint-type hostname`, `sentinel announce-hostnames yes`).
    ///
    /// # Fail-over
    ///
    /// A single server has no replacement. While it is down, waits continue, and the client renews locks as soon as
    /// the server is back. Locks whose lease has ended by that time are lost, and report it.
    ///
    /// With Sentinels and in a cluster, a replica takes over, and the client finds it. The client leaves a server that reports
    /// that it is not a primary, also behind a plain address, and resolves the address anew. It asks all Sentinels, also those
    /// that other Sentinels list, and believes the highest configuration epoch. It leaves the old primary when a Sentinel
    /// announces a new one: a second after a `SENTINEL FAILOVER`. In that second, the old primary accepts writes that are
    /// lost. Locks that the replica has are renewed there. The queue was in the memory of the old primary: waits join a new
    /// queue, in the order in which they arrive. Slots that move to another server work the same way, but lose nothing.
    ///
    /// **A fail-over can lose a lock**, because servers replicate after they have answered. The replica may lack a
    /// lock that was acquired just before. It grants this lock to another owner, while the first holder works on
    /// until its next renewal. A primary that is cut off may also grant locks until it learns that it was replaced.
    /// [`Durability`] narrows the first gap: `acquire` returns only when the given number of replicas has the lock.
    /// `min-replicas-to-write` on the servers narrows the second, and so does a short lease. For effects that must
    /// never happen twice, also check at the resource.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`], [`Error::Tls`] and [`Error::Permission`] if the first attempt to connect fails,
    /// [`Error::ModuleMissing`] if the server does not know the commands, [`Error::Invalid`] for a bad URL.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    /// The configuration of a new client.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
