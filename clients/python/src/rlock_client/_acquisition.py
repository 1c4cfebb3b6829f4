"""One owner, as the engine and the guards know it."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ._clock import now
from ._errors import LockLost
from ._link import Link
from ._machine import MS, WAITING, Machine, Phase, Plan, Why
from ._promise import Flag, Promise
from ._wire import Spec


class Acquisition:
    """One owner, from its first request to its last. It knows no guard: a guard that nobody has must end."""

    def __init__(self, spec: Spec, owner: bytes, wait: int | None, response: int) -> None:
        self.spec, self.owner, self.wait, self.pid = spec, owner, wait, os.getpid()
        # The machine decides under this lock: `check` never sees a deadline that has passed and is moved later.
        self.mutex = threading.RLock()
        self.within = min(response, max(50 * MS, spec.lease // 6))
        self.machine = Machine(Plan(spec.lease, wait, spec.renew, spec.fenced, self.within), up=False)
        self.acquired: Promise[int] = Promise()
        self.released: Promise[None] = Promise()
        self.lost: threading.Event = Flag()
        self.on_lost: list[Callable[[], None]] = []
        self.why: Why | None = None
        # Those that are left, by number: to end one twice has no effect.
        self.guards: dict[int, weakref.ref[Any] | None] = {0: None}
        self._numbers = itertools.count(1)
        self.began, self.held_since = now(), 0
        self.link: Link | None = None
        self.asking: Link | None = None  # where the next command goes, in a cluster whose slot moves
        self.timer: asyncio.TimerHandle | None = None
        self.wake_at: int | None = None
        self.holder_lease: Any = None

    @property
    def waits(self) -> bool:
        return self.wait != 0 and self.machine.phase in WAITING

    def check(self) -> float:
        """The seconds that are left by the local clock; raises LockLost if there are none."""
        if self.pid != os.getpid():
            raise LockLost(lock=self.spec.lock, why="forked")
        with self.mutex:
            held = self.machine.phase is Phase.HELD
            left = self.machine.deadline - now()
            if held and left > 0:
                return left / 1e9
        raise LockLost(lock=self.spec.lock, why=self.why or ("expired" if held else "released"))

    def add_guard(self) -> tuple[int, int]:
        """Its number, and how many there are."""
        with self.mutex:
            number = next(self._numbers)
            self.guards[number] = None
            return number, len(self.guards)

    def end_guard(self, number: int) -> int:
        """How many are left."""
        with self.mutex:
            self.guards.pop(number, None)
            return len(self.guards)

    def is_forgotten(self) -> bool:
        """Whether no guard is left, whatever was told of their ends."""
        return all(guard is not None and guard() is None for guard in list(self.guards.values()))
