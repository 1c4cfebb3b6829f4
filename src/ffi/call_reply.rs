//! Raw replies of the commands that the module runs.

use redis_module::raw;

use super::api::{api, optional_api};

pub(super) fn reply_type(reply: *mut raw::RedisModuleCallReply) -> isize {
    // SAFETY: the reply was made by the server for us and is not freed yet.
    unsafe { api!(RedisModule_CallReplyType)(reply) as isize }
}

pub(super) fn free(reply: *mut raw::RedisModuleCallReply) {
    if !reply.is_null() {
        // SAFETY: the reply belongs to the module, and not used after this.
        unsafe { api!(RedisModule_FreeCallReply)(reply) };
    }
}

/// The bytes of a reply that is a string or an error.
pub(super) fn bytes(reply: *mut raw::RedisModuleCallReply) -> Vec<u8> {
    with_bytes(reply, <[u8]>::to_vec)
}

/// Reads the bytes of a reply that is a string or an error.
pub(super) fn with_bytes<T>(reply: *mut raw::RedisModuleCallReply, read: impl FnOnce(&[u8]) -> T) -> T {
    let mut len = 0;
    // SAFETY: the reply is a string or an error, and is freed after its bytes were read.
    let bytes = unsafe {
        let start = api!(RedisModule_CallReplyStringPtr)(reply, &raw mut len);
        if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast::<u8>(), len) }
    };
    read(bytes)
}
