//! Every `unsafe` of the module, each with its reason: thin, checked wrappers over the server's C API. They call nothing
//! above them but the [`Callbacks`] that were given at load.
//!
//! Uses of the crates:
//! - `redis-module`: the bindings to the server's API ([`redis_module::raw`]) and its list of role handlers. Its wrappers of
//!   keys and strings are not used: they take C strings, and panic on a NUL that a client may send. Nor is its allocator, which
//!   does not align what it gives: [`allocator`] does. Its feature stays at 6.2, since a build for
//!   7.0 demands functions that Redis 7.0 does not have; newer functions are called through their pointers, which are
//!   null where the server lacks them.
//! - `redis-module-macros`: the attribute that puts the handler of a changed role into the crate's list of role handlers
//!   (with `linkme`, to which it expands). Only the list is used: `redis-module` would call it from an `extern "C"` frame of
//!   its own, where a panic ends the server, so [`server_event`] subscribes itself and calls the list inside the guard. The other
//!   macros make frames like it as well (`command`, the other events, which also `expect` and `unwrap`), or make replies out of
//!   `RedisValue`, which need a wrapper of the context that is not used here either.
//! - `libc`: the error numbers by which some of the server's functions tell what went wrong.

mod acl;
mod allocator;
mod api;
mod args;
mod block;
mod call;
mod call_reply;
mod callbacks;
mod closing;
mod command;
mod config;
mod contexts;
mod ctx;
mod event;
pub(crate) mod fault;
mod guard;
mod info;
mod info_page;
mod key;
mod key_event;
mod load;
mod load_error;
mod log;
mod moved;
mod outbox;
mod replicate;
mod reply;
mod scan;
mod server_event;
mod session;
mod shared;
mod slots;
mod sorted_set;
mod spec;
mod string;
mod timer;
mod wait;

pub(crate) use allocator::ServerAllocator;
pub(crate) use args::Args;
pub(crate) use block::{Blocked, is_primary};
pub(crate) use call::CallReply;
pub(crate) use callbacks::Callbacks;
pub(crate) use closing::DEFAULT_USER;
pub(crate) use command::{Command, Respond, register};
pub(crate) use config::{BoolOption, NumberOption, apply as apply_options, register_bool, register_number};
pub(crate) use contexts::{CommandCtx, Event, EventCtx, ScopedCtx, Task, TaskCtx};
pub(crate) use ctx::{Ctx, EventClass};
pub(crate) use event::{LoadedFrom, ServerEvent};
pub(crate) use guard::{panics, take_doubt};
pub(crate) use info::register_info;
pub(crate) use info_page::InfoPage;
pub(crate) use key::{Key, KeyType};
pub(crate) use key_event::{
    listen_to_keys, listen_to_lists, listen_to_loads, listen_to_sorted_sets, own_event,
};
pub(crate) use load::{declare, entry_points, on_load, on_unload};
pub(crate) use load_error::LoadError;
pub(crate) use log::{warn, warn_rarely};
pub(crate) use moved::{learn_moves, loses_moves};
pub(crate) use reply::errors;
pub(crate) use scan::Scan;
pub(crate) use server_event::{listen, listen_to_clients};
pub(crate) use shared::Shared;
pub(crate) use slots::SlotMove;
pub(crate) use sorted_set::Edge;
pub(crate) use spec::{Arg, ArgType, Audience, KeyUse, Spec};
pub(crate) use string::{MODE, ONE, OwnedString, READ, StringRef, TOO_LONG_TO_PACK, WRITE, ZERO};
pub(crate) use timer::{Timer, start_timer, stop_timer};
pub(crate) use wait::{Handle, WaitOutcome};
