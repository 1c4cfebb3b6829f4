//! A lock by its name.

mod asking;
mod others;
mod read_write;
mod spec;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::config::Durability;
use crate::error::{Error, name};
use crate::guard::{Guard, Held};
use crate::kind::{Any, Exclusive, Kind, Plain};
use crate::lockable::{Lockable, acquiring};
pub use read_write::ReadWriteLock;
pub(crate) use spec::Spec;

/// A lock by its name, with its settings. Cheap to make and to clone; made by [`Client::lock`](crate::Client::lock)
/// and [`Client::read_write_lock`](crate::Client::read_write_lock).
///
/// `client.lock("a").await` is [`acquire`](Lock::acquire). Each acquisition has its own owner, so two tasks with one
/// `Lock` exclude each other. The futures of acquisitions borrow nothing: you can spawn them, and use them in a
/// `select!`.
#[must_use = "a lock does nothing until it is acquired: `let guard = lock.acquire().await?`"]
pub struct Lock<K = Plain> {
    pub(crate) spec: Spec,
    kind: PhantomData<fn() -> K>,
}

acquiring!(Lock<K>, Guard<K>, Held);

impl<K: Kind> Lock<K> {
    /// A lock of this kind, as `spec` has it.
    pub(crate) fn new(spec: Spec) -> Lock<K> {
        Lock { spec, kind: PhantomData }
    }

    /// The same lock without its kind in its type: for code that chooses the kind at run time.
    pub fn any(self) -> Lock<Any> {
        Lock::new(self.spec)
    }

    /// Sets the lease, instead of the client's ([`Builder::lease`](crate::Builder::lease)). The lock is renewed every
    /// third of it until you release it. From 100 ms, since a renewal needs a round trip, to 2^43 ms.
    pub fn lease(mut self, lease: Duration) -> Lock<K> {
        self.spec.terms.lease = lease;
        self
    }

    /// Sets whether the lock is renewed, as it is by default. With `renew(false)`, the lock ends with its lease
    /// ([`Lost::Expired`](crate::Lost::Expired)).
    pub fn renew(mut self, renew: bool) -> Lock<K> {
        self.spec.terms.renew = renew;
        self
    }

    /// Ties the lock to this client's connection: if the connection ends, also because the process crashed, the lock is
    /// free after the grace, and not only at lease end. From 100 ms to 2^43 ms; 1 second suits most.
    ///
    /// The client proves to the server four times in a grace that it is alive, once for all its locks. If the connection
    /// breaks, the client opens another one and ties the locks to it. **A lock is lost if that takes longer than the
    /// grace**, as at lease end ([`Lost::Unreachable`](crate::Lost::Unreachable)). A short grace frees the locks of
    /// crashed processes sooner, and loses locks in shorter outages, such as a fail-over.
    ///
    /// A process that stops without closing its connections, as a paused one does, keeps its locks until lease end. Servers
    /// forget ties in a restart or fail-over, until the next renewal.
    pub fn session_grace(mut self, grace: Duration) -> Lock<K> {
        self.spec.terms.extras.session = Some(grace);
        self
    }

    /// Limits how long [`Lock::acquire`] and [`Lock::run`] wait. Without a limit they wait for ever.
    pub fn wait(mut self, wait: Duration) -> Lock<K> {
        self.spec.terms.wait = Some(wait);
        self
    }

    /// Keeps the lock held for at least this time from its acquisition, also if you release it sooner: for jobs that must not
    /// run twice in that time on machines whose clocks differ. After [`Guard::release`] the lock ends by itself; nothing renews
    /// it, and [`Client::close`](crate::Client::close) leaves it alone. The name is that of ShedLock (`lockAtLeastFor`).
    pub fn at_least(mut self, time: Duration) -> Lock<K> {
        self.spec.terms.at_least = time;
        self
    }

    /// Renews the lock for at most this time from its acquisition. After that it ends with its lease
    /// ([`Lost::Overdue`](crate::Lost::Overdue)), so a job that hangs does not keep the lock for ever.
    pub fn max_hold(mut self, time: Duration) -> Lock<K> {
        self.spec.terms.max_hold = Some(time);
        self
    }

    /// Adopts the lock of an owner that another process has detached ([`Guard::detach`]), by a renewal with this lock's lease.
    ///
    /// The settings of this lock apply, except for the wait: the call takes at most one response timeout.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if the owner does not hold the lock any more; [`Error::Invalid`] if this client has an acquisition of that
    /// owner under way; those of [`Lock::try_acquire`].
    pub async fn adopt(&self, owner: impl AsRef<[u8]>) -> Result<Guard<K>, Error> {
        self.spec.adopt(owner.as_ref()).await.map(Guard::of_kind)
    }

    /// Returns the lock with its whole lease, also after a wait.
    ///
    /// After a wait, the server's message grants the lock for up to five seconds (`rlock.grant-confirm-ms`), and it is returned at
    /// once. A renewal in the background then gives it the rest of the lease. With this setting the renewal comes first, for one
    /// more round trip. Use it for work that starts only if it has much time.
    pub fn whole_lease(mut self) -> Lock<K> {
        self.spec.terms.confirm_first = true;
        self
    }

    /// Sets how many replicas must have the lock before `acquire` returns it.
    pub fn durability(mut self, durability: Durability) -> Lock<K> {
        self.spec.durability = durability;
        self
    }

    /// Names the owner, 1 to 512 bytes, instead of a new one for each acquisition.
    ///
    /// Within this client, acquiring a lock that the owner holds re-enters it. If that hold was lost, the acquisition fails
    /// with [`Error::LockLost`] until its guards are dropped. A restarted process takes over the
    /// holds of its predecessor. Two clients must never use one owner at the same time: the server cannot distinguish
    /// them.
    ///
    /// Nor can the server distinguish one hold of this owner from the next. If a connection breaks after a release
    /// was written to it, the server may run that release later, when it reads the rest of the old connection. The
    /// release ends whatever hold the owner has by that time. The hold's next renewal notices it
    /// ([`Lost::Taken`](crate::Lost::Taken)); until that renewal, two owners may be at work. The client's generated
    /// owners are used once, so a late release finds nothing. Name an owner only if a restarted process must find its
    /// lock again, and use fencing tokens if two owners at work do harm.
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Lock<K> {
        self.spec.owner = Some(owner.as_ref().to_vec());
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.spec.key
    }
}

impl<K: Exclusive> Lock<K> {
    /// The same lock, with a fencing token for each guard ([`Held::token`]), larger than those of all earlier
    /// holders. Send it with each write under the lock, and let the resource refuse a token smaller than the largest
    /// it has seen: docs/FENCING.md shows how, and what it guarantees.
    ///
    /// Holders with and without a token exclude each other.
    pub fn fenced(mut self) -> Lock<K> {
        self.spec.terms.extras.fenced = true;
        self
    }
}

impl Lock {
    /// The same lock, in one order with Redisson fair waiters of that name, which native waiters
    /// overtake otherwise. Without Redisson clients a lock is fair already.
    pub fn fair(mut self) -> Lock {
        self.spec.terms.extras.fair = true;
        self
    }
}

impl<K: Kind> Lockable for Lock<K> {
    type Guard = Guard<K>;

    fn limit(&self) -> Option<Duration> {
        self.spec.terms.wait
    }

    async fn now(self) -> Result<Guard<K>, Error> {
        self.spec.tell_outcome(self.spec.acquire_now().await).map(Guard::of_kind)
    }

    async fn within(self, limit: Option<Duration>) -> Result<Guard<K>, Error> {
        self.spec.tell_outcome(self.spec.acquire_within(limit).await).map(Guard::of_kind)
    }
}

impl<K> Clone for Lock<K> {
    fn clone(&self) -> Lock<K> {
        Lock { spec: self.spec.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &name(&self.spec.key)).finish_non_exhaustive()
    }
}
