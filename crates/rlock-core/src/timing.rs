//! When the timer fires next, and how much the work of one event-loop cycle may be.

use crate::locks::{Due, LockName, Meter, Rearm};
use crate::node::Node;
use crate::port::Server;

#[derive(PartialEq, Eq)]
pub(crate) enum WorkOutcome {
    Done,
    /// The server refuses writes for now.
    Refused,
}

/// How many waiters may be granted locks, or leave queues that are served, in one event-loop cycle.
pub(crate) struct Share {
    before: usize,
    pub(crate) most: usize,
}

impl Share {
    pub(crate) fn of<P: Server>(node: Node<'_, P>) -> Self {
        Self { before: node.locks(|locks| locks.calls.served()), most: node.port.settings().at_once.served }
    }

    pub(crate) fn is_used_up<P: Server>(&self, node: Node<'_, P>) -> bool {
        node.locks(|locks| locks.calls.served_since(self.before)) >= self.most
    }
}

/// A lock with waiters is due to be served now.
pub(crate) fn check_soon<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let now = node.port.now();
    node.locks(|locks| locks.check_at(lock, Some(Due::At(now))));
}

/// An entry point of the rules is under way. When the outermost one returns, the timer is set to fire at the next work, if
/// that may have changed. There is one timer, and none while there is no work.
#[must_use]
pub(crate) struct Entry<'a, P: Server> {
    node: Node<'a, P>,
    is_outermost: bool,
}

/// An entry point of the rules begins; keep the result until its end.
pub(crate) fn entry<P: Server>(node: Node<'_, P>) -> Entry<'_, P> {
    let meter = meter(node.port);
    Entry { node, is_outermost: node.locks(|locks| locks.enter(meter)) }
}

impl<P: Server> Drop for Entry<'_, P> {
    fn drop(&mut self) {
        let changed = self.is_outermost && self.node.locks(|locks| locks.agenda.exit());
        // A panic may leave the queues inconsistent: all waiters are dropped after it.
        if changed && !std::thread::panicking() {
            arm_timer(self.node);
        }
    }
}

/// The clock, and the size of the table of hot locks.
pub(crate) fn meter<P: Server>(port: &P) -> Meter {
    Meter { clock: port.clock(), most: port.settings().hot_locks }
}

fn arm_timer<P: Server>(node: Node<'_, P>) {
    let (now, clock) = (node.port.now(), node.port.clock());
    match node.locks(|locks| locks.rearm(now, clock)) {
        Rearm::Keep => {}
        Rearm::Stop => node.port.set_timer(None),
        Rearm::In(ms) => node.port.set_timer(Some(ms)),
    }
}

/// Sets the timer again, after its clock may have stepped.
pub fn restart_timer<P: Server>(node: Node<'_, P>) {
    let _entry = entry(node);
    node.locks(|locks| locks.agenda.timer_fired_or_lost());
    node.port.set_timer(None);
}
