//! A server of plain data in which the steps of `rlock-core` run: the model checker explores it, the fuzzer
//! drives it. It behaves like a real server as far as locks can notice, and only its user makes anything happen:
//! the user lets time pass, fires a timer that is due, and delivers the answer to a blocked client.
//!
//! - [`World`]: all data of a server except the core's state of its locks; it can be cloned and compared.
//! - [`Sim`]: a world in use, with the effects of clients, of other clients without the module, and of time.
//!
//! An expired key is deleted only when a client or the module opens it: a real server may delete it at any later
//! time, and a wake-up must not depend on it.

mod change;
mod fair;
mod server;
mod world;

use std::cell::RefCell;
use std::mem::take;

use rlock_core::commands::Answer;
use rlock_core::locks::{Cause, Databases, LockRef, Locks, Ticket};
use rlock_core::node::Node;
use rlock_core::request::{Acquire, Cancel, ForceRelease, Release, Renew};
use rlock_core::settings::Settings;
use rlock_core::{Error, Expiry, Holds, Reply, departures, observed, sessions, timer, timing};

pub use fair::SimFairList;
pub use server::SimLock;
pub use world::{Client, Hold, Message, Permits, ReadWrite, Value, World};

/// A world in use.
pub struct Sim {
    world: RefCell<World>,
    locks: RefCell<Locks>,
}

impl Sim {
    /// A server with nothing in it.
    pub fn new(settings: Settings) -> Self {
        Self::resume(World::new(settings), Locks::default())
    }

    /// A server as it was.
    pub fn resume(world: World, locks: Locks) -> Self {
        Self { world: RefCell::new(world), locks: RefCell::new(locks) }
    }

    /// The server as it is, and the core's state of its locks.
    pub fn into_parts(self) -> (World, Locks) {
        (self.world.into_inner(), self.locks.into_inner())
    }

    /// Reads or changes the core's state of the locks.
    pub fn locks<T>(&self, body: impl FnOnce(&mut Locks) -> T) -> T {
        body(&mut self.locks.borrow_mut())
    }

    /// Reads the world, or changes it behind the server's back.
    pub fn with<T>(&self, body: impl FnOnce(&mut World) -> T) -> T {
        body(&mut self.world.borrow_mut())
    }

    /// The server with its waiters, for the steps of `rlock-core`.
    pub fn node(&self) -> Node<'_, Self> {
        Node::new(self, &self.locks)
    }

    fn lock<'a>(&'a self, lock: &'a LockRef) -> SimLock<'a> {
        SimLock { sim: self, lock }
    }

    /// RLOCK.ACQUIRE by a client. After [`Answer::Later`] the client is blocked, with a ticket in
    /// [`World::clients`].
    pub fn acquire(&self, client: u64, lock: &LockRef, request: &Acquire<'_>) -> Result<Answer, Error> {
        self.call_on(client, lock);
        self.node().at(&mut self.lock(lock)).acquire(request)
    }

    /// RLOCK.RELEASE.
    pub fn release(&self, lock: &LockRef, request: &Release<'_>) -> Result<Reply, Error> {
        self.node().at(&mut self.lock(lock)).release(request)
    }

    /// RLOCK.RENEW.
    pub fn renew(&self, lock: &LockRef, request: &Renew<'_>) -> Result<Reply, Error> {
        self.node().at(&mut self.lock(lock)).renew(request)
    }

    /// RLOCK.CANCEL.
    pub fn cancel(&self, lock: &LockRef, request: &Cancel<'_>) -> Result<Reply, Error> {
        self.node().at(&mut self.lock(lock)).cancel(request)
    }

    /// RLOCK.FORCERELEASE.
    pub fn force_release(&self, lock: &LockRef, request: &ForceRelease<'_>) -> Result<Reply, Error> {
        self.node().at(&mut self.lock(lock)).force_release(request)
    }

    /// Time passes on both clocks; a timer that falls due waits to be fired.
    pub fn pass(&self, ms: u64) {
        self.with(|world| {
            world.clock.0 += ms;
            world.now.0 += i64::try_from(ms).unwrap_or(i64::MAX);
        });
    }

    /// Whether the timer has fallen due.
    pub fn timer_is_due(&self) -> bool {
        self.with(|world| world.timer.is_some_and(|at| at <= world.clock))
    }

    /// Fires the timer, if it is due.
    pub fn fire(&self) {
        if self.timer_is_due() {
            self.with(|world| world.timer = None);
            timer::on_timer(self.node());
        }
    }

    /// Time passes, and the timer fires whenever it falls due.
    pub fn pass_and_fire(&self, ms: u64) {
        let end = self.with(|world| world.clock.0 + ms);
        loop {
            let (clock, timer) = self.with(|world| (world.clock.0, world.timer));
            match timer.filter(|at| at.0 <= end) {
                // A timer that is always due fires in one event-loop cycle a millisecond.
                Some(at) => {
                    self.pass(at.0.saturating_sub(clock));
                    self.fire();
                    if self.timer_is_due() && self.with(|world| world.clock.0) < end {
                        self.pass(1);
                    } else if self.timer_is_due() {
                        return;
                    }
                }
                None => return self.pass(end - clock),
            }
        }
    }

    /// Delivers the answer to a client.
    pub fn deliver(&self, ticket: Ticket) -> Option<Result<Reply, Error>> {
        self.with(|world| {
            let client = world.clients.get(&ticket)?;
            let answer = client.answer.clone()?;
            world.clients.remove(&ticket);
            self.locks(|locks| locks.answered(ticket));
            Some(answer)
        })
    }

    /// A client that is blocked, or has an undelivered answer, disconnects.
    pub fn disconnect(&self, ticket: Ticket) {
        if !self.with(|world| world.clients.contains_key(&ticket)) {
            return;
        }
        departures::client_disconnected(self.node(), ticket);
        self.with(|world| world.clients.remove(&ticket));
    }

    /// A connection without a blocked call ends.
    pub fn end_connection(&self, client: u64) {
        sessions::connection_ended(self.node(), client);
    }

    /// The next call comes on the connection with this id.
    pub fn call_on(&self, client: u64, lock: &LockRef) {
        self.with(|world| world.calling = Some((client, lock.clone())));
    }

    /// Another client writes a key without the module: it deletes the key, takes the lock, or makes its lease longer.
    pub fn write_as_other(&self, lock: &LockRef, value: Option<Value>) {
        // A write opens the key.
        self.expire(lock);
        let cause = if value.is_none() { Cause::Deleted } else { Cause::Other };
        let expiry = value.as_ref().map(Value::expiry);
        let before = self.with(|world| match value {
            Some(value) => world.keys.insert(lock.clone(), value),
            None => world.keys.remove(lock),
        });
        if matches!(expiry, Some(Expiry::At(_))) && expiry != before.as_ref().map(Value::expiry) {
            self.node().at(&mut self.lock(lock)).expiry_set();
        }
        observed::key_changed(self.node(), lock.name(), cause);
    }

    /// Another client takes the lock without the module, if it is free. Returns whether it did.
    pub fn acquire_as_other(&self, lock: &LockRef, owner: &[u8], expiry: Expiry) -> bool {
        self.expire(lock);
        if self.with(|world| world.keys.contains_key(lock)) {
            return false;
        }
        let hold = Hold { owner: owner.into(), holds: Holds::ONE, expiry };
        self.write_as_other(lock, Some(Value::Lock(hold)));
        true
    }

    /// Deletes all keys at once, without an event for each.
    pub fn flush(&self) {
        self.with(|world| {
            world.keys.clear();
            world.read_leases.clear();
            world.tokens.clear();
            world.fair.clear();
        });
        observed::databases_changed(self.node(), Databases::All, Cause::Flushed);
    }

    /// SWAPDB: exchanges the keys of two databases, without an event for each.
    pub fn swap(&self, [one, other]: [i32; 2]) {
        let moved = |db: i32| match db {
            db if db == one => other,
            db if db == other => one,
            db => db,
        };
        let there = |lock: LockRef| LockRef { db: moved(lock.db), key: lock.key };
        self.with(|world| {
            world.keys =
                take(&mut world.keys).into_iter().map(|(lock, value)| (there(lock), value)).collect();
            world.fair = take(&mut world.fair).into_iter().map(|(lock, list)| (there(lock), list)).collect();
            world.tokens =
                take(&mut world.tokens).into_iter().map(|(lock, token)| (there(lock), token)).collect();
            let leases = take(&mut world.read_leases).into_iter();
            world.read_leases =
                leases.map(|((lock, owner, number), ends)| ((there(lock), owner, number), ends)).collect();
        });
        observed::databases_swapped(self.node(), [one, other]);
    }

    /// The server becomes a replica.
    pub fn demote(&self) {
        self.with(|world| world.primary = false);
        departures::demoted(self.node());
    }

    /// The server is the primary again.
    pub fn promote(&self) {
        self.with(|world| world.primary = true);
        departures::promoted(self.node());
    }

    /// The server is a replica, and has the data of its primary: the same that it had.
    pub fn synchronise(&self) {
        departures::synchronised(self.node());
    }

    /// The wall clock is set forward or back, and the server's next beat notices it.
    pub fn step_clock(&self, ms: i64) {
        self.with(|world| world.now.0 = world.now.0.saturating_add(ms));
        observed::clock_stepped(self.node());
        timing::restart_timer(self.node());
    }

    /// Deletes an expired key, as a server does when a client opens it, or in the background.
    pub fn expire(&self, lock: &LockRef) {
        if self.with(|world| world.take_expired(lock)) {
            observed::key_changed(self.node(), lock.name(), Cause::Expired);
        }
    }
}
