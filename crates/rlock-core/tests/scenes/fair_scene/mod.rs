//! A server in which natives wait with FAIR beside Redisson's fair lock, whose scripts are written anew here.

#![allow(dead_code, reason = "each test uses its part")]

mod redisson;

use rlock_core::commands::Answer;
use rlock_core::facts::FairEntry;
use rlock_core::locks::{Limits, LockRef, Locks, Ticket, TieLimits, Turns};
use rlock_core::request::{Acquire, Cancel, DownTo, Release, Wait};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Admission, Error, LeaseMs, Owner, Reply, UnixMs, WaitMs, Wanted};
use rlock_sim::{Sim, World};

pub(crate) use redisson::Redisson;

/// How long the turn of a Redisson waiter lasts, in ms.
pub(crate) const TURN: u64 = 1_000;

/// How long all leases last, in ms.
pub(crate) const LEASE: i64 = 10_000;

/// A server.
pub(crate) struct Scene {
    /// The server.
    pub(crate) sim: Sim,
}

/// How a native asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Whether with FAIR.
    pub(crate) fair: bool,
    /// Whether with FENCED.
    pub(crate) fenced: bool,
    /// Whether and how it waits.
    pub(crate) wait: How,
}

/// Whether and how a native waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Not at all.
    Not,
    /// Blocked, for this number of ms.
    Block(i64),
    /// For a message on the channel `c`, for this number of ms.
    Enqueue(i64),
}

/// Waits blocked, with FAIR, for ever.
pub(crate) const FAIR: Ask = Ask { fair: true, fenced: false, wait: How::Block(0) };

/// In ms.
pub(crate) const MINUTE: i64 = 60_000;
/// In ms.
pub(crate) const HOUR: i64 = 60 * MINUTE;
/// With FAIR, and does not wait.
pub(crate) const NOW: Ask = Ask { wait: How::Not, ..FAIR };
/// Waits without FAIR.
pub(crate) const PLAIN: Ask = Ask { fair: false, ..FAIR };
/// Waits for a message, with FAIR.
pub(crate) const MESSAGE: Ask = Ask { wait: How::Enqueue(0), ..FAIR };

/// Something that happens on a server.
pub(crate) type Happens = fn(&Scene);

/// A lock of this number.
pub(crate) fn lock(number: u8) -> LockRef {
    LockRef { db: 0, key: [b'k', b'0' + number].into() }
}

pub(crate) fn lease(ms: i64) -> LeaseMs {
    LeaseMs::new(ms).expect("a lease")
}

/// A configuration without yield windows.
pub(crate) fn settings() -> Settings {
    Settings {
        admission: Admission::Open,
        limits: Limits { server: 100, lock: 100, user: usize::MAX },
        grant_confirm: lease(500),
        turns: Turns { after_grants: u32::MAX, after_ms: u64::MAX },
        yield_window: None,
        fair_turn: lease(TURN.try_into().expect("a turn")),
        max_ties: TieLimits { server: 1_000, user: 1_000 },
        hot_locks: 0,
        at_once: AtOnce::USUAL,
    }
}

impl Scene {
    /// An empty server, at a time of day at which clocks may be minutes behind.
    pub(crate) fn new(settings: Settings) -> Self {
        let sim = Sim::new(settings);
        sim.with(|world| {
            world.now = UnixMs(10_000_000);
            world.subscribed.insert((*b"c").into());
        });
        Self { sim }
    }

    /// What is there.
    pub(crate) fn see<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        self.sim.with(|world| look(world))
    }

    /// ACQUIRE by a native, whose client has its owner's number.
    pub(crate) fn ask(&self, number: u8, owner: &str, ask: Ask) -> Result<Answer, Error> {
        let wait = match ask.wait {
            How::Not => None,
            How::Block(ms) => Some(Wait::Block(WaitMs::new(ms).expect("a wait"))),
            How::Enqueue(ms) => Some(Wait::Enqueue(WaitMs::new(ms).expect("a wait"), b"c")),
        };
        let request =
            Acquire { fair: ask.fair, fenced: ask.fenced, wait, ..asks(owner, LEASE, Wanted::Mutex) };
        self.sim.acquire(owner.as_bytes().last().copied().unwrap_or(0).into(), &lock(number), &request)
    }

    /// RELEASE.
    pub(crate) fn release(&self, number: u8, owner: &str) -> Reply {
        let owner = Owner::new(owner.as_bytes()).expect("an owner");
        let request = Release { owner, mode: None, down_to: DownTo::AtMost(0), lease: None };
        self.sim.release(&lock(number), &request).expect("a reply")
    }

    /// CANCEL.
    pub(crate) fn cancel(&self, number: u8, owner: &str) -> Reply {
        let owner = Owner::new(owner.as_bytes()).expect("an owner");
        self.sim.cancel(&lock(number), &Cancel { owner }).expect("a reply")
    }

    /// The newest call of an owner that is blocked, or whose answer is under way.
    pub(crate) fn ticket(&self, number: u8, owner: &str) -> Option<Ticket> {
        let id = u64::from(owner.as_bytes().last().copied().unwrap_or(0));
        self.see(|world| {
            let mut of =
                world.clients.iter().filter(|(_, client)| client.id == id && client.lock == lock(number));
            of.next_back().map(|(ticket, _)| *ticket)
        })
    }

    /// Its client goes.
    pub(crate) fn disconnect(&self, number: u8, owner: &str) {
        if let Some(ticket) = self.ticket(number, owner) {
            self.sim.disconnect(ticket);
        }
    }

    /// The holder of a lock.
    pub(crate) fn holder(&self, number: u8) -> String {
        self.see(|world| world.hold(&lock(number)).map_or(String::new(), |hold| text(&hold.owner)))
    }

    /// The native waiters, in order.
    pub(crate) fn queue(&self, number: u8) -> String {
        let names = |locks: &mut Locks| {
            locks.records.in_order(lock(number).name()).map(|waiter| text(&waiter.owner)).collect::<Vec<_>>()
        };
        self.sim.locks(names).join(" ")
    }

    /// The owners in the fair list, in order.
    pub(crate) fn list(&self, number: u8) -> String {
        self.entries(number).iter().map(|entry| text(&entry.owner)).collect::<Vec<_>>().join(" ")
    }

    /// The fair list.
    pub(crate) fn entries(&self, number: u8) -> Vec<FairEntry> {
        self.see(|world| {
            world.fair.get(&lock(number)).map_or(Vec::new(), |list| list.iter().cloned().collect())
        })
    }

    /// How many ms an owner's deadline is ahead.
    pub(crate) fn ahead(&self, number: u8, owner: &str) -> Option<i64> {
        let entry = self.entries(number).into_iter().find(|entry| *entry.owner == *owner.as_bytes())?;
        Some(entry.deadline?.0 - self.see(|world| world.now.0))
    }

    /// The Redisson waiters that were called to their turn since the last call of this function.
    pub(crate) fn called(&self) -> String {
        let called = self.sim.with(|world| std::mem::take(&mut world.called));
        called.iter().map(|(_, owner)| text(owner)).collect::<Vec<_>>().join(" ")
    }

    /// Fires the timer while it is due; an error if that takes no end.
    pub(crate) fn settle(&self) {
        for _ in 0..50 {
            if !self.sim.timer_is_due() {
                return;
            }
            self.sim.fire();
        }
        panic!("the timer is due at once again and again");
    }

    /// Time passes, the timer fires whenever it is due, and `each` looks on after each time. Returns how often it
    /// fired.
    pub(crate) fn pass(&self, ms: u64, mut each: impl FnMut()) -> u32 {
        let end = self.see(|world| world.clock.0) + ms;
        let mut fired = 0;
        loop {
            let (clock, timer) = self.see(|world| (world.clock.0, world.timer.map(|at| at.0)));
            match timer.filter(|at| *at <= end) {
                Some(at) => self.sim.pass(at.saturating_sub(clock)),
                None => {
                    self.sim.pass(end - clock);
                    return fired;
                }
            }
            // A server's loop fires a timer that is due again at once only when it turns again.
            self.sim.fire();
            fired += 1;
            each();
            if self.sim.timer_is_due() && self.see(|world| world.clock.0) < end {
                self.sim.pass(1);
            } else if self.sim.timer_is_due() {
                self.settle();
                each();
                return fired;
            }
        }
    }

    /// A Redisson waiter for `budget` ms, whose clock is `ahead` ms ahead of the server's.
    pub(crate) fn redisson<'a>(
        &'a self,
        number: u8,
        owner: &'a str,
        ahead: i64,
        budget: i64,
    ) -> Redisson<'a> {
        Redisson { scene: self, number, owner: owner.as_bytes(), ahead, budget }
    }
}

/// The lock is held by `h`, a native, and these wait for it in this order; names with `f` are Redisson waiters,
/// and wait for an hour each.
pub(crate) fn waiting(owners: &[&str]) -> Scene {
    let scene = Scene::new(settings());
    assert!(matches!(scene.ask(0, "h", NOW), Ok(Answer::Now(Reply::Acquired { .. }))));
    for owner in owners {
        if owner.starts_with('f') {
            assert!(!scene.redisson(0, owner, 0, HOUR).take());
        } else {
            assert_eq!(scene.ask(0, owner, FAIR), Ok(Answer::Later));
        }
    }
    assert_eq!(scene.list(0), owners.join(" "));
    scene.settle();
    scene
}

impl Scene {
    /// Time passes; the timer must not turn without rest.
    pub(crate) fn wait(&self, ms: u64) {
        let fired = self.pass(ms, || {});
        assert!(u64::from(fired) <= 4 + ms / 250, "the timer fired {fired} times in {ms} ms");
    }

    /// Checks the holder of the first lock, and the owners in its fair list.
    #[track_caller]
    pub(crate) fn is(&self, holder: &str, list: &str) {
        assert_eq!((&*self.holder(0), &*self.list(0)), (holder, list));
    }
}

fn text(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

/// The plain ACQUIRE of this owner, which does not wait.
pub(crate) fn asks(owner: &str, lease_ms: i64, wanted: Wanted) -> Acquire<'_> {
    Acquire {
        owner: Owner::new(owner.as_bytes()).expect("an owner"),
        lease: lease(lease_ms),
        wanted,
        arrive_at: None,
        fair: false,
        fenced: false,
        session: None,
        wait: None,
    }
}

/// Blocked, without an end.
pub(crate) fn block() -> Option<Wait<'static>> {
    Some(Wait::Block(WaitMs::new(0).expect("a wait")))
}
