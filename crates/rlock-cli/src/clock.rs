//! The clock that leases are counted by.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment of a clock that never steps and that continues while the machine is suspended.
///
/// `std::time::Instant` stops in a suspended machine, and the lease does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

impl Moment {
    pub(crate) fn now() -> Moment {
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Moment(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()))
    }

    pub(crate) fn after(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time))
    }

    pub(crate) fn before(self, time: Duration) -> Moment {
        Moment(self.0.saturating_sub(time))
    }

    /// How long it is from `earlier` to this moment; zero if it is not later.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time left until this moment; zero once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.since(Moment::now())
    }
}
