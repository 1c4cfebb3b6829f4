//! A client that puts a native waiter into Redisson's fair list before its scripts drop heads, which they do by their
//! clients' clocks: a dropped native keeps its place, and a native head is safe from clocks that are off by minutes.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::native::{Want, refs};
use super::redisson::{Act, Ask, Lock};
use crate::history::{Attempt, Harm, Line, Mode, Outcome};
use crate::wire::Answer;

const MINUTES: i64 = 60_000;

/// How long the server may take to restore the list; stalls are excused.
const PUT_RIGHT: Duration = Duration::from_millis(200);

/// A Redisson client in the list, and how far its clock is ahead, in ms.
struct Other {
    attempt: Attempt,
    ahead: i64,
}

impl Desk {
    /// Two Redisson clients hold the lock one after the other, while a native waiter and a Redisson waiter behind it
    /// wait.
    pub(crate) fn herald(&mut self, want: &Want) {
        let ask = Ask { key: want.key, lock: Lock::Fair, lease: want.lease, wait: 0 };
        let mut first = self.other(ask);
        if self.run(ask, Act::Take, &first.attempt.owner) != Ok(Value::Nil) {
            return self.end(ask, vec![first]);
        }
        self.holds(ask, &mut first.attempt);
        let second = self.other(ask);
        let listed = self.run(ask, Act::Take, &second.attempt.owner);
        match self.joins(want) {
            Some(native) if matches!(listed, Ok(Value::Int(_))) => {
                self.among_others(want, ask, native, [first, second]);
            }
            Some(native) => {
                self.end(ask, vec![first, second]);
                self.await_message(want, native, false);
            }
            None => self.end(ask, vec![first, second]),
        }
    }

    /// The native waiter stands in the list, behind the second Redisson client.
    fn among_others(&mut self, want: &Want, ask: Ask, native: Attempt, others: [Other; 2]) {
        let [mut first, mut second] = others;
        let mut third = self.other(ask);
        // Either the third client arrives with its clock an hour ahead, and drops every waiter before it. Or it arrives
        // in time, and only the clocks of the last two are ahead, by less than the time for which a native head must be
        // safe.
        let drops = self.dice.one_in(2);
        if !drops {
            (second.ahead, third.ahead) = (2 * MINUTES, 2 * MINUTES);
            let _ = self.run(ask, Act::Take, &third.attempt.owner);
        }
        first.attempt.released = Some(self.now());
        let taken = self.together(ask, &first, &second, 0);
        first.attempt.gone = self.now();
        if taken != Ok(Value::Nil) {
            self.end(ask, vec![first, second, third]);
            return self.await_message(want, native, false);
        }
        self.holds(ask, &mut second.attempt);
        if drops {
            let words = self.words(ask, Act::Take, &third.attempt.owner, 60 * MINUTES);
            let _ = self.ask(want.key, &refs(&words), SOON);
        }
        std::thread::sleep(PUT_RIGHT);
        second.attempt.released = Some(self.now());
        let taken = self.together(ask, &second, &third, third.ahead);
        second.attempt.gone = self.now();
        self.recorder().note("dropped heads");
        if taken == Ok(Value::Nil) {
            self.holds(ask, &mut third.attempt);
            let text = format!(
                "Redisson waiter {} got the lock before {}, which stood before it in the list",
                third.attempt.owner, native.owner
            );
            self.recorder().violation_unless("order", want.key, text, native.requested, Harm::disturbs);
            third.attempt.released = Some(self.now());
        }
        self.end(ask, vec![first, second, third]);
        self.await_message(want, native, false);
    }

    fn other(&mut self, ask: Ask) -> Other {
        let attempt = self.begin(ask.key, Mode::Alone, Line::ForeignFair, None);
        Other { attempt, ahead: 0 }
    }

    /// A Redisson client has acquired the lock.
    fn holds(&self, ask: Ask, attempt: &mut Attempt) {
        (attempt.answered, attempt.outcome) = (self.now(), Outcome::Held);
        let sent = attempt.requested;
        self.confirmed(attempt, sent, ask.lease);
    }

    /// One client releases and the next acquires in one transaction, so that no other call comes in between.
    fn together(&mut self, ask: Ask, before: &Other, next: &Other, ahead: i64) -> Answer {
        let gives = self.words(ask, Act::GiveBack, &before.attempt.owner, before.ahead);
        let takes = self.words(ask, Act::Take, &next.attempt.owner, ahead);
        let commands: [&[&str]; 4] = [&["MULTI"], &refs(&gives), &refs(&takes), &["EXEC"]];
        match self.ask_all(ask.key, &commands, SOON)? {
            Value::Array(mut answers) if answers.len() == 2 && answers[0] == Value::Int(1) => {
                Ok(answers.remove(1))
            }
            other => Ok(other),
        }
    }

    /// A native waiter joins the queue.
    pub(super) fn joins(&mut self, want: &Want) -> Option<Attempt> {
        let channel = self.own_channel(want.key);
        self.listen(want.key, &channel)?;
        let native = self.begin(want.key, want.mode(), want.line(), Some(want.wait));
        let wait = want.wait.to_string();
        let answer = self.acquire(want, &native.owner, &["ENQUEUE", &wait, &channel], SOON);
        let (mut native, told) = self.answered(want, native, answer, Outcome::TimedOut)?;
        if told.holds == 0 && self.listens_beside() {
            native.queued = Some(native.answered);
            return Some(native);
        }
        self.withdraw(want, native);
        None
    }

    /// Removes the Redisson clients from the lock and its list.
    fn end(&mut self, ask: Ask, others: Vec<Other>) {
        for mut other in others {
            let attempt = &mut other.attempt;
            attempt.released = attempt.released.or(Some(self.now()));
            self.run_surely(ask, Act::Leave, &attempt.owner);
            self.run_surely(ask, Act::GiveBack, &attempt.owner);
            attempt.gone = attempt.gone.max(self.now());
            if attempt.outcome != Outcome::Held {
                attempt.answered = self.now();
            }
            self.recorder().attempt(other.attempt);
        }
    }
}
