"""Traces of a user, measured: to the packet through outages, from a start, at high rates."""

import json
import shutil
from collections import Counter

import pytest

from losslab.emulation.link import tracelink
from losslab.emulation.link.tracelink import LOG
from tests.e2e.test_measure import measure
from tests.faults.kit import losslab

RATES = "time_s,mbit_s\n0,12\n1,12\n2,0\n3,0\n4,24\n5,6\n6,12\n"
PATH = ["--algorithm", "cubic", "--shaper", "link", "--rtt-ms", "20ms", "--buffer-packets", "60KB"]


def departures(run):
    """Return the full packets that left at each time of the link."""
    lines = (line.split() for line in (run / LOG).read_text().splitlines())
    return Counter(int(words[0]) for words in lines if words[1:3] == ["-", "1500"])


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Measure a file with blanks and capitals in its name from 1 s on, through an outage."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "My rates.csv").write_text(RATES)
    made = losslab("trace", "import", "My rates.csv", "--out", "My Trace.down", cwd=folder)
    assert made.returncode == 0, made.stderr
    words = [*PATH, "--trace", "My Trace.down", "--trace-start-s", "0.5s", "--duration-s", 6]
    done = measure(folder / "run", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "buffer_packets 60KB = 40 packets" in done.stderr
    assert "the trace lasts 7 s and repeats in this run" not in done.stderr
    return folder / "run"


def test_packets_leave_when_the_trace_allows_and_fill_the_capacity_of_the_part_used(started):
    times = tracelink.parse((started / "trace").read_text(), "the trace")
    room = Counter(ms - 500 for ms in times if ms >= 500)
    room.update(times[-1] - 500 + ms for ms in times)
    left = departures(started)
    assert all(count <= room[ms] for ms, count in left.items())
    # 2 to 4 s of the file; before and after it, the link is full.
    assert [ms for ms in left if 1500 < ms <= 3500] == []
    for begin, end in ((1400, 1500), (4600, 5400)):
        assert all(left[ms] == room[ms] for ms in range(begin + 1, end + 1))
    manifest = json.loads((started / "manifest.json").read_text())
    summary, begin_ms = manifest["summary"], manifest["observed"]["link_begin_ms"]
    octets = tracelink.capacity_bytes(times, begin_ms, begin_ms + 6000, 500)
    assert summary["link_capacity_mbit"] == pytest.approx(octets * 8 / 6e6)
    share = summary["link_throughput_mbit"] / summary["link_capacity_mbit"]
    assert summary["link_utilisation_percent"] == pytest.approx(100 * share)
    assert 50 < summary["link_utilisation_percent"] <= 100


def test_run_is_repeated_with_the_file_that_it_keeps(started, tmp_path):
    """The original file and its copy in the cache are gone, as on another machine."""
    shutil.copytree(started, tmp_path / "sent")
    manifest = json.loads((started / "manifest.json").read_text())
    copy = losslab_cache() / "traces" / manifest["cell"]["trace"]
    copy.unlink()
    done = losslab("rerun", tmp_path / "sent", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "same bytes" in done.stdout


def losslab_cache():
    from losslab.instrument.cache import cache_folder

    return cache_folder()


@pytest.mark.parametrize("mbit", [1000, pytest.param(5000, marks=pytest.mark.nightly)])
def test_link_is_full_at_high_rates(tmp_path, mbit):
    """Packets of a millisecond leave together; `rate_mbit` has no part in it."""
    (tmp_path / "rates").write_text(f"{mbit}\n" * 3)
    options = ["--unit", "mbit", "--interval-ms", 1000]
    assert losslab("trace", "import", "rates", *options, cwd=tmp_path).returncode == 0
    done = measure(
        tmp_path / "run", "--algorithm", "cubic", "--rtt-ms", 2, "--buffer-packets", "4MB",
        "--warmup-s", 0.2, "--receive-buffer", "large", "--trace", "rates.trace", "--duration-s",
        0.6, "--rate-mbit", 1, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "manifest.json").read_text())["summary"]
    assert summary["link_utilisation_percent"] > 90


def test_flow_queue_behind_a_trace_protects_a_competitor(tmp_path):
    shares = {}
    for queue in ("fifo", "fq_codel"):
        run = tmp_path / queue
        words = ["--algorithm", "cubic", "--competitor", "vegas", "--trace", "cellular"]
        done = measure(run, *words, "--rtt-ms", 40, "--queue", queue, "--duration-s", 4)
        assert done.returncode == 0, done.stderr
        summary = json.loads((run / "manifest.json").read_text())["summary"]
        shares[queue] = summary["competitor_goodput_mbit"] / summary["total_goodput_mbit"]
    assert shares["fq_codel"] > max(0.3, shares["fifo"])
