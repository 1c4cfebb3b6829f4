//! Clients of the Rust crate, as tasks of one runtime.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rlock_client::{Any, Client, Error, Guard, Lock, Lost};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::desk::Shared;
use crate::dice::Dice;
use crate::history::{Attempt, Confirm, Harm, Line, Mode, Outcome, Refusal, Token, Us, ms};
use crate::scene::Role;

/// The lease of locks that are renewed.
const LEASE: Duration = Duration::from_millis(3_000);

/// How long a permit lasts after its connection, where it is tied to that.
const GRACE: Duration = Duration::from_millis(1_500);

/// A fault up to this long before an error may be its reason: the client had tried for a while.
const TRIED: Us = ms(4_000);

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
            match Client::builder().lease(LEASE).connect(&url).await {
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
        if let Err(error) = client.close(ENDING).await {
            self.shared.recorder.violation("answer", 0, format!("a Rust client's end: {error}"));
        }
    }

    fn lock(&mut self, client: &Client, key: usize) -> (Lock<Any>, Mode) {
        let name = self.shared.scene.keys[key].name.as_str();
        match self.role.kind {
            "rust fenced" => (client.lock(name).fenced().any(), Mode::Alone),
            "rust fair" => (client.lock(name).fair().any(), Mode::Alone),
            "rust rw" if self.dice.one_in(2) => (client.read_write_lock(name).read().any(), Mode::Shared),
            "rust rw" => (client.read_write_lock(name).write().any(), Mode::Alone),
            "rust permit" | "rust tied permit" => {
                let permits = self.shared.scene.keys[key].permits.unwrap_or(1);
                let lock = client.semaphore(name, permits);
                let tied = self.role.kind.contains("tied");
                (if tied { lock.session_grace(GRACE) } else { lock }.any(), Mode::Permit(permits))
            }
            _ => (client.lock(name).any(), Mode::Alone),
        }
    }

    async fn once(&mut self, client: &Client) {
        let key = self.dice.one_of(&self.role.keys);
        let (lock, mode) = self.lock(client, key);
        // A client that gives up may be granted the lock at that moment. If many give up all the time, the history can
        // say little.
        let wait = Duration::from_millis(if self.dice.one_in(12) { 50 } else { 3_000 });
        let mut attempt = self.begin(key, mode, wait);
        let outcome = lock.acquire_timeout(wait).await;
        attempt.answered = self.now();
        match outcome {
            Ok(guard) => return self.hold(attempt, guard, client, &lock).await,
            Err(Error::Timeout { .. }) => attempt.told_of_end = Some(attempt.answered),
            Err(error) => {
                self.judge(&attempt, &error);
                sleep(Duration::from_millis(20)).await;
            }
        }
        attempt.gone = self.gone(client, &lock).await;
        self.shared.recorder.attempt(attempt);
    }

    fn begin(&mut self, key: usize, mode: Mode, wait: Duration) -> Attempt {
        self.attempts += 1;
        let kind = self.role.kind;
        let owner = format!("{}-{}:{}", kind.replace(' ', "-"), self.number, self.attempts);
        let limit = Some(wait.as_micros() as Us);
        Attempt { mode, limit, ..Attempt::new(kind, key, owner, Line::Client, self.now()) }
    }

    /// When the server has surely forgotten whatever this client asked for: it neither holds the lock nor waits for it, or
    /// the lease has ended.
    async fn gone(&self, client: &Client, lock: &Lock<Any>) -> Us {
        let deadline = self.now() + LEASE.as_micros() as Us;
        let own = |owner: &Vec<u8>| owner.starts_with(client.identity().as_bytes());
        while self.now() < deadline {
            if let Ok(Ok(info)) = timeout(LEASE, lock.info()).await
                && !info.holders.iter().any(|holder| own(&holder.owner))
                && !info.queue.iter().any(|waiter| own(&waiter.owner))
            {
                return self.now().min(deadline);
            }
            sleep(Duration::from_millis(5)).await;
        }
        deadline
    }

    /// Holds the lock for as long as the guard says that it does.
    async fn hold(&mut self, mut attempt: Attempt, guard: Guard<Any>, client: &Client, lock: &Lock<Any>) {
        attempt.outcome = Outcome::Held;
        attempt.owner = format!("{} ({})", attempt.owner, String::from_utf8_lossy(guard.owner()));
        let (requested, known) = (attempt.requested, attempt.answered);
        attempt.confirms.push(Confirm { sent: requested, replied: known, lease: 0, on_replica: false });
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
        let outcome = guard.release().await;
        attempt.gone = self.now();
        match outcome {
            Ok(()) => {}
            Err(Error::LockLost { why: Lost::Taken, .. }) => {
                attempt.refuted.get_or_insert(attempt.gone);
            }
            Err(error) => {
                self.judge(&attempt, &error);
                attempt.gone = self.gone(client, lock).await;
            }
        }
        self.shared.recorder.attempt(attempt);
    }

    /// What the guard says, without asking the server.
    fn look(&self, attempt: &mut Attempt, guard: &Guard<Any>) -> bool {
        let now = self.now();
        match guard.check() {
            Ok(left) => {
                let until = now + left.as_micros() as Us - attempt.requested;
                // So that it ends then, the margin taken off.
                attempt.confirms[0].lease = (until + ms(2)) * 100 / 99;
                true
            }
            Err(Error::LockLost { why: Lost::Taken, .. }) => {
                attempt.refuted.get_or_insert(self.now());
                false
            }
            Err(error) => {
                self.judge(attempt, &error);
                false
            }
        }
    }

    /// Allows the errors that a failing, full or changing server can cause, and no others.
    fn judge(&self, attempt: &Attempt, error: &Error) {
        let (recorder, key, told) = (&self.shared.recorder, attempt.key, self.now());
        let text = format!("{} failed: {error}", attempt.owner);
        let trouble = |harm: &Harm| harm.places || harm.stalls || harm.pauses;
        let since = attempt.requested.saturating_sub(TRIED);
        match error {
            Error::Refused { message } => {
                let (code, text) = message.split_once(' ').unwrap_or((message, ""));
                let (code, text, who) = (code.to_owned(), text.to_owned(), attempt.owner.clone());
                recorder.refusal(Refusal { key, who, sent: attempt.requested, told, code, text });
            }
            Error::Transport { .. }
            | Error::OutcomeUnknown { .. }
            | Error::LockLost { why: Lost::Unreachable, .. } => {
                recorder.violation_unless("answer", key, text, since, trouble);
            }
            _ => recorder.violation("answer", key, text),
        }
    }
}
