//! The plan of an acquisition.

use crate::{MS, Nanos};

/// What an acquisition asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The lease of each request and renewal.
    pub lease: Nanos,
    /// How long to wait: `None` is for ever, 0 asks once.
    pub wait: Option<Nanos>,
    /// Whether the lease is renewed; a fixed lease is not.
    pub renew: bool,
    /// How often the lease is renewed in its time: 3, unless the user sets another number.
    pub renewals: u32,
    /// Whether the caller needs a fencing token.
    pub fenced: bool,
    /// Whether a grant by message is confirmed before the caller has the lock, whatever can be proved: the owner was used before, or
    /// the hold must be on replicas.
    pub confirm_first: bool,
    /// How long the server may take to answer a command.
    pub response: Nanos,
    /// The grace of a session.
    pub grace: Option<Nanos>,
    /// How long the lock stays held from its acquisition, also if the caller releases it sooner; 0 if a release ends the hold.
    pub at_least: Nanos,
    /// How long the lock is renewed from when the caller got it; `None` for as long as it is held.
    pub max_hold: Option<Nanos>,
}

impl Plan {
    /// A plan that waits for ever, renews three times in a lease, and sets nothing else. The server may take 5 s to answer.
    pub fn new(lease: Nanos) -> Plan {
        Plan {
            lease,
            wait: None,
            renew: true,
            renewals: 3,
            fenced: false,
            confirm_first: false,
            response: 5_000 * MS,
            grace: None,
            at_least: 0,
            max_hold: None,
        }
    }
}
