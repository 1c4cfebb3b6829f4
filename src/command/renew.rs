//! `RLOCK.RENEW key owner lease-ms [READ | WRITE] [SESSION grace-ms]`

use rlock_core::{Error, Reply, request};

use super::{after_key, check_session, lock};
use crate::ffi::{Arg, ArgType, Audience, Command, CommandCtx, KeyUse, Spec};
use crate::waiters::node;

/// Renews a lease: it counts from now.
pub(crate) struct Renew;

impl Command for Renew {
    type Answer = Reply;
    const SPEC: Spec = Spec {
        name: c"rlock.renew",
        flags: c"write",
        acl: c"write slow",
        audience: Audience::LockUsers,
        summary: c"Restarts the lease of a held lock from now; 0 if the owner holds nothing",
        complexity: super::COST,
        tips: None,
        arity: -4,
        key: KeyUse::Change,
        args: &[
            Arg::new(c"key", ArgType::Key),
            Arg::new(c"owner", ArgType::String),
            Arg::new(c"lease-ms", ArgType::Integer),
            super::MODE_ARG,
            super::SESSION_ARG,
        ],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Reply, Error> {
        let request = request::Renew::parse(after_key(ctx))?;
        if request.session.is_some() {
            check_session(ctx)?;
        }
        node(&ctx).at(&mut lock(ctx)?).renew(&request).map_err(Error::without_permits)
    }
}
