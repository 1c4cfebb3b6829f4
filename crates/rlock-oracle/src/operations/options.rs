//! The options of a server, and the kinds of its locks.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::op::{Count, Op, OtherWrite, Word};

/// The module's options; small, so that each bound is met.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `rlock.max-waiters`
    pub max_waiters: usize,
    /// `rlock.max-waiters-per-key`
    pub max_waiters_per_key: usize,
    /// `rlock.grant-confirm-ms`
    pub grant_confirm: i64,
    /// `rlock.foreign-turn-grants`
    pub turn_grants: u32,
    /// `rlock.foreign-turn-ms`
    pub turn_ms: u64,
    /// `rlock.foreign-window-ms`; 0 is never
    pub window: u64,
    /// `rlock.fair-turn-ms`
    pub fair_turn: i64,
    /// The kinds of locks in the history.
    pub kinds: Kinds,
    /// How much is done in one event-loop cycle.
    pub budget: Budget,
}

/// How much is done in one event-loop cycle, and what happens before the rest is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// As much as in production: more than any history needs.
    Usual,
    /// At most this many items of each kind, so that the next operation meets half-done work. Only certain facts are
    /// compared.
    HalfDone(usize),
}

/// Which kinds of locks there are in a history: where all kinds meet on one key, most calls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Plain locks.
    Plain,
    /// Read/write locks.
    ReadWrite,
    /// Both, on the same keys.
    Mixed,
    /// Plain locks with FAIR, beside Redisson's fair lock.
    Fair,
    /// Locks with permits.
    Permits,
    /// Locks of this kind, with SESSION.
    Tied(Tied),
}

/// Which kinds of locks there are in a history with SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tied {
    /// Plain locks.
    Plain,
    /// Read/write locks.
    ReadWrite,
    /// Locks with permits.
    Permits,
}

impl Kinds {
    /// The same without SESSION.
    fn untied(self) -> Self {
        match self {
            Self::Tied(Tied::Plain) => Self::Plain,
            Self::Tied(Tied::ReadWrite) => Self::ReadWrite,
            Self::Tied(Tied::Permits) => Self::Permits,
            kinds => kinds,
        }
    }

    /// The operation as a history of these kinds allows it.
    #[must_use]
    pub fn of(self, mut op: Op) -> Op {
        let kinds = self.untied();
        let word = match &mut op {
            Op::Acquire { word, .. } | Op::Release { word, .. } | Op::Renew { word, .. } => Some(word),
            _ => None,
        };
        if let (Self::Plain | Self::Permits, Some(word)) = (kinds, word) {
            *word = Word::None;
        }
        if let Op::Acquire { owner, word, fenced, .. } = &mut op {
            if (kinds, *word) == (Self::ReadWrite, Word::None) {
                *word = if owner.0 % 2 == 0 { Word::Read } else { Word::Write };
            }
            // The grammar has no FENCED with READ.
            *fenced &= *word != Word::Read;
        }
        if kinds == Self::Permits { with_permits(op) } else { op }
    }
}

/// The same operation on locks with permits, as far as the grammar has it.
fn with_permits(mut op: Op) -> Op {
    match &mut op {
        Op::Acquire { word, holds, fenced, .. } => {
            (*word, *fenced) = (Word::Permit, false);
            *holds = holds.map(|_| Count(1));
        }
        Op::ByOther { what, .. } => {
            if let OtherWrite::Take { owner, .. } = *what {
                *what = OtherWrite::RemovePermit(owner);
            }
        }
        _ => {}
    }
    op
}

impl Budget {
    /// From a byte that also says how many may wait; the stored corpus, which is older than budgets, has nearly none of
    /// these values.
    fn of(byte: u8) -> Self {
        let few = usize::from(byte % 3) + 1;
        match byte {
            97..=128 => Self::HalfDone(few),
            _ => Self::Usual,
        }
    }
}

impl<'a> Arbitrary<'a> for Options {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let first = u8::arbitrary(bytes)?;
        let mut below = |bound: u8| u8::arbitrary(bytes).map(|byte| byte % bound);
        let mut options = Self {
            max_waiters: usize::from(8 - first % 8),
            max_waiters_per_key: usize::from(5 - below(5)?),
            grant_confirm: i64::from(below(60)?) + 1,
            turn_grants: u32::from(below(6)?) + 1,
            turn_ms: u64::from(below(250)?) + 1,
            window: u64::from(below(30)?),
            fair_turn: 1,
            kinds: Kinds::Plain,
            budget: Budget::of(first),
        };
        options.kinds = match u8::arbitrary(bytes)? {
            // The rest as it is in the stored corpus, which is older than these kinds.
            144..=191 => Kinds::Fair,
            byte @ (32..=63 | 224..=239) => match byte % 6 {
                0 => Kinds::Permits,
                1 => Kinds::Tied(Tied::Permits),
                2 | 3 => Kinds::Tied(Tied::Plain),
                _ => Kinds::Tied(Tied::ReadWrite),
            },
            byte => match byte % 8 {
                0..=2 => Kinds::Plain,
                3..=6 => Kinds::ReadWrite,
                _ => Kinds::Mixed,
            },
        };
        if options.kinds == Kinds::Fair {
            options.fair_turn = i64::from(u8::arbitrary(bytes)? % 40) + 1;
        }
        Ok(options)
    }
}
