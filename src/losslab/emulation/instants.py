"""Begin at a whole second of the clock, whatever went before.

In virtual time computing takes none, but a look at the clock takes 256 ns and a system call that
fails a microsecond (arch/um/kernel/skas/syscall.c). How many there are of these while Python starts
depends on the length of our own modules, among other things that must not decide a measurement.
"""

from __future__ import annotations

import ctypes
import os
import time

TIMER_ABSTIME = 1  # linux/time.h


class _Timespec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def wait_for_whole_second() -> None:
    """Sleep until CLOCK_MONOTONIC's next whole second.

    `time.sleep` would be a nanosecond early or late, as its seconds are rounded.
    """
    instant = _Timespec(int(time.monotonic()) + 1, 0)
    sleep = ctypes.CDLL(None).clock_nanosleep
    status = sleep(time.CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(instant), None)
    if status != 0:  # an error number, not errno: clock_nanosleep(2)
        raise OSError(status, os.strerror(status))
