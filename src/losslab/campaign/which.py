"""Which kernel and image a condition is measured with: those it names, or its program's own."""

from __future__ import annotations

import functools

from losslab.instrument import image, kernels
from losslab.instrument.kernels import Kernel
from losslab.study import design, features
from losslab.study.condition import DEFAULT_IMAGE, Condition
from losslab.study.names import Names, algorithms_of


def kernel_of(condition: Condition) -> Kernel:
    """Return it, with the condition's algorithms that are files of `algorithms/` compiled in.

    Raises:
        LosslabError: its name is unknown.
    """
    return kernels.get(_names().kernel(condition), algorithms_of(condition))


def image_of(condition: Condition) -> str:
    """Return the name of the image that its hosts have."""
    if condition.image != DEFAULT_IMAGE:
        return condition.image
    return features.apps()[condition.app].image or image.HOST


@functools.cache
def _names() -> Names:
    return design.load_names(design.ROOT)
