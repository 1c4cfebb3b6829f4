"""Errors: what is wrong, then what to do."""

from __future__ import annotations

REASONS = {
    "expired": "no renewal was confirmed before its lease ended (server unreachable or process paused)",
    "taken": "the server no longer has it (forced release, deletion or fail-over)",
    "closed": "its client was closed",
    "forked": "it belongs to the process before the fork",
    "released": "it was released",
}


class Error(Exception):
    """Every error of this package."""


class LockLost(Error):
    """The lock was acquired and is no longer held. `why` is expired, taken, closed, forked or released."""

    def __init__(self, lock: str, why: str) -> None:
        super().__init__(f"the lock {lock} was lost: {REASONS[why]}; stop the work and check its results")
        self.lock, self.why = lock, why


class Timeout(Error, TimeoutError):
    """The wait ended without the lock."""

    def __init__(self, lock: str, waited: float) -> None:
        super().__init__(
            f"the lock {lock} was not acquired within {waited:.3f} s; wait longer, or see its holder: lock.info()"
        )
        self.lock, self.waited = lock, waited


class Denied(Error):
    """The lock was asked for once, and another owner holds it."""

    def __init__(self, lock: str) -> None:
        super().__init__(f"another owner holds the lock {lock}; wait for it, or try again later")
        self.lock = lock


class OutcomeUnknown(Error):
    """A release was sent; it is unknown whether the owner still held the lock."""

    def __init__(self, lock: str) -> None:
        super().__init__(
            f"it is unknown whether the lock {lock} was still held at its release; it is free now or at its lease end"
        )
        self.lock = lock


class ModuleMissing(Error):
    """The server does not know the commands."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"this server has no rlock module ({message}); "
            "add `loadmodule /path/to/librlock.so` to its configuration, and to that of its replicas"
        )


class Unsupported(Error):
    """The server, its module or this client lacks something."""


class Permission(Error):
    """The server does not admit the user, or the user lacks a permission."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"the server denies access: {message}; check the user's password, and grant it +@rlock (or the RLOCK "
            "commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*"
        )


class QueueFull(Error):
    """The queue is full, by a limit of the server."""

    def __init__(self, lock: str, message: str) -> None:
        super().__init__(
            f"the queue of the lock {lock} is full ({message}); try again later, or raise the server's limit"
        )
        self.lock = lock


class NotALock(Error):
    """The key holds other data, or a lock of another kind."""

    def __init__(self, lock: str, message: str) -> None:
        super().__init__(f"the key {lock} holds something else ({message}); choose another name")
        self.lock = lock


class Refused(Error):
    """The server refused for another reason: read-only, out of memory, draining."""

    def __init__(self, message: str) -> None:
        super().__init__(f"the server refused: {message}; fix the cause, then try again")


class Unreachable(Error):
    """The server could not be reached or did not answer in time."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"no answer from the server ({message}); check its address, its state and the network"
        )


class Invalid(Error, ValueError):
    """An invalid setting or name."""


class Closed(Error):
    """The client was closed."""

    def __init__(self) -> None:
        super().__init__("this client was closed; create a new one")
