//! `RLOCK.ACQUIRE key owner lease-ms [HOLDS n] [BLOCK wait-ms]`

use rlock_core::{Error, Holds, Reply, WaitMs, decide, request};

use super::{Call, after_key};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, KeyUse, Respond, Spec, may_block};
use crate::waiters::Wait;
use crate::{options, serve, waiters};

/// Takes a lock, or takes it once more, or waits for it.
pub(crate) struct Acquire;

/// What ACQUIRE answers now.
pub(crate) enum Answer {
    /// This.
    Now(Reply),
    /// Nothing: the client is blocked, and answered later.
    Later,
}

impl Respond for Answer {
    fn send(&self, ctx: Ctx<'_>) {
        match self {
            Self::Now(reply) => reply.send(ctx),
            Self::Later => {}
        }
    }
}

impl Command for Acquire {
    type Answer = Answer;
    const SPEC: Spec = Spec {
        name: c"rlock.acquire",
        flags: c"write deny-oom fast",
        acl: c"write fast rlock blocking",
        summary: c"Takes a lock for a lease, or holds it once more; null if somebody else holds it, with BLOCK after waiting",
        complexity: c"O(1), with BLOCK O(log n) for n waiters",
        tips: None,
        arity: -4,
        key: KeyUse::Change,
        args: &[
            Arg::new(c"key", ArgKind::Key),
            Arg::new(c"owner", ArgKind::String),
            Arg::new(c"lease-ms", ArgKind::Integer),
            Arg::new(c"n", ArgKind::Integer).after(c"HOLDS").optional(),
            Arg::new(c"wait-ms", ArgKind::Integer).after(c"BLOCK").optional(),
        ],
    };

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Answer, Error> {
        let request = request::Acquire::parse(after_key(args))?;
        let call = Call::open(ctx, args)?;
        let decision = decide::acquire(call.state()?, &request, call.now, options::admission())?;
        // Only the first hold is worth waiting for: later ones build on what is lost by now.
        let first = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
        match request.block {
            Some(block) if decision.reply == Reply::Denied && first && may_block(ctx) => {
                wait(&call, &request, block)?;
                Ok(Answer::Later)
            }
            _ => call.perform(&decision).map(Answer::Now),
        }
    }
}

fn wait(call: &Call<'_>, request: &request::Acquire<'_>, block: WaitMs) -> Result<(), Error> {
    let ctx = call.ctx;
    let lock = serve::lock_id(ctx, call.key.name());
    let owner = request.owner.bytes();
    let until = block.until(ctx.clock());
    waiters::join(ctx, &Wait { lock: &lock, owner, lease: request.lease, until })?;
    serve::look_again(ctx, &call.key, &lock);
    Ok(())
}
