"""Congestion control in user space: a class for each scheme.

A study names a scheme as `NAME` or `NAME,parameter=value,...`, for example
`ewma,alpha=0.9,scale=1.5`. Each module without an underscore has one, as `template.py`; a user's
own are added (`doors.py`).
"""

from __future__ import annotations

import dataclasses
import re

from losslab import doors
from losslab.emulation.schemes.base import Ack, Scheme
from losslab.errors import LosslabError

__all__ = ["SCHEMES", "Ack", "Scheme", "make_scheme"]


def _scheme(name: str) -> type[Scheme]:
    """Return the class of a module."""
    module = doors.load("schemes", name)
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Scheme)
        and each.__module__ == module.__name__
    ]
    if len(found) != 1 or not dataclasses.is_dataclass(found[0]):
        raise LosslabError(
            f"{module.__file__} must define one dataclass that is a Scheme, found {len(found)}"
        )
    return found[0]


SCHEMES: dict[str, type[Scheme]] = {
    name: _scheme(name) for name in doors.names("schemes") if name != "base"
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
