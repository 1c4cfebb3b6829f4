//! Commands of the server that the module runs, with their effects and events: where speed does not matter.

use std::ffi::CStr;

use redis_module::raw;

use super::api::{api, optional_api};
use super::call_reply::{bytes, free, reply_type};
use super::ctx::Ctx;
use super::string::{OwnedString, StringRef};

/// What a command answered.
pub(crate) enum CallReply {
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array of bytes; other elements, such as integers and nulls, are `None`.
    List(Vec<Option<Vec<u8>>>),
    /// Nothing, an integer, something else, or an error.
    Nothing,
}

/// Fields of a hash with their values, and the cursor of the next ones.
type Page = (u64, Vec<(Vec<u8>, Vec<u8>)>);

impl Ctx<'_> {
    /// Runs a command, and replicates what it changes.
    pub(crate) fn call(self, command: &CStr, words: &[StringRef<'_>]) -> CallReply {
        let reply = self.run(command, words);
        let answer = read(reply);
        free(reply);
        answer
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

    /// The integer that a command answers; `None` for anything else.
    pub(crate) fn count(self, command: &CStr, words: &[StringRef<'_>]) -> Option<i64> {
        let reply = self.run(command, words);
        let is_integer = !reply.is_null() && reply_type(reply) == raw::REDISMODULE_REPLY_INTEGER;
        // SAFETY: the reply is an integer, and not freed yet.
        let count = is_integer.then(|| unsafe { api!(RedisModule_CallReplyInteger)(reply) });
        free(reply);
        count
    }

    /// About `count` fields of a hash with their values, from a cursor on, and the cursor of the next ones: 0 after the last.
    pub(crate) fn scan_hash(self, key: StringRef<'_>, cursor: u64, count: usize) -> Option<Page> {
        let cursor = OwnedString::new(cursor.to_string().as_bytes());
        let (word, count) = (OwnedString::new(b"COUNT"), OwnedString::new(count.to_string().as_bytes()));
        let reply = self.run(c"HSCAN", &[key, cursor.borrow(), word.borrow(), count.borrow()]);
        let page = read_page(reply);
        free(reply);
        page
    }

    /// Whether a client of this server is subscribed to a channel by its name; in cluster mode, by SSUBSCRIBE.
    pub(crate) fn has_subscriber(self, channel: &[u8]) -> bool {
        self.listeners(OwnedString::new(channel).borrow()) > 0
    }

    fn run(self, command: &CStr, words: &[StringRef<'_>]) -> *mut raw::RedisModuleCallReply {
        let mut words: Vec<*mut raw::RedisModuleString> = words.iter().map(|word| word.as_ptr()).collect();
        // `!`: replicated. `E`: errors as replies. `v`: the words as an array.
        let (name, format) = (command.as_ptr(), c"!Ev".as_ptr());
        // Null where the server could not even try: each reader of the reply checks that.
        // SAFETY: the format says: an array of strings and its length. They live.
        unsafe { api!(RedisModule_Call)(self.as_ptr(), name, format, words.as_mut_ptr(), words.len()) }
    }
}

/// An integer of an array, or 0.
fn number(reply: *mut raw::RedisModuleCallReply, at: usize) -> i64 {
    if reply.is_null() || reply_type(reply) != raw::REDISMODULE_REPLY_ARRAY {
        return 0;
    }
    // SAFETY: the reply is an array; an element belongs to it, and is null beyond the end.
    unsafe {
        let element = api!(RedisModule_CallReplyArrayElement)(reply, at);
        let is_integer = !element.is_null() && reply_type(element) == raw::REDISMODULE_REPLY_INTEGER;
        if is_integer { api!(RedisModule_CallReplyInteger)(element) } else { 0 }
    }
}

/// What HSCAN answers.
fn read_page(reply: *mut raw::RedisModuleCallReply) -> Option<Page> {
    if reply.is_null() || reply_type(reply) != raw::REDISMODULE_REPLY_ARRAY {
        return None;
    }
    // SAFETY: the reply is an array; an element belongs to it, and is null beyond its end.
    let element = |at| unsafe { api!(RedisModule_CallReplyArrayElement)(reply, at) };
    let (CallReply::Bytes(next), CallReply::List(fields)) = (read(element(0)), read(element(1))) else {
        return None;
    };
    let mut fields = fields.into_iter();
    let mut pairs = Vec::new();
    while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
        pairs.push((field?, value?));
    }
    Some((std::str::from_utf8(&next).ok()?.parse().ok()?, pairs))
}

fn read(reply: *mut raw::RedisModuleCallReply) -> CallReply {
    if reply.is_null() {
        return CallReply::Nothing;
    }
    match reply_type(reply) {
        raw::REDISMODULE_REPLY_STRING => CallReply::Bytes(bytes(reply)),
        raw::REDISMODULE_REPLY_ARRAY => {
            // SAFETY: the reply is an array.
            let len = unsafe { api!(RedisModule_CallReplyLength)(reply) };
            let element = |at| {
                // SAFETY: the place is within the array; the element belongs to it.
                let element = unsafe { api!(RedisModule_CallReplyArrayElement)(reply, at) };
                let is_string = !element.is_null() && reply_type(element) == raw::REDISMODULE_REPLY_STRING;
                is_string.then(|| bytes(element))
            };
            CallReply::List((0..len).map(element).collect())
        }
        _ => CallReply::Nothing,
    }
}
