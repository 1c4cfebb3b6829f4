//! `rlock watch`: what happens to a lock, as it happens.

use std::collections::VecDeque;
use std::io::stdout;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::frame::Frame;
use super::{YES, status};
use crate::clock::Moment;
use crate::duration::{ms, shown};
use crate::error::Error;
use crate::output::{Output, size_of};
use crate::owners;
use crate::server::{LockInfo, Locks, Place};
use crate::terminal;

/// From one look to the next: often enough for people.
const INTERVAL: Duration = Duration::from_millis(250);

/// A lease that has grown by more than this was renewed; less is the clocks' rounding.
const RENEWED_BY: i64 = 50;

/// Clears a terminal from its first line on, and lets no line wrap: some characters are wider than one column.
const CLEAR: &str = "\x1b[?7l\x1b[H\x1b[J";

/// Lets lines wrap again.
const WRAP: &str = "\x1b[?7h";

/// How many changes are shown below the lock.
const NEWS: usize = 8;

/// How much of an owner is shown in a line of a terminal.
const OWNER: usize = 20;

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
pub(crate) fn watch(place: &Place, key: &[u8], output: Output) -> Result<u8, Error> {
    // The first answer must come: afterwards an outage is news like any other.
    let locks = Locks::with(place, key)?;
    let mut last = Some(locks.info(key)?);
    let mut view = View { output, start: Moment::now(), whole_lease: 0, news: VecDeque::new() };
    view.report(Some("now"), last.as_ref(), None)?;
    loop {
        sleep(INTERVAL);
        // A lock that does not change writes nothing that could fail.
        if output.terminal && terminal::is_gone(stdout()) {
            return Ok(YES);
        }
        // Without a connection there is no need to wait for an answer.
        match locks.connected(key).and_then(|()| locks.info(key)) {
            Ok(info) => {
                let what = last.as_ref().map_or(Some("now"), |last| change(last, &info));
                view.report(what, Some(&info), None)?;
                last = Some(info);
            }
            Err(error) if error.is_transport() || error.is_refusal(&["LOADING"]) => {
                if last.take().is_some() {
                    view.report(Some("unreachable"), None, Some(error.to_string()))?;
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// What the user sees of a lock.
struct View {
    output: Output,
    start: Moment,
    /// The most that was ever left of the present lease, in ms.
    whole_lease: i64,
    /// The last changes, for a terminal.
    news: VecDeque<String>,
}

impl View {
    /// Shows what has happened, if anything has; a terminal is redrawn without any change, for its times.
    fn report(
        &mut self,
        what: Option<&str>,
        lock: Option<&LockInfo>,
        error: Option<String>,
    ) -> Result<(), Error> {
        if self.output.json {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let change = |what| Change { at_ms: ms(now), what, lock, error };
            return what.map_or(Ok(()), |what| self.output.object(&change(what)));
        }
        let line = what.map(|what| {
            let since = shown(ms(Moment::now().since(self.start)).cast_signed());
            let owner = if self.output.terminal { OWNER } else { usize::MAX };
            let state = lock.map(|lock| state(lock, owner)).or(error).unwrap_or_default();
            format!("+{since:<7} {what:<11} {state}")
        });
        if what.is_some_and(|what| !["holds", "queue"].contains(&what)) {
            self.whole_lease = 0;
        }
        if self.output.terminal {
            self.redraw(line, lock)
        } else {
            line.map_or(Ok(()), |line| self.output.line(&line))
        }
    }

    /// The whole terminal anew, in the size that it has now.
    fn redraw(&mut self, news: Option<String>, lock: Option<&LockInfo>) -> Result<(), Error> {
        if let Some(line) = news {
            self.news.push_back(line);
            if self.news.len() > NEWS {
                self.news.pop_front();
            }
        }
        self.whole_lease = self.whole_lease.max(lock.map_or(0, |info| info.lease_ms));
        let (output, whole_lease, news) = (self.output, self.whole_lease, &self.news);
        let lines = Frame { output, size: size_of(stdout()), lock, whole_lease, news }.lines();
        output.line(&format!("{CLEAR}{}{WRAP}", lines.join("\n")))
    }
}

/// A lock in one line, with owners of at most `width` characters.
fn state(info: &LockInfo, width: usize) -> String {
    let holders: Vec<String> = info.holders.iter().map(|holder| status::holder_text(holder, width)).collect();
    let held = if info.held { format!("held by {}", holders.join("; ")) } else { "free".to_string() };
    let waiting = match info.queue.first() {
        None => String::new(),
        Some(first) => {
            let first = owners::fitted(&first.owner, width);
            format!(", {} waiting, first {first}", info.waiter_count)
        }
    };
    format!("{held}{}{waiting}", status::lease(info.lease_ms))
}

/// What has happened between two looks, if anything.
fn change(before: &LockInfo, now: &LockInfo) -> Option<&'static str> {
    let owners = |info: &LockInfo| -> Vec<Vec<u8>> { info.holders.iter().map(|h| h.owner.clone()).collect() };
    let queue = |info: &LockInfo| -> Vec<Vec<u8>> { info.queue.iter().map(|w| w.owner.clone()).collect() };
    let holds = |info: &LockInfo| -> Vec<u64> { info.holders.iter().map(|holder| holder.holds).collect() };
    match (before.held, now.held) {
        (false, true) => return Some("acquired"),
        (true, false) => return Some("free"),
        _ => {}
    }
    if owners(before) != owners(now) {
        // Readers and permits join and leave others; a part of a long list does not show them all.
        let is_in = |few: &LockInfo, all: &LockInfo| {
            few.holder_count < all.holder_count && owners(few).iter().all(|owner| owners(all).contains(owner))
        };
        return Some(match (is_in(before, now), is_in(now, before)) {
            (true, _) => "acquired",
            (_, true) => "released",
            _ => "handed on",
        });
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

    fn free() -> LockInfo {
        LockInfo { lease_ms: -2, ..LockInfo::default() }
    }

    fn held(owner: &str, holds: u64, lease_ms: i64) -> LockInfo {
        let holder = Holder { owner: owner.into(), holds, lease_ms, ..Holder::default() };
        LockInfo { held: true, holder_count: 1, lease_ms, holders: vec![holder], ..free() }
    }

    fn beside(mut info: LockInfo, owner: &str) -> LockInfo {
        info.holder_count += 1;
        info.holders.extend(held(owner, 1, 100).holders);
        info
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
            (held("a", 1, 100), beside(held("a", 1, 100), "b"), Some("acquired")),
            (beside(held("a", 1, 100), "b"), held("b", 1, 100), Some("released")),
            (beside(held("a", 1, 100), "b"), held("c", 1, 100), Some("handed on")),
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
