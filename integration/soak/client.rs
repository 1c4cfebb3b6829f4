//! A client of the soak, and the kinds of work that it does.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Connection, ConnectionLike};
use rlock_testkit::Subscriber;

use crate::dice::Dice;
use crate::ending::connect;
use crate::{LOCKS, Shared};
use rlock_testkit::commands::{SOON, text};
use rlock_testkit::redisson::{GIVES_BACK, TAKES};

/// What one who holds a lock alone counts for among those inside; a reader counts for one.
const ALONE: i64 = 1_000;

/// A lock to be taken, and how.
struct Place {
    key: String,
    /// READ, WRITE, FAIR or nothing.
    mode: &'static str,
    clean: Option<usize>,
    lease: &'static str,
    wait: &'static str,
}

impl Place {
    /// How an owner asks for it, with these words at the end.
    fn ask<'a>(&'a self, owner: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
        let mode = Some(self.mode).filter(|mode| !mode.is_empty());
        let words = ["RLOCK.ACQUIRE", &self.key, owner, self.lease].into_iter().chain(mode);
        words.chain(rest.iter().copied()).collect()
    }
}

/// A connection that comes back when it is killed.
pub(crate) struct Client {
    pub(crate) all: Arc<Shared>,
    db: usize,
    connection: Connection,
    pub(crate) dice: Dice,
}

impl Client {
    pub(crate) fn new(all: &Arc<Shared>, db: usize, seed: u64) -> Client {
        let (connection, dice) = (connect(&all.server, db), Dice(seed));
        Client { all: Arc::clone(all), db, connection, dice }
    }

    /// What is answered; nothing where the connection was killed.
    #[track_caller]
    fn ask(&mut self, words: &[&str]) -> Option<String> {
        match self.connection.req_command(redis::cmd(words[0]).arg(&words[1..])) {
            Ok(answer) => Some(text(&answer)),
            Err(error) if error.is_timeout() => panic!("no answer, perhaps left asleep: {words:?}"),
            Err(_) => {
                self.connection = connect(&self.all.server, self.db);
                None
            }
        }
    }

    /// What is answered to something that may be said twice.
    #[track_caller]
    pub(crate) fn surely(&mut self, words: &[&str]) -> String {
        (0..100).find_map(|_| self.ask(words)).expect("an answer after so many attempts")
    }

    fn owner(&self) -> String {
        format!("owner:{}", self.all.owners.fetch_add(1, SeqCst))
    }

    /// One of the first half of the locks, which are plain and fair ones, or of the second, which have readers and writers.
    fn place(&mut self) -> Place {
        let n = self.dice.below(LOCKS as u64) as usize;
        let modes = if n < LOCKS / 2 { ["", "", "FAIR"] } else { ["READ", "READ", "WRITE"] };
        let mode = modes[self.dice.below(3) as usize];
        if self.dice.below(2) == 0 {
            return Place { key: format!("clean:{n}"), mode, clean: Some(n), lease: "30000", wait: "3000" };
        }
        let (lease, wait) = (self.dice.one_of(&["30", "2000"]), self.dice.one_of(&["1", "20", "3000"]));
        Place { key: format!("faulty:{n}"), mode, clean: None, lease, wait }
    }

    /// One of those that Redisson's plain lock may have too.
    fn plain_place(&mut self) -> Place {
        loop {
            let place = self.place();
            if ["", "FAIR"].contains(&place.mode) {
                return place;
            }
        }
    }

    /// Holds the lock for a moment; a clean one alone, or with other readers.
    #[track_caller]
    fn hold(&mut self, place: &Place, owner: &str, renew: bool) {
        let all = Arc::clone(&self.all);
        let inside = place.clean.map(|n| &all.inside[n]);
        let (mine, may_be) = if place.mode == "READ" { (1, 0..ALONE) } else { (ALONE, 0..1) };
        if let Some(inside) = inside {
            let others = inside.fetch_add(mine, SeqCst);
            assert!(may_be.contains(&others), "{} held by {owner} and by others: {others}", place.key);
        }
        for _ in 0..if renew { 3 } else { 1 } {
            sleep(Duration::from_micros(self.dice.below(2_000)));
            if renew {
                let renewed = self.surely(&["RLOCK.RENEW", &place.key, owner, place.lease]);
                assert!(renewed == "1" || place.clean.is_none(), "{} of {owner}: {renewed}", place.key);
            }
        }
        if let Some(inside) = inside {
            let others = inside.fetch_sub(mine, SeqCst) - mine;
            assert!(may_be.contains(&others), "{} held by {owner} and by others: {others}", place.key);
        }
    }

    #[track_caller]
    fn give_back(&mut self, place: &Place, owner: &str, words: &[&str]) {
        match self.ask(words).as_deref() {
            Some("1") => {}
            Some("null") if place.clean.is_none() => {}
            None => self.give_up(place, owner),
            other => panic!("{} given back by {owner}: {other:?}", place.key),
        }
    }

    /// After a call whose answer was lost.
    #[track_caller]
    fn give_up(&mut self, place: &Place, owner: &str) {
        self.surely(&["RLOCK.CANCEL", &place.key, owner]);
        self.surely(&["RLOCK.RELEASE", &place.key, owner, "ALL"]);
    }

    /// Holds a lock that was taken, and gives it back.
    #[track_caller]
    fn use_lock(&mut self, kind: &str, place: &Place, owner: &str) {
        self.all.count(kind);
        if !place.mode.is_empty() {
            self.all.count(place.mode);
        }
        self.hold(place, owner, kind == "renewal");
        self.give_back(place, owner, &["RLOCK.RELEASE", &place.key, owner, "ALL"]);
    }

    fn waited(&self, place: &Place, since: Instant) {
        if place.clean.is_some() {
            self.all.longest_wait.fetch_max(since.elapsed().as_millis() as u64, SeqCst);
        }
    }

    fn timed_out(&self, place: &Place) {
        if place.clean.is_some() {
            self.all.count("timeout");
        }
    }

    /// A native that blocks.
    #[track_caller]
    fn block(&mut self, kind: &str) {
        let (place, owner, since) = (self.place(), self.owner(), Instant::now());
        let words = place.ask(&owner, &["BLOCK", place.wait]);
        match self.ask(&words).as_deref() {
            Some(taken) if taken.starts_with("[1, ") => {
                self.waited(&place, since);
                self.use_lock(kind, &place, &owner);
            }
            Some("null") => self.timed_out(&place),
            None => self.give_up(&place, &owner),
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[track_caller]
    fn try_once(&mut self) {
        let (place, owner) = (self.place(), self.owner());
        match self.ask(&place.ask(&owner, &[])).as_deref() {
            Some(taken) if taken.starts_with("[1, ") => self.use_lock("try", &place, &owner),
            Some("null") => sleep(Duration::from_millis(1)),
            None => self.give_up(&place, &owner),
            other => panic!("{owner} tries {}: {other:?}", place.key),
        }
    }

    /// A client by Redisson's protocol that listens and tries again.
    #[track_caller]
    fn redisson(&mut self, messages: &mut Subscriber) {
        let (place, owner) = (self.plain_place(), self.owner());
        let give_back = ["EVAL", GIVES_BACK, "1", &place.key, place.lease, &owner];
        for _ in 0..20 {
            match self.ask(&["EVAL", TAKES, "1", &place.key, place.lease, &owner]).as_deref() {
                Some("null") => {
                    self.all.count("redisson");
                    self.hold(&place, &owner, false);
                    return self.give_back(&place, &owner, &give_back);
                }
                None => return self.give_up(&place, &owner),
                Some(lease) => assert!(lease.parse::<i64>().is_ok(), "{lease}"),
            }
            messages.next(Duration::from_millis(5));
            messages.drain();
        }
    }

    /// One who waits for a message: cancels at times, and asks again at others.
    #[track_caller]
    fn enqueue(&mut self, channel: &str, messages: &mut Subscriber) {
        let (place, owner, since) = (self.place(), self.owner(), Instant::now());
        let words = place.ask(&owner, &["ENQUEUE", place.wait, channel]);
        let mut answer = self.ask(&words);
        if answer.as_deref() == Some("[0, 0, 0]") {
            match self.dice.below(10) {
                0 if self.surely(&["RLOCK.CANCEL", &place.key, &owner]) == "1" => {
                    self.all.count("cancel");
                    return;
                }
                1 => {
                    let again = [&words[..], &["HOLDS", "1"]].concat();
                    self.all.count("repeat");
                    answer = self.ask(&again);
                }
                _ => {}
            }
        }
        match answer.as_deref() {
            Some("[0, 0, 0]") if !self.is_granted(&place, &owner, messages) => return self.timed_out(&place),
            Some(taken) if taken.starts_with('[') => {}
            None => return self.give_up(&place, &owner),
            other => panic!("{words:?}: {other:?}"),
        }
        let confirmed = self.surely(&["RLOCK.RENEW", &place.key, &owner, place.lease]);
        if confirmed == "1" {
            self.waited(&place, since);
            self.use_lock("enqueue", &place, &owner);
        } else {
            assert!(place.clean.is_none(), "a grant of {} to {owner}: {confirmed}", place.key);
        }
    }

    /// Whether the message says that the owner has the lock.
    #[track_caller]
    fn is_granted(&mut self, place: &Place, owner: &str, messages: &mut Subscriber) -> bool {
        let deadline = Instant::now() + Duration::from_millis(place.wait.parse().unwrap()) + SOON;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = messages.next(left).map(|(_, message)| String::from_utf8(message).unwrap());
            let message = message.unwrap_or_else(|| panic!("{owner} was left asleep, {}", place.key));
            let about = format!(" {} {owner} {}", self.db, place.key);
            match message.split_once(&about) {
                Some(("granted", rest)) if rest.starts_with(" 1 ") => return true,
                Some(("timeout", _)) => return false,
                // Of an owner before, who gave up.
                None => {}
                _ => panic!("{message}"),
            }
        }
    }

    /// Each waits until the lease of the one before ends, which gives nothing back: nobody else could
    /// wake it.
    #[track_caller]
    fn chain(&mut self, channel: &str, messages: &mut Subscriber) {
        let (owner, key) = (self.owner(), "chain".to_owned());
        let place = Place { key, mode: "", clean: None, lease: "30", wait: "8000" };
        let mut words = vec!["RLOCK.ACQUIRE", &place.key, &owner, place.lease];
        match self.db % 2 {
            0 => words.extend(["BLOCK", place.wait]),
            _ => words.extend(["ENQUEUE", place.wait, channel]),
        }
        match self.ask(&words).as_deref() {
            Some("[0, 0, 0]") => {
                assert!(self.is_granted(&place, &owner, messages), "{owner} was left asleep")
            }
            Some(taken) => assert!(taken.starts_with("[1, "), "{words:?}: {taken}"),
            None => return self.give_up(&place, &owner),
        }
        self.all.count("chain");
    }

    /// Goes on with one kind of work until told to stop.
    pub(crate) fn work(mut self, kind: &'static str, n: usize) {
        let all = Arc::clone(&self.all);
        let (mine, unlocked) = (format!("user:{n}"), "redisson_lock__channel:*");
        let mut messages = match kind {
            "redisson" => Subscriber::pattern(&all.server, unlocked),
            _ => Subscriber::channel(&all.server, &mine),
        };
        while !all.stop.load(SeqCst) {
            match kind {
                "try" => self.try_once(),
                "redisson" => self.redisson(&mut messages),
                "enqueue" => self.enqueue(&mine, &mut messages),
                "chain" => self.chain(&mine, &mut messages),
                "fault" => {
                    self.fault();
                    sleep(Duration::from_millis(10));
                }
                _ => self.block(kind),
            }
        }
    }
}
