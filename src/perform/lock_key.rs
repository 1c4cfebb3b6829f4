//! The effects of a change on the lock's own key, by the list of the core: written, sent to replicas and AOF, and reported by events.

use rlock_core::effects::Effects;
use rlock_core::facts::Holder;
use rlock_core::{Change, Error, Holds, Mode, UnixMs};

use super::read_write::{unpack, word};
use crate::ffi::{Ctx, EventClass, Key, MODE, OwnedString, StringRef, own_event};

/// Writes a change; `entry` is the owner's field or member. Returns the fields or members of dead holders that were there; mostly
/// `None`, since even an empty list would cost time.
///
/// Each write fails only on a key that is not open for writing, and then the first one does: where an error is answered, nothing
/// has changed.
#[inline(always)]
pub(super) fn write(
    key: &mut Key<'_>,
    entry: Option<StringRef<'_>>,
    change: &Change,
) -> Result<Option<Vec<OwnedString>>, Error> {
    let mut writes = Writes { key, entry, mode: change.mode, buried: None, done: true };
    change.each_effect(&mut writes);
    let Writes { key, buried, done, .. } = writes;
    if done && unpack(key, change) { Ok(buried) } else { Err(Error::Internal("the server refused a write")) }
}

struct Writes<'w, 'k> {
    key: &'w mut Key<'k>,
    entry: Option<StringRef<'w>>,
    mode: Mode,
    buried: Option<Vec<OwnedString>>,
    done: bool,
}

impl Writes<'_, '_> {
    fn remove_entry(&mut self, entry: StringRef<'_>) -> bool {
        if self.mode == Mode::Permit { self.key.remove_member(entry) } else { self.key.remove_field(entry) }
    }
}

impl Effects for Writes<'_, '_> {
    #[cold]
    fn bury(&mut self, dead: &[Holder]) {
        for holder in dead {
            let entry = OwnedString::new(&holder.owner);
            if self.remove_entry(entry.borrow()) {
                self.buried.get_or_insert_default().push(entry);
            }
        }
    }

    #[inline]
    fn delete(&mut self) {
        // A sorted set may have many members.
        self.done &= if self.mode == Mode::Permit { self.key.unlink() } else { self.key.delete() };
    }

    #[inline(always)]
    fn set_fields(&mut self, becomes: Option<Mode>, holds: Option<Holds>) {
        self.done &= becomes.is_none_or(|mode| self.key.set_text(MODE.get(), word(mode)));
        self.done &= match (holds, self.entry) {
            (Some(holds), Some(field)) => self.key.set_field(field, holds.get()),
            (Some(_), None) => false,
            (None, _) => true,
        };
    }

    #[cold]
    fn set_permit(&mut self, end: UnixMs) {
        self.done &= self.entry.is_some_and(|owner| self.key.set_score(owner, end));
    }

    #[inline]
    fn remove(&mut self) {
        if let Some(entry) = self.entry {
            self.remove_entry(entry);
        }
    }

    #[inline]
    fn expire(&mut self, at: UnixMs) {
        self.done &= self.key.set_expiry(at);
    }
}

/// Sends a change to replicas and AOF; false if the server refused a part of it.
#[inline]
pub(super) fn replicate(
    ctx: Ctx<'_>,
    name: StringRef<'_>,
    entry: Option<StringRef<'_>>,
    change: &Change,
    buried: &[OwnedString],
) -> bool {
    let mut commands = Commands { ctx, name, entry, mode: change.mode, buried, sent: true };
    change.each_effect(&mut commands);
    commands.sent
}

struct Commands<'c> {
    ctx: Ctx<'c>,
    name: StringRef<'c>,
    entry: Option<StringRef<'c>>,
    mode: Mode,
    buried: &'c [OwnedString],
    sent: bool,
}

impl Commands<'_> {
    fn send_removal(&self, entry: StringRef<'_>) -> bool {
        if self.mode == Mode::Permit {
            self.ctx.replicate_zrem(self.name, entry)
        } else {
            self.ctx.replicate_hdel(self.name, entry)
        }
    }
}

impl Effects for Commands<'_> {
    #[cold]
    fn bury(&mut self, _: &[Holder]) {
        self.sent &= self.buried.iter().all(|entry| self.send_removal(entry.borrow()));
    }

    #[inline]
    fn delete(&mut self) {
        self.sent &= self.ctx.replicate_del(self.name);
    }

    #[inline]
    fn set_fields(&mut self, becomes: Option<Mode>, holds: Option<Holds>) {
        let (ctx, name) = (self.ctx, self.name);
        let mode = becomes.map(|mode| [MODE.get(), word(mode)]);
        self.sent &= match (holds, self.entry, mode) {
            (Some(holds), Some(field), None) => ctx.replicate_hset(name, field, holds.get()),
            (Some(holds), Some(field), Some(mode)) => ctx.replicate_hset_mode(name, mode, field, holds.get()),
            (None, _, Some([mode_field, mode])) => ctx.replicate_hset_text(name, mode_field, mode),
            _ => true,
        };
    }

    #[cold]
    fn set_permit(&mut self, end: UnixMs) {
        self.sent &= self.entry.is_none_or(|owner| self.ctx.replicate_zadd(self.name, owner, end));
    }

    #[inline]
    fn remove(&mut self) {
        self.sent &= self.entry.is_none_or(|entry| self.send_removal(entry));
    }

    #[inline]
    fn expire(&mut self, at: UnixMs) {
        self.sent &= self.ctx.replicate_pexpireat(self.name, at);
    }
}

/// Raises the events of a change; `buried`: fields or members of dead holders were there.
#[inline(always)]
pub(super) fn notify(ctx: Ctx<'_>, name: StringRef<'_>, change: &Change, buried: bool) {
    change.each_effect(&mut Events { ctx, name, mode: change.mode, buried });
}

struct Events<'e> {
    ctx: Ctx<'e>,
    name: StringRef<'e>,
    mode: Mode,
    buried: bool,
}

impl Events<'_> {
    fn notify_removal(&self) {
        if self.mode == Mode::Permit {
            self.ctx.notify(EventClass::SortedSet, own_event::ZREM, self.name);
        } else {
            self.ctx.notify(EventClass::Hash, own_event::HDEL, self.name);
        }
    }
}

impl Effects for Events<'_> {
    #[cold]
    fn bury(&mut self, _: &[Holder]) {
        if self.buried {
            self.notify_removal();
        }
    }

    #[inline]
    fn delete(&mut self) {
        self.ctx.notify(EventClass::Generic, own_event::DEL, self.name);
    }

    #[inline]
    fn set_fields(&mut self, _: Option<Mode>, _: Option<Holds>) {
        self.ctx.notify(EventClass::Hash, own_event::HSET, self.name);
    }

    #[cold]
    fn set_permit(&mut self, _: UnixMs) {
        self.ctx.notify(EventClass::SortedSet, own_event::ZADD, self.name);
    }

    #[inline]
    fn remove(&mut self) {
        // One `zrem` covers the owner's permit and the ended ones.
        if self.mode != Mode::Permit || !self.buried {
            self.notify_removal();
        }
    }

    #[inline]
    fn expire(&mut self, _: UnixMs) {
        self.ctx.notify(EventClass::Generic, own_event::EXPIRE, self.name);
    }
}
