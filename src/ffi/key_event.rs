//! Events of keys. Nothing is written in these callbacks, as in those of [`super::server_event`].

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::api::{api, optional_api};
use super::callbacks;
use super::contexts::{Event, EventCtx, ScopedCtx};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::moved;
use super::string::StringRef;

/// The callback of an event.
type OnEvent = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    c_int,
    *const c_char,
    *mut raw::RedisModuleString,
) -> c_int;

/// Classes of events that are listened to from the first call on that needs them.
///
/// Not before: each event, those of the module's changes too, would cost the making of a context, in vain. And not after it
/// ends: not every server lets a module stop listening.
struct Classes {
    classes: c_int,
    on_event: OnEvent,
    listens: AtomicBool,
}

/// Whatever frees a lock or moves its expiry raises one of these classes: from the first waiter on.
static KEYS: Classes = Classes::new(
    raw::REDISMODULE_NOTIFY_GENERIC
        | raw::REDISMODULE_NOTIFY_HASH
        | raw::REDISMODULE_NOTIFY_EXPIRED
        | raw::REDISMODULE_NOTIFY_EVICTED,
    on_key,
);

/// Fair lists: from the first waiter with FAIR on.
static LISTS: Classes = Classes::new(raw::REDISMODULE_NOTIFY_LIST, on_key);

/// Locks with permits: from the first waiter for a permit on.
static SORTED_SETS: Classes = Classes::new(raw::REDISMODULE_NOTIFY_ZSET, on_sorted_set);

/// Keys of a file that is loaded: no other key raises this class.
static LOADED: Classes = Classes::new(raw::REDISMODULE_NOTIFY_LOADED, on_loaded);

impl Classes {
    const fn new(classes: c_int, on_event: OnEvent) -> Self {
        Self { classes, on_event, listens: AtomicBool::new(false) }
    }

    fn listen(&self, ctx: Ctx<'_>) -> bool {
        if self.listens.load(Ordering::Relaxed) {
            return true;
        }
        let subscribe = api!(RedisModule_SubscribeToKeyspaceEvents);
        // SAFETY: the context is valid, and the callback a function for as long as the module is loaded.
        let status = unsafe { subscribe(ctx.as_ptr(), self.classes, Some(self.on_event)) };
        let listens = status == raw::REDISMODULE_OK as c_int;
        self.listens.store(listens, Ordering::Relaxed);
        listens
    }
}

/// Listens to changes of keys from now on; false if the server refuses that.
#[must_use]
pub(crate) fn listen_to_keys(ctx: Ctx<'_>) -> bool {
    KEYS.listen(ctx)
}

/// Listens to changes of lists as well, among which are fair lists; false if the server refuses that.
#[must_use]
pub(crate) fn listen_to_lists(ctx: Ctx<'_>) -> bool {
    LISTS.listen(ctx)
}

/// Listens to changes of sorted sets as well, among which are locks with permits; false if the server refuses that.
#[must_use]
pub(crate) fn listen_to_sorted_sets(ctx: Ctx<'_>) -> bool {
    SORTED_SETS.listen(ctx)
}

/// Listens to the loading of keys; without it, no lease key is seen in a file.
pub(crate) fn listen_to_loads(ctx: Ctx<'_>) {
    let _ = LOADED.listen(ctx);
}

/// The server forgot what a refused load listened to.
pub(super) fn forget() {
    for classes in [&KEYS, &LISTS, &SORTED_SETS, &LOADED] {
        classes.listens.store(false, Ordering::Relaxed);
    }
}

/// The events of keys that the module raises and listens to. The server passes on the very pointer of an event's
/// name, by which the module knows its own events. Another module that raises an event with the same name passes
/// another pointer.
pub(crate) mod own_event {
    use std::ffi::{CStr, c_char};
    use std::ptr;

    /// A lock is gone.
    pub(crate) static DEL: &CStr = c"del";
    /// A lock has a holder, or one more hold.
    pub(crate) static HSET: &CStr = c"hset";
    /// An owner holds the lock no more, others do.
    pub(crate) static HDEL: &CStr = c"hdel";
    /// A lease begins.
    pub(crate) static EXPIRE: &CStr = c"expire";
    /// An owner holds a permit, until another time than before.
    pub(crate) static ZADD: &CStr = c"zadd";
    /// Owners hold no permits any more, others do.
    pub(crate) static ZREM: &CStr = c"zrem";

    /// Whether an event is one of these, raised by the module.
    pub(super) fn is(event: *const c_char) -> bool {
        [DEL, HSET, HDEL, EXPIRE, ZADD, ZREM].iter().any(|own| ptr::eq(own.as_ptr(), event))
    }
}

unsafe extern "C" fn on_key(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the event is a C string, and valid for this callback as are context and key.
    unsafe {
        let status = pass_to_module(ctx, event, key, |module, ctx, key| {
            module.key_changed(ctx, key, CStr::from_ptr(event))
        });
        moved::follow(ctx, event, key);
        status
    }
}

unsafe extern "C" fn on_sorted_set(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as above.
    unsafe { pass_to_module(ctx, event, key, |module, ctx, key| module.sorted_set_changed(ctx, key)) }
}

unsafe extern "C" fn on_loaded(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as above.
    unsafe { pass_to_module(ctx, event, key, |module, _, key| module.key_loaded(key)) }
}

/// Passes an event on that another source raised.
///
/// # Safety
/// Context, event and key are those of a callback.
unsafe fn pass_to_module(
    ctx: *mut raw::RedisModuleCtx,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
    pass_on: impl FnOnce(&dyn callbacks::Callbacks, EventCtx<'_>, StringRef<'_>),
) -> c_int {
    if !own_event::is(event) {
        guarded(Callback::KeyEvent, (), || {
            // SAFETY: by the promise of the caller.
            if let (ctx, Some(key)) = unsafe { (Ctx::from_raw(ctx), StringRef::from_raw(key)) } {
                callbacks::with(|module| pass_on(module, ScopedCtx::new(ctx, Event), key));
            }
        });
    }
    raw::REDISMODULE_OK as c_int
}
