//! The begin of a command's turn: the look, and serving a lock that is found free.

use crate::access::{Access, access_of_all};
use crate::error::Error;
use crate::fair;
use crate::look::Picture;
use crate::port::Server;
use crate::turn::Turn;
use crate::view::Need;

impl<P: Server> Turn<'_, P> {
    /// Reads the lock for the caller of a command, and serves its queue if it is found free: the caller must not overtake its
    /// waiters. All that happens before anything is refused.
    #[inline(always)]
    pub(crate) fn look(&mut self, picture: &mut Picture<'_, P::Lock<'_>>, need: Need) -> Result<(), Error> {
        if self.is_watched() { self.look_and_settle(picture, need) } else { picture.look(self.node, need) }
    }

    fn look_and_settle(&mut self, picture: &mut Picture<'_, P::Lock<'_>>, need: Need) -> Result<(), Error> {
        if self.node.locks(|locks| locks.has_leaving(picture.name())) {
            // A release calls the head of the fair list if no native waiter gets the lock.
            fair::remove_departed_heads(self.node, picture.close());
        }
        let mut looked = picture.look(self.node, need);
        if looked.is_ok() && !picture.lacks_end() {
            self.learn(picture);
        }
        // Not if another module has changed the lock within the look.
        let seen = looked.is_ok() && self.changes() == picture.seen_after();
        if !self.is_settled(picture, seen) {
            self.serve_found_free(picture.close());
            if self.changes() != picture.seen_after() {
                looked = picture.look(self.node, need);
            }
        }
        if let Some(owner) = picture.owner() {
            // The owner is connected and learns what it holds: none of its grants is revoked any more.
            self.node.locks(|locks| locks.confirm(picture.name(), owner));
        }
        looked
    }

    /// Whether the lock has no waiters, or was seen held against the first of them.
    fn is_settled(&self, picture: &Picture<'_, P::Lock<'_>>, seen: bool) -> bool {
        let is_held =
            |wanted| seen && matches!(access_of_all(picture.view(), wanted), Some(Access::Until { .. }));
        self.node.locks(|locks| locks.is_settled(picture.name(), is_held))
    }
}
