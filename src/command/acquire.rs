//! `RLOCK.ACQUIRE key owner lease-ms [READ | WRITE | PERMITS n] [FAIR] [HOLDS n] [FENCED] [SESSION grace-ms] [BLOCK wait-ms | ENQUEUE wait-ms channel]`

use rlock_core::commands::Answer;
use rlock_core::request::{self, Wait};
use rlock_core::{Error, Wanted};

use super::{after_key, check_session, key, lock};
use crate::fair::SiteFairList;
use crate::ffi::{
    Arg, ArgType, Audience, Command, CommandCtx, KeyUse, Spec, listen_to_keys, listen_to_lists,
    listen_to_sorted_sets,
};
use crate::keyspace;
use crate::waiters::node;

/// READ, WRITE or PERMITS.
const KIND_ARG: Arg = Arg::new(
    c"kind",
    ArgType::OneOf(&[
        Arg::new(c"read", ArgType::Token).after(c"READ"),
        Arg::new(c"write", ArgType::Token).after(c"WRITE"),
        Arg::new(c"n", ArgType::Integer).after(c"PERMITS"),
    ]),
)
.optional();

/// Acquires or re-enters a lock, or waits for it.
pub(crate) struct Acquire;

impl Command for Acquire {
    type Answer = Answer;
    const SPEC: Spec = Spec {
        name: c"rlock.acquire",
        flags: c"write deny-oom",
        acl: c"write slow blocking",
        audience: Audience::LockUsers,
        summary:
            c"Acquires a lock for a lease, adds a hold, or waits for the lock; null if another owner holds it",
        complexity: super::COST,
        tips: None,
        arity: -4,
        key: KeyUse::Change,
        args: &[
            Arg::new(c"key", ArgType::Key),
            Arg::new(c"owner", ArgType::String),
            Arg::new(c"lease-ms", ArgType::Integer),
            KIND_ARG,
            Arg::new(c"fair", ArgType::Token).after(c"FAIR").optional(),
            Arg::new(c"n", ArgType::Integer).after(c"HOLDS").optional(),
            Arg::new(c"fenced", ArgType::Token).after(c"FENCED").optional(),
            super::SESSION_ARG,
            Arg::new(
                c"wait",
                ArgType::OneOf(&[
                    Arg::new(c"wait-ms", ArgType::Integer).after(c"BLOCK"),
                    Arg::new(
                        c"enqueue",
                        ArgType::Block(&[
                            Arg::new(c"wait-ms", ArgType::Integer),
                            Arg::new(c"channel", ArgType::String),
                        ]),
                    )
                    .after(c"ENQUEUE"),
                ]),
            )
            .optional(),
        ],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Answer, Error> {
        let request = request::Acquire::parse(key(ctx)?, after_key(ctx))?;
        if request.session.is_some() {
            check_session(ctx)?;
        }
        if let Some(Wait::Enqueue(_, channel)) = request.wait {
            keyspace::check_channel(ctx, channel)?;
        }
        if request.wanted == Wanted::Read {
            keyspace::check_lease_key(ctx, request.owner.bytes())?;
        }
        if request.fair {
            SiteFairList::of(*ctx, ctx.args().get(1).ok_or(Error::Arity)?).check(ctx)?;
        }
        if request.fenced {
            keyspace::check_token_key(ctx)?;
        }
        let waits = request.wait.is_some();
        let listens_to_lists = !(request.fair && waits) || listen_to_lists(*ctx);
        let for_permit = matches!(request.wanted, Wanted::Permit(_));
        let listens_to_permits = !(for_permit && waits) || listen_to_sorted_sets(*ctx);
        if !listens_to_lists
            || !listens_to_permits
            || (waits || request.wanted == Wanted::Read) && !listen_to_keys(*ctx)
        {
            return Err(Error::Internal("the server does not report changes of keys"));
        }
        let answer = node(&ctx).at(&mut lock(ctx)?).acquire(&request);
        if for_permit { answer } else { answer.map_err(Error::without_permits) }
    }
}
