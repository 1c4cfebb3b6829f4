//! The names of locks.

use std::rc::Rc;

use crate::weight::Weighed;

/// A lock by its database and key, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName<'a> {
    /// The database's number.
    pub db: i32,
    /// The key.
    pub key: &'a [u8],
}

/// A lock by its database and key, owned; a clone is one count. Ordered by name, never by age: the order of work is the
/// same in a replay, and in the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockRef {
    /// The database's number.
    pub db: i32,
    /// The key.
    pub key: Rc<[u8]>,
}

impl LockRef {
    /// The name.
    pub fn name(&self) -> LockName<'_> {
        LockName { db: self.db, key: &self.key }
    }
}

impl Weighed for LockRef {
    fn bytes(&self) -> usize {
        self.key.len()
    }
}

/// An owner.
impl Weighed for Box<[u8]> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl LockName<'_> {
    /// A copy of the name.
    pub fn to_ref(self) -> LockRef {
        LockRef { db: self.db, key: self.key.into() }
    }
}
