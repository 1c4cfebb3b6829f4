//! RLOCK.HOT: the locks that cost most waiting.

use crate::core::Core;
use crate::locks::{HotLock, LockName};
use crate::port::{InCommand, Server};
use crate::timing::meter;

/// RLOCK.HOT: at most `limit` locks, those with the most waiting time first.
pub fn hottest<P: InCommand>(core: Core<'_, P>, limit: usize) -> Vec<HotLock> {
    let meter = meter(core.port);
    let mut hot = core.locks(|locks| locks.rank_hot_locks(meter));
    hot.truncate(limit);
    hot
}

/// RLOCK.HOT RESET.
pub fn reset<P: InCommand>(core: Core<'_, P>) {
    let clock = core.port.clock();
    core.locks(|locks| locks.reset_hot_locks(clock));
}

/// ACQUIRE was denied, and its caller does not wait.
#[cold]
pub(crate) fn note_denied<P: Server>(core: Core<'_, P>, lock: LockName<'_>) {
    let most = core.port.settings().hot_locks;
    core.locks(|locks| locks.note_denied(lock, most));
}
