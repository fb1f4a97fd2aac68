"""Build the virtual-time kernel: pinned source, our configuration fragment, two patches. Not root.

`python -m losslab.build.kernel` builds it into the cache and prints its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
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

RECIPE = ROOT / "containers" / "kernel"
# What is built from the same source: a variant adds a fragment to the plain kernel's, which is as
# it would be if there were no variants.
PLAIN, CONTAINERS = "plain", "containers"
VARIANTS = (PLAIN, CONTAINERS)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Kernel and compiler write these into the binary; fixed, so that equal sources look equal.
FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "losslab",
    "KBUILD_BUILD_HOST": "losslab",
    "LC_ALL": "C",
}


# In a kernel's folder, the SHA-256 of the finished `linux`.
DIGEST = "linux.sha256"


def digest(linux: Path) -> str:
    """Return the SHA-256 of a kernel's binary in hexadecimal digits."""
    return hashlib.sha256(linux.read_bytes()).hexdigest()


def _patches() -> list[Path]:
    return sorted((RECIPE / "patches").glob("*.patch"))


def _fragments(variant: str) -> list[Path]:
    more = [] if variant == PLAIN else [RECIPE / f"{variant}.config"]
    return [RECIPE / "fragment.config", *more]


def recipe(variant: str = PLAIN) -> list[Path]:
    """List the files that decide what is built."""
    return [*_fragments(variant), RECIPE / "source.toml", *_patches()]


def content_hash(variant: str = PLAIN) -> str:
    """Hash everything that decides what is built."""
    return hash_files(recipe(variant))


def target(variant: str = PLAIN) -> Path:
    """Return the folder of the kernel of this content hash, built or not."""
    return cache_folder() / "kernel" / content_hash(variant)


def existing(variant: str = PLAIN) -> Path | None:
    """Return the built kernel's folder, or None."""
    return target(variant) if target(variant).is_dir() else None


def provenance(folder: Path) -> dict[str, Any]:
    """Return what the kernel in `folder` was made of."""
    result: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return result


def build(variant: str = PLAIN) -> Path:
    """Build a kernel unless the cache has it; return its folder (linux, config, provenance.json).

    Raises:
        LosslabError: the source cannot be had, a symbol was dropped, or a command failed.
    """
    with building(target(variant)) as folder:
        if folder is not None:
            with tempfile.TemporaryDirectory(prefix=".source-", dir=folder.parent) as work:
                _build(variant, Path(work), folder)
    return target(variant)


def _build(variant: str, work: Path, folder: Path) -> None:
    log = folder / "build.log"
    log.touch()
    tarball, source = _fetch(work, log)
    tree = work / "linux"
    tree.mkdir()
    run_logged(["tar", "-xf", tarball, "--strip-components=1", "-C", tree], log)
    for patch in _patches():
        run_logged(["patch", "-p1", "--forward", "--fuzz=0", "-i", patch], log, cwd=tree)
    fragment = work / "fragment.config"
    fragment.write_text("".join(part.read_text() for part in _fragments(variant)))
    make = ["env", *(f"{k}={v}" for k, v in FIXED.items()), "make", "ARCH=um"]
    run_logged([*make, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"], log, cwd=tree)
    missing = dropped_symbols(fragment.read_text(), (tree / ".config").read_text())
    if missing:
        parts = " and ".join(map(str, _fragments(variant)))
        raise LosslabError(
            f"every symbol of {parts} must be in the finished .config, found dropped: "
            f"{', '.join(missing)}",
            hint="a dropped symbol has an unmet dependency or does not exist in this kernel",
        )
    run_logged([*make, f"-j{len(os.sched_getaffinity(0))}", "linux"], log, cwd=tree)
    version = subprocess.run(
        ["make", "-s", "ARCH=um", "kernelversion"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    shutil.copy2(tree / "linux", folder / "linux")
    run_logged(["strip", "--strip-debug", folder / "linux"], log)
    # Not among the facts below, which are part of every manifest: compilers differ, numbers do not.
    (folder / DIGEST).write_text(digest(folder / "linux") + "\n")
    shutil.copyfile(tree / ".config", folder / "config")
    facts = {
        "version": version,
        "hash": content_hash(variant),
        "source": source,
        "patches": [patch.name for patch in _patches()],
        "config_sha256": hashlib.sha256((folder / "config").read_bytes()).hexdigest(),
    }
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols that do not have their value in a finished configuration."""
    have = set(config.splitlines())
    dropped = []
    for line in fragment.splitlines():
        match = re.fullmatch(r"(CONFIG_\w+)=(.+)", line)
        if not match:
            continue
        absent = f"# {match[1]} is not set"
        if match[2] == "n":
            if any(entry.startswith(f"{match[1]}=") for entry in have):
                dropped.append(match[1])
        elif line not in have or absent in have:
            dropped.append(match[1])
    return dropped


def _fetch(work: Path, log: Path) -> tuple[Path, dict[str, str]]:
    """Fetch the source's tarball; return it and where it came from."""
    pins = tomllib.loads((RECIPE / "source.toml").read_text())
    failures = []
    for name, fetch in (("debian", _fetch_debian), ("kernel_org", _fetch_kernel_org)):
        try:
            tarball, version = fetch(pins[name], work, log)
        except (LosslabError, OSError) as error:
            failures.append(f"{name}: {error}")
            continue
        digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
        if digest not in pins[name]["sha256"]:
            print(
                f"losslab: note: {name}'s kernel source is {version} (sha256 {digest}), not the "
                "pinned one; results may differ from those of the pinned kernel, and every "
                "manifest says which it was",
                file=sys.stderr,
            )
        return tarball, {"from": name, "version": version, "sha256": digest}
    raise LosslabError(
        "the kernel's source must be had from Debian or kernel.org, found neither:\n"
        + "\n".join(failures),
        hint="check the network, or copy a filled cache to this machine",
    )


def _fetch_debian(pin: dict[str, Any], work: Path, log: Path) -> tuple[Path, str]:
    """Download Debian's source package with apt's own checks, but none of the user's apt state."""
    apt = work / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
        (apt / folder).mkdir(parents=True)
    archives = debian_archives()
    lines = []
    for suite in pin["suites"]:
        for archive in archives:
            if ("security" in suite) == ("security" in archive):
                lines.append(f"deb [signed-by={KEYRING}] {archive} {suite} main")
    sources = apt / "etc" / "sources.list"
    sources.write_text("\n".join(lines) + "\n")
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferencesparts": "-",
        "Dir::State": apt / "state",
        "Dir::Cache": apt / "cache",
        "Dir::State::status": apt / "status",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    (apt / "status").touch()
    flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    # A suite that a mirror lacks is an error of its own and leaves the others usable.
    try:
        run_logged(["apt-get", *flags, "update"], log)
    except LosslabError as error:
        print(f"losslab: note: {error.message.splitlines()[0]}", file=sys.stderr)
    policy = subprocess.run(
        ["apt-cache", *flags, "madison", pin["package"]],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    versions = [line.split("|")[1].strip() for line in policy.splitlines()]
    pinned = [v for v in versions if v.split("-")[0] == pin["version"]]
    if not versions:
        raise LosslabError(f"{pin['package']} must be in Debian's suites, found no version")
    version = (pinned or versions)[0]
    run_logged(["apt-get", *flags, "download", f"{pin['package']}={version}"], log, cwd=work)
    package = next(work.glob("*.deb"))
    run_logged(["dpkg-deb", "-x", package, work / "package"], log)
    return next((work / "package").rglob(pin["tarball"])), version


def _fetch_kernel_org(pin: dict[str, Any], work: Path, log: Path) -> tuple[Path, str]:
    """Download kernel.org's tarball; without a pinned hash, refuse."""
    if not pin["sha256"]:
        raise LosslabError(
            "kernel.org's tarball must have a pinned sha256, found none in source.toml",
            hint=f"put the value that kernel.org publishes beside {pin['url']} there",
        )
    path = work / "linux.tar.xz"
    with urllib.request.urlopen(pin["url"], timeout=60) as response, path.open("wb") as out:
        shutil.copyfileobj(response, out)
    if hashlib.sha256(path.read_bytes()).hexdigest() not in pin["sha256"]:
        raise LosslabError(f"{pin['url']} must have the sha256 of source.toml, found another")
    return path, Path(pin["url"]).name


def main() -> None:
    """Build and print the folder."""
    print(build())


if __name__ == "__main__":
    main()
