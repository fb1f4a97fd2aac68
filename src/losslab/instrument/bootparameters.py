"""Parameters of modules on a kernel's command line: the kernel ignores those that it lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from losslab.errors import did_you_mean
from losslab.instrument import kernels
from losslab.instrument.kernels import Kernel
from losslab.reading import UsageError

WORD = re.compile(r"([\w-]+)\.([\w-]+)(?:=.*)?")


def require(spec: Kernel, linux: Path) -> None:
    """Refuse a parameter of a module that the kernel's binary does not have.

    The parameter of an added algorithm has no effect on a kernel without that algorithm.
    """
    words = [found for found in map(WORD.fullmatch, spec.boot) if found]
    content = linux.read_bytes() if words else b""
    for found in words:
        # The kernel does not distinguish - from _.
        module, name = (part.replace("-", "_") for part in found.groups())
        source = kernels.source_of(module.removeprefix("tcp_"))
        if source.is_file() and source not in spec.algorithms:
            continue
        # A parameter is named in the binary, one without a module with its "=".
        if not re.search(rb"\0%b\.%b[\0=]" % (module.encode(), name.encode()), content):
            known = _known(module, content)
            has = f"has {', '.join(known)}" if known else "is not one of them"
            raise UsageError(
                f"a boot parameter of kernel {spec.name} must be one of its modules', found "
                f"{found[0]}; {module} {has}{did_you_mean(name, known)}",
                hint=f"correct it in {kernels.FILE}",
            )


def _known(module: str, content: bytes) -> Sequence[str]:
    names = re.findall(rb"\0%b\.(\w+)(?=\0)" % module.encode(), content)
    return sorted({name.decode() for name in names})
