//! The context of a callback: what the server does for the module.
//!
//! Calls without a check cannot fail. Flags, clocks and the database's number have no failure. Signals and events of keys
//! are refused only to a context without a client, which no context of the module is. An unknown INFO section is an empty one,
//! never null; only its fields may be missing.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;
use rlock_core::facts::WriteAccess;
use rlock_core::{MonoMs, UnixMs};

use super::api::{api, optional_api};
use super::call_reply::{bytes, free, reply_type};
use super::string::StringRef;

/// The classes of keyspace events that the module raises.
#[derive(Clone, Copy)]
pub(crate) enum EventClass {
    /// `g`: `del`, `expire`.
    Generic,
    /// `h`: `hset`.
    Hash,
    /// `$`: `set`.
    String,
    /// `z`: `zadd`, `zrem`.
    SortedSet,
    /// `d`: those of the module.
    Module,
}

/// Whether the server is in cluster mode, which cannot change while it runs.
static IN_CLUSTER: AtomicBool = AtomicBool::new(false);

/// The context of the callback under way.
#[derive(Clone, Copy)]
pub(crate) struct Ctx<'a> {
    raw: *mut raw::RedisModuleCtx,
    lives: PhantomData<&'a ()>,
}

impl<'a> Ctx<'a> {
    /// Wraps the context that the server passed to a callback.
    ///
    /// # Safety
    /// The context must be valid for as long as the wrapper is used.
    pub(super) unsafe fn from_raw(raw: *mut raw::RedisModuleCtx) -> Self {
        Self { raw, lives: PhantomData }
    }

    /// The context of a callback, from the crate's own wrapper.
    pub(crate) fn of(context: &'a redis_module::Context) -> Self {
        // SAFETY: the wrapper stands for a callback under way, and is borrowed for no longer than it.
        unsafe { Self::from_raw(context.ctx) }
    }

    pub(super) fn as_ptr(self) -> *mut raw::RedisModuleCtx {
        self.raw
    }

    /// The flags of the server and of this callback.
    pub(super) fn flags(self) -> c_int {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetContextFlags)(self.raw) }
    }

    /// The number of the client whose command is under way; 0 where the context has no client.
    pub(super) fn client(self) -> u64 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetClientId)(self.raw) }
    }

    /// Learns once, at load, in what mode the server runs.
    pub(super) fn learn_mode(self) {
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.raw) };
        IN_CLUSTER.store(flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER as c_int != 0, Ordering::Relaxed);
    }

    /// Whether the server is part of a cluster.
    pub(crate) fn in_cluster(self) -> bool {
        IN_CLUSTER.load(Ordering::Relaxed)
    }

    /// The wall clock now, not the time that stands still while a script or a transaction runs: a lease
    /// that counts from that time could have ended before its owner learns of it.
    pub(crate) fn real_time(self) -> UnixMs {
        // SAFETY: takes nothing, reads the clock.
        UnixMs(unsafe { api!(RedisModule_Milliseconds)() })
    }

    /// A clock that never steps.
    pub(crate) fn clock(self) -> MonoMs {
        // SAFETY: takes nothing, reads the clock.
        MonoMs(unsafe { api!(RedisModule_MonotonicMicroseconds)() } / 1_000)
    }

    /// The database that the callback under way works in.
    pub(crate) fn db(self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb)(self.raw) }
    }

    /// Whether something may be written outside a client's command: this is a primary that has its data,
    /// and no CLIENT PAUSE stops the stream of effects (a write during the pause ends the server).
    pub(crate) fn may_write(self) -> bool {
        // SAFETY: the context is valid; the other function takes nothing.
        let (flags, paused) = unsafe {
            (api!(RedisModule_GetContextFlags)(self.raw), api!(RedisModule_AvoidReplicaTraffic)() != 0)
        };
        let primary = flags & raw::REDISMODULE_CTX_FLAGS_MASTER as c_int != 0;
        let loading = flags & raw::REDISMODULE_CTX_FLAGS_LOADING as c_int != 0;
        primary && !loading && !paused
    }

    /// Asks the server whether a key may be written: by a write that does nothing, whatever the key holds, since only the
    /// server knows all the reasons for which it refuses writes.
    pub(crate) fn write_access(self, key: StringRef<'_>) -> WriteAccess {
        // `S`: with the checks that scripts are subject to. `E`: errors as replies, since Valkey 9.1 dies
        // of one that it may not answer.
        let (name, format) = (c"ZREMRANGEBYRANK".as_ptr(), c"SEscc".as_ptr());
        // From the second member to the first: none, in any sorted set.
        let (first, last) = (c"1".as_ptr(), c"0".as_ptr());
        let call = api!(RedisModule_Call);
        clear_errno();
        // SAFETY: the format says: a string of the server's, then two of C.
        let reply = unsafe { call(self.raw, name, format, key.as_ptr(), first, last) };
        let reason = io::Error::last_os_error().raw_os_error();
        if reply.is_null() || reply_type(reply) == raw::REDISMODULE_REPLY_ERROR {
            // Said only after all of these checks: the key holds something else, but it may be written.
            let is_allowed = !reply.is_null() && bytes(reply).starts_with(b"WRONGTYPE");
            free(reply);
            if is_allowed {
                return WriteAccess::Allowed;
            }
            return if reason == Some(libc::EPERM) { WriteAccess::SlotMoved } else { WriteAccess::Refused };
        }
        free(reply);
        WriteAccess::Allowed
    }

    /// Whether another server, or none, serves a key's slot.
    pub(crate) fn slot_has_moved(self, key: StringRef<'_>) -> bool {
        self.in_cluster() && self.is_of_another_node(c"EXISTS", key)
    }

    /// Whether a client can subscribe to a channel here; in cluster mode, if this node serves the channel's slot.
    pub(crate) fn serves_channel(self, channel: StringRef<'_>) -> bool {
        // A node that a slot leaves key by key refuses EXISTS, but keeps its subscribers until the move ends. SSUBSCRIBE
        // has no effect here: servers refuse it to modules, after their check of the slot.
        !self.in_cluster() || !self.is_of_another_node(c"SSUBSCRIBE", channel)
    }

    /// Whether the server refuses a command with this key or channel, since another node, or none, serves the slot.
    fn is_of_another_node(self, command: &CStr, name: StringRef<'_>) -> bool {
        clear_errno();
        // SAFETY: the format says: one string.
        let reply =
            unsafe { api!(RedisModule_Call)(self.raw, command.as_ptr(), c"Es".as_ptr(), name.as_ptr()) };
        let reason = io::Error::last_os_error().raw_os_error();
        let is_refused = reply.is_null() || reply_type(reply) == raw::REDISMODULE_REPLY_ERROR;
        free(reply);
        is_refused && reason == Some(libc::EPERM)
    }

    /// Whether a key that is missing here exists nowhere: in a cluster it may be on the server that its
    /// slot comes from or goes to. `other` is another name in the slot.
    pub(crate) fn is_missing(self, key: StringRef<'_>, other: StringRef<'_>) -> bool {
        if !self.in_cluster() {
            return true;
        }
        // Asked for several keys, of which one is not here, the server refuses while the slot moves.
        let (name, format) = (c"EXISTS".as_ptr(), c"Ess".as_ptr());
        // SAFETY: the format says: two strings.
        let reply = unsafe { api!(RedisModule_Call)(self.raw, name, format, key.as_ptr(), other.as_ptr()) };
        let refused = reply.is_null() || reply_type(reply) == raw::REDISMODULE_REPLY_ERROR;
        free(reply);
        !refused
    }

    /// Tells WATCH and client-side caches that a key has changed.
    pub(crate) fn signal_modified(self, key: StringRef<'_>) {
        // SAFETY: context and name live.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.raw, key.as_ptr()) };
    }

    /// Raises a keyspace event.
    pub(crate) fn notify(self, class: EventClass, event: &CStr, key: StringRef<'_>) {
        let class = match class {
            EventClass::Generic => raw::REDISMODULE_NOTIFY_GENERIC,
            EventClass::Hash => raw::REDISMODULE_NOTIFY_HASH,
            EventClass::String => raw::REDISMODULE_NOTIFY_STRING,
            EventClass::SortedSet => raw::REDISMODULE_NOTIFY_ZSET,
            EventClass::Module => raw::REDISMODULE_NOTIFY_MODULE,
        };
        // SAFETY: context, event and name live.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent)(self.raw, class, event.as_ptr(), key.as_ptr()) };
    }

    /// Whether the server writes an AOF, or is about to.
    pub(crate) fn has_aof(self) -> bool {
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.raw) };
        flags & raw::REDISMODULE_CTX_FLAGS_AOF as c_int != 0
    }

    /// Whether the server has replicas, or keeps the stream of effects for earlier ones. True if the
    /// server does not show it.
    pub(crate) fn has_replicas_or_backlog(self) -> bool {
        // SAFETY: the section's data is freed below and not used after that.
        unsafe {
            let data = api!(RedisModule_GetServerInfo)(self.raw, c"replication".as_ptr());
            let some = [c"connected_slaves", c"repl_backlog_active"].iter().any(|field| {
                let mut failed: c_int = 0;
                let read = api!(RedisModule_ServerInfoGetFieldUnsigned);
                read(data, field.as_ptr(), &raw mut failed) != 0 || failed != 0
            });
            api!(RedisModule_FreeServerInfo)(self.raw, data);
            some
        }
    }

    /// Publishes to the subscribers of this server, in a cluster to those of the key's shard.
    pub(crate) fn publish_here(self, channel: StringRef<'_>, message: StringRef<'_>) {
        let publish = if self.in_cluster() {
            api!(RedisModule_PublishMessageShard)
        } else {
            api!(RedisModule_PublishMessage)
        };
        // SAFETY: context and strings live.
        unsafe { publish(self.raw, channel.as_ptr(), message.as_ptr()) };
    }

    /// A number of the server's INFO, or 0.
    pub(crate) fn server_info_number(self, section: &CStr, field: &CStr) -> u64 {
        let mut failed: c_int = 0;
        // SAFETY: the section's data is freed below and not used after that.
        unsafe {
            let data = api!(RedisModule_GetServerInfo)(self.raw, section.as_ptr());
            let value = api!(RedisModule_ServerInfoGetFieldUnsigned)(data, field.as_ptr(), &raw mut failed);
            api!(RedisModule_FreeServerInfo)(self.raw, data);
            if failed == 0 { value } else { 0 }
        }
    }

    /// Whether the server has any keys, in the database of the context or another one.
    pub(crate) fn has_keys(self) -> bool {
        let (select, size) = (api!(RedisModule_SelectDb), api!(RedisModule_DbSize));
        let before = self.db();
        // SAFETY: the context is valid. Its database is the same again when this returns.
        let is_selected = |db| unsafe { select(self.raw, db) } == raw::REDISMODULE_OK as c_int;
        // SAFETY: as above.
        let is_used = || unsafe { size(self.raw) } > 0;
        let some = (0_i32..).take_while(|db| is_selected(*db)).any(|_| is_used());
        is_selected(before) && some
    }

    /// A text of the server's INFO.
    pub(crate) fn server_info_text(self, section: &CStr, field: &CStr) -> Option<CString> {
        // SAFETY: the text is copied before the data that it belongs to is freed.
        unsafe {
            let data = api!(RedisModule_GetServerInfo)(self.raw, section.as_ptr());
            let text = api!(RedisModule_ServerInfoGetFieldC)(data, field.as_ptr());
            let copy = (!text.is_null()).then(|| CStr::from_ptr(text).to_owned());
            api!(RedisModule_FreeServerInfo)(self.raw, data);
            copy
        }
    }
}

/// Clears the error number, before a call that reports a failure by it, but does not always set it.
pub(super) fn clear_errno() {
    #[cfg(target_os = "macos")]
    let number = libc::__error;
    #[cfg(not(target_os = "macos"))]
    let number = libc::__errno_location;
    // SAFETY: the place is the thread's own.
    unsafe { *number() = 0 };
}
