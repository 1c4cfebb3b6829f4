//! The last known lease of a lock with waiters: its end, the event after it, and the end that waiting Redisson clients know.

use super::records::Records;
use super::{Cause, DropReason, Due, LockName, Locks, Yielding};
use crate::types::{Expiry, UnixMs, Wanted};

impl Records {
    /// The lock was found free, or was freed. The first call returns the last seen lease end, and the event after it.
    pub fn found_free(&mut self, lock: LockName<'_>) -> Option<(Expiry, Option<Cause>)> {
        let queue = self.queue_mut(lock)?;
        let seen = queue.seen.take();
        Some((queue.ends.take()?, seen))
    }

    /// An event on the lock's key may have freed it.
    pub fn note_cause(&mut self, lock: LockName<'_>, cause: Cause) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.seen = Some(cause);
            if cause != Cause::Expired {
                // A grant that a client ends, or gives another lease, does not count as expired without an answer.
                queue.unconfirmed = None;
            }
        }
    }

    /// The latest lease end that waiting Redisson clients may know.
    pub fn announced_end(&self, lock: LockName<'_>) -> Option<Expiry> {
        self.queue(lock)?.announced_end
    }

    /// Waiting Redisson clients were woken, and will learn another lease end.
    pub fn forget_announced_end(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.announced_end = None;
        }
    }
}

impl Locks {
    /// The lock was seen held, and its key lasts until `expiry`. The first waiter cannot have it before `until`: check
    /// again after that.
    pub fn found_held(&mut self, lock: LockName<'_>, expiry: Expiry, until: Expiry) {
        let due = match until {
            // The server takes a key for expired when its time has passed, not when it has come.
            Expiry::At(at) => Some(Due::At(UnixMs(at.0.saturating_add(1)))),
            // Nothing but an event will free it.
            Expiry::Never => None,
        };
        let Some(record) = self.records.get_mut(lock) else { return };
        let name = record.name(lock.db);
        if let Some(queue) = record.queue.as_deref_mut() {
            let (before, due) = queue.set_due(due);
            self.agenda.move_serve(&name, before, due);
            queue.ends = Some(expiry);
            queue.seen = None;
            queue.announced_end = Some(queue.announced_end.map_or(expiry, |end| end.later(expiry)));
            queue.set_called(None);
        }
        if matches!(record.yielding, Some(Yielding::Window { .. })) {
            self.records.close_window(lock);
        }
    }

    /// Whether a lock has no waiters, or is held against the first of them: then none is left unserved, and its yield window is over.
    pub(crate) fn is_settled(&mut self, lock: LockName<'_>, is_held: impl FnOnce(Wanted) -> bool) -> bool {
        let Some(record) = self.records.get_mut(lock) else { return true };
        let Some(queue) = record.queue.as_deref_mut() else { return true };
        if !queue.waiters.first().is_none_or(|(_, first)| is_held(first.wanted)) {
            return false;
        }
        queue.unserved = false;
        let has_window = matches!(record.yielding, Some(Yielding::Window { .. }));
        if has_window && self.calls.dropping() != Some(DropReason::Demoted) {
            self.records.close_window(lock);
        }
        true
    }
}
