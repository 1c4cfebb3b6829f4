//! One file per command, the same steps in each: parse, read the lock, decide, perform, answer.

mod acquire;
mod cancel;
mod force_release;
mod info;
mod release;
mod renew;

pub(crate) use acquire::Acquire;
pub(crate) use cancel::Cancel;
pub(crate) use force_release::ForceRelease;
pub(crate) use info::Info;
pub(crate) use release::Release;
pub(crate) use renew::Renew;

use rlock_core::queue::LockId;
use rlock_core::{Decision, Error, LockState, Reply, UnixMs};

use crate::ffi::{Args, Ctx, Key, Respond, StringRef};
use crate::{keyspace, perform, serve, stats, waiters};

/// What follows the command's name and the key.
fn after_key(args: Args<'_>) -> impl Iterator<Item = &[u8]> {
    args.all().skip(2)
}

/// A call that may change a lock.
struct Call<'a> {
    ctx: Ctx<'a>,
    key: Key<'a>,
    /// The owner, where one is given; the command's parser has accepted it by now.
    owner: Option<StringRef<'a>>,
    /// The lock, unless there is nothing to know of any.
    lock: Option<LockId>,
    now: UnixMs,
}

impl<'a> Call<'a> {
    /// Serves the key's queue first, and opens it: nobody barges in where a lock has become free unseen.
    fn open(ctx: Ctx<'a>, args: Args<'a>) -> Result<Self, Error> {
        waiters::clear_doubt(ctx);
        let (name, owner) = (key_name(ctx, args)?, args.get(2));
        let now = ctx.real_time();
        let lock = (!waiters::blank()).then(|| serve::lock_id(ctx, name));
        if let Some(lock) = &lock {
            serve::serve_unseen(ctx, name, lock, now);
            if let Some(owner) = owner {
                // The owner is here and learns what it holds: no grant of it is taken back any more.
                waiters::queues(|queues| queues.settle(lock, owner.bytes()));
            }
        }
        Ok(Self { ctx, key: Key::open_write(ctx, name), owner, lock, now })
    }

    /// The state of the lock as the owner sees it.
    fn state(&self) -> Result<LockState, Error> {
        keyspace::state(&self.key, self.owner)
    }

    /// The same to whoever wants to acquire: a lock that is free while others wait is not free for one
    /// who comes later.
    fn state_to_acquire(&self) -> Result<LockState, Error> {
        let state = self.state()?;
        let free = matches!(state, LockState::Free | LockState::Abandoned);
        let awaited = |lock| waiters::queues(|queues| queues.head(lock).is_some());
        Ok(if free && self.lock.as_ref().is_some_and(awaited) { LockState::Theirs } else { state })
    }

    /// Performs what was decided.
    fn perform(self, decision: &Decision) -> Result<Reply, Error> {
        let change = &decision.change;
        match &self.lock {
            Some(lock) => {
                serve::perform_and_serve(self.ctx, self.key, self.owner, change, lock, self.now)?;
            }
            None => perform::perform(self.ctx, self.key, self.owner, change)?,
        }
        stats::count(&decision.reply, change);
        Ok(decision.reply)
    }
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
