//! RLOCK.HOT: the locks that cost most waiting.

use crate::locks::{HotLock, LockName};
use crate::node::Node;
use crate::port::{InCommand, Server};
use crate::timing::meter;

/// RLOCK.HOT: at most `limit` locks, those with the most waiting time first.
pub fn hottest<P: InCommand>(node: Node<'_, P>, limit: usize) -> Vec<HotLock> {
    let meter = meter(node.port);
    let mut hot = node.locks(|locks| locks.rank_hot_locks(meter));
    hot.truncate(limit);
    hot
}

/// RLOCK.HOT RESET.
pub fn reset<P: InCommand>(node: Node<'_, P>) {
    let clock = node.port.clock();
    node.locks(|locks| locks.hot.reset(clock));
}

/// ACQUIRE was denied, and its caller does not wait.
#[cold]
pub(crate) fn note_denied<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let most = node.port.settings().hot_locks;
    node.locks(|locks| locks.hot.note_denied(lock, most));
}
