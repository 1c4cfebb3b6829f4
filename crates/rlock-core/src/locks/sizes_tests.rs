//! The memory of a lock's first waiter. tests/waiting/memory.rs measures all of it on a server.

use std::mem::size_of;

use super::Waiter;
use super::calls::Place;
use super::queue::Queue;
use super::record::LockRecord;

/// Each is a block of its own, of the size of one that the server's allocator has.
#[test]
fn the_blocks_of_the_first_waiter_are_small() {
    assert_eq!((size_of::<LockRecord>(), size_of::<Queue>()), (144, 128));
    assert_eq!(size_of::<(Place, Waiter)>(), 128);
}
