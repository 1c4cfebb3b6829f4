//! The parts of a read/write lock besides its holds: the field `mode`, the form of its hash, and the lease keys of readers.

use rlock_core::{Change, Error, KeyChange, Mode, ReadLeases, UnixMs, names};

use crate::ffi::{
    Ctx, EventClass, Key, MODE, OwnedString, READ, StringRef, TOO_LONG_TO_PACK, WRITE, own_event,
};

/// The value of the hash's field `mode`.
pub(super) fn word(mode: Mode) -> StringRef<'static> {
    if mode == Mode::Write { WRITE.get() } else { READ.get() }
}

/// A hash that gets more and more readers is unpacked at each multiple of this number of fields.
const UNPACKED_AT: usize = 16;

/// Makes sure that a reader of many costs no more than a reader of few. The server stores a hash of up to 128 fields
/// as a listpack, which it searches from the start for each field. A value that is too long for a listpack turns the
/// hash into a table, which it stays; a server with other limits follows these. The module repeats this now and then,
/// since a server that loads the hash packs it again. Replicas and AOF receive nothing: the content is the same.
#[inline(always)]
pub(super) fn unpack(key: &mut Key<'_>, change: &Change) -> bool {
    change.shared.is_none() || unpack_shared(key, change)
}

fn unpack_shared(key: &mut Key<'_>, change: &Change) -> bool {
    let joins =
        change.leases().set.is_some() && matches!(change.key, KeyChange::Set(holds) if holds.get() == 1);
    if !joins || !key.len().is_multiple_of(UNPACKED_AT) {
        return true;
    }
    let Some(mode) = key.field(MODE.get()) else { return true };
    key.set_text(MODE.get(), TOO_LONG_TO_PACK.get()) && key.set_text(MODE.get(), mode.borrow())
}

/// The lease keys that a change writes and deletes.
pub(super) struct LeaseKeys {
    set: Vec<OwnedString>,
    gone: Vec<OwnedString>,
    until: UnixMs,
}

impl LeaseKeys {
    /// The lease keys of a change; `None` for all changes but those of readers.
    #[inline]
    pub(super) fn of(name: StringRef<'_>, owner: Option<StringRef<'_>>, change: &Change) -> Option<Self> {
        let leases = change.shared.as_ref()?.leases;
        (leases != ReadLeases::default()).then(|| Self::named(name, owner, leases))
    }

    #[inline(never)]
    fn named(
        name: StringRef<'_>,
        owner: Option<StringRef<'_>>,
        ReadLeases { set, gone }: ReadLeases,
    ) -> Self {
        let owner = owner.map_or(&[][..], StringRef::bytes);
        let keys = |first: i64, last: i64| {
            let key = |hold| OwnedString::new(&names::read_lease_key(name.bytes(), owner, hold));
            (first..=last).map(key).collect()
        };
        let (set, until) = match set {
            Some((first, last, until)) => (keys(first, last), until),
            None => (Vec::new(), UnixMs(0)),
        };
        let gone = gone.map_or(Vec::new(), |(first, last)| keys(first, last));
        Self { set, gone, until }
    }

    /// Writes and deletes the lease keys. The lock's own key is closed: the server may notify other modules.
    pub(super) fn write(&self, ctx: Ctx<'_>) -> Result<(), Error> {
        let mut written = true;
        for lease in &self.set {
            let mut key = Key::open_write(ctx, lease.borrow());
            written &= key.set_integer(1) && key.set_expiry(self.until);
            drop(key);
            ctx.signal_modified(lease.borrow());
        }
        for lease in &self.gone {
            written &= Key::open_write(ctx, lease.borrow()).delete();
            ctx.signal_modified(lease.borrow());
        }
        if written { Ok(()) } else { Err(Error::Internal("the server refused a write")) }
    }

    /// Sends the changes of the lease keys to replicas and AOF.
    pub(super) fn replicate(&self, ctx: Ctx<'_>) -> bool {
        let set = self.set.iter().all(|lease| ctx.replicate_lease(lease.borrow(), self.until));
        set && self.gone.iter().all(|lease| ctx.replicate_del(lease.borrow()))
    }

    /// Raises the events of the lease keys.
    pub(super) fn notify(&self, ctx: Ctx<'_>) {
        for lease in &self.set {
            ctx.notify(EventClass::String, c"set", lease.borrow());
            ctx.notify(EventClass::Generic, own_event::EXPIRE, lease.borrow());
        }
        for lease in &self.gone {
            ctx.notify(EventClass::Generic, own_event::DEL, lease.borrow());
        }
    }
}
