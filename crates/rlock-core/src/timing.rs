//! When the timer fires next, and how much the work of one event-loop cycle may be.

use crate::bugs::{Bug, planted};
use crate::locks::{Due, LockName, Locks, Rearm};
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

/// A lock with waiters is due to be served now.
pub(crate) fn check_soon<V: Server>(server: &V, lock: LockName<'_>) {
    let now = server.now();
    server.locks(|locks| locks.check_at(lock, Some(Due::At(now))));
}

/// An entry point of the rules is under way. When the outermost one returns, the timer is set to fire at the next work, if
/// that may have changed. There is one timer, and none while there is no work: the server does not unload a module with
/// timers.
#[must_use]
pub(crate) struct Entry<'a, V: Server> {
    server: &'a V,
    is_outermost: bool,
}

/// An entry point of the rules begins; keep the result until its end.
pub(crate) fn entry<V: Server>(server: &V) -> Entry<'_, V> {
    Entry { server, is_outermost: server.locks(Locks::enter) }
}

impl<V: Server> Drop for Entry<'_, V> {
    fn drop(&mut self) {
        let changed = self.is_outermost && self.server.locks(Locks::exit);
        // After a panic the queues are in doubt: all waiters are sent away then.
        if changed && !std::thread::panicking() && !planted(Bug::ForgetTimer) {
            arm_timer(self.server);
        }
    }
}

fn arm_timer<V: Server>(server: &V) {
    let (now, clock) = (server.now(), server.clock());
    match server.locks(|locks| locks.rearm(now, clock)) {
        Rearm::Keep => {}
        Rearm::Stop => server.set_timer(None),
        Rearm::In(ms) => server.set_timer(Some(ms)),
    }
}

/// Sets the timer again, after its clock may have stepped.
pub fn restart_timer<V: Server>(server: &V) {
    let _entry = entry(server);
    server.locks(Locks::timer_fired_or_lost);
    server.set_timer(None);
}
