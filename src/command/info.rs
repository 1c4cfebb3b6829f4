//! `RLOCK.INFO key [LIMIT n]`

use rlock_core::queue::{Via, Waiter};
use rlock_core::shape::SingleField;
use rlock_core::types::canonical_integer;
use rlock_core::{Error, LockState, MonoMs, UnixMs, request, timer};

use super::{after_key, key_name};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, Key, KeyKind, KeyUse, Locks, Respond, Spec, StringRef};
use crate::{keyspace, site, waiters};

/// Tells who holds a lock and until when.
pub(crate) struct Info;

/// What there is to tell.
pub(crate) struct Report {
    /// Whoever holds the lock.
    holder: Option<Holder>,
    /// The last fencing token, 0 where there was none.
    token: i64,
    /// How many wait.
    waiter_count: usize,
    /// Who waits first, in order.
    queue: Vec<Waiting>,
    /// The most entries in each list.
    limit: u32,
}

struct Waiting {
    owner: Vec<u8>,
    via: &'static str,
    age_ms: u64,
    /// What is left of the wait in ms, or -1 for ever.
    left_ms: i64,
    client_id: u64,
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
        acl: c"read",
        locks: Locks::Yes,
        summary: c"Tells who holds a lock, how often and for how long, and who waits for it",
        complexity: c"O(n) for the n entries shown",
        tips: Some(c"nondeterministic_output"),
        arity: -2,
        key: KeyUse::Read,
        args: &[Arg::new(c"key", ArgKind::Key), Arg::new(c"n", ArgKind::Integer).after(c"LIMIT").optional()],
    };

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Report, Error> {
        let request = request::Info::parse(after_key(args))?;
        let name = key_name(ctx, args)?;
        let holder = holder(&Key::open_inspect(ctx, name), ctx.real_time())?;
        let (waiter_count, queue) = queue(ctx, name, request.limit);
        if holder.is_none() && waiter_count > 0 {
            // Asking may not write; the timer serves the queue.
            timer::look_soon(&ctx, &site::lock_id(ctx, name));
        }
        Ok(Report { holder, token: last_token(ctx, name), waiter_count, queue, limit: request.limit })
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

fn queue(ctx: Ctx<'_>, name: StringRef<'_>, limit: u32) -> (usize, Vec<Waiting>) {
    let (lock, MonoMs(clock)) = (site::lock_id(ctx, name), ctx.clock());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (count, waiters): (usize, Vec<Waiter>) = waiters::queues(|queues| {
        (queues.waiting_for(&lock), queues.in_order(&lock).take(limit).cloned().collect())
    });
    let waiting = waiters.into_iter().map(|waiter| Waiting {
        age_ms: clock.saturating_sub(waiter.since.0),
        left_ms: waiter
            .until
            .map_or(-1, |until| i64::try_from(until.0.saturating_sub(clock)).unwrap_or(i64::MAX)),
        client_id: waiter.client_id,
        via: match waiter.via {
            Via::Block => "block",
            Via::Enqueue(_) => "enqueue",
        },
        owner: waiter.owner.into_vec(),
    });
    (count, waiting.collect())
}

/// A lock's last fencing token is in a key of its own.
fn last_token(ctx: Ctx<'_>, name: StringRef<'_>) -> i64 {
    let token_name = keyspace::token_key(name);
    if Key::open_inspect(ctx, token_name.borrow()).kind() != KeyKind::String {
        return 0;
    }
    ctx.get(token_name.borrow()).and_then(|token| canonical_integer(&token)).unwrap_or(0)
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
        pair(ctx, "waiter-count", i64::try_from(self.waiter_count).unwrap_or(i64::MAX));
        ctx.reply_bytes(b"holders");
        match holder.filter(|_| self.limit > 0) {
            Some(holder) => {
                ctx.reply_array(1);
                holder.send(ctx);
            }
            None => ctx.reply_array(0),
        }
        ctx.reply_bytes(b"queue");
        ctx.reply_array(self.queue.len());
        for waiting in &self.queue {
            waiting.send(ctx);
        }
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

impl Respond for Waiting {
    fn send(&self, ctx: Ctx<'_>) {
        ctx.reply_map(6);
        ctx.reply_bytes(b"owner");
        ctx.reply_bytes(&self.owner);
        ctx.reply_bytes(b"mode");
        ctx.reply_null();
        ctx.reply_bytes(b"via");
        ctx.reply_bytes(self.via.as_bytes());
        pair(ctx, "age-ms", i64::try_from(self.age_ms).unwrap_or(i64::MAX));
        pair(ctx, "wait-left-ms", self.left_ms);
        pair(ctx, "client-id", i64::try_from(self.client_id).unwrap_or(i64::MAX));
    }
}

fn pair(ctx: Ctx<'_>, name: &str, value: i64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_integer(value);
}
