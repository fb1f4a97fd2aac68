"""Build the host image without Docker: Debian 13 and packages.txt by mmdebstrap, as a folder.

`python -m losslab.build.image` builds it into the cache and prints its folder. As root it uses
mmdebstrap's root mode, as an ordinary user its unshare mode (needs newuidmap and a subuid range).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
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
from losslab.topology import INTERFACES

RECIPE = ROOT / "containers" / "host"
SUITE = "trixie"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
FIXED_FILES = {
    "etc/resolv.conf": "",
    "etc/hostname": "losslab\n",
    "etc/hosts": "127.0.0.1 localhost\n"
    + "".join(f"{end.address} {end.host}\n" for end in INTERFACES),
}
# Part of the hash: change it when this module builds something else from the same list.
LAYOUT = f"2 {SUITE} {' '.join(EXCLUDED)}"


def packages() -> list[str]:
    """List the packages of packages.txt."""
    lines = (RECIPE / "packages.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def content_hash() -> str:
    """Hash everything that decides what is built."""
    return hash_files([RECIPE / "packages.txt", RECIPE / "init"], LAYOUT, repr(FIXED_FILES))


def target() -> Path:
    """Return the folder of the image of this content hash, built or not."""
    return cache_folder() / "image" / content_hash()


def existing() -> Path | None:
    """Return the built image's folder, or None."""
    return target() if target().is_dir() else None


def provenance(folder: Path) -> dict[str, Any]:
    """Return what the image in `folder` was made of."""
    result: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return result


def build() -> Path:
    """Build the image unless the cache has it; return its folder (root/, packages.tsv).

    Raises:
        LosslabError: mmdebstrap is missing or failed.
    """
    with building(target()) as folder:
        if folder is not None:
            _build(folder)
    return target()


def _build(folder: Path) -> None:
    log = folder / "build.log"
    log.touch()
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
            ",".join(packages()),
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
    root = folder / "root"
    root.mkdir()
    # Device nodes need root and the guest mounts its own /dev.
    run_logged(["tar", "-xf", tar, "-C", root, "--exclude=./dev/*", "--no-same-owner"], log)
    tar.unlink()
    # Whoever runs the guest must be able to read all of it.
    run_logged(["chmod", "-R", "u+rwX,go+rX,go-w,-s", root], log)
    # mmdebstrap copies these from the machine that builds. With names for its own addresses and no
    # name server, a program that looks itself up sends no packet.
    for name, text in FIXED_FILES.items():
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)
    for mount_point in ("mnt/losslab", "mnt/out"):
        (root / mount_point).mkdir(parents=True, exist_ok=True)
    shutil.copy2(RECIPE / "init", root / "init")
    (root / "init").chmod(0o755)
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
        "hash": content_hash(),
        "packages_sha256": hashlib.sha256(listing.encode()).hexdigest(),
        "packages": {name: versions[name] for name in packages()},
    }
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Build and print the folder."""
    print(build())


if __name__ == "__main__":
    main()
