//! The events of a run, during its wait and during its command.

use rlock_client::{Any, Guard};
use rustix::process::Signal;

use super::seen::Seen;
use crate::error::Error;

/// Everything that `run` reacts to.
#[derive(Debug)]
pub(super) enum Event {
    /// A signal for the command.
    Signal(Signal),
    /// A child process ended or stopped.
    ChildChanged,
    /// News of the lock.
    Lock(LockEvent),
}

/// News from the keeper.
#[derive(Debug)]
pub(super) enum LockEvent {
    /// The lock is held.
    Held(Guard<Any>),
    /// Other owners held it for the whole wait, or the server says why it gives no locks now.
    NotAcquired(Option<Error>),
    /// The request itself failed.
    Failed(Error),
    /// There is no contact to the server yet, for this reason.
    Unreachable(String),
    /// This user may not subscribe to messages: rlock polls the lock.
    Polling,
    /// What the server says about the wait, if anything.
    Seen(Option<Seen>),
    /// The lock may be lost: check it.
    Changed,
}
