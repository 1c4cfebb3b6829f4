"""Distributed locks on Redis and Valkey servers with the rlock module."""

from . import _driver as _driver

# isort: split
from ._aio import AsyncClient, AsyncGuard, AsyncGuardAll, AsyncLock, AsyncLockAll, AsyncWriteGuard, AsyncWriteLock
from ._client import Client, Guard, GuardAll, Lock, LockAll, WriteGuard, WriteLock

# isort: split
from ._errors import Closed, Denied, Error, Invalid, LockLost, ModuleMissing, NotALock, OutcomeUnknown

# isort: split
from ._errors import Permission, QueueFull, Refused, Timeout, Unreachable, Unsupported
from ._events import Event
from ._faces import ReadWriteLock
from ._version import __version__
from ._wire import Info

# fmt: off
__all__ = [
    "AsyncClient", "AsyncGuard", "AsyncGuardAll", "AsyncLock", "AsyncLockAll", "AsyncWriteGuard", "AsyncWriteLock",
    "Client", "Closed", "Denied", "Error", "Event", "Guard", "GuardAll", "Info", "Invalid", "Lock", "LockAll",
    "LockLost", "ModuleMissing", "NotALock", "OutcomeUnknown", "Permission", "QueueFull", "ReadWriteLock", "Refused",
    "Timeout", "Unreachable", "Unsupported", "WriteGuard", "WriteLock",
    "__version__",
]
