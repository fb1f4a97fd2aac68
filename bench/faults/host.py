"""Hosts without free space, without built parts, or with replaced ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.faults.kit import (
    LOSSLAB,
    QUICK,
    ROOT,
    WAIT_S,
    Outcome,
    SkippedError,
    break_and_restore,
    cell_command,
    contents,
    first_line,
    own_cache,
    run,
    wait_for,
)
from bench.faults.mounts import filled, in_mount_namespace, inside_mounts
from losslab.backends import resources
from losslab.instrument.cache import cache_folder


def small_shm(folder: Path) -> Outcome:
    """A /dev/shm of 64 MB, as in a Docker container."""
    return _other_scratch(folder, "size=64m", "MiB free")


def noexec_shm(folder: Path) -> Outcome:
    """A /dev/shm that is mounted noexec, as on hardened systems."""
    return _other_scratch(folder, "noexec", "noexec")


def _other_scratch(folder: Path, option: str, word: str) -> Outcome:
    done = in_mount_namespace(
        f"mount -t tmpfs -o {option} tmpfs /dev/shm", "measure", *QUICK, "--out", folder / "out"
    )
    return Outcome(
        f"/dev/shm mounted with {option}",
        f"valid; {first_line(done.stderr, word)}",
        good=done.returncode == 0 and word in done.stderr,
    )


def no_scratch(folder: Path) -> Outcome:
    """A host without any folder for the guest's memory."""
    if ROOT.is_relative_to("/tmp"):
        raise SkippedError("the project lies in /tmp, which this fault hides")
    done = in_mount_namespace(
        "mount -t tmpfs -o noexec tmpfs /dev/shm; mount -t tmpfs -o noexec tmpfs /tmp; "
        f"mkdir -p {folder}; unset TMPDIR LOSSLAB_SCRATCH",
        "measure", *QUICK, "--out", folder / "out",
    )  # fmt: skip
    return Outcome(
        "/dev/shm and /tmp mounted noexec",
        f"exit {done.returncode}: {first_line(done.stderr, 'LOSSLAB_SCRATCH')}",
        good=done.returncode == 1 and "set LOSSLAB_SCRATCH" in done.stderr,
    )


def odd_scratch(folder: Path) -> Outcome:
    """A folder for the guest's memory with separators in its path."""
    outs = []
    for number, name in enumerate(["plain", "a blank, a 'quote\" and a comma", "relative"]):
        (folder / name).mkdir()
        place = name if name == "relative" else folder / name
        outs.append(folder / f"out{number}")
        done = subprocess.run(
            [*LOSSLAB, "measure", *QUICK, "--out", str(outs[-1])], cwd=folder, check=False,
            capture_output=True, text=True, timeout=600,
            env=os.environ | {"LOSSLAB_SCRATCH": str(place)},
        )  # fmt: skip
        if done.returncode != 0 or "note: guest memory" in done.stderr:
            return Outcome(f"LOSSLAB_SCRATCH={name}", done.stderr.strip(), good=False)
    same = all(contents(out) == contents(outs[0]) for out in outs)
    return Outcome(
        "a relative LOSSLAB_SCRATCH, and one with blanks, commas and quotes",
        "valid, with the same bytes" if same else "other bytes",
        good=same,
    )


def low_limits(folder: Path) -> Outcome:
    """Hard limits under which a guest hangs or does not boot."""
    words = []
    for name, limit in {"nofile": 40, "as": 2 * 10**9, "fsize": 10**9}.items():
        limited = ["prlimit", f"--{name}={limit}:{limit}", "--", *LOSSLAB]
        done = run(*limited, "measure", *QUICK, "--out", folder / name)
        what, shell, need, _ = resources.NEEDED[name]
        words.append(first_line(done.stderr, what))
        if done.returncode != 1 or not words[-1] or f"`{shell} {need}`" not in done.stderr:
            return Outcome(f"a hard limit of {what}", done.stderr.strip(), good=False)
    return Outcome("hard limits of files, address space and file size", f"exit 1: {words[0]}")


def full_disk(folder: Path) -> Outcome:
    """A full results folder."""
    small = folder / "small"
    done = in_mount_namespace(
        f"mkdir {small}; mount -t tmpfs -o size=100k tmpfs {small}",
        "measure", *QUICK, "--out", small / "out",
    )  # fmt: skip
    return Outcome(
        "a results folder with 100 kB of free space",
        f"exit {done.returncode}: {first_line(done.stderr, 'free disk space')}",
        good=done.returncode == 2 and "free disk space" in done.stderr,
    )


def read_only_image(folder: Path) -> Outcome:
    """A cache on a read-only file system."""
    cache = cache_folder()
    done = in_mount_namespace(
        f"mount --bind '{cache}' '{cache}'; mount -o remount,ro,bind '{cache}'",
        "measure", *QUICK, "--out", folder / "out",
    )  # fmt: skip
    plain = run(*LOSSLAB, "measure", *QUICK, "--out", folder / "plain")
    same = contents(folder / "out") == contents(folder / "plain")
    return Outcome(
        "kernel and image on a read-only file system",
        "valid, with the same bytes as from a writable one" if same else "other bytes",
        good=done.returncode == plain.returncode == 0 and same,
    )


def missing_kernel(folder: Path) -> Outcome:
    """An empty cache."""
    environment = os.environ | {"LOSSLAB_CACHE": str(folder / "empty")}
    done = run(*LOSSLAB, "measure", *QUICK, "--out", folder / "out", env=environment)
    return Outcome(
        "an empty cache",
        f"exit {done.returncode}: {first_line(done.stderr, 'make setup')}",
        good=done.returncode == 1 and "make setup" in done.stderr,
    )


def full_scratch(folder: Path) -> Outcome:
    """Folders for guests' memory that fill up during a campaign."""
    if ROOT.is_relative_to("/tmp"):
        raise SkippedError("the project lies in /tmp, which this fault hides")
    return inside_mounts(
        # /tmp is too small for a guest's memory, but large enough for the results.
        "mount -t tmpfs -o size=500m tmpfs /dev/shm; mount -t tmpfs -o size=200m tmpfs /tmp; "
        f"mkdir -p {folder}; unset TMPDIR LOSSLAB_SCRATCH",
        campaign_with_full_scratch, folder,
    )  # fmt: skip


def campaign_with_full_scratch(folder: Path) -> Outcome:
    """Run the fault with this process's own /dev/shm."""
    found = break_and_restore(folder, filled(Path("/dev/shm")))
    return found.outcome("scratch folders full during a campaign, then free space again", "memory")


def full_results(folder: Path) -> Outcome:
    """A disk of results that fills up between two replicates of a cell."""
    small = folder / "small"
    return inside_mounts(
        f"mkdir {small}; mount -t tmpfs -o size=40m tmpfs {small}", cell_with_full_results, small
    )


def cell_with_full_results(folder: Path) -> Outcome:
    """Run the fault in a folder with a small file system of its own."""
    job = subprocess.Popen(
        cell_command(folder, 5), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    wait_for((folder / "0" / "manifest.json").exists, "the first replicate")
    with filled(folder):
        _, words = job.communicate(timeout=WAIT_S)
        names = sorted(path.name for path in folder.iterdir())
        before = contents(folder / "0")
    again = run(*cell_command(folder, 2))
    kept = contents(folder / "0") == before
    return Outcome(
        "a full disk of results during a cell, then free space again",
        f"exit {job.returncode}: {first_line(words, 'free disk space')}",
        "nothing" if kept else "a finished replicate changed",
        good=job.returncode == 1 and "free disk space" in words and "cell.json" not in names
        and again.returncode == 0 and kept and "Traceback" not in words
        and not list(folder.glob(".*")),
    )  # fmt: skip


def deleted_image(folder: Path) -> Outcome:
    """A host image that is deleted during a campaign."""
    cache = own_cache(folder)
    aside = folder / "aside"
    subprocess.run(["cp", "-al", cache.image, aside], check=True)

    @contextlib.contextmanager
    def deleted() -> Iterator[None]:
        shutil.rmtree(cache.image)
        yield
        shutil.rmtree(cache.image, ignore_errors=True)
        aside.rename(cache.image)

    found = break_and_restore(folder, deleted(), cache.environment)
    return found.outcome("an image deleted during a campaign, then restored", "image")


def replaced_kernel(folder: Path) -> Outcome:
    """A kernel that is replaced during a campaign."""
    cache = own_cache(folder)
    linux = cache.kernel / "linux"
    aside = folder / "linux"
    linux.rename(aside)
    shutil.copy2(aside, linux)

    @contextlib.contextmanager
    def replaced() -> Iterator[None]:
        other = folder / "other"
        shutil.copy2(aside, other)
        with other.open("ab") as file:
            file.write(b"another build")
        other.rename(linux)
        yield
        aside.rename(linux)

    found = break_and_restore(folder, replaced(), cache.environment)
    return found.outcome("the kernel replaced in mid-campaign, then put back", "found another")
