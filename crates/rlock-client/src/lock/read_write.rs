//! Read/write locks: readers together, writers alone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use super::acquiring::Patience;
use crate::client::Handle;
use crate::config::Durability;
use crate::error::{Error, name};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::message::Mode;

/// A read/write lock by its name; made by [`Client::read_write_lock`](crate::Client::read_write_lock).
///
/// Many hold it together to read, or one alone to write. Each of its two sides is a [`Lock`], and has all that a lock
/// has. One queue serves both: a writer that waits is not overtaken by new readers. Each reader has a lease of its
/// own, so that one that died holds a writer up no longer than that.
#[derive(Clone)]
pub struct ReadWriteLock {
    lock: Lock,
}

impl ReadWriteLock {
    pub(crate) fn new(lock: Lock) -> ReadWriteLock {
        ReadWriteLock { lock }
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.lock.name()
    }

    /// The side of the readers.
    ///
    /// Acquiring it under a [`Lock::owner`] that writes is possible as well; the other way round it is an error,
    /// since a reader that waits to write would wait for itself.
    pub fn read(&self) -> Lock {
        self.lock.clone().in_mode(Mode::Read)
    }

    /// The side of the writers. A guard of it can be turned into a reader's, with nobody else writing in between:
    /// [`Guard::downgrade`].
    pub fn write(&self) -> Lock {
        self.lock.clone().in_mode(Mode::Write)
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteLock").field("name", &name(self.name())).finish_non_exhaustive()
    }
}

impl Guard {
    /// Turns a writer's guard into a reader's: other readers come in, and no writer was in between.
    ///
    /// The reader's hold has the lease of the writer's, and is renewed if that was.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a guard that is not of [`ReadWriteLock::write`], or not the only one of its hold: while
    /// another writes, nobody else may read. [`Error::Lost`] and [`Error::NotHeld`] when it was not held any more; and
    /// those of [`Guard::unlock`]. After an error this guard holds nothing, or nothing for longer than the lease.
    pub async fn downgrade(self) -> Result<Guard, Error> {
        let hold = self.hold();
        if hold.party.mode != Mode::Write {
            return Err(Error::invalid(
                "only a guard of the write side of a read/write lock can be downgraded",
            ));
        }
        // Two readers that come of one writer would be one owner to the server: the end of one would be that of both.
        if hold.guards() > 1 {
            return Err(Error::invalid(
                "the writer has entered the lock more than once: give the other guards back before the downgrade",
            ));
        }
        let reader = Lock::reader_beside(self.handle(), &hold);
        let owner = hold.party.owner.clone();
        let guard = if hold.named {
            reader.owner(owner).acquire(Patience::None).await?
        } else {
            reader.attempt(owner, None, Patience::None).await?
        };
        // A reader is denied beside a writer of its own only where that is gone.
        let Some(guard) = guard else {
            self.check()?;
            return Err(Error::NotHeld { lock: name(self.name()) });
        };
        self.unlock().await?;
        Ok(guard)
    }
}

impl Lock {
    /// The read side of the lock that is held so.
    fn reader_beside(handle: Arc<Handle>, hold: &Hold) -> Lock {
        let lease = (!hold.is_renewed()).then_some(hold.lease);
        let lock = Lock::new(handle, hold.party.key.clone()).in_mode(Mode::Read);
        Lock { lease, wait: None::<Duration>, durability: Durability::None, ..lock }
    }
}
