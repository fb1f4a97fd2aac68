"""Published numbers: their origin, and statements of the sources that they must give."""

import csv
import re

from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import schemas
from tests.sources import tracked

CONTEST = ("exercise", "part", "scheme")


def ours(study, axes):
    """Read a study's published numbers: name and numbers of each row."""
    with (ROOT / "studies" / study / "published.csv").open(newline="") as table:
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


def test_curves_have_a_recorded_origin():
    sources = read_yaml(ROOT / "studies/sources.yaml")
    assert schemas.problems(sources, "sources") == []
    curves = {str(path.relative_to(ROOT / "studies")) for path in tracked("studies/*/curves.csv")}
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
