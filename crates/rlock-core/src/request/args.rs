//! Option words, and the arguments that follow them.

use super::MAX_CHANNEL_LEN;
use crate::error::Error;
use crate::limits::MAX_LIMIT;
use crate::types::{LeaseMs, MAX_HOLDS, Mode, PermitLimit, WaitMs, canonical_integer};

/// The option words of all commands.
#[derive(Clone, Copy)]
pub(super) enum Word {
    All,
    Block,
    Enqueue,
    Fair,
    Fenced,
    Holds,
    Lease,
    Limit,
    /// READ or WRITE.
    Mode(Mode),
    Permits,
    Reset,
    Session,
}

impl Word {
    const TABLE: [(&'static str, Self); 13] = [
        ("ALL", Self::All),
        ("HOLDS", Self::Holds),
        ("LEASE", Self::Lease),
        ("LIMIT", Self::Limit),
        ("READ", Self::Mode(Mode::Read)),
        ("WRITE", Self::Mode(Mode::Write)),
        ("FAIR", Self::Fair),
        ("FENCED", Self::Fenced),
        ("BLOCK", Self::Block),
        ("ENQUEUE", Self::Enqueue),
        ("SESSION", Self::Session),
        ("PERMITS", Self::Permits),
        ("RESET", Self::Reset),
    ];

    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let entry = Self::TABLE.iter().find(|(text, _)| bytes.eq_ignore_ascii_case(text.as_bytes()));
        entry.map(|(_, word)| *word)
    }
}

pub(super) fn unexpected(bytes: &[u8]) -> Error {
    // Only as much as is shown: a word may be as long as the server takes.
    Error::UnknownOption(bytes.get(..crate::error::QUOTED).unwrap_or(bytes).to_vec())
}

/// The arguments, one after the other.
pub(super) struct Args<I>(pub(super) I);

impl<'a, I: Iterator<Item = &'a [u8]>> Args<I> {
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }

    pub(super) fn required(&mut self) -> Result<&'a [u8], Error> {
        self.next().ok_or(Error::Arity)
    }

    pub(super) fn value(&mut self, word: &'static str) -> Result<&'a [u8], Error> {
        self.next().ok_or(Error::MissingValue(word))
    }

    pub(super) fn wait(&mut self, word: &'static str) -> Result<WaitMs, Error> {
        let value = self.value(word)?;
        canonical_integer(value).and_then(WaitMs::new).ok_or(Error::BadWait(word))
    }

    /// The grace period of SESSION: 0 counts as 1.
    pub(super) fn grace(&mut self) -> Result<LeaseMs, Error> {
        let grace = canonical_integer(self.value("SESSION")?).filter(|grace| *grace >= 0);
        grace.and_then(|grace| LeaseMs::new(grace.max(1))).ok_or(Error::BadGrace)
    }

    pub(super) fn permits(&mut self) -> Result<PermitLimit, Error> {
        canonical_integer(self.value("PERMITS")?).and_then(PermitLimit::new).ok_or(Error::BadPermits)
    }

    pub(super) fn channel(&mut self) -> Result<&'a [u8], Error> {
        let channel = self.next().ok_or(Error::BadChannel)?;
        if (1..=MAX_CHANNEL_LEN).contains(&channel.len()) { Ok(channel) } else { Err(Error::BadChannel) }
    }

    pub(super) fn holds<T>(&mut self, least: i64, from: impl Fn(i64) -> Option<T>) -> Result<T, Error> {
        let value = self.value("HOLDS")?;
        canonical_integer(value).and_then(from).ok_or(Error::BadHolds { least })
    }
}

pub(super) fn holds_or_none(count: i64) -> Option<i64> {
    (0..=MAX_HOLDS).contains(&count).then_some(count)
}

pub(super) fn lease_from(bytes: &[u8]) -> Result<LeaseMs, Error> {
    canonical_integer(bytes).and_then(LeaseMs::new).ok_or(Error::BadLease)
}

/// A limit above the largest counts as that one: clients that want every entry send the largest integer.
pub(super) fn limit_from(bytes: &[u8], least: u32) -> Result<u32, Error> {
    let limit = canonical_integer(bytes).and_then(|n| u32::try_from(n).ok());
    limit.filter(|limit| *limit >= least).ok_or(Error::BadLimit { least }).map(|limit| limit.min(MAX_LIMIT))
}

/// The value of LIMIT if it is given, and else the default; any other option word is an error.
pub(super) fn limit<'a>(args: &mut Args<impl Iterator<Item = &'a [u8]>>, least: u32) -> Result<u32, Error> {
    let mut limit = None;
    while let Some(word) = args.next() {
        match Word::of(word) {
            Some(Word::Limit) => once(&mut limit, "LIMIT", limit_from(args.value("LIMIT")?, least)?)?,
            _ => return Err(unexpected(word)),
        }
    }
    Ok(limit.unwrap_or(super::DEFAULT_LIMIT))
}

pub(super) fn once<T>(slot: &mut Option<T>, word: &'static str, value: T) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::RepeatedOption(word)),
    }
}

/// READ or WRITE, one of them and once.
pub(super) fn one_mode(slot: &mut Option<Mode>, asked: Mode) -> Result<(), Error> {
    match slot.replace(asked) {
        None => Ok(()),
        Some(before) if before == asked => {
            Err(Error::RepeatedOption(if asked == Mode::Read { "READ" } else { "WRITE" }))
        }
        Some(_) => Err(Error::ReadAndWrite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, the random calls and the fuzzer would not know a new word.
    #[test]
    fn random_calls_have_every_word() {
        let calls = include_str!("../../tests/arguments.rs");
        let dictionary = include_str!("../../../../fuzz/dictionaries/arguments.dict");
        for (word, _) in Word::TABLE {
            assert!(calls.contains(&format!("\"{word}\"")), "{word}: add it to tests/arguments.rs");
            assert!(
                dictionary.contains(&format!("\" {word}")),
                "{word}: add it to fuzz/dictionaries/arguments.dict"
            );
        }
    }
}
