//! Fencing tokens: numbers that grow with every fenced acquisition of a lock. The protected resource uses them to
//! distinguish a late holder from the current one.

use crate::error::Error;
pub use crate::limits::MAX_TOKEN;
use crate::types::UnixMs;

/// A fencing token: 1 to 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(i64);

impl Token {
    /// The token after the last token that the server knows: one more, or the server's clock if it is larger. A server
    /// that misses the last tokens therefore continues above them, as far as the clocks agree.
    pub fn after(last: Option<i64>, now: UnixMs) -> Result<Self, Error> {
        let last = last.unwrap_or(0);
        let next = last.saturating_add(1).max(now.0).max(1);
        if next <= MAX_TOKEN { Ok(Self(next)) } else { Err(Error::NoTokenLeft) }
    }

    /// The number.
    pub fn get(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_larger_than_the_last_and_not_behind_the_clock() {
        let cases: &[(Option<i64>, i64, Result<i64, Error>)] = &[
            (None, 1_000, Ok(1_000)),
            (Some(7), 1_000, Ok(1_000)),
            (Some(999), 1_000, Ok(1_000)),
            (Some(1_000), 1_000, Ok(1_001)),
            (Some(5_000), 1_000, Ok(5_001)),
            (Some(-7), -1_000, Ok(1)),
            (None, i64::MIN, Ok(1)),
            (Some(i64::MIN), 1_000, Ok(1_000)),
            (Some(MAX_TOKEN - 1), 1_000, Ok(MAX_TOKEN)),
            (Some(MAX_TOKEN), 1_000, Err(Error::NoTokenLeft)),
            (Some(i64::MAX), 1_000, Err(Error::NoTokenLeft)),
            (None, i64::MAX, Err(Error::NoTokenLeft)),
        ];
        for (last, now, expected) in cases {
            assert_eq!(Token::after(*last, UnixMs(*now)).map(Token::get), *expected, "{last:?} at {now}");
        }
    }
}
