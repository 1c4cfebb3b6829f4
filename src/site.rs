//! The answers of this server to the rules of `rlock-core`: a context is the server, and a [`SiteLock`] a
//! lock in it.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::ptr;

use rlock_core::decision::UnlockMessage;
use rlock_core::facts::{Holder, Permits, ReadLease, WriteAccess};
use rlock_core::locks::{LockName, Ticket, User};
use rlock_core::note::Note;
use rlock_core::port::{InCommand, InTask, Lock, ReaderPage, Server};
use rlock_core::settings::Settings;
use rlock_core::{Change, Error, Expiry, Fields, MonoMs, Reply, UnixMs};

use crate::fair::SiteFairList;
use crate::ffi::{
    CommandCtx, Ctx, DEFAULT_USER, EventClass, Key, OwnedString, ScopedCtx, StringRef, TaskCtx, is_primary,
    listen_to_keys,
};
use crate::perform::Performed;
use crate::scope::Scope;
use crate::{arriving, keyspace, options, perform, permits, readers, stats, waiters};

impl<S: Scope> Server for ScopedCtx<'_, S> {
    type Lock<'s> = SiteLock<'s, S>;
    type Performed = Performed;

    fn now(&self) -> UnixMs {
        self.real_time()
    }

    fn clock(&self) -> MonoMs {
        Ctx::clock(**self)
    }

    fn settings(&self) -> Settings {
        options::settings()
    }

    fn is_primary(&self) -> bool {
        is_primary(**self)
    }

    fn may_write(&self) -> bool {
        Ctx::may_write(**self)
    }

    fn answer(&self, ticket: Ticket, answer: Result<Reply, Error>) {
        waiters::unblock(ticket, answer);
    }

    fn tell(&self, channel: &[u8], message: &[u8]) {
        Ctx::tell(**self, channel, message);
    }

    fn has_subscriber(&self, channel: &[u8]) -> bool {
        Ctx::has_subscriber(**self, channel)
    }

    fn set_timer(&self, in_ms: Option<u64>) {
        waiters::set_timer(**self, in_ms);
    }

    fn listen_to_keys(&self) {
        // If the server refuses, its first command that needs them says so.
        let _ = listen_to_keys(**self);
    }

    fn note(&self, note: Note<'_>) {
        stats::count(&note);
    }
}

impl InCommand for CommandCtx<'_> {
    fn may_block(&self) -> bool {
        CommandCtx::may_block(*self)
    }

    fn client_id(&self) -> u64 {
        CommandCtx::client_id(*self)
    }

    fn user(&self) -> Option<User> {
        let name = CommandCtx::user(*self)?;
        (name.borrow().bytes() != DEFAULT_USER).then(|| name.borrow().bytes().into())
    }

    fn block(&self, ticket: Ticket, has_own_user: bool) -> Result<(), Error> {
        waiters::block(*self, ticket, has_own_user)
    }
}

impl InTask for TaskCtx<'_> {
    fn at<T>(&self, lock: LockName<'_>, body: impl FnOnce(&mut Self::Lock<'_>) -> T) -> Option<T> {
        if !self.select(lock.db) {
            return None;
        }
        let name = OwnedString::new(lock.key);
        if arriving::is_arriving(**self, name.borrow()) {
            return None;
        }
        Some(body(&mut SiteLock::new(*self, name.borrow())))
    }
}

/// A lock in this server.
pub(crate) struct SiteLock<'s, S> {
    ctx: ScopedCtx<'s, S>,
    name: StringRef<'s>,
    /// Asked for when it is first needed, which is never on a server without waiters.
    place: OnceCell<LockName<'s>>,
}

impl<'s, S: Scope> SiteLock<'s, S> {
    /// The lock of this name.
    pub(crate) fn new(ctx: ScopedCtx<'s, S>, name: StringRef<'s>) -> Self {
        Self { ctx, name, place: OnceCell::new() }
    }

    /// Runs `body` with the owner's field as a string of the server's: the very argument of the command
    /// where it is the caller that is meant.
    #[inline(always)]
    fn with_owner<T>(&self, owner: Option<&[u8]>, body: impl FnOnce(Option<StringRef<'_>>) -> T) -> T {
        let caller =
            owner.and_then(|owner| self.ctx.scope().caller().filter(|caller| ptr::eq(caller.bytes(), owner)));
        let made = if caller.is_none() { owner.map(OwnedString::new) } else { None };
        body(caller.or(made.as_ref().map(OwnedString::borrow)))
    }
}

impl<'s, S: Scope> Lock for SiteLock<'s, S> {
    type Key = Key<'s>;
    type Performed = Performed;
    type FairList<'f>
        = SiteFairList<'s>
    where
        Self: 'f;

    fn name(&self) -> LockName<'_> {
        *self.place.get_or_init(|| LockName { db: self.ctx.db(), key: self.name.bytes() })
    }

    fn open(&mut self) -> Key<'s> {
        Key::open_write(*self.ctx, self.name)
    }

    fn state(&self, key: &Key<'s>, owner: Option<&[u8]>) -> Result<Fields, Error> {
        let is_known = || waiters::locks(|locks| locks.records.has_known_readers(Lock::name(self)));
        self.with_owner(owner, |owner| keyspace::state(key, owner, is_known, || Server::now(&self.ctx)))
    }

    fn is_read(&self, key: &Key<'s>) -> bool {
        keyspace::is_read(key)
    }

    fn read_lease(&self, reader: &[u8], hold: i64) -> ReadLease {
        readers::lease(*self.ctx, self.name, reader, hold)
    }

    fn check_leases(&self, reader: &[u8]) -> Result<(), Error> {
        S::check_lease_key(self.ctx, reader)
    }

    fn readers(&self, visit: &mut dyn FnMut(Holder) -> ControlFlow<()>) -> Result<(), Error> {
        readers::each(*self.ctx, Lock::name(self), self.name, visit)
    }

    fn readers_from(&self, cursor: u64, most: usize) -> Result<Option<ReaderPage>, Error> {
        readers::page(*self.ctx, self.name, cursor, most)
    }

    fn some_readers(&self, most: usize) -> Vec<Holder> {
        readers::some(*self.ctx, Lock::name(self), self.name, most, self.ctx.real_time())
    }

    fn permits(&self, key: &Key<'s>, owner: Option<&[u8]>) -> Permits {
        self.with_owner(owner, |owner| permits::of(key, owner, Server::now(&self.ctx)))
    }

    fn living_permits(&self) -> u32 {
        // In doubt there is no room: too many holders do harm, a wait until one ends does less.
        permits::living(*self.ctx, self.name, Server::now(&self.ctx)).unwrap_or(u32::MAX)
    }

    fn fair_list(&self) -> SiteFairList<'s> {
        SiteFairList::of(*self.ctx, self.name)
    }

    fn last_token(&self) -> Result<Option<i64>, Error> {
        keyspace::last_token(*self.ctx, self.name)
    }

    fn expiry(&self, key: &Key<'s>) -> Expiry {
        key.expiry()
    }

    fn perform(&self, key: Key<'s>, owner: Option<&[u8]>, change: &Change) -> Result<Performed, Error> {
        self.with_owner(owner, |owner| perform::perform(self.ctx, key, owner, change))
    }

    fn raise(&self, change: &Change, performed: Performed) {
        perform::raise(*self.ctx, self.name, change, &performed);
    }

    fn publish(&self, message: UnlockMessage) -> bool {
        perform::publish(*self.ctx, self.name, message)
    }

    fn listeners(&self, message: UnlockMessage) -> u64 {
        perform::listeners(*self.ctx, self.name, message)
    }

    fn raise_expired(&self) {
        self.ctx.notify(EventClass::Module, c"rlock.expire", self.name);
    }

    fn slot_has_moved(&self) -> bool {
        self.ctx.slot_has_moved(self.name)
    }

    fn write_access(&self) -> WriteAccess {
        self.ctx.write_access(self.name)
    }
}
