//! `RLOCK.INFO key [LIMIT n]`

use rlock_core::shape::SingleField;
use rlock_core::types::canonical_integer;
use rlock_core::{Error, LockState, UnixMs, names, request};

use super::{after_key, key_name};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, Key, KeyUse, OwnedString, Respond, Spec, StringRef};
use crate::keyspace;

/// Tells who holds a lock and until when.
pub(crate) struct Info;

/// What there is to tell.
pub(crate) struct Report {
    /// Whoever holds the lock.
    holder: Option<Holder>,
    /// The last fencing token, 0 where there was none.
    token: i64,
    /// The most entries in each list.
    limit: u32,
}

struct Holder {
    owner: Vec<u8>,
    holds: i64,
    /// What is left in ms, or -1 without an expiry.
    lease_ms: i64,
}

impl Command for Info {
    type Answer = Report;
    const SPEC: Spec = Spec {
        name: c"rlock.info",
        flags: c"readonly",
        acl: c"read rlock",
        summary: c"Tells who holds a lock, how often and for how long",
        complexity: c"O(1)",
        tips: Some(c"nondeterministic_output"),
        arity: -2,
        key: KeyUse::Read,
        args: &[Arg::new(c"key", ArgKind::Key), Arg::new(c"n", ArgKind::Integer).after(c"LIMIT").optional()],
    };

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Report, Error> {
        let request = request::Info::parse(after_key(args))?;
        let name = key_name(ctx, args)?;
        let holder = holder(&Key::open_inspect(ctx, name), ctx.now())?;
        Ok(Report { holder, token: last_token(ctx, name), limit: request.limit })
    }
}

fn holder(key: &Key<'_>, now: UnixMs) -> Result<Option<Holder>, Error> {
    if keyspace::state(key, None)? != LockState::Theirs {
        return Ok(None);
    }
    let found = keyspace::only_field(key, |field, single| match single {
        SingleField::Hold(holds) => {
            Some(Holder { owner: field.to_vec(), holds: holds.get(), lease_ms: key.expiry().left(now) })
        }
        SingleField::ModeOnly => None,
    })?;
    Ok(found.and_then(|(_, holder)| holder))
}

/// Redisson's fenced locks keep their last token in a key of its own.
fn last_token(ctx: Ctx<'_>, name: StringRef<'_>) -> i64 {
    let token_name = OwnedString::new(&names::token_key(name.bytes()));
    let token = Key::open_inspect(ctx, token_name.borrow());
    token.string().and_then(canonical_integer).unwrap_or(0)
}

impl Respond for Report {
    fn send(&self, ctx: Ctx<'_>) {
        let holder = self.holder.as_ref();
        ctx.reply_map(8);
        ctx.reply_bytes(b"kind");
        ctx.reply_bytes(if holder.is_some() { b"mutex" } else { b"none" });
        ctx.reply_bytes(b"mode");
        ctx.reply_null();
        pair(ctx, "lease-ms", holder.map_or(-2, |holder| holder.lease_ms));
        pair(ctx, "token", self.token);
        pair(ctx, "holder-count", holder.is_some().into());
        pair(ctx, "waiter-count", 0);
        ctx.reply_bytes(b"holders");
        match holder.filter(|_| self.limit > 0) {
            Some(holder) => {
                ctx.reply_array(1);
                holder.send(ctx);
            }
            None => ctx.reply_array(0),
        }
        ctx.reply_bytes(b"queue");
        ctx.reply_array(0);
    }
}

impl Respond for Holder {
    fn send(&self, ctx: Ctx<'_>) {
        ctx.reply_map(4);
        ctx.reply_bytes(b"owner");
        ctx.reply_bytes(&self.owner);
        ctx.reply_bytes(b"mode");
        ctx.reply_null();
        pair(ctx, "holds", self.holds);
        pair(ctx, "lease-ms", self.lease_ms);
    }
}

fn pair(ctx: Ctx<'_>, name: &str, value: i64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_integer(value);
}
