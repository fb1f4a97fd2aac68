"""`losslab decide`: the operator's question on a slow link, measured twice."""

import json

from tests.faults.kit import losslab

QUESTION = [
    "decide", "cubic", "bbr", "--rate-mbit", "10M", "--rtt-ms", "40ms", "--loss-percent", "2%",
    "--loss-burst-packets", "2", "--buffer-packets", "100kB", "--share", "cubic=30%",
    "--link-flows", "4", "--use", "bulk", "--use", "pages=10kB", "--uncertain",
    "loss_percent=0.01..2.5", "--duration-s", "5", "--replicates", "5",
]  # fmt: skip


def test_operators_question_has_an_answer_with_its_cost_and_what_flips_it(tmp_path):
    done = losslab(*QUESTION, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "decision.json").read_text()
    found = json.loads(first)
    assert found["violations"] == {}
    assert found["answers"]["bulk"]["text"] == "bbr"
    cost = {row["measure"]: row for row in found["comparisons"] if row["part"] == "cost"}
    assert cost["others_goodput_mbit"]["verdict"] == "worse"
    assert cost["others_goodput_mbit"]["ratio"]["interval"][1] < 1
    assert [path["path"] for path in found["other_paths"]] == [
        "loss 0.01 %", "loss 2.5 %",
    ]  # fmt: skip
    assert found["headline"] in (tmp_path / "decision.html").read_text()
    runs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cells/*/*/tcp.csv")}
    assert len(runs) == 2 * 3 * 5
    assert losslab(*QUESTION, "--out", tmp_path).returncode == 0
    assert (tmp_path / "decision.json").read_text() == first
    assert {path: path.stat().st_mtime_ns for path in runs} == runs
