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
/// Many readers hold it together, or one writer alone. Each of its two sides is a [`Lock`], with everything that a
/// lock has. Both share one queue: new readers do not overtake a waiting writer. Each reader has its own lease, so a
/// dead reader delays a writer no longer than that.
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

    /// The readers' side.
    ///
    /// An owner ([`Lock::owner`]) that writes can also acquire this side. The reverse is an error: a reader that
    /// waits to write would wait for itself.
    pub fn read(&self) -> Lock {
        self.lock.clone().in_mode(Mode::Read)
    }

    /// The writers' side. [`Guard::downgrade`] turns its guard into a reader's, without another writer in between.
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
    /// Turns a writer's guard into a reader's: other readers can join, and no writer comes in between.
    ///
    /// The read hold keeps the write hold's lease, and is renewed if that was.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a guard that is not of [`ReadWriteLock::write`], or not the only one of its hold: as
    /// long as a write hold is left, no other owner may read. [`Error::Lost`] and [`Error::NotHeld`] if the lock was
    /// no longer held; and those of [`Guard::unlock`]. After an error this guard holds nothing, or nothing beyond the
    /// lease.
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
                "the writer holds other guards of this lock: release them before the downgrade",
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
