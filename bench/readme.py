"""Update the README's figure, the sentence below it, and the table of verdicts.

    python -m bench.readme [RESULTS]

The figure and the sentence's table are copied to docs/figures. `make figure` measures them first.
The table of verdicts has those of the quick campaign in report/verdicts.tsv. Causes that runs show
must hold with both families of seeds. The sentences below it are about the full campaign, from the
same table and docs/results/full.tsv.
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Container, Mapping
from pathlib import Path

import yaml

from losslab.campaign.verdicts import CAUSES, Judged, Name, explained, read_recorded
from losslab.instrument import kernels
from losslab.reading import read_rows

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "figures"
FIGURE, TABLE = "loss_goodput.svg", "loss_decrease.csv"
MARK = "<!-- answer: written by `python -m bench.readme` -->\n"
VERDICTS_MARK = "<!-- verdicts: written by `python -m bench.readme` -->\n"
FULL_MARK = "<!-- full: written by `python -m bench.readme` -->\n"
CLAIMS = ROOT / "report" / "claims"
FULL_CELLS = ROOT / "docs" / "results" / "full.tsv"


def answer(table: Path) -> str:
    """Return the sentence about the decrease of goodput on the symmetric path."""
    rows = {
        (row["algorithm"], int(row["loss_percent"])): row
        for row in read_rows(table)
        if row["path"] == "symmetric"
    }
    # The sentence says which goodput is lower; other numbers would need another sentence.
    for loss in (1, 10):
        if float(rows["cubic", loss]["high"]) >= float(rows["bbr", loss]["low"]):
            raise SystemExit(f"at {loss} % loss BBR must keep more: write another answer")
    counts = sorted({int(row["n"]) for row in rows.values()})
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    ours = {key: _lost(row["measured"]) for key, row in rows.items()}
    theirs = {key: _lost(row["published"]) for key, row in rows.items()}
    path = yaml.safe_load((ROOT / "config/studies/loss.yaml").read_text())["defaults"]
    text = (
        f"On a {path['rate_mbit'] / 1000:g} Gbit/s path, **1 % packet loss costs CUBIC "
        f"{ours['cubic', 1]} % of its goodput and BBR {ours['bbr', 1]} %** (published: "
        f"{theirs['cubic', 1]} % and {theirs['bbr', 1]} %). 10 % loss costs CUBIC "
        f"{ours['cubic', 10]} % and BBR {ours['bbr', 10]} % (published: {theirs['cubic', 10]} % "
        f"and {theirs['bbr', 10]} %). Each number is the mean of {n} runs; the base RTT is "
        f"{path['rtt_ms']:g} ms, the kernel Linux {kernels.default().series.name}."
    )
    return _wrapped(text)


def _wrapped(text: str) -> str:
    # A non-breaking space keeps a number with its unit.
    whole = re.sub(r"(\d) (%|m?s\b|Gbit)", "\\1\N{NO-BREAK SPACE}\\2", text)
    return textwrap.fill(whole, 108).replace("\N{NO-BREAK SPACE}", " ") + "\n"


def _lost(percent: str) -> str:
    lost = -float(percent)
    # Decimals matter between 99 and 100 %.
    return f"{lost:.1f}" if lost > 99 else f"{lost:.0f}"


def replaced(readme: str, mark: str, text: str) -> str:
    """Replace the text between a mark and the next empty line."""
    pattern = re.escape(mark) + r"(?:[^\n]+\n)*"
    if not re.search(pattern, readme):
        raise SystemExit(f"the text must have the line {mark!r}")
    return re.sub(pattern, lambda _: mark + text, readme)


def verdicts() -> str:
    """Return the table of recorded verdicts on the quick campaign by study and evidence.

    Verdicts are of the first family of seeds. Causes count if they hold with both families.
    """
    recorded = read_recorded()
    causes = {name for name, kind in explained(recorded).items() if kind in CAUSES}
    lines = [
        "| study | predictions reproduced | not reproduced | inconclusive | cause shown "
        "| orders and signs reproduced | fitted or configured |",
        "|---|---|---|---|---|---|---|",
    ]
    totals: Counter[str] = Counter()
    for study, found in _counted(recorded["quick"], causes).items():
        lines.append(_row(f"`{study}`", found))
        totals += found
    return "\n".join([*lines, _row("all", totals)]) + "\n"


def full(campaign: str = "full") -> str:
    """Return the sentences that compare the full campaign's verdicts with the table's."""
    quick, recorded = (read_recorded()[name] for name in ("quick", campaign))
    found = sum(_counted(recorded, ()).values(), Counter[str]())
    cells = read_rows(FULL_CELLS, "\t")
    runs = sum(int(row["replicates"]) for row in cells)
    both = quick.keys() & recorded.keys()
    differ = sum(quick[name].verdict != recorded[name].verdict for name in both)
    return _wrapped(
        f"The full campaign has longer runs, and more of them: {len(cells):,} cells and "
        f"{runs:,} runs. There, {found['predicted reproduced']} of {found['predicted']} "
        f"predictions are reproduced, {found['predicted not reproduced']} are not, "
        f"{found['predicted inconclusive']} are inconclusive, and "
        f"{found['predicted not comparable']} are not comparable; of the orders and signs, "
        f"{found['order reproduced']} of {found['order']} are reproduced. Of the {len(both)} "
        f"verdicts that both campaigns give, {differ} differ."
    )


def _counted(recorded: Mapping[Name, Judged], causes: Container[Name]) -> dict[str, Counter[str]]:
    """Count recorded verdicts by evidence, for each study with predictions, orders or signs."""
    counts = {}
    for path in sorted(CLAIMS.glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        found: Counter[str] = Counter()
        for claim in content["claims"]:
            name = (content["study"], claim["id"])
            if name in recorded:
                evidence = claim["evidence"]
                found[evidence] += 1
                found[f"{evidence} {recorded[name].verdict}"] += 1
                found[f"{evidence} caused"] += name in causes
        if found["predicted"] or found["order"]:
            counts[content["study"]] = found
    return counts


def _row(name: str, found: Counter[str]) -> str:
    def share(evidence: str) -> str:
        return f"{found[f'{evidence} reproduced']} of {found[evidence]}"

    others = str(found["fitted"] + found["configured"])
    counts = [found[f"predicted {each}"] for each in ("not reproduced", "inconclusive", "caused")]
    cells = [name, share("predicted"), *map(str, counts), share("order"), others]
    return f"| {' | '.join(cells)} |"


def written(text: str, table: Path = FOLDER / TABLE) -> str:
    """Return the README with the sentence of a table and the recorded verdicts."""
    for mark, words in (
        (MARK, answer(table)), (VERDICTS_MARK, verdicts()), (FULL_MARK, full())
    ):  # fmt: skip
        text = replaced(text, mark, words)
    return text


def main() -> None:
    """Copy the figure and its table, and write the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "results")
    results = parser.parse_args().results
    wanted = (results / "figures" / FIGURE, results / "tables" / TABLE)
    for path in wanted:
        if not path.is_file():
            raise SystemExit(
                f"readme: error: a campaign's results must have {path}, found no such file\n"
                "  -> run `make figure`, which measures first"
            )
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in wanted:
        shutil.copyfile(path, FOLDER / path.name)
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text()))


if __name__ == "__main__":
    main()
