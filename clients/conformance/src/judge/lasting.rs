//! Rules about holds that outlast their guard, and about those with a limit.

use super::backing::{Backing, By};
use super::holds::{Hold, text};
use crate::proxy::transcript::{Entry, Replied, What};
use crate::run::{Asked, Problem, Run};
use rlock_testkit::Frame;

const MS: i64 = 1_000_000;

/// How much later than promised a client may act on a machine that does not stall.
const SLACK: i64 = 50 * MS;

/// How a guard ended while its hold stays in the server.
enum Left {
    /// By a release, for the rest of `at_least`: until then at the earliest.
    Kept(i64),
    /// By a detachment.
    Detached,
}

/// The end of the time for which a hold is certainly held after its release: `at_least` counts from the guard, and no guard is older than
/// what backs it.
pub(super) fn kept_until(run: &Run<'_>, guard: &str, backings: &[Backing], time: i64) -> Option<i64> {
    ended(run, guard, "release")?;
    Some(backings.iter().map(|backing| backing.known).min()? + time)
}

/// The request that ended a guard in this way, if it succeeded.
fn ended<'a>(run: &'a Run<'_>, guard: &str, way: &str) -> Option<&'a Asked> {
    let done = |asked: &&Asked| asked.answer.as_ref().is_some_and(|answer| answer.error.is_none());
    let is_its = |asked: &&Asked| text(asked, "do") == way && text(asked, "guard") == guard;
    run.asked.iter().filter(done).find(is_its)
}

pub(super) fn judge(run: &Run<'_>, hold: &Hold<'_>) -> Result<(), Problem> {
    limited(hold)?;
    if let Some(detached) = ended(run, &hold.guard, "detach") {
        return stays(run, hold, detached, &Left::Detached);
    }
    let (Some(time), Some(released)) = (hold.at_least, ended(run, &hold.guard, "release")) else {
        return Ok(());
    };
    match kept_until(run, &hold.guard, &hold.backings, time) {
        Some(until) if released.sent < until => stays(run, hold, released, &Left::Kept(until)),
        _ => Ok(()),
    }
}

/// The requests of this owner while its hold was that of this guard, from `from` on: words and reply.
fn requests<'a>(
    run: &'a Run<'_>,
    hold: &'a Hold<'_>,
    from: i64,
) -> impl Iterator<Item = (&'a Entry, &'a [String], Option<&'a Replied>)> {
    // The same client may adopt it again.
    let adopted = run.asked.iter().filter(|asked| {
        text(asked, "do") == "adopt"
            && text(asked, "client") == hold.book.client
            && text(asked, "owner") == hold.owner
    });
    let end = adopted.map(|asked| asked.sent).filter(|sent| *sent > hold.asked).min().unwrap_or(i64::MAX);
    hold.book.entries.iter().filter(move |entry| entry.at >= from && entry.at < end).filter_map(|entry| {
        let What::Request { words, reply } = &entry.what else { return None };
        let is_its = entry.lock_command().is_some() && words.get(2) == Some(&hold.owner);
        is_its.then_some((entry, words.as_slice(), reply.as_ref()))
    })
}

/// How many requests follow the repeat: without an answer it is sent again, and may be carried out late itself.
fn more_after(reply: Option<&Replied>) -> u32 {
    match reply {
        Some(reply) if reply.delivered => u32::from(matches!(reply.value, Frame::Error(_))),
        _ => 2,
    }
}

/// A guard ends, and its hold stays: by one RENEW without SESSION, repeated only if it is not answered. Nothing follows, but once more
/// what keeps the hold if a request of its owner was never answered, that one included: the server may carry that one out late.
fn stays(run: &Run<'_>, hold: &Hold<'_>, ending: &Asked, left: &Left) -> Result<(), Problem> {
    let wrong = |text: &str, words: &[String]| {
        Err(format!("left: {} {text}: {}", hold.guard, words.join(" ")).into())
    };
    let answered = |reply: Option<&Replied>| reply.is_some_and(|reply| reply.delivered);
    let kept = matches!(left, Left::Kept(_));
    let mut again = u32::from(kept && requests(run, hold, i64::MIN).any(|(_, _, reply)| !answered(reply)));
    let mut done = false;
    for (entry, words, reply) in requests(run, hold, ending.sent) {
        let over = matches!(left, Left::Kept(until) if entry.at >= *until);
        if done && again == 0 {
            return wrong("was left in the server, and its client sent", words);
        }
        if done {
            again = again - 1 + more_after(reply);
        }
        match words.first().map(String::as_str) {
            Some("RLOCK.RENEW") => (),
            // The repeat of a RENEW that nothing answered in time.
            Some("RLOCK.CANCEL" | "RLOCK.RELEASE") if over => return Ok(()),
            _ => return wrong("stays held, and its client sent", words),
        }
        // A renewal that was under way when the request came says the session.
        if words.iter().any(|word| word.eq_ignore_ascii_case("SESSION")) {
            continue;
        }
        let lease = words.get(3).and_then(|lease| lease.parse().ok()).map_or(0, |lease: i64| lease * MS);
        match left {
            Left::Kept(until) if entry.at + lease < *until => return wrong("was kept too shortly", words),
            Left::Kept(_) if entry.at + lease > hold.from + hold.at_least.unwrap_or(0) + SLACK => {
                if hold.session.is_none() && lease == hold.lease {
                    continue;
                }
                let text = format!("left: {} is kept for too long: {}", hold.guard, words.join(" "));
                return Err(Problem::Late(text));
            }
            Left::Detached if lease != hold.lease => return wrong("was not left with its lease", words),
            _ => (),
        }
        done |= reply.is_some_and(|reply| reply.delivered && reply.value == Frame::Int(1));
    }
    if done { Ok(()) } else { Err(format!("left: {} ended without a RENEW that stays", hold.guard).into()) }
}

/// From `max_hold` on no RENEW moves the end of the lease, unless it confirms a grant by message.
fn limited(hold: &Hold<'_>) -> Result<(), Problem> {
    let Some(limit) = hold.max_hold.map(|time| hold.from + time) else { return Ok(()) };
    let mut end = None;
    for backing in hold.backings.iter().filter(|backing| backing.by == By::Reply) {
        let moved = backing.sent + backing.lease.unwrap_or(hold.lease);
        let before = end.unwrap_or(i64::MAX);
        if backing.sent > limit + SLACK && moved > before + SLACK {
            let over = (backing.sent - limit) / MS;
            return Err(Problem::Late(format!("limit: {} was renewed {over} ms after it", hold.guard)));
        }
        end = Some(moved);
    }
    Ok(())
}
