//! The scenes to explore: their owners and locks, and the events that may happen.

use rlock_core::locks::{self, Limits, LockRef, TieLimits};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Admission, LeaseMs, Mode, PermitLimit};

use crate::ghost::Party;

/// The lease that owners ask for, in ms.
pub(crate) const LEASE: i64 = 4;
/// The wait of callers that do not wait for ever, in ms.
pub(crate) const WAIT: i64 = 3;
/// How long a grant by message lasts until it is confirmed, in ms.
pub(crate) const CONFIRM: i64 = 2;

/// The number of readers after which a waiting Redisson writer has a turn.
pub(crate) const READERS: u8 = 2;
/// The most owners that may have a permit at once.
pub(crate) const PERMITS: u8 = 2;
/// The yield window, in ms.
pub(crate) const WINDOW: u64 = 2;

/// Part of what may happen, so that each part can be explored deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scene {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// A summary.
    pub(crate) about: &'static str,
    /// How many owners there are.
    pub(crate) owners: u8,
    /// How many locks.
    pub(crate) locks: u8,
    /// In which ways each owner wants them.
    pub(crate) modes: [&'static [Mode]; 3],
    /// The other events that are explored.
    pub(crate) may: &'static [May],
    /// How many steps are explored if the command line does not say.
    pub(crate) depth: u32,
}

/// A group of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// Callers ask for fencing tokens, whose key others may spoil.
    Fenced,
    /// Callers wait blocked.
    Block,
    /// Callers wait for messages, on channels that may fall silent.
    Enqueue,
    /// The first two owners share a channel, as the owners of one client do.
    SharesChannel,
    /// Callers ask with FAIR, beside a Redisson waiter.
    Fair,
    /// Others delete, take and force locks.
    Foreign,
    /// Redisson clients listen, and get turns.
    Turns,
    /// A Redisson writer waits now and then, and gets turns.
    Writers,
    /// The server is demoted, paused, or loses the key's slot.
    Server,
    /// All calls have sessions, and connections end and are followed by others.
    Sessions,
    /// Owners untie their holds, and tie them again, also on an older connection.
    Detaches,
    /// The wall clock steps.
    Clock,
}

use May::{
    Block, Clock, Detaches, Enqueue, Fair, Fenced, Foreign, Server, Sessions, SharesChannel, Turns, Writers,
};

const PLAIN: &[Mode] = &[Mode::Mutex];
const READS: &[Mode] = &[Mode::Read];
const WRITES: &[Mode] = &[Mode::Write];
const SHARES: &[Mode] = &[Mode::Permit];
const BOTH: &[Mode] = &[Mode::Read, Mode::Write];

const NOTHING: Scene =
    Scene { name: "", about: "", owners: 3, locks: 1, modes: [PLAIN; 3], may: &[], depth: 0 };

/// All scenes.
pub(crate) const SCENES: [Scene; 16] = [
    Scene {
        name: "all",
        about: "3 owners, 2 locks, everything at once",
        locks: 2,
        may: &[Block, Enqueue, Foreign, Server],
        depth: 6,
        ..NOTHING
    },
    Scene {
        name: "block",
        about: "3 owners of one lock wait blocked; disconnects, repeats, lost replies",
        may: &[Block, Foreign],
        depth: 10,
        ..NOTHING
    },
    Scene {
        name: "enqueue",
        about: "3 owners of one lock wait for messages; channels fall silent, grants go unconfirmed",
        may: &[Enqueue, SharesChannel, Foreign],
        depth: 10,
        ..NOTHING
    },
    Scene {
        name: "turns",
        about: "3 owners of one lock, and Redisson waiters that get turns",
        may: &[Block, Foreign, Turns],
        depth: 10,
        ..NOTHING
    },
    Scene {
        name: "fenced",
        about: "3 owners of one lock with fencing tokens; clocks step, tokens are spoiled",
        may: &[Fenced, Block, Enqueue, Foreign, Clock],
        depth: 6,
        ..NOTHING
    },
    Scene {
        name: "steps",
        about: "3 owners of one lock, Redisson waiters that get turns, and a wall clock that steps",
        may: &[Block, Foreign, Turns, Clock],
        depth: 8,
        ..NOTHING
    },
    Scene {
        name: "server",
        about: "3 owners of one lock; demotion, pauses, slots that move, a clock that steps",
        may: &[Block, Enqueue, Server, Clock],
        depth: 7,
        ..NOTHING
    },
    Scene {
        name: "readers",
        about: "2 readers and a writer wait blocked; disconnects, Redisson readers, readers that die",
        modes: [READS, READS, WRITES],
        may: &[Block, Foreign],
        depth: 8,
        ..NOTHING
    },
    Scene {
        name: "messages",
        about: "2 readers and a writer wait for messages; channels fall silent, grants go unconfirmed",
        modes: [READS, READS, WRITES],
        may: &[Enqueue, SharesChannel, Foreign],
        depth: 9,
        ..NOTHING
    },
    Scene {
        name: "downgrade",
        about: "an owner that writes and reads, a reader and a writer, blocked",
        modes: [BOTH, READS, WRITES],
        may: &[Block],
        depth: 8,
        ..NOTHING
    },
    Scene {
        name: "writers",
        about: "3 readers of one lock, blocked or not, and a waiting Redisson writer that gets turns",
        modes: [READS; 3],
        may: &[Block, Writers],
        depth: 9,
        ..NOTHING
    },
    Scene {
        name: "permits",
        about: "3 owners of 2 permits, one of which wants to be alone; BLOCK and ENQUEUE, disconnects, permits that end",
        modes: [SHARES; 3],
        may: &[Block, Enqueue, Foreign],
        depth: 8,
        ..NOTHING
    },
    Scene {
        name: "sessions",
        about: "2 owners of one lock with sessions wait for messages; connections end, late commands arrive",
        owners: 2,
        may: &[Enqueue, Sessions],
        depth: 11,
        ..NOTHING
    },
    Scene {
        name: "ties",
        about: "2 owners of 2 permits with sessions; connections end, late commands arrive, others delete all permits",
        owners: 2,
        modes: [SHARES; 3],
        may: &[Foreign, Sessions],
        depth: 14,
        ..NOTHING
    },
    Scene {
        name: "detached",
        about: "2 owners with sessions untie their holds and tie them again; connections end, late commands arrive",
        owners: 2,
        may: &[Sessions, Detaches],
        depth: 14,
        ..NOTHING
    },
    Scene {
        name: "fair",
        about: "2 owners of one lock wait with FAIR, blocked, beside a Redisson waiter",
        owners: 2,
        may: &[Block, Fair],
        depth: 10,
        ..NOTHING
    },
];

impl Scene {
    /// Whether this may happen.
    pub(crate) fn may(&self, what: May) -> bool {
        self.may.contains(&what)
    }

    /// In which ways an owner wants locks.
    pub(crate) fn modes(&self, owner: u8) -> &'static [Mode] {
        self.modes.get(usize::from(owner)).copied().unwrap_or(PLAIN)
    }

    /// An owner with each lock in each of these ways.
    pub(crate) fn parties(&self, owner: u8) -> impl Iterator<Item = Party> {
        let modes = self.modes(owner).iter();
        (0..self.locks)
            .flat_map(move |lock| modes.clone().map(move |mode| Party { owner, lock, mode: *mode }))
    }

    /// Whether the locks are read/write locks.
    pub(crate) fn reads_and_writes(&self) -> bool {
        self.modes != [PLAIN; 3] && self.modes != [SHARES; 3]
    }

    /// How many owners may have a permit beside this one, and it included.
    pub(crate) fn permits(&self, owner: u8) -> Option<PermitLimit> {
        let most = if owner == 0 { 1 } else { PERMITS };
        PermitLimit::new(most.into()).filter(|_| self.modes(owner) == SHARES)
    }

    /// The channel of an owner.
    pub(crate) fn channel(&self, owner: u8) -> [u8; 2] {
        [b'c', if self.may(SharesChannel) && owner == 1 { b'0' } else { b'0' + owner }]
    }

    /// The configuration of the server in this scene.
    pub(crate) fn settings(&self) -> Settings {
        let ms = |ms| LeaseMs::new(ms).unwrap_or(LeaseMs::SHORTEST);
        Settings {
            admission: Admission::Open,
            limits: Limits { server: usize::MAX, lock: usize::MAX, user: usize::MAX },
            grant_confirm: ms(CONFIRM),
            turns: match (self.may(Turns), self.may(Writers)) {
                (true, _) => locks::Turns { after_grants: 1, after_ms: 1_000 },
                (_, true) => locks::Turns { after_grants: READERS.into(), after_ms: 1_000 },
                (false, false) => locks::Turns { after_grants: u32::MAX, after_ms: u64::MAX },
            },
            yield_window: (self.may(Turns) || self.may(Writers)).then(|| ms(WINDOW.cast_signed())),
            fair_turn: ms(5),
            max_ties: TieLimits { server: 1_000, user: 1_000 },
            hot_locks: 0,
            // As little as possible, so that half-done work is explored.
            at_once: AtOnce { ended: 1, listed: 1, served: 1, looked: 1, buried: 1 },
        }
    }
}

/// The name of a reader without the module.
pub(crate) const FOREIGN: [u8; 2] = *b"f9";

/// The lock of this number.
pub(crate) fn lock(number: u8) -> LockRef {
    LockRef { db: 0, key: [b'k', b'0' + number].into() }
}

/// The owner of this number.
pub(crate) fn owner(number: u8) -> [u8; 2] {
    [b'o', b'0' + number]
}

/// The number at the end of a name that [`lock`] or [`owner`] made, or of a channel.
pub(crate) fn number(name: &[u8]) -> u8 {
    name.get(1).map_or(u8::MAX, |digit| digit.wrapping_sub(b'0'))
}
