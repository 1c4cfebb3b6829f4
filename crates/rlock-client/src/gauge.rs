//! The count of what is under way.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts what is under way, and tells when nothing is.
#[derive(Default)]
pub(crate) struct Gauge {
    count: AtomicUsize,
    /// Those of them whose acquisitions ended without a guard.
    abandoned: AtomicUsize,
    empty: Notify,
}

impl Gauge {
    pub(crate) fn enter(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.empty.notify_waiters();
        }
    }

    /// The acquisition of one of them has ended without a guard.
    pub(crate) fn abandon(&self) {
        self.abandoned.fetch_add(1, Ordering::SeqCst);
    }

    /// One that was abandoned leaves.
    pub(crate) fn leave_abandoned(&self) {
        self.abandoned.fetch_sub(1, Ordering::SeqCst);
        self.leave();
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Those that are not abandoned.
    pub(crate) fn in_use(&self) -> usize {
        self.count().saturating_sub(self.abandoned.load(Ordering::SeqCst))
    }

    /// Waits until the count is 0.
    pub(crate) async fn emptied(&self) {
        loop {
            let empty = self.empty.notified();
            tokio::pin!(empty);
            empty.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            empty.await;
        }
    }
}
