"""What the two faces share: the settings of clients, the handles of locks, the guards."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from . import _endpoint
from ._engine import Acquisition, Engine
from ._errors import Invalid, LockLost, Unsupported
from ._events import Event, Hook
from ._machine import MS
from ._wire import LONGEST_MS, Spec

Seconds = float | timedelta


def nanoseconds(what: str, time: Seconds, least_ms: int = 0) -> int:
    value = time.total_seconds() if isinstance(time, timedelta) else time
    if not isinstance(value, (int, float)) or not least_ms / 1000 <= value <= LONGEST_MS / 1000:
        raise Invalid(f"{what} is a number of seconds from {least_ms / 1000:g} to {LONGEST_MS // 1000}, not {time!r}")
    return round(value * 1e9)


class BaseClient:
    """One per process. `server` is a URL, or a client of redis-py, whose settings are taken and not its connections.

    `name`: for owners and connections; the program's by default. `lease`: how long a lock outlives its process; it is
    renewed every third of it. `wait`: the limit of `acquire`, none by default. `response_timeout`: how long the server may
    take to answer; a sixth of the lease by default, at most 5 s. `on_event`: receives every `Event`, in the thread that
    renews the locks: it must be quick, and must not use locks.
    """

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

    def _close(self, timeout: Seconds) -> None:
        self._engine.close(nanoseconds("a timeout", timeout))

    def _spec(self, lock: str | bytes, lease: Seconds | None, mode: bytes = b"", **flags: bool) -> Spec:
        if not isinstance(lock, (str, bytes)) or not lock:
            raise Invalid(f"the name of a lock is a text or bytes, not {lock!r}")
        time = self._lease if lease is None else nanoseconds("a lease", lease, 1)
        return Spec(lock.encode() if isinstance(lock, str) else lock, time // MS * MS, mode, **flags)


class BaseLock:
    """A lock by its name. It does no I/O until it is acquired; each acquisition is another owner."""

    def __init__(self, client: BaseClient, spec: Spec, wait: Seconds | None) -> None:
        # The client lives as long as its handles and guards.
        self._client, self._spec, self._engine = client, spec, client._engine
        self._limit = client._wait if wait is None else nanoseconds("a wait", wait)
        self._entered: list[tuple[int, Any]] = []

    @property
    def name(self) -> bytes:
        return self._spec.key

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


class BaseGuard:
    """A hold of a lock, renewed until it is released. Keep a reference to it: without one, the lock is released."""

    _over = True

    def __init__(self, lock: Any, one: Acquisition, token: int = 0) -> None:
        self._lock, self._one, self._engine = lock, one, lock._engine
        self.token = token  # the fencing token; 0 without `fenced`
        self._over = False

    @property
    def name(self) -> bytes:
        return self._one.spec.key

    @property
    def owner(self) -> bytes:
        return self._one.owner

    def check(self) -> None:
        """Raises LockLost unless the lock is held. Reads the local clock and sends nothing."""
        self._one.check()
        if self._over:
            raise LockLost(self._one.spec.lock, "released")

    def _drop(self) -> bool:
        """Begins the release; whether there is an outcome to wait for."""
        if self._over:
            raise LockLost(self._one.spec.lock, "released")
        self._over = True
        last = self._engine.drop(self._one)
        if self._one.why is not None and self._one.why != "closed":
            raise LockLost(self._one.spec.lock, self._one.why)
        return last

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._engine.drop(self._one)

    __del__ = _end

    def _as_reader(self) -> Acquisition:
        spec = replace(self._one.spec, mode=b"READ", fenced=False)
        return self._engine.acquire(spec, 0, self._one.owner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._one.spec.lock}>"
