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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Hot, Error> {
        Hot::parse(words.split_whitespace().map(str::as_bytes))
    }

    #[test]
    fn shows_all_or_some_or_empties_the_table() {
        let cases = [
            ("", Ok(Hot::Show { limit: None })),
            ("LIMIT 1", Ok(Hot::Show { limit: Some(1) })),
            ("limit 4294967295", Ok(Hot::Show { limit: Some(10_000) })),
            ("Reset", Ok(Hot::Reset)),
            ("LIMIT", Err(Error::MissingValue("LIMIT"))),
            ("LIMIT 0", Err(Error::BadLimit { least: 1 })),
            ("LIMIT x", Err(Error::BadLimit { least: 1 })),
            ("LIMIT 1 LIMIT 2", Err(Error::RepeatedOption("LIMIT"))),
            ("RESET RESET", Err(Error::RepeatedOption("RESET"))),
            ("RESET LIMIT 1", Err(Error::LimitAndReset)),
            ("LIMIT 1 RESET", Err(Error::LimitAndReset)),
            ("FAIR", Err(Error::UnknownOption(b"FAIR".to_vec()))),
            ("RESET 7", Err(Error::UnknownOption(b"7".to_vec()))),
        ];
        for (words, expected) in cases {
            assert_eq!(parse(words), expected, "{words}");
        }
    }
}
