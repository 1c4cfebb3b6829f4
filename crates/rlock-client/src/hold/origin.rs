//! How a hold came about.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::clock::Instant;
use crate::link::Tie;
use crate::message::Party;

/// How a hold came about.
pub(crate) struct Origin {
    pub(crate) party: Arc<Party>,
    pub(crate) lease: Duration,
    /// The fencing token; 0 without one.
    pub(crate) token: u64,
    /// Whether the watchdog renews it.
    pub(crate) renewed: bool,
    /// The grace of its session, and its tie to the connection by which it came about.
    pub(crate) session: Option<Duration>,
    pub(crate) tie: Option<Tie>,
    /// When the request was sent that gave the lease.
    pub(crate) sent: Instant,
    /// When the reply was read.
    pub(crate) acquired: Instant,
    /// Whether a request of this owner stayed unanswered: it may still be carried out.
    pub(crate) stray: bool,
    /// Whether the owner has a mailbox.
    pub(crate) mailbox: bool,
    /// The right to use an owner of the user's own.
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
}
