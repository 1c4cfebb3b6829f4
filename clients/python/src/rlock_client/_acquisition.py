"""One owner, as the engine and the guards know it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ._clock import now
from ._errors import LockLost
from ._link import Link
from ._machine import MS, WAITING, Machine, Phase, Plan, Why
from ._wire import Spec


def promise() -> Future[Any]:
    """A future that those who wait for it cannot cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def fail(future: Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class Acquisition:
    """One owner, from its first request to its last. It knows no guard: a guard that nobody has must end."""

    def __init__(self, spec: Spec, owner: bytes, wait: int | None, response: int) -> None:
        self.spec, self.owner, self.wait, self.pid = spec, owner, wait, os.getpid()
        # The machine decides under this lock: `check` never sees a deadline that has passed and is moved later.
        self.mutex = threading.RLock()
        self.within = min(response, max(50 * MS, spec.lease // 6))
        self.machine = Machine(Plan(spec.lease, wait, spec.renew, spec.fenced, self.within), up=False)
        self.acquired, self.released = promise(), promise()
        self.lost = threading.Event()
        self.on_lost: list[Callable[[], None]] = []
        self.why: Why | None = None
        self.holds = 1
        self.began, self.held_since = now(), 0
        self.link: Link | None = None
        self.asking: Link | None = None  # where the next command goes, in a cluster whose slot moves
        self.timer: asyncio.TimerHandle | None = None
        self.wake_at: int | None = None
        self.holder_lease: Any = None

    @property
    def waits(self) -> bool:
        return self.wait != 0 and self.machine.phase in WAITING

    def check(self) -> None:
        """Raises LockLost unless the lock is held, by the local clock."""
        if self.pid != os.getpid():
            raise LockLost(lock=self.spec.lock, why="forked")
        with self.mutex:
            held = self.machine.phase is Phase.HELD
            if held and now() < self.machine.deadline:
                return
        raise LockLost(lock=self.spec.lock, why=self.why or ("expired" if held else "released"))
