//! Waiting: blocked and enqueued waiters, hand-offs, wake-ups, departures.

mod block;
mod cancel;
mod closing;
mod departures;
mod drain;
mod enqueue;
mod enqueue_beside;
mod gone_channels;
mod handoff;
mod histories;
mod hot;
mod list;
mod memory;
mod pauses;
mod tenants;
mod waiting_edges;
mod waiting_stats;
mod wakeups;
