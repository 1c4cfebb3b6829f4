"""The clock of the deadlines."""

import time

# CLOCK_BOOTTIME goes on while the machine is suspended. Where there is none, a suspended holder learns too late.
_ID = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> int:
    """In nanoseconds."""
    return time.monotonic_ns() if _ID is None else time.clock_gettime_ns(_ID)
