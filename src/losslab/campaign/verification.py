"""Verify a results folder: its cells, and everything that was made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from losslab.campaign.audit import DAMAGE, Audit, Finding, audit
from losslab.campaign.recorded import Campaign
from losslab.campaign.remake import Remade, remake

# Findings of one stage that are printed; `--json` has all.
SHOWN = 30


@dataclass
class Verification:
    """What was verified, and what was found."""

    audit: Audit  # what the cells hold
    remade: Remade | None = None  # what was made from them; None where the cells have findings

    @property
    def findings(self) -> list[Finding]:
        """List everything that is not as it must be."""
        return [*self.audit.findings, *(self.remade.findings if self.remade else [])]


def verify_results(
    results: Path,
    campaign: Campaign,
    repository: Path,
    processors: int,
    say: Callable[[str], None] = lambda words: None,
) -> Verification:
    """Compute a campaign's results again, from the raw files to the report, and compare.

    Raises LosslabError if the workflow failed to make tables or report from the cells.
    """
    cells = [cell for study in campaign.studies for cell in study.cells]
    found = Verification(audit(results, cells, processors, say))
    if not found.findings:
        found.remade = remake(results, campaign, repository, processors, say)
    return found


def not_verified(found: Verification) -> list[str]:
    """Say what was not verified."""
    audited, remade = found.audit, found.remade
    lines = []
    if audited.counted:
        lines.append(
            "compared with the manifests' own counters only, which raw files do not have: "
            + ", ".join(sorted(audited.counted))
        )
    if audited.not_recomputed:
        lines.append("metrics not recomputed: " + ", ".join(sorted(audited.not_recomputed)))
    if audited.unpinned:
        lines.append(f"kernel or image of {audited.unpinned} replicates: they are not pinned")
    lines.append("what host.json says: machine, times, attempts, and the report's lines on them")
    if remade is None:
        lines.append("tables, figures and report: the cells' findings come first")
    elif remade.not_compared:
        lines.append(
            f"pixels of {len(remade.not_compared)} figures and pages, which other software drew "
            f"({'; '.join(remade.software)})"
        )
    return lines


def quoted(findings: list[Finding]) -> list[str]:
    """Print findings, a line each; of many, the first."""
    lines = [f"  {finding.stage}: {finding}" for finding in findings[:SHOWN]]
    if len(findings) > SHOWN:
        lines.append(f"  and {len(findings) - SHOWN} more, which --json lists")
    return lines


def statement(found: Verification) -> str:
    """Say what was verified in a results folder."""
    audited, remade = found.audit, found.remade
    lines = [
        f"{len(audited.replicates)} replicates: {len(audited.metrics)} metrics recomputed from "
        "raw files.",
    ]
    if remade:
        lines.append(f"{remade.files} tables, figures and pages made again from the cells.")
    lines += quoted(found.findings)
    lines += ["Not verified:", *(f"  {line}" for line in not_verified(found))]
    lines += advice(found.findings)
    lines.append("NOT VERIFIED" if found.findings else "VERIFIED")
    return "\n".join(lines)


def advice(findings: list[Finding]) -> list[str]:
    """Say how to have a right result in place of a wrong one."""
    lines = []
    if any(finding.stage == DAMAGE for finding in findings):
        lines.append("The next workflow measures damaged replicates again, and only those.")
    if any(finding.stage != DAMAGE for finding in findings):
        lines.append(
            "Remove the other files and folders named here and start the workflow: it makes just "
            "these again."
        )
    return lines
