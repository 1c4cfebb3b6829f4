//! `RLOCK.RELEASE key owner [READ | WRITE] [ALL | HOLDS n] [LEASE lease-ms]`

use rlock_core::{Error, Reply, request};

use super::{after_key, lock};
use crate::ffi::{Arg, ArgType, Audience, Command, CommandCtx, KeyUse, Spec};
use crate::waiters::node;

/// Releases holds.
pub(crate) struct Release;

impl Command for Release {
    type Answer = Reply;
    const SPEC: Spec = Spec {
        name: c"rlock.release",
        flags: c"write",
        acl: c"write slow",
        audience: Audience::LockUsers,
        summary: c"Releases one hold of a lock, or all; 1 if the lock is free now, 0 if holds remain, null if the owner holds nothing",
        complexity: super::COST,
        tips: None,
        arity: -3,
        key: KeyUse::Change,
        args: &[
            Arg::new(c"key", ArgType::Key),
            Arg::new(c"owner", ArgType::String),
            super::MODE_ARG,
            Arg::new(
                c"down-to",
                ArgType::OneOf(&[
                    Arg::new(c"all", ArgType::Token).after(c"ALL"),
                    Arg::new(c"n", ArgType::Integer).after(c"HOLDS"),
                ]),
            )
            .optional(),
            Arg::new(c"lease-ms", ArgType::Integer).after(c"LEASE").optional(),
        ],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Reply, Error> {
        let request = request::Release::parse(after_key(ctx))?;
        node(&ctx).at(&mut lock(ctx)?).release(&request).map_err(Error::without_permits)
    }
}
