//! Holders exclude each other, or are no more than the permits, and no hold is lost before its lease ends.

use super::{Attempt, History, Line, Mode, Us, Verdict, ms};

/// How long an answer may be on its way.
const ANSWER: Us = ms(200);

/// For how long before a pause the machine must not have stalled.
const LAGGING: Us = ms(300);

/// From when to when an owner believed to hold a lock.
type Belief<'a> = (Us, Us, &'a Attempt);

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    overlaps(history, key, attempts, verdict);
    losses(history, key, attempts, verdict);
    pauses(history, key, attempts, verdict);
}

/// Two owners that exclude each other never believe to hold the lock at the same time, nor do more owners than there
/// are permits.
fn overlaps(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let mut beliefs: Vec<Belief<'_>> = attempts
        .iter()
        .filter_map(|attempt| Some((attempt.begin()?, attempt.end(), *attempt)))
        .filter(|(begin, end, _)| begin < end)
        .collect();
    beliefs.sort_by_key(|(begin, ..)| *begin);
    let mut current: Vec<Belief<'_>> = Vec::new();
    for belief in beliefs {
        let (begin, _, later) = belief;
        current.retain(|(_, end, _)| *end > begin);
        verdict.compared += current.len();
        let others = current.iter().filter(|(_, _, earlier)| earlier.owner != later.owner);
        let surely = |earlier: &Attempt| {
            !lost_before(history, key, earlier, begin)
                && !lost_on_its_way(history, key, earlier, later, begin)
        };
        if let Mode::Permit(permits) = later.mode {
            let (sure, unsure): (Vec<&Belief<'_>>, Vec<_>) = others.partition(|(_, _, one)| surely(one));
            one_too_many(key, permits as usize, &belief, &sure, unsure.len(), verdict);
        } else {
            for (_, until, earlier) in others.filter(|(_, _, one)| one.mode.excludes(later.mode)) {
                let (one, other) = (&earlier.owner, &later.owner);
                let overlap = until - begin;
                let text = format!("{other} got the lock while {one} had it, for {overlap} µs at least");
                verdict.judge(!surely(earlier), "exclusion", key, begin, text);
            }
        }
        current.push(belief);
    }
}

/// All of these believed at one moment to have a permit: the last to learn of it, others whose permits are certain, and
/// `unsure` more that may have lost theirs.
fn one_too_many(
    key: usize,
    permits: usize,
    (begin, _, later): &Belief<'_>,
    sure: &[&Belief<'_>],
    unsure: usize,
    verdict: &mut Verdict,
) {
    if sure.len() + unsure < permits {
        return;
    }
    if sure.len() < permits {
        return verdict.excuse("exclusion");
    }
    let names: Vec<&str> = sure.iter().map(|(_, _, one)| one.owner.as_str()).collect();
    let text = format!("{} got one of {permits} permits while {} had theirs", later.owner, names.join(", "));
    verdict.violation("exclusion", key, *begin, text);
}

/// Whether its hold may have been lost between the last answer that confirmed it and `at`. A hold that the replica was
/// known to have is not lost if that replica takes over.
fn lost_before(history: &History, key: usize, holder: &Attempt, at: Us) -> bool {
    let confirm = holder.confirmed_before(at);
    let since = confirm.map_or(holder.requested, |confirm| confirm.sent);
    let kept = confirm.is_some_and(|confirm| confirm.on_replica);
    history.harmed(key, since, at, |harm| harm.holds && !(kept && harm.by_replica))
}

/// Whether the owner that learned of its hold later may have held the lock first, and lost it while the answer was on
/// its way.
fn lost_on_its_way(history: &History, key: usize, earlier: &Attempt, later: &Attempt, told: Us) -> bool {
    let since = later.requested.max(told.saturating_sub(ANSWER));
    let until = earlier.begin().unwrap_or(0).min(told);
    history.harmed(key, since, until, |harm| harm.holds)
}

/// No owner learns that it holds nothing while its lease lasts.
fn losses(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    for attempt in attempts {
        let Some(at) = attempt.refuted else { continue };
        let Some(last) = attempt.confirmed_before(at) else { continue };
        verdict.compared += 1;
        if at >= last.sent + last.lease.saturating_sub(super::margin(last.lease)) {
            continue;
        }
        let (owner, since) = (&attempt.owner, (at - last.sent) / 1_000);
        let lease = last.lease / 1_000;
        let text = format!("{owner} held nothing {since} ms after it was given a lease of {lease} ms");
        verdict.judge(lost_before(history, key, attempt, at), "loss", key, at, text);
    }
}

/// No lock is granted while writes are paused: a fail-over under way would lose the grant.
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
            let excused = history.harmed(key, before, attempt.answered, |harm| harm.lags);
            let text = format!("{} was granted the lock while writes were paused", attempt.owner);
            verdict.judge(excused, "pause", key, attempt.answered, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Harm;
    use super::super::tests::{LOSS, confirm, event, holder, is_in_order, violates, with_permit};
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

    #[test]
    fn no_more_owners_than_permits_have_one_at_once() {
        let three = |third| [("a", 0, 1, 100), ("b", 2, 3, 90), ("c", 40, third, 80)];
        let owners = |permits, third| -> Vec<Attempt> {
            let owner = |(name, asked, told, gave_back)| holder(name, asked, told, gave_back);
            three(third).map(owner).map(|one| with_permit(permits, one)).into()
        };
        violates("exclusion", owners(2, 50), vec![]);
        is_in_order(owners(3, 50), vec![]);
        // One of them has released before that, though their times overlap two by two.
        is_in_order(owners(2, 91), vec![]);
        let chain = [("a", 0, 1, 30), ("b", 2, 3, 60), ("c", 4, 31, 90), ("d", 5, 61, 99)];
        let chain = chain.map(|(name, asked, told, gave_back)| holder(name, asked, told, gave_back));
        is_in_order(chain.map(|one| with_permit(2, one)).into(), vec![]);
        // A lease that has ended is a permit that is free.
        let mut ended = owners(2, 50);
        ended[0].confirms[0].lease = ms(30);
        is_in_order(ended, vec![]);
    }

    /// A fault excuses one owner too many where one of the others may have lost its permit by it, and nothing else.
    #[test]
    fn the_amnesty_counts_only_permits_that_the_fault_could_lose() {
        let owners = || -> Vec<Attempt> {
            let three = [("a", 0, 1, 100), ("b", 60, 61, 90), ("c", 66, 70, 80)];
            let owner = |(name, asked, told, gave_back)| holder(name, asked, told, gave_back);
            three.map(owner).map(|one| with_permit(2, one)).into()
        };
        violates("exclusion", owners(), vec![]);
        assert_eq!(is_in_order(owners(), vec![event(30, 31, LOSS)]).excused["exclusion"], 1);
        violates("exclusion", owners(), vec![event(71, 75, LOSS)]);
        let mut renewed = owners();
        renewed[0].confirms.push(confirm(40));
        violates("exclusion", renewed, vec![event(30, 31, LOSS)]);
        // Two too many, and one that may have lost its own.
        let mut four = owners();
        four.push(with_permit(2, holder("d", 62, 63, 90)));
        let found = super::super::tests::judged(four, vec![event(30, 31, LOSS)]).violations;
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
