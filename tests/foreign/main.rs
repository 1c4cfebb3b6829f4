//! Beside Redisson's plain lock: turns, streaks, subscriptions.

mod foreign;
mod streaks;
mod subscribed;
