//! One file per command, the same steps in each: parse, open the lock, do what `rlock-core` decides, answer.

mod acquire;
mod cancel;
mod force_release;
mod hot;
mod info;
mod list;
mod release;
mod renew;

pub(crate) use acquire::Acquire;
pub(crate) use cancel::Cancel;
pub(crate) use force_release::ForceRelease;
pub(crate) use hot::Hot;
pub(crate) use info::Info;
pub(crate) use list::List;
pub(crate) use release::Release;
pub(crate) use renew::Renew;

use std::ffi::CStr;

use rlock_core::commands::Answer;
use rlock_core::{Error, Reply};

use crate::ffi::{
    Arg, ArgType, Args, CommandCtx, Ctx, Respond, StringRef, listen_to_clients, listen_to_keys,
};
use crate::site::SiteLock;
use crate::{keyspace, waiters};

/// The cost of a command that may write. Each of them serves the queue of its lock, so that none is `fast`.
const COST: &CStr =
    c"O(log n) for n waiters or permits; O(r) for r dead or granted readers; O(f) for a fair list of f entries";

/// READ or WRITE.
const MODE_ARG: Arg = Arg::new(
    c"mode",
    ArgType::OneOf(&[
        Arg::new(c"read", ArgType::Token).after(c"READ"),
        Arg::new(c"write", ArgType::Token).after(c"WRITE"),
    ]),
)
.optional();

/// SESSION.
const SESSION_ARG: Arg = Arg::new(c"grace-ms", ArgType::Integer).after(c"SESSION").optional();

/// Refuses SESSION where no connection could end, and listens to the ends of connections from the first one on.
fn check_session(ctx: CommandCtx<'_>) -> Result<(), Error> {
    if !ctx.has_connection() {
        return Err(Error::NoSession);
    }
    // Holds end by what happens to their keys, too.
    if listen_to_clients(*ctx) && listen_to_keys(*ctx) {
        Ok(())
    } else {
        Err(Error::Internal("the server does not report changes of clients and keys"))
    }
}

/// The bytes of the key.
fn key(ctx: CommandCtx<'_>) -> Result<&[u8], Error> {
    ctx.args().get(1).map(StringRef::bytes).ok_or(Error::Arity)
}

/// What follows the command's name and the key.
fn after_key(ctx: CommandCtx<'_>) -> impl Iterator<Item = &[u8]> {
    ctx.args().from(2)
}

/// The lock that a command is about.
#[inline(always)]
fn lock(ctx: CommandCtx<'_>) -> Result<SiteLock<'_, Args<'_>>, Error> {
    waiters::clear_doubt(&ctx);
    Ok(SiteLock::new(ctx, key_name(ctx)?))
}

/// The name of the lock, once it is known to be one that can be served here.
fn key_name(ctx: CommandCtx<'_>) -> Result<StringRef<'_>, Error> {
    let name = ctx.args().get(1).ok_or(Error::Arity)?;
    keyspace::check_slot(*ctx, name)?;
    Ok(name)
}

/// A name and a number in a map of a reply.
fn pair(ctx: Ctx<'_>, name: &str, value: i64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_integer(value);
}

impl Respond for Answer {
    fn send(&self, ctx: Ctx<'_>) {
        match self {
            Self::Now(reply) => reply.send(ctx),
            Self::Later => {}
        }
    }
}

impl Respond for Reply {
    fn send(&self, ctx: Ctx<'_>) {
        match self {
            Self::Acquired { holds, lease_ms, token } => {
                ctx.reply_array(3);
                ctx.reply_integer(holds.get());
                ctx.reply_integer(*lease_ms);
                ctx.reply_integer(*token);
            }
            Self::Enqueued => {
                ctx.reply_array(3);
                for _ in 0..3 {
                    ctx.reply_integer(0);
                }
            }
            Self::Denied => ctx.reply_null_array(),
            Self::NotHeld => ctx.reply_null(),
            Self::Released | Self::Renewed | Self::Forced | Self::Cancelled => ctx.reply_integer(1),
            Self::StillHeld | Self::NotRenewed | Self::NothingToForce | Self::NotQueued => {
                ctx.reply_integer(0)
            }
        }
    }
}
