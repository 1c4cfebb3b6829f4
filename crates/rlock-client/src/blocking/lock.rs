//! Locks and guards whose methods block.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::thread::Thread;
use crate::config::Durability;
use crate::error::{Error, Lost};
use crate::guard::Detached;
use crate::info::Info;
use crate::kind::{Any, Exclusive, Kind, Read, Write};
use crate::lockable::{Holding, Lockable, View, end_work};

/// A lock, or several locks as one; see [`crate::Lock`].
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired: `let guard = lock.acquire()?`"]
pub struct Lock<L = crate::Lock> {
    // Before the thread: the thread ends after the last of what runs on it.
    lock: L,
    thread: Thread,
}

/// A lock that is held; see [`crate::Guard`].
#[must_use = "a guard that is dropped releases its lock: bind it, as in `let guard = …`, not to `_`"]
pub struct Guard<G = crate::Guard> {
    guard: G,
    thread: Thread,
}

/// A read/write lock; see [`crate::ReadWriteLock`].
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    lock: crate::ReadWriteLock,
    thread: Thread,
}

/// Methods that change a setting.
macro_rules! settings {
    ($($name:ident($($value:ident: $type:ty)?))*) => {$(
        #[doc = concat!("As `", stringify!($name), "` of the async type.")]
        pub fn $name(self, $($value: $type)?) -> Self {
            Lock::on(self.thread, self.lock.$name($($value)?))
        }
    )*};
}

/// Methods that ask the server.
macro_rules! questions {
    ($($name:ident($($value:ident)?) -> $answer:ty;)*) => {$(
        #[doc = concat!("See [`", stringify!($name), "`](crate::Lock::", stringify!($name), ").")]
        ///
        /// # Errors
        ///
        /// Those of the async method.
        pub fn $name(&self, $($value: impl AsRef<[u8]>)?) -> Result<$answer, Error> {
            self.thread.run(self.lock.$name($($value)?))
        }
    )*};
}

impl<L> Lock<L> {
    pub(super) fn on(thread: Thread, lock: L) -> Lock<L> {
        Lock { lock, thread }
    }
}

impl<L: Lockable> Lock<L> {
    /// Asks for the lock once, without waiting for another owner.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] if another owner holds the lock; see [`crate::Lock::try_acquire`].
    pub fn try_acquire(&self) -> Result<Guard<L::Guard>, Error> {
        self.held(self.thread.run(self.lock.clone().now()))
    }

    /// Acquires the lock, waiting without limit, or as long as the setting `wait` says.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::acquire`].
    pub fn acquire(&self) -> Result<Guard<L::Guard>, Error> {
        self.held(self.thread.run(self.lock.clone().within(self.lock.limit())))
    }

    /// Acquires the lock, waiting for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::acquire_timeout`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Guard<L::Guard>, Error> {
        self.held(self.thread.run(self.lock.clone().within(Some(timeout))))
    }

    /// Acquires the lock, runs `work` on the caller's thread, and releases the lock.
    ///
    /// Blocking work cannot be stopped from outside. Call `guard.check()?` before each step that needs the lock:
    /// the check asks no server and costs next to nothing. To stop other tasks, give them its
    /// `cancellation_token()`, or `held()` in another thread.
    ///
    /// ```
    /// # fn main() -> Result<(), rlock_client::Error> {
    /// # let server = rlock_testkit::TestServer::start();
    /// # let url = &format!("redis://127.0.0.1:{}", server.port());
    /// # let client = rlock_client::blocking::Client::connect(url)?;
    /// let written = client.lock("report").run(|guard| {
    ///     let mut written = 0;
    ///     for _page in 0..3 {
    ///         guard.check()?;
    ///         // … write a page …
    ///         written += 1;
    ///     }
    ///     Ok::<_, rlock_client::Error>(written)
    /// })??;
    /// assert_eq!(written, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `Ok` means that the lock was held from the beginning of the work to its end. If the work panics, the lock
    /// is released as well.
    ///
    /// # Errors
    ///
    /// As `acquire`, and [`Error::LockLost`] if the lock was lost before the work ended, whatever the work returned.
    pub fn run<T>(&self, work: impl FnOnce(&Guard<L::Guard>) -> T) -> Result<T, Error> {
        let guard = self.acquire()?;
        let value = work(&guard);
        let Guard { guard, thread } = guard;
        thread.run(end_work(guard))?;
        Ok(value)
    }

    fn held(&self, guard: Result<L::Guard, Error>) -> Result<Guard<L::Guard>, Error> {
        Ok(Guard { guard: guard?, thread: self.thread.clone() })
    }
}

impl<K: Kind> Lock<crate::Lock<K>> {
    settings! {
        lease(lease: Duration)
        renew(renew: bool)
        session_grace(grace: Duration)
        wait(wait: Duration)
        durability(durability: Durability)
        owner(owner: impl AsRef<[u8]>)
        whole_lease()
        at_least(time: Duration)
        max_hold(time: Duration)
    }

    questions! {
        locked() -> bool;
        info() -> Info;
        hold_count(owner) -> u64;
        force_release() -> bool;
        force_release_of(owner) -> bool;
        release_all_of(owner) -> bool;
    }

    /// Adopts the lock of an owner that another process has detached; see [`crate::Lock::adopt`].
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::adopt`].
    pub fn adopt(&self, owner: impl AsRef<[u8]>) -> Result<Guard<crate::Guard<K>>, Error> {
        self.held(self.thread.run(self.lock.adopt(owner)))
    }

    /// The same lock without its kind in its type.
    pub fn any(self) -> Lock<crate::Lock<Any>> {
        Lock { lock: self.lock.any(), thread: self.thread }
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.lock.name()
    }

    /// Whether there is a connection; see [`crate::Lock::connected`].
    ///
    /// # Errors
    ///
    /// The error of the last attempt to connect.
    pub fn connected(&self) -> Result<(), Error> {
        self.lock.connected()
    }
}

impl<K: Exclusive> Lock<crate::Lock<K>> {
    settings!(fenced());
}

impl Lock {
    settings!(fair());
}

impl ReadWriteLock {
    pub(super) fn new(lock: crate::ReadWriteLock, thread: Thread) -> ReadWriteLock {
        ReadWriteLock { lock, thread }
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.lock.name()
    }

    /// The readers' side; see [`crate::ReadWriteLock::read`].
    pub fn read(&self) -> Lock<crate::Lock<Read>> {
        Lock::on(self.thread.clone(), self.lock.read())
    }

    /// The writers' side; see [`crate::ReadWriteLock::write`].
    pub fn write(&self) -> Lock<crate::Lock<Write>> {
        Lock::on(self.thread.clone(), self.lock.write())
    }
}

impl<G: Holding> Guard<G> {
    /// A view of this hold, to move into the work.
    pub fn held(&self) -> G::Target {
        G::Target::clone(&self.guard)
    }

    /// Waits until the lock is lost, and returns the reason; never returns if the lock is not lost.
    pub fn lost(&self) -> Lost {
        self.thread.run(self.guard.lost())
    }

    /// Releases this hold, and fails if the lock was lost before.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<(), Error> {
        self.thread.run(self.guard.release())
    }
}

impl<K: Kind> Guard<crate::Guard<K>> {
    /// Re-enters the lock; see [`crate::Guard::reenter`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::reenter`].
    pub fn reenter(&self) -> Result<Self, Error> {
        Ok(Guard { guard: self.thread.run(self.guard.reenter())?, thread: self.thread.clone() })
    }

    /// Leaves the lock to another process; see [`crate::Guard::detach`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::detach`].
    pub fn detach(self) -> Result<Detached, Error> {
        self.thread.run(self.guard.detach())
    }

    /// The same guard without its kind in its type.
    pub fn any(self) -> Guard<crate::Guard<Any>> {
        Guard { guard: self.guard.any(), thread: self.thread }
    }
}

impl Guard<crate::Guard<Write>> {
    /// Turns a writer's guard into a reader's; see [`crate::Guard::downgrade`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::downgrade`].
    pub fn downgrade(self) -> Result<Guard<crate::Guard<Read>>, Error> {
        Ok(Guard { guard: self.thread.run(self.guard.downgrade())?, thread: self.thread })
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<L: fmt::Debug> fmt::Debug for Lock<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<G: fmt::Debug> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
