//! Client configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Clock;
use crate::config::{Config, Durability, Waiting};
use crate::endpoint::{Endpoint, destination};
use crate::error::Error;
use crate::events::{Event, Hook};
use crate::link::RedisConnector;

/// Client configuration; see [`Client::builder`].
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    config: Config,
}

impl Builder {
    /// Sets the lease of all locks that set none, 30 seconds by default. Locks are renewed every third of their lease;
    /// see [`Lock::renew`](crate::Lock::renew). From 1 ms to 2^43 ms.
    ///
    /// After a crash, the lock is free after this time. An outage loses locks if it lasts longer than the lease less a third:
    /// the time from the last renewal, see [`Builder::renewals_per_lease`].
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.config.lease = lease;
        self
    }

    /// Sets how often locks are renewed in the time of their lease, 3 by default; from 2 to 20. More renewals cost more
    /// requests, and a lock survives a longer outage: of a lease of 60 s 40 s with 3 renewals, 54 s with 10.
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
    /// For renewals of a lock with a shorter lease than the client's, it is a sixth of the lock's lease, at least 50 ms.
    pub fn response_timeout(mut self, time: Duration) -> Builder {
        self.config.response = Some(time);
        self
    }

    /// Sets the trusted certificate authorities, as certificates in PEM, instead of those of the platform.
    ///
    /// The platform's authorities are those in `SSL_CERT_FILE` or `SSL_CERT_DIR`, or else the system's.
    #[cfg(feature = "tls")]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Builder {
        self.config.login.roots = Some(pem.as_ref().to_vec());
        self
    }

    /// Sets the client's certificate chain and key, in PEM, for servers that ask for them (`tls-auth-clients`, on by
    /// default).
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Builder {
        let (client_cert, client_key) = (chain.as_ref().to_vec(), key.as_ref().to_vec());
        self.config.login.client = Some(redis::ClientTlsConfig { client_cert, client_key });
        self
    }

    /// Names the client, for its owners and connections (CLIENT LIST). The default is the program's name.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.config.login.name = Some(name.into());
        self
    }

    /// Sets the receiver of [`Event`]s, for metrics and logs.
    ///
    /// It is called while a lock is returned or ended, also on the task that renews all locks: it must be quick and
    /// must not block. A panic in it is caught.
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

    /// Connects to the server of a client of the driver, with its settings: address, TLS, user, password and database.
    /// The connections are this client's own. Needs a tokio runtime, as [`Builder::connect`] does.
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
        let connector = RedisConnector::open(driver.get_connection_info().clone(), &self.config.login)?;
        let server = destination(&connector.url());
        let endpoint = Endpoint::of_server(connector);
        let client = Client::start(self.config, Clock::System, server, |links| endpoint.route(links));
        client.probe().await?;
        Ok(client)
    }

    /// Starts to connect, without waiting for the outcome. Use it for the servers of a [`RedLock`](crate::RedLock),
    /// which may be down when the program starts. Needs a tokio runtime, as [`Builder::connect`] does.
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
        Ok(Client::start(self.config, Clock::System, destination(url), |links| endpoint.route(links)))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
