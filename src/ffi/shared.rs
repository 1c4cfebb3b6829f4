//! What callbacks share.

use std::cell::{Cell, OnceCell, RefCell};

/// A value for all callbacks of the module, whatever thread they run on: most run on the server's main thread,
/// but another module may call the module's commands from a thread of its own, which holds the server's lock
/// for that time. A thread-local value would be another one there, and a lock that is released there would
/// never be handed off.
pub(crate) struct Shared<T>(T);

// SAFETY: the server runs one callback at a time. A thread in a callback holds the server's lock, and what one
// thread wrote before it gave the lock away is seen by the next that has it.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<Cell<T>> {
    pub(crate) const fn cell(value: T) -> Self {
        Self(Cell::new(value))
    }

    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        self.0.get()
    }

    pub(crate) fn replace(&self, value: T) -> T {
        self.0.replace(value)
    }
}

impl<T: Default> Shared<OnceCell<T>> {
    /// Made when it is first used, and never dropped.
    pub(crate) const fn once() -> Self {
        Self(OnceCell::new())
    }

    pub(crate) fn get(&self) -> &T {
        self.0.get_or_init(T::default)
    }
}

impl<T: Default> Shared<RefCell<Option<T>>> {
    /// Made when it is first used, and never dropped.
    pub(crate) const fn lazy() -> Self {
        Self(RefCell::new(None))
    }

    /// The value for as long as `body` runs, which must not call this method again.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(self.0.borrow_mut().get_or_insert_default())
    }
}
