"""Build the images without Docker: Debian 13 and a list of packages by mmdebstrap, as a folder.

The host image is what an emulated host has; the engine image adds what runs it as containers. As
root this uses mmdebstrap's root mode, as an ordinary user its unshare mode (needs newuidmap and a
subuid range).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from losslab.build.cache import (
    ROOT,
    building,
    cache_folder,
    debian_archives,
    hash_files,
    run_logged,
)
from losslab.errors import LosslabError
from losslab.topology import INTERFACES

RECIPES = ROOT / "containers"
HOST, ENGINE = "host", "engine"
CONTAINERNET = "opt/containernet"  # in the engine image
SUITE = "trixie"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
FIXED_FILES = {
    "etc/resolv.conf": "",
    "etc/hostname": "losslab\n",
    "etc/hosts": "127.0.0.1 localhost\n"
    + "".join(f"{end.address} {end.host}\n" for end in INTERFACES),
}
# containerd gives its helpers more threads than there are processors: a Go program then waits in a
# loop for a thread that does not run, for ever where computing takes no time (bgsweep in
# runtime/mgcsweep.go). In the engine image they have one, as every Go program has by itself there.
ONE_PROCESSOR = {
    "usr/bin/containerd": (b"GOMAXPROCS=2", b"GOMAXPROCS=1"),
    "usr/bin/containerd-shim-runc-v2": (b"GOMAXPROCS=4", b"GOMAXPROCS=1"),
}
MOUNT_POINTS = ("mnt/losslab", "mnt/out")
# Part of the hash: change it when this module builds something else from the same list.
LAYOUT = f"2 {SUITE} {' '.join(EXCLUDED)}"


def packages(name: str = HOST) -> list[str]:
    """List an image's packages; the engine image has the host image's, too."""
    lines = (RECIPES / name / "packages.txt").read_text().splitlines()
    own = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return own if name == HOST else packages(HOST) + own


def containernet() -> dict[str, str]:
    """Return the pins of Containernet: `url`, `commit`, and the `docker` module's version."""
    pins: dict[str, str] = tomllib.loads((RECIPES / ENGINE / "source.toml").read_text())[
        "containernet"
    ]
    return pins


def recipe(name: str = HOST) -> list[Path]:
    """List the files that decide what is built."""
    files = [RECIPES / name / "packages.txt", RECIPES / name / "init"]
    if name == ENGINE:
        files += [RECIPES / name / "source.toml", RECIPES / HOST / "packages.txt"]
    return files


def content_hash(name: str = HOST) -> str:
    """Hash everything that decides what is built."""
    constants = [LAYOUT, repr(FIXED_FILES), *([repr(ONE_PROCESSOR)] if name == ENGINE else [])]
    return hash_files(recipe(name), *constants)


def target(name: str = HOST) -> Path:
    """Return the folder of the image of this content hash, built or not."""
    return cache_folder() / "image" / content_hash(name)


def existing(name: str = HOST) -> Path | None:
    """Return the built image's folder, or None."""
    return target(name) if target(name).is_dir() else None


def provenance(folder: Path) -> dict[str, Any]:
    """Return what the image in `folder` was made of."""
    result: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return result


def build(name: str = HOST) -> Path:
    """Build an image unless the cache has it; return its folder (root/, packages.tsv).

    Raises:
        LosslabError: mmdebstrap is missing, or a step failed.
    """
    with building(target(name)) as folder:
        if folder is not None:
            _build(name, folder)
    return target(name)


def _build(name: str, folder: Path) -> None:
    log = folder / "build.log"
    log.touch()
    root = folder / "root"
    root.mkdir()
    # First, because it is what is hardest to come by.
    if name == ENGINE:
        _install_containernet(root / CONTAINERNET, log)
    tar = folder / "root.tar"
    mirror = next(uri for uri in debian_archives() if "security" not in uri)
    run_logged(
        [
            "mmdebstrap",
            "--mode",
            "root" if os.geteuid() == 0 else "unshare",
            "--variant",
            "apt",
            "--include",
            ",".join(packages(name)),
            "--aptopt",
            'APT::Install-Recommends "false"',
            *(word for path in EXCLUDED for word in ("--dpkgopt", f"path-exclude={path}")),
            # Byte code that never asks for its source's time: nothing ever needs to be written.
            "--customize-hook",
            'chroot "$1" python3 -m compileall -q -f --invalidation-mode unchecked-hash '
            "/usr/lib/python3 /usr/lib/python3/dist-packages || true",
            SUITE,
            str(tar),
            mirror,
        ],
        log,
    )
    # Device nodes need root and the guest mounts its own /dev.
    run_logged(["tar", "-xf", tar, "-C", root, "--exclude=./dev/*", "--no-same-owner"], log)
    tar.unlink()
    # Whoever runs the guest must be able to read all of it.
    run_logged(["chmod", "-R", "u+rwX,go+rX,go-w,-s", root], log)
    # mmdebstrap copies these from the machine that builds. With names for its own addresses and no
    # name server, a program that looks itself up sends no packet.
    for file, text in FIXED_FILES.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text)
    for mount_point in MOUNT_POINTS:
        (root / mount_point).mkdir(parents=True, exist_ok=True)
    shutil.copy2(RECIPES / name / "init", root / "init")
    (root / "init").chmod(0o755)
    if name == ENGINE:
        for file, (words, others) in ONE_PROCESSOR.items():
            _replace(root / file, words, others)
    listing = subprocess.run(
        ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package}\t${Version}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    listing = "".join(sorted(listing.splitlines(keepends=True)))
    (folder / "packages.tsv").write_text(listing)
    versions = dict(line.split("\t") for line in listing.splitlines())
    facts = {
        "suite": SUITE,
        "hash": content_hash(name),
        "packages_sha256": hashlib.sha256(listing.encode()).hexdigest(),
        "packages": {package: versions[package] for package in packages(name)},
    }
    if name == ENGINE:
        facts["containernet"] = containernet()["commit"]
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def _replace(path: Path, words: bytes, others: bytes) -> None:
    """Replace the one occurrence of some bytes in a file by as many others.

    Raises:
        LosslabError: they are not there exactly once.
    """
    content = path.read_bytes()
    count = content.count(words)
    if count != 1:
        raise LosslabError(
            f"{path} must contain {words.decode()} once, found it {count} times",
            hint="another version of the package: see ONE_PROCESSOR in src/losslab/build/image.py",
        )
    path.write_bytes(content.replace(words, others))


def _install_containernet(target_folder: Path, log: Path) -> None:
    """Install Containernet at its pinned commit.

    LOSSLAB_CONTAINERNET_SOURCE names another copy of its repository, such as
    git+file:///home/me/containernet, where the pinned one is out of reach.
    """
    pins = containernet()
    url = os.environ.get("LOSSLAB_CONTAINERNET_SOURCE", pins["url"])
    with tempfile.TemporaryDirectory(prefix="losslab-containernet-") as name:
        python = Path(name) / "bin" / "python"
        run_logged([sys.executable, "-m", "venv", name], log)
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        # What its set-up imports; the image has Debian's.
        run_logged([*pip, "setuptools<80", "wheel", f"docker=={pins['docker']}"], log)
        run_logged(
            [
                *pip, "--no-build-isolation", "--no-deps", "--no-compile",
                "--target", target_folder, f"{url}@{pins['commit']}",
            ],
            log,
        )  # fmt: skip
