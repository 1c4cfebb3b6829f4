"""The face for threads."""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

from ._clock import now
from ._faces import BRIEF, BaseClient, BaseGuard, BaseLock, Seconds
from ._promise import Promise
from ._wire import Info

G = TypeVar("G", bound="Guard")


class Guard(BaseGuard):
    __doc__ = BaseGuard.__doc__

    @property
    def lost(self) -> threading.Event:
        """Set as soon as others may hold the lock."""
        return self._one.lost

    def release(self) -> None:
        """Raises LockLost if the lock was lost before, OutcomeUnknown if nobody can know."""
        if self._drop():
            self._one.released.result()

    def reenter(self: G) -> G:
        """Another guard of the same hold. The lock is held until all of them are released."""
        return type(self)(self._lock, self._one)._acquired(self)

    def __enter__(self: G) -> G:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._over:
                return
            if kind is None or issubclass(kind, Exception):
                self.release()
            elif self._drop():
                # Ctrl-C and the like end now. A server that is well answers in this time.
                self._one.released.wait(BRIEF)
        except Exception:
            if kind is None:
                raise

    def _acquired(self: G, entered: BaseGuard | None = None) -> G:
        try:
            self.token = self._begin(entered).result()
        except BaseException:
            self._end()
            raise
        return self


class WriteGuard(Guard):
    __doc__ = BaseGuard.__doc__

    def downgrade(self) -> Guard:
        """Turns this guard into a reader's, without another writer in between."""
        read = Lock(self._lock._client, self._as_reader()).try_acquire()
        self.release()
        return read


class AnyLock(BaseLock, Generic[G]):
    _guard: type[G]

    def acquire(self, timeout: Seconds | None = None) -> G:
        """Waits for the lock, for at most `timeout`; 0 asks once, as `try_acquire` does."""
        began = now()
        while isinstance(guard := self._ask(self._guard, timeout, began), Promise):
            guard.result()
        return guard._acquired()

    def try_acquire(self) -> G:
        """Asks once. Raises Denied if another owner holds the lock."""
        return self.acquire(0)

    def locked(self) -> bool:
        return self.info().kind != "none"

    def info(self) -> Info:
        """Holders and queue, as the server sees them."""
        return self._info().result()

    def force_release(self) -> bool:
        """Takes the lock from its holders, who learn of it at their next renewal. False: nobody held it."""
        return self._force_release().result()

    def __enter__(self) -> G:
        guard = self.acquire()
        self._entered.append((threading.get_ident(), guard))
        return guard

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._exit(threading.get_ident()).__exit__(kind, error, trace)


class Lock(AnyLock[Guard]):
    __doc__ = BaseLock.__doc__
    _guard = Guard


class WriteLock(AnyLock[WriteGuard]):
    __doc__ = BaseLock.__doc__
    _guard = WriteGuard


class Client(BaseClient[Lock, WriteLock]):
    __doc__ = BaseClient.__doc__
    _lock, _write_lock = Lock, WriteLock

    def close(self, timeout: Seconds | None = None) -> None:
        """Ends all waits, marks held locks as lost, and sends releases for at most a response timeout."""
        self._close(timeout).result()
        self._engine.join()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
