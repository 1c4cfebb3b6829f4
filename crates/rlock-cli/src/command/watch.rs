//! `rlock watch`: what happens to a lock, as it happens.

use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::status;
use crate::clock::Moment;
use crate::duration::{ms, shown};
use crate::error::Error;
use crate::names;
use crate::output::Output;
use crate::server::{Link, LockInfo, PATIENCE, Target};

/// From one look to the next: often enough for people.
const INTERVAL: Duration = Duration::from_millis(250);

/// A lease that has grown by more than this was renewed; less is the clocks' rounding.
const RENEWED_BY: i64 = 50;

/// Clears a terminal from its first line on.
const CLEAR: &str = "\x1b[H\x1b[J";

/// A change, in JSON.
#[derive(Serialize)]
struct Change<'a> {
    /// Milliseconds since 1970.
    at_ms: u64,
    what: &'a str,
    #[serde(flatten)]
    lock: Option<&'a LockInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Follows a lock until the process is ended, or the output is closed.
pub(crate) fn watch(target: Target, key: &[u8], output: Output) -> Result<u8, Error> {
    let start = Moment::now();
    let mut link = Link::new(target);
    // The first answer must come: afterwards an outage is news like any other.
    let mut last = Some(LockInfo::ask(&mut link, key)?);
    report(output, start, "now", last.as_ref(), None)?;
    loop {
        sleep(INTERVAL);
        match LockInfo::ask_within(&mut link, key, PATIENCE) {
            Ok(info) => {
                let what = last.as_ref().map_or(Some("now"), |last| change(last, &info));
                // On a terminal the times go on without any change.
                if what.is_some() || redraws(output) {
                    report(output, start, what.unwrap_or("now"), Some(&info), None)?;
                }
                last = Some(info);
            }
            Err(error) if error.is_transport() || error.is_refusal(&["LOADING"]) => {
                if last.take().is_some() {
                    report(output, start, "unreachable", None, Some(error.to_string()))?;
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn redraws(output: Output) -> bool {
    output.terminal && !output.json
}

fn report(
    output: Output,
    start: Moment,
    what: &str,
    lock: Option<&LockInfo>,
    error: Option<String>,
) -> Result<(), Error> {
    if output.json {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return output.object(&Change { at_ms: ms(now), what, lock, error });
    }
    match lock {
        Some(info) if redraws(output) => {
            output.line(&format!("{CLEAR}{}\nCtrl-C ends this.", status::text(info, output)))
        }
        _ => {
            let since = shown(ms(Moment::now().since(start)).cast_signed());
            let state = lock.map(state).or(error).unwrap_or_default();
            output.line(&format!("+{since:<7} {what:<11} {state}"))
        }
    }
}

/// A lock in one line.
fn state(info: &LockInfo) -> String {
    let holders: Vec<String> = info.holders.iter().map(status::holder_text).collect();
    let held = if info.held { format!("held by {}", holders.join("; ")) } else { "free".to_string() };
    let waiting = match info.queue.first() {
        None => String::new(),
        Some(first) => format!(", {} waiting, first {}", info.waiter_count, names::shown(&first.owner)),
    };
    format!("{held}{}{waiting}", status::lease(info.lease_ms))
}

/// What has happened between two looks, if anything.
fn change(before: &LockInfo, now: &LockInfo) -> Option<&'static str> {
    let owners = |info: &LockInfo| -> Vec<Vec<u8>> { info.holders.iter().map(|h| h.owner.clone()).collect() };
    let queue = |info: &LockInfo| -> Vec<Vec<u8>> { info.queue.iter().map(|w| w.owner.clone()).collect() };
    let holds = |info: &LockInfo| -> Vec<i64> { info.holders.iter().map(|holder| holder.holds).collect() };
    match (before.held, now.held) {
        (false, true) => return Some("acquired"),
        (true, false) => return Some("free"),
        _ => {}
    }
    if owners(before) != owners(now) {
        return Some("handed on");
    }
    if holds(before) != holds(now) {
        return Some("holds");
    }
    if queue(before) != queue(now) || before.waiter_count != now.waiter_count {
        return Some("queue");
    }
    (now.lease_ms > before.lease_ms.saturating_add(RENEWED_BY)).then_some("renewed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Holder, Waiter};

    fn held(owner: &str, holds: i64, lease_ms: i64) -> LockInfo {
        let holder = Holder { owner: owner.into(), mode: None, holds, lease_ms };
        let mut info = free();
        info.holder_count = 1;
        info.held = true;
        info.lease_ms = lease_ms;
        info.holders.push(holder);
        info
    }

    fn free() -> LockInfo {
        LockInfo {
            key: b"lock".to_vec(),
            kind: "none".to_string(),
            held: false,
            lease_ms: -2,
            token: 0,
            holder_count: 0,
            waiter_count: 0,
            holders: Vec::new(),
            queue: Vec::new(),
        }
    }

    fn with_waiter(mut info: LockInfo, owner: &str) -> LockInfo {
        info.waiter_count += 1;
        info.queue.push(Waiter { owner: owner.into(), ..Waiter::default() });
        info
    }

    #[test]
    fn changes_have_names() {
        let cases = [
            (free(), free(), None),
            (free(), held("a", 1, 100), Some("acquired")),
            (held("a", 1, 100), free(), Some("free")),
            (held("a", 1, 100), held("b", 1, 100), Some("handed on")),
            (held("a", 1, 100), held("a", 2, 100), Some("holds")),
            (held("a", 1, 100), held("a", 1, 50), None),
            (held("a", 1, 100), held("a", 1, 120), None),
            (held("a", 1, 100), held("a", 1, 30_000), Some("renewed")),
            (held("a", 1, 100), with_waiter(held("a", 1, 100), "b"), Some("queue")),
        ];
        for (before, now, expected) in cases {
            assert_eq!(change(&before, &now), expected, "{before:?} → {now:?}");
        }
    }
}
