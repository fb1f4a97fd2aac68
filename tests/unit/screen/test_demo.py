"""The demo's plan, its words, and a short real one."""

import json

import pytest

from losslab import cli, commands
from losslab.campaign.collect import read_csv
from losslab.errors import LosslabError
from losslab.screen import demo
from losslab.study.condition import Condition

LABELS = {"cubic": "CUBIC", "bbr": "BBR"}


def pretend(runs, goodput, invalid=()):
    """Write manifests as if runs had been measured."""
    for run in runs:
        run.out.mkdir(parents=True)
        c = run.condition
        summary = {
            "goodput_mbit": goodput[c.algorithm, c.loss_percent] + run.seed,
            "retransmits": 7, "rtt_loaded_ms": 41.0,
        }  # fmt: skip
        valid = run.out.name not in invalid
        manifest = {"valid": valid, "reasons": [] if valid else ["made up"], "summary": summary}
        (run.out / "manifest.json").write_text(json.dumps(manifest))


GOODPUT = {
    ("cubic", 0.0): 88.0, ("cubic", 1.0): 2.4, ("cubic", 5.0): 7.0,
    ("bbr", 0.0): 78.0, ("bbr", 1.0): 70.0, ("bbr", 5.0): 38.0,
}  # fmt: skip


def test_every_algorithm_meets_every_loss_with_the_same_seeds(tmp_path):
    runs = demo.plan(tmp_path)
    for algorithm in demo.ALGORITHMS:
        met = {(r.condition.loss_percent, r.seed) for r in runs
               if r.condition.algorithm == algorithm}  # fmt: skip
        assert met == {(loss, seed) for loss in (0.0, 1.0, 5.0) for seed in demo.SEEDS}
    assert len({run.out for run in runs}) == len(runs)


def test_a_command_measures_just_its_condition(monkeypatch, tmp_path):
    asked = []

    def measure(options):
        asked.append(commands._asked(options))
        return 0

    monkeypatch.setattr(commands, "_measure", measure)
    condition = Condition.from_json({"algorithm": "reno", "loss_percent": 0.5, "queue": "pie"})
    assert cli.main(demo.command(condition, 3, tmp_path)) == 0
    assert asked == [condition]


def test_the_text_says_what_the_runs_say(tmp_path):
    runs = demo.plan(tmp_path)
    pretend(runs, GOODPUT)
    text = demo.text(demo.read(runs), LABELS)
    assert "n = 3" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if " % " in line[:8]}
    assert rows["1"][2] == "4.4"  # 2.4 and seeds 1, 2 and 3
    assert rows["1"][-1] == f"{72 / 4.4:.3g}"
    assert "CUBIC: 1 % of loss takes 95 % of its goodput, 5 % take 90 %." in text
    assert "BBR: 1 % of loss takes 10 % of its goodput, 5 % take 50 %." in text


def test_an_invalid_run_is_named_and_counts_nowhere(tmp_path):
    runs = demo.plan(tmp_path)
    pretend(runs, GOODPUT, invalid=["bbr-loss1-seed3"])
    rows = demo.read(runs)
    row = next(r for r in rows if (r["algorithm"], r["loss_percent"]) == ("bbr", 1.0))
    assert (row["n_runs"], row["n_valid"], row["goodput_mbit"]) == (3, 2, 71.5)
    text = demo.text(rows, LABELS)
    assert "n = 2 to 3" in text
    assert "INVALID, not in these numbers: bbr, 1 %: made up" in text


def test_without_any_valid_run_there_is_no_number_and_no_figure(tmp_path):
    runs = demo.plan(tmp_path)
    pretend(runs, GOODPUT, invalid=[run.out.name for run in runs])
    rows = demo.read(runs)
    assert demo.write(rows, tmp_path) == [tmp_path / "goodput.csv"]
    assert "none" in demo.text(rows, LABELS)
    assert "takes" not in demo.text(rows, LABELS)


def test_table_and_figure_are_files(tmp_path):
    runs = demo.plan(tmp_path)
    pretend(runs, GOODPUT)
    table, *figures = demo.write(demo.read(runs), tmp_path)
    assert [float(row["goodput_mbit"]) for row in read_csv(table)][:2] == [90.0, 80.0]
    assert [path.suffix for path in figures] == [".svg", ".png"]
    assert all(path.stat().st_size > 5_000 for path in figures)


def test_next_steps_name_runs_that_there_are(tmp_path):
    named = {run.out for run in demo.plan(tmp_path)}
    words = demo.next_steps(tmp_path).split()
    assert {word for word in words if word.startswith(str(tmp_path))} <= set(map(str, named))


def test_a_run_without_a_result_is_an_error_that_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "instrument", lambda *_: None)
    monkeypatch.setattr(demo, "finished", lambda *_: None)
    condition = Condition.from_json({"algorithm": "nonsense"})
    with pytest.raises(LosslabError, match=r"run has none: .*nonsense"):
        demo.measure([demo.Measurement(condition, 1, tmp_path / "run")])
