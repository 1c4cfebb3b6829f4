//! `RLOCK.CANCEL key owner`

use rlock_core::{Error, Reply, request};

use super::{Call, after_key};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, KeyUse, Locks, Spec};
use crate::{stats, waiters};

/// Takes a waiter out of the queue.
pub(crate) struct Cancel;

impl Command for Cancel {
    type Answer = Reply;
    const SPEC: Spec = Spec {
        name: c"rlock.cancel",
        flags: c"write fast",
        acl: c"write fast",
        locks: Locks::Yes,
        summary:
            c"Ends an owner's wait for a lock; 0 if it did not wait, perhaps because it was granted the lock",
        complexity: c"O(log n) for n waiters",
        tips: None,
        arity: 3,
        key: KeyUse::Change,
        args: &[Arg::new(c"key", ArgKind::Key), Arg::new(c"owner", ArgKind::String)],
    };

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Reply, Error> {
        let request = request::Cancel::parse(after_key(args))?;
        let call = Call::open(ctx, args)?;
        let waiter = call
            .lock
            .as_ref()
            .and_then(|lock| waiters::queues(|queues| queues.cancel(lock, request.owner.bytes())));
        let Some(waiter) = waiter else { return Ok(Reply::NotQueued) };
        stats::STATS.cancelled.add(1);
        waiters::unblock(waiter.ticket, Ok(Reply::Denied));
        waiters::arm_timer(ctx);
        Ok(Reply::Cancelled)
    }
}
