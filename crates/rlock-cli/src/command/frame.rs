//! What `rlock watch` draws on a terminal, never wider or higher than the terminal.

use std::collections::VecDeque;

use super::status::{bar, holder_text, lease, more, state, waiting_for};
use crate::duration::shown;
use crate::names;
use crate::output::{Output, Tone};
use crate::owners;
use crate::server::{Holder, LockInfo, Waiter};

/// The width of the lease's bar.
const LEASE_BAR: usize = 40;

/// The width of a wait's bar, on a terminal with room for it; the longest wait fills it.
const WAIT_BAR: usize = 12;

/// The number of columns from which there is room for it.
const WIDE: usize = 76;

/// The number of rows from which there is room for blank lines.
const HIGH: usize = 16;

/// A lock as it is, the lease as a bar, and the last changes.
pub(super) struct Frame<'a> {
    pub(super) output: Output,
    /// The columns and rows of the terminal.
    pub(super) size: (usize, usize),
    pub(super) lock: Option<&'a LockInfo>,
    /// The most that was ever left of the present lease, in ms.
    pub(super) whole_lease: i64,
    /// The last changes, the newest at the end.
    pub(super) news: &'a VecDeque<String>,
}

impl Frame<'_> {
    /// The lines, of which there is one less than rows: the cursor stands below them.
    pub(super) fn lines(&self) -> Vec<String> {
        let rows = self.size.1.saturating_sub(1);
        let blank = self.size.1 >= HIGH;
        let (mut lines, details, lease) = match self.lock {
            Some(info) => (vec![self.header(info)], self.details(info), self.lease(info)),
            None => (Vec::new(), Vec::new(), None),
        };
        let gap = usize::from(blank);
        let fixed = lines.len().saturating_add(1).saturating_add(gap);
        let of_lease = if lease.is_some() { gap.saturating_add(1) } else { 0 };
        let room = rows.saturating_sub(fixed).saturating_sub(of_lease);
        // Half of the room is the news', unless the details need less.
        let of_news = self.news.len().saturating_add(gap);
        let of_details = room.saturating_sub(of_news.min(room / 2));
        lines.extend(self.shortest(details, of_details));
        if let Some(lease) = lease {
            lines.extend(blank.then(String::new));
            lines.push(lease);
        }
        let room = rows.saturating_sub(lines.len()).saturating_sub(1).saturating_sub(gap.saturating_mul(2));
        let old = self.news.len().saturating_sub(room);
        if room > 0 && !self.news.is_empty() {
            lines.extend(blank.then(String::new));
            lines.extend(self.news.iter().skip(old).map(|line| self.quiet(line)));
        }
        lines.extend(blank.then(String::new));
        lines.push(self.fit("Ctrl-C ends this."));
        // A terminal of two rows has no room for all this.
        lines.truncate(rows.max(1));
        lines
    }

    /// At most `most` lines. If lines are left out, the last one says how many, unless it would be the only one.
    fn shortest(&self, mut lines: Vec<String>, most: usize) -> Vec<String> {
        if lines.len() > most {
            let shown = if most > 1 { most.saturating_sub(1) } else { most };
            let more = lines.len().saturating_sub(shown);
            lines.truncate(shown);
            lines.extend((most > 1).then(|| self.fit(&format!("  and {more} more lines"))));
        }
        lines
    }

    fn header(&self, info: &LockInfo) -> String {
        let (tone, state) = state(info);
        let lease = lease(info.lease_ms);
        let rest = state.len().saturating_add(lease.len()).saturating_add(2);
        let key = names::shortened(&names::shown(&info.key), self.size.0.saturating_sub(rest).max(1));
        let room = self.size.0.saturating_sub(key.chars().count().saturating_add(2));
        let (state, lease) = (names::cut(&state, room), names::cut(&lease, room.saturating_sub(state.len())));
        format!("{key}  {}{lease}", self.output.toned(tone, &state))
    }

    /// Holders, and waiters in order.
    fn details(&self, info: &LockInfo) -> Vec<String> {
        let width = self.owner_width(info);
        let longest = info.queue.iter().map(|waiter| waiter.age_ms).max().unwrap_or_default();
        let holders = info.holders.iter().map(|holder| self.holder(holder, width));
        let waiters =
            (1..).zip(&info.queue).map(|(place, waiter)| self.waiter(place, waiter, width, longest));
        let mut lines: Vec<String> = holders.collect();
        lines.extend(self.more(info.holder_count, info.holders.len(), "holders"));
        lines.extend(waiters);
        lines.extend(self.more(info.waiter_count, info.queue.len(), "waiters"));
        lines
    }

    /// The columns of an owner: a third of the terminal, or what the longest needs.
    fn owner_width(&self, info: &LockInfo) -> usize {
        let owners = info.holders.iter().map(|holder| &holder.owner);
        let owners = owners.chain(info.queue.iter().map(|waiter| &waiter.owner));
        let longest = owners.map(|owner| names::shown(owner).chars().count()).max().unwrap_or_default();
        longest.min((self.size.0 / 3).max(8))
    }

    fn holder(&self, holder: &Holder, width: usize) -> String {
        self.fit(&format!("  holder  {}", holder_text(holder, width)))
    }

    fn waiter(&self, place: usize, waiter: &Waiter, width: usize, longest: i64) -> String {
        let owner = owners::fitted(&waiter.owner, width);
        let age = shown(waiter.age_ms);
        let bar =
            if self.size.0 >= WIDE { bar(waiter.age_ms, longest, WAIT_BAR) + "  " } else { String::new() };
        let (number, left) = (format!("{place:>6}."), waiting_for(waiter));
        let rest = format!("  {owner:width$}  waits {age:>6}  {bar}{left}");
        let rest = names::cut(&rest, self.size.0.saturating_sub(number.len()));
        self.output.toned(Tone::Quiet, &names::cut(&number, self.size.0)) + &rest
    }

    fn more(&self, count: u64, listed: usize, what: &str) -> Option<String> {
        more(count, listed, what).map(|line| self.fit(&line))
    }

    fn lease(&self, info: &LockInfo) -> Option<String> {
        let width = LEASE_BAR.min(self.size.0.saturating_sub(14));
        let line = || {
            let bar = bar(info.lease_ms, self.whole_lease, width).replace(' ', "░");
            self.fit(&format!("{bar}  {} left", shown(info.lease_ms)))
        };
        (info.lease_ms > 0).then(line)
    }

    fn quiet(&self, line: &str) -> String {
        self.output.toned(Tone::Quiet, &self.fit(line))
    }

    fn fit(&self, line: &str) -> String {
        names::cut(line, self.size.0)
    }
}
