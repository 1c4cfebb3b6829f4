//! What happened to the servers, and what they refused.

use super::Us;

/// How a fault may change what servers have said, or say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Harm {
    /// Holds that were confirmed may be gone: an explicit amnesty for what follows from that.
    pub(crate) holds: bool,
    /// Tokens that were given may be forgotten.
    pub(crate) tokens: bool,
    /// Waiters may have lost their places.
    pub(crate) places: bool,
    /// Nothing may be answered or granted.
    pub(crate) stalls: bool,
    /// It was seen that answers take long.
    pub(crate) lags: bool,
    /// Nothing may be granted, and is not: writes are paused.
    pub(crate) pauses: bool,
    /// Running leases last this much longer.
    pub(crate) prolongs: Us,
    /// Writes up to this long before the event, a release for instance, may be forgotten.
    pub(crate) forgets: Us,
    /// The only replica takes over, so that what it was known to have is not lost.
    pub(crate) by_replica: bool,
    /// The reasons for which servers may refuse callers or drop waiters: see [`Refusal::reason`].
    pub(crate) answers: &'static [&'static str],
}

impl Harm {
    /// Nothing but a stall.
    pub(crate) const STALLS: Harm = Harm {
        holds: false,
        tokens: false,
        places: false,
        stalls: true,
        lags: false,
        pauses: false,
        prolongs: 0,
        forgets: 0,
        by_replica: false,
        answers: &[],
    };

    /// Whether one client may see something else than the server did, or see it late.
    pub(crate) fn disturbs(&self) -> bool {
        self.holds || self.places || self.stalls || self.pauses
    }
}

/// Something that happened to the servers.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) what: String,
    pub(crate) begin: Us,
    pub(crate) end: Us,
    /// The lock that it happened to; all of them otherwise.
    pub(crate) key: Option<usize>,
    pub(crate) harm: Harm,
}

/// How far a server's clock is from that of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: Us,
    pub(crate) ahead_ms: i64,
}

/// An error that a client received, or a message that it waits no more.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) key: usize,
    /// The client.
    pub(crate) who: String,
    /// When it asked, and when it received the error or message.
    pub(crate) sent: Us,
    pub(crate) told: Us,
    /// The first word of an error and the rest; or `dropped`, and the reason.
    pub(crate) code: String,
    pub(crate) text: String,
}
