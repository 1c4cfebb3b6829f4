//! Fencing tokens grow in the order of the grants, as far as that order is known.

use super::{Attempt, History, Token, Us, Verdict, ms};

/// How much older than the request the clock may be that a server goes by.
const CLOCK_SLACK_MS: i64 = 1_000;

struct Given<'a> {
    token: Token,
    attempt: &'a Attempt,
}

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let mut given: Vec<Given<'_>> = attempts
        .iter()
        .flat_map(|attempt| attempt.tokens.iter().map(|token| Given { token: *token, attempt }))
        .collect();
    given.sort_by_key(|given| given.token.known);
    behind_the_clock(history, key, &given, verdict);
    order(history, key, &given, verdict);
    twice(history, key, &mut given, verdict);
}

/// A token that was known before another was requested is smaller. So is that of a holder whose hold came first: two
/// holders exclude each other.
fn order(history: &History, key: usize, given: &[Given<'_>], verdict: &mut Verdict) {
    // The largest so far by when it was known; requests are compared with those known before them.
    let mut largest: Vec<(Us, Token)> = Vec::new();
    for later in given {
        let before = first_after(&largest, later);
        if let Some((_, earlier)) = before.checked_sub(1).and_then(|at| largest.get(at)) {
            verdict.compared += 1;
            if earlier.number >= later.token.number {
                judge(history, key, earlier, later, verdict);
            }
        }
        let most = largest.last().is_none_or(|(_, token)| token.number < later.token.number);
        if most {
            largest.push((later.token.known, later.token));
        }
    }
}

/// How many of the largest tokens are known to be from earlier grants.
fn first_after(largest: &[(Us, Token)], later: &Given<'_>) -> usize {
    // Had this grant come before the other, it would still be in force: one of them excludes the other.
    let in_force = later.token.known < later.token.requested + later.token.lease;
    let by = if in_force { later.token.known } else { later.token.requested };
    largest.partition_point(|(known, _)| *known < by)
}

fn judge(history: &History, key: usize, earlier: &Token, later: &Given<'_>, verdict: &mut Verdict) {
    // If only exclusion shows which came first, exclusion must not have failed; nor may the later hold have been lost
    // before the earlier was requested, with the message of its grant read long after.
    let certain = earlier.known < later.token.requested;
    let since = earlier.requested.min(later.token.requested);
    let lost = history.harmed(key, since, later.token.known, |harm| harm.tokens || (harm.holds && !certain));
    let (before, after) = (earlier.number, later.token.number);
    let owner = &later.attempt.owner;
    let text = format!("{owner} has {after}, and {before} was given before");
    verdict.judge(lost, "token", key, later.token.known, text);
}

/// A token is at least the server's clock.
fn behind_the_clock(history: &History, key: usize, given: &[Given<'_>], verdict: &mut Verdict) {
    for Given { token, attempt } in given {
        verdict.compared += 1;
        let ahead = history.least_ahead(token.requested, token.known);
        let clock = history.epoch_ms + (token.requested / 1_000) as i64 + ahead - CLOCK_SLACK_MS;
        if token.number < clock {
            let (owner, number) = (&attempt.owner, token.number);
            let text = format!("{owner} has {number}, less than the clock, {clock}");
            verdict.violation("token", key, token.known, text);
        }
    }
}

/// No two owners have the same token.
fn twice(history: &History, key: usize, given: &mut [Given<'_>], verdict: &mut Verdict) {
    given.sort_by_key(|given| given.token.number);
    for pair in given.windows(2) {
        let [one, other] = pair else { continue };
        if one.token.number != other.token.number {
            continue;
        }
        let (from, to) =
            (one.token.requested.min(other.token.requested), one.token.known.max(other.token.known));
        let lost = history.harmed(key, from, to, |harm| harm.tokens);
        let (number, a, b) = (one.token.number, &one.attempt.owner, &other.attempt.owner);
        verdict.judge(lost, "token", key, to, format!("{a} and {b} both have {number}"));
    }
}

impl History {
    /// Whether a server's clock was another than the machine's.
    pub(super) fn clock_is_off(&self, from: Us, to: Us) -> bool {
        let before =
            self.steps.iter().rev().find(|step| step.at <= from).is_some_and(|step| step.ahead_ms != 0);
        before || self.steps.iter().any(|step| step.at > from.saturating_sub(ms(1_000)) && step.at < to)
    }

    /// How far the server's clock was ahead at least, in ms.
    fn least_ahead(&self, from: Us, to: Us) -> i64 {
        // The step may show a little before or after it was recorded.
        let (from, to) = (from.saturating_sub(ms(2_000)), to + ms(2_000));
        let before = self.steps.iter().rev().find(|step| step.at <= from).map_or(0, |step| step.ahead_ms);
        let during =
            self.steps.iter().filter(|step| step.at > from && step.at < to).map(|step| step.ahead_ms);
        during.fold(before, i64::min)
    }
}
