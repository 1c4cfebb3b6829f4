//! A hook for the user's metrics.

use std::time::Duration;

use crate::error::Lost;

/// Receives what happens to locks; all methods do nothing unless implemented.
///
/// The client calls them while it returns or ends a lock, some of them on the task that renews all locks: they must
/// be quick and must not block. A panic in one of them is caught. `lock` is the lock's name.
pub trait Metrics: Send + Sync + 'static {
    /// A lock was acquired, after this wait.
    fn acquired(&self, lock: &[u8], waited: Duration) {
        let _ = (lock, waited);
    }

    /// The last guard of a lock was released, this long after the lock was acquired.
    fn released(&self, lock: &[u8], held: Duration) {
        let _ = (lock, held);
    }

    /// A lock was lost, this long after it was acquired.
    fn lost(&self, lock: &[u8], held: Duration, why: Lost) {
        let _ = (lock, held, why);
    }
}
