"""The face for threads."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Generic, TypeVar

from ._faces import BaseClient, BaseGuard, BaseLock, Seconds
from ._wire import Info, info

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
        self.check()
        return type(self)(self._lock, self._one, self._engine.call(self._engine.reenter, self._one).result())

    def __enter__(self: G) -> G:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._over:
                self.release()
        except Exception:
            if kind is None:
                raise

    def _acquired(self: G) -> G:
        try:
            self.token = self._one.acquired.result()
        except BaseException:
            self._end()
            raise
        return self


class WriteGuard(Guard):
    __doc__ = BaseGuard.__doc__

    def downgrade(self) -> Guard:
        """Turns this guard into a reader's, without another writer in between."""
        self.check()
        read = Guard(self._lock, self._as_reader())._acquired()
        self.release()
        return read


class AnyLock(BaseLock, Generic[G]):
    _guard: type[G]

    def acquire(self, timeout: Seconds | None = None) -> G:
        """Waits for the lock, for at most `timeout`; 0 asks once, as `try_acquire` does."""
        return self._guard(self, self._ask(timeout))._acquired()

    def try_acquire(self) -> G:
        """Asks once. Raises Denied if another owner holds the lock."""
        return self.acquire(0)

    def locked(self) -> bool:
        return self.info().locked

    def info(self) -> Info:
        """Holders and queue, as the server sees them."""
        return info(self._engine.call(self._engine.ask, self.name, b"RLOCK.INFO", self.name).result()[0])

    def force_release(self) -> bool:
        """Takes the lock from its holders, who learn of it at their next renewal. False: nobody held it."""
        reply = self._engine.call(self._engine.ask, self.name, b"RLOCK.FORCERELEASE", self.name).result()
        return bool(reply[0] == 1)

    def __enter__(self) -> G:
        return self._enter(threading.get_ident(), self.acquire())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(threading.get_ident()).__exit__(kind, error, trace)


class Lock(AnyLock[Guard]):
    __doc__ = BaseLock.__doc__
    _guard = Guard


class WriteLock(AnyLock[WriteGuard]):
    __doc__ = BaseLock.__doc__
    _guard = WriteGuard


class Client(BaseClient):
    __doc__ = BaseClient.__doc__

    def lock(
        self,
        name: str | bytes,
        *,
        lease: Seconds | None = None,
        wait: Seconds | None = None,
        renew: bool = True,
        fair: bool = False,
        fenced: bool = False,
    ) -> Lock:
        """`fair`: one order with Redisson's fair waiters. `fenced`: guards have a token that grows with each holder."""
        return Lock(self, self._spec(name, lease, renew=renew, fair=fair, fenced=fenced), wait)

    def read_write_lock(
        self, name: str | bytes, *, lease: Seconds | None = None, wait: Seconds | None = None, renew: bool = True
    ) -> ReadWriteLock:
        return ReadWriteLock(self, name, lease, wait, renew)

    def close(self, timeout: Seconds = 5.0) -> None:
        """Ends all waits, marks held locks as lost, and sends the releases under way for at most this time."""
        self._close(timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReadWriteLock:
    """Many readers hold it together, or one writer alone."""

    def __init__(
        self, client: Client, name: str | bytes, lease: Seconds | None, wait: Seconds | None, renew: bool
    ) -> None:
        self._client, self._name, self._lease, self._wait, self._renew = client, name, lease, wait, renew

    def read(self) -> Lock:
        spec = self._client._spec(self._name, self._lease, b"READ", renew=self._renew)
        return Lock(self._client, spec, self._wait)

    def write(self, *, fenced: bool = False) -> WriteLock:
        spec = self._client._spec(self._name, self._lease, b"WRITE", renew=self._renew, fenced=fenced)
        return WriteLock(self._client, spec, self._wait)
