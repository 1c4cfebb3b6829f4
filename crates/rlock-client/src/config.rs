//! The settings of a client.

use std::time::Duration;

use rlock_links::Login;

use crate::command::{check_grace, check_lease};
use crate::error::Error;
use crate::events::Hook;

/// How many replicas must have a lock before `acquire` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No replica: the primary's reply is enough. A fail-over can lose the lock.
    #[default]
    None,
    /// This number of replicas. A fail-over to another replica can still lose the lock.
    Replicas(usize),
    /// More than half of the servers must have the lock: of the primary and the most replicas that this client ever
    /// saw connected. At least one of them must be a replica.
    Majority,
}

/// How a client waits for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// The client waits in the server's queue, with a message at the grant. Strictly first come, first served.
    #[default]
    Queue,
    /// The client retries, with pauses that grow to a second, in no order. For users without permission to subscribe.
    Polling,
}

/// The settings of a client.
#[derive(Clone)]
pub(crate) struct Config {
    /// The lease of locks that have none of their own.
    pub(crate) lease: Duration,
    /// How often locks are renewed in the time of their lease.
    pub(crate) renewals: u32,
    /// How long `acquire` waits; for ever where not set.
    pub(crate) wait: Option<Duration>,
    pub(crate) waiting: Waiting,
    /// If set, holds are tied to the connection, and end this long after it.
    pub(crate) session_grace: Option<Duration>,
    pub(crate) durability: Durability,
    /// How long replicas may take.
    pub(crate) durability_wait: Duration,
    /// A connection that leaves a request unanswered for this long is given up.
    pub(crate) response: Option<Duration>,
    pub(crate) events: Hook,
    pub(crate) login: Login,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            lease: Duration::from_secs(30),
            renewals: 3,
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
    /// How long an answer may take. A renewal can be tried several times before a lease ends.
    pub(crate) fn response(&self) -> Duration {
        self.response.unwrap_or(sixth_of(self.lease).min(Duration::from_secs(2)))
    }

    /// How long the first answer may take: at least a second, unless the user has set a time. A connection takes longer than a request.
    pub(crate) fn first_response(&self) -> Duration {
        self.response.unwrap_or(self.response().max(FIRST))
    }

    /// How long an answer about a lock with this lease may take. A lease shorter than the client's leaves less time.
    pub(crate) fn response_for(&self, lease: Duration) -> Duration {
        let response = self.response();
        if lease < self.lease { response.min(sixth_of(lease)) } else { response }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        check_lease(self.lease)?;
        self.session_grace.map_or(Ok(()), check_grace)?;
        if !RENEWALS.contains(&self.renewals) {
            let message = format!(
                "a lock is renewed {RENEWALS:?} times in the time of its lease, not {}",
                self.renewals
            );
            return Err(Error::invalid(message));
        }
        let response = self.response();
        if response < Duration::from_millis(1) {
            return Err(Error::invalid(format!("a response timeout lasts 1 ms or more, not {response:?}")));
        }
        Ok(())
    }
}

/// Refuses a name under which the server lets no lock be acquired. The server's other commands accept any name.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Error> {
    const LONGEST_NAME: usize = 1_024;
    let message = match name.len() {
        0 => "the lock's name is empty: is a variable unset? Use 1 to 1024 bytes".to_string(),
        1..=LONGEST_NAME => return Ok(()),
        length => {
            format!("the lock's name has {length} bytes: use 1 to {LONGEST_NAME}, such as a hash of it")
        }
    };
    Err(Error::Invalid { message })
}

/// The allowed renewals in a lease. Fewer leave no time for another try, and more cost the server more than they save.
const RENEWALS: std::ops::RangeInclusive<u32> = 2..=20;

/// The shortest time for a first connection, unless the user sets one.
const FIRST: Duration = Duration::from_secs(1);

/// A sixth of a lease, in which a server can be expected to answer.
fn sixth_of(lease: Duration) -> Duration {
    (lease / 6).max(Duration::from_millis(50))
}
