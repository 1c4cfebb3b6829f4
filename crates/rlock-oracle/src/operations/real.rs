//! The steps of `rlock-core` in a simulated server, translated into the oracle's types.

use rlock_core::facts::WriteAccess;
use rlock_core::locks::{Limits, Locks, Ticket, TieLimits, Turns, Usage};
use rlock_core::request::{self, Acquire, DownTo};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{
    Admission, Error, Holds, LeaseMs, PermitLimit, Reply, Wanted, commands, observed, sessions,
};
use rlock_sim::{Sim, World};

use super::op::{CHANNELS, Channel, Count, Ground, LOCKS, Lock, Ms, Op, Owner, Wait, Word};
use super::options::{Budget, Options};
use super::real_words::{answer, error, id, lease, name, said};
use super::values::Answer;

/// `rlock-core` in a simulated server.
pub(super) struct Real {
    pub(super) sim: Sim,
    /// The tickets of the calls that have blocked, in order.
    pub(super) tickets: Vec<Ticket>,
    /// The connection of the next command, and its SESSION.
    pub(super) calls_on: (u64, Option<LeaseMs>),
}

/// The users of the connections.
const USERS: [&[u8]; 2] = [b"eve", b"bob"];

/// How many waiters of a lock count for a user.
fn waiters_of(locks: &Locks, lock: Lock, user: &[u8]) -> usize {
    locks.records.in_order(id(lock).name()).filter(|waiter| waiter.user.as_deref() == Some(user)).count()
}

impl Real {
    pub(super) fn new(options: Options) -> Self {
        let settings = Settings {
            admission: Admission::Open,
            limits: Limits {
                server: options.max_waiters,
                lock: options.max_waiters_per_key,
                user: usize::MAX,
            },
            grant_confirm: lease(Ms(options.grant_confirm)),
            turns: Turns { after_grants: options.turn_grants, after_ms: options.turn_ms },
            yield_window: LeaseMs::new(options.window.cast_signed()),
            fair_turn: lease(Ms(options.fair_turn)),
            max_ties: TieLimits { server: 1_000, user: 1_000 },
            hot_locks: 2,
            at_once: match options.budget {
                Budget::Usual => AtOnce::USUAL,
                // The oracle knows at once which readers are dead.
                Budget::HalfDone(few) => {
                    AtOnce { ended: few, listed: few, served: few, looked: few, ..AtOnce::USUAL }
                }
            },
        };
        let sim = Sim::new(settings);
        sim.with(|world| world.subscribed = CHANNELS.iter().map(|name| name.as_bytes().into()).collect());
        Self { sim, tickets: Vec::new(), calls_on: (0, None) }
    }

    /// Performs an operation, except the passing of time. Returns the answer to the caller, if there is one.
    #[expect(clippy::too_many_lines, reason = "a case for each operation")]
    pub(super) fn step(&mut self, op: Op) -> Option<Answer> {
        match op {
            Op::Acquire { lock, owner, word, lease, holds, wait, fenced, fair } => {
                return Some(self.acquire(lock, owner, (word, lease, fenced, fair), holds, wait));
            }
            Op::ByOther { lock, what } => self.other_write(lock, what),
            Op::ByList { lock, what } => self.by_list(lock, what),
            Op::Sweep => {
                observed::sweep_periodically(self.sim.node());
                sessions::on_beat(self.sim.node());
            }
            Op::Flush => self.sim.flush(),
            Op::Step(ms) => {
                self.expire_all();
                self.sim.step_clock(ms);
            }
            Op::Subscribe(Channel(channel), subscribed) => {
                let name = CHANNELS[channel].as_bytes();
                self.sim.with(|world| match subscribed {
                    true => world.subscribed.insert(name.into()),
                    false => world.subscribed.remove(name),
                });
            }
            Op::Listen(listened) => self.sim.with(|world| {
                world.redisson_waiters = listened.into();
                world.redisson_writers = listened.into();
            }),
            Op::Ground(ground) => self.sim.with(|world| {
                world.may_write = ground != Ground::Paused;
                world.write_access = match ground {
                    Ground::Firm => WriteAccess::Allowed,
                    Ground::Paused | Ground::Refused => WriteAccess::Refused,
                    Ground::Moved => WriteAccess::SlotMoved,
                };
            }),
            Op::Primary(true) => {
                if !self.sim.with(|world| world.primary) {
                    self.sim.promote();
                }
            }
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

    /// A connection ends, and with it the call that is blocked on it.
    pub(super) fn close(&self, client: u64) {
        let calls = |world: &mut World| {
            let of = world.clients.iter().filter(|(_, of)| of.id == client);
            of.map(|(ticket, _)| *ticket).collect::<Vec<_>>()
        };
        self.sim.with(calls).into_iter().for_each(|ticket| self.sim.disconnect(ticket));
        self.sim.end_connection(client);
    }

    /// Each connection has one of two users. The counts of a user are those of its waiters and ties.
    pub(super) fn users_agree(&self, story: &str) {
        let usage = |user: &&[u8]| self.sim.locks(|locks| locks.users.usage(Some(user)));
        let of = |user: &[u8]| {
            let queues =
                (0..LOCKS.len()).map(|lock| self.sim.locks(|locks| waiters_of(locks, Lock(lock), user)));
            queues.sum::<usize>()
        };
        for user in USERS {
            assert_eq!(usage(&user).waiters, of(user), "{story}: the waiters of a user");
        }
        let ties: usize = USERS.iter().map(usage).map(Usage::ties).sum();
        assert_eq!(
            ties,
            self.sim.locks(|locks| locks.sessions.tie_count()),
            "{story}: the ties of all users"
        );
    }

    fn log_in(&self, client: u64) {
        // Only a call without SESSION comes on no connection.
        if let Some(user) = client.checked_sub(1).and_then(|client| USERS.get(client as usize % 2)) {
            self.sim.with(|world| world.users.insert(client, (*user).into()));
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
                let (client, session) = self.calls_on;
                self.log_in(client);
                sim.call_on(client, &id(lock));
                sim.renew(&id(lock), &request::Renew { owner, lease, mode, session })
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
        let wanted = match word {
            Word::None => Wanted::Mutex,
            Word::Read => Wanted::Read,
            Word::Write => Wanted::Write,
            Word::Permit => Wanted::Permit(PermitLimit::new(owner.permits().into()).expect("a limit")),
        };
        let (owner, lease) = (name(owner), lease(new));
        let in_multi = matches!(wait, Wait::BlockInMulti(_));
        let ((client, session), wait) = (self.calls_on, wait_asked);
        let request = Acquire { owner, lease, wanted, fair, arrive_at, fenced, session, wait };
        self.log_in(client);
        self.sim.with(|world| world.may_block = world.primary && !in_multi);
        match self.sim.acquire(client, &id(lock), &request) {
            Ok(commands::Answer::Now(reply)) => answer(reply),
            Ok(commands::Answer::Later) => {
                let newest = self.sim.with(|world| world.clients.keys().next_back().copied());
                self.tickets.extend(newest);
                Answer::Blocked
            }
            Err(refused) => error(&refused),
        }
    }

    /// When the timer fires, by the clock that never steps.
    pub(super) fn timer(&self) -> Option<u64> {
        self.sim.with(|world| world.timer.map(|at| at.0))
    }

    pub(super) fn deliver(&self, call: usize) -> Option<Answer> {
        self.sim.deliver(self.tickets[call]).map(|reply| reply.map_or_else(|e| error(&e), answer))
    }

    pub(super) fn disconnect(&self, call: usize) {
        self.sim.disconnect(self.tickets[call]);
    }
}
