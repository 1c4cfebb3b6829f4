//! Redisson's fair queue of a lock: a list of owners, and a sorted set of the times after which they count as gone.
//!
//! Written by the server's own commands, which replicate themselves and raise their events; we do not take those for
//! somebody else's.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::CStr;

use rlock_core::facts::FairEntry;
use rlock_core::locks::Walked;
use rlock_core::port::FairList;
use rlock_core::{Error, Expiry, LeaseMs, UnixMs, names};

use crate::ffi::{Args, CallReply, Ctx, Key, KeyKind, OwnedString, Shared, StringRef, ZERO};
use crate::perform;

/// How many owners are searched for in a long list at once: each takes a millisecond in one of 50,000 entries.
const MOST_SEARCHES: usize = 8;

/// Whether it is ourselves who write a fair queue now.
static WRITING: Shared<Cell<bool>> = Shared::cell(false);

/// Whether an event of a fair queue's keys is our own doing.
pub(crate) fn is_own_doing() -> bool {
    WRITING.get()
}

/// The fair queue of a lock.
pub(crate) struct FairQueue<'a> {
    ctx: Ctx<'a>,
    name: StringRef<'a>,
    list: OwnedString,
    deadlines: OwnedString,
}

impl<'a> FairQueue<'a> {
    /// That of the lock of this name.
    pub(crate) fn of(ctx: Ctx<'a>, name: StringRef<'a>) -> Self {
        let list = OwnedString::new(&names::fair_queue(name.bytes()));
        let deadlines = OwnedString::new(&names::fair_deadlines(name.bytes()));
        Self { ctx, name, list, deadlines }
    }

    /// Refuses the queue where the user may not run the command on its keys, or it may be on another server.
    pub(crate) fn check(&self, args: Args<'_>) -> Result<(), Error> {
        for key in [self.list.borrow(), self.deadlines.borrow()] {
            if !self.ctx.may_run_on(args, key) {
                return Err(Error::NoPermission("the keys of the lock's fair list"));
            }
        }
        if self.is_elsewhere() { Err(Error::FairElsewhere) } else { Ok(()) }
    }

    fn may_be_elsewhere(&self, key: &OwnedString) -> bool {
        let is_here = Key::open_write(self.ctx, key.borrow()).kind() != KeyKind::Empty;
        !is_here && !self.ctx.is_missing(key.borrow(), self.name)
    }

    fn is_empty(&self) -> bool {
        Key::open_write(self.ctx, self.list.borrow()).kind() != KeyKind::List
    }

    /// So many entries, the first ones.
    pub(crate) fn entries(&self, most: usize) -> Vec<FairEntry> {
        let owners = self.owners(most).into_iter();
        owners.map(|owner| FairEntry { deadline: self.deadline(&owner), owner: owner.into() }).collect()
    }

    /// The owners of so many entries, the first ones.
    pub(crate) fn owners(&self, most: usize) -> Vec<Vec<u8>> {
        if most == 0 || self.is_empty() {
            return Vec::new();
        }
        self.range(0, i64::try_from(most).unwrap_or(i64::MAX).saturating_sub(1))
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        let key = Key::open_write(self.ctx, self.list.borrow());
        if key.kind() == KeyKind::List { key.len() } else { 0 }
    }

    /// Whether the list has an entry of this owner.
    fn is_listed(&self, owner: &[u8]) -> bool {
        let (owner, count, one) = (OwnedString::new(owner), OwnedString::new(b"COUNT"), integer(1));
        let words = [self.list.borrow(), owner.borrow(), count.borrow(), one.borrow()];
        matches!(self.ctx.call(c"LPOS", &words), CallReply::List(places) if !places.is_empty())
    }

    /// The owners of the first entries, at most `most`, as long as `leaves` is true of them. Most often that is one, so few
    /// entries are read first.
    fn first_that(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>> {
        let (mut first, mut step): (Vec<Box<[u8]>>, _) = (Vec::new(), 4_usize);
        while first.len() < most {
            let end = first.len().saturating_add(step).min(most);
            let place = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
            let entries = self.range(place(first.len()), place(end).saturating_sub(1));
            first.extend(entries.into_iter().take_while(|owner| leaves(owner)).map(Into::into));
            if first.len() < end {
                break;
            }
            step = step.saturating_mul(4);
        }
        first
    }

    /// The list was written just before, so it is not elsewhere. If its last entry was removed, its key is gone, and
    /// [`Self::is_elsewhere`] would take it for moved while the slot moves.
    fn remove_deadlines(&self, owners: &[Box<[u8]>]) {
        let owners: Vec<_> = owners.iter().map(|owner| OwnedString::new(owner)).collect();
        let words: Vec<_> =
            [self.deadlines.borrow()].into_iter().chain(owners.iter().map(OwnedString::borrow)).collect();
        self.write(c"ZREM", &words);
    }

    /// The owners of the entries from one place to another, as LRANGE counts them.
    fn range(&self, first: i64, last: i64) -> Vec<Vec<u8>> {
        let (first, last) = (OwnedString::from_integer(first), OwnedString::from_integer(last));
        match self.ctx.call(c"LRANGE", &[self.list.borrow(), first.borrow(), last.borrow()]) {
            CallReply::List(owners) => owners.into_iter().flatten().collect(),
            CallReply::Bytes(_) | CallReply::Nothing => Vec::new(),
        }
    }

    fn write_deadline(&self, owner: StringRef<'_>, at: UnixMs) {
        let at = OwnedString::from_integer(at.0);
        self.write(c"ZADD", &[self.deadlines.borrow(), at.borrow(), owner]);
    }

    fn write(&self, command: &CStr, words: &[StringRef<'_>]) -> CallReply {
        let before = WRITING.replace(true);
        let told = self.ctx.call(command, words);
        WRITING.replace(before);
        told
    }
}

impl FairList for FairQueue<'_> {
    fn head(&self) -> Option<FairEntry> {
        let head = Key::open_write(self.ctx, self.list.borrow()).list_head()?;
        Some(FairEntry { deadline: self.deadline(&head), owner: (*head).into() })
    }

    // Nothing is written then: a key that is on both could not be moved, and who has a place over there is to keep it.
    fn is_elsewhere(&self) -> bool {
        [&self.list, &self.deadlines].into_iter().any(|key| self.may_be_elsewhere(key))
    }

    fn has(&self, owner: &[u8]) -> bool {
        !self.is_empty() && self.deadline(owner).is_some()
    }

    fn missing(&self, owners: &[Box<[u8]>], most: usize) -> Vec<Box<[u8]>> {
        if owners.is_empty() || self.is_elsewhere() {
            return Vec::new();
        }
        if owners.len() == 1 || self.len() > most {
            return owners
                .iter()
                .take(MOST_SEARCHES)
                .take_while(|owner| !self.is_listed(owner))
                .cloned()
                .collect();
        }
        let listed: HashSet<Vec<u8>> = self.owners(most).into_iter().collect();
        owners.iter().take_while(|owner| !listed.contains(&owner[..])).cloned().collect()
    }

    fn join(&self, owner: &[u8], budget: LeaseMs) {
        if self.is_elsewhere() || self.has(owner) {
            return;
        }
        let now = self.ctx.real_time();
        let last =
            match self.ctx.call(c"LINDEX", &[self.list.borrow(), OwnedString::from_integer(-1).borrow()]) {
                CallReply::Bytes(last) => self.deadline(&last),
                _ => None,
            };
        let lease_ends = match Key::open_write(self.ctx, self.name).expiry() {
            Expiry::At(at) => at.max(now),
            Expiry::Never => now,
        };
        let owner = OwnedString::new(owner);
        self.write(c"RPUSH", &[self.list.borrow(), owner.borrow()]);
        self.write_deadline(owner.borrow(), last.unwrap_or(lease_ends).after(budget));
    }

    fn pop(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>> {
        let head = Key::open_write(self.ctx, self.list.borrow()).list_head();
        if !head.is_some_and(|head| leaves(&head)) || self.is_elsewhere() {
            return Vec::new();
        }
        let first = self.first_that(most, leaves);
        match self.write(c"LPOP", &[self.list.borrow(), integer(first.len()).borrow()]) {
            CallReply::List(_) => self.remove_deadlines(&first),
            CallReply::Bytes(_) | CallReply::Nothing => return Vec::new(),
        }
        first
    }

    // LREM goes through the list for each owner. So the entries are marked first, by a value that no owner has, and
    // removed by one LREM from the end, which ends at the last of them. All of it is one transaction to replicas, to the
    // AOF and to scripts: nobody sees a mark.
    fn take_out(&self, passed: usize, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Walked {
        let nothing = Walked { at_head: true, ..Walked::default() };
        if self.is_empty() || self.is_elsewhere() {
            return nothing;
        }
        let entries = self.range(from_end(passed.saturating_add(most)), from_end(passed.saturating_add(1)));
        let (count, at_head) = (entries.len(), entries.len() < most);
        let leaving = entries.into_iter().enumerate().filter(|(_, owner)| leaves(owner));
        let (places, taken): (Vec<usize>, Vec<Box<[u8]>>) =
            leaving.map(|(place, owner)| (place, owner.into())).unzip();
        let stay = count.saturating_sub(taken.len());
        if taken.is_empty() {
            return Walked { taken, passed: stay, at_head };
        }
        if passed == 0 && stay == 0 {
            self.write(c"RPOP", &[self.list.borrow(), integer(count).borrow()]);
        } else {
            let mark = OwnedString::new(b"");
            for place in &places {
                let place = from_end(passed.saturating_add(count.saturating_sub(*place)));
                let place = OwnedString::from_integer(place);
                self.write(c"LSET", &[self.list.borrow(), place.borrow(), mark.borrow()]);
            }
            let marks = OwnedString::from_integer(from_end(taken.len()));
            self.write(c"LREM", &[self.list.borrow(), marks.borrow(), mark.borrow()]);
        }
        self.remove_deadlines(&taken);
        Walked { taken, passed: stay, at_head }
    }

    fn forget(&self, owners: &[Box<[u8]>]) {
        if !owners.is_empty() && !self.is_elsewhere() {
            self.remove_deadlines(owners);
        }
    }

    fn lower(
        &self,
        passed: usize,
        most: usize,
        latest: &dyn Fn(usize, &[u8]) -> Option<UnixMs>,
    ) -> (usize, bool) {
        if self.is_empty() || self.is_elsewhere() {
            return (0, true);
        }
        let entries = self.range(from_end(passed.saturating_add(most)), from_end(passed.saturating_add(1)));
        let (count, all) = (entries.len(), self.len());
        let first = all.saturating_sub(passed).saturating_sub(count);
        let mut bounds = Vec::new();
        for (place, owner) in entries.into_iter().enumerate() {
            if let Some(latest) = latest(first.saturating_add(place), &owner) {
                bounds.extend([OwnedString::from_integer(latest.0), OwnedString::new(&owner)]);
            }
        }
        if !bounds.is_empty() {
            let (present, lower) = (OwnedString::new(b"XX"), OwnedString::new(b"LT"));
            let options = [self.deadlines.borrow(), present.borrow(), lower.borrow()];
            let words: Vec<_> = options.into_iter().chain(bounds.iter().map(OwnedString::borrow)).collect();
            self.write(c"ZADD", &words);
        }
        (count, count < most)
    }

    fn set_deadline(&self, owner: &[u8], at: UnixMs) {
        if !self.is_elsewhere() {
            self.write_deadline(OwnedString::new(owner).borrow(), at);
        }
    }

    fn put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs) {
        if owners.is_empty() || self.is_elsewhere() {
            return;
        }
        let at = OwnedString::from_integer(deadline.0);
        let owners: Vec<_> = owners.iter().map(|owner| OwnedString::new(owner)).collect();
        let last_first = owners.iter().rev().map(OwnedString::borrow);
        let words: Vec<_> = [self.list.borrow()].into_iter().chain(last_first).collect();
        self.write(c"LPUSH", &words);
        let pairs = owners.iter().flat_map(|owner| [at.borrow(), owner.borrow()]);
        let words: Vec<_> = [self.deadlines.borrow()].into_iter().chain(pairs).collect();
        self.write(c"ZADD", &words);
    }

    fn notify(&self, owner: &[u8]) {
        let channel = names::fair_channel(&names::unlock_channel(self.name.bytes()), owner);
        perform::publish_to(self.ctx, &channel, ZERO.get());
    }

    fn deadline(&self, owner: &[u8]) -> Option<UnixMs> {
        let owner = OwnedString::new(owner);
        match self.ctx.call(c"ZSCORE", &[self.deadlines.borrow(), owner.borrow()]) {
            CallReply::Bytes(score) => deadline_from(&score),
            // In doubt nobody counts as gone.
            _ if self.may_be_elsewhere(&self.deadlines) => Some(UnixMs(i64::MAX)),
            _ => None,
        }
    }
}

/// A count as a word of a command.
fn integer(count: usize) -> OwnedString {
    OwnedString::from_integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A place counted from the end of a list: its last entry is at -1.
fn from_end(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX).saturating_neg()
}

/// A score as the server writes it: whole milliseconds, unless somebody has put something else there.
fn deadline_from(score: &[u8]) -> Option<UnixMs> {
    let score: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    // Out of range it is the nearest that there is.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a time in whole milliseconds; what is beyond saturates"
    )]
    Some(UnixMs(score as i64))
}
