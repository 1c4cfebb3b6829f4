//! `RLOCK.ACQUIRE key owner lease-ms [HOLDS n] [BLOCK wait-ms | ENQUEUE wait-ms channel]`

use rlock_core::request::Wait;
use rlock_core::{Error, Holds, Reply, decide, request};

use super::{Call, after_key};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, KeyUse, Locks, Respond, Spec, is_primary, may_block};
use crate::{keyspace, options, serve, waiters};

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
        acl: c"write fast blocking",
        locks: Locks::Yes,
        summary:
            c"Takes a lock for a lease, holds it once more, or waits for it; null if somebody else holds it",
        complexity: c"O(1), where it waits O(log n) for n waiters",
        tips: None,
        arity: -4,
        key: KeyUse::Change,
        args: &[
            Arg::new(c"key", ArgKind::Key),
            Arg::new(c"owner", ArgKind::String),
            Arg::new(c"lease-ms", ArgKind::Integer),
            Arg::new(c"n", ArgKind::Integer).after(c"HOLDS").optional(),
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

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Answer, Error> {
        let request = request::Acquire::parse(after_key(args))?;
        if let Some(Wait::Enqueue(_, channel)) = request.wait {
            keyspace::check_channel(ctx, args.get(1), channel)?;
        }
        let call = Call::open(ctx, args)?;
        let decision = decide::acquire(call.state_to_acquire()?, &request, call.now, options::admission())?;
        // Only the first hold is worth waiting for: later ones build on what is lost by now.
        let first = request.arrive_at.is_none_or(|wanted| wanted == Holds::ONE);
        match request.wait.filter(|wait| first && may_wait(ctx, *wait)) {
            Some(wait) if decision.reply == Reply::Denied => queue(&call, &request, wait),
            _ => call.perform(&decision).map(Answer::Now),
        }
    }
}

/// Whether this caller can wait here: no client is blocked in a transaction or a script, and nobody waits
/// on a replica, not even on one that takes writes.
fn may_wait(ctx: Ctx<'_>, wait: Wait<'_>) -> bool {
    match wait {
        Wait::Block(_) => may_block(ctx),
        Wait::Enqueue(..) => is_primary(ctx),
    }
}

fn queue(call: &Call<'_>, request: &request::Acquire<'_>, wait: Wait<'_>) -> Result<Answer, Error> {
    let name = call.key.name();
    let lock = serve::lock_id(call.ctx, name);
    waiters::join(call.ctx, &lock, request, wait)?;
    serve::look_again(call.ctx, name, &lock);
    Ok(match wait {
        Wait::Block(_) => Answer::Later,
        Wait::Enqueue(..) => Answer::Now(Reply::Enqueued),
    })
}
