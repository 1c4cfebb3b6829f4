//! Gates: what happens to the nth request, reply or message of a kind.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// The request waits in the proxy until the gate is opened.
    HoldRequest,
    /// The reply does, with all that follows on its connection.
    HoldReply,
    /// The message does.
    HoldMessage,
    /// The message vanishes.
    DropMessage,
    /// The connection is cut before the server has the request.
    CutBefore,
    /// The server answers; the connection is cut instead of the reply.
    CutAfter,
    /// The server answers; from this reply on, the connection is silent both ways.
    Mute,
}

/// `on` is a command, or `message:` and the first word of a message of ENQUEUE.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) name: String,
    pub(crate) on: String,
    pub(crate) nth: u32,
    /// From the nth one on, all.
    pub(crate) every: bool,
    pub(crate) act: Act,
    pub(crate) seen: u32,
    /// An act on a reply is done; any other has begun.
    pub(crate) met: bool,
    pub(crate) open: bool,
}

impl Gate {
    /// Counts one of its kind; whether it is for this one.
    fn meets(&mut self, on: &str) -> bool {
        if self.on != on || self.open {
            return false;
        }
        self.seen += 1;
        let meets = self.seen == self.nth || (self.every && self.seen > self.nth);
        self.met |= meets && !matches!(self.act, Act::CutAfter | Act::Mute);
        meets
    }
}

/// The first gate that `on` meets: its place and its act.
pub(crate) fn meet(gates: &mut [Gate], on: &str) -> Option<(usize, Act)> {
    // All count it.
    let met: Vec<bool> = gates.iter_mut().map(|gate| gate.meets(on)).collect();
    let place = met.iter().position(|met| *met)?;
    gates.get(place).map(|gate| (place, gate.act))
}
