//! The real thing: the steps of `rlock-core` in a simulated server, told in the oracle's words.

use std::collections::{BTreeMap, VecDeque};

use rlock_core::facts::WriteAccess;
use rlock_core::locks::{self, HeldBack, Limits, LockRef, Ticket, Turns};
use rlock_core::request::{self, Acquire, DownTo};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Admission, Error, Expiry, Holds, LeaseMs, Mode, Reply, UnixMs, call, events, read_repair};
use rlock_sim::{Sim, World};

use super::hash::Leases;
use super::op::{CHANNELS, Channel, Count, Ground, LOCKS, Lock, Ms, Op, Owner, Wait, Word};
use super::options::{Budget, Options};
use super::real_words::{
    answer, channel_of, entry, error, hash_of, holds_other, id, lease, lock_of, name, owner_of, said,
};
use super::values::{Answer, Entry, Value, Via, Waiter};
use super::writers::Gate;

/// `rlock-core` in a simulated server.
pub(super) struct Real {
    pub(super) sim: Sim,
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
            fair_turn: lease(Ms(options.fair_turn)),
            max_ties: 1_000,
            at_once: match options.budget {
                Budget::Usual => AtOnce::USUAL,
                Budget::HalfDone(few) => AtOnce { ended: few, listed: few, served: few, looked: few },
            },
        };
        let sim = Sim::new(settings);
        sim.with(|world| world.heard = CHANNELS.iter().map(|name| name.as_bytes().into()).collect());
        Self { sim, tickets: Vec::new() }
    }

    /// Lets it happen, all but time; says what the caller is told, if there is one.
    #[expect(clippy::too_many_lines, reason = "a case for each operation")]
    pub(super) fn step(&mut self, op: Op) -> Option<Answer> {
        match op {
            Op::Acquire { lock, owner, word, lease, holds, wait, fenced, fair } => {
                return Some(self.acquire(lock, owner, (word, lease, fenced, fair), holds, wait));
            }
            Op::Foreign { lock, what } => self.foreign(lock, what),
            Op::ByList { lock, what } => self.by_list(lock, what),
            Op::Sweep => events::check_fair_lists(self.sim.core()),
            Op::Flush => self.sim.flush(),
            Op::Step(ms) => {
                self.expire_all();
                self.sim.step_clock(ms);
            }
            Op::Subscribe(Channel(channel), heard) => {
                let name = CHANNELS[channel].as_bytes();
                self.sim.with(|world| match heard {
                    true => world.heard.insert(name.into()),
                    false => world.heard.remove(name),
                });
            }
            Op::Listen(listened) => self.sim.with(|world| {
                world.foreign_waiters = listened.into();
                world.foreign_writers = listened.into();
            }),
            Op::Ground(ground) => self.sim.with(|world| {
                world.may_write = ground != Ground::Paused;
                world.write_access = match ground {
                    Ground::Firm => WriteAccess::Allowed,
                    Ground::Paused | Ground::Refused => WriteAccess::Refused,
                    Ground::Moved => WriteAccess::SlotMoved,
                };
            }),
            Op::Primary(true) => self.promote(),
            Op::Primary(false) => {
                if !self.sim.with(|world| world.primary) {
                    self.sim.synchronise();
                }
                self.sim.demote();
            }
            Op::Accept(accept) => self.sim.with(|world| {
                world.settings.admission = if accept { Admission::Open } else { Admission::HoldersOnly };
            }),
            other => return self.command(other).map(|reply| reply.map_or_else(|e| error(&e), answer)),
        }
        None
    }

    /// The server becomes the primary, and finds the lists and the read leases that there are.
    fn promote(&self) {
        if self.sim.with(|world| world.primary) {
            return;
        }
        self.sim.promote();
        let found = |list: (&LockRef, &VecDeque<_>)| (!list.1.is_empty()).then(|| list.0.clone());
        let lists: Vec<_> = self.sim.with(|world| world.fair.iter().filter_map(found).collect());
        lists.into_iter().for_each(|lock| events::fair_list_found(self.sim.core(), lock));
        for lock in (0..LOCKS.len()).map(Lock) {
            read_repair::lock_found(self.sim.core(), id(lock).name(), usize::MAX);
        }
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
                let (owner, lease, mode) = (name(owner), lease(new), said(word));
                sim.renew(&id(lock), &request::Renew { owner, lease, mode, session: None })
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
        (word, new, fenced, fair): (Word, Ms, bool, bool),
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
        let (owner, lease, mode) = (name(owner), lease(new), said(word).unwrap_or_default());
        let in_multi = matches!(wait, Wait::BlockInMulti(_));
        let (permits, session, wait) = (None, None, wait_asked);
        let request = Acquire { owner, lease, mode, permits, fair, arrive_at, fenced, session, wait };
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

    /// The lease keys of a lock's readers.
    pub(super) fn leases(&self, lock: Lock) -> Leases {
        let (mut leases, now) = (self.leases_of(&id(lock)), self.sim.with(|world| world.now.0));
        leases.retain(|_, at| *at >= now);
        leases
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

    /// Whether a row of hand-offs is counted.
    pub(super) fn counts_grants(&self, lock: Lock) -> bool {
        let at_once = Turns { after_grants: 0, after_ms: 0 };
        let clock = self.sim.with(|world| world.clock);
        self.sim.locks(|locks| locks.yield_is_due(id(lock).name(), at_once, clock))
    }

    /// Whether the key is not even there as one that has expired.
    pub(super) fn is_gone(&self, lock: Lock) -> bool {
        self.sim.with(|world| !world.keys.contains_key(&id(lock)))
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
        self.sim.locks(|locks| {
            let waiters = locks.in_order(id(lock).name());
            waiters.map(|waiter| self.waiter(waiter)).collect()
        })
    }

    /// Redisson's list of those who wait.
    pub(super) fn list(&self, lock: Lock) -> Vec<Entry> {
        self.sim.with(|world| world.fair.get(&id(lock)).into_iter().flatten().map(entry).collect())
    }

    /// Who of Redisson's was called on its own channel since the last time of asking.
    pub(super) fn take_called(&self) -> Vec<(Lock, Owner)> {
        let called = self.sim.with(|world| std::mem::take(&mut world.called));
        called.iter().map(|(lock, owner)| (lock_of(lock), owner_of(owner))).collect()
    }

    /// Whether anybody was called for a lock since then.
    pub(super) fn has_called(&self, lock: Lock) -> bool {
        self.sim.with(|world| world.called.iter().any(|(called, _)| lock_of(called) == lock))
    }

    fn waiter(&self, waiter: &locks::Waiter) -> Waiter {
        let via = match &waiter.via {
            locks::Via::Block => Via::Call(self.call(waiter.ticket)),
            locks::Via::Enqueue(channel) => Via::Channel(channel_of(channel)),
        };
        let until = waiter.until.map(|at| at.0);
        let (lease, fenced) = (waiter.lease.get(), waiter.fenced);
        let word = match waiter.mode {
            Mode::Mutex => Word::None,
            Mode::Read => Word::Read,
            Mode::Write => Word::Write,
            Mode::Permit => unreachable!("no operation asks for permits"),
        };
        Waiter { owner: owner_of(&waiter.owner), word, lease, fenced, until, via, fair: waiter.fair }
    }

    /// Whether those who come to read are kept waiting.
    pub(super) fn gate(&self, lock: Lock) -> Gate {
        match self.sim.locks(|locks| locks.readers_held_back(id(lock).name())) {
            None => Gate::Open,
            Some(HeldBack::UntilFree { check_at }) => Gate::UntilFree { look_at: check_at.0 },
            Some(HeldBack::Window { until }) => Gate::Window { until: until.0 },
        }
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

    /// The messages that somebody heard since the last time of asking.
    pub(super) fn take_messages(&self) -> Vec<(Channel, String)> {
        let messages = self.sim.with(|world: &mut World| std::mem::take(&mut world.messages));
        let heard = messages.into_iter().filter(|message| message.heard);
        let text = |text| String::from_utf8(text).expect("a message is ASCII");
        heard.map(|message| (channel_of(&message.channel), text(message.text))).collect()
    }

    /// How many unlock messages there were for a lock since they were taken.
    pub(super) fn unlock_messages(&self, lock: Lock) -> usize {
        let lock = id(lock);
        self.sim.with(|world| world.unlock_messages.iter().filter(|of| **of == lock).count())
    }

    pub(super) fn take_unlock_messages(&self) {
        self.sim.with(|world| world.unlock_messages.clear());
    }

    /// How many grants by message ended without a sign of their owners since the last time of asking.
    pub(super) fn take_unconfirmed(&self) -> u32 {
        self.sim.with(|world| std::mem::take(&mut world.unconfirmed))
    }

    /// Whether the core has nothing left to remember.
    pub(super) fn is_blank(&self) -> bool {
        self.sim.locks(|locks| !locks.is_watched())
    }
}
