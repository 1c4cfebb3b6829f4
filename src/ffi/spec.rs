//! The description of a command for the server.

use std::ffi::{CStr, c_char, c_int};
use std::mem;
use std::ptr;

use redis_module::raw;

/// The description of a command for the server.
pub(crate) struct Spec {
    /// The name, in lower case.
    pub(crate) name: &'static CStr,
    /// The server's own flags, such as `write` and `deny-oom`.
    pub(crate) flags: &'static CStr,
    /// The server's ACL categories, from Redis 7.2 on.
    pub(crate) acl: &'static CStr,
    /// Its users: the commands of lock users are the module's ACL category.
    pub(crate) audience: Audience,
    /// One line for COMMAND DOCS.
    pub(crate) summary: &'static CStr,
    /// Its cost for COMMAND DOCS.
    pub(crate) complexity: &'static CStr,
    /// Hints for proxies and client libraries.
    pub(crate) tips: Option<&'static CStr>,
    /// The number of arguments with the name; -n for n or more.
    pub(crate) arity: c_int,
    /// Its access to the key, which is its first argument.
    pub(crate) key: KeyUse,
    /// The arguments.
    pub(crate) args: &'static [Arg],
}

/// The users of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Every user of locks: the command is in the module's ACL category, if the server lets modules have one.
    LockUsers,
    /// Operators only.
    Operators,
}

/// What a command does to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// The command has no key.
    None,
    /// The command reads the key.
    Read,
    /// The command reads and changes the key, and may delete it.
    Change,
}

impl KeyUse {
    /// The flags, without `incomplete`. Commands touch other keys in the slot of this one, and check themselves that the
    /// user may: with that flag the server finds no key at all, and checks neither its slot nor the user.
    pub(super) fn flags(self) -> u32 {
        let change = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE;
        match self {
            Self::None => 0,
            Self::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Self::Change => change | raw::REDISMODULE_CMD_KEY_ACCESS,
        }
    }
}

/// One argument of a command, as clients show it.
pub(crate) struct Arg {
    name: &'static CStr,
    arg_type: ArgType,
    token: Option<&'static CStr>,
    optional: bool,
}

/// What an argument is.
pub(crate) enum ArgType {
    /// The key.
    Key,
    /// Any bytes.
    String,
    /// An integer.
    Integer,
    /// Only its token.
    Token,
    /// One of these.
    OneOf(&'static [Arg]),
    /// All of these.
    Block(&'static [Arg]),
}

impl Arg {
    /// An argument that must be there.
    pub(crate) const fn new(name: &'static CStr, arg_type: ArgType) -> Self {
        Self { name, arg_type, token: None, optional: false }
    }

    /// The same argument after a word.
    pub(crate) const fn after(mut self, token: &'static CStr) -> Self {
        self.token = Some(token);
        self
    }

    /// The same argument, which may be left out.
    pub(crate) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn to_raw(&self, arena: &mut Arena) -> raw::RedisModuleCommandArg {
        let mut key_spec_index = -1;
        let mut subargs = ptr::null_mut();
        let type_ = match &self.arg_type {
            ArgType::Key => {
                key_spec_index = 0;
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY
            }
            ArgType::String => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            ArgType::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            ArgType::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            ArgType::Block(parts) => {
                subargs = arena.list(parts);
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK
            }
            ArgType::OneOf(choices) => {
                subargs = arena.list(choices);
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF
            }
        };
        raw::RedisModuleCommandArg {
            name: self.name.as_ptr(),
            type_,
            key_spec_index,
            token: text(self.token),
            subargs,
            flags: if self.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int } else { 0 },
            // SAFETY: the rest are pointers that may be null: no text.
            ..unsafe { mem::zeroed() }
        }
    }
}

/// Keeps the lists of arguments alive while the server copies them.
#[derive(Default)]
pub(super) struct Arena(Vec<Box<[raw::RedisModuleCommandArg]>>);

impl Arena {
    /// A list that ends with an argument without a name, as the server wants it.
    pub(super) fn list(&mut self, args: &[Arg]) -> *mut raw::RedisModuleCommandArg {
        let mut list: Vec<_> = args.iter().map(|arg| arg.to_raw(self)).collect();
        // SAFETY: all null is the end of the list.
        list.push(unsafe { mem::zeroed() });
        let mut list = list.into_boxed_slice();
        let start = list.as_mut_ptr();
        self.0.push(list);
        start
    }
}

/// A text as the server takes it: null for `None`.
pub(super) fn text(text: Option<&'static CStr>) -> *const c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}
