//! A history: what happens to a server, one thing after the other.

use std::fmt;

use arbitrary::{Arbitrary, Result, Unstructured};

use super::fair_op::FairOp;
use super::op::Op;
use super::options::{Kinds, Options};
use super::tied_op::TiedOp;

/// A history, and the options of the server that it happens to.
#[derive(Clone)]
pub struct History {
    /// The server's options.
    pub options: Options,
    /// What happens, one after the other.
    pub ops: Vec<Op>,
}

impl History {
    /// The history that an input of the fuzzer means, if it means one.
    pub fn of_input(input: &[u8]) -> Option<Self> {
        Self::arbitrary_take_rest(Unstructured::new(input)).ok()
    }
}

/// Options, and as many operations as the bytes give, with FAIR or SESSION where the options say so.
impl<'a> Arbitrary<'a> for History {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let all = bytes.len();
        Self::arbitrary_take_rest(Unstructured::new(bytes.bytes(all)?))
    }

    fn arbitrary_take_rest(mut bytes: Unstructured<'a>) -> Result<Self> {
        let options = Options::arbitrary(&mut bytes)?;
        let ops = match options.kinds {
            Kinds::Fair => Vec::arbitrary_take_rest(bytes)?.into_iter().map(|FairOp(op)| op).collect(),
            Kinds::Tied(_) => Vec::arbitrary_take_rest(bytes)?.into_iter().map(|TiedOp(op)| op).collect(),
            _ => Vec::arbitrary_take_rest(bytes)?,
        };
        Ok(Self { options, ops })
    }
}

/// One line for each step.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.options)?;
        self.ops.iter().enumerate().try_for_each(|(number, op)| writeln!(f, "{number:3}: {op:?}"))
    }
}
