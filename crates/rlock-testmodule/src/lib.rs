//! Another module, which reacts to rlock's events at once: when a lock is released or taken, it deletes the
//! key whose name the string `delete-on:<event>:<lock>` holds, within the event itself; where that is the
//! lock's own, by the very string that it was told.
//!
//! `REACTS.THREAD word...` runs a command from a thread of the module's own, soon after the answer.

#![deny(unsafe_code)]
#![expect(unsafe_code, reason = "a module of the server, which speaks C")]

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
        let create = api!(RedisModule_CreateCommand);
        if create(ctx, c"reacts.thread".as_ptr(), Some(run_in_thread), c"write".as_ptr(), 0, 0, 0) != 0 {
            return 1;
        }
        api!(RedisModule_SubscribeToKeyspaceEvents)(ctx, raw::REDISMODULE_NOTIFY_MODULE, Some(on_event))
    }
}

unsafe extern "C" fn run_in_thread(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: all that the server passes is valid for this call, and copied.
    let words: Vec<Vec<u8>> = unsafe {
        let argv = std::slice::from_raw_parts(argv, argc as usize);
        argv[1..].iter().map(|word| bytes(*word).to_vec()).collect()
    };
    std::thread::spawn(move || {
        let name = CString::new(words[0].clone()).expect("a command's name");
        // SAFETY: the server's lock is held between Lock and Unlock; what is made is freed before that.
        unsafe {
            let ctx = api!(RedisModule_GetThreadSafeContext)(ptr::null_mut());
            api!(RedisModule_ThreadSafeContextLock)(ctx);
            let string = |word: &Vec<u8>| {
                api!(RedisModule_CreateString)(ptr::null_mut(), word.as_ptr().cast(), word.len())
            };
            let mut strings: Vec<_> = words[1..].iter().map(string).collect();
            let (vector, len) = (strings.as_mut_ptr(), strings.len());
            let reply = api!(RedisModule_Call)(ctx, name.as_ptr(), c"!v".as_ptr(), vector, len);
            api!(RedisModule_FreeCallReply)(reply);
            strings.iter().for_each(|string| api!(RedisModule_FreeString)(ptr::null_mut(), *string));
            api!(RedisModule_ThreadSafeContextUnlock)(ctx);
            api!(RedisModule_FreeThreadSafeContext)(ctx);
        }
    });
    // SAFETY: the context is that of a command.
    unsafe { api!(RedisModule_ReplyWithSimpleString)(ctx, c"OK".as_ptr()) }
}

/// # Safety
/// The string must live for as long as the bytes are used.
unsafe fn bytes<'a>(string: *mut raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: by the promise of this function.
    unsafe {
        let start = api!(RedisModule_StringPtrLen)(string, &raw mut len);
        std::slice::from_raw_parts(start.cast::<u8>(), len)
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
        let name = bytes(key);
        let rule = [b"delete-on:", CStr::from_ptr(event).to_bytes(), b":", name].concat();
        let Ok(rule) = CString::new(rule) else { return 0 };
        let victim = api!(RedisModule_Call)(ctx, c"GET".as_ptr(), c"c".as_ptr(), rule.as_ptr());
        let named = api!(RedisModule_CreateStringFromCallReply)(victim);
        if !named.is_null() {
            let victim = if bytes(named) == name { key } else { named };
            let reply = api!(RedisModule_Call)(ctx, c"DEL".as_ptr(), c"!s".as_ptr(), victim);
            api!(RedisModule_FreeCallReply)(reply);
            api!(RedisModule_FreeString)(ptr::null_mut(), named);
        }
        api!(RedisModule_FreeCallReply)(victim);
    }
    0
}
