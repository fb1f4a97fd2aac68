"""Versions of the measuring code and of the kernels, in parts.

The code has a common part, and one per feature and backend. `code.lock` has a digest and a version
of each part, and of each kernel. `python -m bench.golden` writes it: a part whose golden runs have
the same bytes as before keeps its version, so an edit without effect on results measures nothing
again. A part that was edited since counts as another version.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from losslab import extensions
from losslab.backends import payload
from losslab.backends.base import CONTAINERNET
from losslab.backends.registry import BACKENDS
from losslab.instrument import kernel
from losslab.instrument.kernels import Kernel
from losslab.study import features
from losslab.study.condition import Condition

PACKAGE = Path(__file__).resolve().parents[1]
LOCK = PACKAGE / "code.lock"
COMMON, CONTAINERS = "emulation", "backends/containers"
# Files of a part besides the module of an app, path mechanism or scheme, which is its own part.
# Other files are of the common part.
FILES = {
    CONTAINERS: ("emulation/containers.py", "emulation/jobs/engineguest.py"),
    "background": ("emulation/flows/*", "study/background.py"),
    "apps/datagram": ("emulation/apps/datagram_program.py", "emulation/schemes/__init__.py"),
    "apps/web": ("emulation/apps/page_server.py",),
    "path/schedule": ("emulation/schedule_runner.py", "study/schedule.py"),
    "path/trace": ("emulation/link/*",),
}  # fmt: skip
MODULES = ("emulation/apps/*.py", "emulation/path/*.py", "emulation/schemes/*.py")
# Parts whose modules another part's module imports.
NEEDS = {
    "apps/stream": ("background",),
    "apps/web": ("apps/iperf3",), "path/pauses": ("path/schedule",),
    "path/tracepart": ("path/trace",),
}  # fmt: skip
# Files without influence on results: errors, a shell, captures, and what surrounds jobs.
IGNORED = {
    "__init__.py", "errors.py", "emulation/capture.py", "backends/registry.py",
    "backends/snapshot_server.py",
}  # fmt: skip
DIGITS = 16


def part_of(file: str) -> str:
    """Return the part of a source file, given by its path in the package."""
    for part, patterns in FILES.items():
        if any(fnmatch(file, pattern) for pattern in patterns):
            return part
    is_module = any(fnmatch(file, pattern) for pattern in MODULES) and "__" not in file
    return file.removeprefix("emulation/").removesuffix(".py") if is_module else COMMON


@functools.cache
def digests() -> Mapping[str, str]:
    """Return the SHA-256 of the sources of each part; a user's modules are no part."""
    backends = (path.relative_to(PACKAGE) for path in (PACKAGE / "backends").glob("*.py"))
    parts: dict[str, Any] = {}
    for file in sorted(
        {*payload.files(), *map(str, backends)} - IGNORED - extensions.files().keys()
    ):
        digest = parts.setdefault(part_of(file), hashlib.sha256())
        digest.update(f"{file}\n".encode() + (PACKAGE / file).read_bytes())
    return {part: digest.hexdigest() for part, digest in sorted(parts.items())}


@functools.cache
def lock() -> Mapping[str, Mapping[str, Any]]:
    """Return the digest and the version of each part in code.lock."""
    return tomllib.loads(LOCK.read_text())


def used(condition: Condition, backend: str, where: str) -> list[str]:
    """List the parts of losslab that measure a condition on a backend, without a user's modules."""
    runner = BACKENDS[backend, where]
    modules = [type(runner).__module__]
    modules += [m for feature in features.used_by(condition) for m in feature.modules(condition)]
    files = [module.removeprefix("losslab.").replace(".", "/") + ".py" for module in modules]
    parts = {COMMON, *map(part_of, [*files, runner.needs.job])}
    if backend == CONTAINERNET:  # also with a job of another package
        parts.add(CONTAINERS)
    return sorted(parts.union(*(NEEDS.get(part, ()) for part in parts)) & digests().keys())


def version(part: str) -> str:
    """Return the version of a part; a digest if its sources are not those in code.lock."""
    digest, locked = digests()[part], lock().get(part, {})
    return str(locked["version"]) if locked.get("sha256") == digest else digest[:DIGITS]


def kernel_part(name: str) -> str:
    """Return the name of a kernel's entry in code.lock."""
    return f"kernel {name}"


def kernel_version(spec: Kernel) -> list[str]:
    """Return what identifies the bytes of a pinned kernel's runs.

    It is the recipe of the first kernel that left the same bytes, or its own recipe, and the files
    of algorithms that are added to it.
    """
    recipe = kernel.content_hash(spec.base)
    locked = lock().get(kernel_part(spec.name), {})
    version = str(locked["version"]) if locked.get("sha256") == recipe else recipe
    return [version, *spec.added_facts()]
