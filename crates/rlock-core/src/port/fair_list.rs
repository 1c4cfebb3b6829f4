//! Redisson's fair list, as the rules see it.

use crate::facts::FairEntry;
use crate::locks::Walked;
use crate::types::{LeaseMs, UnixMs};

/// The list of the waiters for a lock's fair lock, and their deadlines. Its keys are other keys than the lock's.
pub trait FairList {
    /// The first entry.
    fn head(&self) -> Option<FairEntry>;

    /// Whether a part of the list may be on the other server of a migration of the lock's slot.
    fn may_have_migrated(&self) -> bool;

    /// Whether this owner is in the list.
    fn has(&self, owner: &[u8]) -> bool;

    /// Appends an owner to the list, unless the list has it. Its deadline is the last entry's deadline, or the end of
    /// the lock's lease, plus `budget`.
    fn join(&self, owner: &[u8], budget: LeaseMs);

    /// Removes entries from the head of the list while `leaves` is true of their owners, up to a weight of `most`.
    /// Returns their owners.
    fn pop(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>>;

    /// Removes the entries whose owners match `leaves`. It checks entries up to a weight of `most`, those before the last
    /// `passed` entries.
    fn take_out(&self, passed: usize, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Walked;

    /// Removes the deadlines of owners that are not in the list.
    fn forget(&self, owners: &[Box<[u8]>]);

    /// Lowers deadlines in the list to `latest`, which receives each entry's place from the head and its owner. It
    /// checks entries up to a weight of `most`, those before the last `passed` entries. All of them stay.
    fn lower(&self, passed: usize, most: usize, latest: &dyn Fn(usize, &[u8]) -> Option<UnixMs>) -> Walked;

    /// When this owner's entry in the list counts as dead; `None` if that is now.
    fn deadline(&self, owner: &[u8]) -> Option<UnixMs>;

    /// The owners that are not in the list, of these up to the first that is in it. In a list with a weight above `most`
    /// it searches only for some.
    fn missing(&self, owners: &[Box<[u8]>], most: usize) -> Vec<Box<[u8]>>;

    /// Sets an owner's deadline.
    fn set_deadline(&self, owner: &[u8], at: UnixMs);

    /// Puts owners at the head of the fair list, in this order, with this deadline.
    fn put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs);

    /// Notifies a Redisson fair waiter that its turn has come.
    fn call(&self, owner: &[u8]);
}
