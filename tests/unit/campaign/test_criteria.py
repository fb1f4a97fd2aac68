"""Cases that span cells: verdicts by confidence intervals, on recorded and made-up runs."""

import itertools

import pytest

from losslab.campaign import criteria
from losslab.campaign.criteria import FAIL, INCONCLUSIVE, NOT_OBSERVABLE, PASS, Data, Estimate
from losslab.campaign.tables import Tables
from losslab.reading import read_rows
from losslab.repository import ROOT
from losslab.study import design, studyfiles

RFC = studyfiles.load_suite("rfc9743")
RECORDED = ROOT / "tests" / "fixtures" / "score"
TESTED = "vegas"


def number(text):
    try:
        return float(text) if text else None
    except ValueError:
        return text


@pytest.fixture(scope="module")
def recorded():
    """Return the verdicts on recorded cells: Reno, and three algorithms that are bad on purpose."""
    tables = (read_rows(RECORDED / f"score_{t}.csv") for t in ("cells", "replicates", "intervals"))
    rows = ([{k: number(v) for k, v in row.items()} for row in table] for table in tables)
    found = criteria.judged(Data.of(RFC, Tables(*rows)))
    return {(row["algorithm"], row["criterion"]): row for row in found}


def test_bad_algorithms_fail_the_criteria_that_reno_passes(recorded):
    verdicts = {
        name: {c: recorded[name, c]["verdict"] for c in ("backs-off", "wired", "steady")}
        for name in ("reno", "ignores_loss", "never_grows", "oscillates")
    }
    good = {"backs-off": PASS, "wired": PASS, "steady": PASS}
    assert verdicts["reno"] == good
    assert verdicts["never_grows"] == good | {"wired": FAIL}
    assert verdicts["oscillates"] == good | {"wired": FAIL, "steady": FAIL}
    assert verdicts["ignores_loss"]["backs-off"] == FAIL
    assert recorded["ignores_loss", "breakers"]["verdict"] == FAIL


def test_case_without_a_number_says_why(recorded):
    row = recorded["reno", "own-loss"]
    assert (row["verdict"], row["cells"]) == (NOT_OBSERVABLE, "")
    assert row["absent"] == "this campaign has no such cell"
    row = recorded["reno", "two-queues-delay"]
    assert row["absent"] == "not in the quick form. It needs another kernel, Linux 7.2"


# Values of a run at 10 Mbit/s and 40 ms, of which each criterion's number follows.
RUN = {
    "loss_offered_packets": 5000, "bottleneck_drops": 100, "policer_drops": 100,
    "queue_mean_packets": 10.0, "goodput_mbit": 5.0, "total_goodput_mbit": 10.0,
    "competitor_goodput_mbit": 5.0, "flow_goodput_min_mbit": 2.0, "flows_goodput_mbit": 5.0,
    "jain_index": 0.7, "bottleneck_loss_percent": 1.0, "download_s": 0.5, "fct_mean_s": 0.5,
    "after_change_share": 0.8, "settle_s": 1.0, "time_to_fairness_s": 2.0, "spread": 0.02,
}  # fmt: skip


@pytest.fixture(scope="module")
def cells():
    config = {"studies": {"score": "full"}, "algorithms": [TESTED, "cubic", "reno"]}
    return design.load_cells(config, ROOT)


def made_up(cells, edited="", factors=(1,), count=5):
    """Return data of cells; a value of the tested algorithm's runs is multiplied by factors."""
    found = Data(RFC, [], {})
    for cell in cells:
        condition = cell.condition
        rows = found.runs[cell.name] = []
        for n, factor in zip(range(count), itertools.cycle(factors)):
            run = {name: value * (1 + 0.001 * n) for name, value in RUN.items()}
            if condition.algorithm == TESTED and edited:
                run[edited] *= factor
            spread = run["spread"]
            seconds = [1 - spread, 1 + spread] * 5
            rows.append(run | condition.to_json() | {
                "replicate": n, "seed": n, "valid": "TRUE", "seconds": seconds,
            })  # fmt: skip
        found.cells.append(
            condition.to_json()
            | {"block": cell.block, "cell": cell.name, "n_valid": count, "n_replicates": count}
        )
    return found


EDITS = [
    (name, factors)
    for name in RUN
    for factors in ((0.001,), (0.1,), (2,), (100,), (1e4,), (0.001, 1000), (0.1, 10), (0.5, 2))
]


@pytest.mark.parametrize("name", RFC["cases"])
def test_every_criterion_passes_fails_and_is_inconclusive_on_edited_values(cells, name):
    blocks = studyfiles.as_list(RFC["cases"][name]["over"])
    its = [cell for cell in cells if cell.block in blocks][:9]  # of the first three points
    [check] = RFC["cases"][name]["expect"]
    found = set()
    for edit in EDITS:
        row = criteria.judge(name, check, {"algorithm": TESTED}, made_up(its, *edit))
        found.add(row["verdict"])
        if found >= {PASS, FAIL, INCONCLUSIVE}:
            return
    raise AssertionError(f"found only {found}")


def judged(data, name, own=TESTED):
    [check] = RFC["cases"][name]["expect"]
    return criteria.judge(name, check, {"algorithm": own}, data)


def test_worst_cell_decides_and_ratios_are_of_the_same_cell(cells):
    its = [cell for cell in cells if cell.block == "beside-cubic"]
    data = made_up(its)
    worst = next(c.name for c in its if c.condition.algorithm == TESTED)
    for run in data.runs[worst]:
        run["competitor_goodput_mbit"] = 0.5
    row = judged(data, "harm-cubic")
    assert (row["worst"], row["verdict"]) == (worst, FAIL)
    assert row["value"] == pytest.approx(0.1, rel=0.01)
    assert len(row["cells"].split()) == 3
    assert judged(data, "harm-cubic", "reno")["verdict"] == PASS
    lost = next(cell.name for cell in its if cell.condition.algorithm == "cubic")
    data.cells[:] = [cell for cell in data.cells if cell["cell"] != lost]
    assert judged(data, "harm-cubic")["absent"] == "one of its cells has no counterpart"


def test_four_runs_are_inconclusive_and_a_zero_in_all_runs_is_not(cells):
    its = [cell for cell in cells if cell.block == "beside-cubic"]
    few = judged(made_up(its, count=4), "harm-cubic")
    assert (few["verdict"], few["n"]) == (INCONCLUSIVE, 4)
    assert few["absent"] == "n = 4, but a confidence interval needs 5"
    none = judged(made_up(its, "competitor_goodput_mbit", (0,)), "harm-cubic")
    assert (none["verdict"], none["low"], none["high"]) == (FAIL, 0, 0)


def test_runs_of_a_cell_that_ended_early_are_not_paired_and_have_less_of_the_error(cells):
    its = [cell for cell in cells if cell.block == "satellite"]
    data = made_up(its)
    usual = judged(data, "high-delay")
    for cell in its:
        if cell.condition.algorithm == TESTED:
            for run in data.runs[cell.name]:
                run["error_share"] = 0.2
    early = judged(data, "high-delay")
    assert usual["high"] - usual["low"] < 1e-6  # the runs of a pair scatter together
    assert early["high"] - early["low"] > 1e-3


def test_cells_without_a_valid_run_or_a_kernel_are_not_judged(cells):
    data = made_up([cell for cell in cells if cell.block == "wired"])
    data.cells[0] |= {"n_valid": 0, "reasons": "the RTT must be 20 ms, found 40"}
    assert judged(data, "steady")["absent"] == "invalid: the RTT must be 20 ms, found 40"
    data.cells[0] |= {"n_replicates": 0, "reasons": "kernel 7.2 must be had"}
    assert judged(data, "steady")["absent"] == "not measured: kernel 7.2 must be had"
    other = made_up([cell for cell in cells if cell.block == "two-queues"])
    why = judged(other, "two-queues-delay", "bbr3")["absent"]
    assert why == "the scenario and the algorithm need different kernels"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1, 2, PASS), (2, 3, PASS), (2.1, 3.1, INCONCLUSIVE), (3.1, 4, FAIL),
        (None, None, INCONCLUSIVE),
    ],
)  # fmt: skip
def test_verdict_needs_the_whole_interval(low, high, verdict):
    assert criteria.verdict_of(Estimate(2.5, low, high, 5), {"at_most": 3}) == verdict
    flipped = Estimate(-2.5, None if high is None else -high, None if low is None else -low, 5)
    assert criteria.verdict_of(flipped, {"at_least": -3}) == verdict
