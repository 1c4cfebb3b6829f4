//! What every client has: connections, dice, and a way to write down what it saw.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use redis::Value;

use crate::dice::Dice;
use crate::history::{Attempt, Confirm, Harm, Line, Mode, Outcome, Refusal, Us, ms};
use crate::places::Place;
use crate::recorder::Recorder;
use crate::wire::{Answer, Ear, Trouble, Wires};

/// How long the answer to a command that does not block may take.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// An answer that takes longer shows that something stalls.
const SLOW: Us = ms(80);

/// How long a client tries to clean up behind itself.
const CLEANING: Us = ms(20_000);

/// How often a command follows redirections.
const REDIRECTIONS: usize = 16;

/// What all clients share.
pub(crate) struct Shared {
    pub(crate) place: Place,
    pub(crate) recorder: Recorder,
    pub(crate) stop: AtomicBool,
    pub(crate) scene: crate::scene::Scene,
}

/// One client's own.
pub(crate) struct Desk {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kind: &'static str,
    pub(crate) number: usize,
    pub(crate) dice: Dice,
    wires: Wires,
    routes: HashMap<usize, u16>,
    ear: Option<Ear>,
    /// How many connections there had been when it began to listen.
    heard_beside: usize,
    attempts: u64,
    /// How often it left a channel for good.
    pub(crate) deaf: u64,
    /// Whether it left its last lock without a release.
    pub(crate) died: bool,
}

/// The user as which a client connects. Its owners' names begin with it.
fn user_of(kind: &str, number: usize) -> String {
    format!("{}-{number}", kind.replace(' ', "-"))
}

impl Desk {
    pub(crate) fn new(shared: Arc<Shared>, kind: &'static str, number: usize, dice: Dice) -> Desk {
        let (wires, routes) = (Wires::of(user_of(kind, number)), HashMap::new());
        Desk {
            shared,
            kind,
            number,
            dice,
            wires,
            routes,
            ear: None,
            heard_beside: 0,
            attempts: 0,
            deaf: 0,
            died: false,
        }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    pub(crate) fn now(&self) -> Us {
        self.shared.recorder.now()
    }

    pub(crate) fn stopped(&self) -> bool {
        self.shared.stop.load(SeqCst)
    }

    /// Sleeps between two times in microseconds, as the dice say.
    pub(crate) fn sleep_us(&mut self, from: u64, to: u64) {
        let pause = self.dice.within(from, to);
        std::thread::sleep(Duration::from_micros(pause));
    }

    pub(crate) fn name(&self, key: usize) -> String {
        self.shared.scene.keys[key].name.clone()
    }

    /// An attempt that begins now, by a new owner.
    pub(crate) fn begin(&mut self, key: usize, mode: Mode, line: Line, limit: Option<u64>) -> Attempt {
        self.attempts += 1;
        let owner = format!("{}:{}", user_of(self.kind, self.number), self.attempts);
        let limit = limit.map(|limit| if limit == 0 { Us::MAX } else { ms(limit) });
        Attempt { mode, limit, ..Attempt::new(self.kind, key, owner, line, self.now()) }
    }

    fn port(&self, key: usize) -> u16 {
        self.routes.get(&key).copied().unwrap_or_else(|| self.shared.place.entry())
    }

    /// The answer to a command about a lock, from the server that has it.
    pub(crate) fn ask(&mut self, key: usize, words: &[&str], within: Duration) -> Answer {
        let sent = self.now();
        let answer = self.ask_all(key, &[words], within);
        if within == SOON && self.now() - sent > SLOW {
            // The cause, unknown here, may delay other clients as well.
            self.recorder().event("an answer takes long", sent, Some(key), Harm::STALLS);
        }
        answer
    }

    /// The answer to the last of several commands that are sent together.
    pub(crate) fn ask_all(&mut self, key: usize, commands: &[&[&str]], within: Duration) -> Answer {
        let mut asking = None;
        for _ in 0..REDIRECTIONS {
            let sent = self.now();
            let answer = match asking.take() {
                None => self.wires.ask(self.port(key), commands, within),
                Some(port) => {
                    let with = [&[&["ASKING"][..]], commands].concat();
                    self.wires.ask(port, &with, within)
                }
            };
            let (code, rest) = match &answer {
                Err(Trouble::Refused(code, rest)) => (code.as_str(), rest.as_str()),
                _ => return answer,
            };
            self.note_refusal(key, commands, sent, code, rest);
            let target = rest.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            match (code, target) {
                ("MOVED", Some(port)) => drop(self.routes.insert(key, port)),
                ("ASK", Some(port)) => asking = Some(port),
                ("TRYAGAIN", _) => std::thread::sleep(Duration::from_millis(5)),
                ("READONLY" | "LOADING" | "CLUSTERDOWN" | "MASTERDOWN", _) => {
                    // This server does not serve the lock, or not yet.
                    self.routes.remove(&key);
                    self.wires.hang_up();
                    self.ear = None;
                    return answer;
                }
                _ => return answer,
            }
        }
        Err(Trouble::Lost)
    }

    /// Records an error, which needs a reason. In a cluster a client does not know at first where a lock is: MOVED, and
    /// the EXECABORT after it, need none.
    fn note_refusal(&self, key: usize, commands: &[&[&str]], sent: Us, code: &str, text: &str) {
        if self.shared.place.sharded() && ["MOVED", "EXECABORT"].contains(&code) {
            return;
        }
        let words = commands.last().copied().unwrap_or_default();
        let command = words.iter().filter(|word| !word.contains(' ')).take(4).copied().collect::<Vec<_>>();
        let who = format!("{} {} ({})", self.kind, self.number, command.join(" "));
        let (code, text, told) = (code.to_owned(), text.to_owned(), self.now());
        self.recorder().refusal(Refusal { key, who, sent, told, code, text });
    }

    /// The answer to a command that may be repeated; `None` without an answer.
    pub(crate) fn surely(&mut self, key: usize, words: &[&str]) -> Option<Value> {
        let deadline = self.now() + CLEANING;
        let mut trouble = String::new();
        while self.now() < deadline {
            match self.ask(key, words, SOON) {
                Ok(value) => return Some(value),
                Err(error) => trouble = format!("{error:?}"),
            }
            self.routes.remove(&key);
            std::thread::sleep(Duration::from_millis(15));
        }
        let text = format!("{} was not answered in 20 s: {trouble}", words.join(" "));
        self.recorder().violation("answer", key, text);
        None
    }

    /// How many connections it has opened so far.
    pub(crate) fn opened(&self) -> usize {
        self.wires.opened
    }

    /// Closes its connections without a word.
    pub(crate) fn hang_up(&mut self) {
        self.wires.hang_up();
    }

    /// Listens to a channel where the lock is; nothing where that cannot be done now.
    pub(crate) fn listen(&mut self, key: usize, channel: &str) -> Option<&mut Ear> {
        let port = self.port(key);
        let sharded = self.shared.place.sharded();
        // After a new connection it may be another server that answers at this port.
        let same = self.heard_beside == self.wires.opened;
        if !same || !self.ear.as_ref().is_some_and(|ear| ear.hears(port, channel)) {
            self.ear = Ear::open(port, channel, sharded);
            self.heard_beside = self.wires.opened;
            if self.ear.is_none() {
                self.routes.remove(&key);
            }
        }
        self.ear.as_mut()
    }

    /// Whether it listens to the very server that answers it.
    pub(crate) fn listens_beside(&self) -> bool {
        self.ear.is_some() && self.heard_beside == self.wires.opened
    }

    pub(crate) fn ear(&mut self) -> Option<&mut Ear> {
        self.ear.as_mut()
    }

    pub(crate) fn stop_listening(&mut self) {
        self.ear = None;
    }

    /// Writes down that it has the lock now, by a call sent at this time.
    pub(crate) fn confirmed(&self, attempt: &mut Attempt, sent: Us, lease_ms: u64) {
        let replied = self.now();
        attempt.confirms.push(Confirm { sent, replied, lease: ms(lease_ms), on_replica: false });
        attempt.gone = replied + ms(lease_ms);
    }

    /// Ends an attempt that came to nothing.
    pub(crate) fn without(&self, mut attempt: Attempt, outcome: Outcome) {
        attempt.outcome = outcome;
        if attempt.answered == 0 {
            attempt.answered = self.now();
        }
        self.recorder().attempt(attempt);
    }

    /// After a call whose answer was lost: undoes its effects.
    pub(crate) fn give_up(&mut self, mut attempt: Attempt, clean: &[&[&str]]) {
        attempt.outcome = Outcome::Unknown;
        let now = self.now();
        attempt.released.get_or_insert(now);
        if attempt.answered == 0 {
            attempt.answered = now;
        }
        // Leaves time to observe what the server does without the clean-up.
        std::thread::sleep(Duration::from_millis(150));
        for words in clean {
            if self.surely(attempt.key, words).is_none() {
                attempt.gone = Us::MAX;
            }
        }
        attempt.gone = attempt.gone.max(self.now());
        self.recorder().attempt(attempt);
    }
}
