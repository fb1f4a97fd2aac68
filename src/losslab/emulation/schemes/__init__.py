"""Congestion control in user space: a class for each scheme.

A study names a scheme as `NAME` or `NAME,parameter=value,...`, for example
`ewma,alpha=0.9,scale=1.5`. To add a scheme, add a module here and a line to `SCHEMES`; see
`template.py`.
"""

from __future__ import annotations

import dataclasses
import re

from losslab.emulation.schemes.aimd import Aimd
from losslab.emulation.schemes.base import Ack, Scheme
from losslab.emulation.schemes.bbr import SourceBbr
from losslab.emulation.schemes.ewma import EwmaBbr
from losslab.emulation.schemes.fixed import FixedWindow
from losslab.emulation.schemes.template import Template
from losslab.emulation.schemes.threshold import DelayThreshold
from losslab.emulation.schemes.timely import Timely
from losslab.errors import LosslabError

__all__ = ["SCHEMES", "Ack", "Scheme", "make_scheme"]

SCHEMES: dict[str, type[Scheme]] = {
    "fixed": FixedWindow,
    "aimd": Aimd,
    "threshold": DelayThreshold,
    "bbr": SourceBbr,
    "timely": Timely,
    "ewma": EwmaBbr,
    "template": Template,
}
_PARAMETER = re.compile(r"([a-z_]+)=([0-9]{1,12}(?:\.[0-9]{1,18})?)")


def make_scheme(text: str) -> Scheme:
    """Create the scheme that `NAME,parameter=value,...` names."""
    name, *settings = text.split(",")
    if name not in SCHEMES:
        raise LosslabError(f"scheme must be one of {', '.join(SCHEMES)}, found {name!r}")
    scheme = SCHEMES[name]
    parameters = [field.name for field in dataclasses.fields(scheme) if field.init]
    values: dict[str, float] = {}
    for setting in settings:
        match = _PARAMETER.fullmatch(setting)
        if match is None or match[1] not in parameters:
            raise LosslabError(
                f"parameters of scheme {name} must be {', '.join(parameters) or 'none'}, each as "
                f"NAME=NUMBER, found {setting!r}"
            )
        if match[1] in values:
            raise LosslabError(f"scheme {name} must have each parameter once, found {setting!r}")
        values[match[1]] = float(match[2])
    return scheme(**values)
