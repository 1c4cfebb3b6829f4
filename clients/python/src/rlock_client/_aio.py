"""The face for asyncio. The links live in the engine's thread, so that a busy loop does not stop the renewals."""

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
    """Waits for the engine, at most so long. Where this loop has been closed, `unheard` is called in its thread."""
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
    """What is held until it is released, or its block ends."""

    _over: bool
    _ones: list[Acquisition]
    _drop: Callable[[], list[Promise[None]]]

    def _watch(self) -> None:
        self.lost = asyncio.Event()  # set as soon as others may hold the lock
        self._task: asyncio.Task[Any] | None = None
        self._requests = 0  # to cancel the task, before it entered the block
        self._cancelled = False
        loop, me = asyncio.get_running_loop(), weakref.ref(self)

        def tell() -> None:
            # Unless the loop has been closed.
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
        """Raises LockLost if the lock was lost before, OutcomeUnknown if nobody can know."""
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
        """Releases the lock. A task that is cancelled ends now, and the release goes on without it."""
        task, self._task = self._task, None
        interrupted, failure = kind is asyncio.CancelledError, None
        try:
            if not self._over and interrupted:
                # A server that is well answers in this time, and a process that ends now has released its lock.
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
            # Else somebody else wants the task to end.
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
        """Leaves the lock to another process, which adopts it by the name of its owner.

        Returns for how many seconds the lock is certainly held. Raises LockLost if it was lost before.
        """
        self._detach()
        await outcome(self._one.released)
        return self._left()

    async def reenter(self: G) -> G:
        """Another guard of the same hold. The lock is held until all of them are released."""
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
    """How many requests to cancel the task are not taken back; Python 3.10 does not count them."""
    return task.cancelling() if task is not None and hasattr(task, "cancelling") else 0


class AsyncWriteGuard(AsyncGuard):
    __doc__ = BaseGuard.__doc__

    async def downgrade(self) -> AsyncGuard:
        """Turns this guard into a reader's, without another writer in between."""
        read = await AsyncLock(self._lock._client, self._as_reader()).try_acquire()
        await self.release()
        return read


class AsyncAcquires(Generic[H]):
    """A lock, or several: what is acquired at once, or for a block."""

    acquire: Callable[..., Awaitable[H]]
    _entered: list[tuple[int, H]]

    async def try_acquire(self) -> H:
        """Asks once. Raises Denied if another owner holds the lock, or one of several."""
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
        """Waits for the lock, for at most `timeout`; 0 asks once, as `try_acquire` does."""
        began = now()
        while isinstance(guard := self._ask(self._guard, timeout, began), Promise):
            await outcome(guard)
        return await guard._acquired()

    async def adopt(self, owner: str | bytes) -> G:
        """Continues a hold that another process has detached. Raises LockLost if the owner holds nothing."""
        return await self._adopt(self._guard, owner)._acquired()

    async def locked(self) -> bool:
        return (await self.info()).kind != "none"

    async def info(self) -> Info:
        """Holders and queue, as the server sees them."""
        return await outcome(self._info())

    async def force_release(self) -> bool:
        """Takes the lock from its holders, who learn of it at their next renewal. False: nobody held it."""
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
        """Waits for all locks, for at most `timeout`; 0 asks once, as `try_acquire` does."""
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
        """Ends all waits, marks held locks as lost, and sends releases for at most a response timeout."""
        await outcome(self._close(timeout))
        self._engine.join()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
