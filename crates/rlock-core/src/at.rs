//! A lock, together with the node that it is on.

use crate::locks::{LockName, Locks};
use crate::node::Node;
use crate::port::{InTask, Lock, Server};

/// A lock at its node: what every step on one lock needs.
pub struct At<'a, 'l, P: Server> {
    /// The server and its waiters.
    pub(crate) node: Node<'a, P>,
    /// The lock.
    pub(crate) lock: &'a mut P::Lock<'l>,
}

impl<P: Server> At<'_, '_, P> {
    /// The lock's name.
    pub(crate) fn name(&self) -> LockName<'_> {
        self.lock.name()
    }

    /// Lends what is known of the locks to `body`, as [`Node::locks`] does, with this lock's name.
    pub(crate) fn locks<T>(&self, body: impl FnOnce(&mut Locks, LockName<'_>) -> T) -> T {
        self.node.locks(|locks| body(locks, self.name()))
    }
}

impl<'a, P: Server> Node<'a, P> {
    /// A lock of this node.
    pub fn at<'l>(self, lock: &'a mut P::Lock<'l>) -> At<'a, 'l, P> {
        At { node: self, lock }
    }
}

impl<P: InTask> Node<'_, P> {
    /// Visits a lock outside commands: see [`InTask::at`].
    pub(crate) fn visit<T>(self, name: LockName<'_>, body: impl FnOnce(At<'_, '_, P>) -> T) -> Option<T> {
        self.port.at(name, |lock| body(self.at(lock)))
    }
}
