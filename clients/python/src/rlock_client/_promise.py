"""Promises and flags, by which the engine's thread passes results to other threads.

A signal handler can raise in a user's thread between any two steps of Python code. In `threading.Condition`, and so in
futures and events of the standard library, this can leave a lock that no thread releases. The engine would wait for
this lock, and all renewals would stop. In the classes of this module the engine waits for no lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# The longest wait in one piece, in s. Python handles a signal that arrives just before a wait only after the wait. A
# signal between `acquire` and `_open` in `wait` keeps the gate closed for other threads.
LOOK = 1.0


class Gate:
    """A flag on which threads wait, set once."""

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
        """Sets the flag in the child of a fork, and leaves the gate, which a thread of the parent may have held.

        No thread waits in the child.
        """
        self._flag = True

    def _open(self) -> None:
        # The error means that another thread has opened the gate at the same time.
        try:  # noqa: SIM105, each acquisition and release runs this
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
        """Does nothing, since a lost lock stays lost."""


class Promise(Gate, Generic[T]):
    """The future outcome of work of the engine. A thread that waits for it cannot cancel the work."""

    def __init__(self) -> None:
        super().__init__()
        self._value: Any = None
        self._error: BaseException | None = None
        self._then: list[Callable[[], object]] = []

    def settle(self, value: Any = None, error: BaseException | None = None, last: deque[Any] | None = None) -> None:
        """Sets the outcome, if none is set. `last`: a queue of calls, to which this adds the opening of the gate."""
        if not self.is_set():
            self._value, self._error, self._flag = value, error, True
            (self._open if last is None else partial(last.append, self._open))()
            while self._then:
                self._then.pop()()

    def then(self, work: Callable[[], object]) -> None:
        """Calls `work` when the outcome is set, in the thread that sets it. Calls it now if there is an outcome."""
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
