//! Sharing with waiting Redisson clients: they learn of a release from its message, and then compete for the lock.
//!
//! A lock with constant hand-offs would never be free for them. A lock with overlapping native readers would never be
//! free for a Redisson writer. The module therefore yields regularly: it leaves the lock free for a yield window. Until
//! the lock is free it holds new readers back, as behind a native writer.

use crate::at::At;
use crate::decision::{Change, KeyChange, LockEvent, UnlockMessage};
use crate::locks::{LockName, Yielding};
use crate::look::Picture;
use crate::node::Node;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::turn::Turn;
use crate::types::{Holds, LeaseMs, Mode};
use crate::view::{Kind, Need, Others};

/// The interval, in ms, of checks whether a Redisson writer still needs new readers to be held back.
const LOOK_MS: i64 = 500;

impl<P: Server> Turn<'_, '_, P> {
    /// Opens a yield window if Redisson clients wait and have been passed over for long enough. Returns whether it did. Clients that
    /// listen by a pattern do not count: they acquire nothing.
    pub(crate) fn open_window_if_due(&mut self, mode: Mode) -> bool {
        let node = self.at.node;
        let due = is_due(node, self.at.name());
        let Some(window) = node.port.settings().yield_window.filter(|_| due) else { return false };
        let message = UnlockMessage::to_all(mode);
        let listened = message.is_some_and(|message| self.at.lock.listeners(message) > 0);
        if let Some(message) = message {
            // Also without listeners here: Redisson clients may listen at a replica.
            self.send_unlock_message(message);
        }
        if listened {
            node.port.note(Note::Yielded);
        }
        let until = node.port.clock().after(window);
        let yielding = listened.then_some(Yielding::Window { until });
        self.at.locks(|locks, lock| locks.records.set_yielding(lock, yielding));
        listened
    }

    /// Holds new readers back if a Redisson writer has waited for long enough. Returns whether it did.
    fn drain_if_due(&mut self) -> bool {
        let node = self.at.node;
        if node.port.settings().yield_window.is_none() {
            return false;
        }
        match self.at.locks(|locks, lock| locks.records.yielding(lock)) {
            Some(Yielding::Counting { .. }) => is_due(node, self.at.name()) && self.drain().is_some(),
            _ => self.hold_back_for().is_some(),
        }
    }

    /// Continues to hold new readers back for a Redisson writer, or ends that. Returns the time until the next check.
    pub(crate) fn hold_back_for(&mut self) -> Option<LeaseMs> {
        match self.at.locks(|locks, lock| locks.records.yielding(lock))? {
            Yielding::Counting { .. } => None,
            draining @ Yielding::Draining { .. } => {
                draining.look_in(self.at.node.port.clock()).or_else(|| self.drain())
            }
            // The lock is held: the window is over, and readers may join.
            Yielding::Window { .. } => {
                self.at.locks(|locks, lock| locks.records.close_window(lock));
                None
            }
        }
    }

    /// Holds new readers back while a Redisson writer listens and a reader is alive that will release the lock. Returns the
    /// time until the next check. With only dead readers left, no Redisson writer can acquire the lock before the key's
    /// end. New readers are held back no longer than the leases of the native readers last: a steady stream of Redisson
    /// readers would hold them back for ever, and no client would gain by it.
    fn drain(&mut self) -> Option<LeaseMs> {
        let node = self.at.node;
        let settings = node.port.settings();
        let clock = node.port.clock();
        let look_in = self.at.native_reads_last();
        let listened = self.at.lock.listeners(UnlockMessage::ReadersGone) > 0;
        let wanted = settings.yield_window.is_some() && listened && self.is_read();
        let again = look_in.filter(|_| wanted);
        self.at.locks(|locks, lock| match again {
            Some(again) => {
                locks.records.set_yielding(lock, Some(Yielding::Draining { look_at: clock.after(again) }))
            }
            None => locks.records.count_anew(lock, clock),
        });
        again
    }

    /// Whether one of the readers lives; in doubt one does.
    fn is_read(&mut self) -> bool {
        self.look(None, Need::AnyOther).map_or(true, |picture| match picture.view().kind {
            Kind::Free | Kind::Abandoned | Kind::Mutex | Kind::Permits => false,
            Kind::Reading => picture.view().others != Others::Dead,
            Kind::Writing => true,
        })
    }
}

impl<P: Server> Picture<'_, '_, '_, P> {
    /// Holds an owner without holds back from a read/write lock in favour of a Redisson client, if that is due; returns whether it
    /// did. It moves the lock from draining to a yield window, and closes a window that is over.
    pub(crate) fn hold_back_for_redisson(&mut self, mode: Mode) -> bool {
        let view = self.view();
        if !view.is_free_for(mode) {
            let joins = mode == Mode::Read && view.kind == Kind::Reading && !view.holds_any();
            return joins && self.close().drain_if_due();
        }
        // In memory only: the key of a free lock may be open.
        let (node, name) = (self.node(), self.name());
        if let Some(Yielding::Draining { .. }) = node.locks(|locks| locks.records.yielding(name)) {
            native_reads_ended(node, name);
        }
        expire_window(node, name).is_some()
    }
}

fn is_due<P: Server>(node: Node<'_, P>, name: LockName<'_>) -> bool {
    let (turns, clock) = (node.port.settings().turns, node.port.clock());
    node.locks(|locks| locks.records.yielding(name)).is_some_and(|yielding| yielding.is_due(turns, clock))
}

/// Closes a lock's yield window if its time is over; returns the rest of an open one.
pub(crate) fn expire_window<P: Server>(node: Node<'_, P>, name: LockName<'_>) -> Option<LeaseMs> {
    let (clock, longest) = (node.port.clock(), node.port.settings().yield_window);
    node.locks(|locks| locks.records.expire_window(name, clock, longest))
}

/// The lock has no readers any more. If readers were held back for a Redisson writer, the lock is left to it for a
/// yield window.
pub(crate) fn native_reads_ended<P: Server>(node: Node<'_, P>, name: LockName<'_>) {
    let window = node.port.settings().yield_window;
    let until = window.map(|window| node.port.clock().after(window));
    node.locks(|locks| locks.reads_ended(name, until));
}

impl<P: Server> At<'_, '_, P> {
    /// How long the present native readers may still read, but no longer than until the next look: a clock that was set
    /// back leaves more than any lease lasts.
    fn native_reads_last(&self) -> Option<LeaseMs> {
        let ends = self.locks(|locks, lock| locks.records.native_read_end(lock))?;
        LeaseMs::new(ends.0.saturating_sub(self.node.port.now().0).min(LOOK_MS))
    }

    /// Remembers what a change means for waiting Redisson clients: a new reader, and how long it reads; or that the lock
    /// has no readers any more.
    #[inline(always)]
    pub(crate) fn note_reads(&self, change: &Change) {
        // Before the lock is named, which copies its name: a mutex without waiters does without the copy.
        if change.mode != Mode::Mutex {
            self.note_shared_reads(change);
        }
    }

    fn note_shared_reads(&self, change: &Change) {
        let first_hold = change.key.holds() == Some(Holds::ONE);
        // The lock had no holder, though no event may have shown that.
        let alone = first_hold && change.becomes.is_some();
        if change.key == KeyChange::Delete {
            return native_reads_ended(self.node, self.name());
        }
        self.locks(|locks, lock| {
            if alone {
                locks.forget_read_end(lock);
                // A hand-off continues the row. Before an ACQUIRE the lock was free for Redisson clients too.
                if change.event == Some(LockEvent::Acquire) {
                    locks.records.set_yielding(lock, None);
                }
            }
            if let (Mode::Read, Some((_, _, ends))) = (change.mode, change.leases().set) {
                if alone {
                    locks.reads_are_known(lock);
                }
                let clock = self.node.port.clock();
                locks.records.note_read_end(lock, ends, clock);
                if first_hold && matches!(change.event, Some(LockEvent::Acquire | LockEvent::HandOff)) {
                    locks.records.count_admitted(lock, clock);
                }
            }
        });
    }
}
