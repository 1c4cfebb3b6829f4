//! Names, counts and times of a history, each from one byte.

use arbitrary::{Arbitrary, Result, Unstructured};

/// The locks of a history, by database and key.
pub const LOCKS: [(i32, &str); 3] = [(0, "a"), (0, "b"), (1, "a")];
/// The owners; the last three use Redisson's fair lock.
pub const OWNERS: [&str; 8] = ["o0", "o1", "o2", "o3", "o4", "f0", "f1", "f2"];
/// The channels of ENQUEUE.
pub const CHANNELS: [&str; 3] = ["c0", "c1", "c2"];
/// How many lines of connections there are.
pub(super) const LINES: usize = 3;

/// One of a few names, from one byte: mostly the first ones, so that they meet.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $ends:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub usize);

        impl<'a> Arbitrary<'a> for $name {
            fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
                let byte = u8::arbitrary(bytes)?;
                Ok(Self($ends.iter().filter(|end| byte >= **end).count()))
            }
        }
    };
}

index!(/** One of [`LOCKS`]. */ Lock, [192, 224]);
index!(/** One of [`OWNERS`]. */ Owner, [64, 128, 192, 224]);
index!(/** One of [`CHANNELS`]. */ Channel, [128, 192]);

/// A count of holds: small, or at the end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub i64);

/// Milliseconds of a lease: mostly few, so that much falls together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ms(pub i64);

/// Milliseconds that pass: as [`Ms`], 0 too, but two minutes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub u64);

/// Milliseconds of a wait: as [`Ms`], or 0 for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitMs(pub i64);

impl<'a> Arbitrary<'a> for Count {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let byte = u8::arbitrary(bytes)?;
        Ok(Self(if byte < 250 { i64::from(byte % 5) } else { (1 << 53) - i64::from(255 - byte) }))
    }
}

impl<'a> Arbitrary<'a> for Ms {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let byte = i64::from(u8::arbitrary(bytes)?);
        Ok(Self(match byte {
            0..=199 => byte / 4 + 1,
            200..=249 => (byte - 199) * 20,
            _ => 1 << 43,
        }))
    }
}

impl<'a> Arbitrary<'a> for Span {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let Ms(ms) = Ms::arbitrary(bytes)?;
        Ok(Self((ms - 1).unsigned_abs().min(120_000)))
    }
}

impl<'a> Arbitrary<'a> for WaitMs {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let Ms(ms) = Ms::arbitrary(bytes)?;
        Ok(Self(if ms == 1 { 0 } else { ms - 1 }))
    }
}

/// Connections that follow one another: what one program uses. There are three lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub usize);

impl<'a> Arbitrary<'a> for Line {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(usize::from(u8::arbitrary(bytes)?) % LINES))
    }
}

impl Owner {
    /// How many owners this one lets hold a lock at once, itself included.
    pub(super) fn permits(self) -> u32 {
        [2, 1, 3, 2, 1, 2, 2, 2].get(self.0).copied().unwrap_or(1)
    }
}
