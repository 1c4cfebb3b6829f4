//! What happens in a history with SESSION: what happens in any, and connections that come and go.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::bytes::{Line, Ms};
use super::op::Op;

/// An operation of a history with SESSION.
#[derive(Clone, Copy, Debug)]
pub struct TiedOp(pub Op);

impl<'a> Arbitrary<'a> for TiedOp {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(match u8::arbitrary(bytes)? {
            byte @ 0..=95 => {
                let line = Line::arbitrary(bytes)?;
                let grace = if byte < 80 { Some(Ms::arbitrary(bytes)?) } else { None };
                Op::On { line, late: (64..80).contains(&byte), grace }
            }
            96..=111 => Op::Connect(Line::arbitrary(bytes)?),
            112..=143 => Op::Close(Line::arbitrary(bytes)?),
            144..=149 => Op::Sweep,
            _ => Op::arbitrary(bytes)?,
        }))
    }
}
