//! The queues against a plain list, through random histories. A failure prints the shortest history that
//! fails, and proptest keeps its seed beside this file.

use proptest::prelude::*;
use rlock_core::locks::{Limits, LockRef, Locks, Ticket, Via, Waiter};
use rlock_core::{Error, LeaseMs, Mode, MonoMs, UnixMs};

const LIMITS: Limits = Limits { server: 12, lock: 6 };

#[derive(Clone, Debug)]
enum Step {
    Join { lock: u8, owner: u8, waits_ms: Option<u64>, channel: Option<u8> },
    Cancel { lock: u8, owner: u8 },
    Pop { lock: u8 },
    Leave { ticket: u64 },
    DropChannel { lock: u8, channel: u8 },
    Pass { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lock = 0..3_u8;
    let owner = 0..8_u8;
    let step = prop_oneof![
        6 => (lock.clone(), owner.clone(), prop::option::of(1..50_u64), prop::option::of(0..2_u8)).prop_map(
            |(lock, owner, waits_ms, channel)| Step::Join { lock, owner, waits_ms, channel }
        ),
        1 => (lock.clone(), owner).prop_map(|(lock, owner)| Step::Cancel { lock, owner }),
        2 => lock.clone().prop_map(|lock| Step::Pop { lock }),
        1 => (0..40_u64).prop_map(|ticket| Step::Leave { ticket }),
        1 => (lock, 0..2_u8).prop_map(|(lock, channel)| Step::DropChannel { lock, channel }),
        1 => (1..30_u64).prop_map(|ms| Step::Pass { ms }),
    ];
    prop::collection::vec(step, 0..120)
}

/// What a waiter is in the plain list, which is in order.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    lock: u8,
    owner: u8,
    ticket: u64,
    until: Option<u64>,
    channel: Option<u8>,
}

#[derive(Default)]
struct Model {
    waiting: Vec<Plain>,
}

impl Model {
    fn join(&mut self, new: Plain) -> Result<Option<u64>, Error> {
        let same = |old: &&mut Plain| (old.lock, old.owner) == (new.lock, new.owner);
        if let Some(old) = self.waiting.iter_mut().find(same) {
            let replaced = old.ticket;
            *old = new;
            return Ok(Some(replaced));
        }
        let for_lock = self.waiting.iter().filter(|old| old.lock == new.lock).count();
        if self.waiting.len() >= LIMITS.server || for_lock >= LIMITS.lock {
            return Err(Error::QueueFull);
        }
        self.waiting.push(new);
        Ok(None)
    }

    fn take(&mut self, wanted: impl Fn(&Plain) -> bool) -> Option<u64> {
        let at = self.waiting.iter().position(wanted)?;
        Some(self.waiting.remove(at).ticket)
    }

    fn take_all(&mut self, wanted: impl Fn(&Plain) -> bool) -> Vec<u64> {
        let (gone, left) = self.waiting.drain(..).partition(|waiter| wanted(waiter));
        self.waiting = left;
        gone.into_iter().map(|waiter: Plain| waiter.ticket).collect()
    }
}

fn id(lock: u8) -> LockRef {
    LockRef { db: i32::from(lock), key: (*b"k").into() }
}

fn real(plain: &Plain, now: u64) -> Waiter {
    Waiter {
        owner: [plain.owner].into(),
        mode: Mode::Mutex,
        lease: LeaseMs::SHORTEST,
        fenced: false,
        fair: false,
        since: MonoMs(now),
        until: plain.until.map(MonoMs),
        ticket: Ticket(plain.ticket),
        via: plain.channel.map_or(Via::Block, |channel| Via::Enqueue([channel].as_slice().into())),
        client_id: 0,
        permits: None,
        session: None,
    }
}

struct Run {
    locks: Locks,
    model: Model,
    now: u64,
    tickets: u64,
}

impl Run {
    fn step(&mut self, step: &Step) {
        let ticket = |waiter: Option<Waiter>| waiter.map(|waiter| waiter.ticket.0);
        match *step {
            Step::Join { lock, owner, waits_ms, channel } => {
                self.tickets += 1;
                let until = waits_ms.map(|ms| self.now + ms);
                let plain = Plain { lock, owner, ticket: self.tickets, until, channel };
                let new = real(&plain, self.now);
                let admitted = self.locks.admit(id(lock).name(), &new.owner, new.mode, LIMITS);
                let joined = admitted.map(|()| self.locks.join(id(lock).name(), new));
                assert_eq!(joined.map(ticket), self.model.join(plain));
            }
            Step::Cancel { lock, owner } => {
                let gone = ticket(self.locks.cancel(id(lock).name(), &[owner]).pop());
                assert_eq!(gone, self.model.take(|w| (w.lock, w.owner) == (lock, owner)));
            }
            Step::Pop { lock } => {
                let gone = ticket(self.locks.pop(id(lock).name()));
                assert_eq!(gone, self.model.take(|w| w.lock == lock));
            }
            Step::Leave { ticket: number } => {
                let gone = self.locks.leave(Ticket(number)).map(|(_, waiter)| waiter.ticket.0);
                assert_eq!(gone, self.model.take(|w| w.ticket == number));
            }
            Step::DropChannel { lock, channel } => {
                let gone = self.locks.drop_channel(id(lock).name(), &[channel], usize::MAX);
                let gone_there = self.model.take_all(|w| (w.lock, w.channel) == (lock, Some(channel)));
                assert_eq!(gone, gone_there.len());
            }
            Step::Pass { ms } => self.pass(ms),
        }
        self.compare();
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        let now = self.now;
        let ended = self.locks.timed_out(MonoMs(now), usize::MAX);
        let mut ended: Vec<_> = ended.into_iter().map(|(_, waiter)| waiter.ticket.0).collect();
        let mut ended_there = self.model.take_all(|w| w.until.is_some_and(|until| until <= now));
        ended.sort_unstable();
        ended_there.sort_unstable();
        assert_eq!(ended, ended_there);
    }

    fn compare(&self) {
        let tickets = |lock| self.locks.in_order(id(lock).name()).map(|w| w.ticket.0).collect::<Vec<_>>();
        let mut ends = Vec::new();
        for lock in 0..3 {
            let there: Vec<_> = self.model.waiting.iter().filter(|w| w.lock == lock).collect();
            assert_eq!(tickets(lock), there.iter().map(|w| w.ticket).collect::<Vec<_>>());
            assert_eq!(self.locks.waiting_for(id(lock).name()), there.len());
            ends.extend(there.iter().filter_map(|w| w.until));
        }
        assert_eq!(self.locks.len(), self.model.waiting.len());
        assert_eq!(self.locks.is_idle(), self.model.waiting.is_empty());
        let next = ends.iter().min().map(|end| end.saturating_sub(self.now));
        assert_eq!(self.locks.next_in(UnixMs(0), MonoMs(self.now)), next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn queues_are_lists_in_order(steps in steps()) {
        let mut run = Run { locks: Locks::default(), model: Model::default(), now: 0, tickets: 0 };
        for step in &steps {
            run.step(step);
        }
        run.locks.drain_all();
        prop_assert!(run.locks.is_idle());
    }
}
