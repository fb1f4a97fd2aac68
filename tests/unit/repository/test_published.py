"""Published numbers, against a second transcription that was made independently of the first.

`tests/expected/published` has the sources' tables in their own words and units; this file converts
them to those of `config/published`.
"""

import re
from collections import defaultdict
from itertools import accumulate, pairwise
from statistics import fmean

import pytest

from losslab.reading import read_yaml
from losslab.study import schemas
from tests.unit.repository.transcriptions import ROOT, mbit, number, ours, same, theirs

# 100 KB and 10 MB in frames of 1514 bytes.
BUFFERS = {"100KB": 66.0, "10MB": 6605.0, "100": 66.0, "10000": 6605.0}


def test_loss_study_numbers_equal_the_paper():
    columns = {"Mean": "mean", "STD": "std", "Min": "min", "25%": "q25", "50%": "median",
               "75%": "q75", "Max": "max", "slide": "slide"}  # fmt: skip
    wanted = [
        (
            (
                row["algorithm"].lower(),
                row["path"],
                row["loss"].rstrip("%"),
                "inferred" if "inferred" in row["how"] else "printed",
            ),
            {name: float(row[column]) for column, name in columns.items()},
        )
        for row in theirs("loss")
        if "again" not in row["how"]
    ]
    same(ours("loss", ("algorithm", "path", "loss_percent", "reading")), wanted)


def test_inferred_quartiles_fit_the_mean():
    rows = [row for row in theirs("loss") if "inferred" in row["how"]]
    assert len(rows) == 8
    for row in rows:
        low, middle, high, most = (float(row[name]) for name in ("25%", "50%", "75%", "Max"))
        assert low <= middle <= high <= most
        # The mean of each quarter of the values lies between its ends.
        ends = [0.0, low, middle, high, most]
        assert fmean(ends[:4]) <= float(row["Mean"]) <= fmean(ends[1:])


def test_bufferbloat_numbers_equal_the_source():
    columns = {"min": "rtt_before_fetch_min_ms", "avg": "rtt_before_fetch_ms",
               "max": "rtt_before_fetch_max_ms", "mdev": "rtt_before_fetch_mdev_ms",
               "rate": "rate_kib_s", "time": "download_s", "item": "item"}  # fmt: skip
    wanted = [
        (
            (
                row["iperf"],
                {"one": "fifo", "two": "two-fifos"}[row["queues"]],
                {"before": "alone", "after": "loaded"}[row["when"]],
            ),
            {name: number(row[column]) for column, name in columns.items()},
        )
        for row in theirs("bufferbloat")
    ]
    same(ours("bufferbloat", ("algorithm", "queue", "load")), wanted)


def test_map_numbers_equal_the_source():
    rows = [
        (
            ("kim",),
            {
                "rtt_ms": number(row["Delay"]),
                "buffer_packets": BUFFERS[row["Buffer size"]],
                "loss_percent": number(row["Loss"]),
                "rate_mbit": mbit(row["Bandwidth"]),
                "bbr_mbit": mbit(row["BBR Bitrate"]),
                "cubic_mbit": mbit(row["Cubic Bitrate"]),
                "row": float(row["row"]),
            },
        )
        for row in theirs("map")
    ]
    log = []
    for row in theirs("map_iperf3"):
        begin, end = re.findall(r"[\d.]+", row["Interval"])
        numbers = {"from_s": float(begin), "to_s": float(end), "goodput_mbit": mbit(row["Bitrate"])}
        log.append((("kim (log)",), numbers))
    found = ours("map", ("source",))
    same([row for row in found if row[0][0] == "kim"], rows)
    same([row for row in found if row[0][0] == "kim (log)"], log)


def test_map_numbers_equal_the_original_paper():
    found = {
        (numbers["buffer_packets"], numbers["rate_mbit"], numbers["rtt_ms"]): numbers
        for (source,), numbers in ours("map", ("source",))
        if source == "cao2019"
    }
    gains = {key: numbers["gain_percent"] for key, numbers in found.items()}
    assert gains == {
        (BUFFERS[row["bufcap"]], float(row["bandwidth"]), float(row["rtt"])): float(
            row["goodput_gain"]
        )
        for row in theirs("map_original")
    }
    # The only condition whose goodputs the text states: 386.0 is 115 % more than 179.6.
    both = [numbers for numbers in found.values() if "bbr_mbit" in numbers]
    assert [(n["bbr_mbit"], n["cubic_mbit"], n["gain_percent"]) for n in both] == [
        (386.0, 179.6, 115.0)
    ]


def test_map_numbers_equal_the_replication():
    wanted = defaultdict(dict)
    for row in theirs("map_replication"):
        key = (
            f"datta2023 (Linux {row['kernel']})",
            BUFFERS[row["bufcap"]],
            float(row["bandwidth"]),
            float(row["rtt"]),
        )
        for prefix, name in (("", "mbit"), ("retr", "retransmits")):
            trials = [float(row[f"{prefix}{trial}"]) for trial in range(1, 6)]
            wanted[key][f"{row['cc']}_{name}"] = fmean(trials)
    found = {
        (source, n["buffer_packets"], n["rate_mbit"], n["rtt_ms"]): n
        for (source,), n in ours("map", ("source",))
        if source.startswith("datta2023") and not source.endswith("log)")
    }
    assert set(found) == set(wanted)
    for key, numbers in wanted.items():
        # The source prints four digits.
        assert {name: found[key][name] for name in numbers} == pytest.approx(numbers, rel=1e-3)


def test_replications_first_seconds_equal_the_source():
    rates, lost = defaultdict(list), defaultdict(list)
    for row in theirs("map_replication_start"):
        key = (
            f"datta2023 (Linux {row['kernel']}; log)",
            BUFFERS[row["bufcap"]],
            float(row["bandwidth"]),
            float(row["rtt"]),
        )
        seconds = [float(value) for name, value in row.items() if name.startswith("kbit_")]
        rates[key].append(fmean(seconds) / 1e3)
        lost[key].append(float(row["retr_0_1"]))
    found = {
        (source, n["buffer_packets"], n["rate_mbit"], n["rtt_ms"]): n
        for (source,), n in ours("map", ("source",))
        if source.startswith("datta2023") and source.endswith("log)")
    }
    assert set(found) == set(rates)
    for key, n in found.items():
        assert (n["from_s"], n["to_s"], len(rates[key])) == (1, 10, 5)
        assert n["cubic_mbit"] == pytest.approx(fmean(rates[key]), rel=1e-3)
        assert n["retransmits_first_second"] == pytest.approx(fmean(lost[key]))


def test_cloud_numbers_equal_the_source():
    columns = {
        "throughput": "goodput_mbit", "throughput of S_1": "goodput_mbit",
        "throughput of S_2": "competitor_goodput_mbit", "receiver": "goodput_mbit",
        "receiver of S_1": "goodput_mbit", "receiver of S_2": "competitor_goodput_mbit",
        "RTT": "srtt_mean_ms", "flow completion time": "completion_s", "Retr": "retransmits",
        "Retr of S_1": "retransmits", "Retr of S_2": "competitor_retransmits",
        "Retr 0.00-1.00": "retransmits_first_second",
        "Retr 0.00-1.00 of S_1": "retransmits_first_second",
        "Retr 0.00-1.00 of S_2": "competitor_retransmits_first_second",
        "mean rtt": "srtt_mean_ms", "standard deviation of rtt": "srtt_std_ms",
        "median rtt": "srtt_median_ms", "median cwnd": "cwnd_median_packets",
        "rwnd_limited": "rwnd_limited_percent",
    }  # fmt: skip
    wanted = defaultdict(dict)
    for row in theirs("cloud"):
        if row["what"] not in columns:
            assert row["what"] == "size of the video"
            continue
        text = row["place"].startswith("section")
        for algorithm in [row["algorithm"].lower()] if row["algorithm"] else ["cubic", "bbr"]:
            key = (
                row["app"].removeprefix("two "),
                algorithm,
                algorithm if row["app"].startswith("two") else "none",
                row["loss"].rstrip("%") or "0",
                "text" if text else "repository",
            )
            value = number(row["value"])
            if row["value"].endswith("kbits/s") or row["what"] == "flow completion time":
                value /= 1000
            wanted[key][columns[row["what"]]] = value
            if text:
                wanted[key]["section"] = float(row["place"].split()[1])
    found = ours("cloud", ("app", "algorithm", "competitor", "loss_percent", "from"))
    same(found, list(wanted.items()))


def test_video_log_of_the_cloud_study_has_other_rtts_than_its_text():
    """The text states 22.13 ms. One run in the log had no added delay."""
    means = {
        (row["algorithm"], row["loss"]): float(row["value"])
        for row in theirs("cloud")
        if row["app"] == "ffmpeg" and row["what"] == "mean rtt"
    }
    undelayed = means.pop(("BBR", ""))
    assert undelayed < 1
    assert len(means) == 5
    assert all(21.2 < mean < 21.5 for mean in means.values())


def test_curves_have_a_recorded_origin():
    sources = read_yaml(ROOT / "config/published/sources.yaml")
    assert schemas.problems(sources, "sources") == []
    curves = {path.name for path in (ROOT / "config/published").glob("*_curves.csv")}
    assert curves == set(sources)
    cited = (ROOT / "report/references.bib").read_text()
    assert all(f"{{{source['citation']}," in cited for source in sources.values())


def test_cloud_curves_have_the_medians_of_the_second_transcription():
    """Each curve's median over time is the median of all samples, which was read independently."""
    windows = defaultdict(list)
    for axes, numbers in ours("cloud_curves", ("app", "algorithm", "loss_percent")):
        windows[axes].append((numbers["t_s"], numbers["cwnd_packets"]))
    assert len(windows) == 12
    compared = 0
    for row in theirs("cloud"):
        axes = (row["app"], row["algorithm"].lower(), row["loss"].rstrip("%") or "0")
        if row["what"] == "median cwnd" and axes in windows:
            samples = windows[axes]
            lasting = sorted(
                (window, end - begin) for (begin, window), (end, _) in pairwise(samples)
            )
            half = sum(duration for _, duration in lasting) / 2
            passed = accumulate(duration for _, duration in lasting)
            at = next(number for number, total in enumerate(passed) if total >= half)
            assert lasting[at][0] == pytest.approx(float(row["value"]), rel=0.01)
            compared += 1
    assert compared == 12
