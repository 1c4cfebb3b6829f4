//! A wait lasts as long as it was asked for: neither much longer, nor less.

use super::stretches::Stretches;
use super::{Attempt, History, Line, Outcome, Us, Verdict, ms};

/// How much longer than asked for a wait may last.
const LATE: Us = ms(600);

/// The time by which a wait may end sooner: the server counts in whole milliseconds, from a moment after the request was sent.
const EARLY: Us = ms(3);

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let stalled = history.stalls(key);
    for attempt in attempts {
        let Some(limit) = attempt.limit else { continue };
        overdue(history, key, attempt, limit, &stalled, verdict);
        early(history, key, attempt, limit, verdict);
    }
}

/// A wait ends at its limit, or when it is cancelled.
fn overdue(
    history: &History,
    key: usize,
    attempt: &Attempt,
    limit: Us,
    stalled: &Stretches,
    verdict: &mut Verdict,
) {
    let known = history.cancels_of(attempt).find_map(|cancelled| cancelled.known);
    let due = match known {
        Some(at) => at,
        None if limit == Us::MAX => return,
        // A server carries a call out after the pause of writes or the stall in which it arrived.
        None => stalled.end_at(attempt.requested) + limit,
    };
    let late = stalled.uncovered(due, attempt.answered.max(due));
    if late <= LATE {
        return;
    }
    if attempt.line == Line::Client && history.finds_out_late(attempt) {
        return verdict.excuse("wait");
    }
    let (owner, kind, late) = (&attempt.owner, attempt.kind, late / 1_000);
    let end = if known.is_some() { "it was cancelled" } else { "its limit" };
    let text = format!("{owner} ({kind}) waited {late} ms after {end}");
    verdict.violation("wait", key, attempt.answered, text);
}

/// No wait times out early, whatever clocks and servers do. A wait by several calls lasts its full time from the first
/// of them at least.
fn early(history: &History, key: usize, attempt: &Attempt, limit: Us, verdict: &mut Verdict) {
    let told = attempt.told_of_end.or((attempt.outcome == Outcome::TimedOut).then_some(attempt.answered));
    let Some(told) = told else { return };
    verdict.compared += 1;
    let waited = told.saturating_sub(attempt.requested);
    if waited.saturating_add(EARLY) >= limit || history.cancels_of(attempt).next().is_some() {
        return;
    }
    let (owner, kind, waited) = (&attempt.owner, attempt.kind, waited / 1_000);
    let asked = if limit == Us::MAX { "for ever".to_owned() } else { format!("{} ms", limit / 1_000) };
    let text = format!("{owner} ({kind}) timed out after {waited} ms of {asked}");
    verdict.violation("wait", key, told, text);
}

impl History {
    fn cancels_of(&self, attempt: &Attempt) -> impl Iterator<Item = &super::Cancelled> {
        self.cancelled.iter().filter(move |cancelled| cancelled.owner == attempt.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{event, holder, is_in_order, violates, waiter};
    use super::super::{Cancelled, Harm, check};
    use super::*;

    #[test]
    fn a_wait_ends_when_it_was_to_end() {
        let overdue = || vec![holder("a", 0, 1, 5_000), waiter("b", 10, 100, 4_000)];
        violates("wait", overdue(), vec![]);
        is_in_order(overdue(), vec![event(200, 3_800, Harm::STALLS)]);
    }

    /// Writes were paused when it asked: the wait counts from when the server came to it.
    #[test]
    fn a_wait_begins_when_the_server_comes_to_it() {
        let asked = |told| vec![holder("a", 0, 1, 5_000), waiter("b", 300, 100, told)];
        let stall = |begin| vec![event(begin, 900, Harm::STALLS)];
        is_in_order(asked(1_590), stall(200));
        violates("wait", asked(1_610), stall(200));
        // It had begun before.
        violates("wait", asked(1_590), stall(380));
    }

    #[test]
    fn no_wait_ends_before_it_was_to_end() {
        let told = |limit, at| vec![holder("a", 0, 1, 5_000), waiter("b", 10, limit, at)];
        violates("wait", told(3_000, 20), vec![]);
        violates("wait", told(3_000, 3_006), vec![]);
        is_in_order(told(3_000, 3_007), vec![]);
        is_in_order(told(3_000, 3_008), vec![]);
        // No fault makes it shorter.
        let fault = Harm { holds: true, places: true, ..Harm::STALLS };
        violates("wait", told(3_000, 20), vec![event(0, 30, fault)]);
        // For ever has no end.
        let for_ever = Attempt { limit: Some(Us::MAX), ..waiter("b", 10, 0, 4_000) };
        violates("wait", vec![holder("a", 0, 1, 5_000), for_ever], vec![]);
        // It timed out after it had asked again: the outcome of the repeat is unknown.
        let again = |told| Attempt {
            outcome: Outcome::Unknown,
            told_of_end: Some(ms(told)),
            ..waiter("b", 10, 300, 400)
        };
        violates("wait", vec![holder("a", 0, 1, 5_000), again(200)], vec![]);
        is_in_order(vec![holder("a", 0, 1, 5_000), again(311)], vec![]);
    }

    fn with_a_cancel(answered: u64, known: Option<Us>) -> Vec<&'static str> {
        let attempts = vec![holder("a", 0, 1, 5_000), waiter("b", 10, 4_500, answered)];
        let cancelled = vec![Cancelled { owner: "b".to_owned(), known }];
        let history = History { keys: vec!["lock".into()], attempts, cancelled, ..History::default() };
        check(&history).violations.iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn a_cancelled_waiter_waits_no_longer() {
        assert_eq!(with_a_cancel(4_000, Some(ms(100))), ["wait"]);
        assert!(with_a_cancel(110, Some(ms(100))).is_empty());
        // Whether it was cancelled is unknown.
        assert!(with_a_cancel(110, None).is_empty());
    }
}
