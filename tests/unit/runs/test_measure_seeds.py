"""`losslab measure --seeds`: a folder and a line per seed, and what an invalid one says."""

import json

import pytest

from losslab import cli
from losslab.campaign.results import Replicate
from losslab.runs import measure
from losslab.study.condition import Condition

FAILING = 3


@pytest.fixture
def fake(monkeypatch):
    """Measure nothing; the seed FAILING is invalid."""
    ran = []

    def run(condition, seed, out, *_, **more):
        ran.append(seed)
        valid = seed != FAILING
        out.mkdir(parents=True)
        manifest = {
            "seed": seed, "valid": valid, "reasons": [] if valid else ["curl failed: \x1b[2J", "b"],
            "summary": {"goodput_mbit": 9.0 + seed} if valid else {}, "cell": condition.to_json(),
        }  # fmt: skip
        (out / "manifest.json").write_text(json.dumps(manifest))
        (out / "host.json").write_text(json.dumps({"left_out": more["left_out"]}))
        return manifest

    monkeypatch.setattr(measure, "run", run)
    monkeypatch.setattr(measure, "at_first_use", lambda *_: None)
    monkeypatch.setattr(measure, "instrument", lambda *_: None)
    monkeypatch.setattr(measure.limiters, "of_runs", lambda _: [])
    for name in ("manifest", "host"):
        content = property(
            lambda its, file=name: json.loads((its.folder / f"{file}.json").read_text())
        )
        monkeypatch.setattr(Replicate, name, content)
    monkeypatch.setattr(measure.halves, "of_runs", lambda runs: [f"halves of {len(runs)}"])
    return ran


def measured(tmp_path, *words):
    out = str(tmp_path / "out")
    return cli.main(["measure", "--algorithm", "cubic", "--cores", "2", "--out", out, *words])


def test_each_seed_has_a_folder_and_a_line_in_their_order(fake, tmp_path, capsys):
    assert measured(tmp_path, "--seeds", "1,2,5:6") == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        "seed 1     valid    Goodput 10 Mbit/s", "seed 2     valid    Goodput 11 Mbit/s",
        "seed 5     valid    Goodput 14 Mbit/s", "seed 6     valid    Goodput 15 Mbit/s",
        "4 valid, 0 invalid of 4 seeds",
    ]  # fmt: skip
    assert "warning: halves of 4" in output.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1", "2", "5", "6"]


def test_invalid_seed_has_its_first_violation_and_the_commands_that_explain_it(
    fake, tmp_path, capsys
):
    assert measured(tmp_path, "--seeds", "1:4") == 1
    lines = capsys.readouterr().out.splitlines()
    out = tmp_path / "out"
    assert lines[2] == "seed 3     invalid  curl failed: ?[2J"
    assert lines[4:] == [
        "3 valid, 1 invalid of 4 seeds", f"repeat the first invalid one: losslab rerun {out}/3",
        f"the first packet that differs: losslab divergence {out}/1 {out}/3",
    ]  # fmt: skip


def test_until_fail_ends_with_the_first_invalid_seed_and_keeps_none_after_it(
    fake, tmp_path, capsys
):
    assert measured(tmp_path, "--seeds", "1:99", "--until-fail", "--json") == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["seed"], row["valid"]) for row in rows] == [(1, True), (2, True), (3, False)]
    assert len(fake) < 99
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1", "2", "3"]


def test_what_a_path_lacks_is_kept_with_each_run_and_printed_once(fake, tmp_path, capsys):
    words = ("--left-out", "netem distribution normal (uniform jitter)", "--left-out", "b")
    assert measured(tmp_path, "--seeds", "1:2", *words) == 0
    errors = capsys.readouterr().err
    lacks = "losslab: warning: the measured path lacks: netem distribution normal (uniform jitter)"
    assert errors.count(lacks) == 1
    for seed in "12":
        kept = json.loads((tmp_path / "out" / seed / "host.json").read_text())["left_out"]
        assert kept == [words[1], "b"]


def test_commands_of_the_user_need_trust_to_run_again(tmp_path):
    condition = Condition("cubic", app="command", sender_command="a", receiver_command="b")
    bad = {"seed": 1, "valid": False, "reasons": ["x"], "cell": condition.to_json()}
    _, repeat = measure.ending([bad], tmp_path)
    assert repeat.endswith("/1 --trust")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--seed", "1", "--seeds", "1:2"), "exclude each other"),
        (("--until-fail",), "needs several seeds"),
        (("--seeds", "3:1"), "must rise"),
    ],
)
def test_what_does_not_fit_together_is_refused(fake, tmp_path, capsys, words, text):
    assert measured(tmp_path, *words) == 2
    assert text in capsys.readouterr().err
    assert fake == [] and not (tmp_path / "out").exists()
