"""The verdicts of a campaign, from its runs and studies/*/claims.yaml.

docs/explanation/statistics.md defines the intervals and verdicts, and the schema of claims
(workflow/schemas/claims.schema.yaml) the kinds of numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scipy import stats

from bench.recompute import intervals
from bench.recompute.campaign import (
    Campaign,
    Cell,
    Comparison,
    axes_between,
    claims_of,
)

Claim = Mapping[str, Any]
DIFFERING = ("not reproduced", "outside")
UNRESOLVED = ("undecidable", "inconclusive")
NOT_MEASURED = "not measured"
# The missing cells that claims.csv names, such as "cells A, B and 3 more without a goodput_mbit".
ABSENT = re.compile(r"cells? (.+?)(?: and \d+ more)? without an? ")


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, and the least number of runs behind it."""

    value: float
    low: float
    high: float
    n: int

    def mapped(self, change: Callable[[float], float]) -> Estimate:
        """Return the estimate on another scale, which may have the opposite order."""
        low, high = sorted((change(self.low), change(self.high)))
        return Estimate(change(self.value), low, high, self.n)


@dataclass(frozen=True)
class Judged:
    """A claim's estimate, verdict and cause, and whether its reason fails."""

    estimate: Estimate | None
    verdict: str
    cause: str = ""
    unsupported: bool = False
    one_observation: bool = False


def judge_study(campaign: Campaign, study: str) -> dict[str, Judged]:
    """Judge the claims of a study."""
    claims = claims_of(study)
    shares = family_shares(campaign, study)
    judged = {}
    for name, claim in claims.items():
        absent = lacks_cells(campaign, study, name)
        estimate = None if absent else measured(campaign, study, claim, shares.get(name, 1.0))
        verdict = verdict_of(estimate, claim)
        if verdict != NOT_MEASURED and "not_comparable" in claim:
            verdict = "not comparable"
        cause, unsupported = reason_of(campaign, study, claim, verdict)
        judged[name] = Judged(
            estimate, verdict, cause, unsupported,
            estimate is not None
            and (
                math.isclose(estimate.low, estimate.high, rel_tol=1e-9, abs_tol=1e-9)
                or is_deterministic(campaign, study, claim)
            ),
        )  # fmt: skip
    return judged


def lacks_cells(campaign: Campaign, study: str, name: str) -> bool:
    """Return whether claims.csv names cells of a claim that a record does not have.

    The claim's other cells alone are then not judged.
    """
    if campaign.results:
        return False
    row = campaign.verdicts.get((study, name), {})
    if (of_cells := ABSENT.match(row.get("absent", ""))) is None:
        return False
    return not any((study, cell) in campaign.cells for cell in of_cells[1].split(", "))


def family_shares(campaign: Campaign, study: str) -> dict[str, float]:
    """Return the share of the 5 % error of each claim of a study's family, by Holm's method.

    The family has the claims on means to which nothing was fitted. Of k open claims, each has a
    k-th of the error; those that are decided leave, and the others are judged again.
    """
    claims = claims_of(study)
    open_claims = [
        name
        for name, claim in claims.items()
        if claim["evidence"] == "not fitted"
        and claim.get("published_runs") != 1
        and "not_comparable" not in claim
        and _is_measured(campaign, study, claim)
        and not lacks_cells(campaign, study, name)
    ]
    shares: dict[str, float] = {}
    while open_claims:
        share = 1 / len(open_claims)
        shares |= dict.fromkeys(open_claims, share)
        left = [
            name
            for name in open_claims
            if verdict_of(measured(campaign, study, claims[name], share), claims[name])
            == "inconclusive"
        ]
        if len(left) == len(open_claims):
            break
        open_claims = left
    return shares


def measured(campaign: Campaign, study: str, claim: Claim, share: float = 1.0) -> Estimate | None:
    """Return a claim's number with a share of the 5 % error; None without all of its cells."""
    if not _is_measured(campaign, study, claim):
        return None
    estimate = KINDS[claim["kind"]](campaign, study, claim, share)
    return None if estimate is None or math.isnan(estimate.value) else estimate


def verdict_of(estimate: Estimate | None, claim: Claim) -> str:
    """Judge a number by its claim's limit."""
    if estimate is None:
        return NOT_MEASURED
    if claim.get("published_runs") == 1:
        return _judge_run(estimate, claim)
    low, high = limit_of(claim)
    if math.isnan(estimate.low):
        return "inconclusive"
    if low <= estimate.low and estimate.high <= high:
        return "reproduced"
    return "not reproduced" if estimate.high < low or estimate.low > high else "inconclusive"


def _judge_run(estimate: Estimate, claim: Claim) -> str:
    low, high = limit_of(claim)
    if math.isnan(estimate.low):
        return "inconclusive"
    in_limit = low <= estimate.low and estimate.high <= high
    if not estimate.low <= claim["published"] <= estimate.high:
        return "near" if in_limit else "outside"
    if in_limit or estimate.high - estimate.low <= high - low:
        return "inside"
    return "undecidable" if _run_width(estimate, math.inf) > high - low else "inconclusive"


def limit_of(claim: Claim) -> tuple[float, float]:
    """Return the range of values that a claim allows."""
    if "within" in claim:
        return claim["published"] - claim["within"], claim["published"] + claim["within"]
    return claim.get("at_least", -math.inf), claim.get("at_most", math.inf)


def _run_width(estimate: Estimate, runs: float) -> float:
    """Return the width of the prediction interval of one run, with another number of runs."""

    def reach(n: float) -> float:
        t = stats.norm.ppf(0.975) if math.isinf(n) else stats.t.ppf(0.975, n - 1)
        return float(t) * math.sqrt(1 + 1 / n)

    return (estimate.high - estimate.low) * reach(runs) / reach(estimate.n)


def runs_needed(estimate: Estimate, claim: Claim) -> float:
    """Return how many runs would decide an inconclusive verdict; infinity above 1000."""
    low, high = limit_of(claim)
    if claim.get("published_runs") == 1:
        enough = (n for n in range(estimate.n, 1001) if _run_width(estimate, n) <= high - low)
        return next(enough, math.inf)
    # The interval shrinks with the root of the runs, until it ends at the limit that it crosses.
    below, above = estimate.value - estimate.low, estimate.high - estimate.value
    reaches = (below, above) if low <= estimate.value <= high else (above, below)
    ratios = [
        reach / abs(estimate.value - end) if estimate.value != end else math.inf
        for reach, end in zip(reaches, (low, high), strict=True)
    ]
    needed = estimate.n * max(ratios) ** 2
    return math.inf if math.ceil(needed) > 1000 else math.ceil(needed)


def reason_of(campaign: Campaign, study: str, claim: Claim, verdict: str) -> tuple[str, bool]:
    """Return the cause that runs show, and whether a verdict that differs lacks a true reason."""
    if verdict not in (*DIFFERING, *UNRESOLVED):
        return "", False
    causes, stated, false = set(), 0, 0
    sentences = claim.get("reason", [])
    last = max((n for n, each in enumerate(sentences) if each.get("cause")), default=-1)
    for place, sentence in enumerate(sentences):
        support = sentence.get("shown_by")
        kind = ""
        if support and sentence.get("cause"):
            kind = "scatter" if support["kind"] == "scatter_ratio" else "difference"
        shown = verdict_of(measured(campaign, study, support), support) if support else ""
        # Not every campaign measures the cells that show a cause, or lead to it.
        if place <= last and shown == NOT_MEASURED:
            continue
        stated += 1
        false += shown not in ("", "reproduced")
        causes.add(kind)
    explaining = ["difference", *(["scatter"] if verdict in UNRESOLVED else [])]
    cause = next((kind for kind in explaining if kind in causes and not false), "")
    needs_reason = not stated and claim["evidence"] != "predicted"
    return cause, verdict in DIFFERING and bool(false or needs_reason)


def _metric(claim: Claim) -> str:
    name: str = claim.get("metric", "goodput_mbit")
    return "loss_packets" if claim["kind"] == "largest_loss_z" else name


def _selected(
    campaign: Campaign, study: str, claim: Claim, changed: Mapping[str, Any] | None = None
) -> list[Cell]:
    cells = campaign.select(study, {**claim.get("where", {}), **(changed or {})})
    if claim["kind"] == "largest_loss_z":
        return [cell for cell in cells if cell.condition["loss_percent"] > 0]
    return cells


def _cell_sets(campaign: Campaign, study: str, claim: Claim) -> list[list[Cell]]:
    """Return the cells that a claim selects, their counterparts and their rivals."""
    sets = [_selected(campaign, study, claim)]
    if "against" in claim:
        sets.append(_selected(campaign, study, claim, claim["against"]))
    if "others" in claim:
        sets.append(campaign.select(study, claim["others"]))
    return sets


def _is_measured(campaign: Campaign, study: str, claim: Claim) -> bool:
    return all(
        cells and all(cell.having(_metric(claim)) for cell in cells)
        for cells in _cell_sets(campaign, study, claim)
    )


def is_deterministic(campaign: Campaign, study: str, claim: Claim) -> bool:
    """Return whether the runs of none of a claim's cells vary."""
    return all(
        intervals.deterministic(cell.values(_metric(claim)))
        for cells in _cell_sets(campaign, study, claim)
        for cell in cells
    )


def _counterparts(
    cells: Sequence[Cell], others: Sequence[Cell], changed: Mapping[str, Any]
) -> list[list[Cell]]:
    """Return for each cell those of `others` that differ from it only in changed axes."""

    def key(cell: Cell) -> tuple[Any, ...]:
        condition = {"block": cell.block, **cell.condition}
        return tuple(sorted((k, str(v)) for k, v in condition.items() if k not in changed))

    return [[other for other in others if key(other) == key(cell)] for cell in cells]


def cell_estimate(cell: Cell, claim: Claim, share: float) -> Estimate:
    """Return the statistic of a cell's runs that a claim is about, with its interval."""
    metric = _metric(claim)
    values, error = cell.values(metric), cell.error * share
    statistic = claim.get("statistic", "mean")
    if statistic in ("min", "max"):
        extreme = min(values) if statistic == "min" else max(values)
        return Estimate(extreme, extreme, extreme, len(values))
    if statistic != "mean":
        raise SystemExit(f"recompute: the statistic of a claim must be known, found {statistic}")
    runs = claim.get("published_runs")
    if runs is None:
        ends = intervals.mean_interval(values, error, metric)
    elif "published_sd" in claim:
        ends = intervals.two_samples(values, claim["published_sd"], runs, error)
    else:
        ends = intervals.prediction(values, error, runs)
    return Estimate(fmean(values), *ends, len(values))


def ratio_estimate(over: Cell, under: Cell, claim: Claim, share: float) -> Estimate:
    """Return the ratio of two cells, over pairs of runs with the same seed if there are any."""
    metric = _metric(claim)
    a, b = over.values(metric), under.values(metric)
    if "published_runs" in claim:
        error = max(over.error, under.error) * share
        ends = intervals.ratio_prediction(a, b, claim["published_runs"], error)
        return Estimate(intervals.ratio(a, b), *ends, min(len(a), len(b)))
    by_seed = {(run.number, run.seed): run.metrics[metric] for run in under.having(metric)}
    pairs = [
        (run.metrics[metric], by_seed[run.number, run.seed])
        for run in over.having(metric)
        if (run.number, run.seed) in by_seed
    ]
    # If only one cell ended early, pairs would omit runs of the other one.
    paired = bool(pairs) and over.error == under.error
    if paired:
        a, b = ([float(pair[side] or 0) for pair in pairs] for side in (0, 1))
    ends = intervals.ratio_interval(a, b, paired, max(over.error, under.error) * share)
    return Estimate(intervals.ratio(a, b), *ends, min(len(a), len(b)))


Estimates = Callable[[float], list[Estimate]]


def _largest(estimates: Estimates, share: float) -> Estimate | None:
    """Return the largest of k numbers.

    Any of them may be the largest by chance, so each has a k-th of the error at the lower end.
    """
    usual = estimates(share)
    if not usual or any(math.isnan(each.value) for each in usual):
        return None
    strict = estimates(share / len(usual))
    ends = [each.low for each in strict], [each.high for each in usual]
    low, high = (math.nan if any(map(math.isnan, values)) else max(values) for values in ends)
    return Estimate(max(each.value for each in usual), low, high, min(each.n for each in usual))


def _smallest(estimates: Estimates, share: float) -> Estimate | None:
    def negative(share: float) -> list[Estimate]:
        return [each.mapped(lambda value: -value) for each in estimates(share)]

    largest = _largest(negative, share)
    return largest and largest.mapped(lambda value: -value)


def _as_factor(estimate: Estimate) -> Estimate:
    """Return a ratio as a factor of at least one."""
    ends = [max(end, 1 / end) for end in (estimate.low, estimate.high)]
    low = 1.0 if estimate.low <= 1 <= estimate.high else min(ends)
    value = max(estimate.value, 1 / estimate.value)
    return Estimate(value, low, max(estimate.high, 1 / estimate.low), estimate.n)


def _as_percent(estimate: Estimate | None) -> Estimate | None:
    return estimate and estimate.mapped(lambda value: 100 * (value - 1))


def _of_cells(campaign: Campaign, study: str, claim: Claim) -> Estimates:
    cells = _selected(campaign, study, claim)
    return lambda share: [cell_estimate(cell, claim, share) for cell in cells]


def _of_pairs(claim: Claim, pairs: Sequence[tuple[Cell, Cell]]) -> Estimates:
    return lambda share: [ratio_estimate(*pair, claim, share) for pair in pairs]


def _of_counterparts(campaign: Campaign, study: str, claim: Claim) -> Estimates:
    cells, others, *_ = _cell_sets(campaign, study, claim)
    found = _counterparts(cells, others, claim["against"])
    if not all(found):
        return lambda _: []
    return _of_pairs(
        claim, [(cell, o) for cell, each in zip(cells, found, strict=True) for o in each]
    )


def _only(estimates: Estimates, share: float) -> Estimate | None:
    found = estimates(share)
    if len(found) > 1:
        raise SystemExit(f"recompute: a claim on one cell must select one, found {len(found)}")
    return found[0] if found else None


def _over_largest(campaign: Campaign, study: str, claim: Claim, share: float) -> Estimate | None:
    [cell], rivals = _cell_sets(campaign, study, claim)
    pairs = [(cell, rival) for rival in rivals if rival != cell]
    return _smallest(_of_pairs(claim, pairs), share)


def _rise(campaign: Campaign, study: str, claim: Claim, share: float) -> Estimate | None:
    axis = claim["along"]
    cells = sorted(_selected(campaign, study, claim), key=lambda cell: cell.condition[axis])
    pairs = list(zip(cells[1:], cells, strict=False))
    return _as_percent(_largest(_of_pairs(claim, pairs), share))


def _loss_z(campaign: Campaign, study: str, claim: Claim, _: float) -> Estimate | None:
    """Return the largest distance of a cell's losses from the binomial mean, in standard errors."""
    distances, counts = [], []
    for cell in _selected(campaign, study, claim):
        p = cell.condition["loss_percent"] / 100
        offered, lost = (
            sum(cell.values(name)) for name in ("loss_offered_packets", "loss_packets")
        )
        distances.append(abs(lost - p * offered) / math.sqrt(offered * p * (1 - p)))
        counts.append(len(cell.values("loss_packets")))
    return Estimate(max(distances), max(distances), max(distances), min(counts))


def _gain(campaign: Campaign, study: str, claim: Claim, share: float) -> Estimate | None:
    """Return the factor between the gains of BBR over CUBIC with and without a change of axes."""
    against = claim["against"]
    changed = {"algorithm": None, **against}
    groups = [
        _selected(campaign, study, claim, replaced)
        for replaced in (
            {"algorithm": "bbr"}, {"algorithm": "cubic"},
            {**against, "algorithm": "bbr"}, {**against, "algorithm": "cubic"},
        )
    ]  # fmt: skip
    columns = [_counterparts(groups[0], group, changed) for group in groups[1:]]
    complete = [
        (cell, *(each[0] for each in found))
        for cell, *found in zip(groups[0], *columns, strict=True)
        if all(found)
    ]
    if not complete:
        return None
    error = min(cell.error for cells in complete for cell in cells) * share
    samples = [[cell.values(_metric(claim)) for cell in cells] for cells in complete]
    least = min(len(runs) for cells in samples for runs in cells)
    value, ends = intervals.gain_interval(samples, error)
    return Estimate(value, *(ends if least >= intervals.MIN_RUNS else intervals.NONE), least)


def _scatter(campaign: Campaign, study: str, claim: Claim, share: float) -> Estimate | None:
    [over], [under] = _cell_sets(campaign, study, claim)
    a, b = (cell.values(_metric(claim)) for cell in (over, under))
    value, ends = intervals.scatter_ratio(a, b, min(over.error, under.error) * share)
    return Estimate(value, *ends, min(len(a), len(b)))


Kind = Callable[[Campaign, str, Claim, float], Estimate | None]
KINDS: dict[str, Kind] = {
    "value": lambda *of: _only(_of_cells(*of[:3]), of[3]),
    "largest": lambda *of: _largest(_of_cells(*of[:3]), of[3]),
    "smallest": lambda *of: _smallest(_of_cells(*of[:3]), of[3]),
    "largest_factor": lambda *of: _largest(
        lambda share: [_as_factor(each) for each in _of_cells(*of[:3])(share)], of[3]
    ),
    "change_percent": lambda *of: _as_percent(_only(_of_counterparts(*of[:3]), of[3])),
    "smallest_ratio": lambda *of: _smallest(_of_counterparts(*of[:3]), of[3]),
    "largest_ratio": lambda *of: _largest(_of_counterparts(*of[:3]), of[3]),
    "gain_factor": _gain,
    "value_over_largest": _over_largest,
    "largest_rise_percent": _rise,
    "largest_loss_z": _loss_z,
    "scatter_ratio": _scatter,
}


def compare(campaign: Campaign, judged: Mapping[str, Mapping[str, Judged]]) -> Comparison:
    """Compare verdicts, and in results their numbers, with claims.csv."""
    found, written = Comparison(), campaign.verdicts
    for study, of_study in judged.items():
        for name, claim in claims_of(study).items():
            row = written.get((study, name))
            if row is not None:
                _compare(found, f"{study}/{name}", of_study[name], claim, row)
            elif of_study[name].verdict != NOT_MEASURED:
                found.word(f"{study}/{name}", of_study[name].verdict, "")
    for study, name in written:
        if name not in judged.get(study, {}):
            # Of a study without any cell, nothing is judged.
            ours = NOT_MEASURED if study not in judged and name in claims_of(study) else ""
            found.word(f"{study}/{name}", ours, written[study, name]["verdict"])
    return found


def _compare(
    found: Comparison, label: str, judged: Judged, claim: Claim, row: Mapping[str, str]
) -> None:
    estimate = judged.estimate
    found.word(label, judged.verdict, row["verdict"])
    cause = "" if row["cause"] == "none" else row["cause"]
    found.word(f"{label}, cause,", judged.cause, cause)
    if "measured" not in row:
        return
    numbers: dict[str, float | None] = dict.fromkeys(("measured", "low", "high", "runs_needed"))
    numbers["n"] = 0
    if estimate is not None:
        numbers |= {"measured": estimate.value, "n": estimate.n}
        if not judged.one_observation:
            numbers |= {"low": estimate.low, "high": estimate.high}
        if judged.verdict == "inconclusive" and not math.isnan(estimate.low):
            numbers["runs_needed"] = runs_needed(estimate, claim)
    for name, value in numbers.items():
        found.number(f"{label}, {name},", value, row[name])
    fails = row["unsupported"] not in ("", "NA")
    found.word(
        f"{label}, reason,", *("false" if each else "" for each in (judged.unsupported, fails))
    )


def compare_causes(campaign: Campaign) -> Comparison:
    """Print the pair of cells of each cause that a claim states; they must differ in one axis."""
    found = Comparison()
    for study in campaign.studies:
        for name, claim in claims_of(study).items():
            own = campaign.select(study, claim["where"]) if "where" in claim else []
            # The claim's cells, and those to which its sentences lead, an axis at a time.
            steps = list(own)
            for sentence in claim.get("reason", []):
                if "shown_by" not in sentence:
                    continue
                others = campaign.select(study, sentence["shown_by"]["where"])
                if not own or not others:
                    break  # this campaign did not measure them
                of_own = sentence["shown_by"]["kind"] == "scatter_ratio"
                pairs = [(a, b) for a in (own if of_own else steps) for b in others]
                a, b = min(pairs, key=lambda pair: len(axes_between(*pair)))
                axes = axes_between(a, b)
                steps = steps + [
                    b for b in others if any(len(axes_between(a, b)) == 1 for a in steps)
                ]
                if "cause" not in sentence:
                    continue
                found.compared += 1
                if len(axes) != 1:
                    problem = f"{study}/{name}: its cause's cells differ in {', '.join(axes)}"
                    found.problems.append(problem)
                print(f"{study}/{name}: {a.name} and {b.name} ({', '.join(axes)})")
    return found
