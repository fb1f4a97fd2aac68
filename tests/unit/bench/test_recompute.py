"""Campaigns recomputed without the project's analysis: a record, and results made here."""

import csv
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.recompute import __main__ as recompute
from bench.recompute import campaign, intervals, published, verdicts
from bench.recompute.campaign import Campaign, Cell, Run
from losslab.study.intervals import mean_interval

RECORDED = campaign.ROOT / "recorded" / "full"
RUNS = [9.8, 9.9, 10.0, 10.1, 10.2]
Problems = dict[str, list[str]]


def problems(folder: Path) -> Problems:
    return {subject: found.problems for subject, found in recompute.compare(folder).items()}


@pytest.fixture(scope="module")
def recorded() -> Problems:
    return problems(RECORDED)


def test_nothing_differs_in_the_recorded_campaign(recorded: Problems):
    assert recorded == {
        "cells": [], "scoreboards": [], "verdicts": [], "causes": [], "README": [],
    }  # fmt: skip


def cell_of(values: list[float], **condition: object) -> Cell:
    """Return a cell with some goodputs; its condition is the block's only difference."""
    runs = [Run(n, n, {"goodput_mbit": value}, list) for n, value in enumerate(values)]
    name = "-".join(map(str, condition.values()))
    return Cell("loss", "main", name, condition, len(values), runs)


def test_cause_must_be_one_axis_from_the_claim_or_a_step_before(monkeypatch, tmp_path):
    values = ("tbf", "none"), ("link", "none"), ("link", "per_s=1")
    own, step, paused = ({"shaper": shaper, "pauses": pauses} for shaper, pauses in values)
    cells = [cell_of(RUNS, **condition) for condition in (own, step, paused)]
    measured = Campaign(tmp_path, results=True, cells={(c.study, c.name): c for c in cells})

    def axes(kind, *conditions):
        reason = [{"shown_by": {"kind": kind, "where": where}} for where in conditions]
        claim = {"where": own, "reason": [*reason[:-1], reason[-1] | {"cause": True}]}
        monkeypatch.setattr(verdicts, "claims_of", lambda _: {"c": claim})
        return [each.split(" in ")[1] for each in verdicts.compare_causes(measured).problems]

    assert axes("value", step, paused) == []
    assert axes("value", paused) == ["shaper, pauses"]
    assert axes("scatter_ratio", step, paused) == ["shaper, pauses"], "over the claim's own cells"


@pytest.mark.parametrize(
    ("limit", "values", "verdict"),
    [
        ({"published": 10.1, "within": 2}, RUNS, "inside"),
        ({"published": 11, "within": 2}, RUNS, "near"),
        ({"published": 11, "within": 1}, RUNS, "outside"),
        ({"published": 10.1, "within": 0.1}, RUNS, "undecidable"),
        ({"published": 10.1, "within": 0.4}, RUNS, "inconclusive"),
        ({"published": 10.1, "within": 2}, RUNS[:4], "inconclusive"),
    ],
)
def test_a_single_published_run_is_judged_by_the_prediction_interval(limit, values, verdict):
    claim = {"kind": "value", "published_runs": 1, **limit}
    assert verdicts.verdict_of(verdicts.cell_estimate(cell_of(values), claim, 1), claim) == verdict


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        ({"at_most": 10.5}, "reproduced"),
        ({"at_least": 10.5}, "not reproduced"),
        ({"at_least": 9.8, "at_most": 10.01}, "inconclusive"),
        ({"published": 10, "within": 0.3}, "reproduced"),
        # A published mean with an error of its own, and one of ten runs.
        ({"published": 10, "within": 0.3, "published_sd": 1, "published_runs": 9}, "inconclusive"),
        ({"published": 10, "within": 0.3, "published_runs": 10}, "reproduced"),
        ({"published": 10, "within": 0.3, "published_runs": 2}, "inconclusive"),
    ],
)
def test_a_mean_is_judged_by_its_whole_interval(limit, verdict):
    claim = {"kind": "value", **limit}
    assert verdicts.verdict_of(verdicts.cell_estimate(cell_of(RUNS), claim, 1), claim) == verdict


def test_pairs_cancel_what_their_runs_share():
    halves = [value / 2 for value in RUNS]
    assert intervals.ratio_interval(RUNS, halves, True) == pytest.approx((2, 2))
    low, high = intervals.ratio_interval(RUNS, halves, False)
    assert low < 1.98
    assert high > 2.02


def test_a_mean_with_an_upper_limit_has_an_interval_below_it():
    low, high = intervals.mean_interval([0.5, 0.9, 1, 1, 1], metric="jain_index")
    assert 0 < low < 0.88 < high < 1
    assert intervals.mean_interval([0.5, 0.9, 1, 1, 1])[1] > 1


def test_claims_of_a_family_are_judged_again_as_others_leave_it(monkeypatch: pytest.MonkeyPatch):
    # With half of the error, the interval of RUNS is 10 +- 0.25, and with a third 10 +- 0.28.
    claims = {
        name: {
            "id": name, "kind": "value", "evidence": "not fitted", "where": {}, "published": 10,
            "within": within,
        }
        for name, within in {"wide": 2, "middle": 0.26, "narrow": 0.1}.items()
    }  # fmt: skip
    claims["order"] = claims["wide"] | {"evidence": "order"}
    monkeypatch.setattr(verdicts, "claims_of", lambda _: claims)
    measured = Campaign(Path(), results=True, cells={("loss", "one"): cell_of(RUNS)})
    assert verdicts.family_shares(measured, "loss") == {"wide": 1 / 3, "middle": 1 / 2, "narrow": 1}
    judged = verdicts.judge_study(measured, "loss")
    assert [each.verdict for each in judged.values()] == [
        "reproduced", "reproduced", "inconclusive", "reproduced",
    ]  # fmt: skip


GRID = {
    ("loss", algorithm + str(loss)): cell_of([value * each for each in RUNS], **axes)
    for algorithm, loss, value in [
        ("bbr", 1, 8), ("cubic", 1, 2), ("bbr", 5, 9), ("cubic", 5, 1), ("bbr", 0, 4),
    ]
    for axes in [{"algorithm": algorithm, "loss_percent": loss}]
}  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ({"kind": "largest", "where": {"algorithm": "bbr"}}, 90),
        ({"kind": "smallest", "where": {"loss_percent": 1}}, 20),
        ({"kind": "largest_factor", "where": {"loss_percent": 1}}, 80),
        ({"kind": "smallest_ratio", "where": {"algorithm": "bbr", "loss_percent": [1, 5]},
          "against": {"algorithm": "cubic"}}, 4),
        ({"kind": "largest_ratio", "where": {"algorithm": "bbr", "loss_percent": [1, 5]},
          "against": {"algorithm": "cubic"}}, 9),
        ({"kind": "change_percent", "where": {"algorithm": "cubic", "loss_percent": 5},
          "against": {"loss_percent": 1}}, -50),
        ({"kind": "value_over_largest", "where": {"algorithm": "bbr", "loss_percent": 1},
          "others": {"algorithm": "bbr"}}, 8 / 9),
        ({"kind": "largest_rise_percent", "where": {"algorithm": "bbr"}, "along": "loss_percent"},
         100),
        ({"kind": "gain_factor", "where": {"loss_percent": 5}, "against": {"loss_percent": 1}},
         9 / 4),
        # No cell has a counterpart, or only some have one.
        ({"kind": "smallest_ratio", "where": {"algorithm": "bbr", "loss_percent": 0},
          "against": {"algorithm": "reno"}}, None),
        ({"kind": "smallest_ratio", "where": {"algorithm": "bbr"},
          "against": {"algorithm": "cubic"}}, None),
    ],
)  # fmt: skip
def test_each_kind_of_claim_has_its_number(claim, value):
    estimate = verdicts.measured(Campaign(Path(), results=True, cells=GRID), "loss", claim)
    if value is None:
        assert estimate is None
        return
    assert estimate is not None
    assert estimate.value == pytest.approx(value)
    # Pairs of these runs do not vary.
    assert estimate.low <= estimate.value + 1e-9
    assert estimate.high >= estimate.value - 1e-9


def test_losses_are_compared_with_the_binomial_distribution():
    lost = {"loss_offered_packets": 1000, "loss_packets": 25}
    cells = {
        ("loss", str(loss)): Cell("loss", "main", "", {"loss_percent": loss}, 2, [
            Run(0, 0, lost, list), Run(1, 1, lost, list),
        ])
        for loss in (0, 2)
    }  # fmt: skip
    measured = Campaign(Path(), results=True, cells=cells)
    estimate = verdicts.measured(measured, "loss", {"kind": "largest_loss_z"})
    assert estimate is not None
    # 50 of 2000 packets were lost, 40 expected, with a variance of 39.2.
    assert estimate.value == pytest.approx(10 / 39.2**0.5)


def test_each_source_has_all_of_its_numbers():
    counts: dict[str, int] = {}
    for study in published.STUDIES:
        for number in published.numbers_of(study):
            counts[number.source] = counts.get(number.source, 0) + 1
    assert counts == {
        "bufferbloat": 30, "cellular": 310, "cloud": 104, "loss": 42, "loss, seconds": 252,
        "map": 16, "Cao et al. 2019": 130, "Datta and Fund 2023": 1028, "Gomez et al. 2024": 8,
        "jittertrap (acooks 2025)": 7, "rebbr (jervisfm)": 17,
    }  # fmt: skip


def test_claim_with_a_missing_cell_is_not_judged_by_the_others(tmp_path: Path):
    for path in RECORDED.iterdir():
        shutil.copy(path, tmp_path)
    cell = next(cell for study, cell in campaign.read(RECORDED).cells if study == "loss")
    forge(
        tmp_path / "claims.csv", {"study": "loss", "claim": "cubic-2"}, "absent",
        "cell nowhere without a goodput_mbit",
    )  # fmt: skip
    found = campaign.read(tmp_path)
    assert verdicts.lacks_cells(found, "loss", "cubic-2")
    forge(
        tmp_path / "claims.csv", {"study": "loss", "claim": "cubic-2"}, "absent",
        f"cells {cell}, nowhere and 3 more without a goodput_mbit",
    )  # fmt: skip
    assert not verdicts.lacks_cells(campaign.read(tmp_path), "loss", "cubic-2")


def test_each_forged_file_of_a_record_is_found(tmp_path: Path, recorded: Problems):
    for path in RECORDED.iterdir():
        shutil.copy(path, tmp_path)
    forge(tmp_path / "record.tsv", {"study": "loss"}, "mean", "1")
    forge(tmp_path / "record.tsv", {"study": "map"}, "high", "1")
    sources = [row["source"] for row in campaign.rows(RECORDED / "scoreboard.csv")]
    assert {"bufferbloat", "cloud", "cellular", "loss"} <= {*sources}
    for source in sources:
        forge(tmp_path / "scoreboard.csv", {"source": source}, "within_25", "99999")
    claims = campaign.rows(RECORDED / "claims.csv")
    kinds = {
        campaign.claims_of(row["study"])[row["claim"]]["kind"]: (row["study"], row["claim"])
        for row in claims
        if row["verdict"] != "not measured"
    }
    assert len(kinds) >= 8
    for study, claim in kinds.values():
        forge(tmp_path / "claims.csv", {"study": study, "claim": claim}, "verdict", "forged")
    undecided = {"study": "cloud", "cause": "scatter"}
    forge(tmp_path / "claims.csv", undecided, "cause", "difference")
    new = {
        subject: [text for text in found if text not in recorded[subject]]
        for subject, found in problems(tmp_path).items()
    }
    assert len(new["cells"]) == 2
    assert len(new["scoreboards"]) == len(sources)
    forged = [text for text in new["verdicts"] if text.endswith("written is forged")]
    assert sorted(text.split(" is ")[0] for text in forged) == sorted(
        f"{study}/{claim}" for study, claim in kinds.values()
    )
    [cause] = [text for text in new["verdicts"] if text not in forged]
    assert cause.endswith("cause, is scatter, written is difference")
    assert new["README"] == []


@pytest.fixture(scope="module")
def condition() -> dict[str, object]:
    """Return the condition of some recorded cell of the loss study."""
    cells = campaign.read(RECORDED).cells.values()
    return next(cell.condition for cell in cells if cell.study == "loss")


@pytest.fixture
def results(tmp_path: Path, condition: dict[str, object]) -> Path:
    """Write results of a campaign with one cell of the loss study, with the tables of a report.

    The runs are CUBIC's at 2 % loss, for which the source has 175.19 Mbit/s.
    """
    condition = condition | {
        "algorithm": "cubic", "loss_percent": 2, "path": "symmetric", "app": "iperf3",
        "warmup_s": 1, "duration_s": 3,
    }  # fmt: skip
    cell = {"study": "loss", "block": "long", "cell": "one", "condition": condition}
    rule = {"minimum": 5, "maximum": 5, "half_width_percent": None}
    write_json(tmp_path / "plan.json", {"cells": [{**cell, "stopping": rule}]})
    runs = [
        {"seed": n, "valid": n < 5, "summary": {"goodput_mbit": 15 * value}}
        for n, value in enumerate([*RUNS, 99])
    ]
    write_json(tmp_path / "cells/loss/one/cell.json", {**cell, "replicates": runs})
    for n in range(6):
        # The first second is the warm-up; the seconds' goodputs are 100 and 200 Mbit/s.
        write_csv(
            tmp_path / f"cells/loss/one/{n}/intervals.csv",
            [
                {"t_s": t_s, "goodput_mbit": mbit}
                for t_s, mbit in [(1, 7), (1.5, 90), (2, 110), (3, 200)]
            ],
        )  # fmt: skip
    write_report(tmp_path)
    return tmp_path


def write_report(folder: Path) -> None:
    """Write what a report says of the campaign: scoreboards by hand, verdicts as recomputed."""
    low, high = mean_interval([15 * value for value in RUNS]) or (0, 0)
    deviation = 50 * (10 / 9) ** 0.5
    goodput = {
        "study": "loss", "cell": "one", "metric": "goodput_mbit", "n": 5, "mean": 150,
        "std": 15 * 0.1 * 2.5**0.5, "min": 147, "q25": 148.5, "median": 150, "q75": 151.5,
        "max": 153, "mean_low": low, "mean_high": high, "median_low": "NA",
        "median_high": "NA", "statistic_over": "replicates",
    }  # fmt: skip
    seconds = goodput | {
        "n": 10, "statistic_over": "seconds", "std": deviation, "min": 100, "q25": 100,
        "q75": 200, "max": 200,
    }  # fmt: skip
    write_csv(folder / "summary/loss/statistics.csv", [goodput, seconds])
    row = {
        "study": "loss", "source": "loss", "place": "slide 12", "cell": "one",
        "metric": "goodput_mbit", "over": "NA", "statistic": "NA", "apart": "NA", "because": "NA",
        "fact": "NA", "published": 175.19, "null_ratio": 235.51 / 2**0.5 / 175.19,
        "measured": 150, "ratio": 150 / 175.19, "low": low / 175.19,
        "high": high / 175.19, "numbers": 1, "grade": "within 25 %",
    }  # fmt: skip
    none = dict.fromkeys(("null_ratio", "low", "high"), "NA")
    of_seconds = [
        row | none | {
            "source": "loss, seconds", "statistic": name, "published": theirs, "measured": ours,
            "ratio": ours / theirs, "grade": grade,
        }
        for name, theirs, ours, grade in [
            ("std", 37.48, deviation, "within a factor of 2"),
            ("min", 11.93, 100, "beyond"), ("q25", 158.09, 100, "within a factor of 2"),
            ("median", 190.91, 150, "within a factor of 2"), ("q75", 199.86, 200, "within 5 %"),
            ("max", 223.72, 200, "within 25 %"),
        ]
    ]  # fmt: skip
    write_csv(folder / "tables/scoreboard_numbers.csv", [row, *of_seconds])
    one = {"counted": 1, "within_5": 0, "within_25": 1, "within_2": 1}
    null = {f"null_{name}": count for name, count in one.items()}
    no_null = dict.fromkeys(null, 0)
    name = {"study": "loss", "source": "loss"}
    write_csv(folder / "tables/scoreboard_metrics.csv", [
        name | {"metric": "goodput_mbit"} | one | null,
        *(
            name | one | no_null | {
                "source": "loss, seconds", "metric": f"goodput_mbit, {statistic} of seconds",
                "within_5": int(statistic == "q75"), "within_25": int(statistic in ("q75", "max")),
                "within_2": int(statistic != "min"),
            }
            for statistic in ("std", "min", "q25", "median", "q75", "max")
        ),
    ])  # fmt: skip
    write_csv(folder / "tables/scoreboard_sources.csv", [
        name | one | {"published": 42, "measured": 1, "median": 175.19 / 150},
        name | {
            "source": "loss, seconds", "published": 252, "measured": 6, "counted": 6, "within_5": 1,
            "within_25": 2, "within_2": 5, "median": (190.91 / 150 + deviation / 37.48) / 2,
        },
    ])  # fmt: skip
    judged = verdicts.judge_study(campaign.read(folder), "loss")
    write_csv(folder / "claims.csv", [
        {
            "study": "loss", "claim": claim, "verdict": each.verdict, "cause": each.cause,
            "measured": each.estimate.value if each.estimate else "NA",
            "low": each.estimate.low if each.estimate else "NA",
            "high": each.estimate.high if each.estimate else "NA",
            "n": each.estimate.n if each.estimate else 0, "runs_needed": "NA",
            "unsupported": "it fails" if each.unsupported else "",
        }
        for claim, each in judged.items()
    ])  # fmt: skip


def test_results_of_a_campaign_are_recomputed(results: Path):
    assert problems(results) == {"cells": [], "scoreboards": [], "verdicts": [], "causes": []}
    row = next(r for r in campaign.rows(results / "claims.csv") if r["claim"] == "cubic-2")
    # The source's 175.19 +- 21.4 Mbit/s end above our interval.
    assert row["verdict"] == "not reproduced"


@pytest.mark.parametrize(
    ("file", "where", "column", "value", "subject"),
    [
        ("summary/loss/statistics.csv", {"statistic_over": "replicates"}, "mean_low", "1", "cells"),
        ("summary/loss/statistics.csv", {"statistic_over": "seconds"}, "q25", "1", "cells"),
        ("tables/scoreboard_sources.csv", {"source": "loss"}, "median", "1", "scoreboards"),
        ("tables/scoreboard_metrics.csv", {}, "null_within_5", "1", "scoreboards"),
        ("tables/scoreboard_numbers.csv", {}, "grade", "beyond", "scoreboards"),
        ("tables/scoreboard_numbers.csv", {"statistic": "std"}, "ratio", "1", "scoreboards"),
        ("tables/scoreboard_numbers.csv", {}, "apart", "fitted", "scoreboards"),
        ("claims.csv", {"claim": "cubic-2"}, "verdict", "reproduced", "verdicts"),
        ("claims.csv", {"claim": "cubic-2"}, "high", "170", "verdicts"),
        ("claims.csv", {"claim": "cubic-10"}, "n", "5", "verdicts"),
    ],
)
def test_each_forged_file_of_results_is_found(results: Path, file, where, column, value, subject):
    forge(results / file, where, column, value)
    found = problems(results)
    assert len(found.pop(subject)) == 1
    assert not any(found.values())


def test_a_campaign_must_have_runs_and_a_report(tmp_path: Path, results: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="found neither"):
        recompute.compare(tmp_path / "empty")
    (results / "claims.csv").unlink()
    with pytest.raises(SystemExit, match=r"claims.csv is missing"):
        recompute.compare(results)


def test_recorded_cells_that_the_index_lacks_are_found(tmp_path: Path, recorded: Problems):
    for path in RECORDED.iterdir():
        shutil.copy(path, tmp_path)
    *kept, last = (tmp_path / "cells.tsv").read_text().splitlines()
    (tmp_path / "cells.tsv").write_text("\n".join([*kept, ""]))
    found = problems(tmp_path)["cells"]
    study, cell, _ = last.split("\t")
    assert f"{study}/{cell} has recorded runs, but is not in cells.tsv" in found


def forge(path: Path, where: Mapping[str, str], column: str, value: str) -> None:
    """Change a column of the first row that has some values."""
    delimiter = "\t" if path.suffix == ".tsv" else ","
    rows = campaign.rows(path, delimiter)
    row = next(row for row in rows if where.items() <= row.items())
    assert row[column] != value
    row[column] = value
    write_csv(path, rows, delimiter)


def write_csv(path: Path, rows: list[dict], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
