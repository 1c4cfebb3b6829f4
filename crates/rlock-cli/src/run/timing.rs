//! When what has to happen, by the lease.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::Error;

/// Longest grace that is chosen by itself.
const USUAL_GRACE: Duration = Duration::from_secs(10);

/// The longest sleep: timers stand still in a suspended machine, the lease does not.
const TICK: Duration = Duration::from_millis(500);

/// The times of one run. The client crate sees to the renewals, and tells until when the lock is ours.
///
/// ```text
/// sent          renewal      last word to the command   KILL  ours until    lease ends
///  |---- lease / 3 ----|-- retries --|------ grace ------|-margin-|--- 1 % + 2 ms ---|
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) lease: Duration,
    pub(super) grace: Duration,
}

impl Timing {
    /// Takes the lease, and the grace if one was asked for.
    pub(super) fn new(lease: Duration, grace: Option<Duration>) -> Result<Timing, Error> {
        let longest = lease / 2;
        match grace {
            Some(grace) if grace > longest => Err(Error::Usage(
                "the grace is longer than half of the lease".to_string(),
                "lengthen --lease or shorten --grace: rlock must notice a missed renewal before the grace begins",
            )),
            Some(grace) => Ok(Timing { lease, grace }),
            None => Ok(Timing { lease, grace: (lease / 3).min(USUAL_GRACE) }),
        }
    }

    /// How long the server may take to answer before it is tried again. The client crate renews every third of
    /// the lease: there has to be time for a second try before the command has to end.
    pub(super) fn attempt(&self) -> Duration {
        (self.lease / 12).clamp(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// What is left of a lease that should have been renewed, when that is worth a word.
    pub(super) fn overdue(&self) -> Duration {
        self.lease / 12 * 7
    }

    /// How old what we know of the lock may be.
    pub(super) fn tick(&self) -> Duration {
        (self.lease / 20).min(TICK)
    }

    /// When the command has to be told to end, at the latest.
    pub(super) fn end_at(&self, until: Moment) -> Moment {
        self.kill_at(until).before(self.grace)
    }

    /// When whatever is left of the command has to be killed, at the latest.
    pub(super) fn kill_at(&self, until: Moment) -> Moment {
        until.before(self.margin())
    }

    /// What a busy machine may need to deliver a KILL.
    fn margin(&self) -> Duration {
        (self.lease / 20).min(Duration::from_millis(500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_time_within_the_lease() {
        for seconds in [1, 2, 5, 30, 3_600] {
            let lease = Duration::from_secs(seconds);
            for grace in [None, Some(Duration::ZERO), Some(lease / 2)] {
                let timing = Timing::new(lease, grace).unwrap();
                let sent = Moment::now();
                let until = sent.after(lease).before(lease / 100 + Duration::from_millis(2));
                assert!(timing.kill_at(until) < until);
                assert!(timing.end_at(until) <= timing.kill_at(until));
                // At least one renewal fails and is tried again before the command has to end.
                let second = lease / 3 + timing.attempt() + lease / 60;
                assert!(sent.after(second) < timing.end_at(until), "{lease:?} {grace:?}");
                assert!(sent.after(second) < until.before(timing.overdue()).after(lease / 4));
            }
        }
        assert!(Timing::new(Duration::from_secs(2), Some(Duration::from_millis(1_001))).is_err());
    }
}
