"""Results and events that cross threads.

A signal can raise in a user's thread between any two steps of Python code. In `threading.Condition`, and so in futures
and events of the standard library, it can leave a lock behind that nobody releases, and the engine would wait for it
with all its renewals. Here the engine waits for nobody.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# The longest wait in one piece: Python does not notice a signal that arrives just before it, and one that arrives
# between the last two lines of `wait` keeps the gate closed for others.
LOOK = 1.0


class Gate:
    """Opens once."""

    def __init__(self) -> None:
        self._flag = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        if not self._flag:
            self._flag = True
            self._open()

    def mark(self) -> None:
        """Sets it in the child of a fork, where nobody waits: a thread of the parent may have had the gate."""
        self._flag = True

    def _open(self) -> None:
        # Another thread may set it, and has opened the gate already.
        try:  # noqa: SIM105, each acquisition and release come here
            self._gate.release()
        except RuntimeError:
            pass

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        while not self._flag:
            left = LOOK if end is None else min(LOOK, end - time.monotonic())
            if left <= 0:
                break
            if self._gate.acquire(timeout=left):
                self._open()
        return self._flag


class Flag(Gate, threading.Event):
    """An event that is set once."""

    def __init__(self) -> None:
        threading.Event.__init__(self)
        super().__init__()

    def clear(self) -> None:
        """Does nothing: what is lost stays lost."""


class Promise(Gate, Generic[T]):
    """What the engine will answer; whoever waits for it cannot cancel it."""

    def __init__(self) -> None:
        super().__init__()
        self._value: Any = None
        self._error: BaseException | None = None
        self._then: list[Callable[[], object]] = []

    def settle(self, value: Any = None, error: BaseException | None = None, last: deque[Any] | None = None) -> None:
        """Only the first outcome counts. `last`: of what is called at the end of this step, when the gate opens."""
        if not self.is_set():
            self._value, self._error, self._flag = value, error, True
            (self._open if last is None else partial(last.append, self._open))()
            while self._then:
                self._then.pop()()

    def then(self, work: Callable[[], object]) -> None:
        """Calls it when there is an outcome, in the thread of the engine, or now."""
        self._then.append(work)
        if self.is_set() and work in self._then:
            self._then.remove(work)
            work()

    def result(self) -> T:
        self.wait()
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value
