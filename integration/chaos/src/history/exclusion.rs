//! Who believes to hold a lock excludes the others, and does not lose it before its lease ends.

use super::{Attempt, History, Line, Us, Verdict, ms};

/// How long an answer may be on its way.
const ANSWER: Us = ms(200);

/// For how long before a pause the machine must not have stalled.
const LAGGING: Us = ms(300);

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    overlaps(history, key, attempts, verdict);
    losses(history, key, attempts, verdict);
    pauses(history, key, attempts, verdict);
}

/// Two that exclude each other never believe at the same time that they hold the lock.
fn overlaps(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let mut beliefs: Vec<(Us, Us, &Attempt)> = attempts
        .iter()
        .filter_map(|attempt| Some((attempt.begin()?, attempt.end(), *attempt)))
        .filter(|(begin, end, _)| begin < end)
        .collect();
    beliefs.sort_by_key(|(begin, ..)| *begin);
    let mut current: Vec<(Us, Us, &Attempt)> = Vec::new();
    for belief in beliefs {
        let (begin, _, later) = belief;
        current.retain(|(_, end, _)| *end > begin);
        for (_, until, earlier) in &current {
            verdict.compared += 1;
            if !earlier.mode.excludes(later.mode) || earlier.owner == later.owner {
                continue;
            }
            if lost_before(history, key, earlier, begin)
                || lost_on_its_way(history, key, earlier, later, begin)
            {
                verdict.excuse("exclusion");
                continue;
            }
            let (one, other) = (&earlier.owner, &later.owner);
            let overlap = until - begin;
            verdict.violation(
                "exclusion",
                key,
                begin,
                format!("{other} got the lock while {one} had it, for {overlap} µs at least"),
            );
        }
        current.push(belief);
    }
}

/// Whether its hold may have been lost between the last answer that confirmed it and `at`. One that the replica was known
/// to have is not lost where that takes over.
fn lost_before(history: &History, key: usize, holder: &Attempt, at: Us) -> bool {
    let confirm = holder.confirmed_before(at);
    let since = confirm.map_or(holder.requested, |confirm| confirm.sent);
    let kept = confirm.is_some_and(|confirm| confirm.on_replica);
    history.harmed(key, since, at, |harm| harm.holds && !(kept && harm.by_replica))
}

/// Whether the one who was told later may have had the lock before the other, and lost it while the answer that told it
/// so was on its way.
fn lost_on_its_way(history: &History, key: usize, earlier: &Attempt, later: &Attempt, told: Us) -> bool {
    let since = later.requested.max(told.saturating_sub(ANSWER));
    let until = earlier.begin().unwrap_or(0).min(told);
    history.harmed(key, since, until, |harm| harm.holds)
}

/// Nobody is told to hold nothing while its lease lasts.
fn losses(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    for attempt in attempts {
        let Some(at) = attempt.refuted else { continue };
        let Some(last) = attempt.confirmed_before(at) else { continue };
        verdict.compared += 1;
        if at >= last.sent + last.lease.saturating_sub(super::margin(last.lease)) {
            continue;
        }
        if lost_before(history, key, attempt, at) {
            verdict.excuse("loss");
            continue;
        }
        let (owner, since) = (&attempt.owner, (at - last.sent) / 1_000);
        let lease = last.lease / 1_000;
        verdict.violation(
            "loss",
            key,
            at,
            format!("{owner} held nothing {since} ms after it was given a lease of {lease} ms"),
        );
    }
}

/// Nobody is granted the lock while writes are paused: a fail-over under way would lose it.
fn pauses(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    for pause in history.events_of(key).filter(|event| event.harm.pauses) {
        let inside = |at: Us| at > pause.begin + ANSWER && at < pause.end;
        for attempt in attempts {
            let native = matches!(attempt.line, Line::Native | Line::NativeFair);
            let granted = attempt.begin().is_some() && inside(attempt.answered);
            // Where answers take long it may have been granted before.
            let before = pause.begin.saturating_sub(LAGGING);
            if !(native && granted) {
                continue;
            }
            if history.harmed(key, before, attempt.answered, |harm| harm.lags) {
                verdict.excuse("pause");
            } else {
                let text = format!("{} was granted the lock while writes were paused", attempt.owner);
                verdict.violation("pause", key, attempt.answered, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Harm;
    use super::super::tests::{LOSS, confirm, event, holder, is_in_order, violates};
    use super::*;

    /// WAIT said that the replica has it, and that is the one that takes over.
    #[test]
    fn what_the_replica_was_known_to_have_is_not_lost_by_a_fail_over() {
        let holders = |on_replica| {
            let mut holders = vec![holder("a", 0, 1, 200), holder("b", 50, 100, 150)];
            holders[0].confirms[0].on_replica = on_replica;
            holders
        };
        let fail_over = Harm { by_replica: true, ..LOSS };
        violates("exclusion", holders(true), vec![event(90, 95, fail_over)]);
        is_in_order(holders(false), vec![event(90, 95, fail_over)]);
        // It may have been deleted, or have been renewed since.
        is_in_order(holders(true), vec![event(90, 95, LOSS)]);
        let mut renewed = holders(true);
        renewed[0].confirms.push(confirm(80));
        is_in_order(renewed, vec![event(90, 95, fail_over)]);
        let lost = || Attempt { released: None, refuted: Some(ms(500)), ..holders(true).remove(0) };
        violates("loss", vec![lost()], vec![event(90, 95, fail_over)]);
    }
}
