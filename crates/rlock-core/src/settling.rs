//! The begin of a command's turn: the look, and serving a lock that is found free.

use crate::access::{Access, access_of_all};
use crate::error::Error;
use crate::look::Picture;
use crate::port::Server;
use crate::view::Need;

impl<P: Server> Picture<'_, '_, '_, P> {
    /// Reads the lock for the caller of a command, and serves its queue if it is found free: the caller must not overtake its
    /// waiters. All that happens before anything is refused.
    #[inline(always)]
    pub(crate) fn look_and_settle(&mut self, need: Need) -> Result<(), Error> {
        if self.is_watched() { self.look_at_watched(need) } else { self.look(need) }
    }

    fn look_at_watched(&mut self, need: Need) -> Result<(), Error> {
        let node = self.node();
        if node.locks(|locks| locks.has_leaving(self.name())) {
            // A release calls the head of the fair list if no native waiter gets the lock.
            self.close().at.remove_departed_heads();
        }
        let mut looked = self.look(need);
        if looked.is_ok() && !self.lacks_end() {
            self.learn();
        }
        // Not if another module has changed the lock within the look.
        let seen = looked.is_ok() && self.is_current();
        if !self.is_settled(seen) {
            self.close().serve_found_free();
            if !self.is_current() {
                looked = self.look(need);
            }
        }
        if let Some(owner) = self.owner() {
            // The owner is connected and learns what it holds: none of its grants is revoked any more.
            node.locks(|locks| locks.confirm(self.name(), owner));
        }
        looked
    }

    /// Whether the lock has no waiters, or was seen held against the first of them.
    fn is_settled(&self, seen: bool) -> bool {
        let is_held =
            |wanted| seen && matches!(access_of_all(self.view(), wanted), Some(Access::Until { .. }));
        self.node().locks(|locks| locks.is_settled(self.name(), is_held))
    }
}
