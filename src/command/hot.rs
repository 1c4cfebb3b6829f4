//! `RLOCK.HOT [LIMIT n | RESET]`

use rlock_core::locks::HotLock;
use rlock_core::{Error, hot_locks, request};

use super::pair;
use crate::ffi::{Arg, ArgType, Audience, Command, CommandCtx, Ctx, KeyUse, Respond, Spec};
use crate::waiters::node;

/// Shows the locks that cost most waiting.
pub(crate) struct Hot;

/// The content of the reply.
pub(crate) enum Answer {
    /// The locks, those with the most waiting time first.
    Shown(Vec<HotLock>),
    /// The table is empty now.
    Reset,
}

impl Command for Hot {
    type Answer = Answer;
    const SPEC: Spec = Spec {
        name: c"rlock.hot",
        flags: c"readonly",
        acl: c"read slow dangerous",
        audience: Audience::Operators,
        summary: c"Shows the locks of all databases that cost most waiting on this server, or forgets them",
        complexity: c"O(n * log m) for the n locks of the table (rlock.hot-locks) and m locks with waiters",
        tips: Some(c"nondeterministic_output"),
        arity: -1,
        key: KeyUse::None,
        args: &[Arg::new(
            c"what",
            ArgType::OneOf(&[
                Arg::new(c"n", ArgType::Integer).after(c"LIMIT"),
                Arg::new(c"reset", ArgType::Token).after(c"RESET"),
            ]),
        )
        .optional()],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Answer, Error> {
        Ok(match request::Hot::parse(ctx.args().from(1))? {
            request::Hot::Show { limit } => {
                let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
                Answer::Shown(hot_locks::hottest(node(&ctx), limit))
            }
            request::Hot::Reset => {
                hot_locks::reset(node(&ctx));
                Answer::Reset
            }
        })
    }
}

impl Respond for Answer {
    fn send(&self, ctx: Ctx<'_>) {
        let Self::Shown(locks) = self else { return ctx.reply_ok() };
        ctx.reply_array(locks.len());
        for lock in locks {
            send_lock(ctx, lock);
        }
    }
}

fn send_lock(ctx: Ctx<'_>, hot: &HotLock) {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    ctx.reply_map(8);
    pair(ctx, "db", hot.lock.db.into());
    ctx.reply_bytes(b"key");
    ctx.reply_bytes(&hot.lock.key);
    pair(ctx, "waited-ms", number(hot.waited_ms));
    pair(ctx, "error-ms", number(hot.error_ms));
    pair(ctx, "waits", number(hot.waits));
    pair(ctx, "longest-ms", number(hot.longest_ms));
    pair(ctx, "denied", number(hot.denied));
    pair(ctx, "waiters", i64::try_from(hot.waiters).unwrap_or(i64::MAX));
}
