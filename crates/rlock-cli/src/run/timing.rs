//! The deadlines of a run, by its lease.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::Error;

/// The longest default grace.
const USUAL_GRACE: Duration = Duration::from_secs(10);

/// A shorter time leaves none to end a command.
const SHORTEST_HOLD: Duration = Duration::from_secs(1);

/// The longest sleep: timers stand still in a suspended machine, the lease does not.
const TICK: Duration = Duration::from_millis(500);

/// How often the lock is renewed in the time of its lease: without contact to the server, the command lasts for the rest of the
/// lease, less its grace.
pub(super) const RENEWALS: u32 = 10;

/// The times of one run. The client crate renews, and knows until when the lock is certainly held.
///
/// ```text
/// sent          renewal      last word to the command   KILL  held until    lease ends
///  |--- lease / 10 ----|-- retries --|------ grace ------|-margin-|--- 1 % + 2 ms ---|
/// ```
///
/// With a session, the lock is certainly held only for the session grace after the last heartbeat of the connection;
/// four heartbeats fit into that time. The shorter of lease and session grace decides when the command must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) lease: Duration,
    /// How soon after the end of the connection the lock is free.
    pub(super) session: Option<Duration>,
    pub(super) grace: Duration,
    /// How long the lock is held at most.
    pub(super) max_hold: Option<Duration>,
}

impl Timing {
    /// Takes the lease, the session's grace, how long the lock may be held, and the grace of the command if one was asked for.
    pub(super) fn new(
        lease: Duration,
        session: Option<Duration>,
        max_hold: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<Timing, Error> {
        if max_hold.is_some_and(|time| time < SHORTEST_HOLD) {
            return Err(Error::Usage(
                "--max-hold below 1s leaves no time to end the command".to_string(),
                "set 1s or more",
            ));
        }
        let span = session.map_or(lease, |session| session.min(lease));
        // A session is proven more often than a lease is renewed, and has as much less to spare.
        let (longest, usual) = if session.is_some() { (span / 4, span / 6) } else { (span / 2, span / 3) };
        match grace {
            Some(grace) if grace > longest && session.is_some() => Err(Error::Usage(
                "the grace is longer than a quarter of the session grace".to_string(),
                "lengthen --session-grace or shorten --grace: rlock must notice a broken connection before the grace begins",
            )),
            Some(grace) if max_hold.is_some_and(|time| grace > time / 2) => Err(Error::Usage(
                "the grace is longer than half of --max-hold".to_string(),
                "lengthen --max-hold or shorten --grace: the command needs time before it must end",
            )),
            Some(grace) if grace > longest => Err(Error::Usage(
                "the grace is longer than half of the lease".to_string(),
                "lengthen --lease or shorten --grace: rlock must notice a missed renewal before the grace begins",
            )),
            Some(grace) => Ok(Timing { lease, session, grace, max_hold }),
            None => {
                let usual = max_hold.map_or(usual, |time| usual.min(time / 3));
                Ok(Timing { lease, session, grace: usual.min(USUAL_GRACE), max_hold })
            }
        }
    }

    /// How long the lock stays held without an answer from the server.
    fn span(&self) -> Duration {
        let span = self.session.map_or(self.lease, |session| session.min(self.lease));
        self.max_hold.map_or(span, |time| time.min(span))
    }

    /// How long the server may take to answer before the next attempt: a second one must be possible before the command must
    /// end.
    pub(super) fn attempt(&self) -> Duration {
        (self.lease / 12).clamp(Duration::from_millis(50), Duration::from_secs(2))
    }

    /// With less than this left of the lease, a note says that the renewal is late.
    pub(super) fn overdue(&self) -> Duration {
        self.span() / 4 * 3
    }

    /// The longest time between two checks of the lock.
    pub(super) fn tick(&self) -> Duration {
        (self.span() / 20).min(TICK)
    }

    /// When the command gets the signal to end, at the latest.
    pub(super) fn end_at(&self, until: Moment) -> Moment {
        self.kill_at(until).before(self.grace)
    }

    /// When the rest of the command is killed, at the latest.
    pub(super) fn kill_at(&self, until: Moment) -> Moment {
        until.before(self.margin())
    }

    /// The time that a busy machine may need to deliver a KILL.
    fn margin(&self) -> Duration {
        (self.span() / 20).min(Duration::from_millis(500))
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
                let timing = Timing::new(lease, None, None, grace).unwrap();
                let sent = Moment::now();
                let until = sent.after(lease).before(lease / 100 + Duration::from_millis(2));
                assert!(timing.kill_at(until) < until);
                assert!(timing.end_at(until) <= timing.kill_at(until));
                // A failed renewal and a second attempt fit in before the command must end.
                let second = lease / RENEWALS + timing.attempt() + lease / 60;
                assert!(sent.after(second) < timing.end_at(until), "{lease:?} {grace:?}");
                assert!(sent.after(second) < until.before(timing.overdue()).after(lease / 4));
            }
        }
        assert!(Timing::new(Duration::from_secs(2), None, None, Some(Duration::from_millis(1_001))).is_err());
    }

    #[test]
    fn with_a_session_everything_has_its_time_within_its_grace() {
        let lease = Duration::from_secs(30);
        for session in [1, 5, 30, 60].map(Duration::from_secs) {
            let span = session.min(lease);
            for grace in [None, Some(Duration::ZERO), Some(span / 4)] {
                let timing = Timing::new(lease, Some(session), None, grace).unwrap();
                let proven = Moment::now();
                let until = proven.after(span).before(span / 100 + Duration::from_millis(2));
                assert!(timing.kill_at(until) < until);
                // A heartbeat after a quarter of the grace may take another third of it.
                assert!(proven.after(span / 4 + span / 3) < timing.end_at(until), "{session:?} {grace:?}");
            }
        }
        let (lease, session) = (Duration::from_secs(30), Duration::from_secs(4));
        assert!(Timing::new(lease, Some(session), None, Some(Duration::from_millis(1_001))).is_err());
    }

    #[test]
    fn a_hold_has_time_before_its_command_must_end() {
        let new = |max_hold, grace| Timing::new(Duration::from_secs(60), None, Some(max_hold), grace);
        for seconds in [1, 5, 20, 60, 600] {
            let max_hold = Duration::from_secs(seconds);
            for grace in [None, Some(Duration::ZERO), Some(USUAL_GRACE.min(max_hold / 2))] {
                let timing = new(max_hold, grace).unwrap();
                let limit = Moment::now().after(max_hold);
                assert!(timing.kill_at(limit) < limit);
                assert!(timing.end_at(limit).left() >= max_hold / 3, "{max_hold:?} {grace:?}");
            }
        }
        assert!(new(Duration::from_millis(999), None).is_err());
        assert!(new(Duration::from_secs(4), Some(Duration::from_millis(2_001))).is_err());
    }
}
