//! Where walks through many locks continue. A walk takes a few locks at a time.

use super::LockRef;

/// The walks through all locks, or through all locks with waiters.
#[derive(Clone, Debug, Default)]
pub(super) struct Walks {
    /// The locks that are made due.
    pub(super) checked: Cursor,
    /// The locks whose slots may be on another server.
    pub(super) doubted: Cursor,
    /// The records of which time may have ended a part.
    pub(super) forgotten: Cursor,
}

/// Where one walk continues: after a lock, or with the first one.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor(Option<LockRef>);

impl Cursor {
    /// The lock after which the walk continues.
    pub(super) fn last(&self) -> Option<&LockRef> {
        self.0.as_ref()
    }

    /// The walk continues after this lock, or with the first one.
    pub(super) fn set(&mut self, last: Option<LockRef>) {
        self.0 = last;
    }
}
