"""What the command says: refusals before a build, a boot or a written file."""

import re
import shlex

import pytest

from losslab import cli
from losslab.repository import ROOT

PATH = "--algorithm cubic --rate-mbit 10 --rtt-ms 20"
OUT = f"{PATH} --out new"
# Arguments of `measure`, and of `sweep`, that both refuse.
OF_BOTH = [
    *(f"{PATH} --out {out}" for out in ("/dev/null/x", "file", "file/run", "b" * 256)),
    f"{OUT} --trace nope",
    f"{OUT} --kernel nope",
    f"{OUT} --image nope",
    f"{OUT} --pauses per_s=1000000000000,min_ms=0.1,max_ms=1",
]
COMMANDS = [
    *(f"{command} {words}" for command in ("measure", "sweep") for words in OF_BOTH),
    # Conditions that cannot be measured.
    f"measure {OUT} --loss-percent 120",
    f"measure {OUT} --duration-s -3",
    f"measure {OUT} --ecn accurate",
    f"measure {OUT} --queue dualpi2",
    f"measure {OUT} --queue bfifo --buffer-packets 10000000",
    f"measure {OUT} --loss-percent 90 --loss-burst-packets 2",
    f"measure {OUT} --app ffmpeg --competitor bbr",
    # Numbers and languages of axes.
    *(f"measure {OUT} --rtt-ms {value}" for value in ("nan", "inf", "1_0")),
    f"measure {OUT} --seed -3",
    f"measure {OUT} --seed 1e400",
    f"measure {OUT} --timeout-s nan",
    f"measure {OUT} --flows same,start_s=nan",
    f"measure {OUT} --flows same,size_kb={'9' * 400}",
    f"measure {OUT} --flows same,arrivals_per_s=0,size_kb=1",
    f"measure {OUT} --flows bbrr",
    f"measure {OUT} --changes at_s=1_0,rate_mbit=5",
    f"measure {OUT} --app datagram --scheme ewma,alpha=0.9,alpha=0.8",
    f"measure {OUT} --app datagram --scheme ewma,alpha={'9' * 400}",
    f"measure {OUT} --sender-command \udcff",
    # Misspelt and missing words.
    f"measure {OUT} --los-percent 1",
    "measure --algoritm cubic --out x",
    "measure --loss-percent 1 --out x",
    "measure --algorithm cubik --out x",
    "cells los",
    f"cells --config {ROOT}/config/quik.yaml",
    # Sweeps.
    f"sweep {OUT} --queue fqcodel",
    f"sweep {OUT} --loss-percent 0:1000000000",
    f"sweep {OUT} --loss-percent 0:1:1e-300",
    f"sweep {OUT} --metric goodputt_mbit",
    f"sweep {OUT} --metric download_s",
]


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def ran(*_, **__):
        raise AssertionError("work began before the refusal")

    for place in (
        "runs.measure.at_first_use",
        "runs.measure.run",
        "sweeps.at_first_use",
        "sweeps.measure",
    ):
        monkeypatch.setattr(f"losslab.{place}", ran)


# What a refusal suggests for a misspelt or missing word.
SUGGESTED = {
    "--los-percent 1": "--loss-percent", "--algoritm cubic": "--algorithm", "cubik": "cubic",
    "cells los": "loss", "--queue fqcodel": "fq_codel", "goodputt_mbit": "goodput_mbit",
    "bbrr": "bbr", "measure --loss-percent 1": "--algorithm", "percent 0:1": "FROM:TO:STEP",
}  # fmt: skip


def test_refusals_name_what_is_wrong_and_write_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    unclear = []
    for command in COMMANDS:
        try:
            status = cli.main(shlex.split(command))
        except SystemExit as end:
            status = end.code
        printed = capsys.readouterr()
        assert (status, printed.out) == (2, ""), command
        assert re.match("losslab[a-z ]*: error: ", printed.err), command
        assert "Traceback" not in printed.err, command
        # The option or the value that is wrong, which may be cut.
        words = [w for w in shlex.split(command.replace(PATH, ""))[1:] if w not in ("--out", "new")]
        names = {w.removeprefix("--").replace("-", "_") for w in words} | {*words}
        names |= {ascii(part)[1:20] for word in words for part in word.strip("'").split("=")}
        wanted = [right for wrong, right in SUGGESTED.items() if wrong in command]
        named = [name for name in names if name and name in printed.err]
        if not (wanted or named) or any(word not in printed.err for word in wanted):
            unclear.append(f"{command}: {printed.err}")
    assert unclear == []
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
