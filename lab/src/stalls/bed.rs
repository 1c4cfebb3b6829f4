//! A server with many waiters.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rlock_testkit::{Subscriber, TestServer, eventually};

use crate::resp::{Reply, append, command};
use crate::wire::Wire;

use super::blocked;
use super::{Names, Scenario};

pub(super) const LEASE: &str = "3600000";

/// What the waiters wait for, and where they stand and listen.
pub(super) struct Place {
    pub(super) names: Names,
    pub(super) lock: String,
    pub(super) list: String,
    pub(super) deadlines: String,
    pub(super) channel: String,
}

impl Place {
    fn of(names: Names) -> Place {
        let lock = names.lock("lock");
        let list = format!("redisson_lock_queue:{{{lock}}}");
        let deadlines = format!("redisson_lock_timeout:{{{lock}}}");
        Place { names, lock, list, deadlines, channel: names.owner("news") }
    }

    /// The lock of this number.
    fn lock_of(&self, index: usize) -> String {
        self.names.lock(&format!("lock{index}"))
    }

    /// An owner.
    pub(super) fn owner(&self, name: &str) -> String {
        self.names.owner(name)
    }

    /// The waiter of this number.
    pub(super) fn waiter(&self, index: usize) -> String {
        self.owner(&format!("w{index}"))
    }
}

/// The number of commands in one write.
const CHUNK: usize = 100;

/// The reply to the holder of a lock, and the reply to a waiter.
const ACQUIRED: &str = "*3\r\n:1\r\n:3600000\r\n:0\r\n";
const ENQUEUED: &str = "*3\r\n:0\r\n:0\r\n:0\r\n";

/// Deadlines of a fair list that the module must lower lie this far ahead, in ms; those that it sets, below the half.
pub(super) const FAR: i64 = 10_000_000_000;

/// The time limit for setting up.
const SET_UP: Duration = Duration::from_secs(60);

/// All waiters have begun to wait this long before their waits end.
const MARGIN: Duration = Duration::from_millis(50);

/// A server where everything is ready to end.
pub(super) struct Bed {
    pub(super) scenario: Scenario,
    pub(super) place: Place,
    pub(super) waiters: usize,
    server: TestServer,
    pub(super) wire: Wire,
    /// The end of the waits, if they time out.
    pub(super) until: Instant,
    _listens: Option<Subscriber>,
    _blocked: Vec<TcpStream>,
    /// The connection that ends.
    _tied: Option<Wire>,
}

impl Bed {
    /// Sets it up; again with more time if the machine was too busy to finish before the waits ended.
    pub(super) fn start(scenario: Scenario, names: Names, waiters: usize) -> Bed {
        let mut ahead = Duration::from_millis(500) + Duration::from_micros(60) * waiters as u32;
        loop {
            let bed = Bed::ready(scenario, names, waiters, ahead);
            if !scenario.times_out() || Instant::now() + MARGIN < bed.until {
                return bed;
            }
            ahead *= 2;
            assert!(ahead < SET_UP, "{}: {waiters} waiters take too long to come", scenario.name());
        }
    }

    fn ready(scenario: Scenario, names: Names, waiters: usize, ahead: Duration) -> Bed {
        // The waiters for permits are one more than the default limit.
        let server = TestServer::builder().conf("rlock.max-waiters-per-key", 60_000);
        // The subscriber never reads.
        let server = server.conf_words("client-output-buffer-limit", &["pubsub", "0", "0", "0"]).start();
        let wire = Wire::connect(server.port()).expect("a connection");
        let heard = scenario != Scenario::Channel;
        let place = Place::of(names);
        let listens = heard.then(|| Subscriber::channel(&server, &place.channel));
        let until = Instant::now();
        let (_listens, _blocked, _tied) = (listens, Vec::new(), None);
        let mut bed = Bed { scenario, place, waiters, server, wire, until, _listens, _blocked, _tied };
        match scenario {
            Scenario::FlushOther | Scenario::FlushOwn => bed.hold_many(),
            Scenario::FairExpired => bed.fill_list(1),
            Scenario::TiedHolds => bed.hold_many(),
            Scenario::Permits => bed.first_in_line(),
            Scenario::Readers => bed.hold(&["WRITE"]),
            _ => bed.hold(&[]),
        }
        if scenario == Scenario::FairDrain {
            bed.other_comes_first();
        }
        bed.until = Instant::now() + ahead;
        match scenario {
            Scenario::FairLoad => return bed.restarted(),
            Scenario::FairExpired | Scenario::TiedHolds => return bed,
            Scenario::BlockTimeout => bed.block(ahead),
            _ => bed.enqueue(),
        }
        // The first waits until all permits are free, ahead of the waiters that want one of many.
        let waiters = waiters as i64 + i64::from(scenario == Scenario::Permits);
        eventually("all of them to wait", SET_UP, || {
            let count = bed.wire.info("rlock", "rlock_waiters");
            // On a machine that is too busy, their waits have ended already.
            (count == waiters || scenario.times_out() && Instant::now() > bed.until).then_some(())
        });
        bed
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    fn hold(&mut self, mode: &[&str]) {
        let alice = self.place.owner("alice");
        let words = [&["RLOCK.ACQUIRE", &self.place.lock, &alice, LEASE], mode].concat();
        self.wire.exchange(&command(&words), ACQUIRED.as_bytes());
    }

    fn hold_many(&mut self) {
        let way = self.scenario.way();
        self.send_all(ACQUIRED, |place, index| {
            let (lock, alice) = (place.lock_of(index), place.owner("alice"));
            [words(&["RLOCK.ACQUIRE", &lock, &alice, LEASE]), words(way)].concat()
        });
    }

    /// One owner holds a permit, and the head of the queue wants to hold alone: the others wait behind it.
    fn first_in_line(&mut self) {
        self.hold(&["PERMITS", "1000000"]);
        let Place { lock, channel, .. } = &self.place;
        let alone = self.place.owner("alone");
        let alone = ["RLOCK.ACQUIRE", lock, &alone, LEASE, "PERMITS", "1", "ENQUEUE", "0", channel];
        self.wire.exchange(&command(&alone), ENQUEUED.as_bytes());
    }

    /// Gives up the connection that sent every request, so that it can end; returns its client id.
    pub(super) fn leave_connection(&mut self) -> i64 {
        let id = self.number(&["CLIENT", "ID"]);
        let next = Wire::connect(self.port()).expect("a connection");
        self._tied = Some(std::mem::replace(&mut self.wire, next));
        id
    }

    /// A Redisson waiter that lives long.
    fn other_comes_first(&mut self) {
        let deadline = (self.now() + FAR).to_string();
        self.wire.exchange(&command(&["RPUSH", &self.place.list, "other"]), b":1\r\n");
        self.wire.exchange(&command(&["ZADD", &self.place.deadlines, &deadline, "other"]), b":1\r\n");
    }

    /// Enqueues all waiters until the same moment, or without a limit.
    fn enqueue(&mut self) {
        let (scenario, until) = (self.scenario, self.until);
        self.send_all(ENQUEUED, |place, index| {
            let lock = if scenario.has_many_locks() { place.lock_of(index) } else { place.lock.clone() };
            let wait = if scenario.times_out() { ms_until(until) } else { 0 };
            let mut all = words(&["RLOCK.ACQUIRE", &lock, &place.waiter(index), LEASE]);
            all.extend(words(scenario.way()));
            all.extend(words(&["ENQUEUE", &wait.to_string(), &place.channel]));
            all
        });
    }

    fn block(&mut self, ahead: Duration) {
        self._blocked = blocked::connect(self.port(), self.waiters);
        self.until = Instant::now() + ahead;
        blocked::wait(&mut self._blocked, &self.place, self.until);
    }

    /// Entries of Redisson waiters in the fair list, with this deadline and the milliseconds after it.
    fn fill_list(&mut self, deadline: i64) {
        let indices: Vec<usize> = (0..self.waiters).collect();
        for chunk in indices.chunks(CHUNK) {
            let (mut entries, mut deadlines) =
                (words(&["RPUSH", &self.place.list]), words(&["ZADD", &self.place.deadlines]));
            for index in chunk {
                let waiter = self.place.waiter(*index);
                deadlines.extend([(deadline + *index as i64).to_string(), waiter.clone()]);
                entries.push(waiter);
            }
            for command in [entries, deadlines] {
                let command: Vec<&str> = command.iter().map(String::as_str).collect();
                self.wire.ask(&command, |_| ());
            }
        }
    }

    /// Restarts the server with this list loaded: the module has not met it yet.
    fn restarted(mut self) -> Bed {
        let deadline = self.now() + FAR;
        self.fill_list(deadline);
        let stopped = self.server.shutdown_with(&["SAVE"]);
        let server = TestServer::builder().dir(stopped).start();
        let wire = Wire::connect(server.port()).expect("a connection");
        Bed { server, wire, ..self }
    }

    /// Sends a command for each waiter, and expects this reply to each.
    fn send_all(&mut self, reply: &str, one: impl Fn(&Place, usize) -> Vec<String>) {
        let indices: Vec<usize> = (0..self.waiters).collect();
        for chunk in indices.chunks(CHUNK) {
            let mut request = Vec::new();
            chunk.iter().for_each(|index| append(&mut request, &one(&self.place, *index)));
            self.wire.exchange(&request, reply.repeat(chunk.len()).as_bytes());
        }
    }

    /// A command's reply.
    pub(super) fn number(&mut self, words: &[&str]) -> i64 {
        self.wire.ask(words, |reply| match reply {
            Reply::Int(number) => *number,
            other => panic!("{words:?}: a number was expected, not {other:?}"),
        })
    }

    /// The wall clock, the same as the server's.
    pub(super) fn now(&self) -> i64 {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
        i64::try_from(now.as_millis()).expect("a clock before the year 292278994")
    }
}

/// How long to wait from now, in ms: until that moment, and at least 1, since 0 is for ever.
pub(super) fn ms_until(until: Instant) -> u128 {
    until.saturating_duration_since(Instant::now()).as_millis().max(1)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
