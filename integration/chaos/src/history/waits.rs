//! No missed wake-ups: no waiter sleeps while the lock is free.

use super::stretches::{Stretches, taken};
use super::{Attempt, History, Line, Mode, Outcome, Us, Verdict, ms};

/// For how long a lock may be free while a client waits for it: the longest that the machine and the network may take,
/// apart from observed stalls.
const FREE: Us = ms(600);

/// How long an answer may be on its way: the lock may have been handed over this long before it arrived.
const ANSWER: Us = ms(100);

/// For how long a server may not have checked the lock of an owner that died.
const UNSEEN: Us = ms(2_000);

/// Owners that died this long before a wait have been passed.
const LONG_AGO: Us = ms(5_000);

/// A server that stands still for this long may lose the connections of clients that monitor them.
const BREAKS: Us = ms(1_000);

/// What keeps others from having the lock.
struct Taken {
    /// The lock may be held, or each of its permits.
    held: Stretches,
    /// A writer may hold the lock, or wait for it.
    written: Stretches,
    /// No client can be served.
    stalled: Stretches,
}

impl Taken {
    fn of(history: &History, key: usize, attempts: &[&Attempt]) -> Taken {
        let (held, mut written) = (taken(attempts, |attempt| history.possible_hold(attempt)), Vec::new());
        for attempt in attempts.iter().filter(|attempt| attempt.mode == Mode::Alone) {
            written.extend(history.possible_hold(attempt));
            written.extend(attempt.limit.map(|_| (attempt.requested, attempt.answered)));
        }
        Taken { held: Stretches::of(held), written: Stretches::of(written), stalled: history.stalls(key) }
    }
}

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let taken = Taken::of(history, key, attempts);
    // Dead waiters in Redisson's list are passed one after the other, and so are native places there that outlast a
    // restart.
    let left = attempts.iter().filter(|attempt| history.is_left_in_list(attempt));
    let dead: Vec<Us> = left.map(|attempt| attempt.answered).collect();
    let shared = attempts.iter().any(|attempt| attempt.mode == Mode::Shared);
    for attempt in attempts {
        if attempt.limit.is_none() {
            continue;
        }
        verdict.compared += 1;
        let passed = dead
            .iter()
            .filter(|died| **died < attempt.answered && **died + LONG_AGO > attempt.requested)
            .count() as Us;
        let fair = matches!(attempt.line, Line::ForeignFair | Line::NativeFair | Line::Client);
        let allowed = FREE + if fair { passed * history.fair_turn } else { 0 };
        let told_wrong = match attempt.line {
            Line::ForeignFair => true,
            // Redisson's releases shorten the lease of a lock that others read, and wake no waiter.
            Line::Foreign => shared,
            _ => false,
        };
        let Some((free, since)) = slept(attempt, &taken).filter(|(free, _)| *free > FREE) else { continue };
        let excuse = if free <= allowed {
            Some("wake-up behind dead waiters")
        } else if history.finds_out_late(attempt) {
            Some("wake-up noticed late")
        } else {
            let lapsed = told_wrong && history.lapses(attempts, attempt);
            lapsed.then_some("wake-up at an outdated lease end")
        };
        if let Some(excuse) = excuse {
            verdict.excuse(excuse);
            continue;
        }
        let (owner, kind, free) = (&attempt.owner, attempt.kind, free / 1_000);
        let text = format!("{owner} ({kind}) waited while the lock was free for {free} ms");
        verdict.violation("wake-up", key, since, text);
    }
}

impl History {
    /// Whether a holder died while this owner waited, or a waiter in Redisson's list died before it, or either is true
    /// of a waiter before it there. No message wakes Redisson waiters when a lease ends, nor are dead ones passed,
    /// unless natives wait too; and the wait in a reply may be too long.
    fn lapses(&self, attempts: &[&Attempt], waiter: &Attempt) -> bool {
        // The key of a lock that others read may last as long as the longest lease that there was.
        let longest = |other: &Attempt| other.confirms.iter().map(|one| one.replied + one.lease).max();
        let lasts = |other: &Attempt| other.mode == Mode::Shared && longest(other) > Some(waiter.requested);
        let held = |other: &Attempt| {
            lasts(other) || self.possible_hold(other).is_some_and(|(_, gone)| gone > waiter.requested)
        };
        let sleeps_before = |other: &Attempt| {
            let both = [waiter, other].iter().all(|one| one.line == Line::ForeignFair);
            let there = other.requested < waiter.requested && other.answered > waiter.requested;
            both && there && self.lapses(attempts, other)
        };
        let mut before = attempts.iter().filter(|other| other.answered < waiter.answered);
        before.any(|other| self.is_left_in_list(other) || (other.dead && held(other)) || sleeps_before(other))
    }

    /// Whether its place in Redisson's list is there, though it has gone: it died, or the server that knew it was
    /// replaced.
    fn is_left_in_list(&self, attempt: &Attempt) -> bool {
        match attempt.line {
            Line::ForeignFair => attempt.dead && attempt.outcome == Outcome::Denied,
            Line::NativeFair | Line::Client => {
                let without =
                    matches!(attempt.outcome, Outcome::Denied | Outcome::Refused | Outcome::Unknown);
                let (from, to) = (attempt.requested, attempt.answered + ANSWER);
                without && self.harmed(attempt.key, from, to, |harm| harm.places)
            }
            Line::Native | Line::Foreign => false,
        }
    }

    /// Whether it may sleep for a while after a fault, since no message can wake it.
    pub(super) fn finds_out_late(&self, attempt: &Attempt) -> bool {
        let before = attempt.requested.saturating_sub(ms(2_000));
        match attempt.line {
            // It notices that a connection broke, and tries again after pauses that grow. That answers took long for a
            // moment breaks none.
            Line::Client => self.events_of(attempt.key).any(|event| {
                let near = event.end > before && event.begin < attempt.answered;
                let stalls = event.harm.stalls && (!event.harm.lags || event.end - event.begin > BREAKS);
                near && (event.harm.places || stalls)
            }),
            // A deletion of the lock wakes no Redisson waiter, unless natives wait too.
            Line::Foreign | Line::ForeignFair => {
                // Nor does a sleeping waiter before it in the list.
                let before = if attempt.line == Line::ForeignFair { ms(8_000) } else { 0 };
                let since = attempt.requested.saturating_sub(before);
                self.harmed(attempt.key, since, attempt.answered, |harm| harm.holds || harm.prolongs > 0)
            }
            Line::Native | Line::NativeFair => false,
        }
    }

    /// From when to when the server may have had the lock held by this owner, whatever clocks did.
    pub(super) fn possible_hold(&self, attempt: &Attempt) -> Option<(Us, Us)> {
        if matches!(attempt.outcome, Outcome::Denied | Outcome::Refused | Outcome::TimedOut) {
            return None;
        }
        let since = attempt.confirms.last().map_or(attempt.requested, |confirm| confirm.sent);
        let mut gone = attempt.gone;
        for event in self.events_of(attempt.key).filter(|event| event.end > since) {
            // Its release may be forgotten, so that its lease must end.
            let forgotten = event.harm.forgets > 0 && event.begin < attempt.gone + event.harm.forgets;
            // Ties are in memory only, as places are.
            let untied = attempt.tied && event.harm.places && event.begin < attempt.gone;
            if forgotten || untied {
                let ends = attempt.confirms.iter().map(|confirm| confirm.replied + confirm.lease).max();
                gone = gone.max(ends.unwrap_or(0));
            }
            // A lease that has ended lasts on where the server has not checked it yet, or was not allowed to.
            let unseen = if attempt.dead { UNSEEN } else { ANSWER };
            if event.begin < gone.saturating_add(unseen) {
                gone = gone.saturating_add(event.harm.prolongs);
            }
        }
        Some((attempt.requested.max(attempt.answered.saturating_sub(ANSWER)), gone))
    }
}

/// For how long at most the lock was free while this owner waited for it, and since when.
fn slept(attempt: &Attempt, taken: &Taken) -> Option<(Us, Us)> {
    let by = if attempt.mode == Mode::Shared { &taken.written } else { &taken.held };
    let gaps = by.gaps(attempt.requested, attempt.answered).into_iter();
    gaps.map(|(from, to)| (taken.stalled.uncovered(from, to), from)).max()
}
