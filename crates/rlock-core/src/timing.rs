//! When the timer fires next, and how much the work of one event-loop cycle may be.

use crate::locks::{LockName, Rearm};
use crate::port::Server;

#[derive(PartialEq, Eq)]
pub(crate) enum Outcome {
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
    pub(crate) fn of<V: Server>(server: &V) -> Self {
        Self { before: server.locks(|locks| locks.served()), most: server.settings().at_once.served }
    }

    pub(crate) fn is_used_up<V: Server>(&self, server: &V) -> bool {
        server.locks(|locks| locks.served_since(self.before)) >= self.most
    }
}

/// Schedules a check of a lock with waiters now.
pub fn check_soon<V: Server>(server: &V, lock: LockName<'_>) {
    let now = server.now();
    server.locks(|locks| locks.check_at(lock, Some(now)));
    arm_timer(server);
}

/// Starts, moves or stops the timer, so that it fires at the next work. There is one timer, and none while there are no
/// waiters: the server does not unload a module with timers.
pub fn arm_timer<V: Server>(server: &V) {
    arm_timer_after(server, 0);
}

/// The same, but not before so many milliseconds have passed.
pub(crate) fn arm_timer_after<V: Server>(server: &V, least: u64) {
    let (now, clock) = (server.now(), server.clock());
    match server.locks(|locks| locks.rearm(now, clock, least)) {
        Rearm::Keep => {}
        Rearm::Stop => server.set_timer(None),
        Rearm::In(ms) => server.set_timer(Some(ms)),
    }
}

/// Sets the timer again, after its clock may have stepped.
pub fn restart_timer<V: Server>(server: &V) {
    server.locks(|locks| locks.timer_fired_or_lost());
    server.set_timer(None);
    arm_timer(server);
}
