//! `rlock status`: the holders of a lock, its lease, and its waiters.

use std::fmt::Write;

use serde::Serialize;

use super::{NO, YES};
use crate::duration;
use crate::error::Error;
use crate::names::{self, counted};
use crate::output::{Output, Tone};
use crate::owners;
use crate::server::{Holder, LockInfo, Locks, Place, Waiter, primaries};

/// The lock's state, in JSON.
#[derive(Serialize)]
struct Status<'a> {
    #[serde(flatten)]
    info: &'a LockInfo,
    /// How long ago its last fencing token was given, if it is held and that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_age_ms: Option<i64>,
    /// Why its server gives no locks now.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    refuses: &'a [String],
}

/// Prints the lock's state.
pub(crate) fn status(place: &Place, key: &[u8], output: Output) -> Result<u8, Error> {
    let info = Locks::with(place, key)?.info(key)?;
    let beside = primaries::beside(place, key);
    let refuses: Vec<String> = beside
        .hindrances
        .into_iter()
        .map(|(address, hindrance)| format!("{address} {}", hindrance.text()))
        .collect();
    let token_age_ms = beside.now_ms.and_then(|now| token_age_ms(&info, now));
    output.either(&Status { info: &info, token_age_ms, refuses: &refuses }, || {
        let age = token_age_ms.map(|age| format!("  last fencing token {} ago\n", duration::shown(age)));
        let refuses: String =
            refuses.iter().map(|line| format!("{}\n", output.toned(Tone::Bad, line))).collect();
        text(&info, output) + &age.unwrap_or_default() + &refuses
    })?;
    Ok(if info.held { YES } else { NO })
}

/// How long ago the last fencing token of a held lock was given: a token is the server's time in ms, unless a counter was ahead of
/// that. The server stores nothing else about when a lock was acquired.
fn token_age_ms(info: &LockInfo, now_ms: u64) -> Option<i64> {
    /// The year 2001. Counters, such as a Redisson client's tokens, stay below.
    const EARLIEST_MS: u64 = 1_000_000_000_000;
    let is_time = info.held && (EARLIEST_MS..=now_ms).contains(&info.token);
    is_time.then(|| now_ms.saturating_sub(info.token).cast_signed())
}

/// The width of a wait's bar; the longest wait fills it.
const BAR: usize = 12;

/// The lock's state for people, in several lines.
pub(crate) fn text(info: &LockInfo, output: Output) -> String {
    let (tone, state) = state(info);
    let state = output.toned(tone, &state);
    let mut text = format!("{}  {state}{}\n", names::shown(&info.key), lease(info.lease_ms));
    for holder in &info.holders {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  holder  {}", holder_text(holder, usize::MAX));
    }
    text.extend(more(info.holder_count, info.holders.len(), "holders").map(|line| line + "\n"));
    let owners: Vec<String> = info.queue.iter().map(|waiter| names::shown(&waiter.owner)).collect();
    let width = owners.iter().map(|owner| owner.chars().count()).max().unwrap_or_default();
    let longest = info.queue.iter().map(|waiter| waiter.age_ms).max().unwrap_or_default();
    for ((place, waiter), owner) in (1..).zip(&info.queue).zip(&owners) {
        let place = output.toned(Tone::Quiet, &format!("{place:>6}."));
        let age = format!("{:>6}", duration::shown(waiter.age_ms));
        let bar = output.toned(Tone::Wait, &bar(waiter.age_ms, longest, BAR));
        let _ = writeln!(text, "{place}  {owner:width$}  waits {age}  {bar}  {}", waiter_text(waiter));
    }
    text.extend(more(info.waiter_count, info.queue.len(), "waiters").map(|line| line + "\n"));
    text
}

/// Whether the lock is held, or how many of its permits are in use.
pub(crate) fn state(info: &LockInfo) -> (Tone, String) {
    match (info.held, info.kind.as_str(), info.holder_count) {
        (false, ..) => (Tone::Good, "free".to_string()),
        (true, "permits", 1) => (Tone::Bad, "1 permit in use".to_string()),
        (true, "permits", count) => (Tone::Bad, format!("{count} permits in use")),
        (true, ..) => (Tone::Bad, "held".to_string()),
    }
}

/// A part of a whole as a bar, padded with blanks; any part above zero is visible.
pub(crate) fn bar(part: i64, whole: i64, width: usize) -> String {
    let (part, whole) = (u128::try_from(part).unwrap_or(0), u128::try_from(whole).unwrap_or(0).max(1));
    let full = part.min(whole).saturating_mul(width as u128).div_ceil(whole);
    let full = usize::try_from(full).unwrap_or(width);
    format!("{:width$}", "█".repeat(full))
}

/// A lease as a part of a sentence.
pub(crate) fn lease(ms: i64) -> String {
    match ms {
        -2 => String::new(),
        -1 => ", for ever".to_string(),
        ms => format!(", {} left", duration::shown(ms)),
    }
}

/// A holder in a few words, its owner in at most `width` characters.
pub(crate) fn holder_text(holder: &Holder, width: usize) -> String {
    let tied = holder.session.map(|client| format!(", tied to client {client}")).unwrap_or_default();
    let (owner, client) = (owners::fitted(&holder.owner, width), client(&holder.owner, width));
    if holder.mode.as_deref() == Some("permit") {
        return format!("{owner}  1 permit{}{tied}{client}", lease(holder.lease_ms));
    }
    let holds = counted(holder.holds, "hold");
    let mode = holder.mode.as_ref().map(|mode| format!(", {mode}")).unwrap_or_default();
    format!("{owner}  {holds}{mode}{tied}{client}")
}

/// The client of an owner, where there is room for whole owners.
fn client(owner: &[u8], width: usize) -> String {
    let client = owners::described(owner).filter(|_| width == usize::MAX);
    client.map(|client| format!("  ({client})")).unwrap_or_default()
}

fn waiter_text(waiter: &Waiter) -> String {
    let client = client(&waiter.owner, usize::MAX);
    format!("by {}, {}, client {}{client}", waiter.via, waiting_for(waiter), waiter.client_id)
}

/// The mode that a waiter waits for, if the lock has modes, and how long it still waits.
pub(super) fn waiting_for(waiter: &Waiter) -> String {
    let mode = waiter.mode.as_ref().map(|mode| format!("{mode}, ")).unwrap_or_default();
    match waiter.wait_left_ms {
        -1 => format!("{mode}never gives up"),
        ms => format!("{mode}gives up in {}", duration::shown(ms)),
    }
}

/// The line that counts those that are not listed, if any.
pub(super) fn more(count: u64, listed: usize, what: &str) -> Option<String> {
    let more = count.saturating_sub(u64::try_from(listed).unwrap_or(u64::MAX));
    (more > 0).then(|| format!("  and {more} more {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_when_it_was_given() {
        let now = 1_800_000_000_000;
        let info = |held, token| LockInfo { held, token, ..LockInfo::default() };
        assert_eq!(token_age_ms(&info(true, now - 1_500), now), Some(1_500));
        assert_eq!(token_age_ms(&info(true, now), now), Some(0));
        for (held, token) in [(true, 0), (true, 17), (true, now + 1), (false, now)] {
            assert_eq!(token_age_ms(&info(held, token), now), None, "{held} {token}");
        }
    }

    #[test]
    fn bars_show_parts() {
        let cases = [(0, 100, "    "), (1, 100, "█   "), (50, 100, "██  "), (100, 100, "████")];
        for (part, whole, bar_text) in cases {
            assert_eq!(bar(part, whole, 4), bar_text, "{part} of {whole}");
        }
        assert_eq!(
            (bar(200, 100, 4).as_str(), bar(0, 0, 2).as_str(), bar(-1, -1, 1).as_str()),
            ("████", "  ", " ")
        );
    }
}
