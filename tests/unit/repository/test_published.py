"""Published numbers, against a second transcription that was made independently of the first.

`tests/expected/published` has the sources' tables in their own words and units; this file converts
them to those of `config/published`.
"""

import csv
import re
from collections import defaultdict
from statistics import fmean

import pytest

from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import schemas

# 100 KB and 10 MB in frames of 1514 bytes.
BUFFERS = {"100KB": 66.0, "10MB": 6605.0, "100": 66.0, "10000": 6605.0}
CONTEST = ("exercise", "part", "scheme")


def ours(study, axes):
    """Read a study's published numbers: name and numbers of each row."""
    with (ROOT / f"config/published/{study}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
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


def theirs(name):
    """Read a table of the second transcription."""
    with (ROOT / f"tests/expected/published/{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    """Return the number of "7%", "22.6 Mbps" or "100 KB"."""
    return float(re.match(r"[\d.]+", text)[0])


def mbit(text):
    """Convert "285 Kbps" and "1 Gbps" to Mbit/s."""
    factor = {"K": 1e-3, "k": 1e-3, "M": 1.0, "G": 1e3}[re.search(r"[KkMG]", text)[0]]
    return number(text) * factor


def same(found, wanted):
    """Compare rows of names and numbers in any order."""

    def order(row):
        return row[0], sorted(row[1].items())

    assert sorted(name for name, _ in found) == sorted(name for name, _ in wanted)
    pairs = zip(sorted(found, key=order), sorted(wanted, key=order), strict=True)
    for (name, numbers), (_, expected) in pairs:
        assert numbers == pytest.approx(expected), name


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


def test_curves_have_a_recorded_origin():
    sources = read_yaml(ROOT / "config/published/sources.yaml")
    assert schemas.problems(sources, "sources") == []
    curves = {path.name for path in (ROOT / "config/published").glob("*_curves.csv")}
    assert curves == set(sources)
    cited = (ROOT / "report/references.bib").read_text()
    assert all(f"{{{source['citation']}," in cited for source in sources.values())


def test_contest_tables_equal_the_source():
    wanted = []
    for row in theirs("cellular_b"):
        scheme = (
            f"aimd,rtt_gain={number(row['RTT gain']):g},add={row['Add gain']}"
            f",multiply={row['Mult decrease']}"
        )
        wanted.append(
            (("B", "table", scheme), contest_numbers(row) | {"index": float(row["Index"])})
        )
    for row in theirs("cellular_d"):
        scheme = f"ewma,alpha={row['Alpha']},scale={row['Window Scale']},timeout={row['Timeout']}"
        wanted.append(
            (("D", "table", scheme), contest_numbers(row) | {"index": float(row["Index"])})
        )
    said = {row["what"]: number(row["value"]) for row in theirs("cellular_text")}
    wanted[9][1]["power"] = said["score of the best AIMD"]
    wanted[24][1]["power"] = said["highest power score"]
    # The text's 3.55 Mbit/s and 97 ms are row 6 of its table.
    assert wanted[24][1] == {"throughput_mbit": 3.55, "signal_delay_p95_ms": 97, "index": 6,
                             "power": 36.6}  # fmt: skip
    found = [row for row in ours("cellular", CONTEST) if row[0][1] == "table"]
    same(found, wanted)


def contest_numbers(row):
    names = {"Throughput": "throughput_mbit", "throughput": "throughput_mbit",
             "througput": "throughput_mbit", "Signal Delay": "signal_delay_p95_ms",
             "signal_delay": "signal_delay_p95_ms", "queue_delay": "queue_delay_p95_ms",
             "queueing_delay": "queue_delay_p95_ms"}  # fmt: skip
    return {name: float(row[column]) for column, name in names.items() if column in row}


def test_contest_numbers_equal_the_authors_repository():
    wanted = []
    runs = defaultdict(int)

    def add(exercise, part, scheme, row, **more):
        wanted.append(((exercise, part, scheme), contest_numbers(row) | more))

    for row in theirs("cellular_a_windows"):
        scheme = f"fixed,window={row['window']}"
        runs[scheme] += 1
        add("A", "runs", scheme, row, run=runs[scheme])
    words = {"rtt": "rtt_gain", "mult": "multiply"}
    for row in theirs("cellular_b_single"):
        name, value = words.get(row["key"], row["key"]), f"{float(row['value']):g}"
        standard = {"rtt_gain": "4", "add": "1", "multiply": "2"}
        if name in standard or (name, value) in (("alpha", "0.125"), ("beta", "0.25")):
            changed = standard | ({name: value} if name in standard else {})
            settings = ",".join(f"{key}={its}" for key, its in changed.items())
        else:
            settings = f"{name}={value}"
        add("B", f"single {name}", f"aimd,{settings}", row)
    for row in theirs("cellular_c_thresholds"):
        add("C", "thresholds", f"threshold,threshold_ms={row['delay']}", row)
    for line, row in enumerate(theirs("cellular_d_searches")):
        scheme = f"ewma,alpha={row['alpha']},scale={float(row['window_scale']):g},timeout=100"
        runs[scheme] += 1
        add("D", "first search" if line < 18 else "narrowed search", scheme, row, run=runs[scheme])
    overall = {row["alg"]: row for row in theirs("cellular_d_approaches")}
    said = {row["what"]: number(row["value"]) for row in theirs("cellular_text")}
    add("D", "approaches", "timely", overall["TIMELY"], power=said["power score of TIMELY"])
    add("D", "approaches", "bbr,rtt_window_ms=10000,tuned=0", overall["BBR-paper"])
    assert (
        wanted[-1][1]["signal_delay_p95_ms"] == said["signal delay of BBR with startup and drain"]
    )
    least = {"signal_delay": said["signal delay of BBR with a single min rtt"]}
    add("D", "approaches", "bbr,tuned=0", least)
    add("D", "approaches", "bbr,tuned=1", overall["BBR-tuned"],
        power=said["power score of BBR after all"])  # fmt: skip
    for name, numbers in wanted:
        if name[2] == "threshold,threshold_ms=160":
            numbers["power"] = said["score of the best threshold"]
    found = [row for row in ours("cellular", CONTEST) if row[0][1] != "table"]
    same(found, wanted)


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
