//! The hold of an acquisition: its guards, and whether it is certainly held.

use std::sync::Arc;
use std::time::Duration;

use rlock_links::{Instant, Node};
use rlock_machine::{Input, Message};
use tokio_util::sync::CancellationToken;

use super::{Acquisition, AcquisitionState};
use crate::error::{Error, Lost};

/// The state of a lock that was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The lock is held.
    Held,
    /// The lock is held, and a renewal is running or being retried.
    Renewing,
    /// The lock was lost. This state never changes again.
    Lost(Lost),
    /// The last guard was released.
    Released,
}

/// The options of a named owner while it has another acquisition of the lock.
pub(crate) enum Reentry {
    /// The owner got one more guard of the other acquisition's hold.
    Entered,
    /// The owner must wait until the other acquisition has the lock or an error.
    Awaits,
    /// The owner must wait until nothing of the other acquisition is left.
    Ends,
}

impl Acquisition {
    /// For how much longer the lock is certainly held, without asking the server.
    pub(crate) fn check(self: &Arc<Self>) -> Result<Duration, Error> {
        let mut standing = self.standing(&self.state());
        if standing == Err(Lost::Expired) {
            // The agenda may be late: the loss is final from now on, and the machine knows its reason.
            self.input(Input::Tick);
            standing = self.standing(&self.state());
        }
        standing.map_err(|why| Error::lost(&self.claim.key, why))
    }

    /// The state, without asking the server; past its deadline a lock is lost.
    pub(crate) fn hold_state(self: &Arc<Self>) -> State {
        let checked = self.check();
        let renews = self.state().machine.is_renewing();
        match checked {
            Ok(_) if renews => State::Renewing,
            Err(Error::LockLost { why: Lost::Released, .. }) => State::Released,
            Err(Error::LockLost { why, .. }) => State::Lost(why),
            _ => State::Held,
        }
    }

    fn standing(&self, state: &AcquisitionState) -> Result<Duration, Lost> {
        let shared = &self.all.shared;
        let (now, end) = (shared.clock.now(), Instant::of(state.machine.end_of_hold()));
        match state.loss {
            Some(why) => Err(why),
            None if state.guards == 0 => Err(Lost::Released),
            None if !shared.identity.is_at_home() => Err(Lost::Forked),
            None if now >= end => Err(Lost::Expired),
            None if shared.closing.is_cancelled() => Err(Lost::Closed),
            None => Ok(end.since(now)),
        }
    }

    /// The token that is cancelled when the lock is lost.
    pub(crate) fn lost(self: &Arc<Self>) -> &CancellationToken {
        let lost = self.lost.get_or_init(CancellationToken::new);
        // A loss just before found no token to cancel, and no watchdog cancels one in the child of a fork.
        if matches!(self.hold_state(), State::Lost(_)) {
            lost.cancel();
        }
        lost
    }

    /// The newest fencing token, if the lock is fenced.
    pub(crate) fn token(&self) -> Option<u64> {
        Some(self.token.load(std::sync::atomic::Ordering::Relaxed)).filter(|token| *token > 0)
    }

    /// How many guards are left.
    pub(crate) fn guards(&self) -> u64 {
        self.state().guards
    }

    /// Adds a guard to the hold; an error if the last guard is gone or the lock is lost.
    pub(crate) fn add_guard(self: &Arc<Self>) -> Result<(), Error> {
        self.check()?;
        let mut state = self.state();
        let standing = self.standing(&state);
        state.guards = state.guards.saturating_add(u64::from(standing.is_ok()));
        standing.map(|_| ()).map_err(|why| Error::lost(&self.claim.key, why))
    }

    /// Adds a guard for an owner that the user named. An error if the hold was lost and still has guards: their release would end
    /// the owner's next hold.
    pub(crate) fn reenter_named(self: &Arc<Self>) -> Result<Reentry, Error> {
        match self.state().settled {
            None => return Ok(Reentry::Awaits),
            Some(Err(_)) => return Ok(Reentry::Ends),
            Some(Ok(())) => (),
        }
        if self.guards() == 0 {
            return Ok(Reentry::Ends);
        }
        match self.add_guard() {
            Ok(()) => Ok(Reentry::Entered),
            Err(Error::LockLost { why: Lost::Released, .. }) => Ok(Reentry::Ends),
            Err(error) => Err(error),
        }
    }

    /// Waits until the owner can try again.
    pub(crate) async fn over(&self, reentry: &Reentry) {
        let over = |state: &AcquisitionState| match reentry {
            Reentry::Entered => true,
            Reentry::Awaits => state.settled.is_some(),
            Reentry::Ends => self.is_gone(state),
        };
        self.when(|state| over(state).then_some(())).await;
    }

    /// Removes a guard, and releases the lock with the last one. Returns the number of guards left; an error if the lock was lost.
    pub(crate) fn remove_guard(self: &Arc<Self>) -> Result<u64, Error> {
        self.check().err();
        let at_home = self.all.shared.identity.is_at_home();
        let checked = self.change(|state, now, out| {
            let standing = self.standing(state);
            state.guards = state.guards.saturating_sub(1);
            if state.guards == 0 && at_home {
                state.released_at = Some(Instant::of(now));
                state.machine.input(now, Input::Release, out);
                self.leave_if_gone(state);
            }
            standing.map(|_| state.guards)
        });
        self.changed.notify_waiters();
        checked.map_err(|why| Error::lost(&self.claim.key, why))
    }

    /// Leaves the lock to another process, unless the guard is not the only one.
    pub(crate) fn detach(self: &Arc<Self>) -> Result<(), Error> {
        self.check()?;
        let outcome = self.change(|state, now, out| {
            let standing = self.standing(state);
            let is_only = state.guards == 1;
            if standing.is_ok() && is_only {
                state.guards = 0;
                state.machine.input(now, Input::Detach, out);
            }
            standing.map(|_| is_only)
        });
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::invalid("the lock has other guards: release them before you detach it")),
            Err(why) => Err(Error::lost(&self.claim.key, why)),
        }
    }

    /// When the lease ends by the local clock.
    pub(crate) fn lease_end(&self) -> Instant {
        Instant::of(self.state().machine.lease_end())
    }

    /// The hold is lost for a reason that the machine does not know. The server may still have the hold.
    pub(crate) fn lose(self: &Arc<Self>, why: Lost) {
        self.change(|state, now, out| {
            if state.machine.state() == rlock_machine::State::Held {
                state.loss = Some(why);
                state.machine.input(now, Input::Close, out);
            }
        });
    }

    /// A message about the owner arrived from this server.
    pub(super) fn heard(self: &Arc<Self>, node: &Arc<Node>, message: Message) {
        self.change(|state, now, out| {
            let message = match message {
                Message::Granted { token, lease, current } => {
                    let current = current && Arc::ptr_eq(&state.servers.lock, node);
                    Message::Granted { token, lease, current }
                }
                other => other,
            };
            state.machine.input(now, Input::Message(message), out);
        });
    }

    /// Whether the caller of this acquisition holds the lock.
    pub(super) fn is_held(&self) -> bool {
        self.state().machine.state() == rlock_machine::State::Held
    }

    /// Whether the caller of this acquisition has had the lock, and the server has not answered its release.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.state();
        let unanswered = matches!(state.released, None | Some(Err(Error::OutcomeUnknown { .. })));
        state.settled == Some(Ok(())) && unanswered
    }
}
