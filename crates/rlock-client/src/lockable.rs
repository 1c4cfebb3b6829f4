//! The common part of everything that can be acquired: a lock, and combinations of locks like those of the crate `rlock-multi`.
//!
//! A combination implements [`Lockable`], its guard is made by [`holding!`](crate::holding), and
//! [`acquiring!`](crate::acquiring) adds `try_acquire`, `acquire`, `acquire_timeout`, `run` and `.await`, as a
//! [`Lock`](crate::Lock) has them. [`blocking::Client::combine`](crate::blocking::Client::combine) adds the blocking interface.

use std::ops::Deref;
use std::time::Duration;

use crate::error::{Error, Lost};

/// A lock, or a combination of locks.
pub trait Lockable: Clone + Send + 'static {
    /// The guard of a hold.
    type Guard: Holding;

    /// The limit of the wait unless the caller sets another one; `None` waits for ever.
    fn limit(&self) -> Option<Duration>;

    /// Acquires the lock without waiting for another owner.
    fn now(self) -> impl Future<Output = Result<Self::Guard, Error>> + Send;

    /// Acquires the lock, and waits for at most `limit`.
    fn within(self, limit: Option<Duration>) -> impl Future<Output = Result<Self::Guard, Error>> + Send;
}

/// A guard of a lock. Dropping it releases its hold.
pub trait Holding: Deref<Target: View> + Send + 'static {
    /// Releases the hold, and fails if it was lost before.
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A view of a hold.
pub trait View: Clone + Send + 'static {
    /// How much longer the lock is certainly held without another renewal.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if the lock is not held any more.
    fn check(&self) -> Result<Duration, Error>;

    /// Waits until the lock is lost.
    fn lost(&self) -> impl Future<Output = Lost> + Send;
}

/// The view for work under a lock.
pub type ViewOf<L> = <<L as Lockable>::Guard as Deref>::Target;

/// Runs `work` under a lock, and drops the work when the lock is lost.
///
/// # Errors
///
/// As [`Lock::run`](crate::Lock::run).
pub async fn run<L: Lockable, T, F: Future<Output = T>>(
    lock: L,
    work: impl FnOnce(ViewOf<L>) -> F,
) -> Result<T, Error> {
    let limit = lock.limit();
    let guard = lock.within(limit).await?;
    let value = tokio::select! {
        biased;
        // The check says which lock was lost.
        _ = guard.lost() => return Err(guard.check().err().unwrap_or(Error::Closed)),
        value = work(guard.deref().clone()) => value,
    };
    end_work(guard).await?;
    Ok(value)
}

/// Releases a lock after work under it; an error says that it was not held to the end of the work.
pub(crate) async fn end_work(guard: impl Holding) -> Result<(), Error> {
    guard.check()?;
    match guard.release().await {
        // At the end of the work the client's clock said that the lock was held: the release's outcome does not matter.
        Err(Error::OutcomeUnknown { .. } | Error::Permission { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// The methods by which a [`Lockable`](crate::lockable::Lockable) is acquired: `acquiring!(Lock, Guard, View)`.
#[macro_export]
macro_rules! acquiring {
    ($lock:ident $(<$kind:ident>)?, $guard:ty, $view:ty) => {
        impl $(<$kind: $crate::Kind>)? $lock $(<$kind>)? {
            /// Asks for the lock once, without waiting for another owner.
            ///
            /// Dropping the future releases what it may have been granted.
            ///
            /// # Errors
            ///
            /// [`Error::Denied`] if another owner holds the lock; [`Error::Transport`] after a response timeout without a
            /// reply; never [`Error::Timeout`].
            pub fn try_acquire(
                &self,
            ) -> impl Future<Output = Result<$guard, $crate::Error>> + Send + use<$($kind)?> {
                $crate::lockable::Lockable::now(self.clone())
            }

            /// Acquires the lock, waiting without limit, or as long as the setting `wait` says.
            ///
            /// It also waits while a server is out of reach. Dropping the future loses the place in the queue and
            /// never leaves a lock behind.
            ///
            /// # Errors
            ///
            /// Every error that waiting cannot fix; [`Error::Timeout`] if you set a limit.
            pub fn acquire(&self) -> impl Future<Output = Result<$guard, $crate::Error>> + Send + use<$($kind)?> {
                $crate::lockable::Lockable::within(self.clone(), $crate::lockable::Lockable::limit(self))
            }

            /// Acquires the lock, waiting for at most `timeout`.
            ///
            /// # Errors
            ///
            /// As `acquire`; [`Error::Timeout`] after that time, with the reason if the server could not be asked
            /// ([`Error::is_unreachable`]).
            pub fn acquire_timeout(
                &self,
                timeout: std::time::Duration,
            ) -> impl Future<Output = Result<$guard, $crate::Error>> + Send + use<$($kind)?> {
                $crate::lockable::Lockable::within(self.clone(), Some(timeout))
            }

            /// Acquires the lock, runs `work`, and releases the lock; drops the work when the lock is lost.
            ///
            /// `Ok` means that the lock was held from the beginning of the work to its end.
            ///
            /// # Errors
            ///
            /// As `acquire`, and [`Error::LockLost`] if the work was dropped, or ended only after the loss.
            pub fn run<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, $crate::Error>> + use<$($kind,)? T, F, W>
            where
                F: Future<Output = T>,
                W: FnOnce($view) -> F,
            {
                $crate::lockable::run(self.clone(), work)
            }
        }

        impl $(<$kind: $crate::Kind>)? IntoFuture for $lock $(<$kind>)? {
            type Output = Result<$guard, $crate::Error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.acquire())
            }
        }
    };
}

/// The common part of guards: `holding!(Guard, View)`.
///
/// The guard has a view in its field `held` and a method `release`; the view has `check` and `lost`.
#[macro_export]
macro_rules! holding {
    ($guard:ident $(<$kind:ident>)?, $view:ty) => {
        impl $(<$kind: $crate::Kind>)? $guard $(<$kind>)? {
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

        impl $(<$kind: $crate::Kind>)? $crate::lockable::Holding for $guard $(<$kind>)? {
            async fn release(self) -> Result<(), $crate::Error> {
                // The method of the type itself comes before that of the trait.
                self.release().await
            }
        }

        impl $crate::lockable::View for $view {
            fn check(&self) -> Result<std::time::Duration, $crate::Error> {
                self.check()
            }

            async fn lost(&self) -> $crate::Lost {
                self.lost().await
            }
        }
    };
}

pub(crate) use {acquiring, holding};
