//! The arguments of RLOCK.HOT.

use super::args::{Args, Word, limit_from, once, unexpected};
use crate::error::Error;

/// `RLOCK.HOT [LIMIT n | RESET]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hot {
    /// Show the locks that cost most waiting: at most `limit` of them, or all in the table.
    Show {
        /// The most entries in the reply.
        limit: Option<u32>,
    },
    /// Empty the table.
    Reset,
}

impl Hot {
    /// Parses the arguments after the command's name.
    pub fn parse<'a>(args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut args = Args(args);
        let (mut limit, mut reset) = (None, None);
        while let Some(word) = args.next() {
            match Word::of(word) {
                Some(Word::Limit) => once(&mut limit, "LIMIT", limit_from(args.value("LIMIT")?, 1)?)?,
                Some(Word::Reset) => once(&mut reset, "RESET", ())?,
                _ => return Err(unexpected(word)),
            }
        }
        match (limit, reset) {
            (Some(_), Some(())) => Err(Error::LimitAndReset),
            (None, Some(())) => Ok(Self::Reset),
            (limit, None) => Ok(Self::Show { limit }),
        }
    }
}
