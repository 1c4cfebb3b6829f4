//! Owners that left the queue of a fair lock leave its fair list, a few at a time.

use crate::bugs::{Bug, planted};
use crate::locks::Due;
use crate::port::{Server, Site};
use crate::timing::entry;

/// An owner has the lock, and may have stood in the list from before. If another call of its own waits, it stands there
/// for that.
pub(crate) fn leave_unless_waiting<S: Site>(site: &S, owner: &[u8]) {
    let (server, lock) = (site.server(), site.lock());
    // One that is leaving already keeps the place that it would come back to.
    let is_known =
        server.locks(|locks| locks.fair_waiter(lock, owner).is_some() || locks.is_leaving(lock, owner));
    if !is_known && site.fair_has_deadline(owner) {
        let _entry = entry(server);
        server.locks(|locks| locks.note_departed(lock, owner));
        remove_departed_heads(site);
    }
}

/// Removes entries of owners that left from the head of the list: only so many that the command under way takes no longer
/// for them. All others are the timer's; until then Redisson's scripts find them waiting, which does no harm: where
/// a script finds one at the head, its client waits, and is called when the timer has removed the entry.
pub(crate) fn remove_departed_heads<S: Site>(site: &S) -> usize {
    let (server, lock) = (site.server(), site.lock());
    if !server.locks(|locks| locks.has_leaving(lock)) || planted(Bug::FairStays) {
        return 0;
    }
    let leaves = |owner: &[u8]| server.locks(|locks| locks.is_leaving(lock, owner));
    let most = server.settings().at_once.served;
    let gone = site.fair_pop(most, &leaves);
    server.locks(|locks| {
        for owner in &gone {
            locks.forget_departed(lock, owner);
        }
    });
    if gone.len() >= most && departed_head_remains(site) {
        server.locks(|locks| locks.note_departed_heads(lock, true));
    }
    gone.len()
}

/// Whether an owner that left stands at the head of the list.
fn departed_head_remains<S: Site>(site: &S) -> bool {
    let head = site.fair_head();
    head.is_some_and(|head| site.server().locks(|locks| locks.is_leaving(site.lock(), &head.owner)))
}

/// Goes on with taking those out of the list who wait no more: how many entries were looked at. Writing must be allowed.
pub(crate) fn remove_departed<S: Site>(site: &S) -> usize {
    let (server, lock) = (site.server(), site.lock());
    if planted(Bug::FairStays) {
        server.locks(|locks| locks.forget_all_departed(lock));
        return 1;
    }
    let most = server.settings().at_once.listed;
    let heads = remove_departed_heads(site);
    let mut done = heads;
    if let Some(passed) = server.locks(|locks| locks.walked_so_far(lock)) {
        let leaves = |owner: &[u8]| server.locks(|locks| locks.is_leaving(lock, owner));
        let walked = site.fair_take_out(passed, most, &leaves);
        done = done.saturating_add(walked.passed).saturating_add(walked.taken.len());
        server.locks(|locks| locks.walked(lock, &walked));
    }
    let absent = server.locks(|locks| locks.next_absent(lock, most));
    if !absent.is_empty() {
        site.fair_forget(&absent);
    }
    let were_left = server.locks(|locks| locks.departed_heads_remain(lock));
    if heads > 0 || were_left {
        notify_head(site);
    }
    if were_left && !departed_head_remains(site) {
        server.locks(|locks| locks.note_departed_heads(lock, false));
    }
    done.saturating_add(absent.len()).max(1)
}

/// The head of the list has changed. Redisson's message of a release went to the head of before, who had left.
fn notify_head<S: Site>(site: &S) {
    let (server, lock) = (site.server(), site.lock());
    if server.locks(|locks| locks.head(lock).is_some()) {
        let now = server.now();
        server.locks(|locks| locks.check_at(lock, Some(Due::At(now))));
        return;
    }
    let is_free = site.state(&site.open(), None).is_ok_and(|fields| fields.is_free());
    if let Some(head) = site.fair_head().filter(|_| is_free)
        && !server.locks(|locks| locks.is_leaving(lock, &head.owner))
        && !planted(Bug::FairInSilence)
    {
        site.notify_fair(&head.owner);
    }
}
