//! A client that enqueues for a lock that it holds: so in every round a waiter is next when no token can be given, on a
//! lock where no other client's call would show it.

use super::desk::Desk;
use super::native::Want;

impl Desk {
    /// Holds the lock for up to a second; the waiter behind must get the lock after that, or learn why not.
    pub(crate) fn heir(&mut self, want: &Want) {
        let Some(holder) = self.takes(want) else { return };
        let heir = self.joins(want);
        self.sleep_us(0, 1_000_000);
        self.give_back(want, holder);
        if let Some(heir) = heir {
            self.await_message(want, heir, false);
        }
    }
}
