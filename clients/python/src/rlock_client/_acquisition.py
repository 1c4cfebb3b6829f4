"""One owner, as the engine and the guards know it."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ._clock import now
from ._errors import LockLost
from ._link import Link
from ._machine import WAITING, Machine
from ._promise import Flag, Promise
from ._wire import Spec


class Acquisition:
    """One owner, from its first request to its last. It keeps no guard alive: a guard that nobody has must end."""

    def __init__(self, spec: Spec, owner: bytes) -> None:
        self.spec, self.owner, self.pid = spec, owner, os.getpid()
        # The machine decides under this lock: `check` never sees a deadline that has passed and is moved later.
        self.mutex = threading.RLock()
        self.machine = Machine(spec.plan, up=False)
        self.acquired: Promise[int] = Promise()
        self.released: Promise[None] = Promise()
        self.lost: threading.Event = Flag()
        self.on_lost: list[Callable[[], None]] = []
        self.guards: weakref.WeakSet[Any] = weakref.WeakSet()
        self.began, self.held_since = now(), 0
        self.link: Link | None = None  # of the last command
        self.tied: Link | None = None  # of the last one that the server confirmed
        self.asking: Link | None = None  # where the next command goes, in a cluster whose slot moves
        self.timer: asyncio.TimerHandle | None = None
        self.holder_lease: Any = None

    @property
    def holds(self) -> int:
        """In the server, which counts one permit however many guards there are here."""
        return min(len(self.guards), 1) if self.spec.permits else len(self.guards)

    @property
    def waits(self) -> bool:
        return self.spec.plan.wait != 0 and self.machine.phase in WAITING

    def check(self) -> float:
        """The seconds that are left by the local clock; raises LockLost if there are none."""
        if self.pid != os.getpid():
            raise self.loss("forked")
        with self.mutex:
            held, left = self.machine.phase == "held", self.machine.end - now()
        if held and left > 0:
            return left / 1e9
        raise self.loss("expired" if held else "released")

    def lose(self, error: LockLost) -> None:
        self.lost.set()
        for tell in self.on_lost:
            tell()
        self.released.settle(error=error)

    def loss(self, why: str) -> LockLost:
        return LockLost(lock=self.spec.lock, why=self.machine.why or why)
