//! `RLOCK.LIST cursor [LIMIT n]`

use rlock_core::request::{self, Cursor};
use rlock_core::{Error, MonoMs};

use super::pair;
use crate::ffi::{Arg, ArgType, Audience, Command, CommandCtx, Ctx, KeyUse, Respond, Spec};
use crate::waiters;

/// Lists the locks with waiters.
pub(crate) struct List;

/// Some locks with waiters, and where the next page begins.
pub(crate) struct Page {
    cursor: Vec<u8>,
    entries: Vec<Entry>,
}

/// A lock that is waited for.
struct Entry {
    key: Vec<u8>,
    waiter_count: usize,
    /// How long the first waiter has waited, in ms.
    longest_wait_ms: u64,
}

impl Command for List {
    type Answer = Page;
    const SPEC: Spec = Spec {
        name: c"rlock.list",
        flags: c"readonly",
        acl: c"read slow dangerous",
        audience: Audience::Operators,
        summary:
            c"Lists the locks of the database with waiters on this server, their number and longest wait",
        complexity: c"O(n + log m) for the n entries shown of m locks with waiters",
        tips: Some(c"nondeterministic_output"),
        arity: -2,
        key: KeyUse::None,
        args: &[
            Arg::new(c"cursor", ArgType::String),
            Arg::new(c"n", ArgType::Integer).after(c"LIMIT").optional(),
        ],
    };

    fn run(ctx: CommandCtx<'_>) -> Result<Page, Error> {
        let request = request::List::parse(ctx.args().from(1))?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let after = match request.cursor {
            Cursor::Bound => None,
            Cursor::After(key) => Some(key),
        };
        let (db, MonoMs(clock)) = (ctx.db(), ctx.clock());
        let entries: Vec<Entry> = waiters::locks(|locks| {
            // One more tells whether there is more.
            let waited_for = locks.records.waited_for(db, after, limit.saturating_add(1)).into_iter();
            let entry = |(key, waiter_count, since): (&[u8], usize, MonoMs)| Entry {
                key: key.to_vec(),
                waiter_count,
                longest_wait_ms: clock.saturating_sub(since.0),
            };
            waited_for.map(entry).collect()
        });
        Ok(Page::of(entries, limit))
    }
}

impl Page {
    fn of(mut entries: Vec<Entry>, limit: usize) -> Self {
        let is_all = entries.len() <= limit;
        entries.truncate(limit);
        let cursor = match entries.last().filter(|_| !is_all) {
            Some(last) => Cursor::After(&last.key).bytes(),
            None => Cursor::Bound.bytes(),
        };
        Self { cursor, entries }
    }
}

impl Respond for Page {
    fn send(&self, ctx: Ctx<'_>) {
        ctx.reply_array(2);
        ctx.reply_bytes(&self.cursor);
        ctx.reply_array(self.entries.len());
        for entry in &self.entries {
            ctx.reply_map(3);
            ctx.reply_bytes(b"key");
            ctx.reply_bytes(&entry.key);
            pair(ctx, "waiter-count", i64::try_from(entry.waiter_count).unwrap_or(i64::MAX));
            pair(ctx, "longest-wait-ms", i64::try_from(entry.longest_wait_ms).unwrap_or(i64::MAX));
        }
    }
}
