//! The properties that hold once all due work is done.

use super::super::hash::Hash;
use super::super::op::{Ground, LOCKS, Lock, Op};
use super::super::run::RETRY;
use super::super::values::Value;
use super::{Before, Claim, Follow};

impl Follow {
    /// After a release has left a lock free, Redisson waiters must be notified, or a native must acquire it.
    pub(super) fn note_messages(&mut self, op: Option<Op>, before: &Before) {
        for lock in (0..LOCKS.len()).map(Lock) {
            let free = self.real.value(lock) == Value::Nothing;
            let released = matches!(op, Some(Op::Release { .. }))
                && !matches!(before.stands[lock.0].value, Value::Nothing | Value::Permits(..));
            let notified = self.real.unlock_messages(lock) > 0 || self.real.has_called(lock);
            self.ties.notified(lock, notified);
            self.unnotified[lock.0] = (self.unnotified[lock.0] || released) && free && !notified;
        }
        self.real.take_unlock_messages();
        self.real.take_called();
        self.real.take_unconfirmed();
    }

    /// A hold that ends within its grace period needs no write, so its tie may have ended. If the clock is set back later, the
    /// hold lasts longer than the grace period.
    fn forget_short_ties(&mut self) {
        let latest = |grace: i64| self.now().saturating_add(grace);
        let is_short =
            |(claim, grace): &(Claim, i64)| self.ends(*claim).is_some_and(|ends| ends <= latest(*grace));
        let short: Vec<_> =
            self.ties.ending().into_iter().map(|(claim, tie)| (claim, tie.grace)).filter(is_short).collect();
        short.iter().for_each(|(claim, _)| self.ties.forget(claim));
    }

    /// Checks a server that has done all due work.
    pub(super) fn is_quiet(&mut self, story: &str) {
        if matches!(self.ground, Ground::Paused | Ground::Refused) || !self.primary {
            return self.forget_short_ties();
        }
        self.sessions_have_ended(story);
        let (clock, now) = (self.clock(), self.now());
        for lock in (0..LOCKS.len()).map(Lock) {
            let queue = self.real.queue(lock);
            let late = queue.iter().find(|waiter| waiter.until.is_some_and(|until| until <= clock));
            assert!(late.is_none(), "{story}: {late:?} still waits");
            let value = self.real.value(lock);
            let unnotified = (self.unnotified[lock.0] || self.ties.is_unnotified(lock))
                && queue.is_empty()
                && value == Value::Nothing;
            assert!(!unnotified, "{story}: {lock:?} is free, and Redisson waiters were not notified");
            let within = match value {
                _ if queue.is_empty() => continue,
                Value::Nothing => RETRY + self.options.window.max(self.options.fair_turn.unsigned_abs()),
                Value::Held { ends: Some(at), .. } | Value::ReadWrite(Hash { ends: Some(at), .. }) => {
                    u64::try_from(at + 1 - now).unwrap_or(0) + RETRY
                }
                Value::Permits(..) => match self.next_permit(lock) {
                    Some(at) => u64::try_from(at - now).unwrap_or(0) + RETRY,
                    None => continue,
                },
                Value::Held { .. } | Value::ReadWrite(_) | Value::Other => continue,
            };
            let latest = clock + within.min(60_000);
            let timer = self.real.timer();
            assert!(
                timer.is_some_and(|at| at <= latest),
                "{story}: {value:?}, {queue:?}, timer at {timer:?}"
            );
        }
    }
}
