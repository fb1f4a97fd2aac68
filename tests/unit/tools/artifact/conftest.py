"""A small unpacked archive."""

import pytest

from losslab.tools.artifact import appendix, verify

CLAIMS = """\
study,claim,sentence,source,evidence,published,measured,low,high,n,unit,tolerance,limit_is,\
limit_because,verdict,reason,unsupported,absent,cause
loss,cubic-10,CUBIC loses 5 % & more_.,slide 1,order,70,76.15,74.2,77.9,10,%,at least 70,theirs,,\
reproduced,,,,none
loss,bbr-latency,BBR loses little.,slide 2,order,8,,NA,NA,0,%,at most 8,theirs,,not measured,,,,none
map,row-4,BBR is faster.,row 4,order,-1,-1.1,-1.2,-1.0,10,,at most 0,theirs,,reproduced,,,,none
"""

RUNS = [
    appendix.Run(
        f"results/cells/loss/cell/{number}",
        "cubic",
        {"kernel": {"version": "6.12.1", "hash": "0123", "pinned": True}},
        f"2026-01-31T12:0{number}:00+00:00",
        30.0,
    )
    for number in range(3)
]


@pytest.fixture
def campaign(tmp_path):
    """Return the folder of an unpacked archive with made-up files."""
    cell = tmp_path / "results/cells/loss/cell"
    for number in range(3):
        (cell / str(number)).mkdir(parents=True)
        (cell / str(number) / "tcp.csv").write_text(f"t_s\n{number}\n")
    (tmp_path / "results/claims.csv").write_text(CLAIMS)
    (tmp_path / "results/tables").mkdir()
    (tmp_path / "results/tables/origin.csv").write_text("part,what,cells\nmachine,A box,1\n")
    (tmp_path / appendix.COMMIT).write_text("0123\n")
    verify.write_digests(tmp_path, verify.contents(tmp_path))
    return tmp_path


@pytest.fixture
def runs():
    """Return three valid replicates of a cell."""
    return RUNS
