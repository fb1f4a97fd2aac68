"""Traces that a cell's links follow: found, digested, and given to jobs."""

from __future__ import annotations

import hashlib

from losslab.emulation.link.traces import parse
from losslab.emulation.path.trace import DRAWN
from losslab.errors import LosslabError
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.design import ROOT

FOLDER = ROOT / "config" / "traces"


def texts(condition: Condition) -> dict[str, str]:
    """Return the traces that a replicate's links follow and that are files, by their job's names.

    Raises:
        LosslabError: a file is not there, or is no trace.
    """
    named = {"trace": condition.trace, "trace-back": condition.trace_back}
    return {name: _text(trace) for name, trace in named.items() if trace not in (NO_TRACE, DRAWN)}


def _text(trace: str) -> str:
    path = FOLDER / trace
    if not path.is_file():
        raise LosslabError(
            f"trace {trace} must be a file in {FOLDER}, found none",
            hint=f"put it there, or use `{DRAWN}`, which is drawn for each replicate",
        )
    text = path.read_text()
    parse(text, str(path))
    return text


def digests(condition: Condition) -> dict[str, str]:
    """Return the digests of `texts`, as a manifest has them."""
    return {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts(condition).items()
    }
