//! SESSION: the connection that each hold and each wait is tied to, as far as it is certain.

use std::collections::{BTreeMap, BTreeSet};

use rlock_core::LeaseMs;

use super::super::bytes::LINES;
use super::super::op::{Ground, LOCKS, Line, Lock, Ms, Op, WORDS, Wait, Word};
use super::super::real_words::lease;
use super::super::values::{Answer, Via};
use super::claims::claim_of;
use super::{Before, Claim, Follow};

/// The error of a call whose tie would stay with a younger connection.
pub(super) const REFUSED: &str = "TRYAGAIN";

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
    holds: BTreeMap<Claim, Option<Tie>>,
    waits: BTreeMap<Claim, Option<Tie>>,
    /// Whether a session's end has shortened the lease of each lock, and Redisson waiters were not notified yet.
    unnotified: [bool; LOCKS.len()],
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
        self.unnotified = Default::default();
    }

    pub(super) fn notified(&mut self, lock: Lock, notified: bool) {
        self.unnotified[lock.0] &= !notified;
    }

    pub(super) fn is_unnotified(&self, lock: Lock) -> bool {
        self.unnotified[lock.0]
    }

    /// The tie of a hold is unknown.
    pub(super) fn forget(&mut self, claim: &Claim) {
        self.holds.remove(claim);
    }

    fn has_ended(&self, tie: Tie) -> bool {
        self.ended.contains(&tie.client)
    }

    /// Whether the tie before stays, if that is certain: it moves only to a younger connection, or away from an ended one.
    fn stays(&self, before: Option<Option<Tie>>, asked: Option<Tie>) -> Option<bool> {
        let Some(asked) = asked else { return Some(false) };
        Some(before?.is_some_and(|before| !self.has_ended(before) && asked.client < before.client))
    }

    /// The tie after a grant, if it is certain.
    fn after(&self, before: Option<Option<Tie>>, asked: Option<Tie>) -> Option<Option<Tie>> {
        if self.stays(before, asked)? { before } else { Some(asked) }
    }

    /// The holds whose connections have ended, and whose leases may not be shortened yet.
    pub(super) fn ending(&self) -> Vec<(Claim, Tie)> {
        let known = self.holds.iter().filter_map(|(claim, tie)| Some((*claim, (*tie)?)));
        known.filter(|(_, tie)| self.has_ended(*tie)).collect()
    }
}

fn set(map: &mut BTreeMap<Claim, Option<Tie>>, claim: Claim, tie: Option<Option<Tie>>) {
    match tie {
        Some(tie) => drop(map.insert(claim, tie)),
        None => drop(map.remove(&claim)),
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
    pub(super) fn inherit_ties(&mut self, before: &Before, served: &[Claim]) {
        for claim in served {
            let waited = self.ties.waits.remove(claim);
            let tie = waited.and_then(|tie| self.ties.after(self.tie_before(before, &[], *claim), tie));
            set(&mut self.ties.holds, *claim, tie);
            // A hand-off notifies Redisson waiters that would sleep for too long. Beside other readers, they sleep
            // until the leases of these end.
            self.ties.unnotified[claim.0.0] = false;
        }
    }

    /// The tie of a hold before this step. A hold that neither existed nor was granted in it had none.
    fn tie_before(&self, before: &Before, served: &[Claim], claim: Claim) -> Option<Option<Tie>> {
        let (lock, owner, word) = claim;
        let held = before.stands[lock.0].holds(owner, word) || served.contains(&claim);
        if held { self.ties.holds.get(&claim).copied() } else { Some(None) }
    }

    /// The tie of a wait before this step.
    fn wait_before(&self, before: &Before, claim: Claim) -> Option<Option<Tie>> {
        let waited = before.queues[claim.0.0].iter().any(|by| (by.owner, by.word) == (claim.1, claim.2));
        if waited { self.ties.waits.get(&claim).copied() } else { Some(None) }
    }

    /// A call with SESSION is refused where the tie would stay with a younger connection, and only there. That changes nothing.
    pub(super) fn judge_ties(
        &self,
        op: Op,
        before: &Before,
        served: &[Claim],
        answer: Option<&Answer>,
        story: &str,
    ) {
        let (client, grace) = self.real.calls_on;
        let asked = grace.map(|grace| Tie { client, grace: grace.get() });
        let stays = |tie| self.ties.stays(tie, asked);
        let hold = |claim| stays(self.tie_before(before, served, claim));
        let (claims, wait) = match op {
            Op::Acquire { lock, owner, word, wait, .. } => {
                let claim = (lock, owner, word);
                let enqueues = matches!(wait, Wait::Enqueue(..));
                (vec![claim], enqueues.then(|| stays(self.wait_before(before, claim))))
            }
            Op::Renew { lock, owner, word, .. } => {
                let claims = WORDS.into_iter().map(|(word, _)| (lock, owner, word));
                (claims.filter(|claim| word == Word::None || word == claim.2).collect(), None)
            }
            _ => return,
        };
        match answer {
            Some(Answer::Error(REFUSED)) => {
                let certain = claims.iter().map(|claim| hold(*claim)).chain(wait).all(|by| by == Some(false));
                assert!(!certain, "{story}: refused, and no younger connection has the tie");
                for claim in claims.iter().filter(|claim| !served.contains(claim)) {
                    let (was, is) = (&before.stands[claim.0.0], self.stand(claim.0));
                    assert_eq!(was.of(claim.1, claim.2), is.of(claim.1, claim.2), "{story}: {claim:?}");
                }
            }
            Some(Answer::Holds(..) | Answer::One) => {
                let held: Vec<_> = claims.into_iter().filter(|claim| self.holds(*claim)).collect();
                let stays = held.len() == 1 && hold(held[0]) == Some(true);
                assert!(!stays, "{story}: answered, and a younger connection has the tie of {held:?}");
            }
            Some(Answer::Enqueued) => {
                let stays = wait == Some(Some(true));
                assert!(!stays, "{story}: waits, and a younger connection has the tie");
            }
            _ => {}
        }
    }

    /// Updates the ties of an owner after its call: a call that succeeds is tied to its own connection.
    pub(super) fn update_ties(&mut self, op: Op, answer: Option<&Answer>) {
        let (client, grace) = self.real.calls_on;
        let asked = grace.map(|grace| Tie { client, grace: grace.get() });
        match (op, answer) {
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Holds(..))) => {
                self.ties.holds.insert((lock, owner, word), asked);
                self.ties.unnotified[lock.0] = false;
            }
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Blocked | Answer::Enqueued)) => {
                self.ties.waits.insert((lock, owner, word), asked);
            }
            (Op::Renew { lock, owner, word, .. }, Some(Answer::One)) => {
                self.ties.unnotified[lock.0] = false;
                let claims = WORDS.map(|(word, _)| (lock, owner, word));
                let meant = |claim: &&Claim| word == Word::None || word == claim.2;
                let held: Vec<_> = claims.iter().filter(meant).filter(|claim| self.holds(**claim)).collect();
                for claim in &held {
                    set(&mut self.ties.holds, **claim, (held.len() == 1).then_some(asked));
                }
            }
            (Op::Release { lock, owner, word, .. }, Some(Answer::Zero)) => {
                // The hold lives, even if its connection has ended; which of two holds was meant is left open.
                for (claim, _) in self.ties.ending() {
                    if (claim.0, claim.1) == (lock, owner) && (word == Word::None || word == claim.2) {
                        self.ties.holds.remove(&claim);
                    }
                }
            }
            _ => {}
        }
    }

    /// A hold may end with any connection if its tie is not known.
    pub(super) fn forget_what_may_be_tied(&mut self) {
        self.promised.retain(|claim, _| self.ties.holds.contains_key(claim));
        self.granted.retain(|_, (claim, _)| self.ties.holds.contains_key(claim));
    }

    /// The claim of an owner whose connection has ended lasts for the grace period at most.
    pub(super) fn shorten_promised(&mut self) {
        let now = self.now();
        for (claim, tie) in self.ties.ending() {
            let latest = now.saturating_add(tie.grace) - i64::from(claim.2 == Word::Permit);
            let granted = self.granted.values_mut().filter(|(of, _)| *of == claim).map(|(_, ends)| ends);
            for ends in granted.chain(self.promised.get_mut(&claim)) {
                *ends = Some(ends.map_or(latest, |ends| ends.min(latest)));
            }
        }
    }

    /// Every tie is that of its owner's last call.
    pub(super) fn check_ties(&mut self, story: &str) {
        if !self.primary {
            // A replica keeps no ties: one that is made there lasts until its timer fires.
            self.promised.retain(|claim, _| !matches!(self.ties.holds.get(claim), Some(Some(_))));
            self.granted.retain(|_, (claim, _)| !matches!(self.ties.holds.get(claim), Some(Some(_))));
        }
        let Self { ties, granted, promised: holders, .. } = self;
        ties.holds.retain(|claim, _| {
            holders.contains_key(claim) || granted.values().any(|(granted, _)| granted == claim)
        });
        let queues: [_; LOCKS.len()] = std::array::from_fn(|lock| self.real.queue(Lock(lock)));
        self.ties.waits.retain(|(lock, owner, word), _| {
            queues[lock.0].iter().any(|by| (by.owner, by.word) == (*owner, *word))
        });
        for (claim, tie) in &self.ties.holds {
            if tie.is_some_and(|tie| self.ties.has_ended(tie)) {
                continue;
            }
            let (lock, owner, word) = *claim;
            let known = self.real.session(lock, owner, word);
            assert_eq!(known, tie.map(|tie| (tie.client, tie.grace)), "{story}: the tie of {claim:?}");
        }
    }

    /// An enqueued waiter is dropped for the end of a session only when its connection has ended.
    pub(super) fn check_dropped(&self, words: &[&str], story: &str) {
        if words.first() != Some(&"dropped") || words.get(4) != Some(&"session") {
            return;
        }
        let tie = self.ties.waits.get(&claim_of(words));
        let lives = tie.is_some_and(|tie| tie.is_none_or(|tie| !self.ties.has_ended(tie)));
        assert!(!lives, "{story}: {words:?}, but its connection is there");
    }

    /// After the end of a connection the timer makes no lease longer, except by a grant.
    pub(super) fn check_not_longer(&self, before: &Before, served: &[Claim], story: &str) {
        for (claim, tie) in self.ties.ending() {
            let (lock, owner, word) = claim;
            let stood = &before.stands[lock.0];
            // The key of a lock that is written lasts for as long as its owner's own read.
            if word == Word::Write || served.contains(&claim) || !stood.holds(owner, word) {
                continue;
            }
            let (was, is) = (stood.ends(owner, word), self.ends(claim));
            let longer = was.is_some_and(|was| is.is_none_or(|is| is > was));
            assert!(!longer, "{story}: {tie:?} made {claim:?} longer: {was:?}, now {is:?}");
        }
    }

    /// A lease that has just been shortened ends earlier than Redisson waiters know.
    pub(super) fn note_shortened(&mut self, before: &Before) {
        for ((lock, owner, word), _) in self.ties.ending() {
            let (was, is) = (before.stands[lock.0].value.key_end(), self.stand(lock));
            let (Some(was), Some(now)) = (was, is.value.key_end()) else { continue };
            let shorter = now.is_some_and(|now| was.is_none_or(|was| now < was));
            if shorter && word != Word::Permit && is.holds(owner, word) {
                self.ties.unnotified[lock.0] = true;
            }
        }
    }

    /// All due work is done: holds on an ended connection last for the grace period at most, and its waiters are gone.
    pub(super) fn sessions_have_ended(&mut self, story: &str) {
        let now = self.now();
        for (claim, tie) in self.ties.ending() {
            let (lock, owner, word) = claim;
            let stand = self.stand(lock);
            let latest = now.saturating_add(tie.grace);
            // The key of a lock that its owner reads and writes lasts for the longer of both.
            let own = if word == Word::Write { stand.ends(owner, Word::Read) } else { None };
            let latest = own.map_or(latest, |own| own.max(latest));
            let over = stand.ends(owner, word).is_none_or(|ends| ends > latest);
            let firm = self.ground == Ground::Firm;
            assert!(!(firm && over && stand.holds(owner, word)), "{story}: {claim:?} outlives {tie:?}");
            self.ties.holds.insert(claim, None);
        }
        if self.ground != Ground::Firm {
            self.ties.unnotified = Default::default();
        }
        for lock in (0..LOCKS.len()).map(Lock) {
            for waiter in self.real.queue(lock).iter().filter(|by| matches!(by.via, Via::Channel(_))) {
                let tie = self.ties.waits.get(&(lock, waiter.owner, waiter.word)).copied().flatten();
                assert!(!tie.is_some_and(|tie| self.ties.has_ended(tie)), "{story}: {waiter:?} still waits");
            }
        }
    }
}
