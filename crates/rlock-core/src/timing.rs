//! When the timer fires next, and how much the work of one event-loop cycle may be.

use crate::core::Core;
use crate::locks::{Due, LockName, Locks, Meter, Rearm};
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
    pub(crate) fn of<P: Server>(core: Core<'_, P>) -> Self {
        Self { before: core.locks(|locks| locks.served()), most: core.port.settings().at_once.served }
    }

    pub(crate) fn is_used_up<P: Server>(&self, core: Core<'_, P>) -> bool {
        core.locks(|locks| locks.served_since(self.before)) >= self.most
    }
}

/// A lock with waiters is due to be served now.
pub(crate) fn check_soon<P: Server>(core: Core<'_, P>, lock: LockName<'_>) {
    let now = core.port.now();
    core.locks(|locks| locks.check_at(lock, Some(Due::At(now))));
}

/// An entry point of the rules is under way. When the outermost one returns, the timer is set to fire at the next work, if
/// that may have changed. There is one timer, and none while there is no work.
#[must_use]
pub(crate) struct Entry<'a, P: Server> {
    core: Core<'a, P>,
    is_outermost: bool,
}

/// An entry point of the rules begins; keep the result until its end.
pub(crate) fn entry<P: Server>(core: Core<'_, P>) -> Entry<'_, P> {
    let meter = meter(core.port);
    Entry { core, is_outermost: core.locks(|locks| locks.enter(meter)) }
}

impl<P: Server> Drop for Entry<'_, P> {
    fn drop(&mut self) {
        let changed = self.is_outermost && self.core.locks(Locks::exit);
        // A panic may leave the queues inconsistent: all waiters are dropped after it.
        if changed && !std::thread::panicking() {
            arm_timer(self.core);
        }
    }
}

/// The clock, and the size of the table of hot locks.
pub(crate) fn meter<P: Server>(port: &P) -> Meter {
    Meter { clock: port.clock(), most: port.settings().hot_locks }
}

fn arm_timer<P: Server>(core: Core<'_, P>) {
    let (now, clock) = (core.port.now(), core.port.clock());
    match core.locks(|locks| locks.rearm(now, clock)) {
        Rearm::Keep => {}
        Rearm::Stop => core.port.set_timer(None),
        Rearm::In(ms) => core.port.set_timer(Some(ms)),
    }
}

/// Sets the timer again, after its clock may have stepped.
pub fn restart_timer<P: Server>(core: Core<'_, P>) {
    let _entry = entry(core);
    core.locks(Locks::timer_fired_or_lost);
    core.port.set_timer(None);
}
