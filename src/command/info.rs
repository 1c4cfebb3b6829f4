//! `RLOCK.INFO key [LIMIT n]`

use rlock_core::types::canonical_integer;
use rlock_core::{Error, Mode, observed, request};

mod holders;
mod queue;

use super::{after_key, key_name, pair};
use crate::ffi::{
    Arg, ArgType, Audience, CallReply, Command, CommandCtx, Ctx, Key, KeyType, KeyUse, Respond, Spec,
    StringRef,
};
use crate::{keyspace, waiters};

/// Shows the holders of a lock and their leases.
pub(crate) struct Info;

/// The content of the reply.
pub(crate) struct Report {
    /// The holders.
    held: holders::Held,
    /// The last fencing token, or 0.
    token: i64,
    /// The number of waiters.
    waiter_count: usize,
    /// The first waiters, in order.
    queue: Vec<queue::Waiting>,
}

impl Command for Info {
    type Answer = Report;
    const SPEC: Spec = Spec {
        name: c"rlock.info",
        flags: c"readonly",
        acl: c"read slow",
        audience: Audience::LockUsers,
        summary: c"Shows the holders of a lock with their holds and leases, and its waiters",
        complexity: c"O(n) for the n entries shown and at most 10,000 lease keys of dead readers",
        tips: Some(c"nondeterministic_output"),
        arity: -2,
        key: KeyUse::Read,
        args: &[Arg::new(c"key", ArgType::Key), Arg::new(c"n", ArgType::Integer).after(c"LIMIT").optional()],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Report, Error> {
        let request = request::Info::parse(after_key(ctx))?;
        let name = key_name(ctx)?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let held = holders::of(*ctx, name, limit)?;
        let (waiter_count, queue) = queue::of(*ctx, name, limit);
        if held.count == 0 && waiter_count > 0 {
            // Asking may not write; the timer serves the queue.
            observed::seen_free(waiters::node(&ctx), keyspace::lock_name(*ctx, name));
        }
        Ok(Report { held, token: last_token(*ctx, name), waiter_count, queue })
    }
}

/// A lock's last fencing token is in a key of its own.
fn last_token(ctx: Ctx<'_>, name: StringRef<'_>) -> i64 {
    let token_name = keyspace::token_key(name);
    if Key::open_inspect(ctx, token_name.borrow()).key_type() != KeyType::String {
        return 0;
    }
    // The module's own way to read a string makes the server store it in another form.
    match ctx.call(c"GET", &[token_name.borrow()]) {
        CallReply::Bytes(token) => canonical_integer(&token).unwrap_or(0),
        _ => 0,
    }
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

/// The client id of the connection to which a hold or a wait is tied, if it is.
fn session(ctx: Ctx<'_>, client: Option<u64>) {
    if let Some(client) = client {
        pair(ctx, "session", i64::try_from(client).unwrap_or(i64::MAX));
    }
}

/// The mode of a holder or waiter; null for a plain lock.
fn mode(ctx: Ctx<'_>, mode: Mode) {
    ctx.reply_bytes(b"mode");
    match mode.word() {
        Some(word) => ctx.reply_bytes(word.as_bytes()),
        None => ctx.reply_null(),
    }
}
