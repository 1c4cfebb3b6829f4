//! One file per command, the same steps in each: parse, read the lock, decide, perform, answer.

mod acquire;
mod force_release;
mod info;
mod release;
mod renew;

pub(crate) use acquire::Acquire;
pub(crate) use force_release::ForceRelease;
pub(crate) use info::Info;
pub(crate) use release::Release;
pub(crate) use renew::Renew;

use rlock_core::{Decision, Error, LockState, Reply};

use crate::ffi::{Args, Ctx, Key, Respond, StringRef};
use crate::{keyspace, perform, stats};

/// What follows the command's name and the key.
fn after_key(args: Args<'_>) -> impl Iterator<Item = &[u8]> {
    args.all().skip(2)
}

/// The steps that every command which may change a lock shares; the third argument, where it is given,
/// is the owner, which the command's parser has accepted by now.
fn run(
    ctx: Ctx<'_>,
    args: Args<'_>,
    decide: impl FnOnce(LockState) -> Result<Decision, Error>,
) -> Result<Reply, Error> {
    let (name, owner) = (key_name(ctx, args)?, args.get(2));
    let mut key = Key::open_write(ctx, name);
    let state = keyspace::state(&key, owner)?;
    let decision = decide(state)?;
    perform::perform(ctx, &mut key, owner, &decision.change)?;
    stats::count(&decision.reply, &decision.change);
    Ok(decision.reply)
}

/// The name of the lock, once it is known to be one that can be served here.
fn key_name<'a>(ctx: Ctx<'_>, args: Args<'a>) -> Result<StringRef<'a>, Error> {
    let name = args.get(1).ok_or(Error::Arity)?;
    keyspace::check_slot(ctx, name)?;
    Ok(name)
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
            Self::Denied => ctx.reply_null_array(),
            Self::NotHeld => ctx.reply_null(),
            Self::Released | Self::Renewed | Self::Forced => ctx.reply_integer(1),
            Self::StillHeld | Self::NotRenewed | Self::NothingToForce => ctx.reply_integer(0),
        }
    }
}
