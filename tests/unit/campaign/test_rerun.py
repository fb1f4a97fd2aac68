"""Comparing replicates byte by byte."""

import json

import pytest

from losslab import cli
from losslab.campaign import rerun
from tests.unit.study.test_condition import CONDITION


def write_replicate(folder, value, console=False):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"value": value}))
    (folder / "tcp.csv").write_text(f"t,cwnd\n0,10\n1,{value}\n")
    (folder / "host.json").write_text(str(folder))
    if console:
        (folder / "console.log").write_text("words of the host")


def test_equal_replicates_agree_on_any_host_and_differences_are_named(tmp_path):
    write_replicate(tmp_path / "a", 5)
    write_replicate(tmp_path / "b", 5, console=True)
    found = rerun.compare(tmp_path / "a", tmp_path / "b")
    assert found.whole
    assert found.same == ["manifest.json", "tcp.csv"]
    write_replicate(tmp_path / "c", 6)
    (tmp_path / "c" / "ping.csv").touch()
    found = rerun.compare(tmp_path / "a", tmp_path / "c")
    assert found.different["tcp.csv"] == "line 3: '1,5', '1,6'"
    assert "only in" in found.different["ping.csv"]
    assert not found.whole


def test_changed_instrument_is_named():
    then = {"kernel": {"hash": "aa"}, "image": {"hash": "cc"}, "source": "ee"}
    now = {"kernel": {"hash": "bb"}, "image": {"hash": "cc"}, "source": "ff", "engine": {}}
    assert rerun.instrument_differences(then, now) == [
        "engine was absent, is {}",
        "kernel: hash was aa, is bb",
        "source was ee, is ff",
    ]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (b"t\r\n1\n", b"t\n1\n", r"line 1: 't\r', 't'"),
        (b"\xff\n", b"\xfe\n", r"line 1: '\\xff', '\\xfe'"),
        (b"t\n1\n", b"t\n1", "2 and 1 lines"),
        (b"t\n", b"", "line 1: 't', ''"),
        (b"x" * 999 + b"a", b"x" * 999 + b"b", "..."),
    ],
)
def test_differing_bytes_are_shown_for_any_content(tmp_path, one, other, shown):
    for name, content in (("a", one), ("b", other)):
        write_replicate(tmp_path / name, 5)
        (tmp_path / name / "tcp.csv").write_bytes(content)
    how = rerun.compare(tmp_path / "a", tmp_path / "b").different["tcp.csv"]
    assert shown in how
    assert len(how) < 1000


def test_lost_run_is_not_repeated(tmp_path, capsys):
    manifest = {
        "backend": "virtual", "cell": CONDITION.to_json(), "seed": 1, "instrument": {},
        "summary": {}, "valid": False, "lost": True, "reasons": ["no word"],
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert cli.main(["rerun", str(tmp_path)]) == 1
    assert "its guest was lost: no word" in capsys.readouterr().err
    (tmp_path / "manifest.json").rename(tmp_path / "theirs.json")
    assert cli.main(["rerun", str(tmp_path / "theirs.json")]) == 2
