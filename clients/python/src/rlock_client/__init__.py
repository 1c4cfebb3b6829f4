"""Distributed locks on Redis and Valkey servers with the rlock module."""

__version__ = "0.1.0"

from ._aio import AsyncClient, AsyncGuard, AsyncLock, AsyncReadWriteLock, AsyncWriteGuard, AsyncWriteLock
from ._client import Client, Guard, Lock, ReadWriteLock, WriteGuard, WriteLock
from ._errors import (
    Closed,
    Denied,
    Error,
    Invalid,
    LockLost,
    ModuleMissing,
    NotALock,
    OutcomeUnknown,
    Permission,
    QueueFull,
    Refused,
    Timeout,
    Unreachable,
    Unsupported,
)
from ._events import Event
from ._wire import Holder, Info, Waiter

__all__ = [
    "AsyncClient", "AsyncGuard", "AsyncLock", "AsyncReadWriteLock", "AsyncWriteGuard", "AsyncWriteLock",
    "Client", "Closed", "Denied", "Error", "Event", "Guard", "Holder", "Info", "Invalid", "Lock", "LockLost",
    "ModuleMissing", "NotALock", "OutcomeUnknown", "Permission", "QueueFull", "ReadWriteLock", "Refused", "Timeout",
    "Unreachable", "Unsupported", "Waiter", "WriteGuard", "WriteLock",
]
