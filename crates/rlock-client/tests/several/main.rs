//! MultiLock and RedLock, on several servers.

mod multi;
mod red;
mod red_history;
mod several;
mod several_cancel;
