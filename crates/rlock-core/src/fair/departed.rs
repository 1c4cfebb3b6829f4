//! Owners that left the queue of a fair lock leave its fair list, a few at a time.

use crate::locks::Due;
use crate::look::fields;
use crate::node::Node;
use crate::port::{FairList, Lock, Server};
use crate::timing::entry;
use crate::weight::weigh;

/// An owner has the lock, and may have stood in the list from before. If another call of its own waits, it stands there
/// for that.
pub(crate) fn leave_unless_waiting<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, owner: &[u8]) {
    // One that is leaving already keeps the place that it would come back to.
    let is_known = node.locks(|locks| {
        locks.records.fair_waiter(lock.name(), owner).is_some()
            || locks.records.is_leaving(lock.name(), owner)
    });
    if !is_known && lock.fair_list().has(owner) {
        let _entry = entry(node);
        node.locks(|locks| locks.note_departed(lock.name(), owner));
        remove_departed_heads(node, lock);
    }
}

/// Removes entries of departed owners from the head of the list: a bounded number, so that the command under way stays
/// fast. Returns what they count. The timer removes the others. Until then Redisson's scripts find them waiting, which does no harm: a client
/// whose script finds one at the head waits, and is called when the timer has removed the entry.
pub(crate) fn remove_departed_heads<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>) -> usize {
    if !node.locks(|locks| locks.has_leaving(lock.name())) {
        return 0;
    }
    let leaves = |owner: &[u8]| node.locks(|locks| locks.records.is_leaving(lock.name(), owner));
    let most = node.port.settings().at_once.served;
    let gone = lock.fair_list().pop(most, &leaves);
    node.locks(|locks| {
        for owner in &gone {
            locks.forget_departed(lock.name(), owner);
        }
    });
    let weight = weigh(&gone);
    if weight >= most && departed_head_remains(node, lock) {
        node.locks(|locks| locks.note_departed_heads(lock.name(), true));
    }
    weight
}

/// Whether an owner that left stands at the head of the list.
fn departed_head_remains<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>) -> bool {
    let head = lock.fair_list().head();
    head.is_some_and(|head| node.locks(|locks| locks.records.is_leaving(lock.name(), &head.owner)))
}

/// Continues to remove departed owners from the list, and returns what the entries count that it checked. Writing must be allowed.
pub(crate) fn remove_departed<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>) -> usize {
    let most = node.port.settings().at_once.listed;
    let heads = remove_departed_heads(node, lock);
    let mut done = heads;
    if let Some(passed) = node.locks(|locks| locks.records.walked_so_far(lock.name())) {
        let leaves = |owner: &[u8]| node.locks(|locks| locks.records.is_leaving(lock.name(), owner));
        let walked = lock.fair_list().take_out(passed, most, &leaves);
        done = done.saturating_add(walked.weight);
        node.locks(|locks| locks.walked(lock.name(), &walked));
    }
    let absent = node.locks(|locks| locks.next_absent(lock.name(), most));
    if !absent.is_empty() {
        lock.fair_list().forget(&absent);
    }
    let were_left = node.locks(|locks| locks.records.departed_heads_remain(lock.name()));
    if heads > 0 || were_left {
        notify_head(node, lock);
    }
    if were_left && !departed_head_remains(node, lock) {
        node.locks(|locks| locks.note_departed_heads(lock.name(), false));
    }
    done.saturating_add(weigh(&absent)).max(1)
}

/// The head of the list has changed. Redisson's message of a release went to the previous head, which had left.
fn notify_head<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>) {
    if node.locks(|locks| locks.records.head(lock.name()).is_some()) {
        let now = node.port.now();
        node.locks(|locks| locks.check_at(lock.name(), Some(Due::At(now))));
        return;
    }
    let is_free = fields(lock, None).is_ok_and(|fields| fields.is_free());
    if let Some(head) = lock.fair_list().head().filter(|_| is_free)
        && !node.locks(|locks| locks.records.is_leaving(lock.name(), &head.owner))
    {
        lock.fair_list().notify(&head.owner);
    }
}
