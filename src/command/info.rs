//! `RLOCK.INFO key [LIMIT n]`

use rlock_core::queue::{Via, Waiter};
use rlock_core::types::canonical_integer;
use rlock_core::{Error, Mode, MonoMs, request, timer};

mod holders;

use super::{after_key, key_name};
use crate::ffi::{Arg, ArgKind, Args, Command, Ctx, Key, KeyKind, KeyUse, Locks, Respond, Spec, StringRef};
use crate::{keyspace, site, waiters};

/// Tells who holds a lock and until when.
pub(crate) struct Info;

/// What there is to tell.
pub(crate) struct Report {
    /// Whoever holds the lock.
    held: holders::Held,
    /// The last fencing token, 0 where there was none.
    token: i64,
    /// How many wait.
    waiter_count: usize,
    /// Who waits first, in order.
    queue: Vec<Waiting>,
}

struct Waiting {
    owner: Vec<u8>,
    mode: Mode,
    via: &'static str,
    age_ms: u64,
    /// What is left of the wait in ms, or -1 for ever.
    left_ms: i64,
    client_id: u64,
}

impl Command for Info {
    type Answer = Report;
    const SPEC: Spec = Spec {
        name: c"rlock.info",
        flags: c"readonly",
        acl: c"read",
        locks: Locks::Yes,
        summary: c"Tells who holds a lock, how often and for how long, and who waits for it",
        complexity: c"O(n) for the n entries shown and the readers that died",
        tips: Some(c"nondeterministic_output"),
        arity: -2,
        key: KeyUse::Read,
        args: &[Arg::new(c"key", ArgKind::Key), Arg::new(c"n", ArgKind::Integer).after(c"LIMIT").optional()],
    };

    fn run(ctx: Ctx<'_>, args: Args<'_>) -> Result<Report, Error> {
        let request = request::Info::parse(after_key(args))?;
        let name = key_name(ctx, args)?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let held = holders::of(ctx, name, limit)?;
        let (waiter_count, queue) = queue(ctx, name, limit);
        if held.count == 0 && waiter_count > 0 {
            // Asking may not write; the timer serves the queue.
            timer::look_soon(&ctx, &site::lock_id(ctx, name));
        }
        Ok(Report { held, token: last_token(ctx, name), waiter_count, queue })
    }
}

fn queue(ctx: Ctx<'_>, name: StringRef<'_>, limit: usize) -> (usize, Vec<Waiting>) {
    let (lock, MonoMs(clock)) = (site::lock_id(ctx, name), ctx.clock());
    let (count, waiters): (usize, Vec<Waiter>) = waiters::queues(|queues| {
        (queues.waiting_for(&lock), queues.in_order(&lock).take(limit).cloned().collect())
    });
    let waiting = waiters.into_iter().map(|waiter| Waiting {
        age_ms: clock.saturating_sub(waiter.since.0),
        left_ms: waiter
            .until
            .map_or(-1, |until| i64::try_from(until.0.saturating_sub(clock)).unwrap_or(i64::MAX)),
        client_id: waiter.client_id,
        mode: waiter.mode,
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
        let held = &self.held;
        ctx.reply_map(8);
        ctx.reply_bytes(b"kind");
        ctx.reply_bytes(held.kind.as_bytes());
        mode(ctx, held.mode);
        pair(ctx, "lease-ms", held.lease_ms);
        pair(ctx, "token", self.token);
        pair(ctx, "holder-count", i64::try_from(held.count).unwrap_or(i64::MAX));
        pair(ctx, "waiter-count", i64::try_from(self.waiter_count).unwrap_or(i64::MAX));
        ctx.reply_bytes(b"holders");
        ctx.reply_array(held.holders.len());
        for holder in &held.holders {
            holder.send(ctx);
        }
        ctx.reply_bytes(b"queue");
        ctx.reply_array(self.queue.len());
        for waiting in &self.queue {
            waiting.send(ctx);
        }
    }
}

impl Respond for Waiting {
    fn send(&self, ctx: Ctx<'_>) {
        ctx.reply_map(6);
        ctx.reply_bytes(b"owner");
        ctx.reply_bytes(&self.owner);
        mode(ctx, self.mode);
        ctx.reply_bytes(b"via");
        ctx.reply_bytes(self.via.as_bytes());
        pair(ctx, "age-ms", i64::try_from(self.age_ms).unwrap_or(i64::MAX));
        pair(ctx, "wait-left-ms", self.left_ms);
        pair(ctx, "client-id", i64::try_from(self.client_id).unwrap_or(i64::MAX));
    }
}

/// In which way somebody holds or waits; null for a plain lock.
fn mode(ctx: Ctx<'_>, mode: Mode) {
    ctx.reply_bytes(b"mode");
    match mode.word() {
        Some(word) => ctx.reply_bytes(word.as_bytes()),
        None => ctx.reply_null(),
    }
}

fn pair(ctx: Ctx<'_>, name: &str, value: i64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_integer(value);
}
