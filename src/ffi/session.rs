//! Whether a call was sent on a connection: SESSION is refused elsewhere.

use std::ffi::c_int;

use redis_module::raw;

use super::api::{api, optional_api};
use super::call_reply::{free, reply_type};
use super::contexts::CommandCtx;

impl CommandCtx<'_> {
    /// Whether the command under way was sent on a connection. In scripts, functions and calls of other modules the server
    /// shows the id of a client of its own, which is never closed; to ask for that client's info crashes Valkey 9.1.2.
    pub(crate) fn has_connection(self) -> bool {
        let flags = self.flags();
        let has = |flag: u32| flags & flag as c_int != 0;
        if has(raw::REDISMODULE_CTX_FLAGS_LUA) || self.client_id() == 0 {
            return false;
        }
        match (has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING), has(raw::REDISMODULE_CTX_FLAGS_MULTI)) {
            (false, _) => true,
            (true, false) => false,
            // Another module's command in a transaction calls like the transaction itself.
            (true, true) => self.lists_caller(),
        }
    }

    /// Whether CLIENT LIST shows the caller: it shows those that have a connection.
    fn lists_caller(self) -> bool {
        // `E`: errors as replies. The format says: two strings of C, and a long long.
        let (name, format) = (c"CLIENT".as_ptr(), c"Eccl".as_ptr());
        let (list, id) = (c"LIST".as_ptr(), c"ID".as_ptr());
        let client_id = self.client_id().cast_signed();
        // SAFETY: the context is valid, and the format matches what follows it.
        let reply = unsafe { api!(RedisModule_Call)(self.as_ptr(), name, format, list, id, client_id) };
        let is_line = !reply.is_null() && reply_type(reply) == raw::REDISMODULE_REPLY_STRING;
        let length = api!(RedisModule_CallReplyLength);
        // SAFETY: the reply is not null, and not freed yet.
        let shown = is_line && unsafe { length(reply) } > 0;
        free(reply);
        shown
    }
}
