//! Clients of the Rust crate, as tasks of one runtime.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rlock_client::{Client, Error, Guard, Lock, Lost};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::desk::Shared;
use crate::dice::Dice;
use crate::history::{Attempt, Confirm, Line, Mode, Outcome, Token, Us, ms};
use crate::scene::Role;

/// The lease of locks that are renewed.
const LEASE: Duration = Duration::from_millis(3_000);

/// How long an end may take.
const ENDING: Duration = Duration::from_secs(10);

/// All clients of the crate.
pub(crate) struct Fleet {
    runtime: Runtime,
    tasks: Vec<(usize, JoinHandle<()>)>,
}

impl Fleet {
    /// Starts a task for each.
    pub(crate) fn start(shared: &Arc<Shared>, roles: &[Role], seed: u64) -> Fleet {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime for the clients");
        let mine = roles.iter().enumerate().filter(|(_, role)| role.kind.starts_with("rust"));
        let task = |(number, role): (usize, &Role)| {
            let dice = Dice::new(seed, 1_000 + number as u64);
            let user = User { shared: Arc::clone(shared), role: role.clone(), number, dice, attempts: 0 };
            (number, runtime.spawn(user.work()))
        };
        let tasks = mine.map(task).collect();
        Fleet { runtime, tasks }
    }

    /// Waits for all to end; those that did not by `within`, or failed.
    pub(crate) fn stop(self, within: Duration) -> Vec<usize> {
        let tasks = self.tasks;
        let left = self.runtime.block_on(async {
            let mut left = Vec::new();
            for (number, task) in tasks {
                if !matches!(timeout(within, task).await, Ok(Ok(()))) {
                    left.push(number);
                }
            }
            left
        });
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        left
    }
}

struct User {
    shared: Arc<Shared>,
    role: Role,
    number: usize,
    dice: Dice,
    attempts: u64,
}

impl User {
    fn now(&self) -> Us {
        self.shared.recorder.now()
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(SeqCst)
    }

    async fn work(mut self) {
        let url = self.shared.place.url();
        let client = loop {
            match Client::builder().watchdog_timeout(LEASE).connect(&url).await {
                Ok(client) => break client,
                Err(_) if self.stopped() => return,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        };
        while !self.stopped() {
            self.once(&client).await;
            let pause = self.dice.below(15);
            sleep(Duration::from_millis(pause)).await;
        }
        if let Err(error) = client.shutdown(ENDING).await {
            self.shared.recorder.violation("answer", 0, format!("a Rust client's end: {error}"));
        }
    }

    fn lock(&mut self, client: &Client, key: usize) -> (Lock, Mode) {
        let name = self.shared.scene.keys[key].name.as_str();
        match self.role.kind {
            "rust fenced" => (client.fenced_lock(name), Mode::Alone),
            "rust fair" => (client.fair_lock(name), Mode::Alone),
            "rust rw" if self.dice.one_in(2) => (client.read_write_lock(name).read(), Mode::Shared),
            "rust rw" => (client.read_write_lock(name).write(), Mode::Alone),
            _ => (client.lock(name), Mode::Alone),
        }
    }

    async fn once(&mut self, client: &Client) {
        let key = self.dice.one_of(&self.role.keys);
        let (lock, mode) = self.lock(client, key);
        let wait = Duration::from_millis(self.dice.one_of(&[3_000, 3_000, 50]));
        let mut attempt = self.begin(key, mode, wait);
        let outcome = lock.lock_timeout(wait).await;
        attempt.answered = self.now();
        match outcome {
            Ok(guard) => self.hold(attempt, guard).await,
            Err(Error::Timeout { .. }) => {
                attempt.gone = self.now() + ms(500);
                self.shared.recorder.attempt(attempt);
            }
            Err(error) => {
                if !expected(&error) {
                    let text = format!("{} failed: {error}", attempt.owner);
                    self.shared.recorder.violation("answer", key, text);
                }
                attempt.gone = self.now() + LEASE.as_micros() as Us;
                self.shared.recorder.attempt(attempt);
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    fn begin(&mut self, key: usize, mode: Mode, wait: Duration) -> Attempt {
        self.attempts += 1;
        let kind = self.role.kind;
        let owner = format!("{}-{}:{}", kind.replace(' ', "-"), self.number, self.attempts);
        let limit = Some(wait.as_micros() as Us);
        Attempt { mode, limit, ..Attempt::new(kind, key, owner, Line::Client, self.now()) }
    }

    /// Holds the lock for as long as the guard says that it does.
    async fn hold(&mut self, mut attempt: Attempt, guard: Guard) {
        attempt.outcome = Outcome::Held;
        attempt.owner = format!("{} ({})", attempt.owner, String::from_utf8_lossy(guard.owner()));
        let (requested, known) = (attempt.requested, attempt.answered);
        attempt.confirms.push(Confirm { sent: requested, replied: known, lease: 0 });
        if let Some(token) = guard.token() {
            let lease = attempt.answered - requested + ms(500);
            attempt.tokens.push(Token { number: token as i64, requested, known, lease });
        }
        let steps = self.dice.one_of(&[1, 1, 1, 1, 2, 30]);
        let mut held = self.look(&mut attempt, &guard);
        for _ in 0..steps {
            let pause = self.dice.below(5_000);
            sleep(Duration::from_micros(pause)).await;
            held = held && self.look(&mut attempt, &guard);
        }
        attempt.released = Some(self.now());
        let outcome = guard.unlock().await;
        attempt.gone = self.now();
        match outcome {
            Ok(()) => {}
            Err(Error::NotHeld { .. } | Error::Lost { why: Lost::Taken, .. }) => {
                attempt.refuted.get_or_insert(attempt.gone);
            }
            Err(_) => attempt.gone += LEASE.as_micros() as Us,
        }
        self.shared.recorder.attempt(attempt);
    }

    /// What the guard says, without asking the server.
    fn look(&self, attempt: &mut Attempt, guard: &Guard) -> bool {
        let now = self.now();
        match guard.check() {
            Ok(left) => {
                let until = now + left.as_micros() as Us - attempt.requested;
                // So that it ends then, the margin taken off.
                attempt.confirms[0].lease = (until + ms(2)) * 100 / 99;
                true
            }
            Err(Error::Lost { why: Lost::Taken, .. } | Error::NotHeld { .. }) => {
                attempt.refuted.get_or_insert(self.now());
                false
            }
            Err(_) => false,
        }
    }
}

/// What servers that fail, are full or change may make of a request.
fn expected(error: &Error) -> bool {
    matches!(
        error,
        Error::Transport { .. } | Error::Refused { .. } | Error::OutcomeUnknown { .. } | Error::Lost { .. }
    )
}
