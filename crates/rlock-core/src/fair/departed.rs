//! Owners that left the queue of a fair lock leave its fair list, a few at a time.

use crate::at::At;
use crate::locks::Due;
use crate::look::fields;
use crate::port::{FairList, Lock, Server};
use crate::timing::entry;
use crate::weight::weigh;

impl<P: Server> At<'_, '_, P> {
    /// Removes an owner that got the lock from the fair list, if it stands there from before. If another call of this owner
    /// waits, its entry stays for that call.
    pub(crate) fn leave_fair_list_unless_waiting(&self, owner: &[u8]) {
        // One that is leaving already keeps the place that it would come back to.
        if !self.knows_fair_owner(owner) && self.lock.fair_list().has(owner) {
            let _entry = entry(self.node);
            self.locks(|locks, lock| locks.note_departed(lock, owner));
            self.remove_departed_heads();
        }
    }

    /// Whether an owner waits here with FAIR, or has left a moment ago.
    pub(super) fn knows_fair_owner(&self, owner: &[u8]) -> bool {
        self.locks(|locks, lock| {
            locks.records.fair_waiter(lock, owner).is_some() || locks.records.is_leaving(lock, owner)
        })
    }

    /// Removes entries of departed owners from the head of the list: a bounded number, so that the command under way stays fast. Returns their
    /// weight. The timer removes the others. Until then Redisson's scripts find them waiting, which does no harm: a client whose script finds one
    /// at the head waits, and is called when the timer has removed the entry.
    pub(crate) fn remove_departed_heads(&self) -> usize {
        if !self.locks(|locks, lock| locks.has_leaving(lock)) {
            return 0;
        }
        let leaves = |owner: &[u8]| self.locks(|locks, lock| locks.records.is_leaving(lock, owner));
        let most = self.node.port.settings().at_once.served;
        let gone = self.lock.fair_list().pop(most, &leaves);
        self.locks(|locks, lock| {
            for owner in &gone {
                locks.forget_departed(lock, owner);
            }
        });
        let weight = weigh(&gone);
        if weight >= most && self.departed_head_remains() {
            self.locks(|locks, lock| locks.note_departed_heads(lock, true));
        }
        weight
    }

    /// Whether an owner that left stands at the head of the list.
    fn departed_head_remains(&self) -> bool {
        let head = self.lock.fair_list().head();
        head.is_some_and(|head| self.locks(|locks, lock| locks.records.is_leaving(lock, &head.owner)))
    }

    /// Continues to remove departed owners from the list, and returns the weight of the checked entries. Writing must be allowed.
    pub(super) fn remove_departed(&mut self) -> usize {
        let most = self.node.port.settings().at_once.listed;
        let heads = self.remove_departed_heads();
        let mut done = heads;
        if let Some(passed) = self.locks(|locks, lock| locks.records.walked_so_far(lock)) {
            let leaves = |owner: &[u8]| self.locks(|locks, lock| locks.records.is_leaving(lock, owner));
            let walked = self.lock.fair_list().take_out(passed, most, &leaves);
            done = done.saturating_add(walked.weight);
            self.locks(|locks, lock| locks.walked(lock, &walked));
        }
        let absent = self.locks(|locks, lock| locks.next_absent(lock, most));
        if !absent.is_empty() {
            self.lock.fair_list().forget(&absent);
        }
        let were_left = self.locks(|locks, lock| locks.records.departed_heads_remain(lock));
        if heads > 0 || were_left {
            self.notify_head();
        }
        if were_left && !self.departed_head_remains() {
            self.locks(|locks, lock| locks.note_departed_heads(lock, false));
        }
        done.saturating_add(weigh(&absent)).max(1)
    }

    /// The head of the list has changed. Redisson's message of a release went to the previous head, which had left.
    fn notify_head(&mut self) {
        if self.locks(|locks, lock| locks.records.head(lock).is_some()) {
            let now = self.node.port.now();
            self.locks(|locks, lock| locks.check_at(lock, Some(Due::At(now))));
            return;
        }
        let is_free = fields(self.lock, None).is_ok_and(|fields| fields.is_free());
        if let Some(head) = self.lock.fair_list().head().filter(|_| is_free)
            && !self.locks(|locks, lock| locks.records.is_leaving(lock, &head.owner))
        {
            self.lock.fair_list().call(&head.owner);
        }
    }
}
