//! The kinds of locks, as types: a method that a kind lacks cannot be called.

/// A kind of lock: [`Plain`], [`Read`], [`Write`], [`Permit`] or [`Any`].
///
/// Impossible requests do not compile: the server gives readers no fencing tokens, Redisson has no fair read/write
/// locks, and only a writer can become a reader.
///
/// ```compile_fail
/// fn fenced(lock: rlock_client::ReadWriteLock) {
///     lock.read().fenced();
/// }
/// ```
///
/// ```compile_fail
/// fn fair(lock: rlock_client::ReadWriteLock) {
///     lock.write().fair();
/// }
/// ```
///
/// ```compile_fail
/// fn fenced(semaphore: rlock_client::Lock<rlock_client::Permit>) {
///     semaphore.fenced();
/// }
/// ```
///
/// ```compile_fail
/// async fn downgraded(guard: rlock_client::Guard) {
///     guard.downgrade().await;
/// }
/// ```
pub trait Kind: Sealed + 'static {}

/// A kind whose holder is alone, and so can have a fencing token: [`Plain`] or [`Write`].
pub trait Exclusive: Kind {}

pub trait Sealed {}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}
        impl Kind for $kind {}
    )*};
}

kinds! {
    /// One holder at a time; made by [`Client::lock`](crate::Client::lock).
    Plain
    /// Readers hold it together; made by [`ReadWriteLock::read`](crate::ReadWriteLock::read).
    Read
    /// One writer holds it alone; made by [`ReadWriteLock::write`](crate::ReadWriteLock::write).
    Write
    /// As many holders at a time as there are permits; made by [`Client::semaphore`](crate::Client::semaphore).
    Permit
    /// A lock of any kind, for code that chooses the kind at run time; made by [`Lock::any`](crate::Lock::any).
    Any
}

impl Exclusive for Plain {}
impl Exclusive for Write {}
