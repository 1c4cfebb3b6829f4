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

/// A successful call of an owner: its connection, and its SESSION if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The client id of the connection.
    pub client: u64,
    /// The longest lease after the end of the connection; `None` without SESSION.
    pub grace: Option<LeaseMs>,
}
