//! READ and WRITE, beside Redisson's read/write lock.

mod foreign_writers;
mod read_write;
mod read_write_redisson;
mod read_write_waiting;
mod reads_after_load;
