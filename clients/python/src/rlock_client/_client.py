"""The face for threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._clock import now
from ._errors import Error, LockLost
from ._faces import BRIEF, BaseClient, BaseGuard, BaseGuardAll, BaseLock, BaseLockAll, Seconds, leave
from ._promise import Flag, Promise
from ._wire import Info

T = TypeVar("T")
H = TypeVar("H", bound="Held")
G = TypeVar("G", bound="Guard")


class Held:
    """What is held until it is released, or its block ends."""

    _over: bool
    _drop: Callable[[], list[Promise[None]]]

    def release(self) -> None:
        """Raises LockLost if the lock was lost before, OutcomeUnknown if nobody can know."""
        errors: list[Error] = []
        for outcome in self._drop():
            try:
                outcome.result()
            except Error as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: not isinstance(error, LockLost))

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._over:
                return
            if kind is None or issubclass(kind, Exception):
                self.release()
            else:
                # Ctrl-C and the like end now. A server that is well answers in this time.
                for outcome in self._drop():
                    outcome.wait(BRIEF)
        except Exception:
            if kind is None:
                raise


class Guard(BaseGuard, Held):
    __doc__ = BaseGuard.__doc__
    _lost: Flag | None = None

    @property
    def lost(self) -> threading.Event:
        """Set as soon as others may hold the lock."""
        self._lost = self._lost or self._one.flag(Flag())
        return self._lost

    def detach(self) -> float:
        """Leaves the lock to another process, which adopts it by the name of its owner.

        Returns for how many seconds the lock is certainly held. Raises LockLost if it was lost before.
        """
        self._detach()
        self._one.released.result()
        return self._left()

    def reenter(self: G) -> G:
        """Another guard of the same hold. The lock is held until all of them are released."""
        return type(self)(self._lock, self._one)._acquired(self)

    def _acquired(self: G, entered: BaseGuard | None = None) -> G:
        try:
            if error := self._settled(self._begin(entered)):
                raise error
        except BaseException:
            self._end()
            raise
        return self


class GuardAll(BaseGuardAll, Held):
    __doc__ = BaseGuardAll.__doc__

    def __init__(self, guards: list[Guard]) -> None:
        super().__init__(guards)
        lost = Flag()
        self.lost: threading.Event = lost  # set as soon as others may hold one of the locks
        for one in self._ones:
            one.flag(lost)


class WriteGuard(Guard):
    __doc__ = BaseGuard.__doc__

    def downgrade(self) -> Guard:
        """Turns this guard into a reader's, without another writer in between."""
        read = Lock(self._lock._client, self._as_reader()).try_acquire()
        self.release()
        return read


class Acquires(Generic[T]):
    """A lock, or several: what is acquired at once, or for a block."""

    acquire: Callable[..., T]
    _entered: list[tuple[int, T]]

    def try_acquire(self) -> T:
        """Asks once. Raises Denied if another owner holds the lock, or one of several."""
        return self.acquire(0)

    def __enter__(self) -> T:
        guard = self.acquire()
        self._entered.append((threading.get_ident(), guard))
        return guard

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        leave(self._entered, threading.get_ident()).__exit__(kind, error, trace)


class AnyLock(BaseLock, Acquires[G]):
    _guard: type[G]

    def acquire(self, timeout: Seconds | None = None) -> G:
        """Waits for the lock, for at most `timeout`; 0 asks once, as `try_acquire` does."""
        began = now()
        while isinstance(guard := self._ask(self._guard, timeout, began), Promise):
            guard.result()
        return guard._acquired()

    def adopt(self, owner: str | bytes) -> G:
        """Continues a hold that another process has detached. Raises LockLost if the owner holds nothing."""
        return self._adopt(self._guard, owner)._acquired()

    def locked(self) -> bool:
        return self.info().kind != "none"

    def info(self) -> Info:
        """Holders and queue, as the server sees them."""
        return self._info().result()

    def force_release(self) -> bool:
        """Takes the lock from its holders, who learn of it at their next renewal. False: nobody held it."""
        return self._force_release().result()


class Lock(AnyLock[Guard]):
    __doc__ = BaseLock.__doc__
    _guard = Guard


class WriteLock(AnyLock[WriteGuard]):
    __doc__ = BaseLock.__doc__
    _guard = WriteGuard


class LockAll(BaseLockAll, Acquires[GuardAll]):
    __doc__ = BaseLockAll.__doc__

    def acquire(self, timeout: Seconds | None = None) -> GuardAll:
        """Waits for all locks, for at most `timeout`; 0 asks once, as `try_acquire` does."""
        with contextlib.closing(self._steps(Guard, timeout)) as steps:
            try:
                while True:
                    promise, within = next(steps)
                    promise.wait(within)
            except StopIteration as end:
                return GuardAll(end.value)


class Client(BaseClient[Lock, WriteLock, LockAll]):
    __doc__ = BaseClient.__doc__
    _lock, _write_lock, _lock_all = Lock, WriteLock, LockAll

    def close(self, timeout: Seconds | None = None) -> None:
        """Ends all waits, marks held locks as lost, and sends releases for at most a response timeout."""
        self._close(timeout).result()
        self._engine.join()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
