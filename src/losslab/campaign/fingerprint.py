"""The fingerprint of a cell: digests of everything that its results depend on, in parts.

Every manifest contains it. The workflow, `losslab cell`, `verify` and `rerun` compare it to decide
whether a replicate is already measured. A cell's code consists of the modules that its guest
imports and of the features that it uses, without schemes that it does not use.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from losslab import doors
from losslab.backends.registry import BACKENDS
from losslab.campaign import codedigest, folder, inputs
from losslab.campaign.instrument import image_of, kernel_of
from losslab.instrument import image, kernel
from losslab.instrument.kernels import Kernel
from losslab.study import features
from losslab.study.condition import Condition
from losslab.study.features import Feature

PACKAGE = Path(__file__).resolve().parents[1]
# Modules that every backend uses: the start of jobs, and the rule of the seeds.
RUNNER, SEEDS = "backends/runner.py", "study/seeds.py"
# Imported modules without influence on results: errors, an interactive shell, captures, checks of
# the machine. Kernels and images have their own parts, so the code that builds them is ignored.
IGNORED = {
    "errors.py", "emulation/jobs/console.py", "emulation/capture.py", "backends/preflight.py",
}  # fmt: skip
BUILDERS = "instrument/"
# The only `__init__.py` with code.
SCHEMES = "emulation/schemes/__init__.py"
CONDITION, BACKEND, CODE, KERNEL = "condition", "backend", "code", "kernel"
IMAGES = ("image", "engine")
BUILT = (KERNEL, *IMAGES)
TRACES, USER_FILES, OWN_MODULES = "traces", "user files", "own modules"
DIGITS = 16


@dataclass(frozen=True)
class Fingerprint:
    """Everything that a cell's results depend on."""

    parts: Mapping[str, str]  # digests by part
    code: Mapping[str, str]  # digests of the modules' code, by path in the package

    @property
    def digest(self) -> str:
        """One digest of all parts."""
        return digest_of(self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the fingerprint as a manifest contains it."""
        return {"digest": self.digest, "parts": dict(self.parts)}


def of(condition: Condition, backend: str, where: str) -> Fingerprint:
    """Return a cell's fingerprint with the current sources and instrument."""
    code = _code(condition, backend, where)
    files: dict[str, Mapping[str, Any]] = {
        TRACES: inputs.trace_digests(condition),
        USER_FILES: inputs.digests(condition),
        OWN_MODULES: _own_modules(condition),
    }
    used = features.used_by(condition)
    for feature in used:
        files |= feature.inputs(condition)
    parts = {
        CONDITION: digest_of(_values(condition, used)),
        BACKEND: digest_of([backend, where]),
        CODE: digest_of(code),
        **_built(kernel_of(condition), image_of(condition), backend, where),
        **{name: digest_of(digests) for name, digests in files.items() if digests},
    }
    return Fingerprint(parts, code)


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the parts whose digests differ."""
    return [name for name in dict.fromkeys((*now, *then)) if then.get(name) != now.get(name)]


def digest_of(data: Any) -> str:
    """Return the digest of a fingerprint's parts or of the data of one part."""
    return folder.digest_of(data)[:DIGITS]


def _values(condition: Condition, used: Sequence[Feature]) -> dict[str, Any]:
    """Return a condition without the axes of features that it does not use."""
    unused = {name for each in features.all_features() if each not in used for name in each.axes}
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
        for name, path in doors.files().items()
        if name.removesuffix(".py").partition("_")[0] in used
    }


def _code(condition: Condition, backend: str, where: str) -> Mapping[str, str]:
    used = tuple(
        file
        for feature in features.used_by(condition)
        for dotted in feature.modules(condition)
        for file in _files_of(dotted)
    )
    return _modules(used, backend, where)


@functools.cache
def _modules(used: tuple[str, ...], backend: str, where: str) -> Mapping[str, str]:
    """Follow the imports from a cell's entry modules; return each module's code digest.

    The features that a cell uses are entry modules, as no import names them.
    """

    def unused(importer: str, imported: str) -> bool:
        if imported in IGNORED or imported.startswith(BUILDERS) or _empty(imported):
            return True
        if importer == SCHEMES:
            return imported not in ("emulation/schemes/base.py", *used)
        return False

    runner = BACKENDS[backend, where]
    pending = [RUNNER, SEEDS, *_files_of(type(runner).__module__), runner.needs.job]
    pending += used
    digests: dict[str, str] = {}
    modules = codedigest.modules()
    while pending:
        name = pending.pop()
        if name not in digests:
            module = modules.read(PACKAGE / name)
            digests[name] = module.digest
            imported = (file for dotted in module.imports for file in _files_of(dotted))
            pending += [file for file in imported if not unused(name, file)]
    modules.save()
    return digests


def _empty(module: str) -> bool:
    """Return whether a module has no code except a docstring or a version number."""
    return module.endswith("__init__.py") and module != SCHEMES


def _files_of(dotted: str) -> Iterator[str]:
    """Yield the file of a module or package, if it is part of losslab."""
    first, _, rest = dotted.partition(".")
    if first != "losslab" or not rest:
        return
    path = rest.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if os.path.isfile(f"{PACKAGE}/{name}"):  # not Path, which is slow for a thousand files
            yield name


@functools.cache
def _built(spec: Kernel, hosts: str, backend: str, where: str) -> Mapping[str, str]:
    """Return the parts of the kernel and the images.

    The digests come from the recipes, so nothing needs to be built. An unpinned kernel or image is
    identified by the sources of its build, and a machine's own kernel by its version.
    """
    needs = BACKENDS[backend, where].needs
    found = {
        part: _unpinned_identity(image.existing(name), image.target(name, pinned=False), image)
        or image.content_hash(name)
        for part, name in zip(IMAGES, (hosts, *needs.images[1:]), strict=False)
    }
    if not needs.guest:
        own = os.uname()
        return found | {KERNEL: digest_of([own.release, own.version])}
    unpinned = kernel.target(spec, pinned=False)
    identity = _unpinned_identity(kernel.existing(spec), unpinned, kernel)
    identity = identity or kernel.content_hash(spec)
    return found | {KERNEL: digest_of([identity, *spec.boot])}


def _unpinned_identity(built: Path | None, unpinned: Path, kind: ModuleType) -> str:
    """Return the digest of an unpinned build's provenance; "" if the build is not unpinned."""
    return digest_of(kind.provenance(built)) if built == unpinned else ""
