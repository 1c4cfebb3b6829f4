//! A request for a free lock succeeds.

use super::stretches::{Stretches, taken};
use super::{Attempt, History, Line, Outcome, Us, Verdict, ms};

/// For how long before the request the lock must have had no holder and no waiter. A free lock may be left to Redisson
/// clients during the yield window (`rlock.foreign-window-ms`, 20), and waiters that give up take a moment to leave.
const BEFORE: Us = ms(300);

/// A call that waits for nothing is denied only while the lock has a holder or a waiter. Only natives without FAIR are
/// checked: in Redisson's list dead waiters count, too.
pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let denied =
        |one: &&&Attempt| one.limit.is_none() && one.line == Line::Native && one.outcome == Outcome::Denied;
    let mut denied = attempts.iter().filter(denied).peekable();
    if denied.peek().is_none() {
        return;
    }
    let wanted = Stretches::of(taken(attempts, |attempt| history.wanted(attempt)));
    for attempt in denied {
        verdict.compared += 1;
        let (from, to) = (attempt.requested.saturating_sub(BEFORE), attempt.answered);
        if wanted.uncovered(from, to) < to - from {
            continue;
        }
        let excused = history.harmed(key, from, to, |harm| harm.places);
        let (owner, kind, free) = (&attempt.owner, attempt.kind, (to - from) / 1_000);
        let text =
            format!("{owner} ({kind}) was denied a lock that was free, without waiters, for {free} ms");
        verdict.judge(excused, "denial", key, attempt.answered, text);
    }
}

impl History {
    /// From when to when an owner may have held the lock or waited for it. A denied owner that did not wait did
    /// neither.
    fn wanted(&self, attempt: &Attempt) -> Option<(Us, Us)> {
        let held = self.possible_hold(attempt);
        if held.is_none() && attempt.limit.is_none() {
            return None;
        }
        Some((attempt.requested, held.map_or(0, |(_, gone)| gone).max(attempt.answered)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{event, holder, is_in_order, read, violates, waiter, with_permit};
    use super::super::{Harm, Mode};
    use super::*;

    fn denied(requested: u64, told: u64) -> Attempt {
        let outcome = Outcome::Denied;
        Attempt { limit: None, outcome, ..waiter("t", requested, 0, told) }
    }

    #[test]
    fn a_request_for_a_free_lock_succeeds() {
        violates("denial", vec![denied(1_000, 1_001)], vec![]);
        violates("denial", vec![holder("a", 0, 1, 600), denied(1_000, 1_001)], vec![]);
        violates("denial", vec![holder("a", 1_002, 1_003, 1_600), denied(1_000, 1_001)], vec![]);
        // Other denied owners did not keep this one out.
        let other = Attempt { owner: "u".into(), ..denied(990, 1_010) };
        let found = super::super::tests::judged(vec![denied(1_000, 1_001), other], vec![]).violations;
        assert_eq!(found.len(), 2, "{found:?}");
        // To read, too.
        violates("denial", vec![read(denied(1_000, 1_001))], vec![]);
        // One of two permits.
        let permits = |second: u64| {
            let others = [holder("a", 0, 1, 2_000), holder("b", second, second, second + 500)];
            others
                .into_iter()
                .chain([denied(1_000, 1_001)])
                .map(|one| with_permit(2, one))
                .collect::<Vec<_>>()
        };
        violates("denial", permits(100), vec![]);
        is_in_order(permits(300), vec![]);
    }

    #[test]
    fn a_denial_is_right_while_others_hold_the_lock_or_wait() {
        // Another owner held the lock a while ago, holds it, may get it at that moment, or waits.
        for a in [(0, 1, 800), (0, 1, 2_000), (999, 1_003, 1_600)] {
            is_in_order(vec![holder("a", a.0, a.1, a.2), denied(1_000, 1_001)], vec![]);
        }
        let waits = waiter("b", 995, 10, 1_005);
        is_in_order(vec![Attempt { mode: Mode::Shared, ..waits }, denied(1_000, 1_001)], vec![]);
        // A release may have been forgotten, or the lock be on its way to another server.
        let forgets = Harm { forgets: ms(2_000), ..Harm::default() };
        is_in_order(vec![holder("a", 0, 1, 600), denied(1_000, 1_001)], vec![event(650, 660, forgets)]);
        let moves = Harm { places: true, ..Harm::default() };
        is_in_order(vec![denied(1_000, 1_001)], vec![event(900, 1_100, moves)]);
        // An error is not a denial, and dead waiters in Redisson's list deny a FAIR request.
        is_in_order(vec![Attempt { outcome: Outcome::Refused, ..denied(1_000, 1_001) }], vec![]);
        is_in_order(vec![Attempt { line: Line::NativeFair, ..denied(1_000, 1_001) }], vec![]);
    }
}
