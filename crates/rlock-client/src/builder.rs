//! How a client is to be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Clock;
use crate::config::{Config, Durability, Waiting};
use crate::endpoint::{Endpoint, destination};
use crate::error::Error;
use crate::metrics::Metrics;

/// How a client is to be; see [`Client::builder`].
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    config: Config,
}

impl Builder {
    /// Sets a lease for all locks that name none of their own; they are not renewed then.
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.config.lease = Some(lease);
        self
    }

    /// Sets the lease of locks that are renewed, 30 seconds by default; they are renewed every third of it.
    ///
    /// So long after a crash the lock is free, and so long an outage may last before locks are lost.
    pub fn watchdog_timeout(mut self, lease: Duration) -> Builder {
        self.config.watchdog = lease;
        self
    }

    /// Limits how long [`Lock::lock`](crate::Lock::lock) waits, for all locks that set no limit of their own.
    pub fn wait(mut self, wait: Duration) -> Builder {
        self.config.wait = Some(wait);
        self
    }

    /// Sets how locks are waited for.
    pub fn waiting(mut self, waiting: Waiting) -> Builder {
        self.config.waiting = waiting;
        self
    }

    /// Sets how many replicas must have a lock before it is handed out, for all locks that do not say.
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.config.durability = durability;
        self
    }

    /// Sets how long replicas may take to have a lock, 1 second by default.
    pub fn durability_wait(mut self, wait: Duration) -> Builder {
        self.config.durability_wait = wait;
        self
    }

    /// Sets how long a server may take to answer before the connection is given up for another; by default a sixth
    /// of the watchdog's time, at least 50 ms and at most 5 seconds.
    pub fn response_timeout(mut self, time: Duration) -> Builder {
        self.config.response = Some(time);
        self
    }

    /// Sets the authorities to trust, as certificates in PEM, in place of those of the platform.
    ///
    /// The platform's are those that the variables `SSL_CERT_FILE` or `SSL_CERT_DIR` name, else the system's.
    #[cfg(feature = "tls")]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Builder {
        self.config.tls.roots = Some(pem.as_ref().to_vec());
        self
    }

    /// Sets what the client shows of itself to servers that ask for it (`tls-auth-clients`, which is their
    /// default): a certificate, with those that lead to its authority, and its key, in PEM.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Builder {
        let (client_cert, client_key) = (chain.as_ref().to_vec(), key.as_ref().to_vec());
        self.config.tls.client = Some(redis::ClientTlsConfig { client_cert, client_key });
        self
    }

    /// Sets whom to tell what happens to locks.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Builder {
        self.config.metrics = Some(metrics);
        self
    }

    /// Connects to the server that a URL names; see [`Client::connect`]. Needs a tokio runtime, which the client uses
    /// until its end.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`], and [`Error::Invalid`] for bad settings.
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let client = self.connect_lazy(url)?;
        client.probe().await?;
        Ok(client)
    }

    /// Starts to connect, and does not wait for the outcome: for one of the servers of a [`RedLock`](crate::RedLock),
    /// which may be down when the program starts. Needs a tokio runtime, as [`Builder::connect`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a bad URL or bad settings; all else shows when locks are acquired.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn connect_lazy(self, url: &str) -> Result<Client, Error> {
        self.config.check()?;
        let endpoint = Endpoint::parse(url, &self.config.tls)?;
        Ok(Client::start(self.config, Clock::System, destination(url), |links| endpoint.route(links)))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
