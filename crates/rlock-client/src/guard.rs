//! A lock that is held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::client::Handle;
use crate::command::{self, Acquired, Ask, Extras};
use crate::error::{Error, Lost, name};
use crate::exchange::{Manner, Trouble, exchange_one};
use crate::hold::{Hold, State};
use crate::release::{Job, give_back, lower};

/// A held lock. It is held until you drop or unlock the guard, or until the lock is lost.
///
/// A guard is owned, `'static` and `Send`: it may move between tasks and threads. Dropping it does no I/O and needs
/// no runtime; the lock is released in the background. [`Guard::unlock`] fails if the lock was lost before.
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    handle: Arc<Handle>,
    held: Held,
    /// Until it is given back.
    armed: bool,
}

/// A view of a held lock, which does not keep it held.
///
/// Clone it into the work that the lock protects; see also [`Guard`], which has the same methods.
#[derive(Clone)]
pub struct Held {
    hold: Arc<Hold>,
}

impl Held {
    /// Checks that you still hold the lock, without asking the server, and returns how much longer you hold it
    /// without another renewal.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it was lost, or its lease has ended by this client's clock; [`Error::NotHeld`] after its
    /// last guard was released.
    pub fn check(&self) -> Result<Duration, Error> {
        self.hold.check()
    }

    /// The state, without asking the server.
    pub fn state(&self) -> State {
        self.hold.state()
    }

    /// Waits until the lock is lost, and returns the reason; never returns if it is not lost.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().cancelled().await;
        match self.hold.state() {
            State::Lost(why) => why,
            // Cancelled by who uses the token: not by us, and no loss.
            State::Held | State::Renewing | State::Released => std::future::pending().await,
        }
    }

    /// A token that is cancelled when the lock is lost.
    ///
    /// It is a child of the guard's token: cancelling it does not affect the lock.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.hold.lost().child_token()
    }

    /// The fencing token, larger than that of every earlier holder; `None` unless the lock is one of
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    ///
    /// Each [`Guard::reenter`] gets a new token. This returns the newest one, for all guards of the hold.
    pub fn token(&self) -> Option<u64> {
        self.hold.token()
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.hold.party.key
    }

    /// The owner, as the server knows it.
    pub fn owner(&self) -> &[u8] {
        &self.hold.party.owner
    }
}

impl Guard {
    pub(crate) fn new(handle: Arc<Handle>, hold: Arc<Hold>) -> Guard {
        Guard { handle, held: Held { hold }, armed: true }
    }

    pub(crate) fn hold(&self) -> Arc<Hold> {
        self.held.hold.clone()
    }

    pub(crate) fn handle(&self) -> Arc<Handle> {
        self.handle.clone()
    }

    /// A view of this hold, to clone into the work.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Re-enters the lock as the same owner: adds a hold, and returns a guard for it. The lock is free when all its
    /// guards are gone.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock is no longer held; [`Error::Transport`] and the server's refusals. After the
    /// latter two, the lock is held as before.
    pub async fn reenter(&self) -> Result<Guard, Error> {
        let hold = &self.held.hold;
        if !hold.add_guard() {
            hold.check()?;
        }
        let guard = Guard::new(self.handle.clone(), hold.clone());
        guard.claim().await?;
        Ok(guard)
    }

    /// Tells the server of the hold of a guard that was added.
    pub(crate) async fn claim(&self) -> Result<(), Error> {
        let hold = &self.held.hold;
        let shared = &hold.shared;
        let mut level = hold.level.lock().await;
        // Never the first: a hold that was lost is not to be had again in silence.
        let holds = hold.guards().min(level.saturating_add(1)).max(2);
        let sent = shared.clock.now();
        let by = sent.after(shared.config.response().saturating_mul(2));
        let extras = Extras { fenced: hold.token().is_some(), fair: false };
        let command = command::acquire(&hold.party, hold.lease, holds, extras, Ask::Now);
        let reply = match exchange_one(shared, &hold.party.key, command, Manner::by(Some(by))).await {
            Ok(reply) => reply.map_err(|refusal| refusal.error),
            Err(Trouble::Unsent(error)) => return Err(error),
            Err(Trouble::Unanswered(why)) => return Err(Error::transport(why)),
        };
        match reply.and_then(|reply| command::acquired(&reply)) {
            Ok(Acquired::Held(token)) => {
                hold.raise_token(token);
                *level = holds.max(*level);
            }
            Ok(Acquired::Queued | Acquired::Denied) | Err(Error::NotALock { .. }) => hold.lose(Lost::Taken),
            Err(error) => return Err(error),
        }
        hold.check().map(|_| ())
    }

    /// Releases this hold, and fails if the lock was lost before.
    ///
    /// If the server does not answer, the release is repeated until lease end. If you drop the future, the release
    /// continues in the background, as when you drop the guard.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] or [`Error::NotHeld`] if the lock was no longer held; [`Error::OutcomeUnknown`] if a lost
    /// reply leaves that unknown.
    pub async fn unlock(self) -> Result<(), Error> {
        let span = tracing::debug_span!("release", lock = %name(self.name()));
        self.release().instrument(span).await
    }

    /// Gives the lock back after work under it; an error says that it was not held to the end of the work.
    pub(crate) async fn end_work(self) -> Result<(), Error> {
        self.check()?;
        judge_work(self.unlock().await)
    }

    async fn release(mut self) -> Result<(), Error> {
        let hold = self.held.hold.clone();
        self.armed = false;
        let (last, lost) = hold.remove_guard();
        let mut job = Pending::new(self.handle.clone(), Job::of(hold.clone(), last));
        if let Some(why) = lost {
            // The server may have the hold still; that is the background's business.
            return Err(Error::lost(&hold.party.key, why));
        }
        if !last {
            return job.lowered(lower(&hold).await);
        }
        let (repeat, outcome) = give_back(&hold).await;
        job.finish(repeat, outcome)
    }
}

/// What the release after some work says of the work, at whose end our own clock said that the lock was held.
pub(crate) fn judge_work(released: Result<(), Error>) -> Result<(), Error> {
    match released {
        // What came of the release is no matter.
        Err(Error::OutcomeUnknown { .. } | Error::Permission { .. }) => Ok(()),
        Err(Error::NotHeld { lock }) => Err(Error::Lost { lock, why: Lost::Taken }),
        outcome => outcome,
    }
}

/// A release under way; dropped before its end, it goes on in the background.
struct Pending {
    handle: Arc<Handle>,
    job: Option<Job>,
}

impl Pending {
    fn new(handle: Arc<Handle>, job: Job) -> Pending {
        Pending { handle, job: Some(job) }
    }

    fn finish(&mut self, repeat: bool, outcome: Result<(), Error>) -> Result<(), Error> {
        let Some(mut job) = self.job.take() else { return outcome };
        job.stray |= repeat;
        job.settle(&self.handle.shared);
        if job.repeats() {
            self.handle.send(job);
        }
        outcome
    }

    /// Of a guard that was not the last: there is nothing more to do.
    fn lowered(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.job = None;
        outcome
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.handle.send(job);
        }
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            let (last, _) = self.held.hold.remove_guard();
            self.handle.send(Job::of(self.held.hold.clone(), last));
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let party = &self.hold.party;
        f.debug_struct("Held")
            .field("lock", &name(&party.key))
            .field("owner", &name(&party.owner))
            .field("state", &self.state())
            .finish()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("held", &self.held).finish()
    }
}
