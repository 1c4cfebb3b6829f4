//! The operations of a history with FAIR: those of any history, and Redisson's fair lock beside them.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::bytes::{Lock, Ms, Owner};
use super::op::{Op, Word};

/// In ms.
const MINUTE: i64 = 60_000;

/// An action of a client that uses the fair list, and not the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByList {
    /// Runs a script of Redisson's fair lock.
    Script {
        /// The script.
        script: FairScript,
        /// Its owner.
        owner: Owner,
        /// How many ms its client's clock is ahead of the server's.
        ahead: i64,
        /// How long its owner waits, in ms.
        budget: i64,
        /// The lease that it asks for.
        lease: Ms,
    },
    /// Deletes the list.
    DeleteList,
    /// Deletes the sorted set of the deadlines.
    DeleteDeadlines,
}

/// Redisson's scripts for fair locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairScript {
    /// Takes the lock, or queues for it.
    Lock,
    /// Takes the lock, if it may have it now.
    TryLock,
    /// Releases one hold.
    Unlock,
    /// Stops waiting.
    GiveUp,
    /// Releases the lock, whichever owner holds it.
    ForceUnlock,
}

/// An operation of a history with FAIR.
#[derive(Clone, Copy, Debug)]
pub struct FairOp(pub Op);

impl<'a> Arbitrary<'a> for FairOp {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let op = match u8::arbitrary(bytes)? {
            0..=89 => Op::ByList { lock: Lock::arbitrary(bytes)?, what: script(bytes)? },
            90..=94 => Op::ByList { lock: Lock::arbitrary(bytes)?, what: ByList::DeleteList },
            95..=99 => Op::ByList { lock: Lock::arbitrary(bytes)?, what: ByList::DeleteDeadlines },
            100..=105 => Op::Sweep,
            106..=111 => Op::Step(MINUTE * i64::from(i8::arbitrary(bytes)? / 8)),
            // Read/write locks on the same keys.
            112..=119 => return Ok(Self(Op::arbitrary(bytes)?)),
            _ => Op::arbitrary(bytes)?,
        };
        Ok(Self(with_fair(op)))
    }
}

/// Turns READ and WRITE of an ACQUIRE into FAIR.
fn with_fair(mut op: Op) -> Op {
    if let Op::Acquire { word, fair, .. } = &mut op {
        *fair = std::mem::replace(word, Word::None) != Word::None;
    }
    op
}

fn script(bytes: &mut Unstructured<'_>) -> Result<ByList> {
    let script = match u8::arbitrary(bytes)? {
        0..=119 => FairScript::Lock,
        120..=149 => FairScript::TryLock,
        150..=219 => FairScript::Unlock,
        220..=247 => FairScript::GiveUp,
        _ => FairScript::ForceUnlock,
    };
    let owner = Owner(match u8::arbitrary(bytes)? {
        0..=127 => 5,
        128..=199 => 6,
        200..=247 => 7,
        // An owner that also waits natively.
        _ => 1,
    });
    // Most clocks are right, some are a little off, and some by minutes.
    let ahead = match i64::from(u8::arbitrary(bytes)?) {
        0..=159 => 0,
        byte @ 160..=207 => byte - 184,
        byte => (byte - 232) * MINUTE / 2,
    };
    let budget = match i64::from(u8::arbitrary(bytes)?) {
        byte @ 0..=149 => byte / 3 + 1,
        byte @ 150..=199 => (byte - 149) * 20,
        200..=229 => 5 * MINUTE,
        _ => 60 * MINUTE,
    };
    Ok(ByList::Script { script, owner, ahead, budget, lease: Ms::arbitrary(bytes)? })
}
