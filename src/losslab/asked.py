"""What commands are asked for: a condition and a backend, checked before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST, VIRTUAL, Instrument
from losslab.backends.known import NAMES, PLACES
from losslab.errors import LosslabError
from losslab.reading import UsageError, shown, whole_option
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.names import Names

# Every seed of a replicate; those that a campaign derives have 31 bits.
SEED_MAX = 2**63 - 1
SEED = whole_option("seed", least=0, most=SEED_MAX)


def backend_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what measures."""
    parser.add_argument("--backend", choices=NAMES, default=VIRTUAL)
    parser.add_argument(
        "--where",
        choices=PLACES,
        default=GUEST,
        help="in a guest in virtual time, or on this machine's own kernel in real time, as root",
    )


def condition(data: Any, names: Names | None = None) -> Condition:
    """Make a condition from values of axes, the others at their defaults; refuse impossible ones.

    A caller that makes many gives the `names` that `design.load_names` read.
    """
    if not isinstance(data, dict):
        raise UsageError(f"a condition must be a mapping of axes, found {shown(data)}")
    for name, value in data.items():
        # Bytes of a command line that are no UTF-8 come as halves of surrogate pairs.
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise UsageError(f"{name} must be UTF-8, found {value!a}") from error
    try:
        asked = Condition.from_json(data)
    except KeyError as error:
        raise UsageError(shown(str(error.args[0]))) from error
    except LosslabError as error:
        raise UsageError(error.message) from error
    names = names or design.load_names(design.ROOT)
    problems = asked.problems() + names.problems(asked)
    if problems:
        raise UsageError("; ".join(dict.fromkeys(problems)))
    return asked


def instrument(options: argparse.Namespace, asked: Condition) -> Instrument:
    """Return what `backend_options` chose; refuse what is not built or cannot measure this."""
    from losslab.campaign.instrument import instrument

    return instrument(options.backend, options.where, asked)


def links(names: Sequence[str], asked: Condition) -> list[str]:
    """Return the links of a condition to capture, each once; refuse others."""
    # Only captures need a plan before there is a job.
    from losslab.emulation.plan import make_plan

    known = [name for host in make_plan(asked, 0).hosts.values() for name in host.interfaces]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise UsageError(
            f"a link to capture must be one of {', '.join(sorted(known))}, found "
            f"{', '.join(unknown)}"
        )
    return list(dict.fromkeys(names))


def video(asked: Condition, tools: Instrument, timeout_s: float | None = None) -> Path | None:
    """Return the video that a condition streams, if any."""
    if asked.app != "ffmpeg":
        return None
    from losslab.campaign.instrument import video

    return video(asked.video, asked.duration_s, tools, timeout_s)
