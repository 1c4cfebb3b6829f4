"""The clock of the deadlines."""

import time
from collections.abc import Callable
from functools import partial

# CLOCK_BOOTTIME counts while the machine is suspended. With another clock, a holder notices a loss late.
_ID = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
# The present time of this clock in nanoseconds.
now: Callable[[], int] = time.monotonic_ns if _ID is None else partial(time.clock_gettime_ns, _ID)
