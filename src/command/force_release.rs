//! `RLOCK.FORCERELEASE key [owner]`

use rlock_core::{Error, Reply, request};

use super::{after_key, lock};
use crate::ffi::{Arg, ArgType, Audience, Command, CommandCtx, KeyUse, Spec};
use crate::waiters::node;

/// Removes the holds of a lock.
pub(crate) struct ForceRelease;

impl Command for ForceRelease {
    type Answer = Reply;
    const SPEC: Spec = Spec {
        name: c"rlock.forcerelease",
        flags: c"write",
        acl: c"write slow dangerous",
        // Permission to lock is not permission to take locks from others.
        audience: Audience::Operators,
        summary: c"Releases a lock without its owner, or only if the given owner holds it; 0 if nothing was released",
        complexity: super::COST,
        tips: None,
        arity: -2,
        key: KeyUse::Change,
        args: &[Arg::new(c"key", ArgType::Key), Arg::new(c"owner", ArgType::String).optional()],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Reply, Error> {
        let request = request::ForceRelease::parse(after_key(ctx))?;
        node(&ctx).at(&mut lock(ctx)?).force_release(&request).map_err(Error::without_permits)
    }
}
