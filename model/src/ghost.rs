//! The model's own knowledge: the holds that replies have promised to owners, and the order of arrival. The server
//! never sees it; the checks compare the server with it.

use std::collections::BTreeMap;
use std::fmt;

use rlock_core::locks::Ticket;
use rlock_core::{Mode, UnixMs};

/// The most calls of one owner for one lock that wait or are being answered: a call and its repeat.
pub(crate) const MOST_CALLS: usize = 2;

/// An owner, a lock, and the mode in which the owner wants or has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Party {
    /// The owner.
    pub(crate) owner: u8,
    /// The lock.
    pub(crate) lock: u8,
    /// The mode.
    pub(crate) mode: Mode,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = self.mode.word().map_or(String::new(), |word| format!(" to {word}"));
        write!(f, "k{}{how}", self.lock)
    }
}

/// The holds that replies have promised to an owner, and their least end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// How many times.
    pub(crate) holds: i64,
    /// Until when.
    pub(crate) ends: UnixMs,
    /// The number of the connection that received the reply.
    pub(crate) by: u8,
    /// Whether the call had SESSION: the belief counts for the grace period after the end of that connection.
    pub(crate) tied: bool,
    /// The youngest connection that received a reply to it.
    pub(crate) youngest: u8,
}

/// A grant with an undelivered answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Its owner, lock and mode.
    pub(crate) party: Party,
    /// When its lease ends.
    pub(crate) ends: UnixMs,
}

/// A waiter in the line for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InLine {
    /// Its owner, lock and mode.
    pub(crate) party: Party,
    /// The waiting call, if a client is blocked by it.
    pub(crate) ticket: Option<Ticket>,
    /// The channel, if it waits for a message.
    pub(crate) channel: Option<u8>,
    /// The number of the connection on which it last asked.
    pub(crate) by: u8,
}

/// A violated property, in words.
pub(crate) type Violation = String;

/// The connections of an owner: each is numbered, and the newest that the server has is the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connections {
    /// How many there were, with the one that an owner has from the start.
    pub(crate) count: u8,
    /// Those that the server has: a bit for each.
    pub(crate) present: u8,
    /// Those of which the last command has arrived: a bit for each.
    pub(crate) silent: u8,
}

impl Default for Connections {
    fn default() -> Self {
        Self { count: 1, present: 1, silent: 0 }
    }
}

impl Connections {
    /// Whether the server has any.
    pub(crate) fn is_up(self) -> bool {
        self.present != 0
    }

    /// Whether the server has this one.
    pub(crate) fn has(self, number: u8) -> bool {
        self.present & (1 << number) != 0
    }

    /// Whether more commands may arrive on this one.
    pub(crate) fn speaks(self, number: u8) -> bool {
        self.has(number) && self.silent & (1 << number) == 0
    }

    /// Whether the server has one beside that in use, from which commands may still arrive.
    pub(crate) fn has_old(self) -> bool {
        self.present.count_ones() > 1
    }

    /// The number of the oldest that the server has.
    pub(crate) fn oldest(self) -> u8 {
        (0..self.count).find(|number| self.has(*number)).unwrap_or(self.count)
    }

    /// The number of the one in use.
    pub(crate) fn newest(self) -> u8 {
        (0..self.count).rev().find(|number| self.has(*number)).unwrap_or(self.count)
    }

    /// One more.
    pub(crate) fn open(&mut self) {
        self.present |= 1 << self.count;
        self.count += 1;
    }
}

/// The model's knowledge of a lock, beside that of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// How many native readers have arrived since it was free without a native waiter; at most
    /// `READERS` are counted.
    pub(crate) came: u8,
    /// How many of them arrived while the Redisson writer waited all the time.
    pub(crate) passed: u8,
    /// Whether the Redisson writer has waited since that time.
    pub(crate) listened: bool,
    /// Whether a reader was held back for it.
    pub(crate) turn: bool,
    /// Since when the lock has no holder.
    pub(crate) free_at: Option<u64>,
}

/// The model's own knowledge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghost {
    /// The belief of each owner about each lock.
    pub(crate) beliefs: BTreeMap<Party, Belief>,
    /// The waiters of each lock, in the order of arrival.
    pub(crate) lines: BTreeMap<u8, Vec<InLine>>,
    /// Grants with undelivered answers.
    pub(crate) grants: BTreeMap<Ticket, Granted>,
    /// The largest fencing token of each lock that an owner has received.
    pub(crate) tokens: BTreeMap<u8, i64>,
    /// The tokens that owners received in this step.
    pub(crate) told: Vec<(u8, i64)>,
    /// The connections of each owner.
    pub(crate) connections: BTreeMap<u8, Connections>,
    /// How often the clock was stepped.
    pub(crate) steps: u8,
    /// How native readers have passed the Redisson writer of each lock.
    pub(crate) passed: BTreeMap<u8, Passed>,
}

impl Ghost {
    /// The connections of an owner.
    pub(crate) fn connections(&self, owner: u8) -> Connections {
        self.connections.get(&owner).copied().unwrap_or_default()
    }

    /// A connection of an owner ends: beliefs from it count for the grace period.
    pub(crate) fn end(&mut self, owner: u8, ended: u8, counts_until: UnixMs) {
        self.connections.entry(owner).or_default().present &= !(1 << ended);
        for (party, belief) in &mut self.beliefs {
            if party.owner == owner && belief.by == ended && belief.tied {
                // A permit lasts until that moment, a key until after it.
                let less = i64::from(party.mode == Mode::Permit);
                belief.ends = belief.ends.min(UnixMs(counts_until.0 - less));
            }
        }
    }

    /// The belief of an owner that it holds the lock, if it has one.
    pub(crate) fn belief(&self, party: Party) -> Option<Belief> {
        self.beliefs.get(&party).copied()
    }

    /// Whether an owner waits for a lock.
    pub(crate) fn waits(&self, party: Party) -> bool {
        self.line(party.lock).iter().any(|waiting| waiting.party == party)
    }

    /// Whether an undelivered answer grants a lock to an owner.
    pub(crate) fn is_being_told(&self, party: Party) -> bool {
        self.grants.values().any(|grant| grant.party == party)
    }

    /// Whether a lock has a waiter.
    pub(crate) fn somebody_waits(&self, lock: u8) -> bool {
        !self.line(lock).is_empty()
    }

    /// The waiters of a lock.
    pub(crate) fn line(&self, lock: u8) -> &[InLine] {
        self.lines.get(&lock).map_or(&[], Vec::as_slice)
    }

    /// An owner joins the line ahead of the owners in `behind`, or keeps its place in it.
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

    /// The waiters that `gone` selects leave the line.
    pub(crate) fn leave(&mut self, lock: u8, gone: impl Fn(&InLine) -> bool) {
        if let Some(line) = self.lines.get_mut(&lock) {
            line.retain(|waiting| !gone(waiting));
        }
    }

    /// An owner gets the lock: no other waiter may stand before it.
    pub(crate) fn served(&mut self, party: Party) -> Result<(), Violation> {
        if let Some(first) =
            self.line(party.lock).first().map(|first| first.party).filter(|first| *first != party)
        {
            return Err(format!("o{} got {party} before o{}, which waited first", party.owner, first.owner));
        }
        self.leave(party.lock, |waiting| waiting.party == party);
        Ok(())
    }

    /// Several owners get a lock in one step, as readers do: no other waiter may stand before or between them.
    pub(crate) fn all_served(&mut self, served: &[Party]) -> Result<(), Violation> {
        let mut in_line = served.to_vec();
        let place = |party: &Party| self.line(party.lock).iter().position(|waiting| waiting.party == *party);
        in_line.sort_by_key(place);
        in_line.into_iter().try_for_each(|party| self.served(party))
    }

    /// After a step, every token that an owner received in it is larger than those before, and no two are equal.
    pub(crate) fn tokens_grow(&mut self, fenced: bool) -> Result<(), Violation> {
        let mut told = std::mem::take(&mut self.told);
        if !fenced {
            let token = told.iter().find(|(_, token)| *token != 0);
            return token.map_or(Ok(()), |(lock, token)| Err(format!("token {token} of k{lock}, unasked")));
        }
        // Not in the order of the grants: an answer may arrive later.
        told.sort_unstable();
        for (lock, token) in told {
            let last = self.tokens.insert(lock, token).unwrap_or(0);
            if token <= last {
                return Err(format!("token {token} of k{lock} came after {last}"));
            }
        }
        Ok(())
    }

    /// Beliefs about a lock no longer count: another client took it by force.
    pub(crate) fn excuse(&mut self, lock: u8) {
        self.beliefs.retain(|party, _| party.lock != lock);
        self.grants.retain(|_, grant| grant.party.lock != lock);
    }

    /// A reply on this connection says what an owner holds, and until when; `tied`: its call had SESSION.
    pub(crate) fn answered(&mut self, party: Party, (holds, ends): (i64, UnixMs), (by, tied): (u8, bool)) {
        let youngest = self.belief(party).map_or(by, |before| before.youngest.max(by));
        self.believe(party, Belief { holds, ends, by, tied, youngest });
    }

    /// A reply says what an owner holds; an undelivered answer to an earlier call is older.
    pub(crate) fn believe(&mut self, party: Party, belief: Belief) {
        self.grants.retain(|_, grant| grant.party != party);
        self.beliefs.insert(party, belief);
    }

    /// An owner releases the lock: no earlier grant counts any more. Returns its belief.
    pub(crate) fn give_back(&mut self, party: Party) -> Option<Belief> {
        self.grants.retain(|_, grant| grant.party != party);
        self.beliefs.remove(&party)
    }
}
