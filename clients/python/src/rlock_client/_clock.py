"""The clock of the deadlines."""

import time
from collections.abc import Callable
from functools import partial

# CLOCK_BOOTTIME goes on while the machine is suspended. Where there is none, a suspended holder learns too late.
_ID = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
# In nanoseconds.
now: Callable[[], int] = time.monotonic_ns if _ID is None else partial(time.clock_gettime_ns, _ID)
