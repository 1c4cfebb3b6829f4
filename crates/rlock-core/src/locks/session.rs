//! SESSION: the connection with which a hold or a wait ends.

use crate::types::LeaseMs;

/// What a call with SESSION asks for: its connection, and the lease that remains when the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The client id of the connection.
    pub client: u64,
    /// The longest lease after its end.
    pub grace: LeaseMs,
}

impl Session {
    /// Whether this tie stays when the client with this id asks for it; `gone`: the connection of the tie has ended. Commands of
    /// a closed socket still run after those of its successor: a tie moves only to a younger connection, or away from one that
    /// is gone.
    pub fn stays(self, client: u64, gone: bool) -> bool {
        !gone && client < self.client
    }
}
