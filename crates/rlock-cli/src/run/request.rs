//! A request for a lock.

use std::time::Duration;

use rlock_client::{Any, Client, Lock};

use super::kind::Kind;
use super::nesting::Hold;
use super::timing::Timing;
use crate::server::Place;

/// How long to wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    AtMost(Duration),
    ForEver,
}

/// Which lock is wanted, and how.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) place: Place,
    pub(super) key: Vec<u8>,
    pub(super) timing: Timing,
    pub(super) wait: Wait,
    pub(super) kind: Kind,
    /// Whether the lock gets a fencing token.
    pub(super) fenced: bool,
    /// How long the lock stays held at least.
    pub(super) at_least: Duration,
}

impl Request {
    /// This lock as a hold of an owner.
    pub(super) fn hold(&self, owner: &[u8]) -> Hold {
        let (server, key) = (self.place.identity(), self.key.clone());
        Hold { owner: owner.to_vec(), kind: self.kind, server, key }
    }

    pub(super) fn lock(&self, client: &Client) -> Lock<Any> {
        // The command needs time to end before the lease does.
        self.kind.lock(client, &self.key, self.fenced).whole_lease().at_least(self.at_least)
    }
}
