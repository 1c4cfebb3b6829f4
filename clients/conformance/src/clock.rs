//! The boot clock, by which runner and drivers stamp.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// Nanoseconds since the system was started, suspended time included.
pub fn boot_ns() -> i64 {
    // Every Linux since 2.6.39 has this clock.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// How long this machine kept a thread from running that wanted to: measured while it lives.
pub(crate) struct Stalls {
    worst: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
}

const NAP: Duration = Duration::from_millis(5);

impl Stalls {
    pub(crate) fn watch() -> Stalls {
        let (worst, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let (its_worst, its_stop) = (worst.clone(), stop.clone());
        std::thread::spawn(move || {
            while !its_stop.load(Ordering::Relaxed) {
                let before = boot_ns();
                std::thread::sleep(NAP);
                let late = (boot_ns() - before) / 1_000_000 - 5;
                its_worst.fetch_max(late, Ordering::Relaxed);
            }
        });
        Stalls { worst, stop }
    }

    /// The longest stall so far, in ms.
    pub(crate) fn worst_ms(&self) -> i64 {
        self.worst.load(Ordering::Relaxed)
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
