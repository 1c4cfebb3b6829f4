//! SESSION: the connection that each hold and each wait is tied to, as far as it is certain.

use std::collections::{BTreeMap, BTreeSet};

use rlock_core::LeaseMs;

use super::super::op::{Ground, LOCKS, Lock, Ms, Op, WORDS, Word};
use super::super::real_words::lease;
use super::super::tied_op::{LINES, Line};
use super::super::values::{Answer, Via};
use super::claims::party_of;
use super::{Before, Follow, Party};

/// The tie of a hold or of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    client: u64,
    pub(super) grace: i64,
}

/// The connections, and the holds and waits tied to them. A tie that is missing from the maps is not known.
#[derive(Default)]
pub(super) struct Ties {
    /// The connections that the server has, the oldest first.
    lines: [Vec<u64>; LINES],
    last_id: u64,
    /// The connection and SESSION of the next command.
    asked: Option<(u64, Option<LeaseMs>)>,
    ended: BTreeSet<u64>,
    holds: BTreeMap<Party, Option<Tie>>,
    waits: BTreeMap<Party, Option<Tie>>,
    /// Whether a session's end has shortened the lease of each lock, and Redisson waiters were not notified yet.
    untold: [bool; LOCKS.len()],
}

impl Ties {
    /// A line has another connection, which is younger than all others.
    pub(super) fn connect(&mut self, line: Line) {
        self.last_id += 1;
        self.lines[line.0].push(self.last_id);
    }

    /// The oldest connection that the server has of a line.
    pub(super) fn oldest(&mut self, line: Line) -> u64 {
        if self.lines[line.0].is_empty() {
            self.connect(line);
        }
        self.lines[line.0][0]
    }

    pub(super) fn all_of(&self, line: Line) -> Vec<u64> {
        self.lines[line.0].clone()
    }

    pub(super) fn close(&mut self, client: u64) {
        self.ended.insert(client);
        self.asked.take_if(|(of, _)| *of == client);
        self.lines.iter_mut().for_each(|line| line.retain(|of| *of != client));
    }

    pub(super) fn take_asked(&mut self) -> (u64, Option<LeaseMs>) {
        self.asked.take().unwrap_or((0, None))
    }

    /// The server is a replica now: no hold is tied.
    pub(super) fn demoted(&mut self) {
        self.holds.values_mut().for_each(|tie| *tie = None);
        self.untold = Default::default();
    }

    pub(super) fn heard(&mut self, lock: Lock, heard: bool) {
        self.untold[lock.0] &= !heard;
    }

    pub(super) fn is_untold(&self, lock: Lock) -> bool {
        self.untold[lock.0]
    }

    /// The tie of a hold is unknown.
    pub(super) fn forget(&mut self, party: &Party) {
        self.holds.remove(party);
    }

    fn has_ended(&self, tie: Tie) -> bool {
        self.ended.contains(&tie.client)
    }

    /// The tie after a call that succeeded, if it is certain: it moves only to a younger connection, or away from an
    /// ended one.
    fn after(&self, before: Option<Option<Tie>>, asked: Option<Tie>) -> Option<Option<Tie>> {
        match (before, asked) {
            (_, None) => Some(None),
            (None, _) => None,
            (Some(Some(before)), Some(asked)) if !self.has_ended(before) && asked.client < before.client => {
                Some(Some(before))
            }
            (Some(_), asked) => Some(asked),
        }
    }

    /// The holds whose connections have ended, and whose leases may not be shortened yet.
    pub(super) fn ending(&self) -> Vec<(Party, Tie)> {
        let known = self.holds.iter().filter_map(|(party, tie)| Some((*party, (*tie)?)));
        known.filter(|(_, tie)| self.has_ended(*tie)).collect()
    }
}

fn set(map: &mut BTreeMap<Party, Option<Tie>>, party: Party, tie: Option<Option<Tie>>) {
    match tie {
        Some(tie) => drop(map.insert(party, tie)),
        None => drop(map.remove(&party)),
    }
}

impl Follow {
    /// Sets the connection of the next command. It is never one on which a call is blocked.
    pub(super) fn say(&mut self, line: Line, late: bool, grace: Option<Ms>) {
        self.ties.oldest(line);
        let is_blocked = |follow: &Self, client| {
            follow.real.calls().into_keys().any(|call| follow.real.client_of(call) == Some(client))
        };
        let of = &self.ties.lines[line.0];
        let mut client = if late { of[0] } else { of[of.len() - 1] };
        if is_blocked(self, client) {
            self.ties.connect(line);
            client = self.ties.last_id;
        }
        self.ties.asked = Some((client, grace.map(lease)));
    }

    /// A grant takes over the tie of its entry.
    pub(super) fn inherit_ties(&mut self, before: &Before, served: &[Party]) {
        for party in served {
            let waited = self.ties.waits.remove(party);
            let tie = waited.and_then(|tie| self.ties.after(self.tie_before(before, &[], *party), tie));
            set(&mut self.ties.holds, *party, tie);
            // A hand-off notifies Redisson waiters that would sleep for too long. Beside other readers, they sleep
            // until the leases of these end.
            self.ties.untold[party.0.0] = false;
        }
    }

    /// The tie of a hold before this step. A hold that neither existed nor was granted in it had none.
    fn tie_before(&self, before: &Before, served: &[Party], party: Party) -> Option<Option<Tie>> {
        let (lock, owner, word) = party;
        let held = before.stands[lock.0].holds(owner, word) || served.contains(&party);
        if held { self.ties.holds.get(&party).copied() } else { Some(None) }
    }

    /// Updates the ties of an owner after its call.
    pub(super) fn hear_ties(&mut self, op: Op, before: &Before, served: &[Party], answer: Option<&Answer>) {
        let (client, grace) = self.real.calls_on;
        let asked = grace.map(|grace| Tie { client, grace: grace.get() });
        match (op, answer) {
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Holds(..))) => {
                let party = (lock, owner, word);
                let tie = self.ties.after(self.tie_before(before, served, party), asked);
                set(&mut self.ties.holds, party, tie);
                self.ties.untold[lock.0] = false;
            }
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Blocked)) => {
                // A blocked waiter leaves with its own connection.
                set(&mut self.ties.waits, (lock, owner, word), Some(asked));
            }
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Enqueued)) => {
                let party = (lock, owner, word);
                let waited = before.queues[lock.0].iter().any(|by| (by.owner, by.word) == (owner, word));
                let known = if waited { self.ties.waits.get(&party).copied() } else { Some(None) };
                let tie = self.ties.after(known, asked);
                set(&mut self.ties.waits, party, tie);
            }
            (Op::Renew { lock, owner, word, .. }, Some(Answer::One)) => {
                self.ties.untold[lock.0] = false;
                let parties = WORDS.map(|(word, _)| (lock, owner, word));
                let meant = |party: &&Party| word == Word::None || word == party.2;
                let held: Vec<_> = parties.iter().filter(meant).filter(|party| self.holds(**party)).collect();
                for party in &held {
                    let known = self.ties.holds.get(*party).copied().filter(|_| held.len() == 1);
                    let tie = known.and_then(|known| self.ties.after(Some(known), asked));
                    set(&mut self.ties.holds, **party, tie);
                }
            }
            (Op::Release { lock, owner, word, .. }, Some(Answer::Zero)) => {
                // The hold lives, even if its connection has ended; which of two holds was meant is left open.
                for (party, _) in self.ties.ending() {
                    if (party.0, party.1) == (lock, owner) && (word == Word::None || word == party.2) {
                        self.ties.holds.remove(&party);
                    }
                }
            }
            _ => {}
        }
    }

    /// A hold may end with any connection if its tie is not known.
    pub(super) fn forget_what_may_be_tied(&mut self) {
        self.told.retain(|party, _| self.ties.holds.contains_key(party));
        self.granted.retain(|_, (party, _)| self.ties.holds.contains_key(party));
    }

    /// The claim of an owner whose connection has ended lasts for the grace period at most.
    pub(super) fn shorten_told(&mut self) {
        let now = self.now();
        for (party, tie) in self.ties.ending() {
            let latest = now.saturating_add(tie.grace) - i64::from(party.2 == Word::Permit);
            let granted = self.granted.values_mut().filter(|(of, _)| *of == party).map(|(_, ends)| ends);
            for ends in granted.chain(self.told.get_mut(&party)) {
                *ends = Some(ends.map_or(latest, |ends| ends.min(latest)));
            }
        }
    }

    /// Every tie is that of its owner's last call.
    pub(super) fn check_ties(&mut self, told: &str) {
        if !self.primary {
            // A replica keeps no ties: one that is made there lasts until its timer fires.
            self.told.retain(|party, _| !matches!(self.ties.holds.get(party), Some(Some(_))));
            self.granted.retain(|_, (party, _)| !matches!(self.ties.holds.get(party), Some(Some(_))));
        }
        let Self { ties, granted, told: holders, .. } = self;
        ties.holds.retain(|party, _| {
            holders.contains_key(party) || granted.values().any(|(granted, _)| granted == party)
        });
        let queues: [_; LOCKS.len()] = std::array::from_fn(|lock| self.real.queue(Lock(lock)));
        self.ties.waits.retain(|(lock, owner, word), _| {
            queues[lock.0].iter().any(|by| (by.owner, by.word) == (*owner, *word))
        });
        for (party, tie) in &self.ties.holds {
            if tie.is_some_and(|tie| self.ties.has_ended(tie)) {
                continue;
            }
            let (lock, owner, word) = *party;
            let known = self.real.session(lock, owner, word);
            assert_eq!(known, tie.map(|tie| (tie.client, tie.grace)), "{told}: the tie of {party:?}");
        }
    }

    /// An enqueued waiter is dropped for the end of a session only when its connection has ended.
    pub(super) fn check_dropped(&self, words: &[&str], told: &str) {
        if words.first() != Some(&"dropped") || words.get(4) != Some(&"session") {
            return;
        }
        let tie = self.ties.waits.get(&party_of(words));
        let lives = tie.is_some_and(|tie| tie.is_none_or(|tie| !self.ties.has_ended(tie)));
        assert!(!lives, "{told}: {words:?}, but its connection is there");
    }

    /// After the end of a connection the timer makes no lease longer, except by a grant.
    pub(super) fn check_not_longer(&self, before: &Before, served: &[Party], told: &str) {
        for (party, tie) in self.ties.ending() {
            let (lock, owner, word) = party;
            let stood = &before.stands[lock.0];
            // The key of a lock that is written lasts for as long as its owner's own read.
            if word == Word::Write || served.contains(&party) || !stood.holds(owner, word) {
                continue;
            }
            let (was, is) = (stood.ends(owner, word), self.ends(party));
            let longer = was.is_some_and(|was| is.is_none_or(|is| is > was));
            assert!(!longer, "{told}: {tie:?} made {party:?} longer: {was:?}, now {is:?}");
        }
    }

    /// A lease that has just been shortened ends earlier than Redisson waiters know.
    pub(super) fn note_shortened(&mut self, before: &Before) {
        for ((lock, owner, word), _) in self.ties.ending() {
            let (was, is) = (before.stands[lock.0].value.key_end(), self.stand(lock));
            let (Some(was), Some(now)) = (was, is.value.key_end()) else { continue };
            let shorter = now.is_some_and(|now| was.is_none_or(|was| now < was));
            if shorter && word != Word::Permit && is.holds(owner, word) {
                self.ties.untold[lock.0] = true;
            }
        }
    }

    /// All due work is done: holds on an ended connection last for the grace period at most, and its waiters are gone.
    pub(super) fn sessions_have_ended(&mut self, told: &str) {
        let now = self.now();
        for (party, tie) in self.ties.ending() {
            let (lock, owner, word) = party;
            let stand = self.stand(lock);
            let latest = now.saturating_add(tie.grace);
            // The key of a lock that its owner reads and writes lasts for the longer of both.
            let own = if word == Word::Write { stand.ends(owner, Word::Read) } else { None };
            let latest = own.map_or(latest, |own| own.max(latest));
            let over = stand.ends(owner, word).is_none_or(|ends| ends > latest);
            let firm = self.ground == Ground::Firm;
            assert!(!(firm && over && stand.holds(owner, word)), "{told}: {party:?} outlives {tie:?}");
            self.ties.holds.insert(party, None);
        }
        if self.ground != Ground::Firm {
            self.ties.untold = Default::default();
        }
        for lock in (0..LOCKS.len()).map(Lock) {
            for waiter in self.real.queue(lock).iter().filter(|by| matches!(by.via, Via::Channel(_))) {
                let tie = self.ties.waits.get(&(lock, waiter.owner, waiter.word)).copied().flatten();
                assert!(!tie.is_some_and(|tie| self.ties.has_ended(tie)), "{told}: {waiter:?} still waits");
            }
        }
    }
}
