"""Timers: wait for descriptors and for times with a single system call.

`select.select` and `time.sleep` also read the clock, to continue after a signal. In a guest each
system call is a context switch between program and kernel, which is most of the CPU time of a
program that waits once per packet.
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
    """Waits until a descriptor is readable."""

    def __init__(self, *descriptors: int) -> None:
        self._polled = (_Pollfd * len(descriptors))(*(_Pollfd(fd, POLLIN, 0) for fd in descriptors))
        self._timeout = _Timespec()

    def wait(self, timeout_ns: int | None) -> list[int]:
        """Return the readable descriptors, including those at the end of their file.

        Return an empty list after `timeout_ns` (None: no timeout) or a signal; see ppoll(2).
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


def sleep_until(time_ns: int) -> None:
    """Sleep until a time of CLOCK_MONOTONIC, also across signals; see clock_nanosleep(2)."""
    until = _Timespec(*divmod(time_ns, NS_PER_S))
    status = errno.EINTR
    # clock_nanosleep returns the error number and does not set errno.
    while status == errno.EINTR:
        status = _libc.clock_nanosleep(
            time.CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(until), None
        )
    if status != 0:
        raise OSError(status, os.strerror(status))


def wait_for_whole_second() -> None:
    """Sleep until CLOCK_MONOTONIC's next whole second, to align the clock.

    In virtual time computing takes no time, but a clock read takes 256 ns and a failed system call
    1 us (arch/um/kernel/skas/syscall.c). Their number while Python starts depends, for example, on
    the length of losslab's modules, which must not change the results. `time.sleep` rounds its
    argument and would end a nanosecond early or late.
    """
    sleep_until((int(time.monotonic()) + 1) * NS_PER_S)
