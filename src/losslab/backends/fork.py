"""Guests that were forked from a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from losslab import processes

if TYPE_CHECKING:
    from losslab.backends.snapshot import Snapshot


class Fork:
    """A guest that was forked from a snapshot; a `processes.Running`."""

    def __init__(self, snapshot: Snapshot, pid: int) -> None:
        self._snapshot, self.pid = snapshot, pid
        self.returncode: int | None = None
        self.cpu_s: float | None = None  # CPU time of its kernel and processes, after its end

    def poll(self) -> int | None:
        """Return the exit status; None while the guest runs."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the guest's end; without a timeout, it must have been killed before."""
        status = self._status(timeout)
        if status is None:
            raise processes.TimeoutExpired(f"guest {self.pid}", timeout or 0.0)
        return status

    def _status(self, limit_s: float | None) -> int | None:
        if self.returncode is None:
            found = self._snapshot.ended(self.pid, limit_s)
            if found is not None:
                self.returncode, self.cpu_s = found
        return self.returncode
