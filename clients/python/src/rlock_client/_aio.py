"""The face for asyncio. The links live in the engine's thread, so that a busy loop does not stop the renewals."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._clock import now
from ._engine import Acquisition
from ._faces import BRIEF, BaseClient, BaseGuard, BaseLock, Seconds
from ._promise import Promise
from ._wire import Info

T = TypeVar("T")
G = TypeVar("G", bound="AsyncGuard")


async def outcome(promise: Promise[T], unheard: Callable[[], object] = lambda: None) -> T:
    """Waits for the engine. `unheard` is called in its thread where this loop has been closed."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))
        except RuntimeError:
            unheard()

    promise.then(tell)
    await done
    return promise.result()


class AsyncGuard(BaseGuard):
    __doc__ = BaseGuard.__doc__

    def __init__(self, lock: BaseLock, one: Acquisition) -> None:
        super().__init__(lock, one)
        self.lost = asyncio.Event()  # set as soon as others may hold the lock
        self._task: asyncio.Task[Any] | None = None
        self._requests = 0  # to cancel the task, before it entered the block
        self._cancelled = False
        loop, me = asyncio.get_running_loop(), weakref.ref(self)

        def tell() -> None:
            # Unless the loop has been closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: guard._lose() if (guard := me()) else None)

        one.on_lost[id(self)] = tell
        if one.lost.is_set():
            tell()

    def _lose(self) -> None:
        self.lost.set()
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    async def release(self) -> None:
        """Raises LockLost if the lock was lost before, OutcomeUnknown if nobody can know."""
        if self._drop():
            await outcome(self._one.released)

    async def reenter(self: G) -> G:
        """Another guard of the same hold. The lock is held until all of them are released."""
        return await type(self)(self._lock, self._one)._acquired(self)

    async def __aenter__(self: G) -> G:
        self._task = asyncio.current_task()
        self._requests = requests(self._task)
        if self._one.lost.is_set():
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
                raise failure or self._one.loss("expired") from None
        if kind is None and interrupted:
            raise asyncio.CancelledError
        if kind is None and failure is not None:
            raise failure

    async def _acquired(self: G, entered: BaseGuard | None = None) -> G:
        # The engine's promise must not keep this guard alive in a loop that has been closed.
        me = weakref.ref(self)
        try:
            self.token = await outcome(self._begin(entered), lambda: (guard := me()) and guard._end())
        except BaseException:
            self._end()
            raise
        return self


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


class AnyAsyncLock(BaseLock, Generic[G]):
    _guard: type[G]

    async def acquire(self, timeout: Seconds | None = None) -> G:
        """Waits for the lock, for at most `timeout`; 0 asks once, as `try_acquire` does."""
        began = now()
        while isinstance(guard := self._ask(self._guard, timeout, began), Promise):
            await outcome(guard)
        return await guard._acquired()

    async def try_acquire(self) -> G:
        """Asks once. Raises Denied if another owner holds the lock."""
        return await self.acquire(0)

    async def locked(self) -> bool:
        return (await self.info()).kind != "none"

    async def info(self) -> Info:
        """Holders and queue, as the server sees them."""
        return await outcome(self._info())

    async def force_release(self) -> bool:
        """Takes the lock from its holders, who learn of it at their next renewal. False: nobody held it."""
        return await outcome(self._force_release())

    async def __aenter__(self) -> G:
        guard = await self.acquire()
        self._entered.append((id(asyncio.current_task()), guard))
        return await guard.__aenter__()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self._exit(id(asyncio.current_task())).__aexit__(kind, error, trace)


class AsyncLock(AnyAsyncLock[AsyncGuard]):
    __doc__ = BaseLock.__doc__
    _guard = AsyncGuard


class AsyncWriteLock(AnyAsyncLock[AsyncWriteGuard]):
    __doc__ = BaseLock.__doc__
    _guard = AsyncWriteGuard


class AsyncClient(BaseClient[AsyncLock, AsyncWriteLock]):
    __doc__ = BaseClient.__doc__
    _lock, _write_lock = AsyncLock, AsyncWriteLock

    async def close(self, timeout: Seconds | None = None) -> None:
        """Ends all waits, marks held locks as lost, and sends releases for at most a response timeout."""
        await outcome(self._close(timeout))
        self._engine.join()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
