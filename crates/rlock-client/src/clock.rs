//! The client's clock: on Linux one that runs on while the machine is suspended.

use std::time::Duration;

/// How much of a lease the client does not count on: 1 %, for clocks that run at different speeds …
const DRIFT_DIVISOR: u32 = 100;

/// … and 2 ms, for servers that round to milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// A moment, as the time since a start that is the same for the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    /// This instant plus `duration`.
    pub(crate) fn after(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(duration))
    }

    /// The time from `earlier` to this moment; zero where that is later.
    pub(crate) fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Until when a lease lasts that was asked for at this moment, the moment of *sending*.
    ///
    /// The server counts from later on, when it has got the command, so this is never too late.
    pub(crate) fn end_of(self, lease: Duration) -> Instant {
        let margin = (lease / DRIFT_DIVISOR).saturating_add(ROUNDING);
        self.after(lease.saturating_sub(margin))
    }

    /// The lease to ask for at this moment so that it lasts until `end` by this client's clock too.
    pub(crate) fn lease_until(self, end: Instant) -> Duration {
        let left = end.since(self);
        left.saturating_add(left / (DRIFT_DIVISOR - 1)).saturating_add(ROUNDING).saturating_add(ROUNDING)
    }
}

/// Where moments come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The machine's.
    System,
    /// Tokio's, which a test can make virtual.
    #[cfg(test)]
    Tokio(tokio::time::Instant),
}

impl Clock {
    pub(crate) fn now(self) -> Instant {
        match self {
            Self::System => Instant(since_boot()),
            #[cfg(test)]
            Self::Tokio(start) => Instant(start.elapsed()),
        }
    }

    /// Sleeps until `moment` as far as timers can: they may stand still while the machine is suspended.
    pub(crate) async fn sleep_until(self, moment: Instant) {
        tokio::time::sleep(moment.since(self.now())).await;
    }

    /// Runs `work` until `moment` at most; for ever where that is `None`.
    pub(crate) async fn until<T>(self, moment: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
        match moment {
            None => Some(work.await),
            Some(moment) => tokio::time::timeout(moment.since(self.now()), work).await.ok(),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    // Every Linux since 2.6.39 has this clock.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_early_by_one_percent_and_two_milliseconds() {
        let sent = Instant(Duration::from_secs(100));
        let cases = [(30_000, 29_698), (1_000, 988), (100, 97), (2, 0), (1, 0)];
        for (lease, counted) in cases {
            let end = sent.end_of(Duration::from_millis(lease));
            assert_eq!(end.since(sent).as_millis(), counted, "lease {lease}");
        }
    }

    #[test]
    fn a_lease_until_an_instant_lasts_until_that_instant() {
        let sent = Instant(Duration::from_secs(100));
        for left in [0, 1, 7, 100, 988, 29_698, 3_600_000] {
            let end = sent.after(Duration::from_millis(left));
            // The server receives whole milliseconds.
            let asked = Duration::from_millis(sent.lease_until(end).as_millis() as u64);
            assert!(sent.end_of(asked) >= end, "{left}: {asked:?}");
            assert!(asked <= end.since(sent) + Duration::from_millis(4 + left / 98), "{left}: {asked:?}");
        }
    }

    #[test]
    fn the_systems_clock_advances() {
        let before = Clock::System.now();
        std::thread::sleep(Duration::from_millis(5));
        assert!(Clock::System.now().since(before) >= Duration::from_millis(5));
    }
}
