"""The public classes for threads, whose methods block."""

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
    """Base of guards, which are released by `release` or at the end of a `with` block."""

    _over: bool
    _drop: Callable[[], list[Promise[None]]]

    def release(self) -> None:
        """Ends this guard and releases its lock, or its locks for a `lock_all`. A lock with other guards stays held.

        Raises LockLost if a lock was lost or released before. Raises OutcomeUnknown if no answer arrives within
        `response_timeout`; the release then continues in the background until lease end.
        """
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
                # Ctrl-C and the like end the block after at most BRIEF, in which a healthy server answers.
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
        """An event that is set when the client notices that the lock is lost, and stays set."""
        self._lost = self._lost or self._one.flag(Flag())
        return self._lost

    def detach(self) -> float:
        """Ends this guard without a release, so that another process can `adopt` the lock with this guard's `owner`.

        Renews the lock once, and returns the seconds for which it certainly stays held. Raises Invalid if the hold has
        other guards, LockLost if the lock was lost before, OutcomeUnknown without an answer within `response_timeout`.
        """
        self._detach()
        self._one.released.result()
        return self._left()

    def reenter(self: G) -> G:
        """Re-enters the lock as the same owner, and returns a new guard. The lock is held until all guards have ended.

        Raises LockLost if the lock is no longer held, Unreachable if no server answers within `response_timeout`.
        """
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
        self.lost: threading.Event = lost  # set when the loss of one lock is noticed
        for one in self._ones:
            one.flag(lost)


class WriteGuard(Guard):
    __doc__ = BaseGuard.__doc__

    def downgrade(self) -> Guard:
        """Turns the write hold into a read hold and returns its guard. No other writer holds the lock in between.

        Ends this guard. Raises LockLost if the lock was lost before, and the errors of `try_acquire` and `release`.
        """
        read = Lock(self._lock._client, self._as_reader()).try_acquire()
        self.release()
        return read


class Acquires(Generic[T]):
    """Base of locks and groups of locks, acquired by `try_acquire` or for a `with` block."""

    acquire: Callable[..., T]
    _entered: list[tuple[int, T]]

    def try_acquire(self) -> T:
        """Acquires the lock, or all locks of a `lock_all`, and returns the guard. Does not wait for other owners.

        Raises Denied if another owner holds one of the locks, Unreachable if no server answers within
        `response_timeout`, or the error for the server's refusal.
        """
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
        """Waits for the lock, and returns its guard. The limit is `timeout` seconds, by default the lock's `wait`.

        With 0 this is `try_acquire`. Raises Timeout at the limit, Unreachable if this client cannot connect and has
        never reached a server, or the error for the server's refusal.
        """
        began = now()
        while isinstance(guard := self._ask(self._guard, timeout, began), Promise):
            guard.result()
        return guard._acquired()

    def adopt(self, owner: str | bytes) -> G:
        """Continues a hold that another process has detached, and returns its guard. Waits at most `response_timeout`.

        `owner` is that of the detached guard. Raises LockLost if this owner does not hold the lock, Invalid if this
        client uses the owner for the lock already.
        """
        return self._adopt(self._guard, owner)._acquired()

    def locked(self) -> bool:
        """Whether any owner holds the lock. Raises the errors of `info`."""
        return self.info().kind != "none"

    def info(self) -> Info:
        """Asks the server for the lock's holders and queue.

        Raises Unreachable if no server answers within `response_timeout`, or the error for the server's refusal.
        """
        return self._info().result()

    def force_release(self) -> bool:
        """Removes all holds of the lock. Returns False if the lock was free. Raises the errors of `info`.

        Holders notice the loss at their next renewal.
        """
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
        """Waits for all locks and returns a guard. The limit is `timeout` seconds, by default the `wait` of `lock_all`.

        With 0 this is `try_acquire`. Raises the errors of a single lock's `acquire`. After an error, none is held.
        """
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
        """Ends all waits, marks held locks as lost, and closes the connections.

        Guards that end within 0.25 s still release their locks. The call waits for the answers for at most `timeout`
        seconds, by default `response_timeout`. Other locks stay held until lease end or for their `session_grace`.
        """
        self._close(timeout).result()
        self._engine.join()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
