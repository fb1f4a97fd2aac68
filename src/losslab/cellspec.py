"""Condition and backend of a command line, checked before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST, VIRTUAL, Instrument
from losslab.backends.registry import NAMES, PLACES
from losslab.errors import LosslabError
from losslab.reading import UsageError, shown, whole_option
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.names import Names

# Largest seed of a replicate; seeds that a campaign derives have 31 bits.
SEED_MAX = 2**63 - 1
SEED = whole_option("seed", minimum=0, maximum=SEED_MAX)


def backend_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the backend."""
    parser.add_argument("--backend", choices=NAMES, default=VIRTUAL)
    parser.add_argument(
        "--where",
        choices=PLACES,
        default=GUEST,
        help="guest: in virtual time; or this machine's own kernel in real time, as root",
    )


def condition(data: Any, names: Names | None = None) -> Condition:
    """Make a condition from axes' values and defaults; refuse impossible ones.

    A caller with many conditions passes `names` from `design.load_names`.
    """
    if not isinstance(data, dict):
        raise UsageError(f"a condition must be a mapping of axes, found {shown(data)}")
    for name, value in data.items():
        # Python decodes invalid UTF-8 on a command line to lone surrogates.
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise UsageError(f"{name} must be UTF-8, found {value!a}") from error
    try:
        made = Condition.from_json(data)
    except KeyError as error:
        raise UsageError(shown(str(error.args[0]))) from error
    except LosslabError as error:
        raise UsageError(error.message) from error
    names = names or design.load_names(ROOT)
    problems = made.problems() + names.problems(made)
    if problems:
        raise UsageError("; ".join(dict.fromkeys(problems)))
    return made


def instrument(options: argparse.Namespace, condition: Condition) -> Instrument:
    """Return the instrument of `backend_options`; refuse one that cannot measure the condition."""
    from losslab.campaign.instrument import instrument

    return instrument(options.backend, options.where, condition)


def links(names: Sequence[str], condition: Condition) -> list[str]:
    """Return the distinct names of links to capture; refuse unknown ones."""
    # Imported here: only captures need a plan before the job.
    from losslab.emulation.plan import make_plan

    available = [
        name for host in make_plan(condition, 0).hosts.values() for name in host.interfaces
    ]
    unknown = sorted(set(names) - set(available))
    if unknown:
        raise UsageError(
            f"a link to capture must be one of {', '.join(sorted(available))}, found "
            f"{', '.join(unknown)}"
        )
    return list(dict.fromkeys(names))


def refuse_existing(out: Path) -> None:
    """Refuse an existing output folder."""
    if out.exists():
        raise UsageError(
            f"--out must name a new folder, found that {out} exists",
            hint="remove it or choose another; losslab never overwrites results",
        )
