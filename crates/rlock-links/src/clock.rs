//! The clock of links: on Linux one that runs on while the machine is suspended.

use std::time::Duration;

/// A moment, as the time since a start that is the same for the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// This instant plus `duration`.
    #[must_use]
    pub fn after(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(duration))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment in nanoseconds.
    #[must_use]
    pub fn nanos(self) -> i64 {
        i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX)
    }

    /// The instant of a number that [`Instant::nanos`] returned; a negative number is the start.
    #[must_use]
    pub fn of(nanos: i64) -> Instant {
        Instant(Duration::from_nanos(u64::try_from(nanos).unwrap_or_default()))
    }
}

/// A clock: the source of instants.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The operating system's clock.
    System,
    /// Tokio's clock, which a test can make virtual.
    #[cfg(feature = "virtual-time")]
    Tokio(tokio::time::Instant),
}

impl Clock {
    /// The present instant.
    pub fn now(self) -> Instant {
        match self {
            Self::System => Instant(since_boot()),
            #[cfg(feature = "virtual-time")]
            Self::Tokio(start) => Instant(start.elapsed()),
        }
    }

    /// Runs `work` until `moment` at most; without a limit if there is no moment. Timers may stand still while the machine is
    /// suspended.
    pub async fn until<T>(self, moment: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
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
    fn the_systems_clock_advances() {
        let before = Clock::System.now();
        std::thread::sleep(Duration::from_millis(5));
        assert!(Clock::System.now().since(before) >= Duration::from_millis(5));
    }
}
