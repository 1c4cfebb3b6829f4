//! Commands of the server's that we run ourselves, with their effects and events: where speed is of no concern.

use std::ffi::CStr;

use redis_module::raw;

use super::api::{api, optional_api};
use super::ctx::{Ctx, free, reply_kind};
use super::string::{OwnedString, StringRef};

/// What a command answered.
pub(crate) enum Told {
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array of bytes; other elements are left out.
    List(Vec<Vec<u8>>),
    /// Nothing, an integer, something else, or an error.
    Nothing,
}

impl Ctx<'_> {
    /// Runs a command, and replicates what it changes.
    pub(crate) fn call(self, command: &CStr, words: &[StringRef<'_>]) -> Told {
        let reply = self.run(command, words);
        let told = read(reply);
        free(reply);
        told
    }

    /// How many clients of this server listen on a channel, patterns apart; in cluster mode, by SSUBSCRIBE.
    pub(crate) fn listeners(self, channel: StringRef<'_>) -> u64 {
        let what = OwnedString::new(if self.in_cluster() { b"SHARDNUMSUB" } else { b"NUMSUB" });
        let reply = self.run(c"PUBSUB", &[what.borrow(), channel]);
        // The channel's name, and the number.
        let count = number(reply, 1);
        free(reply);
        u64::try_from(count).unwrap_or(0)
    }

    /// Whether a client of this server is subscribed to a channel by its name; in cluster mode, by SSUBSCRIBE.
    pub(crate) fn has_subscriber(self, channel: &[u8]) -> bool {
        self.listeners(OwnedString::new(channel).borrow()) > 0
    }

    /// Whether the server is going to close this client, and writes nothing to it any more. The module API tells this
    /// nowhere; CLIENT LIST shows it as the flag `A`.
    pub(crate) fn is_closing(self, client_id: u64) -> bool {
        // `E`: errors as replies. The format says: two strings of C, and a long long.
        let (name, format) = (c"CLIENT".as_ptr(), c"Eccl".as_ptr());
        let (list, id) = (c"LIST".as_ptr(), c"ID".as_ptr());
        let client_id = client_id.cast_signed();
        // SAFETY: the context is valid, and the format matches what follows it.
        let reply = unsafe { api!(RedisModule_Call)(self.as_ptr(), name, format, list, id, client_id) };
        let is_line = !reply.is_null() && reply_kind(reply) == raw::REDISMODULE_REPLY_STRING;
        let closing = is_line && with_bytes(reply, has_close_flag);
        free(reply);
        closing
    }

    fn run(self, command: &CStr, words: &[StringRef<'_>]) -> *mut raw::RedisModuleCallReply {
        let mut words: Vec<*mut raw::RedisModuleString> = words.iter().map(|word| word.as_ptr()).collect();
        // `!`: replicated. `E`: errors as replies. `v`: the words as an array.
        let (name, format) = (command.as_ptr(), c"!Ev".as_ptr());
        // Null where the server could not even try: whoever reads the reply asks for that.
        // SAFETY: the format says: an array of strings and its length. They live.
        unsafe { api!(RedisModule_Call)(self.as_ptr(), name, format, words.as_mut_ptr(), words.len()) }
    }
}

/// An integer of an array; 0 where there is none.
fn number(reply: *mut raw::RedisModuleCallReply, at: usize) -> i64 {
    if reply.is_null() || reply_kind(reply) != raw::REDISMODULE_REPLY_ARRAY {
        return 0;
    }
    // SAFETY: the reply is an array; an element belongs to it, and is null where there is none at that place.
    unsafe {
        let element = api!(RedisModule_CallReplyArrayElement)(reply, at);
        let is_integer = !element.is_null() && reply_kind(element) == raw::REDISMODULE_REPLY_INTEGER;
        if is_integer { api!(RedisModule_CallReplyInteger)(element) } else { 0 }
    }
}

fn read(reply: *mut raw::RedisModuleCallReply) -> Told {
    if reply.is_null() {
        return Told::Nothing;
    }
    match reply_kind(reply) {
        raw::REDISMODULE_REPLY_STRING => Told::Bytes(bytes(reply)),
        raw::REDISMODULE_REPLY_ARRAY => {
            // SAFETY: the reply is an array.
            let len = unsafe { api!(RedisModule_CallReplyLength)(reply) };
            let element = |at| {
                // SAFETY: the place is within the array; the element belongs to it.
                let element = unsafe { api!(RedisModule_CallReplyArrayElement)(reply, at) };
                let is_string = !element.is_null() && reply_kind(element) == raw::REDISMODULE_REPLY_STRING;
                is_string.then(|| bytes(element))
            };
            Told::List((0..len).filter_map(element).collect())
        }
        _ => Told::Nothing,
    }
}

/// The bytes of a reply that is a string or an error.
pub(super) fn bytes(reply: *mut raw::RedisModuleCallReply) -> Vec<u8> {
    with_bytes(reply, <[u8]>::to_vec)
}

/// Reads the bytes of a reply that is a string or an error.
fn with_bytes<T>(reply: *mut raw::RedisModuleCallReply, read: impl FnOnce(&[u8]) -> T) -> T {
    let mut len = 0;
    // SAFETY: the reply is a string or an error, and is freed after its bytes were read.
    let bytes = unsafe {
        let start = api!(RedisModule_CallReplyStringPtr)(reply, &raw mut len);
        if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast::<u8>(), len) }
    };
    read(bytes)
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
