"""Published numbers, against a second transcription that was made independently of the first.

`tests/expected/published` has it in the columns and units of the studies.
"""

import csv
import re

import pytest

from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import schemas

FIRST, SECOND = "studies/{}/published.csv", "tests/expected/published/{}.csv"
# Columns that name a row.
NAMES = {
    "loss": ("algorithm", "path", "loss_percent", "reading"),
    "bufferbloat": ("algorithm", "queue", "load"),
    "map": ("source", "rtt_ms", "buffer_packets", "loss_percent", "rate_mbit", "from_s"),
    "cloud": ("app", "algorithm", "competitor", "loss_percent", "from"),
    "cellular": ("exercise", "part", "scheme", "index", "run"),
}
CONTEST = NAMES["cellular"][:3]


def ours(study, axes, file=FIRST):
    """Read a study's published numbers: name and numbers of each row."""
    with (ROOT / file.format(study)).open(newline="") as table:
        rows = list(csv.DictReader(table))
    return [
        (
            tuple(row[axis] for axis in axes),
            {
                name: float(text)
                for name, text in row.items()
                if text and name not in axes and re.fullmatch(r"-?[\d.]+", text)
            },
        )
        for row in rows
    ]


@pytest.mark.parametrize("study", NAMES)
def test_published_numbers_are_those_of_the_second_transcription(study):
    found, wanted = (
        sorted(ours(study, NAMES[study], file), key=lambda row: (row[0], sorted(row[1].items())))
        for file in (FIRST, SECOND)
    )
    # Of repeated runs, the first transcription has the mean, in four digits.
    different = [
        (mine, other)
        for mine, other in zip(found, wanted, strict=True)
        if mine[0] != other[0] or mine[1] != pytest.approx(other[1], rel=1e-3)
    ]
    assert different == []


def test_curves_have_a_recorded_origin():
    sources = read_yaml(ROOT / "studies/sources.yaml")
    assert schemas.problems(sources, "sources") == []
    curves = {str(path.relative_to(ROOT / "studies")) for path in ROOT.glob("studies/*/curves.csv")}
    assert curves == set(sources)
    cited = (ROOT / "report/references.bib").read_text()
    assert all(f"{{{source['citation']}," in cited for source in sources.values())


def powers(exercise, part=None):
    """Return the power of each distinct run of an exercise, by scheme: some rows are copies."""
    found = {}
    for (its, name, scheme), numbers in ours("cellular", CONTEST):
        if its == exercise and part in (None, name) and "throughput_mbit" in numbers:
            run = (numbers["throughput_mbit"], numbers["signal_delay_p95_ms"])
            found.setdefault(scheme, {})[run] = 1000 * run[0] / run[1]
    return {scheme: list(runs.values()) for scheme, runs in found.items()}


def test_repeated_runs_of_one_scheme_scatter():
    """The source ran TCP's own parameters once in each of five series."""
    again = powers("B")["aimd,rtt_gain=4,add=1,multiply=2"]
    # The series of growth, decrease, gain, alpha and beta; the table's row 1 is a copy.
    assert len(again) == 5
    assert 0.03 < (max(again) - min(again)) / (sum(again) / len(again)) < 0.05
    table = {scheme: max(runs) for scheme, runs in powers("B", "table").items()}
    best = table.pop("aimd,rtt_gain=6,add=0.5,multiply=1.5")
    assert 1.08 < best / max(table.values()) < 1.10


def test_windows_of_8_and_10_packets_have_almost_the_same_power():
    windows = {scheme: sum(runs) / len(runs) for scheme, runs in powers("A").items()}
    ratio = windows["fixed,window=8"] / windows["fixed,window=10"]
    assert 0.95 < ratio < 1
    assert max(windows, key=windows.__getitem__) == "fixed,window=10"


def test_settings_of_the_ewma_table_are_close():
    settings = [power for runs in powers("D", "table").values() for power in runs]
    assert len(settings) == 8
    assert 0.75 < min(settings) / max(settings) < 0.8
