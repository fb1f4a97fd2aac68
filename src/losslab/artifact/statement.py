"""Statement of an archive's verification: results, gaps, and the power of the sample."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from losslab.artifact.sampling import unnoticed
from losslab.artifact.verify import Verdict
from losslab.campaign.verification import not_verified, quoted

ALL = "all"
FRACTIONS = (0.01, 0.05, 0.1, 0.2)


def facts(verdict: Verdict) -> dict[str, Any]:
    """Return all findings as data for JSON."""
    more = {"good": verdict.good, "not_verified": left_unverified(verdict)}
    return asdict(verdict) | more


def statement(verdict: Verdict) -> str:
    """Return the statement: what was verified, what was not, and the power of the sample."""
    found, lines = verdict.findings, []
    if verdict.commit:
        lines.append(f"Sources: commit {verdict.commit}.")
    if verdict.signer:
        lines.append(f"Signed by {verdict.signer}.")
    if verdict.results:
        lines.append(
            f"{verdict.files} files; {len(verdict.audit.metrics)} metrics of "
            f"{len(verdict.audit.replicates)} replicates recomputed from raw files."
        )
        if remade := verdict.results.remade:
            lines.append(f"{remade.files} tables, figures and pages made again from the cells.")
    if verdict.same:
        drawn = [path for path in verdict.drawn if path in verdict.same]
        lines.append(
            f"{len(drawn)} of {len(verdict.drawn)} replicates, drawn at random from "
            f"{len(verdict.population)}, gave the same bytes when run again; so did "
            f"{len(set(verdict.same) & set(verdict.suspect))} of {len(verdict.suspect)} invalid "
            "replicates whose raw files do not show a violation."
        )
    if verdict.drawn:
        lines.append(f"The same sample again: `{again(verdict)}`.")
    lines += quoted(found)
    lines += ["Not verified:", *(f"  {line}" for line in left_unverified(verdict))]
    if verdict.good:
        lines += _power(verdict)
    lines.append("VERIFIED" if verdict.good else "NOT VERIFIED")
    return "\n".join(lines)


def again(verdict: Verdict) -> str:
    """Return the command that draws the same sample."""
    count = ALL if verdict.count is None else str(verdict.count)
    return f"losslab artifact verify FOLDER --sample {count} --seed {verdict.seed}"


def left_unverified(verdict: Verdict) -> list[str]:
    """List what was not verified."""
    lines = []
    if not verdict.signer:
        lines.append("the packer's identity (--signer checks a signature)")
    if verdict.own_sources:
        lines.append(
            "the verifying program: it is the archive's own; to rule out a forgery, use a clone "
            f"of commit {verdict.commit}: `losslab artifact verify FOLDER`"
        )
    else:
        lines.append("that the commit is the project's: look it up in the published repository")
    if verdict.results is None:
        lines.append("results: fix the findings above first")
        return lines
    lines += not_verified(verdict.results)
    lines.append("the packed instruments and results/instrument, APPENDIX.md and the RO-Crate")
    remaining = len(verdict.audit.replicates) - len(verdict.same)
    lines.append(
        f"bytes of the {remaining} of {len(verdict.audit.replicates)} replicates not run again"
    )
    lines += [f"{path}, not run: {problem}" for path, problem in verdict.cannot.items()]
    return lines


def _power(verdict: Verdict) -> list[str]:
    """Return the probabilities that a sample has none of the wrong replicates."""
    population = len(verdict.population)
    drawn = sum(path in verdict.same for path in verdict.drawn)
    where = " (of those that can be run here)" if verdict.cannot else ""
    lines = [f"Probability that this sample would miss replicates with forged raw files{where}:"]
    for fraction in FRACTIONS:
        wrong = math.ceil(fraction * population)
        chance = unnoticed(population, wrong, drawn)
        lines.append(f"  {100 * fraction:4.0f} % forged ({wrong}): probability {chance:.3g}")
    return lines
