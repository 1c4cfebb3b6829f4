//! `RLOCK.ACQUIRE key owner lease-ms [READ | WRITE | PERMITS n] [FAIR] [HOLDS n] [FENCED] [SESSION grace-ms] [BLOCK wait-ms | ENQUEUE wait-ms channel]`

use rlock_core::commands::{self, Answer};
use rlock_core::request::{self, Wait};
use rlock_core::{Error, Mode};

use super::{after_key, check_session, key, lock};
use crate::fair::SiteFairList;
use crate::ffi::{
    Arg, ArgKind, Audience, Command, CommandCtx, KeyUse, Spec, listen_to_keys, listen_to_lists,
    listen_to_sorted_sets,
};
use crate::keyspace;
use crate::waiters::core;

/// READ, WRITE or PERMITS.
const KIND_ARG: Arg = Arg::new(
    c"kind",
    ArgKind::OneOf(&[
        Arg::new(c"read", ArgKind::Token).after(c"READ"),
        Arg::new(c"write", ArgKind::Token).after(c"WRITE"),
        Arg::new(c"n", ArgKind::Integer).after(c"PERMITS"),
    ]),
)
.optional();

/// Takes a lock, or takes it once more, or waits for it.
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
            Arg::new(c"key", ArgKind::Key),
            Arg::new(c"owner", ArgKind::String),
            Arg::new(c"lease-ms", ArgKind::Integer),
            KIND_ARG,
            Arg::new(c"fair", ArgKind::Token).after(c"FAIR").optional(),
            Arg::new(c"n", ArgKind::Integer).after(c"HOLDS").optional(),
            Arg::new(c"fenced", ArgKind::Token).after(c"FENCED").optional(),
            super::SESSION_ARG,
            Arg::new(
                c"wait",
                ArgKind::OneOf(&[
                    Arg::new(c"wait-ms", ArgKind::Integer).after(c"BLOCK"),
                    Arg::new(
                        c"enqueue",
                        ArgKind::Block(&[
                            Arg::new(c"wait-ms", ArgKind::Integer),
                            Arg::new(c"channel", ArgKind::String),
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
        if request.mode == Mode::Read {
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
        let listens_to_permits = request.permits.is_none() || !waits || listen_to_sorted_sets(*ctx);
        if !listens_to_lists
            || !listens_to_permits
            || (waits || request.mode == Mode::Read) && !listen_to_keys(*ctx)
        {
            return Err(Error::Internal("the server does not report changes of keys"));
        }
        let answer = commands::acquire(core(&ctx), &mut lock(ctx)?, &request);
        if request.permits.is_some() { answer } else { answer.map_err(Error::without_permits) }
    }
}
