"""The fingerprint of a cell: digests of everything that its results depend on, in parts.

Every manifest contains it. The workflow, `losslab cell`, `verify` and `rerun` compare it to decide
whether a replicate is already measured. A cell's code consists of the common part, its backend and
the features that it uses (`codelock`).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import extensions
from losslab.backends.registry import BACKENDS
from losslab.campaign import codelock, inputs, results
from losslab.campaign.instrument import image_of, kernel_of
from losslab.emulation.app import apps
from losslab.instrument import cache, image, kernel
from losslab.instrument.kernels import Kernel
from losslab.instrument.part import Part
from losslab.study import features
from losslab.study.condition import AXES, Condition
from losslab.study.features import Feature

CONDITION, BACKEND, KERNEL = "condition", "backend", "kernel"
IMAGES = ("image", "engine")
TRACES, USER_FILES, OWN_MODULES = "traces", "user files", "own modules"
DIGITS = 16
# Axes that are younger than the first fingerprints of cells that have them.
LATER = (
    "parameters", "sysctl", "initcwnd_packets", "initrwnd_packets", "window_bytes",
    "jitter_direction", "jitter_distribution", "jitter_correlation_percent",
)  # fmt: skip


@dataclass(frozen=True)
class Fingerprint:
    """Everything that a cell's results depend on."""

    parts: Mapping[str, str]  # digests by part; versions of the parts of the code

    @property
    def digest(self) -> str:
        """One digest of all parts."""
        return digest_of(self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the fingerprint as a manifest contains it."""
        return {"digest": self.digest, "parts": dict(self.parts)}


def of(condition: Condition, backend: str, where: str) -> Fingerprint:
    """Return a cell's fingerprint with the current sources and instrument."""
    files: dict[str, Mapping[str, Any]] = {
        TRACES: inputs.trace_digests(condition),
        USER_FILES: inputs.digests(condition),
        OWN_MODULES: _own_modules(condition) | _own_backend(backend, where),
    }
    used = features.used_by(condition)
    if command := apps()[condition.app].input_command(condition, ""):
        files["video"] = {"command": command}
    parts = {
        CONDITION: digest_of(_values(condition, used)),
        BACKEND: digest_of([backend, where]),
        **{part: codelock.version(part) for part in codelock.used(condition, backend, where)},
        **_built(kernel_of(condition), image_of(condition), backend, where),
        **{name: digest_of(digests) for name, digests in files.items() if digests},
    }
    return Fingerprint(parts)


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the parts whose digests differ."""
    return [name for name in dict.fromkeys((*now, *then)) if then.get(name) != now.get(name)]


def digest_of(data: Any) -> str:
    """Return the digest of a fingerprint's parts or of the data of one part."""
    return results.digest_of(data)[:DIGITS]


def _values(condition: Condition, used: Sequence[Feature]) -> dict[str, Any]:
    """Return a condition without the axes of features that it does not use.

    Later axes at their defaults are left out, so that cells from before them keep their
    fingerprints.
    """
    unused = {name for each in features.all_features() if each not in used for name in each.axes}
    unused |= {name for name in LATER if getattr(condition, name) == AXES[name].default}
    return {name: value for name, value in condition.to_json().items() if name not in unused}


def _own_modules(condition: Condition) -> dict[str, str]:
    """Return the digests of the user's modules that a cell uses, and of their programs."""
    used = {
        dotted.removeprefix("losslab.").replace(".", "/")
        for feature in features.used_by(condition)
        for dotted in feature.modules(condition)
    }
    return {
        name: digest_of(path.read_bytes().hex())
        for name, path in extensions.files().items()
        if name.removesuffix(".py").partition("_")[0] in used
    }


def _own_backend(backend: str, where: str) -> dict[str, str]:
    """Return the digests of the package of an added backend; nothing of losslab's own backends."""
    name = type(BACKENDS[backend, where]).__module__
    source = Path(str(sys.modules[name].__file__))
    if name.startswith("losslab."):
        return {}
    files = sorted(source.parent.glob("*.py")) if "." in name else [source]
    return {f"{name.rpartition('.')[0]}/{p.name}": digest_of(p.read_bytes().hex()) for p in files}


@functools.cache
def _built(spec: Kernel, hosts: str, backend: str, where: str) -> Mapping[str, str]:
    """Return the parts of the kernel and the images.

    The digests come from the recipes, so nothing needs to be built. An unpinned kernel or image is
    identified by the sources of its build, and a machine's own kernel by its version.
    """

    def identity(part: Part, recipe: list[str]) -> list[str]:
        folder = part.existing()
        unpinned = folder is not None and folder == part.target(pinned=False)
        return [digest_of(cache.provenance(folder))] if folder and unpinned else recipe

    needs, machine = BACKENDS[backend, where].needs, os.uname()
    names = (hosts, *needs.images[1:])
    images = [image.part(name) for name in names]
    parts = {name: identity(p, [p.recipe])[0] for name, p in zip(IMAGES, images, strict=False)}
    of_kernel = [machine.release, machine.version]
    if needs.guest:
        of_kernel = [*identity(kernel.part(spec), codelock.kernel_version(spec)), *spec.boot]
    return parts | {KERNEL: digest_of(of_kernel)}
