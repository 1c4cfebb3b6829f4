//! A server, together with what memory knows of its locks.

use std::cell::RefCell;

use crate::locks::Locks;
use crate::port::Server;

/// A server and its waiters. The waiters are the core's own, not the server's: a rule may read them while a key is open.
pub struct Node<'a, P: Server> {
    /// The server.
    pub(crate) port: &'a P,
    locks: &'a RefCell<Locks>,
}

impl<P: Server> Clone for Node<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Server> Copy for Node<'_, P> {}

impl<'a, P: Server> Node<'a, P> {
    /// A server with these waiters. No other borrow of them may exist while the node is in use.
    pub fn new(port: &'a P, locks: &'a RefCell<Locks>) -> Self {
        Self { port, locks }
    }

    /// Lends what is known of the locks to `body`, which must not call the server: the server may call back.
    pub(crate) fn locks<T>(&self, body: impl FnOnce(&mut Locks) -> T) -> T {
        body(&mut self.locks.borrow_mut())
    }
}
