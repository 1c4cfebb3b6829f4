//! `rlock status`: who holds a lock, for how long, who waits.

use std::fmt::Write;

use super::{NO, YES};
use crate::duration;
use crate::error::Error;
use crate::names;
use crate::output::{Output, Tone};
use crate::server::{Holder, Link, LockInfo, Target, Waiter};

/// Prints the lock's state.
pub(crate) fn status(target: Target, key: &[u8], output: Output) -> Result<u8, Error> {
    let info = LockInfo::ask(&mut Link::new(target), key)?;
    output.either(&info, || text(&info, output))?;
    Ok(if info.held { YES } else { NO })
}

/// The lock's state for people, in several lines.
pub(crate) fn text(info: &LockInfo, output: Output) -> String {
    let state = if info.held { output.toned(Tone::Bad, "held") } else { output.toned(Tone::Good, "free") };
    let mut text = format!("{}  {state}{}\n", names::shown(&info.key), lease(info.lease_ms));
    for holder in &info.holders {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  holder  {}", holder_text(holder));
    }
    more(&mut text, info.holder_count, info.holders.len(), "holders");
    for (place, waiter) in (1..).zip(&info.queue) {
        let place = output.toned(Tone::Quiet, &format!("{place:>6}."));
        let _ = writeln!(text, "{place}  {}", waiter_text(waiter));
    }
    more(&mut text, info.waiter_count, info.queue.len(), "waiters");
    text
}

/// A lease as a part of a sentence.
pub(crate) fn lease(ms: i64) -> String {
    match ms {
        -2 => String::new(),
        -1 => ", for ever".to_string(),
        ms => format!(", {} left", duration::shown(ms)),
    }
}

/// A holder in a few words.
pub(crate) fn holder_text(holder: &Holder) -> String {
    let holds = if holder.holds == 1 { "1 hold".to_string() } else { format!("{} holds", holder.holds) };
    let mode = holder.mode.as_ref().map(|mode| format!(", {mode}")).unwrap_or_default();
    format!("{}  {holds}{mode}", names::shown(&holder.owner))
}

fn waiter_text(waiter: &Waiter) -> String {
    let left = match waiter.wait_left_ms {
        -1 => "never gives up".to_string(),
        ms => format!("gives up in {}", duration::shown(ms)),
    };
    let mode = waiter.mode.as_ref().map(|mode| format!(", {mode}")).unwrap_or_default();
    let (owner, age) = (names::shown(&waiter.owner), duration::shown(waiter.age_ms));
    format!("{owner}  waits {age} by {}{mode}, {left}, client {}", waiter.via, waiter.client_id)
}

fn more(text: &mut String, count: i64, listed: usize, what: &str) {
    let listed = i64::try_from(listed).unwrap_or(i64::MAX);
    if count > listed {
        let _ = writeln!(text, "  and {} {what} more", count.saturating_sub(listed));
    }
}
