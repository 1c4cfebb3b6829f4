//! What happens to locks and connections, reported to the log and to the user.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Lost, Quoted, name};

/// What happened to a lock, or to a connection; see [`Builder::on_event`](crate::Builder::on_event).
///
/// `lock` is the lock's name. Of locks that are acquired together (the crate `rlock-multi`), each client reports each of its locks.
#[derive(Clone, Copy)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields that are described here or with their variant")]
pub enum Event<'a> {
    /// A lock was acquired, after this wait.
    Acquired { lock: &'a [u8], waited: Duration },
    /// A lock was asked for once, and another owner holds it.
    Denied { lock: &'a [u8] },
    /// A wait ended without the lock, after this time.
    TimedOut { lock: &'a [u8], waited: Duration },
    /// The last guard of a lock was released or dropped, this long after the lock was acquired. The event is reported
    /// when the server has answered; if the lock was gone by that time, `Lost` is reported instead.
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

/// Names as text.
impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_lock = |f: &mut fmt::Formatter<'_>, variant, lock, more: &[(&str, &dyn fmt::Debug)]| {
            let mut shape = f.debug_struct(variant);
            shape.field("lock", &Quoted(lock));
            for (field, value) in more {
                shape.field(field, value);
            }
            shape.finish()
        };
        match self {
            Event::Acquired { lock, waited } => of_lock(f, "Acquired", lock, &[("waited", waited)]),
            Event::Denied { lock } => of_lock(f, "Denied", lock, &[]),
            Event::TimedOut { lock, waited } => of_lock(f, "TimedOut", lock, &[("waited", waited)]),
            Event::Released { lock, held } => of_lock(f, "Released", lock, &[("held", held)]),
            Event::Renewed { lock } => of_lock(f, "Renewed", lock, &[]),
            Event::RenewalFailed { lock, error } => {
                of_lock(f, "RenewalFailed", lock, &[("error", &error.line())])
            }
            Event::Lost { lock, held, why } => of_lock(f, "Lost", lock, &[("held", held), ("why", why)]),
            Event::Disconnected { server, error } => {
                f.debug_struct("Disconnected").field("server", server).field("error", &error.line()).finish()
            }
            Event::Reconnected { server, after } => {
                f.debug_struct("Reconnected").field("server", server).field("after", after).finish()
            }
        }
    }
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
            tracing::debug!(lock = name(lock), error = %error.line(), "a renewal failed; trying again");
        }
        Event::Disconnected { server, error } => {
            tracing::warn!(server, error = %error.line(), "the connection to the server was lost");
        }
        Event::Reconnected { server, after } => {
            tracing::warn!(server, ?after, "the connection to the server was restored");
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names were lists of numbers.
    #[test]
    fn the_debug_output_of_events_shows_names_as_text() {
        let second = Duration::from_secs(1);
        let (lock, server) = (b"invoice:7\n\xff".as_slice(), "one:6379");
        let error = &Error::transport(server, "connection refused");
        let text = "the server one:6379 is unreachable; check its address, its state and the network; \
                    cause: connection refused";
        let name = "lock: \"invoice:7\\n\u{fffd}\"";
        let cases = [
            (Event::Acquired { lock, waited: second }, format!("Acquired {{ {name}, waited: 1s }}")),
            (Event::Denied { lock }, format!("Denied {{ {name} }}")),
            (Event::TimedOut { lock, waited: second }, format!("TimedOut {{ {name}, waited: 1s }}")),
            (Event::Released { lock, held: second }, format!("Released {{ {name}, held: 1s }}")),
            (Event::Renewed { lock }, format!("Renewed {{ {name} }}")),
            (Event::RenewalFailed { lock, error }, format!("RenewalFailed {{ {name}, error: \"{text}\" }}")),
            (
                Event::Lost { lock, held: second, why: Lost::Taken },
                format!("Lost {{ {name}, held: 1s, why: Taken }}"),
            ),
            (
                Event::Disconnected { server, error },
                format!("Disconnected {{ server: \"{server}\", error: \"{text}\" }}"),
            ),
            (
                Event::Reconnected { server, after: second },
                format!("Reconnected {{ server: \"{server}\", after: 1s }}"),
            ),
        ];
        for (event, shown) in cases {
            assert_eq!(format!("{event:?}"), shown);
        }
    }
}
