"""Emulated machines: Debian under QEMU, with a selectable processor model.

They need no root and no /dev/kvm; an emulated processor is about twenty times slower than a real
one.

    base = machine.build_base(machine.PACKAGES)
    disk = machine.pack({"/": folder}, work / "data.img")
    outcome = machine.boot(base, "ls /data > /share/listing", share, {"/data": disk}, cpu="EPYC")

`outcome.console` has the command's standard output and error; `share` gets its files in /share.
All other changes are lost when the machine ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import doctor, processes
from losslab.errors import LosslabError
from losslab.instrument.cache import building, cache_folder, hash_files
from losslab.instrument.debian import debian_archives
from losslab.repository import ROOT

SUITE = "trixie"
# A kernel whose modules include netem, 9p and overlayfs, and packages that load it.
NEEDED = ("linux-image-amd64", "initramfs-tools", "zstd", "kmod", "mount")
# Requirements of `losslab measure`: Debian packages, and parts of this repository.
PACKAGES = (
    "python3", "python3-jsonschema", "python3-tabulate", "python3-urllib3", "python3-yaml",
)  # fmt: skip
SOURCES = ("bench", "config", "containers", "src", "tests/golden", "workflow/schemas")
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# Size of a sparse disk, with room for machines that write, such as container engines.
BASE_BYTES = 6 * 2**30
SLACK_BYTES = 64 * 2**20  # of a packed disk, for the file system's metadata
EMULATOR = "qemu-system-x86_64"
INSTALL = " ".join(["apt-get install", *doctor.debian_packages("machine")])
CONTROL = ".vm"  # in the shared folder: command, disks and exit status
MEMORY_MB = 3072
CONSOLE_LINES = 15
PR_SET_PDEATHSIG = 1  # linux/prctl.h

# The first process. It mounts a few file systems itself, which boots 30 s faster than systemd.
INIT = f"""#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /share
mount -t devpts devpts /dev/pts
for folder in /dev/shm /run /tmp; do mount -t tmpfs tmpfs $folder; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up 2>/dev/null
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share
while read -r device folder; do
    mkdir -p "$folder"
    mount -t ext4 "$device" "$folder"
done </share/{CONTROL}/disks
cd /root
sh /share/{CONTROL}/command </dev/null
echo $? >/share/{CONTROL}/status
sync
echo b >/proc/sysrq-trigger
"""


@dataclass(frozen=True)
class Base:
    """A machine's root disk, kernel and initial RAM disk."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The root file system, ext4."""
        return self.folder / "root.img"


@dataclass(frozen=True)
class Outcome:
    """Exit status and output of a command in a machine."""

    status: int
    console: str
    wall_s: float


def require(*programs: str) -> None:
    """Require a program.

    Raises:
        LosslabError: A program is missing; the message says how to install it.
    """
    missing = [name for name in programs if shutil.which(name, path=_path()) is None]
    if missing:
        raise LosslabError(
            f"an emulated machine needs {', '.join(programs)}, found no {', '.join(missing)}",
            hint=f"run as root: {INSTALL}",
        )


def _path() -> str:
    """Return a search path that includes mkfs.ext4 for ordinary users."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def build_base(packages: Sequence[str] = ()) -> Base:
    """Build a machine of Debian packages once; the cache keeps it by the hash of its content.

    Args:
        packages: Packages besides the kernel and its loader, without recommended ones.

    Raises:
        LosslabError: A tool is missing or a step failed.
    """
    wanted = sorted({*NEEDED, *packages})
    words = (SUITE, INIT, str(BASE_BYTES), *EXCLUDED, *wanted)
    target = cache_folder() / "vm" / hash_files([], *words)
    with building(target) as folder:
        if folder is not None:
            require("mmdebstrap", "mkfs.ext4")
            with tempfile.TemporaryDirectory(prefix=".root-", dir=folder.parent) as work:
                _build_base(wanted, Path(work), folder)
    return Base(target)


def _build_base(packages: Sequence[str], work: Path, folder: Path) -> None:
    log = folder / "build.log"
    tar, root = work / "root.tar", work / "root"
    root.mkdir()
    mirror = next(uri for uri in debian_archives() if "security" not in uri)
    processes.run(
        [
            "mmdebstrap", "--mode", "root" if os.geteuid() == 0 else "unshare",
            "--variant", "apt", "--include", ",".join(packages),
            "--aptopt", 'APT::Install-Recommends "false"',
            *(word for path in EXCLUDED for word in ("--dpkgopt", f"path-exclude={path}")),
            SUITE, str(tar), mirror,
        ],
        log=log,
    )  # fmt: skip
    processes.run(["tar", "-xf", tar, "-C", root, "--exclude=./dev/*"], log=log)
    for name in ("vmlinuz", "initrd.img"):
        shutil.copyfile(root / name, folder / name)  # Debian's links to the newest version
    shutil.rmtree(root / "boot")
    (root / "init.sh").write_text(INIT)
    (root / "init.sh").chmod(0o755)
    _make_disk(root, folder / "root.img", BASE_BYTES, log)


def sources() -> dict[str, Path]:
    """Return the parts of this repository that a machine needs, by their path on its disk."""
    return {f"losslab/{part}": ROOT / part for part in SOURCES}


def pack(trees: Mapping[str, Path], disk: Path) -> Path:
    """Copy folders to a new ext4 disk, which a machine reads far faster than a shared folder.

    Args:
        trees: Folder by its path on the disk, such as `{"kernel": folder}`.
        disk: Path of the new file.
    """
    require("mkfs.ext4")
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=disk.parent) as name:
        root = Path(name) / "root"
        for place, tree in trees.items():
            target = root / place.strip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            # Hard links where possible avoid writing everything twice.
            shutil.copytree(
                tree, target, symlinks=True, dirs_exist_ok=True, copy_function=_link_or_copy
            )
        size = sum(p.lstat().st_size + 4096 for p in root.rglob("*"))
        _make_disk(root, disk, size * 5 // 4 + SLACK_BYTES, Path(name) / "log")
    return disk


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _make_disk(root: Path, disk: Path, size_bytes: int, log: Path) -> None:
    mkfs = shutil.which("mkfs.ext4", path=_path()) or "mkfs.ext4"
    options = ["-q", "-F", "-O", "^has_journal", "-d", root]
    processes.run([mkfs, *options, disk, f"{size_bytes >> 10}k"], log=log)


def boot(
    base: Base,
    command: str,
    share: Path,
    disks: Mapping[str, Path] | None = None,
    cpu: str = "Haswell",
    cpus: int = 1,
    memory_mb: int = MEMORY_MB,
    timeout_s: float = 1800.0,
) -> Outcome:
    """Start a machine, run a command in it as root, and wait for its end.

    Args:
        base: Result of `build_base`.
        command: Shell script.
        share: Existing folder that the machine mounts on /share, writable.
        disks: Disk of `pack` by its mount point.
        cpu: Processor model of QEMU (`qemu-system-x86_64 -cpu help`).
        cpus: Number of processors.
        memory_mb: Memory in MiB.
        timeout_s: Time limit in s of wall time; an emulated machine boots in about 30 s.

    Raises:
        LosslabError: QEMU is missing, or the machine ended without the command's exit status.
    """
    require(EMULATOR)
    control = share / CONTROL
    control.mkdir(exist_ok=True)
    (control / "status").unlink(missing_ok=True)
    (control / "command").write_text(command + "\n")
    mounts = list((disks or {}).items())
    names = [f"/dev/vd{letter}" for letter in "bcdefgh"[: len(mounts)]]
    (control / "disks").write_text(
        "".join(f"{name} {folder}\n" for name, (folder, _) in zip(names, mounts, strict=True))
    )
    files = [base.disk, *(disk for _, disk in mounts)]
    console_path = control / "console"
    begin = time.monotonic()
    with console_path.open("wb") as console:
        process = subprocess.Popen(
            [
                EMULATOR, "-nodefaults", "-no-user-config", "-machine", "q35",
                "-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", str(cpus), "-m", str(memory_mb),
                "-kernel", str(base.folder / "vmlinuz"), "-initrd", str(base.folder / "initrd.img"),
                # Timer interrupts are late on a busy machine; the kernel's check would then
                # report a broken timer.
                "-append", "console=ttyS0 root=/dev/vda rw init=/init.sh quiet panic=-1"
                " mitigations=off no_timer_check",
                # Writes to the disks are discarded at the machine's end.
                *(word for file in files for word in ("-drive", _drive(file))),
                "-virtfs", f"local,path={_escape(share)},mount_tag=share,security_model=none",
                "-device", "virtio-rng-pci", "-display", "none", "-serial", "stdio", "-no-reboot",
            ],
            stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent,  # noqa: PLW1509
        )  # fmt: skip
        hung = False
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    text = console_path.read_text(errors="replace").replace("\r\n", "\n")
    status = control / "status"
    if hung or not status.exists():
        what = f"still running after {timeout_s:g} s" if hung else "none"
        tail = "\n".join(text.splitlines()[-CONSOLE_LINES:])
        raise LosslabError(
            f"the emulated machine ({cpu}) must leave its command's exit status, found {what}; its "
            f"console's last lines:\n{tail}"
        )
    return Outcome(int(status.read_text()), text, time.monotonic() - begin)


def _drive(file: Path) -> str:
    return f"file={_escape(file)},if=virtio,format=raw,snapshot=on,cache=unsafe"


def _escape(path: Path) -> str:
    """Escape a path for QEMU's options, where a comma is doubled."""
    return str(path.resolve()).replace(",", ",,")


def _end_with_parent() -> None:
    """End the machine with its parent: prctl(2), PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
