"""The public classes for asyncio. Renewals run in the engine's thread, where a busy event loop cannot delay them."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ._clock import now
from ._engine import Acquisition
from ._errors import Error, LockLost
from ._faces import BRIEF, BaseClient, BaseGuard, BaseGuardAll, BaseLock, BaseLockAll, Seconds, leave
from ._promise import Promise
from ._wire import Info

T = TypeVar("T")
H = TypeVar("H", bound="AsyncHeld")
G = TypeVar("G", bound="AsyncGuard")


async def settled(
    promise: Promise[Any], within: float | None = None, unheard: Callable[[], object] = lambda: None
) -> None:
    """Waits until the promise is settled, for at most `within` seconds.

    If this loop is closed when the promise is settled, the engine's thread calls `unheard`.
    """
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def over() -> None:
        if not done.done():
            done.set_result(None)

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(over)
        except RuntimeError:
            unheard()

    promise.then(tell)
    timer = loop.call_later(within, over) if within is not None else None
    await done
    if timer is not None:
        timer.cancel()


async def outcome(promise: Promise[T]) -> T:
    await settled(promise)
    return promise.result()


class AsyncHeld:
    """Base of guards, which are released by `release` or at the end of an `async with` block."""

    _over: bool
    _ones: list[Acquisition]
    _drop: Callable[[], list[Promise[None]]]

    def _watch(self) -> None:
        self.lost = asyncio.Event()  # set when the client notices a loss
        self._task: asyncio.Task[Any] | None = None
        self._requests = 0  # the number of requests to cancel the task when it entered the block
        self._cancelled = False
        loop, me = asyncio.get_running_loop(), weakref.ref(self)

        def tell() -> None:
            # A closed loop raises RuntimeError, and nothing waits in it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: held._lose() if (held := me()) else None)

        for one in self._ones:
            one.on_lost[id(self)] = tell
        if self._loss() is not None:
            tell()

    def _loss(self) -> LockLost | None:
        return next((one.loss("expired") for one in self._ones if one.machine.why), None)

    def _lose(self) -> None:
        self.lost.set()
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    async def release(self) -> None:
        """Ends this guard and releases its lock, or its locks for a `lock_all`. A lock with other guards stays held.

        Raises LockLost if a lock was lost or released before. Raises OutcomeUnknown if no answer arrives within
        `response_timeout`; the release then continues in the background until lease end.
        """
        errors: list[Error] = []
        for promise in self._drop():
            try:
                await outcome(promise)
            except Error as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: not isinstance(error, LockLost))

    async def __aenter__(self: H) -> H:
        self._task = asyncio.current_task()
        self._requests = requests(self._task)
        if self._loss() is not None:
            self._lose()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Releases the lock. A cancelled task waits for this for at most BRIEF; the release continues without it."""
        task, self._task = self._task, None
        interrupted, failure = kind is asyncio.CancelledError, None
        try:
            if not self._over and interrupted:
                # A healthy server answers within BRIEF, so a process that ends after this has released its lock.
                await asyncio.wait_for(self.release(), BRIEF)
            elif not self._over:
                await self.release()
        except asyncio.CancelledError:
            interrupted = True
        except asyncio.TimeoutError:
            pass
        except Exception as reason:
            failure = reason
        if self._cancelled and task is not None:
            if hasattr(task, "uncancel"):
                task.uncancel()
            # Only further requests show that other code cancels the task too.
            interrupted = interrupted and requests(task) > self._requests
            if not interrupted and (kind is None or kind is asyncio.CancelledError):
                raise failure or self._loss() or self._ones[0].loss("expired") from None
        if kind is None and interrupted:
            raise asyncio.CancelledError
        if kind is None and failure is not None:
            raise failure


class AsyncGuard(BaseGuard, AsyncHeld):
    __doc__ = BaseGuard.__doc__

    def __init__(self, lock: BaseLock, one: Acquisition) -> None:
        super().__init__(lock, one)
        self._watch()

    async def detach(self) -> float:
        """Ends this guard without a release, so that another process can `adopt` the lock with this guard's `owner`.

        Renews the lock once, and returns the seconds for which it certainly stays held. Raises Invalid if the hold has
        other guards, LockLost if the lock was lost before, OutcomeUnknown without an answer within `response_timeout`.
        """
        self._detach()
        await outcome(self._one.released)
        return self._left()

    async def reenter(self: G) -> G:
        """Re-enters the lock as the same owner, and returns a new guard. The lock is held until all guards have ended.

        Raises LockLost if the lock is no longer held, Unreachable if no server answers within `response_timeout`.
        """
        return await type(self)(self._lock, self._one)._acquired(self)

    async def _acquired(self: G, entered: BaseGuard | None = None) -> G:
        # The engine's promise must not keep this guard alive in a loop that has been closed.
        me = weakref.ref(self)
        try:
            promise = self._begin(entered)
            await settled(promise, unheard=lambda: (guard := me()) and guard._end())
            if error := self._settled(promise):
                raise error
        except BaseException:
            self._end()
            raise
        return self


class AsyncGuardAll(BaseGuardAll, AsyncHeld):
    __doc__ = BaseGuardAll.__doc__

    def __init__(self, guards: list[AsyncGuard]) -> None:
        super().__init__(guards)
        self._watch()


def requests(task: asyncio.Task[Any] | None) -> int:
    """The number of requests to cancel the task that were not undone. Always 0 in Python 3.10, which counts none."""
    return task.cancelling() if task is not None and hasattr(task, "cancelling") else 0


class AsyncWriteGuard(AsyncGuard):
    __doc__ = BaseGuard.__doc__

    async def downgrade(self) -> AsyncGuard:
        """Turns the write hold into a read hold and returns its guard. No other writer holds the lock in between.

        Ends this guard. Raises LockLost if the lock was lost before, and the errors of `try_acquire` and `release`.
        """
        read = await AsyncLock(self._lock._client, self._as_reader()).try_acquire()
        await self.release()
        return read


class AsyncAcquires(Generic[H]):
    """Base of locks and groups of locks, acquired by `try_acquire` or for an `async with` block."""

    acquire: Callable[..., Awaitable[H]]
    _entered: list[tuple[int, H]]

    async def try_acquire(self) -> H:
        """Acquires the lock, or all locks of a `lock_all`, and returns the guard. Does not wait for other owners.

        Raises Denied if another owner holds one of the locks, Unreachable if no server answers within
        `response_timeout`, or the error for the server's refusal.
        """
        return await self.acquire(0)

    async def __aenter__(self) -> H:
        guard = await self.acquire()
        self._entered.append((id(asyncio.current_task()), guard))
        return await guard.__aenter__()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await leave(self._entered, id(asyncio.current_task())).__aexit__(kind, error, trace)


class AnyAsyncLock(BaseLock, AsyncAcquires[G]):
    _guard: type[G]

    async def acquire(self, timeout: Seconds | None = None) -> G:
        """Waits for the lock, and returns its guard. The limit is `timeout` seconds, by default the lock's `wait`.

        With 0 this is `try_acquire`. Raises Timeout at the limit, Unreachable if this client cannot connect and has
        never reached a server, or the error for the server's refusal.
        """
        began = now()
        while isinstance(guard := self._ask(self._guard, timeout, began), Promise):
            await outcome(guard)
        return await guard._acquired()

    async def adopt(self, owner: str | bytes) -> G:
        """Continues a hold that another process has detached, and returns its guard. Waits at most `response_timeout`.

        `owner` is that of the detached guard. Raises LockLost if this owner does not hold the lock, Invalid if this
        client uses the owner for the lock already.
        """
        return await self._adopt(self._guard, owner)._acquired()

    async def locked(self) -> bool:
        """Whether any owner holds the lock. Raises the errors of `info`."""
        return (await self.info()).kind != "none"

    async def info(self) -> Info:
        """Asks the server for the lock's holders and queue.

        Raises Unreachable if no server answers within `response_timeout`, or the error for the server's refusal.
        """
        return await outcome(self._info())

    async def force_release(self) -> bool:
        """Removes all holds of the lock. Returns False if the lock was free. Raises the errors of `info`.

        Holders notice the loss at their next renewal.
        """
        return await outcome(self._force_release())


class AsyncLock(AnyAsyncLock[AsyncGuard]):
    __doc__ = BaseLock.__doc__
    _guard = AsyncGuard


class AsyncWriteLock(AnyAsyncLock[AsyncWriteGuard]):
    __doc__ = BaseLock.__doc__
    _guard = AsyncWriteGuard


class AsyncLockAll(BaseLockAll, AsyncAcquires[AsyncGuardAll]):
    __doc__ = BaseLockAll.__doc__

    async def acquire(self, timeout: Seconds | None = None) -> AsyncGuardAll:
        """Waits for all locks and returns a guard. The limit is `timeout` seconds, by default the `wait` of `lock_all`.

        With 0 this is `try_acquire`. Raises the errors of a single lock's `acquire`. After an error, none is held.
        """
        with contextlib.closing(self._steps(AsyncGuard, timeout)) as steps:
            try:
                while True:
                    promise, within = next(steps)
                    await settled(promise, within)
            except StopIteration as end:
                return AsyncGuardAll(end.value)


class AsyncClient(BaseClient[AsyncLock, AsyncWriteLock, AsyncLockAll]):
    __doc__ = BaseClient.__doc__
    _lock, _write_lock, _lock_all = AsyncLock, AsyncWriteLock, AsyncLockAll

    async def close(self, timeout: Seconds | None = None) -> None:
        """Ends all waits, marks held locks as lost, and closes the connections.

        Guards that end within 0.25 s still release their locks. The call waits for the answers for at most `timeout`
        seconds, by default `response_timeout`. Other locks stay held until lease end or for their `session_grace`.
        """
        await outcome(self._close(timeout))
        self._engine.join()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
