//! Why a waiter leaves its queue without a grant.

/// Why a waiter was dropped or unblocked without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The same owner waits by a later call.
    Replaced,
    /// The server has become a replica.
    Demoted,
    /// The lock's slot is served by another server.
    Moved,
    /// The module had an internal error, and its queues are in doubt.
    InDoubt,
    /// There is no fencing token for its grant.
    NoToken,
    /// `rlock.accept` was set to `no`.
    Drained,
    /// The connection of its SESSION has ended.
    Session,
}

impl DropReason {
    /// The reason in one word, for messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Demoted => "demoted",
            Self::Moved => "moved",
            Self::InDoubt => "in-doubt",
            Self::NoToken => "no-token",
            Self::Drained => "drained",
            Self::Session => "session",
        }
    }

    /// The reason in a sentence, for blocked clients.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Replaced => "the same owner waits by a later call",
            Self::Demoted => "this server is no longer the primary; try again on the new one",
            Self::Moved => "the key's slot moved or is moving; try again and follow redirections",
            Self::InDoubt => "the module had an internal error; try again",
            Self::NoToken => "there is no fencing token for the grant",
            Self::Drained => {
                "this server is drained (rlock.accept is no); try again later, or on the server that takes over"
            }
            Self::Session => "the connection of its SESSION has ended",
        }
    }
}
