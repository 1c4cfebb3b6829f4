//! What the model knows beside the server: what owners were told, and who came first. The server never
//! sees it; it is what the server is held against.

use std::collections::BTreeMap;
use std::fmt;

use rlock_core::locks::Ticket;
use rlock_core::{Mode, UnixMs};

use crate::sessions::Connections;
use crate::writers::Passed;

/// The most calls of one owner for one lock that wait or are being answered: a call and its repeat.
pub(crate) const MOST_CALLS: usize = 2;

/// An owner, a lock, and in which way the one wants or has the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Party {
    /// Who.
    pub(crate) owner: u8,
    /// Which lock.
    pub(crate) lock: u8,
    /// In which way.
    pub(crate) mode: Mode,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = self.mode.word().map_or(String::new(), |word| format!(" to {word}"));
        write!(f, "k{}{how}", self.lock)
    }
}

/// What an owner was told: that it holds the lock so many times, until then at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// How many times.
    pub(crate) holds: i64,
    /// Until when.
    pub(crate) ends: UnixMs,
    /// Which of the owner's connections told it.
    pub(crate) by: u8,
}

/// A grant whose answer is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// To whom, and of what.
    pub(crate) party: Party,
    /// When its lease ends.
    pub(crate) ends: UnixMs,
}

/// One in the line of those who wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InLine {
    /// Who, and for what.
    pub(crate) party: Party,
    /// The call that waits, where a client is blocked by it.
    pub(crate) ticket: Option<Ticket>,
    /// The channel, where a message is waited for.
    pub(crate) channel: Option<u8>,
    /// On which of the owner's connections it last asked.
    pub(crate) by: u8,
}

/// What the model knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghost {
    /// What each owner was told of each lock.
    pub(crate) beliefs: BTreeMap<Party, Belief>,
    /// Who waits for each lock, in the order in which they came.
    pub(crate) lines: BTreeMap<u8, Vec<InLine>>,
    /// Grants whose answers are under way.
    pub(crate) grants: BTreeMap<Ticket, Granted>,
    /// The largest fencing token that anybody was told of each lock.
    pub(crate) tokens: BTreeMap<u8, i64>,
    /// The tokens that were told in this step.
    pub(crate) told: Vec<(u8, i64)>,
    /// The connections of each owner.
    pub(crate) connections: BTreeMap<u8, Connections>,
    /// How often the clock was stepped.
    pub(crate) steps: u8,
    /// Whom natives have passed over that read.
    pub(crate) passed: BTreeMap<u8, Passed>,
}

impl Ghost {
    /// The connections of an owner.
    pub(crate) fn connections(&self, owner: u8) -> Connections {
        self.connections.get(&owner).copied().unwrap_or_default()
    }

    /// The oldest connection of an owner ends: what it was told on that counts for the grace period.
    pub(crate) fn end_oldest(&mut self, owner: u8, counts_until: UnixMs) {
        let connections = self.connections.entry(owner).or_default();
        let ended = connections.oldest;
        connections.oldest += 1;
        for (party, belief) in &mut self.beliefs {
            if party.owner == owner && belief.by <= ended {
                // A permit lasts until that moment, a key until after it.
                let less = i64::from(party.mode == Mode::Permit);
                belief.ends = belief.ends.min(UnixMs(counts_until.0 - less));
            }
        }
    }

    /// What an owner was told, if it was told that it holds the lock.
    pub(crate) fn belief(&self, party: Party) -> Option<Belief> {
        self.beliefs.get(&party).copied()
    }

    /// Whether an owner waits for a lock.
    pub(crate) fn waits(&self, party: Party) -> bool {
        self.line(party.lock).iter().any(|waiting| waiting.party == party)
    }

    /// Whether the answer to an owner that it was granted a lock is under way.
    pub(crate) fn is_being_told(&self, party: Party) -> bool {
        self.grants.values().any(|grant| grant.party == party)
    }

    /// Whether anybody waits for a lock.
    pub(crate) fn somebody_waits(&self, lock: u8) -> bool {
        !self.line(lock).is_empty()
    }

    /// Who waits for a lock.
    pub(crate) fn line(&self, lock: u8) -> &[InLine] {
        self.lines.get(&lock).map_or(&[], Vec::as_slice)
    }

    /// An owner joins the line, or keeps its place in it: before those who stand behind it.
    pub(crate) fn join(&mut self, new: InLine, behind: &[u8]) {
        let line = self.lines.entry(new.party.lock).or_default();
        match line.iter_mut().find(|waiting| waiting.party == new.party) {
            Some(waiting) => *waiting = new,
            None => {
                let before = line.iter().position(|waiting| behind.contains(&waiting.party.owner));
                line.insert(before.unwrap_or(line.len()), new);
            }
        }
    }

    /// The call by which an owner waits is replaced by a later one: its answer ends no wait.
    pub(crate) fn replaced(&mut self, party: Party) {
        let line = self.lines.entry(party.lock).or_default();
        line.iter_mut().filter(|waiting| waiting.party == party).for_each(|waiting| waiting.ticket = None);
    }

    /// Those whom `gone` tells leave the line.
    pub(crate) fn leave(&mut self, lock: u8, gone: impl Fn(&InLine) -> bool) {
        if let Some(line) = self.lines.get_mut(&lock) {
            line.retain(|waiting| !gone(waiting));
        }
    }

    /// An owner gets the lock: nobody may stand before it.
    pub(crate) fn served(&mut self, party: Party) -> Result<(), String> {
        if let Some(first) =
            self.line(party.lock).first().map(|first| first.party).filter(|first| *first != party)
        {
            return Err(format!("o{} got {party} before o{}, who came first", party.owner, first.owner));
        }
        self.leave(party.lock, |waiting| waiting.party == party);
        Ok(())
    }

    /// Several get a lock in one step, as readers do: nobody may stand before or between them.
    pub(crate) fn all_served(&mut self, served: &[Party]) -> Result<(), String> {
        let mut in_line = served.to_vec();
        let place = |party: &Party| self.line(party.lock).iter().position(|waiting| waiting.party == *party);
        in_line.sort_by_key(place);
        in_line.into_iter().try_for_each(|party| self.served(party))
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
        self.beliefs.retain(|party, _| party.lock != lock);
        self.grants.retain(|_, grant| grant.party.lock != lock);
    }

    /// An owner hears what it holds; what an earlier call of its has still to tell is older.
    pub(crate) fn believe(&mut self, party: Party, belief: Belief) {
        self.grants.retain(|_, grant| grant.party != party);
        self.beliefs.insert(party, belief);
    }

    /// An owner gives the lock back: no grant of before counts for it any more. What it believed is returned.
    pub(crate) fn give_back(&mut self, party: Party) -> Option<Belief> {
        self.grants.retain(|_, grant| grant.party != party);
        self.beliefs.remove(&party)
    }
}
