"""The demo on a real path, in little."""

from losslab.screen import demo
from losslab.study.condition import Condition

SMALL = {"loss_percent": 1.0, "rate_mbit": 10.0, "rtt_ms": 20.0, "duration_s": 2.0}


def test_runs_are_measured_once_and_kept(tmp_path, capsys):
    conditions = [Condition.from_json({"algorithm": name, **SMALL}) for name in demo.ALGORITHMS]
    runs = [demo.Measurement(c, 1, tmp_path / "runs" / c.algorithm) for c in conditions]
    demo.measure(runs)
    assert "measured 2 runs" in capsys.readouterr().err
    rows = [row for row in demo.read(runs) if row["n_runs"]]
    assert [(row["algorithm"], row["n_valid"]) for row in rows] == [("cubic", 1), ("bbr", 1)]
    before = {run.out: run.out.stat().st_ino for run in runs}
    demo.measure(runs)
    assert {run.out: run.out.stat().st_ino for run in runs} == before
    assert capsys.readouterr().err == ""
