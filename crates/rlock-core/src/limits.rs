//! The largest values.

/// The longest lease: 2^43 ms, about 278 years. The sum with a point in time cannot overflow.
pub const MAX_LEASE_MS: i64 = 1 << 43;

/// The most holds: 2^53, the largest integer that Lua and JavaScript count exactly.
pub const MAX_HOLDS: i64 = 1 << 53;

/// The most permits of a lock: 2^31 - 1.
pub const MAX_PERMITS: u32 = (1 << 31) - 1;

/// The largest token: 2^53, the limit of exact integers in Lua and JavaScript.
pub const MAX_TOKEN: i64 = 1 << 53;

/// The longest name of a lock that can be acquired, in bytes.
pub const MAX_NAME_LEN: usize = 1_024;

/// The most entries in each list of a reply.
pub const MAX_LIMIT: u32 = 10_000;
