"""Update the README's figure, the sentence below it, and the table of verdicts.

    python -m bench.readme [RESULTS]

The figure and the sentence's table are copied to docs/figures. `make figure` measures them first.
The table of verdicts has those of the quick campaign in report/verdicts.tsv. Causes that runs show
must hold with both families of seeds. The sentences below it are about the full campaign, from the
same table and docs/results/full.tsv.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import statistics
import textwrap
from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from pathlib import Path

import yaml

from losslab.campaign.recorded_verdicts import CAUSES, Name, Recorded, explained, read_recorded
from losslab.instrument import kernels
from losslab.reading import read_rows

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "figures"
FIGURE, TABLE = "loss_goodput.svg", "loss_decrease.csv"
MARK = "<!-- answer: written by `python -m bench.readme` -->\n"
VERDICTS_MARK = "<!-- verdicts: written by `python -m bench.readme` -->\n"
FULL_MARK = "<!-- full: written by `python -m bench.readme` -->\n"
FINDINGS_MARK = "<!-- findings: written by `python -m bench.readme` -->\n"
CLAIMS = ROOT / "report" / "claims"
FULL_CELLS = ROOT / "docs" / "results" / "full.tsv"
# Cells of the findings: pages behind a slow link, and BBR and CUBIC between two cloud hosts.
PAGE = "{}_cubic_loss0_symmetric_web_rtt20_offloads-off_rate1.5_buffer100{}_receive-large"
PAGES = (("web", ""), ("web", "_vs-cubic"), ("aqm", "_fq-codel_vs-cubic"))
GAPS = (
    "published_{}_loss0_symmetric_iperf3_rtt21_offloads-off_rate600_buffer40_sender-delay20",
    "routers_{}_loss0_symmetric_iperf3_rtt21_offloads-off_rate600_buffer1040_receive-large",
)
# Cells of the map with the small buffer, by block, algorithm, RTT and rate.
MAP = "{}_{}_loss0_symmetric_iperf3_rtt{}_offloads-off{}_buffer66_receive-large"
PAUSED = "_sender-fq-codel_pauses-per-s0.62-min-ms0.8-max-ms8"
PUBLISHED = ROOT / "config" / "published" / "map.csv"


def answer(table: Path) -> str:
    """Return the sentence about the decrease of goodput on the symmetric path."""
    with table.open(newline="") as file:
        rows = {
            (row["algorithm"], int(row["loss_percent"])): row
            for row in csv.DictReader(file)
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


def findings() -> str:
    """Return the sentences about three findings of the full campaign, from its recorded means.

    Another is that of `answer`. Raises SystemExit if they no longer hold.
    """
    means = {row["cell"]: float(row["mean"]) for row in read_rows(FULL_CELLS, "\t")}
    alone, beside, separated = (means[PAGE.format(*each)] for each in PAGES)
    gap, corrected = (means[each.format("bbr")] / means[each.format("cubic")] for each in GAPS)
    if not (alone < separated < beside / 2 and corrected < gap / 2):
        raise SystemExit("the full campaign's findings must hold: write other sentences")
    return _wrapped(
        "Three more of its findings: beside one flow that fills a queue of 100 packets, **a web "
        f"page takes {beside:.1f} s instead of {alone:.1f} s**, and {separated:.1f} s with "
        "FQ-CoDel on the link. A published gap between BBR and CUBIC comes from the set-up and "
        f"not from the algorithms: it is **{gap:.1f} to 1 in the source's set-up, and "
        f"{corrected:.1f} to 1 behind a buffer of one bandwidth-delay product**. {_of_map(means)}"
    )


def _of_map(means: Mapping[str, float]) -> str:
    """Return the sentences on the paper, its replication and ours behind a small buffer."""
    gains = _published_gains()
    paper, replicated = gains["75", "500"][0], statistics.mean(gains["75", "500"][1])
    ours = {each: _gain(means, "imc", *each) for each in gains}
    here, paused = ours["75", "500"], _gain(means, "shallow-paused", "75", "500", PAUSED)
    # Of the replication's two kernels, that with the gain nearer to one.
    differ = {
        each: (published, min(again))
        for each, (published, again) in gains.items()
        if _factor(published, min(again)) > 1.1
    }
    factors = [_factor(gains[each][0], again) for each in differ for again in gains[each][1]]
    nearer = sum(
        _factor(ours[each], published) < _factor(ours[each], again)
        for each, (published, again) in differ.items()
    )
    holds = _factor(paused, replicated) < 1.2 and _factor(here, paper) < 1.2
    if not (holds and nearer > 0.9 * len(differ)):
        raise SystemExit("the finding on the map must hold: write other sentences")
    return (
        f"In {len(differ)} of {len(gains)} conditions with a buffer of 100 KB, Cao et al. (IMC "
        "2019) and the replication by Datta and Fund differ in this gap by more than a tenth, at "
        f"most by a factor of {max(factors):.0f}. **Ours is nearer to the paper's in {nearer}**. "
        f"At 500 Mbit/s and 75 ms, the gap is {paper:.1f} to 1 in the paper and {replicated:.1f} "
        f"to 1 in the replication. It is **{here:.1f} to 1 here, but {paused:.1f} to 1 without "
        "pacing and with a bottleneck that pauses** for at most 8 ms now and then, as the losses "
        "in the replication's logs suggest."
    )


def _gain(means: Mapping[str, float], block: str, rtt: str, rate: str, more: str = "") -> float:
    """Return BBR's goodput over CUBIC's in a condition of the map."""
    named = "" if rate == "1000" else f"_rate{rate}"
    bbr, cubic = (means[MAP.format(block, each, rtt, named) + more] for each in ("bbr", "cubic"))
    return bbr / cubic


def _published_gains() -> dict[tuple[str, str], tuple[float, list[float]]]:
    """Return BBR's goodput over CUBIC's in the paper and on each kernel of its replication.

    Of the conditions with the small buffer, by RTT in ms and rate in Mbit/s.
    """
    paper, replicated = {}, defaultdict(list)
    for row in read_rows(PUBLISHED):
        condition = row["rtt_ms"], row["rate_mbit"]
        if row["buffer_packets"] != "66" or row["from_s"]:
            continue
        if row["source"] == "cao2019" and row["gain_percent"]:
            paper[condition] = 1 + float(row["gain_percent"]) / 100
        elif row["source"].startswith("datta2023"):
            replicated[condition].append(float(row["bbr_mbit"]) / float(row["cubic_mbit"]))
    return {each: (paper[each], replicated[each]) for each in paper.keys() & replicated.keys()}


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)


def _counted(recorded: Mapping[Name, Recorded], causes: Container[Name]) -> dict[str, Counter[str]]:
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
    text = readme.read_text()
    for mark, words in (
        (MARK, answer(FOLDER / TABLE)),
        (VERDICTS_MARK, verdicts()),
        (FULL_MARK, full()),
        (FINDINGS_MARK, findings()),
    ):
        text = replaced(text, mark, words)
    readme.write_text(text)


if __name__ == "__main__":
    main()
