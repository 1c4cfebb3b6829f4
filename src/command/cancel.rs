//! `RLOCK.CANCEL key owner`

use rlock_core::{Error, Reply, request};

use super::{after_key, key, lock};
use crate::ffi::{Arg, ArgType, Audience, Command, CommandCtx, KeyUse, Spec};
use crate::waiters::node;

/// Removes a waiter from the queue.
pub(crate) struct Cancel;

impl Command for Cancel {
    type Answer = Reply;
    const SPEC: Spec = Spec {
        name: c"rlock.cancel",
        flags: c"write",
        acl: c"write slow",
        audience: Audience::LockUsers,
        summary:
            c"Ends an owner's wait for a lock; 0 if it did not wait, for example after it was granted the lock",
        complexity: super::COST,
        tips: None,
        arity: 3,
        key: KeyUse::Change,
        args: &[Arg::new(c"key", ArgType::Key), Arg::new(c"owner", ArgType::String)],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Reply, Error> {
        let request = request::Cancel::parse(key(ctx)?, after_key(ctx))?;
        node(&ctx).at(&mut lock(ctx)?).cancel(&request)
    }
}
