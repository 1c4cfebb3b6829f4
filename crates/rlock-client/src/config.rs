//! The settings of a client.

use std::time::Duration;

use crate::command::{check_grace, check_lease};
use crate::error::Error;
use crate::events::Hook;
use crate::link::Login;

/// How many replicas must have a lock before `acquire` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// None: the primary's reply is enough. A fail-over can lose the lock.
    #[default]
    None,
    /// This number of replicas. A fail-over to another replica can still lose the lock.
    Replicas(usize),
    /// More than half of the primary and its replicas must have it, and at least one replica. The count includes the
    /// largest number of replicas that this client ever saw connected.
    Majority,
}

/// How a client waits for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// In the server's queue, with a message at the grant. Strictly first come, first served.
    #[default]
    Queue,
    /// By retries, with pauses that grow to a second, in no order. For users without permission to subscribe.
    Polling,
}

/// The settings of a client.
#[derive(Clone)]
pub(crate) struct Config {
    /// Where set, leases last so long and are not renewed.
    pub(crate) lease: Option<Duration>,
    /// The lease of locks that the watchdog renews.
    pub(crate) watchdog: Duration,
    /// How long `acquire` waits; for ever where not set.
    pub(crate) wait: Option<Duration>,
    pub(crate) waiting: Waiting,
    /// Where set, holds are tied to the connection, and end so long after it.
    pub(crate) session_grace: Option<Duration>,
    pub(crate) durability: Durability,
    /// How long replicas may take.
    pub(crate) durability_wait: Duration,
    /// A connection that leaves a request unanswered for so long is given up.
    pub(crate) response: Option<Duration>,
    pub(crate) events: Hook,
    pub(crate) login: Login,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            lease: None,
            watchdog: Duration::from_secs(30),
            wait: None,
            waiting: Waiting::default(),
            session_grace: None,
            durability: Durability::default(),
            durability_wait: Duration::from_secs(1),
            response: None,
            events: Hook::default(),
            login: Login::default(),
        }
    }
}

impl Config {
    /// How long an answer may take: so that a renewal can be tried several times before a lease ends.
    pub(crate) fn response(&self) -> Duration {
        let by_lease = self.watchdog / 6;
        self.response.unwrap_or(by_lease.clamp(Duration::from_millis(50), Duration::from_secs(5)))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        check_lease(self.watchdog)?;
        self.lease.map_or(Ok(()), check_lease)?;
        self.session_grace.map_or(Ok(()), check_grace)?;
        let response = self.response();
        if response < Duration::from_millis(1) {
            return Err(Error::invalid(format!("a response timeout lasts 1 ms or more, not {response:?}")));
        }
        Ok(())
    }
}
