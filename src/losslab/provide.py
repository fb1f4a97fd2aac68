"""The default kernel and image at their first use: fetched or built."""

from __future__ import annotations

import os

from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign.instrument import image_of, kernel_of, parts
from losslab.instrument import image, kernel, kernels, packed, records
from losslab.instrument.archive import unpinned_allowed
from losslab.repository import INSTALLED, require_programs
from losslab.study.condition import Condition


def provide(condition: Condition, backend: str = VIRTUAL, where: str = GUEST) -> None:
    """Fetch or build the default kernel and image if the cache lacks what a condition needs.

    Other kernels and images stay as they are: the error for a missing one names its command. Raises
    HostError if programs that build them are missing on this machine. Raises LosslabError if a
    source is unavailable, or a build failed.
    """
    needed = parts(backend, where, kernel_of(condition), image_of(condition))
    default = (image.HOST, kernels.default().key)
    missing = [part for part in needed if part[1] in default and not records.in_cache(*part)]
    if missing and not os.environ.get(packed.PLACE):
        require_programs("build", "the first build of losslab's kernel and image")
    unpinned = unpinned_allowed(False)
    for kind, name in missing:
        if kind == packed.IMAGE:
            image.build(name, unpinned)
        else:
            kernel.build(unpinned)


def at_first_use(condition: Condition, backend: str = VIRTUAL, where: str = GUEST) -> None:
    """Provide them for an installed package; in a clone, `make setup` does it beforehand."""
    if INSTALLED:
        provide(condition, backend, where)
