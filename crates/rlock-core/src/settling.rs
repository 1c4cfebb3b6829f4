//! The begin of a command's turn: the look, and serving a lock that is found free.

use crate::access::Access;
use crate::error::Error;
use crate::fair;
use crate::locks::DropReason;
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
        // The next check needs the lease end.
        let need = if need == Need::Holds { Need::Own } else { need };
        if self.node.locks(|locks| locks.has_leaving(picture.name())) {
            // A release calls the head of the fair list if no native waiter gets the lock.
            fair::remove_departed_heads(self.node, picture.close());
        }
        let mut looked = picture.look(self.node, need);
        if looked.is_ok() {
            self.learn(picture.view());
        }
        let before = self.changes();
        if !self.is_settled(picture) {
            self.serve_found_free(picture.close());
            if self.changes() != before {
                looked = picture.look(self.node, need);
            }
        }
        if let Some(owner) = picture.owner() {
            // The owner is connected and learns what it holds: none of its grants is revoked any more.
            self.node.locks(|locks| locks.confirm(picture.name(), owner));
        }
        looked
    }

    /// Whether the lock has no waiters, or is known to be held against all of them: then its yield window is over.
    fn is_settled(&mut self, picture: &Picture<'_, P::Lock<'_>>) -> bool {
        let name = picture.name();
        let head = self.node.locks(|locks| locks.head(name).map(|head| head.wanted()));
        let Some(wanted) = head else { return true };
        let is_held = matches!(self.access_of_all(wanted), Some(Access::Until { .. }));
        if is_held {
            self.node.locks(|locks| {
                locks.note_unserved(name, false);
                if locks.dropping() != Some(DropReason::Demoted) {
                    locks.close_window(name);
                }
            });
        }
        is_held
    }
}
