"""What the two faces share: the settings of clients, the handles of locks, the guards."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from . import _endpoint
from ._clock import now
from ._engine import Acquisition, Engine
from ._errors import Denied, Invalid, Timeout, Unsupported
from ._events import Event, hook
from ._machine import MS, Plan
from ._promise import Promise
from ._wire import LONGEST_MS, Info, Spec, info

if TYPE_CHECKING:
    from typing_extensions import Unpack

RESPONSE = 2_000 * MS
BRIEF = 0.1  # how long an end that is in a hurry waits for a release, in s
Seconds = float | timedelta
L = TypeVar("L", bound="BaseLock")
W = TypeVar("W", bound="BaseLock")
B = TypeVar("B", bound="BaseGuard")


def nanoseconds(what: str, time: Seconds, least_ms: int = 0) -> int:
    value = time.total_seconds() if isinstance(time, timedelta) else time
    if not isinstance(value, (int, float)) or not least_ms / 1000 <= value <= LONGEST_MS / 1000:
        raise Invalid(f"{what} is a number of seconds from {least_ms / 1000:g} to {LONGEST_MS // 1000}, not {time!r}")
    return round(value * 1e9)


class Times(TypedDict, total=False):
    """Of each lock: `lease`, `wait` and `session_grace` are those of the client by default; `renew` is true."""

    lease: Seconds | None
    wait: Seconds | None
    renew: bool
    session_grace: Seconds | None


class Options(Times, total=False):
    """`owner`: not a new one for each acquisition; acquiring a lock that it holds in this client re-enters it."""

    owner: str | bytes | None


def planned(
    plan: Plan,
    lease: Seconds | None = None,
    wait: Seconds | None = None,
    session_grace: Seconds | None = None,
    renew: bool = True,
    fenced: bool = False,
) -> Plan:
    """The plan with these settings instead of its own."""
    if lease is not None:
        time = nanoseconds("a lease", lease, 1) // MS * MS
        plan = plan._replace(lease=time, response=min(plan.response, max(50 * MS, time // 6)))
    if wait is not None:
        plan = plan._replace(wait=nanoseconds("a wait", wait))
    if session_grace is not None:
        plan = plan._replace(grace=nanoseconds("a session grace", session_grace, 100))
    return plan._replace(renew=renew, fenced=fenced)


class BaseLock:
    """A lock by its name. It does no I/O until it is acquired; unless named, each acquisition is another owner."""

    def __init__(self, client: BaseClient[Any, Any], spec: Spec) -> None:
        # The client lives as long as its handles and guards.
        self._client, self._spec, self._engine, self.name = client, spec, client._engine, spec.key
        self._entered: list[tuple[int, Any]] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.lock}>"

    def _exit(self, who: int) -> Any:
        """The last guard that this thread or task entered by this handle."""
        entry = next((entry for entry in reversed(self._entered) if entry[0] == who), self._entered[-1])
        self._entered.remove(entry)
        return entry[1]

    def _ask(self, guard: type[B], timeout: Seconds | None, began: int) -> B | Promise[None]:
        """A guard that can begin; or what to wait for, if its owner has an earlier acquisition."""
        plan, waited = self._spec.plan, now() - began
        wait = plan.wait if timeout is None else nanoseconds("a timeout", timeout)
        if wait != 0 and self._engine.endpoint.cluster:
            raise Unsupported("this client does not wait in a cluster; use try_acquire, or a server without a cluster")
        spec = self._spec._replace(plan=plan._replace(wait=wait and max(1, wait - waited)))
        one = self._engine.acquire(spec)
        if one.spec is spec:
            return guard(self, one)
        # Chosen before the look at the phase: a change in between is not missed.
        change: Promise[Any] = one.ended if one.acquired.is_set() else one.acquired
        with one.mutex:
            if one.guards and (one.machine.phase == "held" or one.machine.why):
                # While a lost one has guards, there is no next: their release would end its hold.
                one.check()
                again = guard(self, one)
                if len(one.guards) > 1:
                    return again
                again._end()  # the others have ended in between, and the release is on its way
        if wait is not None and waited >= wait:
            cause = one.link.trouble if one.link is not None and not one.link.up else None
            raise Timeout(lock=spec.lock, waited=waited / 1e9, cause=cause) if wait else Denied(lock=spec.lock)
        return self._engine.turn(change, spec.plan.wait)

    def _info(self) -> Promise[Info]:
        return self._engine.ask(self.name, (b"RLOCK.INFO", self.name), lambda value, _: info(value))

    def _force_release(self) -> Promise[bool]:
        return self._engine.ask(self.name, (b"RLOCK.FORCERELEASE", self.name), lambda value, _: bool(value == 1))


class ReadWriteLock(Generic[L, W]):
    """Many readers hold it together, or one writer alone."""

    def __init__(self, client: BaseClient[L, W], spec: Spec) -> None:
        self._client, self._spec = client, spec

    def read(self) -> L:
        return self._client._lock(self._client, self._spec._replace(mode=b"READ"))

    def write(self, *, fenced: bool = False) -> W:
        plan = self._spec.plan._replace(fenced=fenced)
        return self._client._write_lock(self._client, self._spec._replace(mode=b"WRITE", plan=plan))


class BaseClient(Generic[L, W]):
    """One per process. `server` is a URL, or a client of redis-py, whose settings are taken and not its connections.

    `name`: for owners and connections; the program's by default. `lease`: how long a lock is held unless renewed, as
    it is every third of that. `wait`: the limit of `acquire`, none by default. `session_grace`: how long a lock
    outlives the connection of its process; without it, only the lease counts. `response_timeout`: how long every call
    takes that does not wait for a lock, whatever becomes of the server; 2 s by default, and a connection is given up
    after a sixth of the lease, if that is less. `on_event`: receives every `Event`, in the thread that renews the
    locks: it must be quick, and must not use locks.
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
        session_grace: Seconds | None = None,
        response_timeout: Seconds | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        limit = RESPONSE if response_timeout is None else nanoseconds("a response timeout", response_timeout, 1)
        plan = planned(Plan(0, response=RESPONSE), lease, wait, session_grace)
        if response_timeout is not None:
            plan = plan._replace(response=limit)
        self._plan = plan
        self._engine = Engine(_endpoint.of(server), name, plan.response, limit, hook(on_event))
        weakref.finalize(self, self._engine.close)

    def _close(self, timeout: Seconds | None) -> Promise[None]:
        return self._engine.close(self._engine.limit if timeout is None else nanoseconds("a timeout", timeout))

    @property
    def identity(self) -> str:
        """The owners of this client begin with it."""
        return f"{self._engine.called}:{self._engine.random}"

    def lock(self, name: str | bytes, *, fair: bool = False, fenced: bool = False, **options: Unpack[Options]) -> L:
        """`fair`: one order with Redisson's fair waiters. `fenced`: guards have a token that grows with each holder."""
        return self._lock(self, self._spec(name, fenced, **options)._replace(fair=fair))

    def read_write_lock(self, name: str | bytes, **options: Unpack[Options]) -> ReadWriteLock[L, W]:
        return ReadWriteLock(self, self._spec(name, **options))

    def semaphore(self, name: str | bytes, permits: int, **options: Unpack[Options]) -> L:
        """At most `permits` owners hold it at once. Use the same number everywhere: the server does not store it."""
        if not isinstance(permits, int) or not 1 <= permits < 2**31:
            raise Invalid(f"a semaphore has from 1 to {2**31 - 1} permits, not {permits!r}")
        return self._lock(self, self._spec(name, **options)._replace(mode=b"PERMIT", permits=permits))

    def _spec(
        self, lock: str | bytes, fenced: bool = False, owner: str | bytes | None = None, **times: Unpack[Times]
    ) -> Spec:
        if not isinstance(lock, (str, bytes)) or not lock:
            raise Invalid(f"the name of a lock is a text or bytes, not {lock!r}")
        named = owner.encode() if isinstance(owner, str) else owner
        if named is not None and not (isinstance(named, bytes) and 1 <= len(named) <= 512):
            raise Invalid(f"an owner is a text or bytes, of 1 to 512 bytes, not {owner!r}")
        plan = planned(self._plan, **times, fenced=fenced)
        return Spec(lock.encode() if isinstance(lock, str) else lock, plan, owner=named or b"")


class BaseGuard:
    """A hold of a lock, renewed until it is released. Keep a reference to it: without one, the lock is released."""

    _over = True

    def __init__(self, lock: BaseLock, one: Acquisition) -> None:
        self._lock, self._one, self._engine = lock, one, lock._engine
        one.guards.add(self)
        self.token = 0  # the fencing token; 0 without `fenced`
        self.name, self.owner = one.spec.key, one.owner
        self._over = False

    def check(self) -> float:
        """The seconds left by the local clock. Raises LockLost if others may hold the lock. It sends nothing."""
        if self not in self._one.guards:
            raise self._one.loss("released")
        return self._one.check()

    def _begin(self, entered: BaseGuard | None) -> Promise[int]:
        if entered is not None:
            # Checked when this guard counts too: one that is released before that waits for the end of the hold.
            entered.check()
        if self._one.machine.phase != "new":
            return self._engine.reenter(self._one)
        self._engine.post(self._engine.begin, self._one)
        return self._one.acquired

    def _drop(self) -> bool:
        """Begins the release; whether there is an outcome to wait for."""
        if self._over:
            raise self._one.loss("released")
        self._end()
        if self._one.machine.why is not None:
            raise self._one.loss("released")
        return not self._one.guards

    def _end(self) -> None:
        if not self._over:
            # A signal may end this method at any point: then it is called again, at the latest by the finalizer.
            self._one.guards.discard(self)
            self._one.on_lost.pop(id(self), None)
            self._engine.drop(self._one)
            self._over = True

    def _as_reader(self) -> Spec:
        self.check()
        spec = self._one.spec
        return spec._replace(mode=b"READ", plan=spec.plan._replace(fenced=False), owner=self._one.owner)

    __del__ = _end

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._one.spec.lock}>"
