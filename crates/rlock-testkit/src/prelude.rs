//! What most tests of the server use: `use rlock_testkit::prelude::*`.

pub use std::time::{Duration, Instant};

pub use redis::{Connection, Value};

pub use crate::commands::{
    SOON, Story, agrees, ask, counter, fields, is_at_rest, number, on_the_wire, say, say_words, server_time,
    state, text, transaction,
};
pub use crate::waiting::{ALICE, Waiting, block, held, held_and_listen, queue, waiters};
pub use crate::{
    DataDir, ReplicaStream, ServerBuilder, ServerName, Subscriber, TestServer, aof_commands, eventually,
    fault_module_path, module_path, reacting_module_path, shown, wait_for, wait_for_replicas_in_sync,
};
