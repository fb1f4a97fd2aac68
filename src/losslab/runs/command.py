"""A test in guests: its files, its command, and its end under a seed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shlex
import shutil
import signal
import tarfile
import tempfile
from calendar import timegm
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from losslab import cellspec
from losslab.backends import base, kernelmessages, runner, virtual
from losslab.backends.base import Instrument, Job
from losslab.backends.snapshot import Snapshots
from losslab.campaign import inputs, state
from losslab.campaign.instrument import at_first_use, instrument
from losslab.emulation.app import USER_FILES
from losslab.emulation.capture import HEAD_BYTES, event_bytes
from losslab.errors import HostError, LosslabError
from losslab.lock import own_folder
from losslab.reading import CONTROL, UsageError
from losslab.runs import inguest
from losslab.study.condition import Condition

PASSED, FAILED, DIFFERING = "passed", "failed", "differing"
# Folders in which a guest looks for a command (containers/host/init).
PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
COMMAND = ["python3", str(inguest.JOB / "inguest.py")]
DIGITS = 8  # of an output's digest
BEFORE, AFTER = 3, 2  # lines around the first that differs


@dataclass(frozen=True)
class End:
    """How a test ended under a seed.

    Attributes:
        seed: The seed.
        status: Exit status as a shell shows it; None if losslab ended the guest.
        why: Why it failed, beside its status; empty if it passed.
        output: What it printed, standard output and error in their order.
        virtual_s: Virtual time that it took.
        verdict: PASSED, FAILED or DIFFERING.
        packets: Lines of its packets, if they were recorded.
        events: Lines of its TCP events, if they were recorded.
    """

    seed: int
    status: int | None
    why: str
    output: bytes
    virtual_s: float = 0.0
    verdict: str = FAILED
    packets: Sequence[str] = ()
    events: Sequence[str] = ()

    @property
    def code(self) -> str:
        """The first digits of the SHA-256 of the output."""
        return hashlib.sha256(self.output).hexdigest()[:DIGITS]

    def same(self, other: End) -> bool:
        """Return whether another run of the seed has the same bytes and took the same time."""
        return (self.status, self.output, self.virtual_s) == (
            other.status, other.output, other.virtual_s,
        )  # fmt: skip


@dataclass(frozen=True)
class Test:
    """A command with its files, image and kernel."""

    command: tuple[str, ...]
    tools: Instrument
    files: Path | None  # tar file of the user's files
    limit_s: float  # virtual time
    timeout_s: float  # wall time
    repeat: int = 1  # runs of each seed
    day: date | None = None  # date on which the test begins, instead of the guest's

    def end(self, seed: int, snapshots: Snapshots) -> End:
        """Run a seed; again if it failed, and as often as asked for; say whether all are equal."""
        first = self.once(seed, snapshots)
        runs = self.repeat if first.verdict == PASSED else max(2, self.repeat)
        for number in range(2, runs + 1 if first.status is not None else 1):
            again = self.once(seed, snapshots)
            if not first.same(again):
                why = f"run {number} of this seed ended in another way than run 1"
                return replace(first, verdict=DIFFERING, why=f"{why}: {difference(first, again)}")
        return first

    def once(self, seed: int, snapshots: Snapshots, records: bool = False) -> End:
        """Run a seed once; with `records`, also return its packets and TCP events.

        Raises HostError if the host cannot run it.
        """
        begin_s = self.day and timegm(self.day.timetuple())
        test = {"command": self.command, "limit_s": self.limit_s, "records": records,
                "begin_s": begin_s}  # fmt: skip
        with own_folder(Path(tempfile.gettempdir()), "losslab-run-") as folder:
            shutil.copy(inguest.__file__, folder / "inguest.py")
            if self.files is not None:
                shutil.copyfile(self.files, folder / inguest.FILES)
            spec = {"kind": "command", "command": COMMAND, "test": test}
            job = Job(spec, folder, seed, self.timeout_s, snapshots=snapshots)
            lost = ""
            try:
                runner.run(virtual.Guest(), self.tools, job)
            except HostError:
                raise
            except LosslabError as error:
                lost = str(error)
            output = folder / inguest.OUTPUT
            printed = output.read_bytes() if output.is_file() else b""
            file = folder / inguest.END
            if lost or not file.is_file():
                return End(seed, None, lost or "the guest was ended by its program", printed)
            ended: dict[str, Any] = json.loads(file.read_text())
            end = End(seed, *_reason(ended), printed, ended["virtual_s"])
            warnings = kernelmessages.TROUBLE.findall(
                (folder / base.CONSOLE_FILE).read_text(errors="replace")
            )
            if warnings:
                end = replace(end, why=f"the kernel printed: {warnings[0].strip()}")
            verdict = FAILED if end.why else PASSED
            if not records:
                return replace(end, verdict=verdict)
            packets = (folder / inguest.PACKETS).read_text().splitlines()
            events = list(_events((folder / inguest.EVENTS).read_bytes(), ended["begin_s"]))
            return replace(end, verdict=verdict, packets=packets, events=events)


def _events(content: bytes, begin_s: float) -> Iterator[str]:
    """Yield a line for each TCP event of the kernel's record, as `inguest` does for packets."""
    import numpy as np

    if not content:
        return
    size = event_bytes(content)
    ports, last_s = dict[int, int](), begin_s
    dtype = np.dtype([*state.HEAD, ("private", "u1", (size - HEAD_BYTES,))])
    for row in np.frombuffer(content, dtype):
        flow = ports.setdefault(int(row["port"]), len(ports) + 1)
        kind = state.EVENTS.get(str(row["event"]), row["event"])
        last_s = max(last_s, int(row["us"]) / 1e6)  # a server's new connection has no time yet
        yield (
            f"{last_s - begin_s:.6f}\tconnection {flow} {row['algorithm'].decode()} {kind} "
            f"state {state.CA_STATES.get(str(row['ca_state']))} cwnd {row['cwnd']} ssthresh "
            f"{row['ssthresh']} in flight {row['in_flight']} lost {row['lost']}"
        )


def _reason(ended: dict[str, Any]) -> tuple[int, str]:
    status = int(ended["status"])
    if ended["why"] or not status:
        return (status if status >= 0 else 128 - status), ended["why"]
    if status < 0:
        return 128 - status, f"killed by {signal.Signals(-status).name}"
    return status, f"exit status {status}"


def difference(one: End, other: End) -> str:
    """Describe the first difference of two runs, in a line."""
    if one.status != other.status:
        return f"status {one.status} and {other.status}"
    if one.output != other.output:
        lines = zip(one.output.splitlines(), other.output.splitlines(), strict=False)
        count = next((n for n, (a, b) in enumerate(lines, 1) if a != b), "last")
        return f"line {count} of the output"
    return f"{one.virtual_s:.9f} s and {other.virtual_s:.9f} s of virtual time"


def first_differences(one: End, other: End) -> list[str]:
    """Return the first line of the output, packet and TCP event that differ; empty if none does."""
    ends = one, other
    return [
        *first_difference([end.output.decode(errors="replace").splitlines() for end in ends],
                          "line {} of the output"),
        *first_difference([end.packets for end in ends], "packet {}"),
        *first_difference([end.events for end in ends], "TCP event {}"),
    ]  # fmt: skip


def first_difference(sides: Sequence[Sequence[str]], what: str) -> list[str]:
    """Return the first line that differs and those around it.

    A line may begin with a time and a tab. Times count only if nothing else differs, because a
    delay that is drawn shifts all that follows.
    """
    texts = [[each.rpartition("\t")[2] for each in side] for side in sides]
    at = _parting(*texts)
    more = ""
    if at is None:
        at, more = _parting(*sides), " in its time"
    if at is None:
        return []
    shown = [[CONTROL.sub("?", each.replace("\t", " s ", 1)) for each in side] for side in sides]
    lines = [f"{what.format(at + 1)} differs{more}:"]
    lines += [f"  both  {each}" for each in shown[0][max(0, at - BEFORE) : at]]
    for name, side in zip("AB", shown, strict=True):
        rest = side[at : at + 1 + AFTER] or ["no more"]
        lines += [f"  {name}     {each}" for each in rest]
    return lines


def _parting(one: Sequence[str], other: Sequence[str]) -> int | None:
    pairs = itertools.zip_longest(one, other)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), None)


def condition_of(image: str, kernel: str) -> Condition:
    """Return a condition that needs what a test needs; UsageError if a name is unknown."""
    axes = {"app": "command", "sender_command": "true", "receiver_command": "true",
            "algorithm": "own", "image": image, "kernel": kernel}  # fmt: skip
    return cellspec.condition(axes)


@contextmanager
def prepared(
    command: Sequence[str], bring: Sequence[str], image: str, kernel: str, limit_s: float,
    timeout_s: float, repeat: int, day: date | None = None,
) -> Iterator[Test]:  # fmt: skip
    """Yield a test; UsageError before a guest boots if a name or a file is wrong."""
    condition = condition_of(image, kernel)
    with own_folder(Path(tempfile.gettempdir()), "losslab-run-files-") as folder:
        names = [inputs.named(each) for each in bring]
        for name in names:
            inputs.give(replace(condition, bring=name), folder, USER_FILES)
        at_first_use(condition)
        tools = instrument(condition=condition)
        _require_command(command[0], tools.image_root, folder / USER_FILES)
        files = _packed(folder / USER_FILES, folder / inguest.FILES) if names else None
        yield Test(tuple(command), tools, files, limit_s, timeout_s, repeat, day)


def _require_command(name: str, root: Path, brought: Path) -> None:
    """Refuse a command that neither the image nor the user's files have."""
    if "/" not in name:
        exists = any(os.path.lexists(root / folder / name) for folder in PATH)
        where, hint = (
            "the image",
            f"write ./{name} for a file of --bring, or choose another --image",
        )
    elif name.startswith("/"):
        exists = os.path.lexists(root / name[1:])
        where, hint = "the image", "the guest has no other files of this machine; use --bring PATH"
    else:
        exists = (brought / name).is_file()
        where, hint = "the files of --bring", "use --bring PATH; a folder's content is copied"
        if exists and not os.access(brought / name, os.X_OK):
            raise UsageError(
                f"the command must be executable, found {name} without this permission",
                hint=f"chmod +x {shlex.quote(name)}, or name its interpreter before it",
            )
    if not exists:
        raise UsageError(f"the command must be in {where}, found no {name} there", hint=hint)


def _packed(folder: Path, file: Path) -> Path:
    """Pack a folder into a tar file whose bytes depend on the files alone."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = virtual.START_NS // 10**9
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(file, "w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=plain)
    return file
