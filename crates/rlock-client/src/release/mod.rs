//! Releasing holds and leaving queues: by the caller of `release`, or by a task for dropped guards.

mod giving;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tracing::Instrument;

use self::giving::{is_final, last_or_refusal};
use crate::clock::Instant;
use crate::command::{self, Refusal, answer};
use crate::error::Error;
use crate::exchange::{Manner, exchange};
use crate::hold::{Found, Hold, Leaver};
use crate::message::Party;
use crate::node::{Elsewhere, Line};
use crate::shared::Shared;
pub(crate) use giving::{Repeat, give_back, lower};

/// How many releases go in one piece.
const BATCH: usize = 256;

/// The pause before a release is tried again; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long after the end of a lease by the client's clock it has surely ended by the server's.
const GRACE: Duration = Duration::from_secs(1);

/// Work in the background: a request to the server.
pub(crate) enum Job {
    /// A guard is gone and others of its hold are left. Fewer holds are a courtesy: the last release takes them all.
    Lower(Arc<Hold>),
    /// An owner has come to its end.
    End(End),
}

impl Job {
    /// The release of a hold.
    pub(crate) fn of(hold: Arc<Hold>, by: Leaver) -> Job {
        match by {
            Leaver::Last => Job::End(End::of(hold)),
            Leaver::Other => Job::Lower(hold),
        }
    }
}

/// The end of an owner, until the server has answered.
pub(crate) struct End {
    pub(crate) ending: Ending,
    pub(crate) earlier: Earlier,
    /// Whether a release was sent that stayed unanswered: it may have been carried out.
    pub(crate) unsure: bool,
    /// When the server has forgotten the owner by itself.
    pub(crate) give_up: Instant,
    told: Told,
}

/// Whose end it is.
pub(crate) enum Ending {
    /// Of an owner that held the lock.
    Holder(Arc<Hold>),
    /// Of one that asked for it, or is not known any more.
    Asker {
        party: Arc<Party>,
        /// Whether it may wait in the queue. Its mailbox is closed at the end.
        queued: bool,
        /// The right to use an owner that the user named; held until the end.
        turn: Option<OwnedMutexGuard<()>>,
    },
}

/// What became of the owner's earlier requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// All were answered.
    Answered,
    /// The last was sent on this connection and not answered.
    On(u64),
    /// One was sent on a lost connection and may still be carried out, after the release: the release is repeated.
    Stray,
}

/// Whether the server knows of the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Not,
    /// It has forgotten the owner by itself: the lease has ended.
    Forgotten,
    /// It has answered; only repeats are left.
    Answered,
}

impl End {
    /// Of a hold whose last guard is gone.
    pub(crate) fn of(hold: Arc<Hold>) -> End {
        let earlier = if hold.stray { Earlier::Stray } else { Earlier::Answered };
        let give_up = last_moment(&hold);
        End { give_up, ..End::asked(Ending::Holder(hold), earlier, give_up) }
    }

    /// Of an acquisition that was given up.
    pub(crate) fn asked(ending: Ending, earlier: Earlier, give_up: Instant) -> End {
        End { ending, earlier, unsure: false, give_up, told: Told::Not }
    }

    fn party(&self) -> &Arc<Party> {
        match &self.ending {
            Ending::Holder(hold) => &hold.party,
            Ending::Asker { party, .. } => party,
        }
    }

    fn commands(&self) -> Vec<Cmd> {
        let party = self.party();
        let release = command::release(party, 0);
        if let Ending::Asker { queued: true, .. } = self.ending {
            // In this order: the release also ends a grant made just before the CANCEL.
            return vec![command::about("RLOCK.CANCEL", &party.key, Some(&party.owner)), release];
        }
        vec![release]
    }

    /// Whether the user named the owner, and so may use it again: then nothing is repeated.
    fn named(&self) -> bool {
        match &self.ending {
            Ending::Holder(hold) => hold.named,
            Ending::Asker { turn, .. } => turn.is_some(),
        }
    }

    /// Whether there is something to repeat after the server has answered.
    pub(crate) fn repeats(&self) -> bool {
        self.earlier == Earlier::Stray && !self.named()
    }

    /// Whether it outlives the lease: a server that was paused for longer carries out its earlier requests
    /// only when it continues, and answers this one as well.
    fn lingers(&self) -> bool {
        self.told != Told::Answered && self.earlier != Earlier::Answered && !self.named()
    }

    /// The server was asked on the connection of this epoch: a request sent before on another may come after it.
    fn asked_on(&mut self, epoch: u64) {
        self.earlier = match self.earlier {
            Earlier::On(before) if before != epoch => Earlier::Stray,
            Earlier::On(_) => Earlier::Answered,
            earlier => earlier,
        };
    }

    /// The server has answered; returns the end if it must be repeated.
    fn answered(mut self, shared: &Shared, answer: &Result<Value, Refusal>) -> Option<End> {
        let repeats = self.repeats();
        let nothing = matches!(answer, Ok(Value::Nil) | Err(Refusal { error: Error::NotALock { .. }, .. }));
        self.settle(shared, if nothing && !self.unsure { Found::Nothing } else { Found::Hold });
        self.told = Told::Answered;
        repeats.then_some(self)
    }

    /// The lease has ended; returns the end if it must be tried further.
    fn forgotten(mut self, shared: &Shared) -> Option<End> {
        let lingers = self.lingers();
        self.settle(shared, Found::Hold);
        lingers.then_some(self)
    }

    /// The server has answered, or has forgotten this owner by itself.
    pub(crate) fn settle(&mut self, shared: &Shared, found: Found) {
        if self.told != Told::Not {
            return;
        }
        self.told = Told::Forgotten;
        match &mut self.ending {
            Ending::Holder(hold) => hold.settle(found),
            Ending::Asker { party, queued, turn } => {
                if *queued {
                    shared.inbox.close(party);
                }
                *turn = None;
                shared.owners.leave_abandoned();
            }
        }
    }
}

/// When the lease has ended on the server at the latest.
fn last_moment(hold: &Hold) -> Instant {
    hold.deadline().after(hold.lease / 50).after(GRACE)
}

/// The task that carries out jobs; ends when the last handle and guard are gone and all is done.
pub(crate) async fn run(shared: Arc<Shared>, mut jobs: UnboundedReceiver<Job>) {
    let mut batch = Vec::new();
    while jobs.recv_many(&mut batch, BATCH).await > 0 {
        let mut ends = Vec::with_capacity(batch.len());
        for job in batch.drain(..) {
            match job {
                Job::End(end) => ends.push(end),
                Job::Lower(hold) => drop(tokio::spawn(async move { lower(&hold).await })),
            }
        }
        for ends in shared.router.by_node(ends, |end| &end.party().key) {
            let span = tracing::debug_span!("release", locks = ends.len());
            tokio::spawn(carry_out(shared.clone(), ends).instrument(span));
        }
    }
    shared.owners.emptied().await;
    shared.stop.cancel();
}

/// Tells one server of the ends of owners, until it has answered for each.
async fn carry_out(shared: Arc<Shared>, mut ends: Vec<End>) {
    let mut pause = FIRST_PAUSE;
    loop {
        ends = attempt(&shared, ends).await;
        let now = shared.clock.now();
        let left = ends.into_iter().filter_map(|end| match end.give_up <= now {
            true => end.forgotten(&shared),
            false => Some(end),
        });
        ends = left.collect();
        // Repeats are a precaution, not worth staying for.
        let told = ends.iter().all(|end| end.told != Told::Not);
        if told && (ends.is_empty() || shared.stop.is_cancelled()) {
            return;
        }
        tokio::time::sleep(pause).await;
        // Nothing is sent after a close during the pause.
        if told && shared.stop.is_cancelled() {
            return;
        }
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Sends all once; returns those that are not done.
async fn attempt(shared: &Arc<Shared>, mut ends: Vec<End>) -> Vec<End> {
    let Some(first) = ends.first() else { return ends };
    let up = shared.router.up(&first.party().key, Line::Main);
    // Those that linger need no limit, and keep no caller waiting.
    let last = ends.iter().filter(|end| end.told == Told::Not).map(|end| end.give_up).max();
    for end in &ends {
        if let Ending::Holder(hold) = &end.ending {
            hold.renewal_ended().await;
        }
    }
    let Some(Ok((_, live))) = shared.clock.until(last, up).await else { return ends };
    let commands: Vec<Vec<Cmd>> = ends.iter().map(End::commands).collect();
    let lengths: Vec<usize> = commands.iter().map(Vec::len).collect();
    let Ok(values) = live.request(&commands.concat()).await else {
        ends.iter_mut().for_each(|end| end.unsure = true);
        return ends;
    };
    let mut values = values.into_iter();
    let mut left = Vec::new();
    let mut elsewhere = JoinSet::new();
    for (mut end, length) in ends.into_iter().zip(lengths) {
        // All answers to this end, even if one is a refusal: the next answers belong to the next end.
        let key = end.party().key.clone();
        let answers = values.by_ref().take(length).map(|value| answer(&key, value)).collect();
        end.asked_on(live.epoch);
        match last_or_refusal(answers) {
            Err(refusal) if !is_final(&refusal) => match shared.router.learn(&key, Line::Main, &refusal) {
                Elsewhere::No | Elsewhere::Later => left.push(end),
                Elsewhere::Again | Elsewhere::Ask(_) => {
                    elsewhere.spawn(attempt_elsewhere(shared.clone(), end));
                }
            },
            answer => left.extend(end.answered(shared, &answer)),
        }
    }
    while let Some(end) = elsewhere.join_next().await {
        left.extend(end.unwrap_or_default());
    }
    left
}

/// Sends one whose lock was not where it was looked for; returns it where it is not done.
async fn attempt_elsewhere(shared: Arc<Shared>, mut end: End) -> Option<End> {
    let manner = Manner::by(Some(shared.clock.now().after(shared.config.response())));
    let replies = exchange(&shared, &end.party().key, &end.commands(), manner, &mut None).await;
    let Ok(replies) = replies else {
        end.unsure = true;
        return Some(end);
    };
    match last_or_refusal(replies.values) {
        Err(refusal) if !is_final(&refusal) => Some(end),
        answer => end.answered(&shared, &answer),
    }
}
