//! What the model knows beside the server: what owners were told, and who came first. The server never
//! sees it; it is what the server is held against.

use std::collections::BTreeMap;

use rlock_core::UnixMs;
use rlock_core::queue::Ticket;

/// The most calls of one owner for one lock that wait or are being answered: a call and its repeat.
pub(crate) const MOST_CALLS: usize = 2;

/// What an owner was told: that it holds the lock so many times, until then at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// How many times.
    pub(crate) holds: i64,
    /// Until when.
    pub(crate) ends: UnixMs,
}

/// A grant whose answer is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// To whom.
    pub(crate) owner: u8,
    /// Which lock.
    pub(crate) lock: u8,
    /// When its lease ends.
    pub(crate) ends: UnixMs,
}

/// One in the line of those who wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InLine {
    /// Who.
    pub(crate) owner: u8,
    /// The call that waits, where a client is blocked by it.
    pub(crate) ticket: Option<Ticket>,
    /// The channel, where a message is waited for.
    pub(crate) channel: Option<u8>,
}

/// What the model knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghost {
    /// What each owner was told of each lock.
    pub(crate) beliefs: BTreeMap<(u8, u8), Belief>,
    /// Who waits for each lock, in the order in which they came.
    pub(crate) lines: BTreeMap<u8, Vec<InLine>>,
    /// Grants whose answers are under way.
    pub(crate) grants: BTreeMap<Ticket, Granted>,
    /// The largest fencing token that anybody was told of each lock.
    pub(crate) tokens: BTreeMap<u8, i64>,
    /// The tokens that were told in this step.
    pub(crate) told: Vec<(u8, i64)>,
    /// How often the clock was stepped.
    pub(crate) steps: u8,
}

impl Ghost {
    /// What an owner was told, if it was told that it holds the lock.
    pub(crate) fn belief(&self, owner: u8, lock: u8) -> Option<Belief> {
        self.beliefs.get(&(owner, lock)).copied()
    }

    /// Whether an owner waits for a lock.
    pub(crate) fn waits(&self, owner: u8, lock: u8) -> bool {
        self.line(lock).iter().any(|waiting| waiting.owner == owner)
    }

    /// Whether the answer to an owner that it was granted a lock is under way.
    pub(crate) fn is_being_told(&self, owner: u8, lock: u8) -> bool {
        self.grants.values().any(|grant| (grant.owner, grant.lock) == (owner, lock))
    }

    /// Whether anybody waits for a lock.
    pub(crate) fn somebody_waits(&self, lock: u8) -> bool {
        !self.line(lock).is_empty()
    }

    /// Who waits for a lock.
    pub(crate) fn line(&self, lock: u8) -> &[InLine] {
        self.lines.get(&lock).map_or(&[], Vec::as_slice)
    }

    /// An owner joins the line, or keeps its place in it.
    pub(crate) fn join(&mut self, lock: u8, new: InLine) {
        let line = self.lines.entry(lock).or_default();
        match line.iter_mut().find(|waiting| waiting.owner == new.owner) {
            Some(waiting) => *waiting = new,
            None => line.push(new),
        }
    }

    /// The call by which an owner waits is replaced by a later one: its answer ends no wait.
    pub(crate) fn replaced(&mut self, owner: u8, lock: u8) {
        let line = self.lines.entry(lock).or_default();
        line.iter_mut().filter(|waiting| waiting.owner == owner).for_each(|waiting| waiting.ticket = None);
    }

    /// Those whom `gone` tells leave the line.
    pub(crate) fn leave(&mut self, lock: u8, gone: impl Fn(&InLine) -> bool) {
        if let Some(line) = self.lines.get_mut(&lock) {
            line.retain(|waiting| !gone(waiting));
        }
    }

    /// An owner gets the lock: nobody may stand before it.
    pub(crate) fn served(&mut self, owner: u8, lock: u8) -> Result<(), String> {
        match self.line(lock).first() {
            Some(first) if first.owner != owner => {
                return Err(format!("o{owner} got k{lock} before o{}, who came first", first.owner));
            }
            Some(_) | None => {}
        }
        self.leave(lock, |waiting| waiting.owner == owner);
        Ok(())
    }

    /// A step is over: every token that was told in it is larger than those before, and no two are alike.
    pub(crate) fn tokens_grow(&mut self, fenced: bool) -> Result<(), String> {
        let mut told = std::mem::take(&mut self.told);
        if !fenced {
            let token = told.iter().find(|(_, token)| *token != 0);
            return token.map_or(Ok(()), |(lock, token)| Err(format!("token {token} of k{lock} for nobody")));
        }
        // Not in the order in which they were given: an answer may be heard later.
        told.sort_unstable();
        for (lock, token) in told {
            let last = self.tokens.insert(lock, token).unwrap_or(0);
            if token <= last {
                return Err(format!("token {token} of k{lock} was told, and {last} before"));
            }
        }
        Ok(())
    }

    /// Nobody can still count on what it was told of a lock: somebody took it by force.
    pub(crate) fn excuse(&mut self, lock: u8) {
        self.beliefs.retain(|(_, of), _| *of != lock);
        self.grants.retain(|_, grant| grant.lock != lock);
    }

    /// An owner hears what it holds; what an earlier call of its has still to tell is older.
    pub(crate) fn believe(&mut self, owner: u8, lock: u8, belief: Belief) {
        self.grants.retain(|_, grant| (grant.owner, grant.lock) != (owner, lock));
        self.beliefs.insert((owner, lock), belief);
    }

    /// An owner gives the lock back: no grant of before counts for it any more. What it believed is returned.
    pub(crate) fn give_back(&mut self, owner: u8, lock: u8) -> Option<Belief> {
        self.grants.retain(|_, grant| (grant.owner, grant.lock) != (owner, lock));
        self.beliefs.remove(&(owner, lock))
    }
}
