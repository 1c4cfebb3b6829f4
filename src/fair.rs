//! Redisson's fair list of a lock: a list of owners, and a sorted set of the deadlines after which they count as gone.
//! [`FairKeys`] writes them.

use std::collections::HashSet;

use rlock_core::facts::FairEntry;
use rlock_core::locks::Walked;
use rlock_core::port::FairList;
use rlock_core::weight::weight;
use rlock_core::{Error, Expiry, LeaseMs, UnixMs, names};

use crate::ffi::{CallReply, CommandCtx, Ctx, Key, KeyType, OwnedString, StringRef, ZERO};
use crate::perform::{self, FairKeys};

/// How many owners are searched for in a long list at once: each takes a millisecond in one of 50,000 entries.
const MOST_SEARCHES: usize = 8;

/// The fair list of a lock.
pub(crate) struct SiteFairList<'a> {
    ctx: Ctx<'a>,
    name: StringRef<'a>,
    keys: FairKeys<'a>,
}

impl<'a> SiteFairList<'a> {
    /// The fair list of the lock with this name.
    pub(crate) fn of(ctx: Ctx<'a>, name: StringRef<'a>) -> Self {
        let list = OwnedString::new(&names::fair_list_key(name.bytes()));
        let deadlines = OwnedString::new(&names::fair_deadlines_key(name.bytes()));
        Self { ctx, name, keys: FairKeys { ctx, list, deadlines } }
    }

    /// Refuses the list where the user may not run the command on its keys, or it may be on another server.
    pub(crate) fn check(&self, command: CommandCtx<'_>) -> Result<(), Error> {
        for key in [self.keys.list.borrow(), self.keys.deadlines.borrow()] {
            if !command.may_run_on(key) {
                return Err(Error::NoPermission("the keys of the lock's fair list"));
            }
        }
        if self.may_have_migrated() { Err(Error::FairListMigrating) } else { Ok(()) }
    }

    fn key_may_have_migrated(&self, key: &OwnedString) -> bool {
        let is_here = Key::open_write(self.ctx, key.borrow()).key_type() != KeyType::Empty;
        !is_here && !self.ctx.is_missing(key.borrow(), self.name)
    }

    fn is_empty(&self) -> bool {
        Key::open_write(self.ctx, self.keys.list.borrow()).key_type() != KeyType::List
    }

    /// The first entries, at most `most`.
    pub(crate) fn entries(&self, most: usize) -> Vec<FairEntry> {
        let owners = self.owners(most).into_iter();
        owners.map(|owner| FairEntry { deadline: self.deadline(&owner), owner: owner.into() }).collect()
    }

    /// The owners of the first entries, at most `most`.
    pub(crate) fn owners(&self, most: usize) -> Vec<Vec<u8>> {
        if most == 0 || self.is_empty() {
            return Vec::new();
        }
        self.range(0, i64::try_from(most).unwrap_or(i64::MAX).saturating_sub(1))
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        let key = Key::open_write(self.ctx, self.keys.list.borrow());
        if key.key_type() == KeyType::List { key.len() } else { 0 }
    }

    /// Whether the list has an entry of this owner.
    fn is_listed(&self, owner: &[u8]) -> bool {
        let (owner, count, one) = (OwnedString::new(owner), OwnedString::new(b"COUNT"), integer(1));
        let words = [self.keys.list.borrow(), owner.borrow(), count.borrow(), one.borrow()];
        matches!(self.ctx.call(c"LPOS", &words), CallReply::List(places) if !places.is_empty())
    }

    /// The owners of the first entries, up to a weight of `most`, as long as `leaves` is true of them. Most often that is one
    /// owner, so the first read covers few entries: those of other clients may be of any length.
    fn first_that(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>> {
        let (mut first, mut count, mut step): (Vec<Box<[u8]>>, _, _) = (Vec::new(), 0_usize, 4_usize);
        while count < most {
            let end = first.len().saturating_add(step.min(most.saturating_sub(count)));
            let place = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
            let entries = self.range(place(first.len()), place(end).saturating_sub(1));
            for owner in entries.into_iter().take_while(|owner| leaves(owner)) {
                if count < most {
                    count = count.saturating_add(weight(owner.len()));
                    first.push(owner.into());
                }
            }
            if first.len() < end {
                break;
            }
            step = step.saturating_mul(4);
        }
        first
    }

    /// The owners of the entries before the last `passed` ones, up to a weight of `most`, in the order of the list; their
    /// weight; and whether they include the head. The first read covers few entries, since they may be of any length.
    fn before(&self, passed: usize, most: usize) -> (Vec<Vec<u8>>, usize, bool) {
        let (mut found, mut count, mut step, mut at_head) = (Vec::new(), 0_usize, 32_usize, false);
        while count < most && !at_head {
            let next = passed.saturating_add(found.len());
            let wanted = step.min(most.saturating_sub(count));
            let entries = self.range(from_end(next.saturating_add(wanted)), from_end(next.saturating_add(1)));
            at_head = entries.len() < wanted;
            for owner in entries.into_iter().rev() {
                if count >= most {
                    at_head = false;
                    break;
                }
                count = count.saturating_add(weight(owner.len()));
                found.push(owner);
            }
            step = step.saturating_mul(4);
        }
        found.reverse();
        (found, count, at_head)
    }

    /// The owners of the entries from one place to another, as LRANGE counts them.
    fn range(&self, first: i64, last: i64) -> Vec<Vec<u8>> {
        let (first, last) = (OwnedString::from_integer(first), OwnedString::from_integer(last));
        match self.ctx.call(c"LRANGE", &[self.keys.list.borrow(), first.borrow(), last.borrow()]) {
            CallReply::List(owners) => owners.into_iter().flatten().collect(),
            CallReply::Bytes(_) | CallReply::Nothing => Vec::new(),
        }
    }
}

impl FairList for SiteFairList<'_> {
    fn head(&self) -> Option<FairEntry> {
        let head = Key::open_write(self.ctx, self.keys.list.borrow()).list_head()?;
        Some(FairEntry { deadline: self.deadline(&head), owner: (*head).into() })
    }

    // If it is, nothing is written: a key on both servers could not be moved, and its owners keep their places.
    fn may_have_migrated(&self) -> bool {
        [&self.keys.list, &self.keys.deadlines].into_iter().any(|key| self.key_may_have_migrated(key))
    }

    fn has(&self, owner: &[u8]) -> bool {
        !self.is_empty() && self.deadline(owner).is_some()
    }

    fn missing(&self, owners: &[Box<[u8]>], most: usize) -> Vec<Box<[u8]>> {
        if owners.is_empty() || self.may_have_migrated() {
            return Vec::new();
        }
        let search = || {
            let some = owners.iter().take(MOST_SEARCHES);
            some.take_while(|owner| !self.is_listed(owner)).cloned().collect()
        };
        let all = self.len();
        if owners.len() == 1 || all > most {
            return search();
        }
        let listed = self.first_that(most, &|_| true);
        if listed.len() < all {
            return search();
        }
        let listed: HashSet<Box<[u8]>> = listed.into_iter().collect();
        owners.iter().take_while(|owner| !listed.contains(*owner)).cloned().collect()
    }

    fn join(&self, owner: &[u8], budget: LeaseMs) {
        if self.may_have_migrated() || self.has(owner) {
            return;
        }
        let now = self.ctx.real_time();
        let last = match self
            .ctx
            .call(c"LINDEX", &[self.keys.list.borrow(), OwnedString::from_integer(-1).borrow()])
        {
            CallReply::Bytes(last) => self.deadline(&last),
            _ => None,
        };
        let lease_ends = match Key::open_write(self.ctx, self.name).expiry() {
            Expiry::At(at) => at.max(now),
            Expiry::Never => now,
        };
        self.keys.append(owner, last.unwrap_or(lease_ends).after(budget));
    }

    fn pop(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>> {
        let head = Key::open_write(self.ctx, self.keys.list.borrow()).list_head();
        if !head.is_some_and(|head| leaves(&head)) || self.may_have_migrated() {
            return Vec::new();
        }
        let first = self.first_that(most, leaves);
        if self.keys.remove_first(&first) { first } else { Vec::new() }
    }

    fn take_out(&self, passed: usize, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Walked {
        let nothing = Walked { at_head: true, ..Walked::default() };
        if self.is_empty() || self.may_have_migrated() {
            return nothing;
        }
        let (entries, weight, at_head) = self.before(passed, most);
        let count = entries.len();
        let leaving = entries.into_iter().enumerate().filter(|(_, owner)| leaves(owner));
        let (places, taken): (Vec<usize>, Vec<Box<[u8]>>) =
            leaving.map(|(place, owner)| (place, owner.into())).unzip();
        let stay = count.saturating_sub(taken.len());
        if taken.is_empty() {
            return Walked { taken, passed: stay, weight, at_head };
        }
        if passed == 0 && stay == 0 {
            self.keys.remove_last(&taken);
        } else {
            let place = |place: &usize| from_end(passed.saturating_add(count.saturating_sub(*place)));
            self.keys.remove_at(&places.iter().map(place).collect::<Vec<_>>(), &taken);
        }
        Walked { taken, passed: stay, weight, at_head }
    }

    fn forget(&self, owners: &[Box<[u8]>]) {
        if !owners.is_empty() && !self.may_have_migrated() {
            self.keys.remove_deadlines(owners);
        }
    }

    fn lower(&self, passed: usize, most: usize, latest: &dyn Fn(usize, &[u8]) -> Option<UnixMs>) -> Walked {
        if self.is_empty() || self.may_have_migrated() {
            return Walked { at_head: true, ..Walked::default() };
        }
        let (entries, weight, at_head) = self.before(passed, most);
        let (count, all) = (entries.len(), self.len());
        let first = all.saturating_sub(passed).saturating_sub(count);
        let mut bounds = Vec::new();
        for (place, owner) in entries.into_iter().enumerate() {
            if let Some(latest) = latest(first.saturating_add(place), &owner) {
                bounds.push((latest, owner));
            }
        }
        if !bounds.is_empty() {
            self.keys.lower_deadlines(&bounds);
        }
        Walked { taken: Vec::new(), passed: count, weight, at_head }
    }

    fn set_deadline(&self, owner: &[u8], at: UnixMs) {
        if !self.may_have_migrated() {
            self.keys.set_deadline(owner, at);
        }
    }

    fn put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs) {
        if !owners.is_empty() && !self.may_have_migrated() {
            self.keys.prepend(owners, deadline);
        }
    }

    fn call(&self, owner: &[u8]) {
        let channel = names::fair_channel(&names::unlock_channel(self.name.bytes()), owner);
        perform::publish_to(self.ctx, &channel, ZERO.get());
    }

    fn deadline(&self, owner: &[u8]) -> Option<UnixMs> {
        let owner = OwnedString::new(owner);
        match self.ctx.call(c"ZSCORE", &[self.keys.deadlines.borrow(), owner.borrow()]) {
            CallReply::Bytes(score) => deadline_from(&score),
            // In doubt no owner counts as gone.
            _ if self.key_may_have_migrated(&self.keys.deadlines) => Some(UnixMs(i64::MAX)),
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

/// A score as the server writes it: whole milliseconds, unless another client has stored something else.
fn deadline_from(score: &[u8]) -> Option<UnixMs> {
    let score: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    // Out of range it is the nearest that there is.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a time in whole milliseconds; what is beyond saturates"
    )]
    Some(UnixMs(score as i64))
}
