//! The operations of a history with FAIR: those of any history, and Redisson's fair lock beside them.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::bytes::{Lock, Ms, Owner};
use super::op::{ByList, FairScript, Op, Word};

/// In ms.
const MINUTE: i64 = 60_000;

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
