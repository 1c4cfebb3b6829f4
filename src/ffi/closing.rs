//! Whether the server is going to close a client: CLIENT LIST shows it, and no function of the module API.

use redis_module::raw;

use super::api::{api, optional_api};
use super::call_reply::{free, reply_type, with_bytes};
use super::ctx::Ctx;
use super::string::OwnedString;

/// The user of clients that log in as no other.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

impl Ctx<'_> {
    /// Whether this client is logged in as another user than the default one.
    fn has_own_user(self) -> bool {
        // SAFETY: the context is valid; null if the client is unknown or has no user.
        let name = unsafe {
            OwnedString::from_raw(api!(RedisModule_GetClientUserNameById)(self.as_ptr(), self.client()))
        };
        name.is_some_and(|name| name.borrow().bytes() != DEFAULT_USER)
    }

    /// Whether the server is going to close this unblocked client, and writes nothing to it any more.
    ///
    /// To ask is a third of the cost of a hand-off, so the module asks only about clients that the server may have marked while
    /// they were blocked. The server marks a client whose user it removes (ACL DELUSER, ACL LOAD), and gives it the default
    /// user. It also marks a client whose output buffer is full. A client that disconnects is freed when the server reads that.
    pub(crate) fn is_closing(self, had_own_user: bool) -> bool {
        let lost_its_user = had_own_user && !self.has_own_user();
        (lost_its_user || self.receives_messages()) && self.has_close_flag()
    }

    /// Whether this client tracks keys or is subscribed, and can be blocked nevertheless: with RESP3.
    fn receives_messages(self) -> bool {
        if self.flags() & raw::REDISMODULE_CTX_FLAGS_RESP3.cast_signed() == 0 {
            return false;
        }
        let version = u64::from(raw::REDISMODULE_CLIENTINFO_VERSION);
        let mut info = raw::RedisModuleClientInfo { version, flags: 0, id: 0, addr: [0; 46], port: 0, db: 0 };
        // SAFETY: the structure is of the version that it names, and the server fills it in if the client exists.
        unsafe { api!(RedisModule_GetClientInfoById)((&raw mut info).cast(), self.client()) };
        let sent = raw::REDISMODULE_CLIENTINFO_FLAG_TRACKING | raw::REDISMODULE_CLIENTINFO_FLAG_PUBSUB;
        info.flags & u64::from(sent) != 0
    }

    /// Whether this client is marked to be closed. The module API tells this nowhere; CLIENT LIST shows it as the flag `A`.
    fn has_close_flag(self) -> bool {
        // `E`: errors as replies. The format says: two strings of C, and a long long.
        let (name, format) = (c"CLIENT".as_ptr(), c"Eccl".as_ptr());
        let (list, id) = (c"LIST".as_ptr(), c"ID".as_ptr());
        let client_id = self.client().cast_signed();
        // SAFETY: the context is valid, and the format matches what follows it.
        let reply = unsafe { api!(RedisModule_Call)(self.as_ptr(), name, format, list, id, client_id) };
        let is_line = !reply.is_null() && reply_type(reply) == raw::REDISMODULE_REPLY_STRING;
        let closing = is_line && with_bytes(reply, has_close_flag);
        free(reply);
        closing
    }
}

/// Whether a line of CLIENT LIST has the flag `A`: "connection to be closed ASAP". No name that stands before the flags
/// can have a space in it.
fn has_close_flag(line: &[u8]) -> bool {
    let flags = line.split(|byte| *byte == b' ').find_map(|field| field.strip_prefix(b"flags="));
    flags.is_some_and(|flags| flags.contains(&b'A'))
}

#[cfg(test)]
mod tests {
    use super::has_close_flag;

    #[test]
    fn the_close_flag_is_read_from_the_flags_alone() {
        assert!(has_close_flag(b"id=3 addr=1.2.3.4:5 name= age=1 idle=0 flags=bA db=0 user=u\n"));
        assert!(!has_close_flag(b"id=3 addr=1.2.3.4:5 name=A age=1 idle=0 flags=b db=0 user=A\n"));
        assert!(!has_close_flag(b"id=3 name=flags=A flags=N user=u\n"));
        assert!(!has_close_flag(b""));
    }
}
