//! The plan of faults, drawn from the seed before anything runs.

use std::fmt;

use crate::dice::Dice;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Connections are cut: all of them, or some.
    Cut { all: bool },
    /// Some clients are killed by the server.
    KillClients,
    /// The users of some clients are deleted, which closes their connections.
    DeleteUsers,
    /// For this many ms the server evicts the largest clients.
    EvictClients { ms: u64 },
    /// The server's process is stopped for this many ms.
    Stop { ms: u64 },
    /// The server is killed, and comes back with its append only file.
    Kill,
    /// The replica takes over by agreement, so that nothing is lost.
    Switch,
    /// The primary is killed, and the replica takes over with what it has.
    Promote,
    /// The servers' wall clocks step to this many seconds ahead of the machine's.
    Clock { ahead: i64 },
    /// Memory is full for this many ms.
    Memory { ms: u64 },
    /// Writes are paused for this many ms.
    Pause { ms: u64 },
    /// The keys of fencing tokens hold something else for this many ms.
    Spoil { ms: u64 },
    /// FLUSHALL.
    Flush,
    /// A lock is deleted.
    Delete,
    /// A lock is taken from its holders.
    Take,
    /// The slot of a lock moves to another server, with its keys together or one by one.
    Move { together: bool },
}

impl Fault {
    /// Its name in counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Cut { .. } => "cut",
            Fault::KillClients => "CLIENT KILL",
            Fault::DeleteUsers => "ACL DELUSER",
            Fault::EvictClients { .. } => "client eviction",
            Fault::Stop { .. } => "stop",
            Fault::Kill => "kill and restart",
            Fault::Switch => "fail-over by agreement",
            Fault::Promote => "kill and fail-over",
            Fault::Clock { .. } => "clock step",
            Fault::Memory { .. } => "memory limit",
            Fault::Pause { .. } => "CLIENT PAUSE",
            Fault::Spoil { .. } => "spoiled tokens",
            Fault::Flush => "FLUSHALL",
            Fault::Delete => "DEL",
            Fault::Take => "FORCERELEASE",
            Fault::Move { .. } => "slot migration",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Fault::Cut { all } => write!(f, "{name} {}", if *all { "all" } else { "some" }),
            Fault::Stop { ms }
            | Fault::EvictClients { ms }
            | Fault::Memory { ms }
            | Fault::Pause { ms }
            | Fault::Spoil { ms } => write!(f, "{name} {ms} ms"),
            Fault::Clock { ahead } => write!(f, "{name} {ahead:+} s"),
            Fault::Move { together } => {
                write!(f, "{name} {}", if *together { "together" } else { "one by one" })
            }
            _ => f.write_str(name),
        }
    }
}

/// Which servers a round has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A primary with an append only file and a replica.
    Durable,
    /// A primary without a file, to which a replica is attached only when it is to take over.
    Attached,
    /// A cluster of three primaries with append only files.
    Cluster,
}

impl Setting {
    /// That of a round: all of them in turn, and each in the first three, which is all that a short run has.
    pub(crate) fn of(round: u64) -> Setting {
        match round % 4 {
            1 => Setting::Cluster,
            2 => Setting::Attached,
            _ => Setting::Durable,
        }
    }
}

/// A fault, when it happens in ms after the beginning, and what chooses its victims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) at_ms: u64,
    pub(crate) fault: Fault,
    pub(crate) dice: u64,
}

/// The use of a round's dice that its plan is drawn by.
pub(crate) const PLAN: u64 = 1;

/// The seed of a round in a run with this seed.
pub(crate) fn seed_of(run: u64, round: u64) -> u64 {
    Dice::new(run, 77 + round).next()
}

/// The faults of a round of this length, each with its time.
pub(crate) fn draw(dice: &mut Dice, setting: Setting, lasts_ms: u64) -> Vec<Planned> {
    let mut plan = Vec::new();
    // First some time to begin in, and between two faults some to recover in.
    let mut at_ms = dice.within(400, 900);
    while at_ms + 300 < lasts_ms {
        let fault = one(dice, setting);
        plan.push(Planned { at_ms, fault, dice: dice.next() });
        at_ms += dice.within(250, 1_500);
    }
    plan
}

fn one(dice: &mut Dice, setting: Setting) -> Fault {
    match dice.below(23) {
        0..2 => Fault::KillClients,
        2..4 => Fault::Stop { ms: dice.within(50, 500) },
        4 => Fault::Spoil { ms: dice.within(1_000, 1_500) },
        5 => Fault::Clock { ahead: dice.one_of(&[-3, -1, 1, 3]) },
        6..8 => Fault::Memory { ms: dice.within(100, 500) },
        8..11 => Fault::Pause { ms: dice.within(300, 900) },
        11 => Fault::Flush,
        12..14 => Fault::Delete,
        14 => Fault::Take,
        15..17 => Fault::DeleteUsers,
        17 => Fault::EvictClients { ms: dice.within(20, 200) },
        _ => special(dice, setting),
    }
}

/// A fault that only happens to servers of this setting.
fn special(dice: &mut Dice, setting: Setting) -> Fault {
    let all = dice.one_in(3);
    match (setting, dice.below(6)) {
        (Setting::Cluster, 0) => Fault::Kill,
        (Setting::Cluster, _) => Fault::Move { together: dice.one_in(2) },
        (_, 0..2) => Fault::Cut { all },
        (Setting::Durable, 2..=4) => Fault::Kill,
        (Setting::Durable, 5) => Fault::Promote,
        (Setting::Attached, 5) => Fault::Promote,
        _ => Fault::Switch,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Of how many kinds faults are.
    const KINDS: usize = 16;

    /// CI has time for three rounds of ten seconds, always the same ones: nothing that can go wrong is missing there.
    #[test]
    fn every_fault_happens_in_ci() {
        let run = include_str!("../../../.ci/run");
        let (_, step) = run.split_once("make chaos").expect("a step of chaos");
        let (_, seed) = step.split_once("SEED=").expect("its seed");
        let seed = seed.split(|end: char| !end.is_ascii_digit()).next().unwrap_or_default();
        let seed = seed.parse().expect("a number");
        let plans = (0..3)
            .flat_map(|round| draw(&mut Dice::new(seed_of(seed, round), PLAN), Setting::of(round), 10_000));
        let faults: Vec<Fault> = plans.map(|planned| planned.fault).collect();
        let names: BTreeSet<&str> = faults.iter().map(|fault| fault.name()).collect();
        assert_eq!(names.len(), KINDS, "{names:?}");
        for together in [false, true] {
            assert!(faults.contains(&Fault::Move { together }));
        }
    }
}
