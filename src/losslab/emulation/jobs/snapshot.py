"""How the first program of a guest works: prepare, wait to be copied, do the job, power off."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from losslab.emulation.outcome import write_failure, write_result

# The job's folder: of the guest that waits it is one of its own, of each copy that of its job.
JOB = Path("/mnt/out")
# What is written there returns in every copy of this guest, with a random generator of its own. A
# kernel that does not have it has its job's seed from the beginning, and no copies.
SNAPSHOT = Path("/proc/snapshot")
RB_POWER_OFF = 0x4321FEDC  # linux/reboot.h

What = dict[str, Any]


def serve(prepare: Callable[[What], Callable[[What], What]]) -> None:
    """Do a job, whatever happens leave a result, and power off.

    Args:
        prepare: Does what no seed decides, given what is known of the job then; returns what does
            the rest, given the whole job, and returns its result.
    """
    # Collections would come after so many allocations, those of imports among them, and each looks
    # at the clock. The minute or so that this process has makes too little garbage to matter.
    gc.disable()
    try:
        # Without this, the instrument is at fault: see backends.virtual.
        (JOB / "started").touch()
        do = _ready(prepare)
        # No file of the folder may be open here.
        if SNAPSHOT.exists():
            SNAPSHOT.write_text("wait")
        (JOB / "started").touch()
        write_result(do(_read("job.json")), JOB / "result.json")
    except BaseException as error:
        write_failure(error, JOB / "result.json")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(RB_POWER_OFF)


def _ready(prepare: Callable[[What], Callable[[What], What]]) -> Callable[[What], What]:
    """Prepare; if that fails, every job fails with it."""
    try:
        return prepare(_read("template.json"))
    except BaseException as error:
        failure = error

        def fail(_: What) -> What:
            raise failure

        return fail


def _read(name: str) -> What:
    what: What = json.loads((JOB / name).read_text())
    return what
