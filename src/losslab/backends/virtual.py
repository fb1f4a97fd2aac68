"""The virtual backend: run the pinned kernel as a process, in virtual time.

It is User-Mode Linux with `time-travel=inf-cpu` and needs no root, Docker or kernel module. Its
root folder is the host image; results go to the job's folder. See Documentation/virt/uml in the
kernel's source. The hosts are Mininet's, or containers of an engine in the guest.

Booting a guest takes most of a second of CPU time, with containers five. A process that measures
many cells (`backends.snapshot_server`) boots one for all of them. Without such a process, or if its
instrument differs, each process boots its own.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from losslab import processes
from losslab.backends import base, payload, resources, snapshot
from losslab.backends.base import Instrument, Job, Start
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.instrument import image, kernel
from losslab.lock import own_folder
from losslab.study.axes import derived_seed
from losslab.study.condition import Condition

MEMORY = "2G"  # sparse; with less, TCP memory pressure reduces windows
# A fixed time: 2024-01-01T00:00:00Z. Dates in the guest are part of the result.
START_NS = 1_704_067_200_000_000_000
VIRTUAL_TIME = ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
# Time limit for a guest's first program to start its job. It takes 0.5 s, or 30 s on an emulated
# CPU.
START_LIMIT_S = 120.0
# Wall time to start a guest: ten times the usual. On a slow, busy host, a guest then needs up to
# 5 s per second of a 1 Gbit/s flow.
START_S = 60.0
# The host's folder that a guest may write to: its kernel's working folder, for a fork the job's
# folder. It is no symbolic link, which the mount would follow.
OUT = "/proc/self/cwd/."
# Random seed of a guest while it boots, before the job's seed is set.
BOOT_SEED = 1


class Guest:
    """Mininet hosts in a guest."""

    needs = base.Needs(
        job="emulation/jobs/guest.py", guest=True, images=("host",), command="make setup",
        start_s=START_S,
    )  # fmt: skip
    # Number of host folders that /init mounts, including the root folder; the kernel refuses more.
    host_mounts = 3

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Return no entries: a guest needs nothing from the machine."""
        return {}

    def root(self, tools: Instrument) -> Path:
        """Return the image that is the guest's root folder."""
        return tools.image_root

    def add_files(self, tools: Instrument, folder: Path) -> None:
        """Add files for the guest's first program to a guest's or a job's folder."""

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Prepare a fork of a snapshot, or a guest that is booted for the job."""
        self.add_files(tools, job.folder)
        alone = job.alone or job.interactive
        # A guest for a single job is quicker to boot than to boot and fork.
        if alone or (job.snapshots is None and connect(tools) is None):
            with self._resources(tools) as guest, resources.own_cpu() as cpu:
                _prepare(tools, job, job.folder)
                seed = _kernel_seed(job)
                # The guest does not wait. It has the job's seed from the beginning if it runs in
                # real time, in which waiting takes time.
                arguments = [f"{'random.seed=' if job.interactive else 'snapshot=stay:'}{seed}"]
                command = guest.command(tools, arguments, virtual_time=not job.interactive)
                yield Start(
                    lambda console: guest.spawn(
                        command, job.folder, cpu, None if job.interactive else console
                    ),
                    start_limit_s=START_LIMIT_S,
                    scratch=guest.folder,
                )
            return
        with contextlib.ExitStack() as stack:
            snapshots = job.snapshots or stack.enter_context(snapshot.Snapshots())
            purpose = (tools.kernel, tools.boot, *tools.image_roots, job.preparation)
            ready, before_s = snapshots.get(
                snapshot.CELL, purpose, lambda: self._prepared(tools, job, snapshots)
            )
            yield Start(
                lambda _: ready.fork(_kernel_seed(job), job.folder, job.control),
                before_s=before_s,
                start_limit_s=START_LIMIT_S,
                scratch=ready.folder,
            )

    @contextlib.contextmanager
    def _prepared(
        self, tools: Instrument, job: Job, snapshots: snapshot.Snapshots
    ) -> Iterator[snapshot.Snapshot]:
        """Fork a base snapshot, and set it up for a job's condition."""
        bare: snapshot.Base | None = connect(tools) if snapshots.may_share else None
        if bare is None:
            purpose = (tools.kernel, tools.boot, *tools.image_roots)
            bare, _ = snapshots.get(snapshot.BASE, purpose, lambda: self.boot(tools))
        scratch = resources.scratch_folder()
        with own_folder(scratch, "losslab-cell-") as folder, resources.own_cpu() as cpu:
            self.add_files(tools, folder)
            _prepare(tools, job, folder)
            console, limit_s = folder / base.CONSOLE_FILE, self._ready_limit_s
            refuse = functools.partial(_refused, folder, limit_s)
            with snapshot.forked(bare, console, cpu, limit_s, refuse) as of_cell:
                yield of_cell

    @contextlib.contextmanager
    def boot(self, tools: Instrument) -> Iterator[snapshot.Snapshot]:
        """Boot a base snapshot."""
        with self._resources(tools) as guest, contextlib.ExitStack() as booting:
            # While it waits, it needs no CPU.
            cpu = booting.enter_context(resources.own_cpu())
            self.add_files(tools, guest.folder)

            def spawn(
                arguments: list[str], fds: list[int], console: IO[bytes]
            ) -> processes.Process:
                command = guest.command(tools, arguments)
                return guest.spawn(command, guest.folder, cpu, console, fds)

            console, limit_s = guest.folder / base.CONSOLE_FILE, self._ready_limit_s
            refuse = functools.partial(_refused, guest.folder, limit_s)
            with snapshot.booted(spawn, console, limit_s, refuse) as bare:
                booting.close()
                yield bare

    @property
    def _ready_limit_s(self) -> float:
        return START_LIMIT_S + self.needs.start_s

    @contextlib.contextmanager
    def _resources(self, tools: Instrument) -> Iterator[_GuestResources]:
        """Make a folder with links to the image and the payload."""
        resources.require_limits()
        with own_folder(resources.scratch_folder(), "losslab-guest-") as folder:
            (folder / "root").symlink_to(self.root(tools).resolve())
            payload.pack(folder / "src")
            descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                yield _GuestResources(folder, descriptor, self.host_mounts)
            finally:
                os.close(descriptor)

    def result(self, job: Job, end: base.End, console: str) -> dict[str, Any]:
        """Read a job's result; see `Backend.result`."""
        result = base.load_result(job)
        failed = not result or "error" in result or result.get("reasons")
        if failed or end.status:
            # The host may have caused a violation.
            resources.refuse_host_failure(console, end.status, end.scratch_full)
        resources.refuse_broken_process(console)
        if end.crash:
            raise GuestLostError(
                f"the kernel's code must neither crash nor loop forever, found {end.crash}",
                hint="console.log in the run's folder has all that the kernel printed"
                if job.spec.get("kind") == "replicate"
                else "",
            )
        if not (job.folder / base.STARTED).exists():
            raise resources.not_started(console, end.status)
        last_output = f"last on its console: {resources.last_lines(console)}"
        if end.status is None or not result:
            raise base.without_result(job, end, "guest", last_output)
        if end.status:
            # Other files may be incomplete: the guest writes result.json before it syncs them.
            raise GuestLostError(
                f"the guest must power off by itself, found exit status {end.status}; {last_output}"
            )
        base.refuse_failure(result)
        return result


class EngineGuest(Guest):
    """Containers of an engine in a guest."""

    needs = base.Needs(
        job="emulation/jobs/engineguest.py", guest=True, images=base.ENGINE_IMAGES,
        command="make containernet", start_s=base.ENGINE_START_S,
    )  # fmt: skip
    host_mounts = Guest.host_mounts + 1  # the hosts' image
    title = "containernet backend in a guest"

    def requirements(self) -> Iterator[base.Finding]:
        """Yield what `losslab doctor` checks."""
        for name, part in (
            ("pinned kernel", kernel.part().existing()),
            ("engine image (Docker, Containernet)", image.part(image.ENGINE).existing()),
            ("host image", image.part().existing()),
        ):
            yield base.Finding(
                name, part is not None, str(part or "not built"), "make containernet"
            )

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Return where the containers run."""
        return {"where": base.GUEST}

    def root(self, tools: Instrument) -> Path:
        """Return the engine image, in which containers/engine/init mounts the host image."""
        return tools.engine

    def add_files(self, tools: Instrument, folder: Path) -> None:
        """Add a link to the host image."""
        (folder / "image").symlink_to(tools.image_root.resolve())


@dataclass(frozen=True)
class _GuestResources:
    """Resources of a running guest."""

    folder: Path  # in the scratch folder; removed at the end
    descriptor: int  # of the folder; also open in the guest's kernel
    host_mounts: int

    @property
    def variables(self) -> dict[str, str]:
        """The whole environment of the guest's kernel; TMPDIR is the folder of its memory."""
        return {"HOME": str(self.folder), "TMPDIR": str(self.folder), "PATH": "/usr/bin:/bin"}

    def spawn(
        self,
        command: Sequence[str],
        cwd: Path,
        cpu: int,
        console: IO[bytes] | None,
        fds: Sequence[int] = (),
    ) -> processes.Process:
        """Start the guest's kernel on a CPU; `fds` stay open in it."""
        return processes.spawn(
            command, cpu=cpu, raise_limits=resources.RAISED, console=console, cwd=cwd,
            variables=self.variables, pass_fds=[*fds, self.descriptor],
        )  # fmt: skip

    def command(
        self, tools: Instrument, arguments: Sequence[str], virtual_time: bool = True
    ) -> list[str]:
        """Return the command that boots the guest; its working folder is that of the process."""
        # The path of the folder may have spaces, commas or quotes, which would end an argument.
        folder = f"/proc/self/fd/{self.descriptor}"
        return [
            "setarch", "-R",
            str(tools.kernel),
            f"mem={MEMORY}",
            "rootfstype=hostfs", f"rootflags={folder}/root", "ro", "init=/init",
            # Root in the guest cannot access other files of the host: see kernel patch 0010.
            f"hostfs=,mounts={self.host_mounts},writable={OUT}", "noreboot",
            *(VIRTUAL_TIME if virtual_time else []),
            f"random.seed={BOOT_SEED}",
            "con0=fd:0,fd:1", "con=null", "ssl=null", "quiet", "ipv6.disable_ipv6=1",
            # A small table of connections: the sampler of TCP walks all of it, 50 times a second.
            "thash_entries=512",
            f"uml_dir={folder}/", "umid=guest", *tools.boot, *arguments,
            f"LOSSLAB_SOURCE={folder}/src",
            f"LOSSLAB_OUT={OUT}",
        ]  # fmt: skip


def _refused(folder: Path, limit_s: float, status: int | None, console: str) -> LosslabError:
    with contextlib.suppress(OSError, ValueError, KeyError):
        # Its first program failed, and wrote why.
        return GuestLostError(json.loads((folder / base.RESULT_FILE).read_text())["error"])
    full = shutil.disk_usage(folder).free < base.SCRATCH_FULL_BYTES
    resources.refuse_host_failure(console, status, full)
    resources.refuse_broken_process(console)
    if not (folder / base.STARTED).exists():
        return resources.not_started(console, status)
    state = "it is not" if status is None else f"exit status {status}"
    return GuestLostError(
        f"a snapshot must be ready within {limit_s:g} s, found {state}; "
        f"last on its console: {resources.last_lines(console)}"
    )


def _kernel_seed(job: Job) -> int:
    return derived_seed(job.seed, "kernel")


def _prepare(tools: Instrument, job: Job, folder: Path) -> None:
    """Write the part of a job that does not depend on its seed."""
    boot = {"boot": list(tools.boot)} if tools.boot else {}
    text = json.dumps(job.preparation | boot, indent=1, sort_keys=True)
    (folder / base.SNAPSHOT_FILE).write_text(text + "\n")


# Environment variable with the path of the server's socket.
VARIABLE = "LOSSLAB_BASE_SNAPSHOTS"
MESSAGE_BYTES = 65_536
# Limit of a request: others may wait for guests with containers to boot.
REQUEST_LIMIT_S = 600.0
FORKED, FAILED = "started", "failed"


def describe(tools: Instrument) -> dict[str, Any]:
    """Return what decides a base snapshot: the instrument and the guest's code."""
    return {
        "backend": tools.backend,
        "where": tools.where,
        "kernel": str(tools.kernel.resolve()),
        "images": [str(root.resolve()) for root in tools.image_roots],
        "boot": list(tools.boot),
        "payload": payload_digest(),
    }


@functools.cache
def payload_digest() -> str:
    """Return the SHA-256 of the guest's code, as this process packs it."""
    digest = hashlib.sha256()
    for name, path in payload.files().items():
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True)
class SharedBase:
    """Base snapshot of the server."""

    path: str
    wanted: dict[str, Any]

    def fork_snapshot(self, folder: Path, cpu: int, control: int) -> int:
        """Fork it, as `snapshot.Base`."""
        request = self.wanted | {"folder": str(folder.resolve()), "cpu": cpu}
        try:
            with _connected(self.path) as server:
                socket.send_fds(server, [json.dumps(request).encode()], [control])
                status, _, text = server.recv(MESSAGE_BYTES).decode().partition(" ")
        except OSError as error:
            status, text = "failed", f"no reply of the process that shares snapshots: {error}"
        if status != FORKED:
            raise HostError(text or "the process that shares snapshots must run, found its end")
        return int(text)


def connect(tools: Instrument) -> SharedBase | None:
    """Return the shared base snapshot for an instrument; None if no process shares one."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    wanted = describe(tools)
    # The server answers a request without a folder with whether it has the instrument.
    with contextlib.suppress(OSError), _connected(path) as server:
        server.send(json.dumps(wanted).encode())
        if server.recv(MESSAGE_BYTES).decode() == FORKED:
            return SharedBase(path, wanted)
    return None


@contextlib.contextmanager
def _connected(path: str) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.settimeout(REQUEST_LIMIT_S)
        server.connect(path)
        yield server
