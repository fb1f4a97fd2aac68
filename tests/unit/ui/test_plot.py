"""`losslab plot`, in the terminal and as a file."""

import dataclasses
import math
import re

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.ui import plot, series
from tests.unit.study.test_condition import CONDITION


def load(folders):
    return [series.load(path) for folder in folders for path in series.replicates(folder)]


def test_terminal_shows_each_panel_of_each_run_with_its_number(recorded):
    runs = load([recorded(name) / "0" for name in ("bulk_cubic", "bulk_bbr", "rivals")])
    text = plot.text(runs, 90)
    assert all(panel.title in text for panel in series.PANELS.values())
    assert all(len(line) <= 90 for line in text.splitlines() if "/" not in line)
    said = [float(x) for x in re.findall(r"received  .* mean ([\d.]+) Mbit/s", text)]
    wanted = [run.manifest["summary"]["goodput_mbit"] for run in runs]
    assert said == pytest.approx(wanted, rel=5e-3)  # three digits are printed
    in_all = [float(x) for x in re.findall(r"retransmissions.* (\d+) in all", text)]
    assert in_all == [max(s.values) for r in runs for s in r.series if s.name == "retransmissions"]


def test_runs_of_a_panel_share_one_scale(recorded):
    runs = [series.load(recorded(name) / "0") for name in ("bulk_cubic", "bulk_bbr")]
    lines = plot.text(runs, 90).splitlines()
    panel = lines[lines.index("Goodput (Mbit/s)") :]
    tops = [panel[at + 1].split()[0] for at, line in enumerate(panel) if "received" in line]
    assert len(tops) == 2
    assert tops[0] == tops[1]


def test_gap_in_a_series_stays_a_gap():
    line = series.Series("cwnd", "cwnd", "", (0.0, 1.0, 9.0, 10.0), (5.0, math.nan, 5.0, 5.0))
    drawn = "".join(plot._strip(line, 10.0, 5.0, 80))
    assert sum(0x2800 < ord(character) < 0x2900 for character in drawn) < 15


def test_peak_of_the_warm_up_does_not_set_the_axis(tmp_path):
    """A start at 500 packets would make a flat line of a window of 11."""
    cell = dataclasses.replace(CONDITION, duration_s=10.0, warmup_s=2.0).to_json()
    manifest = {"cell": cell, "seed": 7, "reasons": [], "summary": {}}
    times = tuple(map(float, range(10)))

    def run(peak, ssthresh):
        return series.Run(tmp_path, manifest, (
            series.Series("cwnd", "cwnd", "first", times, (10.0, peak, *[11.0] * 8)),
            series.Series("cwnd", "ssthresh", "first", times, (math.nan, *[ssthresh] * 9)),
            series.Series("retransmits", "retransmissions", "first", times, (0.0,) * 10),
        ))  # fmt: skip

    assert plot.axis_limits([run(500.0, 7.0)])["cwnd"] == 1.25 * 11
    assert plot.axis_limits([run(10.0, 400.0)])["cwnd"] == 1.25 * 11
    assert plot.axis_limits([run(50.0, 7.0)])["cwnd"] == math.inf
    lines = plot.text([run(500.0, 7.0)], 80).splitlines()
    at = lines.index("Congestion window (packets), without the peak in the warm-up")
    assert lines[at + 2].split()[0].startswith("13.75")


def test_invalid_run_has_violations_and_no_number(recorded):
    (run,) = load([recorded("too-slow")])
    assert run.violations
    text = plot.text([run], 90)
    assert f"INVALID, do not use this run's values: {run.violations[0]}" in text
    assert "mean" not in text


def test_figure_has_a_column_per_condition_and_names_its_runs(recorded, tmp_path):
    folders = [str(recorded(name)) for name in ("bulk_cubic", "bulk_bbr", "too-slow")]
    files = [tmp_path / "new" / "runs.svg", tmp_path / "runs.png", tmp_path / "runs.pdf"]
    options = [word for file in files for word in ("--out", str(file))]
    assert cli.main(["plot", *folders, *options]) == 0
    heads = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for file in files:
        content = file.read_bytes()
        assert content.startswith(heads[file.suffix])
        assert len(content) > 20_000


def with_phases(recorded):
    """Return a run with a variable of the state, and phases of which one is short."""
    bands = ((0.0, 2.0, "DRAIN"), (2.0, 2.01, "DOWN"), (2.01, 10.0, "NAD"), (10.0, 10.0, "DRAIN"))
    run = series.load(recorded("bulk_bbr") / "0")
    line = series.Series("gain", "gain", "first", (0.0, 5.0, 10.0), (2.0, math.nan, -1.0))
    panels = {"gain": series.Panel("gain", "")}
    return dataclasses.replace(run, series=(line,), panels=panels, bands=bands)


def test_plots_of_a_state_have_its_phases(recorded, tmp_path):
    lines = plot.text([with_phases(recorded)], 90).splitlines()
    assert "1  phases: DRAIN 2 s, DOWN 0.01 s, NAD 7.99 s" in lines
    assert [line[:7].strip() for line in lines if line.startswith("     ")] == ["2", "-1"]
    assert "Congestion window (packets)" not in lines
    file = tmp_path / "state.svg"
    plot.figure([with_phases(recorded)], [file])
    texts = re.findall(r">([^<>]+)</text>", file.read_text())
    assert {"DRAIN", "DOWN", "NAD", "gain"} <= set(texts)


def test_unknown_figure_format_is_refused_before_drawing(capsys, tmp_path):
    assert cli.main(["plot", str(tmp_path / "none"), "--out", "runs.gif"]) == 2
    assert "--out must end in .png, .svg, .pdf, found runs.gif" in capsys.readouterr().err


def test_more_conditions_than_fit_are_refused(recorded, tmp_path):
    names = ("bulk_cubic", "rivals", "too-slow", "video", "page")
    runs = load([recorded(name) / "0" for name in names])
    with pytest.raises(LosslabError, match="at most 4 conditions side by side, found 5"):
        plot.figure(runs, [tmp_path / "runs.svg"])
