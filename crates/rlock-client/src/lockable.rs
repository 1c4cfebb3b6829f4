//! The common part of all kinds of locks: a lock, several locks, one lock on several servers.

use std::ops::Deref;
use std::time::Duration;

use crate::error::{Error, Lost};

/// What can be acquired.
pub trait Lockable: Clone + Send + 'static {
    /// What holds it.
    type Guard: Holding;

    /// How long to wait unless the caller says otherwise; `None` is for ever.
    fn limit(&self) -> Option<Duration>;

    /// Asks once.
    fn now(self) -> impl Future<Output = Result<Self::Guard, Error>> + Send;

    /// Waits, for at most `limit`.
    fn within(self, limit: Option<Duration>) -> impl Future<Output = Result<Self::Guard, Error>> + Send;
}

/// A guard.
pub trait Holding: Deref<Target: View> + Send + 'static {
    /// Releases it, and says whether it was held until now.
    fn give_back(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A view of what is held.
pub trait View: Clone + Send + 'static {
    /// For how much longer it is certainly held.
    fn left(&self) -> Result<Duration, Error>;

    /// Waits until it is lost.
    fn loss(&self) -> impl Future<Output = Lost> + Send;
}

/// What a guard gives to the work under it.
pub(crate) type ViewOf<L> = <<L as Lockable>::Guard as Deref>::Target;

/// Runs `work` under a lock, and drops it when the lock is lost.
pub(crate) async fn run<L: Lockable, T, F: Future<Output = T>>(
    lock: L,
    work: impl FnOnce(ViewOf<L>) -> F,
) -> Result<T, Error> {
    let limit = lock.limit();
    let guard = lock.within(limit).await?;
    let value = tokio::select! {
        biased;
        // The check says which lock was lost.
        _ = guard.loss() => return Err(guard.left().err().unwrap_or(Error::Closed)),
        value = work(guard.deref().clone()) => value,
    };
    end_work(guard).await?;
    Ok(value)
}

/// Releases a lock after work under it; an error says that it was not held to the end of the work.
pub(crate) async fn end_work(guard: impl Holding) -> Result<(), Error> {
    guard.left()?;
    match guard.give_back().await {
        // At the end of the work the client's clock said that the lock was held: the release's outcome does not matter.
        Err(Error::OutcomeUnknown { .. } | Error::Permission { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// The methods by which a lock is acquired, the same for all kinds.
macro_rules! acquiring {
    ($lock:ident $(<$kind:ident>)?, $guard:ty, $view:ty) => {
        impl $(<$kind: Kind>)? $lock $(<$kind>)? {
            /// Asks for it once, without waiting for another owner.
            ///
            /// Dropping the future releases what it may have been granted.
            ///
            /// # Errors
            ///
            /// [`Error::Denied`] if another owner holds it; [`Error::Transport`] after a response timeout without a reply;
            /// never [`Error::Timeout`].
            pub fn try_acquire(
                &self,
            ) -> impl Future<Output = Result<$guard, Error>> + Send + use<$($kind)?> {
                Lockable::now(self.clone())
            }

            /// Acquires it, waiting without limit, or as long as the setting `wait` says.
            ///
            /// It also waits while a server is out of reach. Dropping the future loses the place in the queue and
            /// never leaves a lock behind.
            ///
            /// # Errors
            ///
            /// Every error that waiting cannot fix; [`Error::Timeout`] if you set a limit.
            pub fn acquire(&self) -> impl Future<Output = Result<$guard, Error>> + Send + use<$($kind)?> {
                Lockable::within(self.clone(), Lockable::limit(self))
            }

            /// Acquires it, waiting for at most `timeout`.
            ///
            /// # Errors
            ///
            /// As `acquire`; [`Error::Timeout`] after that time, with the reason if the server could not be asked
            /// ([`Error::is_unreachable`]).
            pub fn acquire_timeout(
                &self,
                timeout: Duration,
            ) -> impl Future<Output = Result<$guard, Error>> + Send + use<$($kind)?> {
                Lockable::within(self.clone(), Some(timeout))
            }

            /// Acquires it, runs `work`, and releases it; drops the work when the lock is lost.
            ///
            /// `Ok` says that it was held from the beginning of the work to its end.
            ///
            /// # Errors
            ///
            /// As `acquire`, and [`Error::LockLost`] if the work was dropped, or ended only after the loss.
            pub fn run<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, Error>> + use<$($kind,)? T, F, W>
            where
                F: Future<Output = T>,
                W: FnOnce($view) -> F,
            {
                $crate::lockable::run(self.clone(), work)
            }
        }

        impl $(<$kind: Kind>)? IntoFuture for $lock $(<$kind>)? {
            type Output = Result<$guard, Error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.acquire())
            }
        }
    };
}

/// The common part of all guards: each has a view in its field `held`.
macro_rules! holding {
    ($guard:ident $(<$kind:ident>)?, $view:ty) => {
        impl $(<$kind: Kind>)? $guard $(<$kind>)? {
            /// A view of this hold, to clone into the work.
            pub fn held(&self) -> $view {
                self.held.clone()
            }
        }

        impl $(<$kind>)? std::ops::Deref for $guard $(<$kind>)? {
            type Target = $view;

            fn deref(&self) -> &$view {
                &self.held
            }
        }

        impl $(<$kind: Kind>)? $crate::lockable::Holding for $guard $(<$kind>)? {
            async fn give_back(self) -> Result<(), Error> {
                self.release().await
            }
        }

        impl $crate::lockable::View for $view {
            fn left(&self) -> Result<Duration, Error> {
                self.check()
            }

            async fn loss(&self) -> Lost {
                self.lost().await
            }
        }
    };
}

pub(crate) use {acquiring, holding};
