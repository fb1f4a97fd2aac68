"""The statistics of a campaign's cells, and the README's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median

from bench.recompute import intervals
from bench.recompute.campaign import ROOT, Campaign, Cell, Comparison, claims_of, rows
from bench.recompute.scoreboard import GRADES
from bench.recompute.verdicts import NOT_MEASURED, Judged

# A record has six digits of each number, results have eight.
RECORD_TOLERANCE, RESULTS_TOLERANCE = 1e-5, 1e-7


def compare_cells(campaign: Campaign) -> Comparison:
    """Compare the statistics of each cell: in a record those of its metric, in results all."""
    found = Comparison()
    if not campaign.results:
        _compare_record(campaign, found)
        return found
    for study in campaign.studies:
        for row in rows(campaign.folder / "summary" / study / "statistics.csv"):
            cell = campaign.cells.get((study, row["cell"]))
            label = f"{study}/{row['cell']}, {row['metric']}"
            if cell is None:
                found.number(label, None, row["mean"])
            elif row["statistic_over"] == "seconds":
                for name, value in intervals.statistics_of(cell.seconds_mbit).items():
                    found.number(
                        f"{label} of seconds, {name},", value, row[name], RESULTS_TOLERANCE
                    )
            elif cell.having(row["metric"]):
                for name, value in _statistics(cell, row["metric"]).items():
                    found.number(f"{label}, {name},", value, row[name], RESULTS_TOLERANCE)
    return found


def _compare_record(campaign: Campaign, found: Comparison) -> None:
    written = {(r["study"], r["cell"]): r for r in rows(campaign.folder / "record.tsv", "\t")}
    for name in campaign.not_in_index:
        found.problems.append(f"{'/'.join(name)} has recorded runs, but is not in cells.tsv")
    for name in campaign.cells.keys() - written.keys():
        found.problems.append(f"{'/'.join(name)} has recorded runs, but is not in record.tsv")
    for name, row in written.items():
        label = "/".join(name)
        cell = campaign.cells.get(name)
        if cell is None:
            found.number(f"{label}, valid runs,", None, row["valid"])
            continue
        found.number(f"{label}, runs,", cell.replicates, row["replicates"])
        found.number(f"{label}, valid runs,", len(cell.runs), row["valid"])
        values = cell.values("rtt_measured_ms" if row["metric"] == "rtt_ms" else row["metric"])
        low, high = intervals.mean_interval(values)
        mean = fmean(values) if values else None
        for part, value in {"mean": mean, "low": low, "high": high}.items():
            found.number(f"{label}, {part},", value, row[part], RECORD_TOLERANCE)


def _statistics(cell: Cell, metric: str) -> dict[str, float]:
    values = cell.values(metric)
    of_mean = intervals.mean_interval(values, cell.error, metric)
    of_median = intervals.median_interval(values, cell.error)
    return intervals.statistics_of(values) | {
        "n": len(values), "mean_low": of_mean[0], "mean_high": of_mean[1],
        "median_low": of_median[0], "median_high": of_median[1],
    }  # fmt: skip


def compare_readme(
    campaign: Campaign,
    judged: Mapping[str, Mapping[str, Judged]],
    sources: Mapping[tuple[str, str], Mapping[str, float]],
) -> Comparison:
    """Compare the README's numbers with those of the recorded full campaign."""
    found = Comparison()
    text = " ".join((ROOT / "README.md").read_text().replace("**", "").split())
    runs = sum(cell.replicates for cell in campaign.cells.values())
    expected = [
        f"has {len(campaign.cells):,} of the full campaign's",
        f"cells, with {runs:,} runs",
        *_of_losses(campaign), *_of_a_page(campaign), *_of_orders(judged, sources),
    ]  # fmt: skip
    for words in expected:
        found.compared += 1
        if words not in text:
            found.problems.append(f"README.md must have {words!r}")
    return found


def _of_losses(campaign: Campaign) -> list[str]:
    """Return the parts of the first sentence: what losses cost, ours and published."""
    published = {
        (row["algorithm"], float(row["loss_percent"])): float(row["mean"])
        for row in rows(ROOT / "studies/loss/published.csv")
        if row["path"] == "symmetric"
    }
    ours: dict[tuple[str, float], list[float]] = {}
    theirs: dict[tuple[str, float], str] = {}
    cell = None
    for algorithm in ("cubic", "bbr"):
        for loss in (0, 1, 10):
            where = {
                "block": "main", "app": "iperf3", "algorithm": algorithm, "path": "symmetric",
                "loss_percent": loss,
            }  # fmt: skip
            cell = next(iter(campaign.select("loss", where)), None)
            if cell is None:
                return [f"what {loss} % loss costs {algorithm}, of which no cell is recorded"]
            ours[algorithm, loss] = cell.values("goodput_mbit")
            theirs[algorithm, loss] = _lost(published[algorithm, loss], published[algorithm, 0])
    cost = {key: _lost(fmean(runs), fmean(ours[key[0], 0])) for key, runs in ours.items()}
    slowest = ours["bbr", 10]
    middle, least, most = (
        _lost(mbit, fmean(ours["bbr", 0])) for mbit in (median(slowest), max(slowest), min(slowest))
    )
    assert cell is not None
    run_s, start_s = cell.condition["duration_s"], cell.condition["warmup_s"]
    return [
        f"1 % packet loss costs CUBIC {cost['cubic', 1]} % of its goodput and BBR "
        f"{cost['bbr', 1]} % (published: {theirs['cubic', 1]} % and {theirs['bbr', 1]} %)",
        f"10 % loss costs CUBIC {cost['cubic', 10]} % (published: {theirs['cubic', 10]} %)",
        f"It costs BBR {middle} % in the median run and from {least} to {most} % over the runs "
        f"(published, a mean: {theirs['bbr', 10]} %)",
        f"Each number is of {len(slowest)} runs of {run_s:g} s, without their first {start_s:g} s",
    ]


def _lost(mbit: float, unlossy_mbit: float) -> str:
    lost = 100 * (1 - mbit / unlossy_mbit)
    return f"{lost:.{1 if lost > 99 else 0}f}"


def _of_a_page(campaign: Campaign) -> list[str]:
    """Return the sentence on a web page beside a bulk flow."""
    times = []
    for competitor in ("cubic", "none"):
        where = {
            "block": "web", "algorithm": "cubic", "competitor": competitor, "buffer_packets": 100,
        }  # fmt: skip
        cells = campaign.select("bufferbloat", where)
        times.append(cells[0].values("download_s") if len(cells) == 1 else [])
    if not all(times):
        return ["the time of a web page, of which no cell is recorded"]
    beside, alone = times
    return [
        f"a web page takes {median(beside):.1f} s instead of {median(alone):.1f} s (median of "
        f"{len(beside)} runs, which take {min(beside):.1f} to {max(beside):.1f} s"
    ]


def _of_orders(
    judged: Mapping[str, Mapping[str, Judged]],
    sources: Mapping[tuple[str, str], Mapping[str, float]],
) -> list[str]:
    """Return the rows of the scoreboard and the sentence on orders and on both campaigns."""
    orders = {
        study: [each.verdict for name, each in of_study.items()
                if claims_of(study)[name]["evidence"] == "order"]
        for study, of_study in judged.items()
    }  # fmt: skip
    lines = []
    for (study, source), counts in sources.items():
        name = source.removeprefix(study).removeprefix(", ")
        cells = [f"`{study}`" + (f": {name}" if name else "")]
        cells += [str(counts[grade]) for grade in ("counted", *GRADES)]
        measured = [verdict for verdict in orders[study] if verdict != NOT_MEASURED]
        if counts["counted"] and measured and study == source:
            cells += [f"{measured.count('reproduced')} of {len(measured)}",
                      str(measured.count("not reproduced"))]  # fmt: skip
        if counts["counted"]:
            lines.append(f"| {' | '.join(cells)} |")
    every = [verdict for of_study in orders.values() for verdict in of_study]
    right, wrong, unmeasured = map(every.count, ("reproduced", "not reproduced", NOT_MEASURED))
    rest = f", and {unmeasured} not measured" if unmeasured else ""
    quick = {
        (row["study"], row["claim"]): row["verdict"]
        for row in rows(ROOT / "recorded/quick/claims.csv")
    }
    both = [
        (each.verdict, quick[study, name])
        for study, of_study in judged.items()
        for name, each in of_study.items()
        if NOT_MEASURED not in (each.verdict, quick.get((study, name), NOT_MEASURED))
    ]
    differ = sum(ours != other for ours, other in both)
    return [
        *lines,
        f"Of {len(every)} orders and signs, {right} are right, {wrong} wrong, and "
        f"{len(every) - right - wrong - unmeasured} inconclusive or not comparable{rest}.",
        f"Both campaigns judge {len(both)} claims; on {differ} of them they disagree",
    ]
