//! When what has to happen, by the lease.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::Error;

/// Longest grace that is chosen by itself.
const USUAL_GRACE: Duration = Duration::from_secs(10);

/// The times of one run.
///
/// ```text
/// sent          renewal      last word to the command   KILL  valid until   lease ends
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
                "the grace takes more than half of the lease".to_string(),
                "lengthen --lease or shorten --grace: a lock that is not renewed must be noticed before it",
            )),
            Some(grace) => Ok(Timing { lease, grace }),
            None => Ok(Timing { lease, grace: (lease / 3).min(USUAL_GRACE) }),
        }
    }

    /// Until when a lease is certain that was asked for at `sent`: less than the whole of it, since two
    /// clocks are never equally fast.
    pub(super) fn valid_until(&self, sent: Moment) -> Moment {
        sent.after(self.lease).before(self.lease / 100 + Duration::from_millis(2))
    }

    /// From one renewal to the next.
    pub(super) fn renewal(&self) -> Duration {
        self.lease / 3
    }

    /// What one attempt to renew may take.
    pub(super) fn attempt(&self) -> Duration {
        self.lease / 12
    }

    /// From a failed attempt to the next.
    pub(super) fn retry(&self) -> Duration {
        (self.lease / 60).clamp(Duration::from_millis(20), Duration::from_secs(1))
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
                let until = timing.valid_until(sent);
                assert!(until < sent.after(lease));
                assert!(timing.kill_at(until) < until);
                assert!(timing.end_at(until) <= timing.kill_at(until));
                // At least one renewal fails and is tried again before the command has to end.
                let second = timing.renewal() + timing.attempt() + timing.retry();
                assert!(sent.after(second) < timing.end_at(until), "{lease:?} {grace:?}");
            }
        }
        assert!(Timing::new(Duration::from_secs(2), Some(Duration::from_millis(1_001))).is_err());
    }
}
