//! MultiLock and RedLock, on several servers.

#![forbid(unsafe_code)]

mod multi;
mod red;
mod red_history;
mod several;
mod several_cancel;
