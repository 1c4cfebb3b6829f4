//! What the server tells of: changes of keys, and events of its own. Nothing is written in these
//! callbacks: a write there stands in the AOF before the change that it answers.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use super::api::{api, optional_api};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::load_error::LoadError;
use super::string::StringRef;

/// The server events that we listen to; what to do is in [`crate::events`].
const SERVER_EVENTS: [u64; 4] = [
    raw::REDISMODULE_EVENT_FLUSHDB,
    raw::REDISMODULE_EVENT_SWAPDB,
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_CRON_LOOP,
];

/// What happened to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    /// A database, or all of them, was emptied without an event for each key.
    Flushed,
    /// Two databases were exchanged without an event for each key.
    Swapped,
    /// It is a replica now.
    Demoted,
    /// Its heart beats, about ten times a second.
    Beat,
}

/// Listens to changes of keys and to server events.
pub(crate) fn listen(ctx: Ctx<'_>) -> Result<(), LoadError> {
    // Whatever frees a lock or moves its expiry raises one of these classes. They cost a cheap check
    // while nobody waits.
    let classes = raw::REDISMODULE_NOTIFY_GENERIC
        | raw::REDISMODULE_NOTIFY_HASH
        | raw::REDISMODULE_NOTIFY_EXPIRED
        | raw::REDISMODULE_NOTIFY_EVICTED;
    let subscribe = api!(RedisModule_SubscribeToKeyspaceEvents);
    // SAFETY: the context is that of the load.
    if unsafe { subscribe(ctx.as_ptr(), classes, Some(on_key)) } != raw::REDISMODULE_OK as c_int {
        return Err(LoadError::Refused("to tell of", c"keyspace events"));
    }
    for id in SERVER_EVENTS {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        let subscribe = api!(RedisModule_SubscribeToServerEvent);
        // SAFETY: as above.
        if unsafe { subscribe(ctx.as_ptr(), event, Some(on_server_event)) } != raw::REDISMODULE_OK as c_int {
            return Err(LoadError::Refused("to tell of", c"server events"));
        }
    }
    Ok(())
}

unsafe extern "C" fn on_key(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guarded(Callback::KeyEvent, (), || {
        // SAFETY: the event is a C string, and valid for this callback as are context and key below.
        let event = || unsafe { CStr::from_ptr(event) };
        // SAFETY: as above.
        if let (ctx, Some(key)) = unsafe { (Ctx::from_raw(ctx), StringRef::from_raw(key)) } {
            crate::events::key_changed(ctx, key, event);
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_server_event(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    _: *mut c_void,
) {
    guarded(Callback::ServerEvent, (), || {
        let demoted = raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA;
        let event = match event.id {
            raw::REDISMODULE_EVENT_FLUSHDB => ServerEvent::Flushed,
            raw::REDISMODULE_EVENT_SWAPDB => ServerEvent::Swapped,
            raw::REDISMODULE_EVENT_CRON_LOOP => ServerEvent::Beat,
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED if subevent == demoted => ServerEvent::Demoted,
            _ => return,
        };
        // SAFETY: the context is valid for this callback.
        crate::events::server_event(unsafe { Ctx::from_raw(ctx) }, event);
    });
}
