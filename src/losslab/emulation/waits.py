"""Wait for descriptors and for time, in one system call.

`select.select` and `time.sleep` look at the clock as well, to go on after a signal. In a guest each
system call makes kernel and program change places, which is most of what a program costs that waits
once per packet.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time

POLLIN = 0x0001  # asm-generic/poll.h
TIMER_ABSTIME = 1  # linux/time.h
NS_PER_S = 10**9

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):  # struct timespec
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Pollfd(ctypes.Structure):  # struct pollfd
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


_libc.ppoll.argtypes = (ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p)
_libc.clock_nanosleep.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Waiter:
    """Waits until a descriptor has something to read."""

    def __init__(self, *descriptors: int) -> None:
        self._polled = (_Pollfd * len(descriptors))(*(_Pollfd(fd, POLLIN, 0) for fd in descriptors))
        self._timeout = _Timespec()

    def wait(self, timeout_ns: int | None) -> list[int]:
        """Return the descriptors that can be read without waiting, after an end also those.

        None of them when the time, without an end for None, is over or a signal came; see ppoll(2).
        """
        timeout = None
        if timeout_ns is not None:
            self._timeout.seconds, self._timeout.nanoseconds = divmod(timeout_ns, NS_PER_S)
            timeout = ctypes.byref(self._timeout)
        count = _libc.ppoll(self._polled, len(self._polled), timeout, None)
        if count > 0:
            return [each.fd for each in self._polled if each.revents]
        if count < 0 and ctypes.get_errno() != errno.EINTR:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return []


def sleep_until(instant_ns: int) -> None:
    """Sleep until an instant of CLOCK_MONOTONIC, whatever signals come; see clock_nanosleep(2)."""
    instant = _Timespec(*divmod(instant_ns, NS_PER_S))
    status = errno.EINTR
    # It returns an error's number and leaves errno alone.
    while status == errno.EINTR:
        status = _libc.clock_nanosleep(
            time.CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(instant), None
        )
    if status != 0:
        raise OSError(status, os.strerror(status))


def wait_for_whole_second() -> None:
    """Sleep until CLOCK_MONOTONIC's next whole second, whatever went before.

    In virtual time computing takes none, but a look at the clock takes 256 ns and a system call
    that fails a microsecond (arch/um/kernel/skas/syscall.c). How many there are while Python starts
    depends on the length of our own modules, among other things that must not decide a measurement.
    `time.sleep` would be a nanosecond early or late, as its seconds are rounded.
    """
    sleep_until((int(time.monotonic()) + 1) * NS_PER_S)
