//! The real thing: the steps of `rlock-core` in a simulated server, told in the oracle's words.

use std::collections::BTreeMap;

use rlock_core::call;
use rlock_core::port::{self, Settings};
use rlock_core::queue::{self, Limits, LockId, Ticket, Turns};
use rlock_core::request::{self, Acquire, DownTo};
use rlock_core::{Admission, Error, Expiry, Holds, LeaseMs, Mode, Reply, UnixMs};
use rlock_sim::{Hold, ReadWrite, Sim, World};

use super::hash::{Hash, Leases, owners};
use super::op::{
    CHANNELS, Channel, Count, Foreign, Ground, LOCKS, Lock, Ms, OWNERS, Op, Options, Owner, Script, Wait,
    Word,
};
use super::redisson;
use super::state::{Answer, Value, Via, Waiter};

/// `rlock-core` in a simulated server.
pub(super) struct Real {
    sim: Sim,
    /// The tickets of the calls that have blocked, in order.
    tickets: Vec<Ticket>,
}

impl Real {
    pub(super) fn new(options: Options) -> Self {
        let settings = Settings {
            admission: Admission::Open,
            limits: Limits { server: options.max_waiters, lock: options.max_waiters_per_key },
            grant_confirm: lease(Ms(options.grant_confirm)),
            turns: Turns { after_grants: options.turn_grants, after_ms: options.turn_ms },
            foreign_window: LeaseMs::new(options.window.cast_signed()),
            fair_turn: LeaseMs::new(5_000).expect("a time"),
        };
        let sim = Sim::new(settings);
        sim.with(|world| world.heard = CHANNELS.iter().map(|name| name.as_bytes().into()).collect());
        Self { sim, tickets: Vec::new() }
    }

    /// Lets it happen, all but time; says what the caller is told, if there is one.
    pub(super) fn step(&mut self, op: Op) -> Option<Answer> {
        match op {
            Op::Acquire { lock, owner, word, lease, holds, wait, fenced } => {
                return Some(self.acquire(lock, owner, (word, lease, fenced), holds, wait));
            }
            Op::Foreign { lock, what } => self.foreign(lock, what),
            Op::Flush => self.sim.flush(),
            Op::Step(ms) => {
                self.expire_all();
                self.sim.step_clock(i64::from(ms));
            }
            Op::Subscribe(Channel(channel), heard) => {
                let name = CHANNELS[channel].as_bytes();
                self.sim.with(|world| match heard {
                    true => world.heard.insert(name.into()),
                    false => world.heard.remove(name),
                });
            }
            Op::Listen(listened) => self.sim.with(|world| world.foreign_waiters = listened.into()),
            Op::Ground(ground) => self.sim.with(|world| {
                world.may_write = ground != Ground::Paused;
                world.ground = match ground {
                    Ground::Firm => port::Ground::Firm,
                    Ground::Paused | Ground::Refused => port::Ground::Closed,
                    Ground::Moved => port::Ground::Moved,
                };
            }),
            Op::Primary(true) => self.sim.with(|world| world.primary = true),
            Op::Primary(false) => self.sim.demote(),
            Op::Accept(accept) => self.sim.with(|world| {
                world.settings.admission = if accept { Admission::Open } else { Admission::HoldersOnly };
            }),
            other => return self.command(other).map(|reply| reply.map_or_else(|e| error(&e), answer)),
        }
        None
    }

    fn command(&self, op: Op) -> Option<Result<Reply, Error>> {
        let sim = &self.sim;
        Some(match op {
            Op::Release { lock, owner, word, down_to, lease: new } => {
                let down_to = down_to.map_or(DownTo::OneLess, |Count(n)| DownTo::AtMost(n));
                let (mode, new) = (said(word), new.map(lease));
                sim.release(&id(lock), &request::Release { owner: name(owner), mode, down_to, lease: new })
            }
            Op::Renew { lock, owner, word, lease: new } => {
                let mode = said(word);
                sim.renew(&id(lock), &request::Renew { owner: name(owner), lease: lease(new), mode })
            }
            Op::Cancel { lock, owner } => sim.cancel(&id(lock), &request::Cancel { owner: name(owner) }),
            Op::ForceRelease { lock, owner } => {
                sim.force_release(&id(lock), &request::ForceRelease { owner: owner.map(name) })
            }
            _ => return None,
        })
    }

    fn acquire(
        &mut self,
        lock: Lock,
        owner: Owner,
        (word, new, fenced): (Word, Ms, bool),
        holds: Option<Count>,
        wait: Wait,
    ) -> Answer {
        let ms = |wait: super::op::WaitMs| rlock_core::WaitMs::new(wait.0).expect("a wait");
        let wait_asked = match wait {
            Wait::No => None,
            Wait::Block(wait) | Wait::BlockInMulti(wait) => Some(request::Wait::Block(ms(wait))),
            Wait::Enqueue(wait, channel) => {
                Some(request::Wait::Enqueue(ms(wait), CHANNELS[channel.0].as_bytes()))
            }
        };
        let arrive_at = holds.map(|Count(n)| Holds::new(n.max(1)).expect("holds"));
        let request = Acquire {
            owner: name(owner),
            lease: lease(new),
            mode: said(word).unwrap_or_default(),
            fair: false,
            arrive_at,
            fenced,
            wait: wait_asked,
        };
        let in_multi = matches!(wait, Wait::BlockInMulti(_));
        self.sim.with(|world| world.may_block = world.primary && !in_multi);
        match self.sim.acquire(0, &id(lock), &request) {
            Ok(call::Answer::Now(reply)) => answer(reply),
            Ok(call::Answer::Later) => {
                let newest = self.sim.with(|world| world.clients.keys().next_back().copied());
                self.tickets.extend(newest);
                Answer::Blocked
            }
            Err(refused) => error(&refused),
        }
    }

    fn foreign(&self, lock: Lock, what: Foreign) {
        let lock = &id(lock);
        let ends = |new: Option<Ms>| {
            new.map_or(Expiry::Never, |new| Expiry::At(self.sim.with(|world| world.now).after(lease(new))))
        };
        let write = |hold: Hold| self.sim.foreign_write(lock, Some(rlock_sim::Value::Lock(hold)));
        let held = || self.sim.with(|world| world.hold(lock).cloned());
        let shared = || self.sim.with(|world| world.read_write(lock).cloned());
        let with_ends = |ends: Expiry| {
            held().into_iter().for_each(|hold| write(Hold { expiry: ends, ..hold }));
            shared().into_iter().for_each(|value| {
                let value = rlock_sim::Value::ReadWrite(ReadWrite { expiry: ends, ..value });
                self.sim.foreign_write(lock, Some(value));
            });
        };
        match what {
            Foreign::Delete => self.sim.foreign_write(lock, None),
            Foreign::Take { owner, lease } => {
                self.sim.foreign_acquire(lock, name(owner).bytes(), ends(lease));
            }
            Foreign::Put { owner, holds: Count(holds), lease } => {
                let holds = Holds::new(holds.max(1)).expect("holds");
                write(Hold { owner: name(owner).bytes().into(), holds, expiry: ends(lease) });
            }
            Foreign::Spoil => self.sim.foreign_write(lock, Some(rlock_sim::Value::Other)),
            Foreign::Expire(new) => with_ends(ends(Some(new))),
            Foreign::Token(token) => self.sim.with(|world| {
                world.tokens.insert(lock.clone(), token.map(|Count(n)| n));
            }),
            Foreign::Persist => with_ends(Expiry::Never),
            Foreign::Redisson { script, owner, lease: Ms(lease) } => {
                self.redisson(lock, script, owner, lease)
            }
        }
    }

    /// A script of Redisson's changes a read/write lock, or takes one.
    fn redisson(&self, lock: &LockId, script: Script, owner: Owner, lease: i64) {
        let before = self.sim.with(|world| world.read_write(lock).map(hash_of));
        let is_free = self.sim.with(|world| world.hold(lock).is_none() && !holds_other(world, lock));
        if before.is_none() && !is_free {
            return;
        }
        let (mut leases, now) = (self.leases_of(lock), self.sim.with(|world| world.now.0));
        let hash = redisson::run(script, owner, lease, before, &mut leases, now);
        if hash != before {
            self.sim.foreign_write(lock, hash.map(|hash| rlock_sim::Value::ReadWrite(value_of(&hash))));
        }
        self.sim.with(|world| {
            world.read_leases.retain(|(of, ..), _| of != lock);
            for ((owner, hold), at) in leases {
                let key = (lock.clone(), name(owner).bytes().into(), hold);
                world.read_leases.insert(key, Expiry::At(UnixMs(at)));
            }
        });
    }

    /// The lease keys of a lock's readers, those that have ended too.
    fn leases_of(&self, lock: &LockId) -> Leases {
        self.sim.with(|world| {
            let of_lock = world.read_leases.iter().filter(|((of, ..), _)| of == lock);
            let ends = |expiry: &Expiry| match expiry {
                Expiry::At(UnixMs(at)) => *at,
                Expiry::Never => i64::MAX,
            };
            of_lock.map(|((_, owner, hold), expiry)| ((owner_of(owner), *hold), ends(expiry))).collect()
        })
    }

    /// The lease keys of a lock's readers.
    pub(super) fn leases(&self, lock: Lock) -> Leases {
        let (mut leases, now) = (self.leases_of(&id(lock)), self.sim.with(|world| world.now.0));
        leases.retain(|_, at| *at >= now);
        leases
    }

    /// The server finds time to delete what has expired.
    fn expire_all(&self) {
        let over = |world: &mut World| {
            let now = world.now;
            world.read_leases.retain(|_, expiry| !matches!(expiry, Expiry::At(at) if *at < now));
            let gone = |lock: &&LockId| {
                world.hold(lock).is_none() && world.read_write(lock).is_none() && !holds_other(world, lock)
            };
            world.keys.keys().filter(gone).cloned().collect::<Vec<_>>()
        };
        for lock in self.sim.with(over) {
            self.sim.foreign_write(&lock, None);
        }
    }

    pub(super) fn pass(&self, ms: u64) {
        self.sim.pass(ms);
    }

    pub(super) fn fire(&self) {
        self.sim.fire();
    }

    /// When the timer fires, by the clock that never steps.
    pub(super) fn timer(&self) -> Option<u64> {
        self.sim.with(|world| world.timer.map(|at| at.0))
    }

    pub(super) fn deliver(&self, call: usize) -> Option<Answer> {
        self.sim.deliver(self.tickets[call]).map(|told| told.map_or_else(|e| error(&e), answer))
    }

    pub(super) fn disconnect(&self, call: usize) {
        self.sim.disconnect(self.tickets[call]);
    }

    pub(super) fn value(&self, lock: Lock) -> Value {
        let lock = &id(lock);
        self.sim.with(|world| match world.hold(lock) {
            Some(hold) => Value::Held {
                by: owner_of(&hold.owner),
                holds: hold.holds.get(),
                ends: match hold.expiry {
                    Expiry::Never => None,
                    Expiry::At(UnixMs(at)) => Some(at),
                },
            },
            None if holds_other(world, lock) => Value::Other,
            None => world.read_write(lock).map_or(Value::Nothing, |value| Value::ReadWrite(hash_of(value))),
        })
    }

    pub(super) fn queue(&self, lock: Lock) -> Vec<Waiter> {
        self.sim.with(|world| {
            let waiters = world.queues.in_order(&id(lock));
            waiters.map(|waiter| self.waiter(waiter)).collect()
        })
    }

    fn waiter(&self, waiter: &queue::Waiter) -> Waiter {
        let via = match &waiter.via {
            queue::Via::Block => Via::Call(self.call(waiter.ticket)),
            queue::Via::Enqueue(channel) => Via::Channel(channel_of(channel)),
        };
        let until = waiter.until.map(|at| at.0);
        let (lease, fenced) = (waiter.lease.get(), waiter.fenced);
        let word = match waiter.mode {
            Mode::Mutex => Word::None,
            Mode::Read => Word::Read,
            Mode::Write => Word::Write,
        };
        Waiter { owner: owner_of(&waiter.owner), word, lease, fenced, until, via }
    }

    fn call(&self, ticket: Ticket) -> usize {
        self.tickets.iter().position(|known| *known == ticket).expect("a call that has blocked")
    }

    pub(super) fn calls(&self) -> BTreeMap<usize, Answer> {
        let told = |client: &rlock_sim::Client| match &client.answer {
            None => Answer::Blocked,
            Some(Ok(reply)) => answer(*reply),
            Some(Err(refused)) => error(refused),
        };
        self.sim.with(|world| {
            world.clients.iter().map(|(ticket, client)| (self.call(*ticket), told(client))).collect()
        })
    }

    /// The messages that somebody heard, and the number of unlock messages, since the last time of asking.
    pub(super) fn take_messages(&self) -> (Vec<(Channel, String)>, u32) {
        let (messages, published) = self.sim.with(|world: &mut World| {
            (std::mem::take(&mut world.messages), std::mem::take(&mut world.unlock_messages))
        });
        let heard = messages.into_iter().filter(|message| message.heard);
        let text = |text| String::from_utf8(text).expect("a message is ASCII");
        (heard.map(|message| (channel_of(&message.channel), text(message.text))).collect(), published)
    }

    /// How many grants by message ended without a sign of their owners since the last time of asking.
    pub(super) fn take_unconfirmed(&self) -> u32 {
        self.sim.with(|world| std::mem::take(&mut world.unconfirmed))
    }

    /// Whether the core has nothing left to remember.
    pub(super) fn is_blank(&self) -> bool {
        self.sim.with(|world| world.queues.is_blank())
    }
}

fn holds_other(world: &World, lock: &LockId) -> bool {
    world.keys.get(lock) == Some(&rlock_sim::Value::Other)
}

/// The mode that a word asks for.
fn said(word: Word) -> Option<Mode> {
    match word {
        Word::None => None,
        Word::Read => Some(Mode::Read),
        Word::Write => Some(Mode::Write),
    }
}

fn hash_of(value: &ReadWrite) -> Hash {
    let counts = |fields: &BTreeMap<Box<[u8]>, Holds>| {
        OWNERS.map(|name| fields.get(name.as_bytes()).map_or(0, |holds| holds.get()))
    };
    let (reads, writes) = (counts(&value.reads), counts(&value.writes));
    let ends = match value.expiry {
        Expiry::Never => None,
        Expiry::At(UnixMs(at)) => Some(at),
    };
    Hash { writing: value.writing, reads, writes, ends }
}

fn value_of(hash: &Hash) -> ReadWrite {
    let fields = |counts: [i64; OWNERS.len()]| {
        let all =
            owners().filter_map(|owner| Some((name(owner).bytes().into(), Holds::new(counts[owner.0])?)));
        all.collect()
    };
    let expiry = hash.ends.map_or(Expiry::Never, |at| Expiry::At(UnixMs(at)));
    ReadWrite { writing: hash.writing, reads: fields(hash.reads), writes: fields(hash.writes), expiry }
}

fn id(lock: Lock) -> LockId {
    let (db, key) = LOCKS[lock.0];
    LockId { db, key: key.as_bytes().into() }
}

fn name(owner: Owner) -> rlock_core::Owner<'static> {
    rlock_core::Owner::new(OWNERS[owner.0].as_bytes()).expect("an owner")
}

fn owner_of(bytes: &[u8]) -> Owner {
    Owner(OWNERS.iter().position(|name| name.as_bytes() == bytes).expect("one of the owners"))
}

fn channel_of(bytes: &[u8]) -> Channel {
    Channel(CHANNELS.iter().position(|name| name.as_bytes() == bytes).expect("one of the channels"))
}

fn lease(ms: Ms) -> LeaseMs {
    LeaseMs::new(ms.0).expect("a lease")
}

fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Acquired { holds, lease_ms, token } => Answer::Holds(holds.get(), lease_ms, token),
        Reply::Enqueued => Answer::Enqueued,
        Reply::Denied | Reply::NotHeld => Answer::Null,
        Reply::Released | Reply::Renewed | Reply::Cancelled | Reply::Forced => Answer::One,
        Reply::StillHeld | Reply::NotRenewed | Reply::NotQueued | Reply::NothingToForce => Answer::Zero,
    }
}

fn error(error: &Error) -> Answer {
    let line = error.to_string();
    let prefixes = ["ERR", "WRONGTYPE", "WRONGLOCK", "QUEUEFULL", "UNBLOCKED"];
    let prefix = prefixes.into_iter().find(|prefix| line.split(' ').next() == Some(prefix));
    Answer::Error(prefix.expect("a known prefix"))
}
