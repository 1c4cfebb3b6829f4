"""Base classes of clients, locks and guards, for threads and for asyncio."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from . import _endpoint
from ._clock import now
from ._engine import Acquisition, Engine, answered_within
from ._errors import Denied, Error, Invalid, LockLost, Timeout
from ._events import Event, hook
from ._machine import MS, Plan
from ._promise import Promise
from ._wire import LONGEST_MS, Info, Spec, info

RESPONSE = 2_000 * MS
BRIEF = 0.1  # how long an interrupted block waits for its release, in s
Seconds = float | timedelta
Time = Seconds | None
L = TypeVar("L", bound="BaseLock")
W = TypeVar("W", bound="BaseLock")
A = TypeVar("A", bound="BaseLockAll")
B = TypeVar("B", bound="BaseGuard")


def nanoseconds(what: str, time: Seconds, least_ms: int = 0, reason: str = "") -> int:
    value = time.total_seconds() if isinstance(time, timedelta) else time
    if not isinstance(value, (int, float)) or not least_ms / 1000 <= value <= LONGEST_MS / 1000:
        least = f"{least_ms / 1000:g}{reason}"
        raise Invalid(f"{what} is a number of seconds from {least} to {LONGEST_MS // 1000}, not {time!r}")
    return round(value * 1e9)


def planned(plan: Plan, lease: Time, wait: Time, grace: Time, at_least: Time = None, max_hold: Time = None) -> Plan:
    """A copy of the plan, changed by these settings unless they are None."""
    if lease is not None:
        time = nanoseconds("a lease", lease, 100, " (a shorter one ends between two renewals)") // MS * MS
        plan = plan._replace(lease=time)
    if wait is not None:
        plan = plan._replace(wait=nanoseconds("a wait", wait))
    if grace is not None:
        plan = plan._replace(grace=nanoseconds("a session grace", grace, 100))
    if at_least is not None:
        plan = plan._replace(at_least=nanoseconds("at_least", at_least))
    if max_hold is not None:
        plan = plan._replace(max_hold=nanoseconds("max_hold", max_hold))
    return plan


def named(owner: str | bytes) -> bytes:
    name = owner.encode() if isinstance(owner, str) else owner
    if not (isinstance(name, bytes) and 1 <= len(name) <= 512):
        raise Invalid(f"an owner is a text or bytes, of 1 to 512 bytes, not {owner!r}")
    return name


def leave(entered: list[tuple[int, Any]], who: int) -> Any:
    """Removes and returns the guard of the last block that this thread or task (`who`) entered."""
    entry = next((entry for entry in reversed(entered) if entry[0] == who), entered[-1])
    entered.remove(entry)
    return entry[1]


class BaseLock:
    """A lock with its options. Acquire it by `acquire`, `try_acquire` or a block (`with`, or `async with` for asyncio).

    Making one does no I/O. Each acquisition has a new owner, unless the option `owner` names one.
    """

    def __init__(self, client: BaseClient[Any, Any, Any], spec: Spec) -> None:
        # This reference keeps the client alive as long as its locks and guards.
        self._client, self._spec, self._engine, self.name = client, spec, client._engine, spec.key
        self._entered: list[tuple[int, Any]] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.lock}>"

    def _ask(self, guard: type[B], timeout: Seconds | None, began: int) -> B | Promise[None]:
        """A guard that can begin, or a promise after which to call again.

        The promise is for a named owner whose earlier acquisition of the lock has not ended.
        """
        spec, plan, waited = self._spec, self._spec.plan, now() - began
        wait = plan.wait if timeout is None else nanoseconds("a timeout", timeout)
        if wait is not None or plan.wait is not None or spec.owner:
            spec = spec._replace(plan=plan._replace(wait=wait and max(1, wait - waited)))
        one = self._engine.acquire(spec)
        if not spec.owner or one.spec is spec:
            return guard(self, one)
        # Chosen before the phase is read, so that a change in between is not missed.
        change: Promise[Any] = one.ended if one.acquired.is_set() else one.acquired
        with one.mutex:
            if one.guards and (one.machine.phase == "held" or one.machine.why):
                # Raises LockLost for a lost acquisition, whose guards by their release would end the hold of a new one.
                one.check()
                again = guard(self, one)
                if len(one.guards) > 1:
                    return again
                again._end()  # the other guards have ended in between, and the release has begun
        if wait is not None and waited >= wait:
            cause = one.link.trouble if one.link is not None and not one.link.up else None
            raise Timeout(lock=spec.lock, waited=waited / 1e9, cause=cause) if wait else Denied(lock=spec.lock)
        return self._engine.turn(change, spec.plan.wait)

    def _adopt(self, guard: type[B], owner: str | bytes) -> B:
        plan = self._spec.plan._replace(wait=0, confirm_first=True)
        spec = self._spec._replace(plan=plan, owner=named(owner), adopts=True)
        one = self._engine.acquire(spec)
        if one.spec is not spec:
            raise Invalid(f"this client uses the owner {owner!r} of the lock {spec.lock} already")
        return guard(self, one)

    def _info(self) -> Promise[Info]:
        return self._engine.ask(self._engine.query, (b"RLOCK.INFO", self.name), lambda value, _: info(value))

    def _force_release(self) -> Promise[bool]:
        words = (b"RLOCK.FORCERELEASE", self.name)
        return self._engine.ask(self._engine.query, words, lambda value, _: bool(value == 1))


class ReadWriteLock(Generic[L, W]):
    """A lock that many readers hold together, or one writer alone."""

    def __init__(self, client: BaseClient[L, W, Any], spec: Spec) -> None:
        self._client, self._spec = client, spec

    def read(self) -> L:
        """The lock for a reader."""
        return self._client._lock(self._client, self._spec._replace(mode=b"READ"))

    def write(self, *, fenced: bool = False) -> W:
        """The lock for a writer. `fenced`: each guard has a `token`, larger than those of all earlier holders."""
        plan = self._spec.plan._replace(fenced=fenced)
        return self._client._write_lock(self._client, self._spec._replace(mode=b"WRITE", plan=plan))


class BaseLockAll:
    """Several locks that are acquired together and released together. If all are free, this takes one round trip.

    Otherwise the client waits for the first held lock by name. It keeps the locks before this one and releases those
    after it. All clients use this order, so two groups of locks never wait for each other.
    """

    def __init__(self, locks: list[Any], wait: int | None) -> None:
        self._locks, self._wait = locks, wait
        self._entered: list[tuple[int, Any]] = []

    def _steps(
        self, kind: type[B], timeout: Seconds | None
    ) -> Generator[tuple[Promise[int], float | None], None, list[B]]:
        """Yields promises to wait for, each with a limit in seconds or None. Returns the guards."""
        limit, began = self._wait if timeout is None else nanoseconds("a timeout", timeout), now()
        guards: dict[int, B] = {}

        def left() -> int | None:
            return None if limit is None else max(1, limit - (now() - began))

        def begin(number: int, wait: int | None) -> Promise[int]:
            lock = self._locks[number]
            spec = lock._spec._replace(plan=lock._spec.plan._replace(wait=wait))
            guards[number] = kind(lock, lock._engine.acquire(spec))
            return guards[number]._begin(None)

        def settled(number: int, promise: Promise[int], error: BaseException | None = None) -> BaseException | None:
            if promise.is_set():
                error = guards[number]._settled(promise)
            if error is not None or not promise.is_set():
                guards.pop(number)._end()
            return error

        try:
            while True:
                for number in [number for number, guard in guards.items() if not guard._one.is_held()]:
                    guards.pop(number)._end()
                missing = [number for number in range(len(self._locks)) if number not in guards]
                if not missing:
                    return [guards[number] for number in range(len(self._locks))]
                # All requests at once. None of them waits in a queue, so none can be part of a deadlock.
                batch = [(number, begin(number, 0)) for number in missing]
                errors: list[BaseException] = []
                for number, promise in batch:
                    bound = left() if limit else None
                    yield promise, None if bound is None else bound / 1e9
                    if error := settled(number, promise):
                        errors.append(error)
                if limit == 0 and errors:
                    raise errors[0]
                number = min((number for number in missing if number not in guards), default=len(self._locks))
                for later in [other for other in guards if other > number]:
                    guards.pop(later)._end()
                if number < len(self._locks):
                    promise = begin(number, left())
                    yield promise, None
                    error = settled(number, promise)
                    if isinstance(error, Timeout):
                        cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
                        raise Timeout(lock=error.lock, waited=(now() - began) / 1e9, cause=cause)
                    if error is not None:
                        raise error
        except BaseException:
            for guard in guards.values():
                guard._end()
            raise


class BaseClient(Generic[L, W, A]):
    """A client for locks on one server, behind Sentinels or in a cluster. Use one per process.

    Times are seconds, as numbers or `timedelta`. Bad settings raise Invalid. The client connects at the first call.

    `server`: a URL, or a client of redis-py. The settings of that client are used, and not its connections.
    `name`: a part of owners and connection names. The default is the program's name.
    `lease`: how long a lock stays held without a renewal, at least 0.1. Locks are renewed every third of their lease.
    `wait`: the limit of `acquire`. By default there is no limit.
    `session_grace`: how long a lock can stay held after its connection ends, at least 0.1. By default until lease end.
    `response_timeout`: the limit of each call that does not wait for a lock, 2 by default. A connection that does not
    answer within this time is replaced; one that carries a lock's command, after a sixth of the lease if that is less.
    `on_event`: receives each `Event`, in the thread that renews the locks. It must be quick, and must not use locks.
    """

    _lock: type[L]
    _write_lock: type[W]
    _lock_all: type[A]

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
        self._plan = plan = planned(Plan(0), lease, wait, session_grace)
        response = answered_within(limit, plan.lease) if response_timeout is None else limit
        self._engine = Engine(_endpoint.of(server), name, response, limit, hook(on_event))
        weakref.finalize(self, self._engine.close)

    def _close(self, timeout: Seconds | None) -> Promise[None]:
        return self._engine.close(self._engine.limit if timeout is None else nanoseconds("a timeout", timeout))

    @property
    def identity(self) -> str:
        """`name@host:pid:random`, with which the generated owners of this client begin."""
        return f"{self._engine.called}:{self._engine.random}"

    def lock(
        self,
        name: str | bytes,
        *,
        fair: bool = False,
        fenced: bool = False,
        lease: Seconds | None = None,
        wait: Seconds | None = None,
        renew: bool = True,
        session_grace: Seconds | None = None,
        at_least: Seconds | None = None,
        max_hold: Seconds | None = None,
        owner: str | bytes | None = None,
    ) -> L:
        """The lock with this name, of 1 to 1024 bytes. One owner holds it at a time. Bad arguments raise Invalid.

        `fair`: native and Redisson fair waiters are served in one order.
        `fenced`: each guard has a `token`, larger than those of all earlier holders.
        `lease`, `wait`, `session_grace`: those of the client by default, in seconds.
        `renew`: if False, the lock ends with its first lease.
        `at_least`: the lock stays held for this time, in seconds from the acquisition, even if you release it sooner.
        `max_hold`: the lock is renewed for this time, in seconds from the acquisition, and then ends with its lease.
        `owner`: the owner of each acquisition, instead of a new one. It re-enters a lock that it holds in this client.
        """
        plan = planned(self._plan, lease, wait, session_grace, at_least, max_hold)
        return self._lock(self, self._spec(name, plan, owner, renew, fenced, fair))

    def read_write_lock(
        self,
        name: str | bytes,
        *,
        lease: Seconds | None = None,
        wait: Seconds | None = None,
        renew: bool = True,
        session_grace: Seconds | None = None,
        at_least: Seconds | None = None,
        max_hold: Seconds | None = None,
        owner: str | bytes | None = None,
    ) -> ReadWriteLock[L, W]:
        """The read/write lock with this name. The options are those of `lock`; `fenced` is one of `write`."""
        plan = planned(self._plan, lease, wait, session_grace, at_least, max_hold)
        return ReadWriteLock(self, self._spec(name, plan, owner, renew))

    def semaphore(
        self,
        name: str | bytes,
        permits: int,
        *,
        lease: Seconds | None = None,
        wait: Seconds | None = None,
        renew: bool = True,
        session_grace: Seconds | None = None,
        at_least: Seconds | None = None,
        max_hold: Seconds | None = None,
        owner: str | bytes | None = None,
    ) -> L:
        """The semaphore with this name, which at most `permits` owners hold at once.

        Use the same number in all clients, since the server does not store it. The options are those of `lock`, but
        for `fair` and `fenced`.
        """
        if not isinstance(permits, int) or not 1 <= permits < 2**31:
            raise Invalid(f"a semaphore has from 1 to {2**31 - 1} permits, not {permits!r}")
        plan = planned(self._plan, lease, wait, session_grace, at_least, max_hold)
        spec = self._spec(name, plan, owner, renew)
        return self._lock(self, spec._replace(mode=b"PERMIT", permits=permits))

    def lock_all(self, names: Iterable[str | bytes], *, lease: Seconds | None = None, wait: Seconds | None = None) -> A:
        """These locks as one, acquired and released together. The guard is lost as soon as one lock is lost.

        `lease` and `wait` are those of the client by default, in seconds. Raises Invalid if `names` is empty or a text.
        """
        plan = planned(self._plan, lease, wait, None)
        # A name as text and the same name as bytes are one lock.
        specs = {spec.key: spec for spec in (self._spec(name, plan, None) for name in names)}
        if isinstance(names, (str, bytes)) or not specs:
            raise Invalid(f"lock_all takes the names of at least one lock, not {names!r}")
        return self._lock_all([self._lock(self, specs[key]) for key in sorted(specs)], plan.wait)

    def _spec(
        self,
        lock: str | bytes,
        plan: Plan,
        owner: str | bytes | None,
        renew: bool = True,
        fenced: bool = False,
        fair: bool = False,
    ) -> Spec:
        key = lock.encode() if isinstance(lock, str) else lock
        if not isinstance(key, bytes) or not 1 <= len(key) <= 1024:
            raise Invalid(f"the name of a lock is a text or bytes, of 1 to 1024 bytes, not {lock!r}")
        # A named owner may have been used before, and a message may be of an earlier grant.
        if owner is not None or fenced or not renew:
            plan = plan._replace(renew=renew, fenced=fenced, confirm_first=owner is not None)
        return Spec(key, plan, fair=fair, owner=b"" if owner is None else named(owner))


class BaseGuard:
    """A held lock, renewed in the background until it is released or lost.

    The lock is released when no reference to the guard is left. `owner` is the holder, which `adopt` takes. `token` is
    the fencing token, or 0 without `fenced`.
    """

    _over = True

    def __init__(self, lock: BaseLock, one: Acquisition) -> None:
        self._lock, self._one, self._engine = lock, one, lock._engine
        self._ones: list[Acquisition] = [one]
        one.guards.add(weakref.ref(self, one.guards.discard))
        self.token = 0  # the fencing token; 0 without `fenced`
        self.name, self.owner = one.spec.key, one.owner
        self._over = False

    def check(self) -> float:
        """The seconds for which the lock is held without a renewal, by the local clock. Sends nothing.

        Raises LockLost if the lock was lost or released, or if another owner may hold it by now.
        """
        left = self._one.check()
        # Tested after the mutex was held. Under it, a detach counted this guard before, counts it later, or ended it.
        if weakref.ref(self) not in self._one.guards:
            raise self._one.loss("released")
        return left

    def _begin(self, entered: BaseGuard | None) -> Promise[int]:
        if entered is not None:
            # This guard counts already, so a later end of `entered` keeps the hold. An earlier one raises LockLost.
            entered.check()
        if self._one.machine.phase != "new":
            return self._engine.ask(self._engine.enter, self._one)
        self._engine.post(self._engine.begin, self._one)
        return self._one.acquired

    def _detach(self) -> None:
        self.check()  # before the mutex, which can stay locked in the child of a fork
        with self._one.mutex:
            self.check()
            if len(self._one.guards) > 1:
                raise Invalid(f"the lock {self._one.spec.lock} has other guards: release them before you detach it")
            self._one.detached = True
            self._one.guards.discard(weakref.ref(self))  # the hold cannot be re-entered from here on
        self._end()

    def _left(self) -> float:
        return max(0.0, (self._one.machine.lease_end - now()) / 1e9)

    def _settled(self, acquired: Promise[int]) -> BaseException | None:
        """Reads the settled promise. Sets the token, or returns the error."""
        try:
            self.token = acquired.result()
            self._one.received = True
        except Error as error:
            return error
        return None

    def _drop(self) -> list[Promise[None]]:
        """Begins the release, and returns the promises to wait for. Raises LockLost after a loss or a release."""
        if self._over:
            raise self._one.loss("released")
        self._end()
        if self._one.machine.why is not None:
            raise self._one.loss("released")
        return [] if self._one.guards else [self._one.released]

    def _end(self) -> None:
        if not self._over:
            # A signal may interrupt this method at any line. It is called again, at the latest by the finalizer.
            self._one.guards.discard(weakref.ref(self))
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


class BaseGuardAll:
    """Several held locks, lost as soon as one is lost. They are released when no reference to the guard is left."""

    def __init__(self, guards: list[Any]) -> None:
        self._guards, self._over = guards, False
        self._ones: list[Acquisition] = [guard._one for guard in guards]

    def check(self) -> float:
        """The seconds for which all locks are held without a renewal, by the local clock. Sends nothing.

        Raises LockLost if a lock was lost or released, or if another owner may hold it by now.
        """
        return min(float(guard.check()) for guard in self._guards)

    def _drop(self) -> list[Promise[None]]:
        self._over = True
        outcomes: list[Promise[None]] = []
        lost: list[LockLost] = []
        for guard in self._guards:
            try:
                outcomes += guard._drop()
            except LockLost as error:
                lost.append(error)
        if lost:
            raise lost[0]
        return outcomes
