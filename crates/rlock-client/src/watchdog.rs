//! The watchdog: one task that renews all locks of a client, and sees their ends.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::sync::Notify;
use tracing::Instrument;

use crate::clock::Instant;
use crate::command::{self, answer};
use crate::error::{Error, Lost};
use crate::exchange::{Manner, Trouble, exchange};
use crate::hold::{Again, Hold, Need, Timetable, WINDOW};
use crate::link::Life;
use crate::node::{Elsewhere, Line};
use crate::shared::Shared;

/// How many renewals go in one piece.
const BATCH: usize = 500;

/// The watchdog's task; ends with the client. `restored` is notified when a lost connection is replaced: all
/// holds are renewed at once, to learn what the server still has.
pub(crate) async fn run(shared: Arc<Shared>, timetable: Arc<Timetable>, restored: Arc<Notify>) {
    loop {
        if shared.check_home().is_err() {
            // The child of a fork, in which a runtime of one thread continues.
            timetable.all().iter().for_each(|hold| hold.lose(Lost::Forked));
            return;
        }
        let now = shared.clock.now();
        let due = timetable.due(now);
        let renewals = due.into_iter().filter(|(at, hold)| hold.wake(*at, now, WINDOW) == Need::Renewal);
        let renewals = renewals.map(|(_, hold)| hold).collect();
        for batch in shared.router.by_node(renewals, |hold| &hold.party.key) {
            for holds in batch.chunks(BATCH) {
                // A task each: one server that hangs must not keep the others waiting, nor the deadlines.
                let span = tracing::debug_span!("renew", locks = holds.len());
                tokio::spawn(renew(shared.clone(), holds.to_vec()).instrument(span));
            }
        }
        let nap = timetable.nap(shared.clock.now());
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = timetable.sooner.notified() => (),
            () = restored.notified() => {
                timetable.all().iter().for_each(|hold| hold.renew_soon(shared.clock.now()));
            }
            () = tokio::time::sleep(nap) => (),
        }
    }
}

/// Renews locks of one server in one piece.
async fn renew(shared: Arc<Shared>, holds: Vec<Arc<Hold>>) {
    let Some(first) = holds.first() else { return };
    let responses = holds.iter().map(|hold| shared.config.response_for(hold.lease));
    let response = responses.min().unwrap_or_default();
    // Where there is no connection the renewals go out as soon as there is one.
    let patience = shared.clock.now().after(response);
    let live = shared.clock.until(Some(patience), shared.router.up(&first.party.key, Line::Main)).await;
    let sent = shared.clock.now();
    let outcome = match live {
        Some(Ok((_, live))) => {
            let renewals: Vec<Cmd> = holds.iter().map(|hold| hold.renewal(sent)).collect();
            live.request_or_leave(&renewals, response).await.map(|values| (values, live.life.clone()))
        }
        failed => {
            // That was pause enough.
            let trouble = || shared.router.node(&first.party.key).main.trouble();
            let error = failed.and_then(Result::err).unwrap_or_else(trouble);
            holds.iter().for_each(|hold| hold.renewal_failed(&error, Again::AtOnce));
            return;
        }
    };
    match outcome {
        Ok((values, life)) => {
            for (hold, value) in holds.iter().zip(values) {
                conclude(&shared, hold, (sent, &life), value);
            }
        }
        Err(error) => {
            holds.iter().for_each(|hold| hold.renewal_failed(&error, Again::AfterPause));
        }
    }
}

/// Reads the answer to a renewal; `asked` is when it was sent, and the life of the connection on which.
fn conclude(shared: &Arc<Shared>, hold: &Arc<Hold>, asked: (Instant, &Arc<Life>), value: Value) {
    let key = &hold.party.key;
    match answer(key, value) {
        Ok(value) => conclude_with(hold, Ok((value, asked))),
        Err(refusal) => match shared.router.learn(key, Line::Main, &refusal) {
            Elsewhere::No | Elsewhere::Later => conclude_with(hold, Err(refusal.error)),
            Elsewhere::Again | Elsewhere::Ask(_) => {
                tokio::spawn(renew_elsewhere(shared.clone(), hold.clone()));
            }
        },
    }
}

/// Renews one lock that was not where it was looked for.
async fn renew_elsewhere(shared: Arc<Shared>, hold: Arc<Hold>) {
    let sent = shared.clock.now();
    let by = Manner::by(Some(sent.after(shared.config.response_for(hold.lease))));
    match exchange(&shared, &hold.party.key, &[hold.renewal(sent)], by, &mut None).await {
        Ok(mut replies) => {
            let reply = replies.take(0).map_err(|refusal| refusal.error);
            conclude_with(&hold, reply.map(|value| (value, (sent, &replies.life))));
        }
        Err(Trouble::Unsent(error)) => conclude_with(&hold, Err(error)),
        Err(Trouble::Unanswered(error)) => conclude_with(&hold, Err(error)),
    }
}

fn conclude_with(hold: &Arc<Hold>, reply: Result<(Value, (Instant, &Arc<Life>)), Error>) {
    let read = |(value, asked)| Ok((command::integer("RLOCK.RENEW", &value)?, asked));
    match reply.and_then(read) {
        Ok((Some(1), (sent, life))) => hold.renewal_confirmed(sent, life),
        // Something else under the lock's name is an end of the hold like any other.
        Ok(_) | Err(Error::NotALock { .. }) => {
            hold.lose(Lost::Taken);
            hold.renewal_over();
        }
        Err(error) => hold.renewal_failed(&error, Again::AfterPause),
    }
}
