"""Which kernel a condition is measured on: the one it names, or its algorithm's own."""

from __future__ import annotations

import functools

from losslab.instrument import kernels
from losslab.instrument.kernels import Kernel
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.names import Names, algorithms_of


def kernel_of(condition: Condition) -> Kernel:
    """Return it, with the condition's algorithms that are files of `algorithms/` compiled in.

    Raises:
        LosslabError: its name is unknown.
    """
    return kernels.get(_names().kernel(condition), algorithms_of(condition))


@functools.cache
def _names() -> Names:
    return design.load_names(design.ROOT)
