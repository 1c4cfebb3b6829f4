//! What happens to locks and connections, told to the log and to the user.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Lost, name};

/// What happened to a lock, or to a connection; see [`Builder::on_event`](crate::Builder::on_event).
///
/// `lock` is the lock's name. Of locks that are acquired together (the crate `rlock-multi`), each client reports each of its locks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields that are described here or with their variant")]
pub enum Event<'a> {
    /// A lock was acquired, after this wait.
    Acquired { lock: &'a [u8], waited: Duration },
    /// A lock was asked for once, and another owner holds it.
    Denied { lock: &'a [u8] },
    /// A wait ended without the lock, after this time.
    TimedOut { lock: &'a [u8], waited: Duration },
    /// The last guard of a lock was released or dropped, this long after the lock was acquired. It is reported when the
    /// server has answered; if the lock was gone by that time, `Lost` is reported instead.
    Released { lock: &'a [u8], held: Duration },
    /// A renewal was confirmed.
    Renewed { lock: &'a [u8] },
    /// A renewal failed, and is tried again until lease end.
    RenewalFailed { lock: &'a [u8], error: &'a Error },
    /// A lock was lost, this long after it was acquired.
    Lost { lock: &'a [u8], held: Duration, why: Lost },
    /// A connection to this server was lost; the client connects again.
    Disconnected { server: &'a str, error: &'a Error },
    /// A connection to this server was restored, this long after it was lost.
    Reconnected { server: &'a str, after: Duration },
}

/// The receiver of events, besides the log.
#[derive(Clone, Default)]
pub(crate) struct Hook(pub(crate) Option<Arc<Receiver>>);

type Receiver = dyn Fn(&Event<'_>) + Send + Sync;

impl Hook {
    /// Reports an event.
    ///
    /// A panic of the receiver ends here: elsewhere it would end the watchdog, or a process in which a guard
    /// is dropped while panicking.
    pub(crate) fn tell(&self, event: Event<'_>) {
        log(&event);
        let Some(hook) = &self.0 else { return };
        if catch_unwind(AssertUnwindSafe(|| hook(&event))).is_err() {
            tracing::error!("the receiver of events panicked; locks are not affected");
        }
    }
}

fn log(event: &Event<'_>) {
    match event {
        Event::Lost { lock, why, .. } => tracing::warn!(lock = name(lock), %why, "a lock was lost"),
        Event::RenewalFailed { lock, error } => {
            tracing::debug!(lock = name(lock), ?error, "a renewal failed; trying again");
        }
        Event::Disconnected { server, error } => {
            tracing::warn!(server, ?error, "the connection to the server was lost");
        }
        Event::Reconnected { server, after } => {
            tracing::warn!(server, ?after, "the connection to the server was restored");
        }
        _ => (),
    }
}
