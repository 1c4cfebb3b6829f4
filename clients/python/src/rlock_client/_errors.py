"""Errors: what is wrong, then what to do."""

from __future__ import annotations

REASONS = {
    "expired": "no renewal was confirmed before its lease or session ended (server unreachable or process paused)",
    "taken": "the server no longer has it (forced release, deletion or fail-over)",
    "closed": "its client was closed",
    "forked": "it belongs to the process before the fork",
    "released": "it was released",
}


class Error(Exception):
    """Every error of this package."""

    text = "{message}"

    def __init__(
        self, message: str = "", *, lock: str = "", why: str = "", waited: float = 0.0, cause: Error | None = None
    ) -> None:
        self.lock, self.why, self.waited, self.__cause__ = lock, why, waited, cause
        reason = REASONS.get(why, "")
        super().__init__(self.text.format(message=message, lock=lock, reason=reason, waited=waited))


class LockLost(Error):
    """The lock was acquired and is no longer held. `why` is expired, taken, closed, forked or released."""

    text = "the lock {lock} was lost: {reason}; stop the work and check its results"


class Timeout(Error, TimeoutError):
    """The wait ended without the lock."""

    text = "the lock {lock} was not acquired within {waited:.3f} s; wait longer, or see its holder: RLOCK.INFO {lock}"


class Denied(Error):
    """The lock was asked for once, and another owner holds it."""

    text = "another owner holds the lock {lock}; wait for it, or try again later"


class OutcomeUnknown(Error):
    """A release was sent; it is unknown whether the owner still held the lock."""

    text = "it is unknown whether the lock {lock} was still held at its release; it is free now or at its lease end"


class ModuleMissing(Error):
    """The server does not know the commands."""

    text = "this server has no rlock module ({message}); add `loadmodule /path/to/librlock.so` to its configuration"


class Unsupported(Error):
    """The server, its module or this client lacks something."""


class Permission(Error):
    """The server does not admit the user, or the user lacks a permission."""

    text = (
        "the server denies access: {message}; check the user's password and permissions: +@rlock (or the RLOCK "
        "commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*"
    )


class QueueFull(Error):
    """The queue is full, by a limit of the server."""

    text = "the queue of the lock {lock} is full ({message}); try again later, or raise the server's limit"


class NotALock(Error):
    """The key holds other data, or a lock of another kind."""

    text = "the key {lock} holds something else ({message}); choose another name"


class Refused(Error):
    """The server refused for another reason: read-only, out of memory, draining."""

    text = "the server refused: {message}; fix the cause, then try again"


class Unreachable(Error):
    """The server could not be reached or did not answer in time."""

    text = "no answer from the server ({message}); check its address, its state and the network"


class Invalid(Error, ValueError):
    """An invalid setting or name."""


class Closed(Error):
    """The client was closed."""

    text = "this client was closed; create a new one"
