//! Releasing holds and leaving queues: by the caller of `unlock`, or by a task for dropped guards.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::clock::Instant;
use crate::command::{self, Refusal, answer};
use crate::error::{Error, Lost, name};
use crate::exchange::{Manner, Trouble, exchange, exchange_one};
use crate::hold::Hold;
use crate::message::Party;
use crate::router::{Elsewhere, Line};
use crate::shared::Shared;

/// How many releases go in one piece.
const BATCH: usize = 256;

/// The pause before a release is tried again; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long after the end of a lease by our clock it has surely ended by the server's.
const GRACE: Duration = Duration::from_secs(1);

/// An owner whose end the server is to be told of.
pub(crate) struct Job {
    pub(crate) party: Arc<Party>,
    /// What it held, if it ever did.
    pub(crate) hold: Option<Arc<Hold>>,
    /// Whether this is the end of the owner, and not of one of its guards: fewer holds are left then, whoever releases
    /// the rest.
    pub(crate) last: bool,
    /// Whether it may wait in the queue.
    pub(crate) queued: bool,
    /// Whether a request that was sent for it on a lost connection may still be carried out: then the
    /// release is repeated, lest it be overtaken.
    pub(crate) stray: bool,
    /// The connection on which its last request was sent that was not answered.
    pub(crate) sent_on: Option<u64>,
    /// When the server has forgotten it by itself.
    pub(crate) give_up: Instant,
    /// Whether it has a mailbox, which is closed at the end.
    pub(crate) mailbox: bool,
    /// Held until the end.
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
    /// Whether the user named the owner, and so may use it again: then nothing is repeated.
    pub(crate) named: bool,
    /// Whether the server has answered, and only repeats are left; or has forgotten the owner by itself.
    pub(crate) settled: bool,
    /// Whether the server has answered.
    pub(crate) answered: bool,
}

impl Job {
    /// The release of a hold, by its last guard or by another.
    pub(crate) fn of(hold: Arc<Hold>, last: bool) -> Job {
        Job {
            party: hold.party.clone(),
            last,
            queued: false,
            stray: hold.stray,
            sent_on: None,
            give_up: last_moment(&hold),
            mailbox: false,
            turn: None,
            named: hold.named,
            settled: false,
            answered: false,
            hold: Some(hold),
        }
    }

    /// The return of a grant to an owner that this client has forgotten.
    pub(crate) fn unknown(shared: &Shared, party: Arc<Party>) -> Job {
        shared.owners.enter();
        let give_up = shared.clock.now().after(shared.config.watchdog);
        Job {
            party,
            hold: None,
            last: true,
            queued: false,
            stray: false,
            sent_on: None,
            give_up,
            mailbox: false,
            turn: None,
            named: false,
            settled: false,
            answered: false,
        }
    }

    async fn lower(self) {
        if let Some(hold) = self.hold {
            // What it failed to lower, the last release will.
            let _ = lower(&hold).await;
        }
    }

    fn commands(&self) -> Vec<Cmd> {
        let (key, owner) = (&self.party.key, &self.party.owner);
        let release = command::release(&self.party, 0);
        if self.queued {
            // In this order: what was granted just before the CANCEL is given back by the release.
            return vec![command::about("RLOCK.CANCEL", key, Some(owner)), release];
        }
        vec![release]
    }

    /// Whether there is something to repeat after the server has answered.
    pub(crate) fn repeats(&self) -> bool {
        self.stray && !self.named
    }

    /// Whether it outlives the lease: a server that stood still for longer carries out what it was sent before only
    /// when it goes on, and then answers this as well.
    fn lingers(&self) -> bool {
        !self.answered && !self.named && (self.stray || self.sent_on.is_some())
    }

    /// The server has answered; returns what is to be repeated.
    fn answered(mut self, shared: &Shared) -> Option<Job> {
        self.answered = true;
        self.settle(shared);
        self.repeats().then_some(self)
    }

    /// The server has answered, or has forgotten this owner by itself.
    pub(crate) fn settle(&mut self, shared: &Shared) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        if let Some(hold) = &self.hold {
            hold.settle();
            return;
        }
        if self.mailbox {
            shared.inbox.close(&self.party);
        }
        self.turn = None;
        shared.owners.leave();
    }
}

/// When the server's lease has ended, whatever we know.
fn last_moment(hold: &Hold) -> Instant {
    hold.deadline().after(hold.lease / 50).after(GRACE)
}

/// The task that carries out jobs; ends when the last handle and guard are gone and all is done.
pub(crate) async fn run(shared: Arc<Shared>, mut jobs: UnboundedReceiver<Job>) {
    let mut batch = Vec::new();
    while jobs.recv_many(&mut batch, BATCH).await > 0 {
        // Where guards are left, fewer holds are a courtesy: the last release takes them all.
        for job in batch.extract_if(.., |job| !job.last) {
            tokio::spawn(async move { job.lower().await });
        }
        for jobs in shared.router.by_node(std::mem::take(&mut batch), |job| &job.party.key) {
            let span = tracing::debug_span!("release", locks = jobs.len());
            tokio::spawn(carry_out(shared.clone(), jobs).instrument(span));
        }
    }
    shared.owners.emptied().await;
    shared.stop.cancel();
}

/// Tells one server of the ends of owners, until it has answered for each.
async fn carry_out(shared: Arc<Shared>, mut jobs: Vec<Job>) {
    let mut pause = FIRST_PAUSE;
    loop {
        jobs = attempt(&shared, jobs).await;
        let now = shared.clock.now();
        jobs.retain_mut(|job| {
            let over = job.give_up <= now;
            if over {
                job.settle(&shared);
            }
            !over || job.lingers()
        });
        // Repeats are a precaution, not worth staying for.
        if jobs.iter().all(|job| job.settled) && (jobs.is_empty() || shared.stop.is_cancelled()) {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Sends all jobs once; returns those that are not done.
async fn attempt(shared: &Arc<Shared>, jobs: Vec<Job>) -> Vec<Job> {
    let Some(first) = jobs.first() else { return jobs };
    let up = shared.router.up(&first.party.key, Line::Main);
    // Those that linger need no limit, and keep nobody waiting.
    let last = jobs.iter().filter(|job| !job.settled).map(|job| job.give_up).max();
    for hold in jobs.iter().filter_map(|job| job.hold.as_ref()) {
        hold.renewal_ended().await;
    }
    let Some(Ok((_, live))) = shared.clock.until(last, up).await else { return jobs };
    let commands: Vec<Vec<Cmd>> = jobs.iter().map(Job::commands).collect();
    let lengths: Vec<usize> = commands.iter().map(Vec::len).collect();
    let Ok(values) = live.request(&commands.concat()).await else { return jobs };
    let mut values = values.into_iter();
    let mut left = Vec::new();
    let mut elsewhere = JoinSet::new();
    for (mut job, length) in jobs.into_iter().zip(lengths) {
        // All that are this job's, whichever of them is refused: what follows is the next one's.
        let answers: Vec<Value> = values.by_ref().take(length).collect();
        let refused = answers.into_iter().find_map(|value| answer(&job.party.key, value).err());
        // What was sent before on another connection may come after this.
        job.stray |= job.sent_on.take().is_some_and(|epoch| epoch != live.epoch);
        match refused {
            Some(refusal) if !is_final(&refusal) => {
                match shared.router.learn(&job.party.key, Line::Main, &refusal) {
                    Elsewhere::No | Elsewhere::Later => left.push(job),
                    Elsewhere::Again | Elsewhere::Ask(_) => {
                        elsewhere.spawn(attempt_elsewhere(shared.clone(), job));
                    }
                }
            }
            Some(_) | None => left.extend(job.answered(shared)),
        }
    }
    while let Some(job) = elsewhere.join_next().await {
        left.extend(job.unwrap_or_default());
    }
    left
}

/// Sends one job whose lock was not where it was looked for; returns it where it is not done.
async fn attempt_elsewhere(shared: Arc<Shared>, job: Job) -> Option<Job> {
    let manner = Manner::by(Some(shared.clock.now().after(shared.config.response())));
    let replies = exchange(&shared, &job.party.key, &job.commands(), manner, &mut None).await;
    let Ok(replies) = replies else { return Some(job) };
    match replies.values.into_iter().find_map(Result::err) {
        Some(refusal) if !is_final(&refusal) => Some(job),
        Some(_) | None => job.answered(&shared),
    }
}

/// Whether a refusal of a release will be the same next time.
fn is_final(refusal: &Refusal) -> bool {
    matches!(refusal.error, Error::Permission { .. } | Error::ModuleNotLoaded { .. } | Error::NotALock { .. })
}

/// Gives back the last hold of an owner, whose guards are gone, and says whether it was held until then.
///
/// Returns whether the release has to be repeated beside the outcome. Tries until the lease has ended; dropped
/// before it is done, it leaves the rest to whoever holds the job.
pub(crate) async fn give_back(hold: &Arc<Hold>) -> (bool, Result<(), Error>) {
    let shared = &hold.shared;
    let key = &hold.party.key;
    let last = last_moment(hold);
    let mut unanswered: Option<String> = None;
    let mut pause = FIRST_PAUSE;
    hold.renewal_ended().await;
    loop {
        let command = command::release(&hold.party, 0);
        match exchange_one(shared, key, command, Manner::by(Some(last))).await {
            Ok(Ok(value)) => return (unanswered.is_some(), outcome(key, &value, unanswered)),
            Ok(Err(Refusal { error: Error::NotALock { .. }, .. })) => {
                return (false, outcome(key, &Value::Nil, unanswered));
            }
            Ok(Err(refusal)) if is_final(&refusal) => return (false, Err(refusal.error)),
            Ok(Err(refusal)) => {
                tracing::debug!(error = %refusal.error, "a release was refused; trying again")
            }
            Err(Trouble::Unanswered(why)) => unanswered = Some(why),
            Err(Trouble::Unsent(error)) => {
                let cause = unanswered.unwrap_or_else(|| error.to_string());
                return (true, Err(Error::unknown(key, cause)));
            }
        }
        if shared.clock.now() >= last {
            return (
                true,
                Err(Error::unknown(key, unanswered.unwrap_or_else(|| "the lease has ended".into()))),
            );
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Brings the holds on the server down to the guards that are left.
pub(crate) async fn lower(hold: &Arc<Hold>) -> Result<(), Error> {
    let mut level = hold.level.lock().await;
    let guards = hold.guards();
    if guards == 0 {
        // The last guard went meanwhile, and its release takes all.
        return Ok(());
    }
    // Confirmed is from now on no more than what is left, whatever becomes of the request.
    *level = guards.min(*level);
    let command = command::release(&hold.party, guards);
    let reply = exchange_one(&hold.shared, &hold.party.key, command, Manner::by(Some(hold.deadline()))).await;
    match reply {
        // The last guard's release may have come first; it tells whether the lock was held.
        Ok(Ok(Value::Nil)) if hold.guards() == 0 => Ok(()),
        Ok(Ok(Value::Nil) | Err(Refusal { error: Error::NotALock { .. }, .. })) => {
            hold.lose(Lost::Taken);
            Err(Error::NotHeld { lock: name(&hold.party.key) })
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(refusal)) => Err(refusal.error),
        Err(Trouble::Unsent(error)) => Err(Error::unknown(&hold.party.key, error)),
        Err(Trouble::Unanswered(why)) => Err(Error::unknown(&hold.party.key, why)),
    }
}

fn outcome(key: &[u8], value: &Value, unanswered: Option<String>) -> Result<(), Error> {
    match (command::integer("RLOCK.RELEASE", value)?, unanswered) {
        (Some(_), _) => Ok(()),
        (None, None) => Err(Error::NotHeld { lock: name(key) }),
        (None, Some(why)) => Err(Error::unknown(key, why)),
    }
}
