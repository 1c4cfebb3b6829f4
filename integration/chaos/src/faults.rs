//! Makes happen what was planned, and writes down what it may have done.

mod clients;
mod slots;

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use crate::clients::desk::Shared;
use crate::dice::Dice;
use crate::history::{Harm, Us, ms};
use crate::places::Place;
use crate::plan::{Fault, Planned};
use crate::wire::{Answer, Trouble, Wires};

/// How long the module may take to notice that its wall clock has stepped.
const NOTICES_A_STEP: Duration = Duration::from_millis(1_300);

/// How often a fail-over by agreement is tried: a replica may be away for a moment.
const AGREE: usize = 3;

/// For how long replicas may lag.
const LAG: Us = ms(2_000);

/// Errors of a demoted server, which may load what the new primary has.
const DEMOTED: &[&str] = &["demoted", "READONLY", "LOADING", "MASTERDOWN", "EXECABORT"];

/// Errors of a server that was killed and starts again.
const COMES_BACK: &[&str] = &["LOADING", "CLUSTERDOWN", "EXECABORT"];

/// The reason of the message to a tied waiter whose connection has ended.
const ENDS: &[&str] = &["session"];

/// A lock gets another name, and is deleted under that.
const RENAME: &str = "redis.call('rename', KEYS[1], '{' .. KEYS[1] .. '}:away')
    return redis.call('del', '{' .. KEYS[1] .. '}:away')";

/// All keys change places with those of another database, and are deleted there. No cluster knows the command.
const SWAP: &str = "redis.call('swapdb', 0, 1) redis.call('select', 1) return redis.call('flushdb')";

/// Carries out a plan.
pub(crate) struct Faults {
    shared: Arc<Shared>,
    wires: Wires,
    ahead: i64,
}

impl Faults {
    pub(crate) fn new(shared: &Arc<Shared>) -> Faults {
        Faults { shared: Arc::clone(shared), wires: Wires::default(), ahead: 0 }
    }

    /// One fault after the other, each at its time or as soon as the one before has ended.
    pub(crate) fn run(mut self, plan: &[Planned], began: Us) {
        for planned in plan {
            let wait = self.shared.recorder.until(began + ms(planned.at_ms));
            sleep(wait);
            self.happen(planned.fault, &mut Dice::new(planned.dice, 0));
        }
        if self.ahead != 0 {
            self.step(0);
        }
    }

    fn now(&self) -> Us {
        self.shared.recorder.now()
    }

    fn event(&self, fault: Fault, begin: Us, key: Option<usize>, harm: Harm) {
        self.shared.recorder.event(&fault.to_string(), begin, key, harm);
    }

    fn tell(&mut self, port: u16, words: &[&str]) -> Answer {
        let answer = self.wires.ask(port, &[words], Duration::from_secs(5));
        // The connection may have been to a server that was killed.
        if answer == Err(Trouble::Lost) {
            self.wires.ask(port, &[words], Duration::from_secs(5))
        } else {
            answer
        }
    }

    fn everywhere(&mut self, words: &[&str]) {
        for port in self.shared.place.primaries() {
            let _ = self.tell(port, words);
        }
    }

    #[expect(clippy::too_many_lines, reason = "a case for each fault")]
    fn happen(&mut self, fault: Fault, dice: &mut Dice) {
        let shared = Arc::clone(&self.shared);
        let replaces = matches!(fault, Fault::Kill | Fault::Switch | Fault::Promote);
        if replaces && self.ahead != 0 {
            // A process that starts has the machine's clock.
            self.step(0);
        }
        // A fail-over by agreement counts as this fault only once it has happened.
        if fault != Fault::Switch {
            shared.recorder.count(&format!("fault: {}", fault.name()));
        }
        let begin = self.now();
        let places = Harm { places: true, ..Harm::STALLS };
        match fault {
            Fault::Cut { all } => {
                if let Place::Alone(alone) = &shared.place {
                    alone.cut(|| all || dice.one_in(4));
                }
            }
            Fault::KillClients => self.kill_clients(dice),
            Fault::DeleteUsers => self.delete_users(dice),
            Fault::EvictClients { ms } => self.evict_clients(ms),
            Fault::Stop { ms } => self.stop(fault, begin, dice, ms),
            Fault::Kill => {
                match &shared.place {
                    Place::Alone(alone) if alone.aof => alone.kill_and_restart(),
                    Place::Alone(_) => return,
                    Place::Cluster(cluster) => cluster.kill_and_restart(dice.below(100) as usize),
                }
                self.event(fault, begin, None, Harm { answers: COMES_BACK, ..places });
            }
            Fault::Switch => {
                if let Place::Alone(alone) = &shared.place {
                    let happened = (0..AGREE).any(|_| alone.switch());
                    let name = if happened { fault.name() } else { "fail-over that was not agreed on" };
                    shared.recorder.count(&format!("fault: {name}"));
                    self.event(fault, begin, None, Harm { answers: DEMOTED, ..places });
                }
            }
            Fault::Promote => self.promote(fault, begin),
            Fault::Clock { ahead } => self.step(ahead),
            Fault::Memory { ms } => {
                self.everywhere(&["CONFIG", "SET", "maxmemory", "1"]);
                sleep(Duration::from_millis(ms));
                self.everywhere(&["CONFIG", "SET", "maxmemory", "0"]);
                self.event(fault, begin, None, Harm { answers: &["OOM", "EXECABORT"], ..Harm::STALLS });
            }
            Fault::Pause { ms } => self.pause(fault, ms),
            Fault::Spoil { ms } => self.spoil(fault, begin, ms),
            Fault::Flush => {
                let swaps = !self.shared.place.sharded() && dice.one_in(2);
                self.everywhere(if swaps { &["EVAL", SWAP, "0"] } else { &["FLUSHALL"] });
                let harm = Harm { holds: true, tokens: true, places: true, ..Harm::default() };
                self.event(fault, begin, None, harm);
            }
            Fault::Delete if dice.one_in(2) => self.harm_a_lock(fault, dice, &["EVAL", RENAME, "1"]),
            Fault::Delete => self.harm_a_lock(fault, dice, &["DEL"]),
            Fault::Take => self.harm_a_lock(fault, dice, &["RLOCK.FORCERELEASE"]),
            Fault::Move { together } => self.move_slot(fault, dice, together),
        }
        if matches!(
            fault,
            Fault::Cut { .. } | Fault::KillClients | Fault::DeleteUsers | Fault::EvictClients { .. }
        ) {
            self.event(fault, begin, None, Harm { stalls: false, answers: ENDS, ..places });
        }
    }

    fn stop(&mut self, fault: Fault, begin: Us, dice: &mut Dice, ms: u64) {
        let halt = |server: &rlock_testkit::TestServer| {
            server.signal(libc::SIGSTOP);
            sleep(Duration::from_millis(ms));
            server.signal(libc::SIGCONT);
        };
        match &self.shared.place {
            Place::Alone(alone) => alone.with_primary(halt),
            Place::Cluster(cluster) => cluster.with_node(dice.below(100) as usize, halt),
        }
        // Until what has piled up is done.
        sleep(Duration::from_millis(50));
        self.event(fault, begin, None, Harm::STALLS);
    }

    fn promote(&mut self, fault: Fault, begin: Us) {
        let Place::Alone(alone) = &self.shared.place else { return };
        alone.attach();
        let begin = if alone.aof { begin } else { self.now() };
        alone.promote();
        let harm =
            Harm { holds: true, tokens: true, places: true, forgets: LAG, by_replica: true, ..Harm::STALLS };
        self.event(fault, begin, None, harm);
        if alone.aof {
            alone.attach();
        }
    }

    /// Steps the clocks of all servers. Forward, leases end early; back, they last longer.
    fn step(&mut self, ahead: i64) {
        let begin = self.now();
        let by = ahead - self.ahead;
        match &self.shared.place {
            Place::Alone(alone) => alone.set_clock_ahead(ahead),
            Place::Cluster(cluster) => cluster.set_clock_ahead(ahead),
        }
        self.ahead = ahead;
        self.shared.recorder.step(begin, ahead * 1_000);
        // Servers check their clocks at intervals.
        sleep(Duration::from_millis(20));
        let prolongs = ms(by.min(0).unsigned_abs() * 1_000);
        let fault = Fault::Clock { ahead };
        self.event(fault, begin, None, Harm { holds: by > 0, prolongs, ..Harm::default() });
        sleep(NOTICES_A_STEP);
        self.event(fault, begin, None, Harm::STALLS);
    }

    fn pause(&mut self, fault: Fault, ms: u64) {
        let time = ms.to_string();
        let before = self.now();
        self.everywhere(&["CLIENT", "PAUSE", &time, "WRITE"]);
        let begin = self.now();
        // The servers count from when they received the command.
        let end = before + crate::history::ms(ms - 20);
        sleep(self.shared.recorder.until(end));
        let harm = Harm { pauses: true, ..Harm::default() };
        self.shared.recorder.event_until(&fault.to_string(), begin, end, None, harm);
        sleep(Duration::from_millis(100));
        self.event(fault, before, None, Harm::STALLS);
    }

    /// Puts something else where the tokens are, and then the tokens again.
    fn spoil(&mut self, fault: Fault, begin: Us, ms: u64) {
        let fenced = self.shared.scene.keys.iter().filter(|key| key.fenced);
        let keys: Vec<String> = fenced.map(|key| format!("redisson_lock_token:{{{}}}", key.name)).collect();
        let mut spoiled = Vec::new();
        for port in self.shared.place.primaries() {
            for key in &keys {
                if let Ok(Value::BulkString(token)) = self.tell(port, &["SET", key, "spoiled", "GET"]) {
                    spoiled.push((port, key.clone(), String::from_utf8_lossy(&token).into_owned()));
                }
            }
        }
        sleep(Duration::from_millis(ms));
        for (port, key, token) in spoiled {
            let _ = self.tell(port, &["SET", &key, &token]);
        }
        for key in keys {
            // A token that did not exist before must not exist now.
            let script =
                "if redis.call('get', KEYS[1]) == 'spoiled' then redis.call('del', KEYS[1]) end return 1";
            self.everywhere(&["EVAL", script, "1", &key]);
        }
        self.event(fault, begin, None, Harm { answers: &["no-token"], ..Harm::default() });
    }

    fn harm_a_lock(&mut self, fault: Fault, dice: &mut Dice, words: &[&str]) {
        let key = dice.below(self.shared.scene.keys.len() as u64) as usize;
        let name = self.shared.scene.keys[key].name.clone();
        let begin = self.now();
        // Of several servers one has it; the others say so.
        self.everywhere(&[words, &[name.as_str()]].concat());
        self.event(fault, begin, Some(key), Harm { holds: true, ..Harm::default() });
    }
}
