"""Messages of the kernel, with their levels (/dev/kmsg, Documentation/ABI/testing/dev-kmsg)."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

DEVICE = Path("/dev/kmsg")
# In the folder of a job whose kernel has modules of the user: the messages from before the run.
BOOT_LOG = "boot.log"
# The longest record that a reader may receive (PRINTK_MESSAGE_MAX).
RECORD_BYTES = 2048
LEVELS = 8  # a record's first number is the level, plus the facility times 8
WARNING = 4  # KERN_WARNING; lower levels are worse


@dataclass(frozen=True)
class Message:
    """A message: its level, and its text after the time, as on the console."""

    level: int
    line: str


class KernelLog:
    """Reader of the kernel's messages, from the first that the kernel still has."""

    def __init__(self, device: Path = DEVICE) -> None:
        self._file = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
        self._next = 0  # number of the next message
        self.lost = 0  # messages that the kernel has overwritten before they were read

    def read(self) -> list[Message]:
        """Return the messages since the last call."""
        messages = list[Message]()
        while True:
            try:
                record = os.read(self._file, RECORD_BYTES)
            except BlockingIOError:
                return messages
            except OSError as error:
                if error.errno == errno.EPIPE:  # the next record was overwritten
                    continue
                raise
            if not record:  # of a file
                return messages
            head, _, text = record.decode(errors="replace").partition(";")
            priority, number, microseconds = map(int, head.split(",")[:3])
            self.lost += number - self._next
            self._next = number + 1
            # Further lines name a device.
            line = f"[{microseconds / 1e6:12.6f}] {text.partition(chr(10))[0]}"
            messages.append(Message(priority % LEVELS, line))

    def close(self) -> None:
        """Close the device."""
        os.close(self._file)
