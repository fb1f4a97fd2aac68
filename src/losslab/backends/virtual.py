"""The virtual backend: boot the pinned kernel as a process, in virtual time, for one job.

No root, no Docker, no kernel module: User-Mode Linux with `time-travel=inf-cpu`, its root folder
the host image, its results in the job's folder. See Documentation/virt/uml in the kernel's source.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from losslab import processes
from losslab.backends import parcel, remedies, resources, template
from losslab.backends.base import (
    CONSOLE_FILE,
    SCRATCH_FULL_BYTES,
    STARTED,
    TEMPLATE_FILE,
    End,
    Instrument,
    Job,
    Needs,
    Start,
    load_result,
    refuse_failure,
    without_result,
)
from losslab.errors import GuestLostError, LosslabError
from losslab.lock import own_folder
from losslab.study.condition import Condition
from losslab.study.seeds import derived_seed

MEMORY = "2G"  # sparse; with less, TCP's share makes windows collapse
# Any fixed instant: 2024-01-01T00:00:00Z. Dates inside the guest are part of the result.
START_NS = 1_704_067_200_000_000_000
VIRTUAL_TIME = ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
TROUBLE = ("Kernel panic", "WARNING: ", "BUG: ", "Oops", "Call Trace", "Out of memory")
# How long a guest's first program may take to begin its job. It takes half a second, and under an
# emulated processor half a minute.
START_LIMIT_S = 120.0
# A guest needs up to 5 s of wall time per second of a 1 Gbit/s flow on a slow, busy host; a minute
# to start is ten times what it takes.
START_S = 60.0
# The folder of the host that a guest may write to: its kernel's working folder, which of a copy is
# its job's. Not a link, which the mount would follow.
OUT = "/proc/self/cwd/."
# Until its job's seed counts, a guest draws the same for every job.
BOOT_SEED = 1


class Guest:
    """Mininet's own hosts in a kernel of ours."""

    needs = Needs(
        job="emulation/jobs/guest.py", kernel="plain", images=("host",), command="make setup",
        start_s=START_S,
    )  # fmt: skip
    # Folders of the host that /init mounts, root folder included; the kernel refuses more.
    host_mounts = 3

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse nothing: a guest brings all that a condition needs."""
        return {}

    def root(self, tools: Instrument) -> Path:
        """Return the image that is the guest's root folder."""
        return tools.image_root

    def furnish(self, tools: Instrument, folder: Path) -> None:
        """Give a guest's working folder, or a job's, what its first program finds there."""

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Start a copy of a guest that waits; or a guest of its own."""
        self.furnish(tools, job.folder)
        if job.alone or job.interactive or not tools.copies:
            with self._seat(tools) as seat:
                _prepare(job, job.folder)
                seed = _kernel_seed(job)
                # A kernel without snapshots has its seed from the beginning.
                words = [f"snapshot=stay:{seed}" if tools.copies else f"random.seed={seed}"]
                command = seat.command(tools, words, virtual_time=not job.interactive)
                yield Start(
                    lambda console: seat.spawn(
                        command, job.folder, None if job.interactive else console
                    ),
                    start_limit_s=START_LIMIT_S,
                    scratch=seat.folder,
                )
            return
        with contextlib.ExitStack() as stack:
            templates = job.templates or stack.enter_context(template.Templates())
            purpose = (tools.kernel, *tools.image_roots, job.preparation)
            waiting, boot_s = templates.get(purpose, lambda: self._waiting(tools, job))
            yield Start(
                lambda _: waiting.copy(_kernel_seed(job), job.folder, job.folder / CONSOLE_FILE),
                before_s=boot_s,
                start_limit_s=START_LIMIT_S,
                scratch=waiting.folder,
            )

    @contextlib.contextmanager
    def _seat(self, tools: Instrument) -> Iterator[_Seat]:
        """Give a guest a CPU, and a folder of links and copies."""
        resources.require_limits()
        scratch = resources.scratch_folder()
        with own_folder(scratch, "losslab-guest-") as folder, resources.own_cpu() as cpu:
            (folder / "root").symlink_to(self.root(tools).resolve())
            parcel.pack(folder / "src")
            descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                yield _Seat(folder, descriptor, cpu, self.host_mounts)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _waiting(self, tools: Instrument, job: Job) -> Iterator[template.Template]:
        """Boot a guest that makes everything ready for a job like this, and waits."""
        with self._seat(tools) as seat:
            self.furnish(tools, seat.folder)
            _prepare(job, seat.folder)

            def spawn(words: list[str], fds: list[int], console: IO[bytes]) -> processes.Process:
                return seat.spawn(seat.command(tools, words), seat.folder, console, fds)

            def refuse(status: int | None, console: str) -> LosslabError:
                full = shutil.disk_usage(seat.folder).free < SCRATCH_FULL_BYTES
                remedies.refuse_host_failure(console, status, full)
                remedies.refuse_broken_process(console)
                if not (seat.folder / STARTED).exists():
                    return remedies.not_started(console, status)
                how = "it at work still" if status is None else f"exit status {status}"
                return GuestLostError(
                    f"a guest must be ready for its job within {limit_s:g} s, found {how}; "
                    f"last on its console: {remedies.last_words(console)}"
                )

            limit_s = START_LIMIT_S + self.needs.start_s
            console = seat.folder / CONSOLE_FILE
            with template.waiting(spawn, console, limit_s, refuse) as waiting:
                yield waiting

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        """As `Backend.result`."""
        result = load_result(job)
        failed = not result or "error" in result or result.get("reasons")
        if failed or end.status:
            # A check may have failed for what the host did.
            remedies.refuse_host_failure(console, end.status, end.scratch_full)
        remedies.refuse_broken_process(console)
        if not (job.folder / STARTED).exists():
            raise remedies.not_started(console, end.status)
        said = f"last on its console: {remedies.last_words(console)}"
        if end.status is None or not result:
            raise without_result(job, end, "guest", said)
        if end.status:
            # It writes result.json before its other files are sure to be on the host.
            raise GuestLostError(
                f"the guest must power off by itself, found exit status {end.status}; {said}"
            )
        refuse_failure(result)
        reasons = console_reasons(console)
        return result | ({"reasons": [*result["reasons"], *reasons]} if "reasons" in result else {})


@dataclass(frozen=True)
class _Seat:
    """Where a guest is while it runs."""

    folder: Path  # in the scratch folder, gone at the end
    descriptor: int  # of the folder; its kernel has it, too
    cpu: int
    host_mounts: int

    @property
    def variables(self) -> dict[str, str]:
        """Its kernel's whole environment; its memory lies in TMPDIR."""
        return {"HOME": str(self.folder), "TMPDIR": str(self.folder), "PATH": "/usr/bin:/bin"}

    def spawn(
        self, command: Sequence[str], cwd: Path, console: IO[bytes] | None, fds: Sequence[int] = ()
    ) -> processes.Process:
        """Start its kernel; further descriptors stay open in it."""
        return processes.spawn(
            command, cpu=self.cpu, raise_limits=resources.RAISED, console=console, cwd=cwd,
            variables=self.variables, pass_fds=[*fds, self.descriptor],
        )  # fmt: skip

    def command(
        self, tools: Instrument, words: Sequence[str], virtual_time: bool = True
    ) -> list[str]:
        """Write the command that boots it; it works in whatever folder that is started in."""
        # A blank, comma or quote in the folder's own path would end a word of the command line.
        here = f"/proc/self/fd/{self.descriptor}"
        return [
            "setarch", "-R",
            str(tools.kernel),
            f"mem={MEMORY}",
            "rootfstype=hostfs", f"rootflags={here}/root", "ro", "init=/init",
            # Programs of the guest's root reach no other file of the host: see kernel patch 0010.
            f"hostfs=,mounts={self.host_mounts},writable={OUT}", "noreboot",
            *(VIRTUAL_TIME if virtual_time else []),
            f"random.seed={BOOT_SEED}",
            "con0=fd:0,fd:1", "con=null", "ssl=null", "quiet", "ipv6.disable_ipv6=1",
            f"uml_dir={here}/", "umid=guest", *tools.boot, *words,
            f"LOSSLAB_SOURCE={here}/src",
            f"LOSSLAB_OUT={OUT}",
        ]  # fmt: skip


def _kernel_seed(job: Job) -> int:
    return derived_seed(job.seed, "kernel")


def _prepare(job: Job, folder: Path) -> None:
    """Write what a guest is to do before its job's seed is known."""
    text = json.dumps(job.preparation, indent=1, sort_keys=True)
    (folder / TEMPLATE_FILE).write_text(text + "\n")


def console_reasons(console: str) -> list[str]:
    """Quote the console lines that speak of a warning or panic of the guest's kernel."""
    return [
        f"the guest's console must show no warning, found: {line.strip()}"
        for line in console.splitlines()
        if any(word in line for word in TROUBLE)
    ]
