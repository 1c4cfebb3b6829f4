//! Writes of Redisson's fair list, by the server's own commands: they write, signal, replicate themselves and raise
//! their events, in this order.

use std::cell::Cell;
use std::ffi::CStr;

use rlock_core::UnixMs;

use crate::ffi::{CallReply, Ctx, OwnedString, Shared, StringRef};

/// Whether the module is writing a fair list.
static WRITING: Shared<Cell<bool>> = Shared::cell(false);

/// Whether an event of a fair list's keys comes from the module's own write.
pub(crate) fn is_writing() -> bool {
    WRITING.get()
}

/// The keys of one fair list: the owners in their order, and the deadline of each.
///
/// Writers have checked that neither key is on another server: a key on both could not be moved. They do not check
/// again between two writes: the key of a list whose last entry was just removed looks as if it had moved.
pub(crate) struct FairKeys<'a> {
    pub(crate) ctx: Ctx<'a>,
    pub(crate) list: OwnedString,
    pub(crate) deadlines: OwnedString,
}

impl FairKeys<'_> {
    /// Adds an owner at the end.
    pub(crate) fn append(&self, owner: &[u8], deadline: UnixMs) {
        let owner = OwnedString::new(owner);
        self.write(c"RPUSH", &[self.list.borrow(), owner.borrow()]);
        self.write_deadline(owner.borrow(), deadline);
    }

    /// Adds owners at the head, in their order, with one deadline.
    pub(crate) fn prepend(&self, owners: &[Box<[u8]>], deadline: UnixMs) {
        let at = OwnedString::from_integer(deadline.0);
        let owners = strings(owners);
        let last_first = owners.iter().rev().map(OwnedString::borrow);
        self.write(c"LPUSH", &words(self.list.borrow(), last_first));
        let pairs = owners.iter().flat_map(|owner| [at.borrow(), owner.borrow()]);
        self.write(c"ZADD", &words(self.deadlines.borrow(), pairs));
    }

    /// Removes the first entries, which are of these owners; false if the server refused it.
    pub(crate) fn remove_first(&self, owners: &[Box<[u8]>]) -> bool {
        let count = OwnedString::from_integer(integer(owners.len()));
        let removed =
            matches!(self.write(c"LPOP", &[self.list.borrow(), count.borrow()]), CallReply::List(_));
        if removed {
            self.remove_deadlines(owners);
        }
        removed
    }

    /// Removes the last entries, as many as there are owners.
    pub(crate) fn remove_last(&self, owners: &[Box<[u8]>]) {
        let count = OwnedString::from_integer(integer(owners.len()));
        self.write(c"RPOP", &[self.list.borrow(), count.borrow()]);
        self.remove_deadlines(owners);
    }

    /// Removes the entries at these places, counted from the end of the list, where -1 is the last; they are of these owners.
    ///
    /// LREM goes through the list for each owner. So the entries are marked first, by a value that no owner has, and removed
    /// by one LREM from the end, which stops at the last of them. All of it is one transaction to replicas, to the AOF and to
    /// scripts: no client sees a mark.
    pub(crate) fn remove_at(&self, places: &[i64], owners: &[Box<[u8]>]) {
        let mark = OwnedString::new(b"");
        for place in places {
            let place = OwnedString::from_integer(*place);
            self.write(c"LSET", &[self.list.borrow(), place.borrow(), mark.borrow()]);
        }
        let count = OwnedString::from_integer(integer(places.len()).saturating_neg());
        self.write(c"LREM", &[self.list.borrow(), count.borrow(), mark.borrow()]);
        self.remove_deadlines(owners);
    }

    /// Removes the deadlines of owners that have no entry.
    pub(crate) fn remove_deadlines(&self, owners: &[Box<[u8]>]) {
        let owners = strings(owners);
        self.write(c"ZREM", &words(self.deadlines.borrow(), owners.iter().map(OwnedString::borrow)));
    }

    /// Sets the deadline of one owner.
    pub(crate) fn set_deadline(&self, owner: &[u8], at: UnixMs) {
        self.write_deadline(OwnedString::new(owner).borrow(), at);
    }

    /// Lowers the deadlines of owners that have one that is later.
    pub(crate) fn lower_deadlines(&self, bounds: &[(UnixMs, Vec<u8>)]) {
        let (present, lower) = (OwnedString::new(b"XX"), OwnedString::new(b"LT"));
        let bounds: Vec<_> = bounds
            .iter()
            .flat_map(|(at, owner)| [OwnedString::from_integer(at.0), OwnedString::new(owner)])
            .collect();
        let rest =
            [present.borrow(), lower.borrow()].into_iter().chain(bounds.iter().map(OwnedString::borrow));
        self.write(c"ZADD", &words(self.deadlines.borrow(), rest));
    }

    fn write_deadline(&self, owner: StringRef<'_>, at: UnixMs) {
        let at = OwnedString::from_integer(at.0);
        self.write(c"ZADD", &[self.deadlines.borrow(), at.borrow(), owner]);
    }

    fn write(&self, command: &CStr, words: &[StringRef<'_>]) -> CallReply {
        let before = WRITING.replace(true);
        let reply = self.ctx.call(command, words);
        WRITING.replace(before);
        reply
    }
}

fn strings(owners: &[Box<[u8]>]) -> Vec<OwnedString> {
    owners.iter().map(|owner| OwnedString::new(owner)).collect()
}

/// The words of a command on a key.
fn words<'w>(key: StringRef<'w>, rest: impl Iterator<Item = StringRef<'w>>) -> Vec<StringRef<'w>> {
    [key].into_iter().chain(rest).collect()
}

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
