//! Another module, which reacts to rlock's events at once: when a lock is released or taken, it deletes the
//! key whose name the string `delete-on:<event>:<lock>` holds, within the event itself.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use redis_module::raw;

/// The function behind a pointer of the server's API; this module is loaded by tests only.
macro_rules! api {
    ($name:ident) => {
        raw::$name.expect(stringify!($name))
    };
}

/// Called by the server when it loads the module.
///
/// # Safety
/// Only the server may call it.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the server passes a valid context; the functions are there once Init has returned.
    unsafe {
        let name = c"reacts".as_ptr().cast::<c_char>();
        if raw::Export_RedisModule_Init(ctx, name, 1, raw::REDISMODULE_APIVER_1 as c_int) != 0 {
            return 1;
        }
        api!(RedisModule_SubscribeToKeyspaceEvents)(ctx, raw::REDISMODULE_NOTIFY_MODULE, Some(on_event))
    }
}

unsafe extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: all that the server passes is valid for this call; replies are freed by us.
    unsafe {
        let mut len = 0;
        let start = api!(RedisModule_StringPtrLen)(key, &raw mut len);
        let name = std::slice::from_raw_parts(start.cast::<u8>(), len);
        let rule = [b"delete-on:", CStr::from_ptr(event).to_bytes(), b":", name].concat();
        let Ok(rule) = CString::new(rule) else { return 0 };
        let victim = api!(RedisModule_Call)(ctx, c"GET".as_ptr(), c"c".as_ptr(), rule.as_ptr());
        let named = api!(RedisModule_CreateStringFromCallReply)(victim);
        if !named.is_null() {
            let reply = api!(RedisModule_Call)(ctx, c"DEL".as_ptr(), c"!s".as_ptr(), named);
            api!(RedisModule_FreeCallReply)(reply);
            api!(RedisModule_FreeString)(ptr::null_mut(), named);
        }
        api!(RedisModule_FreeCallReply)(victim);
    }
    0
}
