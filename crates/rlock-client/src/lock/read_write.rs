//! Read/write locks: readers together, writers alone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Lock, Spec};
use crate::acquisition::{Acquisition, Terms};
use crate::command::Extras;
use crate::config::Durability;
use crate::error::{Error, Lost, name};
use crate::guard::Guard;
use crate::handle::Handle;
use crate::kind::{Read, Write};
use crate::message::Mode;

/// A read/write lock by its name; made by [`Client::read_write_lock`](crate::Client::read_write_lock).
///
/// Many readers hold it together, or one writer alone. Each of its two sides is a [`Lock`]. Both share one queue: new
/// readers do not overtake a waiting writer. Each reader has its own lease, so a dead reader delays a writer no longer
/// than its lease.
#[derive(Clone)]
pub struct ReadWriteLock {
    spec: Spec,
}

impl ReadWriteLock {
    pub(crate) fn new(spec: Spec) -> ReadWriteLock {
        ReadWriteLock { spec }
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.spec.key
    }

    /// The readers' side. It has no fencing tokens: the server gives readers none.
    ///
    /// An owner ([`Lock::owner`]) that writes can also acquire this side. The reverse is an error: a reader that
    /// waits to write would wait for itself.
    pub fn read(&self) -> Lock<Read> {
        Lock::new(Spec { mode: Mode::Read, ..self.spec.clone() })
    }

    /// The writers' side. [`Guard::downgrade`] turns its guard into a reader's, without another writer in between.
    pub fn write(&self) -> Lock<Write> {
        Lock::new(Spec { mode: Mode::Write, ..self.spec.clone() })
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteLock").field("name", &name(self.name())).finish_non_exhaustive()
    }
}

impl Guard<Write> {
    /// Turns a writer's guard into a reader's: other readers can join, and no writer comes in between.
    ///
    /// The read hold keeps the write hold's lease, and is renewed if the write hold was.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a guard that is not the only one of its hold: as long as a write hold is left, no other
    /// owner may read. [`Error::LockLost`] if the lock was no longer held; and those of [`Guard::release`]. After an
    /// error this guard holds nothing, or nothing beyond the lease.
    pub async fn downgrade(self) -> Result<Guard<Read>, Error> {
        let hold = self.hold();
        // In the child of a fork, and under a client that is closed, nothing below ends.
        hold.check()?;
        // Two readers that come of one writer would be one owner to the server: the end of one would be that of both.
        if hold.guards() > 1 {
            return Err(Error::invalid(
                "the writer holds other guards of this lock: release them before the downgrade",
            ));
        }
        let reader = reader_beside(self.handle(), &hold);
        let owner = &hold.claim.owner;
        let outcome = if hold.terms.named {
            Spec { owner: Some(owner.clone()), ..reader }.acquire(Some(Duration::ZERO)).await
        } else {
            reader.acquire_beside(owner).await
        };
        let guard = match outcome {
            // A reader is denied beside a writer of its own only if the write hold is gone.
            Err(Error::Denied { .. }) => {
                self.check()?;
                return Err(Error::lost(self.name(), Lost::Taken));
            }
            outcome => outcome?,
        };
        self.release().await?;
        Ok(guard.of_kind())
    }
}

/// The read side of a lock that is held for writing.
fn reader_beside(handle: Arc<Handle>, hold: &Acquisition) -> Spec {
    let extras = Extras { session: hold.terms.extras.session, ..Extras::default() };
    let terms = Terms { extras, ..hold.terms };
    let spec = Spec::new(handle, hold.claim.key.clone());
    Spec { mode: Mode::Read, durability: Durability::None, terms, ..spec }
}
