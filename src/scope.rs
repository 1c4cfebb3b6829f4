//! The callback under way, as a lock's changes need to know it: a command with a caller, or another one.

use rlock_core::Error;

use crate::ffi::{Args, Event, ScopedCtx, StringRef, Task};
use crate::stats::STATS;
use crate::{effects, keyspace};

/// A kind of callback. Outside commands there is no caller, and every change is sent as its effects.
pub(crate) trait Scope: Copy {
    /// The owner that the command names, as the server's own string.
    fn caller(&self) -> Option<StringRef<'_>> {
        None
    }

    /// Refuses a lock for whose lease key of this reader the user may not run the command.
    fn check_lease_key(_: ScopedCtx<'_, Self>, _reader: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    /// Counts a change in place of its effects, if these have no reader. Returns false where effects must be sent.
    fn count_if_unread(_: ScopedCtx<'_, Self>) -> bool {
        false
    }
}

impl Scope for Task {}

impl Scope for Event {}

impl Scope for Args<'_> {
    fn caller(&self) -> Option<StringRef<'_>> {
        self.get(2)
    }

    fn check_lease_key(ctx: ScopedCtx<'_, Self>, reader: &[u8]) -> Result<(), Error> {
        keyspace::check_lease_key(ctx, reader)
    }

    fn count_if_unread(ctx: ScopedCtx<'_, Self>) -> bool {
        if effects::are_read() {
            return false;
        }
        STATS.unread_changes.add(1);
        ctx.count_change();
        true
    }
}
