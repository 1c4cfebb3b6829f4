//! `RLOCK.ACQUIRE key owner lease-ms [HOLDS n]`

use rlock_core::{Error, Reply, decide, request};

use super::{after_key, run};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, KeyUse, Spec};
use crate::options;

/// Takes a lock, or takes it once more.
pub(crate) struct Acquire;

impl Command for Acquire {
    type Answer = Reply;
    const SPEC: Spec = Spec {
        name: c"rlock.acquire",
        flags: c"write deny-oom fast",
        acl: c"write fast rlock",
        summary: c"Takes a lock for a lease, or holds it once more; null if somebody else holds it",
        complexity: c"O(1)",
        tips: None,
        arity: -4,
        key: KeyUse::Change,
        args: &[
            Arg::new(c"key", ArgKind::Key),
            Arg::new(c"owner", ArgKind::String),
            Arg::new(c"lease-ms", ArgKind::Integer),
            Arg::new(c"n", ArgKind::Integer).after(c"HOLDS").optional(),
        ],
    };

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Reply, Error> {
        let request = request::Acquire::parse(after_key(args))?;
        run(ctx, args, |state| decide::acquire(state, &request, ctx.now(), options::admission()))
    }
}
