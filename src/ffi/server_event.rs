//! Events of the server. Nothing is written in these callbacks: a write there would stand in the AOF before the
//! change that caused it.

use std::ffi::{CStr, c_int, c_void};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;
use redis_module::server_events::{ROLE_CHANGED_SERVER_EVENTS_LIST, ServerRole};
use redis_module_macros::role_changed_event_handler;
use rlock_core::locks::Databases;

use super::api::{api, optional_api};
use super::contexts::{Event, ScopedCtx, Task};
use super::ctx::Ctx;
use super::event::{LoadedFrom, ServerEvent};
use super::guard::{Callback, guarded};
use super::load_error::LoadError;
use super::{callbacks, key_event, load, slots};

/// The server events that the module listens to from its load on.
const SERVER_EVENTS: [u64; 10] = [
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_FLUSHDB,
    raw::REDISMODULE_EVENT_SWAPDB,
    raw::REDISMODULE_EVENT_CONFIG,
    raw::REDISMODULE_EVENT_MASTER_LINK_CHANGE,
    raw::REDISMODULE_EVENT_CRON_LOOP,
    raw::REDISMODULE_EVENT_FORK_CHILD,
    raw::REDISMODULE_EVENT_PERSISTENCE,
    raw::REDISMODULE_EVENT_LOADING,
    raw::REDISMODULE_EVENT_SHUTDOWN,
];

/// Whether the ends of connections are listened to.
static LISTENS_TO_CLIENTS: AtomicBool = AtomicBool::new(false);

/// Listens to the ends of connections from now on; false if the server refuses that.
///
/// Not before the first SESSION: each client that connects and disconnects would cost more.
#[must_use]
pub(crate) fn listen_to_clients(ctx: Ctx<'_>) -> bool {
    if LISTENS_TO_CLIENTS.load(Ordering::Relaxed) {
        return true;
    }
    let listens = subscribe(ctx, raw::REDISMODULE_EVENT_CLIENT_CHANGE, Some(on_server_event));
    LISTENS_TO_CLIENTS.store(listens, Ordering::Relaxed);
    listens
}

/// The client id of a connection that has ended.
///
/// # Safety
/// The data are those of a client event, or null.
unsafe fn disconnected(data: *const c_void) -> ServerEvent {
    // SAFETY: by the promise of the caller. No client has the id 0.
    let id = unsafe { data.cast::<raw::RedisModuleClientInfoV1>().as_ref() }.map_or(0, |info| info.id);
    ServerEvent::Disconnected(id)
}

/// Listens to server events: the last step of a load, since Redis 7.0 keeps the listeners of a module that it did not
/// load after all, and calls them when the library is gone. If the server refuses one listener, the others end.
pub(crate) fn listen(ctx: Ctx<'_>) -> Result<(), LoadError> {
    // The server forgets what a refused load listened to, but not every system unmaps the library.
    key_event::forget();
    let slots = slots::event(ctx);
    let event_ids = || SERVER_EVENTS.into_iter().chain(slots);
    // Only those that were accepted: to end another would make the server call null.
    let accepted = event_ids().take_while(|id| subscribe(ctx, *id, Some(on_server_event))).count();
    if accepted < event_ids().count() {
        event_ids().take(accepted).for_each(|id| _ = subscribe(ctx, id, None));
        return Err(LoadError::Refused("to report", c"server events"));
    }
    Ok(())
}

/// Begins to listen to a server event, or ends it where there is no listener; false if the server refuses.
fn subscribe(ctx: Ctx<'_>, id: u64, listener: raw::RedisModuleEventCallback) -> bool {
    let event = raw::RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is that of the load.
    let status = unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event, listener) };
    status == raw::REDISMODULE_OK as c_int
}

/// Which databases were emptied.
///
/// # Safety
/// The data are those of a flush event, or null.
unsafe fn flushed(data: *const c_void) -> ServerEvent {
    // SAFETY: by the promise of the caller.
    let db = unsafe { data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() }.map_or(-1, |info| info.dbnum);
    ServerEvent::Flushed(if db < 0 { Databases::All } else { Databases::One(db) })
}

/// Which databases were exchanged.
///
/// # Safety
/// The data are those of an event of SWAPDB, or null.
unsafe fn swapped(data: *const c_void) -> ServerEvent {
    // SAFETY: by the promise of the caller.
    match unsafe { data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() } {
        Some(info) => ServerEvent::Swapped([info.dbnum_first, info.dbnum_second]),
        None => ServerEvent::Flushed(Databases::All),
    }
}

/// Whether CONFIG SET has changed an option of the server's memory.
///
/// # Safety
/// The data are those of an event of CONFIG SET, or null.
unsafe fn is_about_memory(data: *const c_void) -> bool {
    // SAFETY: by the promise of the caller.
    let Some(change) = (unsafe { data.cast::<raw::RedisModuleConfigChangeV1>().as_ref() }) else {
        return false;
    };
    let count = usize::try_from(change.num_changes).unwrap_or(0);
    if change.config_names.is_null() || count == 0 {
        return false;
    }
    // SAFETY: the server gives this number of names, each a C string, which stay for this callback.
    let names = unsafe { slice::from_raw_parts(change.config_names, count) };
    // SAFETY: as above.
    names.iter().any(|name| unsafe { CStr::from_ptr(*name) }.to_bytes().starts_with(b"maxmemory"))
}

#[role_changed_event_handler]
fn on_role_change(context: &redis_module::Context, role: ServerRole) {
    let event = if role == ServerRole::Primary { ServerEvent::Promoted } else { ServerEvent::Demoted };
    callbacks::with(|module| module.server_event(ScopedCtx::new(Ctx::of(context), Event), event));
}

/// Calls the handlers that the crate lists. Its own callback, which would do the same, is a frame outside the guard.
fn role_changed(ctx: Ctx<'_>, subevent: u64) {
    let is_primary = subevent == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER;
    let role = if is_primary { ServerRole::Primary } else { ServerRole::Replica };
    let context = redis_module::Context::new(ctx.as_ptr());
    ROLE_CHANGED_SERVER_EVENTS_LIST.iter().for_each(|handler| handler(&context, role));
}

unsafe extern "C" fn on_server_event(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    guarded(Callback::ServerEvent, (), || {
        // SAFETY: the context is valid for this callback.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        if event.id == raw::REDISMODULE_EVENT_SHUTDOWN {
            return load::shut_down();
        }
        if event.id == raw::REDISMODULE_EVENT_CRON_LOOP {
            load::settle();
            return callbacks::with(|module| module.beat(ScopedCtx::new(ctx, Task)));
        }
        if event.id == raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED {
            return role_changed(ctx, subevent);
        }
        let linked = raw::REDISMODULE_SUBEVENT_MASTER_LINK_UP;
        let born = raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN;
        let gone = raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED;
        let emptied = raw::REDISMODULE_SUBEVENT_FLUSHDB_END;
        let event = match event.id {
            // SAFETY: the data of these events are those of the functions.
            raw::REDISMODULE_EVENT_FLUSHDB if subevent == emptied => unsafe { flushed(data) },
            // SAFETY: as above.
            raw::REDISMODULE_EVENT_CLIENT_CHANGE if subevent == gone => unsafe { disconnected(data) },
            // SAFETY: as above.
            raw::REDISMODULE_EVENT_SWAPDB => unsafe { swapped(data) },
            // SAFETY: the data are those of a change of the configuration.
            raw::REDISMODULE_EVENT_CONFIG if unsafe { is_about_memory(data) } => {
                ServerEvent::MaxMemoryChanged
            }
            raw::REDISMODULE_EVENT_MASTER_LINK_CHANGE if subevent == linked => ServerEvent::Synchronised,
            raw::REDISMODULE_EVENT_FORK_CHILD if subevent == born => ServerEvent::Snapshot,
            raw::REDISMODULE_EVENT_PERSISTENCE => ServerEvent::Snapshot,
            raw::REDISMODULE_EVENT_LOADING => match subevent {
                raw::REDISMODULE_SUBEVENT_LOADING_ENDED => ServerEvent::Loaded,
                raw::REDISMODULE_SUBEVENT_LOADING_AOF_START => ServerEvent::Loads(LoadedFrom::Aof),
                raw::REDISMODULE_SUBEVENT_LOADING_RDB_START
                | raw::REDISMODULE_SUBEVENT_LOADING_REPL_START => ServerEvent::Loads(LoadedFrom::Snapshot),
                _ => return,
            },
            id => match slots::slot_move(id, subevent) {
                // SAFETY: the data are those of this event.
                Some(moves) => ServerEvent::Slots(moves, unsafe { slots::ranges(id, data) }),
                None => return,
            },
        };
        callbacks::with(|module| module.server_event(ScopedCtx::new(ctx, Event), event));
    });
}
