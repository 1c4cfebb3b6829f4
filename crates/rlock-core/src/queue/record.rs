//! What memory knows of one lock.

use std::collections::VecDeque;
use std::rc::Rc;

use super::{Grant, LockId, Queue, Queues};

/// What memory knows of one lock. A record that is empty is removed.
#[derive(Clone, Debug, Default)]
pub(super) struct LockRecord {
    /// The waiters; gone with the last one.
    pub(super) queue: Option<Box<Queue>>,
    /// The newest grants, while nobody knows that they arrived: many where readers share the lock. They outlive the queue.
    pub(super) grants: VecDeque<Grant>,
    /// Grants whose clients disconnected before the reply.
    pub(super) revokes: VecDeque<Grant>,
}

impl LockRecord {
    fn is_empty(&self) -> bool {
        let Self { queue, grants, revokes } = self;
        queue.is_none() && grants.is_empty() && revokes.is_empty()
    }
}

impl Queues {
    /// A lock's waiters.
    pub(super) fn queue(&self, lock: &LockId) -> Option<&Queue> {
        self.records.get(lock)?.queue.as_deref()
    }

    /// The same, to change them.
    pub(super) fn queue_mut(&mut self, lock: &LockId) -> Option<&mut Queue> {
        self.records.get_mut(lock)?.queue.as_deref_mut()
    }

    /// The same, with the lock's name as the records share it.
    pub(super) fn named_queue(&self, lock: &LockId) -> Option<(Rc<LockId>, &Queue)> {
        let (lock, record) = self.records.get_key_value(lock)?;
        Some((Rc::clone(lock), record.queue.as_deref()?))
    }

    /// The lock's name as its record shares it, or a new one.
    pub(super) fn shared_name(&self, lock: &LockId) -> Rc<LockId> {
        let known = self.records.get_key_value(lock);
        known.map_or_else(|| Rc::new(lock.clone()), |(lock, _)| Rc::clone(lock))
    }

    /// A lock's record, which is made if there is none: something is put in at once.
    pub(super) fn record(&mut self, lock: &LockId) -> &mut LockRecord {
        self.records.entry(self.shared_name(lock)).or_default()
    }

    /// Changes a lock's record, if there is one, and removes it when it is empty.
    pub(super) fn edit<T>(&mut self, lock: &LockId, change: impl FnOnce(&mut LockRecord) -> T) -> Option<T> {
        let record = self.records.get_mut(lock)?;
        let result = change(record);
        if record.is_empty() {
            self.records.remove(lock);
        }
        Some(result)
    }
}
