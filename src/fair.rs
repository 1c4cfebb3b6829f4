//! Redisson's fair queue of a lock: a list of owners, and a sorted set of the times after which they count as gone.
//!
//! Written by the server's own commands, which replicate themselves and raise their events; we do not take those for
//! somebody else's.

use std::cell::Cell;
use std::ffi::CStr;

use rlock_core::fair::Entry;
use rlock_core::{Error, Expiry, LeaseMs, UnixMs, names};

use crate::ffi::{Args, Ctx, Key, KeyKind, OwnedString, Shared, StringRef, Told, ZERO};
use crate::perform;

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
                return Err(Error::NoPermission("the keys of the lock's fair queue"));
            }
        }
        if self.is_elsewhere() { Err(Error::FairElsewhere) } else { Ok(()) }
    }

    /// Whether one of its keys may be on the server that the lock's slot comes from or goes to. Nothing is written
    /// then: a key that is on both could not be moved, and who has a place over there is to keep it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        [&self.list, &self.deadlines].into_iter().any(|key| self.may_be_elsewhere(key))
    }

    fn may_be_elsewhere(&self, key: &OwnedString) -> bool {
        let is_here = Key::open_write(self.ctx, key.borrow()).kind() != KeyKind::Empty;
        !is_here && !self.ctx.is_missing(key.borrow(), self.name)
    }

    fn is_empty(&self) -> bool {
        Key::open_write(self.ctx, self.list.borrow()).kind() != KeyKind::List
    }

    /// The first entry.
    pub(crate) fn head(&self) -> Option<Entry> {
        let head = Key::open_write(self.ctx, self.list.borrow()).list_head()?;
        Some(Entry { deadline: self.deadline(&head), owner: (*head).into() })
    }

    /// So many entries, the first ones.
    pub(crate) fn entries(&self, most: usize) -> Vec<Entry> {
        let owners = self.owners(most).into_iter();
        owners.map(|owner| Entry { deadline: self.deadline(&owner), owner: owner.into() }).collect()
    }

    /// The owners of so many entries, the first ones.
    pub(crate) fn owners(&self, most: usize) -> Vec<Vec<u8>> {
        if most == 0 || self.is_empty() {
            return Vec::new();
        }
        let last = i64::try_from(most).unwrap_or(i64::MAX).saturating_sub(1);
        let (first, last) = (OwnedString::from_integer(0), OwnedString::from_integer(last));
        match self.ctx.call(c"LRANGE", &[self.list.borrow(), first.borrow(), last.borrow()]) {
            Told::List(owners) => owners,
            Told::Bytes(_) | Told::Number(_) | Told::Nothing => Vec::new(),
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        let key = Key::open_write(self.ctx, self.list.borrow());
        if key.kind() == KeyKind::List { key.len() } else { 0 }
    }

    /// When an owner counts as gone.
    pub(crate) fn deadline(&self, owner: &[u8]) -> Option<UnixMs> {
        let owner = OwnedString::new(owner);
        match self.ctx.call(c"ZSCORE", &[self.deadlines.borrow(), owner.borrow()]) {
            Told::Bytes(score) => deadline_from(&score),
            // In doubt nobody counts as gone.
            _ if self.may_be_elsewhere(&self.deadlines) => Some(UnixMs(i64::MAX)),
            _ => None,
        }
    }

    /// Whether an owner stands in the queue, as its deadline tells.
    pub(crate) fn stands(&self, owner: &[u8]) -> bool {
        !self.is_empty() && self.deadline(owner).is_some()
    }

    /// Puts an owner at the end, unless it stands in the queue.
    pub(crate) fn join(&self, owner: &[u8], budget: LeaseMs, now: UnixMs) {
        if self.is_elsewhere() || self.stands(owner) {
            return;
        }
        let last =
            match self.ctx.call(c"LINDEX", &[self.list.borrow(), OwnedString::from_integer(-1).borrow()]) {
                Told::Bytes(last) => self.deadline(&last),
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

    /// Takes an owner out: true if it stood in the list, and does no more.
    pub(crate) fn leave(&self, owner: &[u8]) -> bool {
        if self.is_empty() || self.is_elsewhere() {
            return false;
        }
        let first = Key::open_write(self.ctx, self.list.borrow()).list_head();
        // Of the first in the list the rest need not be searched, be it ten thousand.
        let most = i64::from(first.is_some_and(|first| *first == *owner));
        let (owner, most) = (OwnedString::new(owner), OwnedString::from_integer(most));
        let taken = self.write(c"LREM", &[self.list.borrow(), most.borrow(), owner.borrow()]);
        self.write(c"ZREM", &[self.deadlines.borrow(), owner.borrow()]);
        matches!(taken, Told::Number(taken) if taken > 0)
    }

    /// Sets an owner's deadline.
    pub(crate) fn set_deadline(&self, owner: StringRef<'_>, at: UnixMs) {
        if !self.is_elsewhere() {
            self.write_deadline(owner, at);
        }
    }

    fn write_deadline(&self, owner: StringRef<'_>, at: UnixMs) {
        let at = OwnedString::from_integer(at.0);
        self.write(c"ZADD", &[self.deadlines.borrow(), at.borrow(), owner]);
    }

    /// Puts owners at the front, in this order.
    pub(crate) fn put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs) {
        if self.is_elsewhere() {
            return;
        }
        for owner in owners.iter().rev() {
            let owner = OwnedString::new(owner);
            self.write(c"LPUSH", &[self.list.borrow(), owner.borrow()]);
            self.write_deadline(owner.borrow(), deadline);
        }
    }

    /// Tells an owner that it is its turn, on its own channel.
    pub(crate) fn call(&self, owner: &[u8]) {
        let channel = names::fair_channel(&names::unlock_channel(self.name.bytes()), owner);
        perform::publish_to(self.ctx, &channel, ZERO.get());
    }

    fn write(&self, command: &CStr, words: &[StringRef<'_>]) -> Told {
        let before = WRITING.replace(true);
        let told = self.ctx.call(command, words);
        WRITING.replace(before);
        told
    }
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
