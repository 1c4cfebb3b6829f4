"""The errors of this package. Each text says what is wrong, and most say what to do."""

from __future__ import annotations

REASONS = {
    "expired": "no renewal was confirmed before its lease or session ended (server unreachable or process paused)",
    "overdue": "it was held for max_hold, and then not renewed any more",
    "ended": "its lease ended, and it is not renewed",
    "taken": "the server no longer has it (forced release, deletion or fail-over)",
    "closed": "its client was closed",
    "forked": "it belongs to the process before the fork",
    "released": "it was released",
}


class Error(Exception):
    """The base of all errors of this package. `lock`, `server`, `why` and `waited` (in seconds) may be empty or 0."""

    text = "{message}"

    def __init__(
        self,
        message: str = "",
        *,
        lock: str = "",
        server: str = "",
        why: str = "",
        waited: float = 0.0,
        cause: Exception | None = None,
    ) -> None:
        self.lock, self.server, self.why, self.waited, self.__cause__ = lock, server, why, waited, cause
        because = f" ({str(cause).partition(';')[0]})" if cause else ""
        super().__init__(self.text.format(message=message, lock=lock, server=server, waited=waited, because=because))


class LockLost(Error):
    """The owner does not hold the lock any more. `why` is expired, overdue, taken, closed, forked or released."""

    text = "the lock {lock} {message}"

    def __init__(self, *, lock: str, why: str, ended: bool = False) -> None:
        reason = REASONS["ended" if ended and why == "expired" else why]
        advice = f"was lost: {reason}; stop the work and check its results"
        super().__init__(f"is no longer held: {reason}" if why == "released" else advice, lock=lock, why=why)


class Timeout(Error, TimeoutError):
    """The wait ended without the lock, after `waited` seconds. `__cause__` is the outage that caused this.

    Without a cause, another owner held the lock.
    """

    text = "the lock {lock} was not acquired within {waited:.3f} s{message}"

    def __init__(self, *, lock: str, waited: float, cause: Exception | None = None) -> None:
        advice = f"; wait longer, or see its holder: RLOCK.INFO {lock}"
        super().__init__(f": {cause}" if cause else advice, lock=lock, waited=waited, cause=cause)


class Denied(Error):
    """Another owner holds the lock, and the call did not wait."""

    text = "another owner holds the lock {lock}; wait for it, or try again later"


class OutcomeUnknown(Error):
    """A release had no answer within `response_timeout`, so it is unknown whether the owner still held the lock.

    The client repeats the release in the background until lease end, unless it is closed.
    """

    text = "it is unknown if the lock {lock} was held at its release{because}; it is free now or at its lease end"


class ModuleMissing(Error):
    """The server does not know the RLOCK commands."""

    text = "the server {server} has no rlock module ({message}); add `loadmodule /path/to/librlock.so` to its settings"


class Unsupported(Error):
    """This version of redis-py, of the server's module or of this client lacks what the call needs."""


class Permission(Error):
    """The server refused the login, or the user lacks a permission."""

    text = (
        "the server {server} denies access: {message}; check the user's password and permissions: +@rlock (or the "
        "RLOCK commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*"
    )


class QueueFull(Error):
    """The lock's queue is full, or another limit of the server on waiters or sessions is reached."""

    text = "the queue of the lock {lock} is full ({server}: {message}); try again later, or raise the server's limit"


class NotALock(Error):
    """The key holds other data, or a lock of another kind."""

    text = "the key {lock} holds something else ({server}: {message}); choose another name"


class Refused(Error):
    """The server refused a command for a reason without its own class, as for lack of memory or during a drain."""

    text = "the server {server} refused: {message}; fix the cause, then try again"


class Unreachable(Error):
    """The server could not be reached, did not answer in time, or is a replica. `__cause__`: the driver's error."""

    text = "the server {server} {message}; check its address, its state and the network"

    replica = False  # whether the server answered that it is a replica


class Invalid(Error, ValueError):
    """A setting, a name or a call is invalid."""


class Closed(Error):
    """The client was closed."""

    text = "this client was closed; create a new one"
