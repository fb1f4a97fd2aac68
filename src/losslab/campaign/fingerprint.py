"""A cell's fingerprint: everything that its results depend on, in parts.

It is in every manifest, and whoever asks whether a replicate is measured already compares it: the
workflow, `losslab cell`, `verify` and `rerun`. A cell's code is what its guest imports, but for
what the cell does not use: other features, background flows, other schemes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from losslab.backends.known import BACKENDS
from losslab.campaign import folder, inputs, meaning
from losslab.campaign.instrument import image_of, kernel_of
from losslab.emulation.schemes import make_scheme
from losslab.instrument import image, kernel
from losslab.instrument.kernels import Kernel
from losslab.study import features
from losslab.study.condition import NO_SCHEME, Condition
from losslab.study.crowd import NO_FLOWS
from losslab.study.features import Feature

PACKAGE = Path(__file__).resolve().parents[1]
# What starts a job, whatever the backend, and the rule of the seeds.
RUNNER, SEEDS = "backends/runner.py", "study/seeds.py"
# Programs that are started by their names, which no import shows; those of features are their own.
CROWD, OF_CROWDS = "emulation/crowd/program.py", "emulation/crowd/"
# Imported, but not by what measures: errors, an interactive shell, captures, a look at the machine;
# and what kernel and images are made by, of which what was made counts.
UNDECIDING = {
    "errors.py", "emulation/jobs/console.py", "emulation/capture.py", "backends/preflight.py",
}  # fmt: skip
MAKERS = "instrument/"
# Of the packages' own files, this one holds more than a sentence.
SCHEMES = "emulation/schemes/__init__.py"
CONDITION, BACKEND, CODE, KERNEL = "condition", "backend", "code", "kernel"
IMAGES = ("image", "engine")
BUILT = (KERNEL, *IMAGES)
TRACES, USER_FILES = "traces", "user files"
DIGITS = 16


@dataclass(frozen=True)
class Fingerprint:
    """Everything that a cell's results depend on."""

    parts: Mapping[str, str]  # a digest of each part that the cell has
    code: Mapping[str, str]  # a digest of what each module means, by its path in the package

    @property
    def digest(self) -> str:
        """All of it in one."""
        return digest_of(self.parts)

    def to_json(self) -> dict[str, Any]:
        """Write it as a manifest has it."""
        return {"digest": self.digest, "parts": dict(self.parts)}


def of(condition: Condition, backend: str, where: str) -> Fingerprint:
    """Return the fingerprint that a cell has with today's sources and instrument.

    Raises LosslabError if a file that the condition names is not there.
    """
    code = _code(condition, backend, where)
    files: dict[str, Mapping[str, Any]] = {
        TRACES: inputs.trace_digests(condition),
        USER_FILES: inputs.digests(condition),
    }
    used = features.used_by(condition)
    for feature in used:
        files |= feature.inputs(condition)
    parts = {
        CONDITION: digest_of(_values(condition, used)),
        BACKEND: digest_of([backend, where]),
        CODE: digest_of(code),
        **_built(kernel_of(condition), image_of(condition), backend, where),
        **{name: digest_of(its) for name, its in files.items() if its},
    }
    return Fingerprint(parts, code)


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name the parts that are not what they were."""
    return [name for name in dict.fromkeys((*now, *then)) if then.get(name) != now.get(name)]


def digest_of(data: Any) -> str:
    """Digest a fingerprint's parts, or what one is made of."""
    return folder.digest_of(data)[:DIGITS]


def _values(condition: Condition, used: Sequence[Feature]) -> dict[str, Any]:
    """Return a condition without the axes of features that it does not use."""
    unused = {name for each in features.found() if each not in used for name in each.axes}
    return {name: value for name, value in condition.to_json().items() if name not in unused}


def _code(condition: Condition, backend: str, where: str) -> Mapping[str, str]:
    scheme = None
    if condition.scheme != NO_SCHEME:
        scheme = type(make_scheme(condition.scheme)).__module__.rpartition(".")[2]
    crowd = condition.flows != NO_FLOWS
    used = tuple(
        file
        for feature in features.used_by(condition)
        for dotted in (type(feature).__module__, *feature.programs)
        for file in _files_of(dotted)
    )
    return _modules(used, crowd, scheme, backend, where)


@functools.cache
def _modules(
    used: tuple[str, ...], crowd: bool, scheme: str | None, backend: str, where: str
) -> Mapping[str, str]:
    """Follow the imports from a cell's entries; return each module's meaning.

    Nothing imports features by their names: those that a cell uses are entries.
    """

    def unused(importer: str, imported: str) -> bool:
        if imported in UNDECIDING or imported.startswith(MAKERS) or _empty(imported):
            return True
        if imported.startswith(OF_CROWDS) and not importer.startswith(OF_CROWDS):
            return not crowd
        if importer == SCHEMES:
            return imported not in ("emulation/schemes/base.py", f"emulation/schemes/{scheme}.py")
        return False

    runs = BACKENDS[backend, where]
    waiting = [RUNNER, SEEDS, *_files_of(type(runs).__module__), runs.needs.job]
    waiting += used
    waiting += [CROWD] if crowd else []
    found: dict[str, str] = {}
    known = meaning.modules()
    while waiting:
        name = waiting.pop()
        if name not in found:
            module = known.read(PACKAGE / name)
            found[name] = module.meaning
            imported = (file for dotted in module.imports for file in _files_of(dotted))
            waiting += [each for each in imported if not unused(name, each)]
    known.keep()
    return found


def _empty(module: str) -> bool:
    """Tell whether a file holds no more than a version number or a sentence."""
    return module.endswith("__init__.py") and module != SCHEMES


def _files_of(dotted: str) -> Iterator[str]:
    """Name the file of a module or package of this package, where there is one."""
    first, _, rest = dotted.partition(".")
    if first != "losslab" or not rest:
        return
    path = rest.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if os.path.isfile(f"{PACKAGE}/{name}"):  # a thousand of them: a Path each takes longer
            yield name


@functools.cache
def _built(which: Kernel, hosts: str, backend: str, where: str) -> Mapping[str, str]:
    """Identify kernel and images by their recipes, built or not.

    What was built for want of the pinned sources is identified by what it was made of, and a
    machine's own kernel by its version.
    """
    needs = BACKENDS[backend, where].needs
    found = {
        part: _identity(image.existing(name), image.target(name, pinned=False), image)
        or image.content_hash(name)
        for part, name in zip(IMAGES, (hosts, *needs.images[1:]), strict=False)
    }
    if needs.kernel is None:
        own = os.uname()
        return found | {KERNEL: digest_of([own.release, own.version])}
    unpinned = kernel.target(needs.kernel, which, pinned=False)
    made = _identity(kernel.existing(needs.kernel, which), unpinned, kernel)
    made = made or kernel.content_hash(needs.kernel, which)
    return found | {KERNEL: digest_of([made, *which.boot])}


def _identity(built: Path | None, unpinned: Path, kind: ModuleType) -> str:
    """Digest what an unpinned kernel or image was made of; empty where the pinned one counts."""
    return digest_of(kind.provenance(built)) if built == unpinned else ""
