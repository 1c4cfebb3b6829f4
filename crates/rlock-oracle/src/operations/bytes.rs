//! Names, counts and times of a history, each from one byte.

use arbitrary::{Arbitrary, Result, Unstructured};

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

index!(/** One of [`super::op::LOCKS`]. */ Lock, [192, 224]);
index!(/** One of [`super::op::OWNERS`]. */ Owner, [64, 128, 192, 224]);
index!(/** One of [`super::op::CHANNELS`]. */ Channel, [128, 192]);

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
