//! First come, first served: no owner gets the lock before a waiter that was in the queue when the owner asked.

use super::{Attempt, History, Line, Mode, Outcome, Us, Verdict, ms};

/// How long a message may be on its way.
const ANSWER: Us = ms(200);

/// Stalls that add up to this time may let a waiter's turn pass.
const STALLED: Us = ms(150);

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    // Waiters that were in the queue until they got the lock.
    let served =
        attempts.iter().filter(|attempt| attempt.queued.is_some() && attempt.outcome == Outcome::Held);
    let mut asked: Vec<&Attempt> = attempts.iter().filter(|one| one.begin().is_some()).copied().collect();
    asked.sort_by_key(|attempt| attempt.requested);
    for first in served {
        let (Some(queued), Some(confirm)) = (first.queued, first.confirms.first()) else { continue };
        // A permit that was granted keeps no later waiter waiting, and its message takes a moment.
        let waited_until = match first.mode {
            Mode::Permit(_) => first.answered.saturating_sub(ANSWER),
            Mode::Alone | Mode::Shared => confirm.sent,
        };
        let after = asked.partition_point(|attempt| attempt.requested <= queued);
        let before = asked[after..].iter().take_while(|attempt| attempt.requested < waited_until);
        for second in before {
            let Some(begin) = second.begin().filter(|begin| *begin < waited_until) else { continue };
            if !second.mode.stays_behind(first.mode) || !stands_behind(second.line, first.line) {
                continue;
            }
            verdict.compared += 1;
            let (one, other) = (&first.owner, &second.owner);
            let text = format!(
                "{other} ({}) got the lock before {one} ({}), which came first",
                second.kind, first.kind
            );
            verdict.judge(excused(history, key, first, queued, begin), "order", key, begin, text);
        }
    }
}

/// Whether waiters of the second line keep their place behind those of the first.
fn stands_behind(second: Line, first: Line) -> bool {
    match (second, first) {
        (Line::Native | Line::Client, Line::Native)
        | (Line::NativeFair, Line::NativeFair | Line::ForeignFair) => true,
        // Redisson's scripts may drop a native waiter for a moment; its other clients use no queue.
        _ => false,
    }
}

/// Whether the first waiter may have lost its place, or its turn.
fn excused(history: &History, key: usize, first: &Attempt, from: Us, to: Us) -> bool {
    if history.harmed(key, from, to, |harm| harm.places || harm.holds) {
        return true;
    }
    // Its message may have been on its way for longer.
    if matches!(first.mode, Mode::Permit(_)) && history.harmed(key, from, first.answered, |harm| harm.stalls)
    {
        return true;
    }
    // Redisson's deadlines are by the clients' clocks: where the server has another time, its own scripts drop its waiters.
    if first.line == Line::ForeignFair && history.clock_is_off(from, to) {
        return true;
    }
    first.line == Line::ForeignFair && history.stalled(key, from, to) > STALLED
}
