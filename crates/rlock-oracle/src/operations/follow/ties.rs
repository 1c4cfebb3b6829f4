//! SESSION: the connection that each hold and each wait is tied to, as far as it is certain.

use std::collections::{BTreeMap, BTreeSet};

use rlock_core::LeaseMs;

use super::super::bytes::LINES;
use super::super::op::{Ground, LOCKS, Line, Lock, Ms, Op, WORDS, Wait, Word};
use super::super::real_words::lease;
use super::super::values::{Answer, Via};
use super::claims::claim_of;
use super::{Before, Claim, Follow, TIED, UNTIED};

/// A call: its connection, and the grace period of its SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    client: u64,
    grace: Option<i64>,
}

impl Call {
    fn of((client, grace): (u64, Option<LeaseMs>)) -> Self {
        Self { client, grace: grace.map(LeaseMs::get) }
    }

    /// The connection to which it ties.
    fn tie(self) -> Option<Tie> {
        let client = self.client;
        self.grace.map(|grace| Tie { client, grace })
    }
}

/// The tie of a hold or of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    client: u64,
    pub(super) grace: i64,
}

/// The history of a tie, from the first call with SESSION on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Past {
    /// The last call; without its SESSION once the connection has ended.
    last: Call,
    /// The youngest connection of all these calls.
    youngest: u64,
}

impl Past {
    fn tie(self) -> Option<Tie> {
        self.last.tie()
    }

    /// Whether a call cannot tie the hold: with SESSION, on another connection than the last call, and older than one before.
    fn stays(self, call: Call) -> bool {
        call.grace.is_some() && call.client != self.last.client && call.client < self.youngest
    }
}

/// The connections, and the holds and waits tied to them. An entry that is missing from the maps is not known.
#[derive(Default)]
pub(super) struct Ties {
    /// The connections that the server has, the oldest first.
    lines: [Vec<u64>; LINES],
    last_id: u64,
    /// The connection and SESSION of the next command.
    asked: Option<(u64, Option<LeaseMs>)>,
    ended: BTreeSet<u64>,
    /// `None`: never tied.
    holds: BTreeMap<Claim, Option<Past>>,
    waits: BTreeMap<Claim, Call>,
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

    /// The history after a call that has succeeded, or a grant to its waiter, if it is certain.
    fn after(before: Option<Option<Past>>, call: Call) -> Option<Option<Past>> {
        Some(match before? {
            Some(past) if past.stays(call) => Some(past),
            Some(past) => Some(Past { last: call, youngest: past.youngest.max(call.client) }),
            None => call.grace.map(|_| Past { last: call, youngest: call.client }),
        })
    }

    /// The holds whose connections have ended, and whose leases may not be shortened yet.
    pub(super) fn ending(&self) -> Vec<(Claim, Tie)> {
        let known = self.holds.iter().filter_map(|(claim, past)| Some((*claim, (*past)?.tie()?)));
        known.filter(|(_, tie)| self.has_ended(*tie)).collect()
    }
}

fn set<T>(map: &mut BTreeMap<Claim, T>, claim: Claim, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(claim, value)),
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
            let past = waited.and_then(|call| Ties::after(self.past_before(before, &[], *claim), call));
            set(&mut self.ties.holds, *claim, past);
            // A hand-off notifies Redisson waiters that would sleep for too long. Beside other readers, they sleep
            // until the leases of these end.
            self.ties.unnotified[claim.0.0] = false;
        }
    }

    /// Whether a hold is tied to a connection that has not ended.
    fn is_tied(&self, past: Option<Past>) -> bool {
        past.and_then(Past::tie).is_some_and(|tie| !self.ties.has_ended(tie))
    }

    /// The past of a hold before this step. A hold that neither existed nor was granted in it had none.
    fn past_before(&self, before: &Before, served: &[Claim], claim: Claim) -> Option<Option<Past>> {
        let (lock, owner, word) = claim;
        let held = before.stands[lock.0].holds(owner, word) || served.contains(&claim);
        if held { self.ties.holds.get(&claim).copied() } else { Some(None) }
    }

    /// Whether the wait of this owner before this step stays tied to its younger connection, if that is certain.
    fn wait_stays(&self, before: &Before, claim: Claim, call: Call) -> Option<bool> {
        let waited = before.queues[claim.0.0].iter().any(|by| (by.owner, by.word) == (claim.1, claim.2));
        if !waited || call.grace.is_none() {
            return Some(false);
        }
        let tie = self.ties.waits.get(&claim)?.tie();
        Some(tie.is_some_and(|tie| !self.ties.has_ended(tie) && call.client < tie.client))
    }

    /// A call with SESSION is refused where it cannot tie the hold, and only there. That changes nothing.
    pub(super) fn judge_ties(
        &self,
        op: Op,
        before: &Before,
        served: &[Claim],
        answer: Option<&Answer>,
        story: &str,
    ) {
        let call = Call::of(self.real.calls_on);
        let hold = |claim| {
            let past = self.past_before(before, served, claim)?;
            Some(past.is_some_and(|past| past.stays(call)))
        };
        let (claims, wait) = match op {
            Op::Acquire { lock, owner, word, wait, .. } => {
                let claim = (lock, owner, word);
                let enqueues = matches!(wait, Wait::Enqueue(..));
                (vec![claim], enqueues.then(|| self.wait_stays(before, claim, call)))
            }
            Op::Renew { lock, owner, word, .. } => {
                let claims = WORDS.into_iter().map(|(word, _)| (lock, owner, word));
                (claims.filter(|claim| word == Word::None || word == claim.2).collect(), None)
            }
            _ => return,
        };
        match answer {
            Some(Answer::Error(why @ (TIED | UNTIED))) => {
                let certain = claims.iter().map(|claim| hold(*claim)).chain(wait).all(|by| by == Some(false));
                assert!(!certain, "{story}: refused, and the call could tie the hold");
                let may_be = |claim: &Claim| self.may_be_tied(before, served, *claim, *why == TIED);
                let by_wait = *why == TIED && wait.is_some_and(|stays| stays != Some(false));
                assert!(by_wait || claims.iter().any(may_be), "{story}: {why} is not the reason");
                let unchanged = claims.iter().filter(|claim| !served.contains(claim));
                unchanged.for_each(|claim| self.check_unchanged(before, *claim, story));
            }
            Some(Answer::Holds(..) | Answer::One) => {
                let held: Vec<_> = claims.into_iter().filter(|claim| self.holds(*claim)).collect();
                let stays = held.len() == 1 && hold(held[0]) == Some(true);
                assert!(!stays, "{story}: answered, and the call could not tie {held:?}");
            }
            Some(Answer::Enqueued) => {
                let stays = wait == Some(Some(true));
                assert!(!stays, "{story}: waits, and a younger connection has the tie");
            }
            _ => {}
        }
    }

    /// Whether a hold may have been tied to a connection that has not ended, or not to one.
    fn may_be_tied(&self, before: &Before, served: &[Claim], claim: Claim, tied: bool) -> bool {
        self.past_before(before, served, claim).is_none_or(|past| self.is_tied(past) == tied)
    }

    fn check_unchanged(&self, before: &Before, (lock, owner, word): Claim, story: &str) {
        let (was, is) = (&before.stands[lock.0], self.stand(lock));
        assert_eq!(was.of(owner, word), is.of(owner, word), "{story}: {owner:?} {word:?}");
    }

    /// Updates the ties of an owner after its call: a call that succeeds is tied to its own connection.
    pub(super) fn update_ties(&mut self, op: Op, before: &Before, served: &[Claim], answer: Option<&Answer>) {
        let call = Call::of(self.real.calls_on);
        let after = |follow: &Self, claim| Ties::after(follow.past_before(before, served, claim), call);
        match (op, answer) {
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Holds(..))) => {
                let claim = (lock, owner, word);
                let past = after(self, claim);
                set(&mut self.ties.holds, claim, past);
                self.ties.unnotified[lock.0] = false;
            }
            (Op::Acquire { lock, owner, word, .. }, Some(Answer::Blocked | Answer::Enqueued)) => {
                self.ties.waits.insert((lock, owner, word), call);
            }
            (Op::Renew { lock, owner, word, .. }, Some(Answer::One)) => {
                self.ties.unnotified[lock.0] = false;
                let claims = WORDS.map(|(word, _)| (lock, owner, word));
                let meant = |claim: &&Claim| word == Word::None || word == claim.2;
                let held: Vec<_> = claims.iter().filter(meant).filter(|claim| self.holds(**claim)).collect();
                for claim in &held {
                    let past = if held.len() == 1 { after(self, **claim) } else { None };
                    set(&mut self.ties.holds, **claim, past);
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
        for (claim, past) in &self.ties.holds {
            let tie = past.and_then(Past::tie);
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
        let lives = tie.is_some_and(|call| call.tie().is_none_or(|tie| !self.ties.has_ended(tie)));
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
            if let Some(Some(past)) = self.ties.holds.get_mut(&claim) {
                past.last.grace = None;
            }
        }
        if self.ground != Ground::Firm {
            self.ties.unnotified = Default::default();
        }
        for lock in (0..LOCKS.len()).map(Lock) {
            for waiter in self.real.queue(lock).iter().filter(|by| matches!(by.via, Via::Channel(_))) {
                let call = self.ties.waits.get(&(lock, waiter.owner, waiter.word));
                let tie = call.and_then(|call| call.tie());
                assert!(!tie.is_some_and(|tie| self.ties.has_ended(tie)), "{story}: {waiter:?} still waits");
            }
        }
    }
}
