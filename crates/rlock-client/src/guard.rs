//! A lock that is held.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use rlock_links::Failed;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::acquisition::{Acquisition, State};
use crate::command::{self, Acquired, Ask, Extras};
use crate::error::{Error, Lost, name};
use crate::handle::Handle;
use crate::kind::{Any, Kind, Plain};
use crate::lockable::holding;
use crate::message::Mode;

/// A held lock. It is held until you drop or release the guard, or until the lock is lost.
///
/// A guard is owned, `'static` and `Send`: it may move between tasks and threads. Dropping it does no I/O and needs
/// no runtime; the lock is released in the background. [`Guard::release`] fails if the lock was lost before.
#[must_use = "a guard that is dropped releases its lock: bind it, as in `let guard = …`, not to `_`"]
pub struct Guard<K = Plain> {
    handle: Arc<Handle>,
    held: Held,
    /// Until it is released.
    armed: bool,
    kind: PhantomData<fn() -> K>,
}

/// A lock that was left to another process; see [`Guard::detach`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detached {
    /// The owner, which [`Lock::adopt`](crate::Lock::adopt) takes.
    pub owner: Vec<u8>,
    /// The fencing token, if the lock is fenced.
    pub token: Option<u64>,
    /// For how much longer the lock is certainly held without a renewal.
    pub left: std::time::Duration,
}

/// A view of a held lock, which does not keep it held.
///
/// Clone it into the work that the lock protects; see also [`Guard`], which has the same methods.
#[derive(Clone)]
pub struct Held {
    hold: Arc<Acquisition>,
}

impl Held {
    /// Checks that you still hold the lock, without asking the server, and returns how much longer you hold it
    /// without another renewal.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if the lock was lost, its lease has ended by this client's clock, or its last guard was released.
    pub fn check(&self) -> Result<Duration, Error> {
        self.hold.check()
    }

    /// The state, without asking the server.
    pub fn state(&self) -> State {
        self.hold.hold_state()
    }

    /// Waits until the lock is lost, and returns the reason; never returns if it is not lost.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().cancelled().await;
        match self.hold.hold_state() {
            State::Lost(why) => why,
            // The user of the token cancelled it: the lock is not lost.
            State::Held | State::Renewing | State::Released => std::future::pending().await,
        }
    }

    /// A token that is cancelled when the lock is lost.
    ///
    /// It is a child of the guard's token: cancelling it does not affect the lock.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.hold.lost().child_token()
    }

    /// The fencing token, larger than that of every earlier holder; `None` unless the lock is
    /// [`fenced`](crate::Lock::fenced).
    ///
    /// Each [`Guard::reenter`] gets a new token. This returns the newest one, for all guards of the hold.
    pub fn token(&self) -> Option<u64> {
        self.hold.token()
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.hold.claim.key
    }

    /// The owner, as the server knows it.
    pub fn owner(&self) -> &[u8] {
        &self.hold.claim.owner
    }
}

impl<K: Kind> Guard<K> {
    pub(crate) fn new(handle: Arc<Handle>, hold: Arc<Acquisition>) -> Guard<K> {
        Guard { handle, held: Held { hold }, armed: true, kind: PhantomData }
    }

    /// The same guard, of another type.
    pub(crate) fn of_kind<J: Kind>(mut self) -> Guard<J> {
        self.armed = false;
        Guard::new(self.handle.clone(), self.hold())
    }

    /// The same guard without its kind in its type.
    pub fn any(self) -> Guard<Any> {
        self.of_kind()
    }

    pub(crate) fn hold(&self) -> Arc<Acquisition> {
        self.held.hold.clone()
    }

    pub(crate) fn handle(&self) -> Arc<Handle> {
        self.handle.clone()
    }

    /// Re-enters the lock as the same owner: adds a hold, and returns a guard for it. The lock is free when all its
    /// guards are gone.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if the lock is no longer held; [`Error::Transport`] and the server's refusals. After the
    /// latter two, the lock is held as before.
    pub async fn reenter(&self) -> Result<Guard<K>, Error> {
        let hold = &self.held.hold;
        hold.add_guard()?;
        let guard = Guard::new(self.handle.clone(), hold.clone());
        guard.claim().await?;
        Ok(guard)
    }

    /// Acquires on the server the hold of a guard that was added.
    pub(crate) async fn claim(&self) -> Result<(), Error> {
        let hold = &self.held.hold;
        if hold.claim.mode == Mode::Permit {
            // The server counts one permit, however many guards there are here.
            return hold.check().map(|_| ());
        }
        let mut level = hold.level.lock().await;
        // Never a first hold: a lost hold must not be acquired again in silence.
        let holds = hold.guards().min(level.saturating_add(1)).max(2);
        let (fenced, session) = (hold.token().is_some(), hold.terms.extras.session);
        let extras = Extras { fenced, session, ..Extras::default() };
        let command = command::acquire(&hold.claim, hold.terms.lease, holds, extras, Ask::Now);
        let key = &hold.claim.key;
        let reply = hold.request(command).await;
        match reply.map_err(|failed| command::failed(key, failed)).and_then(|reply| command::acquired(&reply))
        {
            Ok(Acquired::Held(token)) => {
                hold.raise_token(i64::try_from(token).unwrap_or_default());
                *level = holds.max(*level);
            }
            Ok(Acquired::Queued | Acquired::Denied) | Err(Error::NotALock { .. }) => hold.lose(Lost::Taken),
            Err(error) => return Err(error),
        }
        hold.check().map(|_| ())
    }

    /// Leaves the lock to another process, which [adopts](crate::Lock::adopt) it: renews it once, without a session, and ends the
    /// guard without a release.
    ///
    /// From then on nothing renews the lock until it is adopted. Set a lease that lasts until the adoption. If the future is
    /// dropped, the lock may be detached or not; it ends with its lease at the latest.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a guard that is not the only one of its hold: this guard is released, and the others stay. [`Error::LockLost`] if the
    /// lock was no longer held; [`Error::OutcomeUnknown`] if there was no reply in time.
    pub async fn detach(mut self) -> Result<Detached, Error> {
        let hold = self.held.hold.clone();
        hold.detach()?;
        self.armed = false;
        hold.release_answered().await?;
        let left = hold.lease_end().since(hold.all.shared.clock.now());
        Ok(Detached { owner: hold.claim.owner.clone(), token: hold.token(), left })
    }

    /// Releases this hold, and fails if the lock was lost before.
    ///
    /// If the server does not answer within the response timeout ([`Builder::response_timeout`](crate::Builder::response_timeout)),
    /// the method returns, and the release continues in the background until lease end. The same happens if you drop the future or
    /// the guard.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if the lock was no longer held; [`Error::OutcomeUnknown`] if this is unknown, because there was
    /// no reply in time.
    pub async fn release(self) -> Result<(), Error> {
        let span = tracing::debug_span!("release", lock = %name(self.name()));
        self.release_now().instrument(span).await
    }

    async fn release_now(mut self) -> Result<(), Error> {
        let hold = self.held.hold.clone();
        self.armed = false;
        if hold.remove_guard()? > 0 {
            return lower(&hold).await;
        }
        hold.release_answered().await
    }
}

/// Lowers the holds on the server to the guards that are left.
async fn lower(hold: &Arc<Acquisition>) -> Result<(), Error> {
    if hold.claim.mode == Mode::Permit {
        return Ok(());
    }
    let mut level = hold.level.lock().await;
    let guards = hold.guards();
    if guards == 0 {
        // The last guard was released meanwhile, and its release takes all.
        return Ok(());
    }
    // From now on no more than this is confirmed, whatever becomes of the request.
    *level = guards.min(*level);
    let key = &hold.claim.key;
    match hold.all.shared.router.request(key, command::release(&hold.claim, guards)).await {
        // The last guard's release may have come first; it says whether the lock was held.
        Ok(redis::Value::Nil) if hold.guards() == 0 => Ok(()),
        Ok(redis::Value::Nil) => {
            hold.lose(Lost::Taken);
            Err(Error::lost(key, Lost::Taken))
        }
        Ok(_) => Ok(()),
        Err(Failed::Refused(refusal)) => match command::refused(key, &refusal) {
            Error::NotALock { .. } => {
                hold.lose(Lost::Taken);
                Err(Error::lost(key, Lost::Taken))
            }
            error => Err(error),
        },
        Err(failed) => Err(Error::unknown(key, command::failed(key, failed))),
    }
}

impl<K> Drop for Guard<K> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let hold = self.held.hold.clone();
        let _span = tracing::debug_span!("release", lock = %name(&hold.claim.key)).entered();
        // Fewer holds are a courtesy: the last release takes them all.
        if let Ok(1..) = hold.remove_guard() {
            self.handle.runtime.spawn(async move { lower(&hold).await });
        }
    }
}

holding!(Guard<K>, Held);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = &self.hold.claim;
        f.debug_struct("Held")
            .field("lock", &name(&claim.key))
            .field("owner", &name(&claim.owner))
            .field("state", &self.state())
            .finish()
    }
}

impl<K> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("held", &self.held).finish()
    }
}
