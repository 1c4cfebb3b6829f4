"""What the two faces share: the settings of clients, the handles of locks, the guards."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from . import _endpoint
from ._acquisition import Acquisition
from ._engine import Engine
from ._errors import Invalid, LockLost, Unsupported
from ._events import Event, Hook
from ._machine import MS
from ._promise import Promise
from ._wire import LONGEST_MS, Spec

Seconds = float | timedelta
L = TypeVar("L", bound="BaseLock")
W = TypeVar("W", bound="BaseLock")


def nanoseconds(what: str, time: Seconds, least_ms: int = 0) -> int:
    value = time.total_seconds() if isinstance(time, timedelta) else time
    if not isinstance(value, (int, float)) or not least_ms / 1000 <= value <= LONGEST_MS / 1000:
        raise Invalid(f"{what} is a number of seconds from {least_ms / 1000:g} to {LONGEST_MS // 1000}, not {time!r}")
    return round(value * 1e9)


class BaseLock:
    """A lock by its name. It does no I/O until it is acquired; each acquisition is another owner."""

    def __init__(self, client: BaseClient[Any, Any], spec: Spec, wait: Seconds | None) -> None:
        # The client lives as long as its handles and guards.
        self._client, self._spec, self._engine, self.name = client, spec, client._engine, spec.key
        self._limit = client._wait if wait is None else nanoseconds("a wait", wait)
        self._entered: list[tuple[int, Any]] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.lock}>"

    def _enter(self, who: int, guard: Any) -> Any:
        self._entered.append((who, guard))
        return guard

    def _exit(self, who: int) -> Any:
        """The last guard that this thread or task entered by this handle."""
        entry = next((entry for entry in reversed(self._entered) if entry[0] == who), self._entered[-1])
        self._entered.remove(entry)
        return entry[1]

    def _ask(self, timeout: Seconds | None) -> Acquisition:
        wait = self._limit if timeout is None else nanoseconds("a timeout", timeout)
        if wait != 0 and self._engine.endpoint.cluster:
            raise Unsupported("this package does not wait in a cluster; use try_acquire, or a server without a cluster")
        return self._engine.acquire(self._spec, wait)

    def _command(self, word: bytes) -> Any:
        return self._engine.call(self._engine.ask, self.name, word, self.name)


class ReadWriteLock(Generic[L, W]):
    """Many readers hold it together, or one writer alone."""

    def __init__(self, read: Callable[[], L], write: Callable[[bool], W]) -> None:
        self._read, self._write = read, write

    def read(self) -> L:
        return self._read()

    def write(self, *, fenced: bool = False) -> W:
        return self._write(fenced)


class BaseClient(Generic[L, W]):
    """One per process. `server` is a URL, or a client of redis-py, whose settings are taken and not its connections.

    `name`: for owners and connections; the program's by default. `lease`: how long a lock outlives its process; it is
    renewed every third of it. `wait`: the limit of `acquire`, none by default. `response_timeout`: how long the server
    may take to answer; a sixth of the lease by default, at most 5 s. `on_event`: receives every `Event`, in the thread
    that renews the locks: it must be quick, and must not use locks.
    """

    _lock: type[L]
    _write_lock: type[W]

    def __init__(
        self,
        server: Any,
        *,
        name: str | None = None,
        lease: Seconds = 30.0,
        wait: Seconds | None = None,
        response_timeout: Seconds | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self._lease = nanoseconds("a lease", lease, 1)
        self._wait = None if wait is None else nanoseconds("a wait", wait)
        response = min(5_000 * MS, max(50 * MS, self._lease // 6))
        if response_timeout is not None:
            response = nanoseconds("a response timeout", response_timeout, 1)
        self._engine = Engine(_endpoint.of(server), name, response, Hook(on_event))
        weakref.finalize(self, self._engine.close, 0)

    @property
    def identity(self) -> str:
        """The owners of this client begin with it."""
        return f"{self._engine.called}:{self._engine.random}"

    def lock(
        self,
        name: str | bytes,
        *,
        lease: Seconds | None = None,
        wait: Seconds | None = None,
        renew: bool = True,
        fair: bool = False,
        fenced: bool = False,
    ) -> L:
        """`fair`: one order with Redisson's fair waiters. `fenced`: guards have a token that grows with each holder."""
        return self._lock(self, self._spec(name, lease, renew=renew, fair=fair, fenced=fenced), wait)

    def read_write_lock(
        self, name: str | bytes, *, lease: Seconds | None = None, wait: Seconds | None = None, renew: bool = True
    ) -> ReadWriteLock[L, W]:
        spec = self._spec(name, lease, renew=renew)
        return ReadWriteLock(
            lambda: self._lock(self, replace(spec, mode=b"READ"), wait),
            lambda fenced: self._write_lock(self, replace(spec, mode=b"WRITE", fenced=fenced), wait),
        )

    def semaphore(
        self,
        name: str | bytes,
        permits: int,
        *,
        lease: Seconds | None = None,
        wait: Seconds | None = None,
        renew: bool = True,
    ) -> L:
        """At most `permits` owners hold it at once. Use the same number everywhere: the server does not store it."""
        if not isinstance(permits, int) or not 1 <= permits < 2**31:
            raise Invalid(f"a semaphore has from 1 to {2**31 - 1} permits, not {permits!r}")
        return self._lock(self, self._spec(name, lease, renew=renew, mode=b"PERMIT", permits=permits), wait)

    def _spec(self, lock: str | bytes, lease: Seconds | None, **flags: Any) -> Spec:
        if not isinstance(lock, (str, bytes)) or not lock:
            raise Invalid(f"the name of a lock is a text or bytes, not {lock!r}")
        time = self._lease if lease is None else nanoseconds("a lease", lease, 1)
        return Spec(lock.encode() if isinstance(lock, str) else lock, time // MS * MS, **flags)


class BaseGuard:
    """A hold of a lock, renewed until it is released. Keep a reference to it: without one, the lock is released."""

    _over = True

    def __init__(self, lock: BaseLock, one: Acquisition, token: int = 0, number: int = 0) -> None:
        self._lock, self._one, self._engine, self._number = lock, one, lock._engine, number
        one.guards[number] = weakref.ref(self)
        self.token = token  # the fencing token; 0 without `fenced`
        self.name, self.owner = one.spec.key, one.owner
        self._over = False

    def check(self) -> float:
        """The seconds left by the local clock. Raises LockLost if others may hold the lock. It sends nothing."""
        if self._over:
            raise LockLost(lock=self._one.spec.lock, why="released")
        return self._one.check()

    def _drop(self) -> bool:
        """Begins the release; whether there is an outcome to wait for."""
        if self._over:
            raise LockLost(lock=self._one.spec.lock, why="released")
        last = self._end()
        if self._one.why is not None:
            raise LockLost(lock=self._one.spec.lock, why=self._one.why)
        return last

    def _end(self) -> bool:
        if self._over:
            return False
        # A signal may end this method at any point: then it is called again, at the latest by the finalizer.
        last = self._engine.drop(self._one, self._number)
        self._over = True
        return last

    def _forget(self, promise: Promise[tuple[int, int]]) -> None:
        """Ends a re-entry that nobody waited for."""
        with contextlib.suppress(Exception):
            self._engine.drop(self._one, promise.result()[1])

    def _as_reader(self) -> Acquisition:
        self.check()
        return self._engine.acquire(replace(self._one.spec, mode=b"READ", fenced=False), 0, self._one.owner)

    def __del__(self) -> None:
        self._end()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._one.spec.lock}>"
