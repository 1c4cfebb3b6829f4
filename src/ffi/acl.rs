//! Permissions that the server itself does not check for the user of a command.

use std::ffi::c_int;
use std::io;

use redis_module::raw;

use super::api::{api, optional_api};
use super::call_reply::{free, reply_type};
use super::contexts::CommandCtx;
use super::ctx::clear_errno;
use super::string::{OwnedString, StringRef};

impl CommandCtx<'_> {
    /// Whether the user of the command under way may publish to a channel. The server itself checks only channels
    /// that a command declares, and Redis 8 treats a command with a declared channel as sharded publishing, which
    /// it also runs for keys of other nodes. Any selector of the user may allow the channel: no server shows
    /// whether the selector that allows the command does.
    pub(crate) fn may_publish_to(self, channel: StringRef<'_>) -> bool {
        let flags = raw::REDISMODULE_CMD_CHANNEL_PUBLISH as c_int;
        let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
        // SAFETY: user and channel live.
        self.is_allowed(channel, reason, |user| unsafe {
            api!(RedisModule_ACLCheckChannelPermissions)(user, channel.as_ptr(), flags)
        })
    }

    /// Whether the user of the command under way may run this very command on a key that the command does not
    /// declare, in place of the key that it declares. For a key alone, the server accepts any selector of the user,
    /// also one that does not allow the command. For a command with its key, one selector must allow both.
    pub(crate) fn may_run_on(self, key: StringRef<'_>) -> bool {
        let mut words = self.args().with_key(key);
        let Ok(len) = c_int::try_from(words.len()) else { return false };
        let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_KEY;
        // SAFETY: the user lives, and so do the strings of the vector, of which the command's name is one.
        self.is_allowed(key, reason, |user| unsafe {
            api!(RedisModule_ACLCheckCommandPermissions)(user, words.as_mut_ptr(), len)
        })
    }

    /// Whether the server allows the user of the command under way what `check` asks; a refusal is written to the ACL log.
    fn is_allowed(
        self,
        object: StringRef<'_>,
        reason: raw::RedisModuleACLLogEntryReason,
        check: impl FnOnce(*mut raw::RedisModuleUser) -> c_int,
    ) -> bool {
        let Some(name) = self.user() else { return true };
        // SAFETY: the name lives; the user is freed below and not used after that.
        unsafe {
            let user = api!(RedisModule_GetModuleUserFromUserName)(name.borrow().as_ptr());
            if user.is_null() {
                return false;
            }
            let allowed = check(user) == raw::REDISMODULE_OK as c_int;
            if !allowed {
                // Fails only for an unknown user: nothing can be logged.
                api!(RedisModule_ACLAddLogEntry)(self.as_ptr(), user, object.as_ptr(), reason);
            }
            api!(RedisModule_FreeModuleUser)(user);
            allowed
        }
    }

    /// The user of the command under way; `None` for the server itself and for other modules.
    pub(crate) fn user(self) -> Option<OwnedString> {
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.as_ptr()) };
        if flags & raw::REDISMODULE_CTX_FLAGS_LUA as c_int == 0 {
            // SAFETY: the context is valid; null if the client is unknown or has no user.
            return unsafe {
                let id = api!(RedisModule_GetClientId)(self.as_ptr());
                OwnedString::from_raw(api!(RedisModule_GetClientUserNameById)(self.as_ptr(), id))
            };
        }
        // A script's client is not one of those, and to ask for the name of a user that it does not have
        // would end the server. `C` runs a command as the user, and refuses that without one.
        clear_errno();
        // SAFETY: the format takes nothing more.
        let reply = unsafe { api!(RedisModule_Call)(self.as_ptr(), c"PING".as_ptr(), c"CE".as_ptr()) };
        let reason = io::Error::last_os_error().raw_os_error();
        let refused = reply.is_null() || reply_type(reply) == raw::REDISMODULE_REPLY_ERROR;
        free(reply);
        if refused && reason == Some(libc::ENOTSUP) {
            return None;
        }
        // SAFETY: the client has a user; the server made the name for us.
        unsafe { OwnedString::from_raw(api!(RedisModule_GetCurrentUserName)(self.as_ptr())) }
    }
}
