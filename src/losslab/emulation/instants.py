"""Begin at a whole second of the clock, whatever went before.

In virtual time computing takes none, but a look at the clock takes 256 ns and a system call that
fails a microsecond (arch/um/kernel/skas/syscall.c). How many there are of these while Python starts
depends on the length of our own modules, among other things that must not decide a measurement.
"""

from __future__ import annotations

import time

from losslab.emulation.waits import NS_PER_S, sleep_until


def wait_for_whole_second() -> None:
    """Sleep until CLOCK_MONOTONIC's next whole second.

    `time.sleep` would be a nanosecond early or late, as its seconds are rounded.
    """
    sleep_until((int(time.monotonic()) + 1) * NS_PER_S)
