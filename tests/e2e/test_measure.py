"""Real cells in virtual time, byte by byte."""

import csv
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from losslab.campaign.results import Replicate
from losslab.emulation.link import tracelink
from losslab.study.axes import derived_seed
from tests.faults import kit

HOST_FILE = "host.json"
NOBODY = 65534


def measure(out, *words, **options):
    defaults = ["--duration-s", 2, "--warmup-s", 0.5, "--seed", 7]
    return kit.run(*kit.LOSSLAB, "measure", "--out", out, *defaults, *words, **options)


CELLULAR = ["--trace", "cellular", "--rtt-ms", 40, "--buffer-packets", 1000]
CELLS = {
    "cubic": ["--algorithm", "cubic", "--loss-percent", 1],
    "bbr": ["--algorithm", "bbr", "--loss-percent", 5, "--path", "asymmetric"],
    "video": ["--algorithm", "cubic", "--loss-percent", 10, "--app", "ffmpeg"],
    "datagram": [
        "--algorithm", "cubic", "--app", "datagram", "--scheme", "fixed,window=20", *CELLULAR,
    ],
    "kernel over a trace": ["--algorithm", "cubic", "--queue", "codel", *CELLULAR],
}  # fmt: skip


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """Measure each cell while nothing else runs."""
    folder = tmp_path_factory.mktemp("alone")
    for name, words in CELLS.items():
        done = measure(folder / name, *words)
        assert done.returncode == 0, done.stderr
    return folder


def test_same_seed_gives_the_same_bytes_in_parallel(alone, tmp_path):
    with ThreadPoolExecutor(len(CELLS)) as pool:
        list(pool.map(lambda item: measure(tmp_path / item[0], *item[1]), CELLS.items()))
    for name in CELLS:
        first, second = kit.contents(alone / name), kit.contents(tmp_path / name)
        assert first.keys() == second.keys()
        assert [n for n in first if first[n] != second[n]] == []


SOCAT = [
    "--app", "command", "--sender-command", "socat -u OPEN:/dev/zero TCP:$RECEIVER:5000",
    "--receiver-command", "socat -u TCP-LISTEN:5000 OPEN:/dev/null", "--warmup-s", 0.5,
]  # fmt: skip
# Conditions that were accepted, and whose runs were always invalid.
SOUND = {
    "changes of the path after a page is fetched": [
        "--app", "web", "--rtt-ms", 23, "--rate-mbit", 0.4, "--buffer-packets", 20,
        "--pauses", "per_s=0.08,min_ms=0.9,max_ms=5", "--duration-s", 27.5, "--warmup-s", 0,
    ],
    "acknowledgements at a full buffer of the reverse path": [
        "--shaper", "htb-netem", "--rtt-ms", 420, "--rate-mbit", 0.23, "--buffer-packets", 3,
        "--duration-s", 23, "--warmup-s", 0,
    ],
    "programs behind a trace": [*SOCAT, "--trace", "cellular", "--rtt-ms", 40],
    "programs on a path that duplicates packets": [
        *SOCAT, "--duplicate-percent", 20, "--rtt-ms", 2, "--rate-mbit", 1.1,
        "--buffer-packets", 50,
    ],
    "a rate that changes with offloads on": [
        "--offloads", "on", "--rtt-ms", 5.2, "--rate-mbit", 1.8, "--buffer-packets", 50,
        "--changes", "at_s=0.5,rate_mbit=0.53",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_accepted_condition_is_valid(tmp_path, name):
    done = measure(tmp_path / "run", "--algorithm", "bbr", *SOUND[name])
    assert done.returncode == 0, done.stderr


def test_fractional_duration_is_sent_for_its_whole_length(tmp_path):
    """iperf3 takes whole seconds, and sends without end for 0."""
    goodput = {}
    for seconds in (0.4, 1.6, 2):
        words = ["--algorithm", "cubic", "--rate-mbit", 20, "--rtt-ms", 20, "--buffer-packets", 60]
        done = measure(tmp_path / str(seconds), *words, "--duration-s", seconds, "--warmup-s", 0.2)
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / str(seconds) / "manifest.json").read_text())
        goodput[seconds] = manifest["summary"]["goodput_mbit"]
        with (tmp_path / str(seconds) / "tcp.csv").open() as file:
            sent = [row for row in csv.DictReader(file) if row["flow"] == "40001"]
        assert float(sent[-1]["t_s"]) >= seconds
        within = [int(row["retransmits"]) for row in sent if float(row["t_s"]) <= seconds]
        if seconds != 2:
            assert manifest["summary"]["retransmits"] == within[-1]
    assert goodput[1.6] > 0.9 * goodput[2]


def test_low_limit_of_open_files_is_enough(alone, tmp_path):
    """Open files of a guest are open files of its kernel's process; ffmpeg alone opens 200."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (100, most))
    done = measure(tmp_path / "few", *CELLS["video"], preexec_fn=few)
    assert done.returncode == 0, done.stderr
    assert kit.contents(tmp_path / "few") == kit.contents(alone / "video")


def test_manifest_has_the_condition_and_its_read_back(alone):
    manifest = json.loads((alone / "bbr" / "manifest.json").read_text())
    assert manifest["valid"]
    assert manifest["reasons"] == []
    assert manifest["summary"]["rtt_ms"] == pytest.approx(0.44, abs=0.003)
    assert manifest["summary"]["goodput_mbit"] > 500
    assert manifest["instrument"]["kernel"]["version"].startswith("6.12")
    assert manifest["instrument"]["image"]["packages"]["iperf3"]
    assert [flow["found"] for flow in manifest["observed"]["flows"]] == [["bbr"]]
    host = json.loads((alone / "bbr" / HOST_FILE).read_text())
    assert {"started_utc", "wall_s", "attempt", "git", "host_cpu"} <= host.keys()


@pytest.mark.parametrize("cell", ["datagram", "kernel over a trace"])
def test_trace_driven_link_carries_what_the_trace_allows_and_measures_its_queue(alone, cell):
    """The link's log follows the drawn trace: every departure is at an opportunity."""
    manifest = json.loads((alone / cell / "manifest.json").read_text())
    assert manifest["valid"]
    assert manifest["summary"]["rtt_ms"] == pytest.approx(40, abs=0.001)
    log = [line.split() for line in (alone / cell / "link.log").read_text().splitlines()]
    departures = [int(words[0]) for words in log if words[1] == "-"]
    times = tracelink.generate(derived_seed(manifest["seed"], "trace"))
    # Small packets may share an opportunity; full ones may not.
    full = Counter(int(words[0]) for words in log if words[1] == "-" and int(words[2]) == 1500)
    room = Counter(times)
    assert set(departures) <= set(times)
    assert all(count <= room[ms] for ms, count in full.items())
    counted = Counter(words[1] for words in log)
    drops = manifest["summary"]["link_drops"]
    assert counted["+"] == counted["-"] + drops
    assert counted["-"] > 100
    # queue.csv and the link's log have the same largest backlog and drops.
    with (alone / cell / "queue.csv").open(newline="") as file:
        samples = list(csv.DictReader(file))
    waiting = [0]
    for words in log:
        waiting.append(waiting[-1] + {"+": 1, "-": -1, "d": -1}[words[1]])
    sampled = [int(row["backlog_packets"]) for row in samples]
    assert 0.8 * max(waiting) <= max(sampled) <= max(waiting)
    assert min(sampled) >= 0
    assert manifest["summary"]["queue_max_packets"] >= 5
    assert int(samples[-1]["drops"]) <= drops
    for row in samples:
        packets, octets = int(row["backlog_packets"]), int(row["backlog_bytes"])
        assert 52 * packets <= octets <= 1500 * packets


def test_ordinary_user_gets_the_same_bytes(alone):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming another user needs root and setpriv")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        cache = kit.own_cache(folder).folder
        out = folder / "out"
        out.mkdir()
        os.chown(out, NOBODY, NOBODY)
        command = [
            "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            sys.executable, "-m", "losslab.cli", "measure", "--out", str(out / "cubic"),
            "--duration-s", "2", "--warmup-s", "0.5", "--seed", "7",
            *map(str, CELLS["cubic"]),
        ]  # fmt: skip
        environment = os.environ | {"LOSSLAB_CACHE": str(cache), "HOME": name}
        probe = subprocess.run([*command[:5], "-c", "import losslab"], check=False)
        if probe.returncode != 0:
            pytest.skip("this clone or its Python cannot be read by other users")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        first, second = kit.contents(alone / "cubic"), kit.contents(out / "cubic")
        assert [n for n in first if first[n] != second.get(n)] == []


def test_what_the_source_of_a_path_has_and_it_lacks_stays_with_the_run(tmp_path):
    """Its manifest has the same bytes, so `rerun` repeats it."""
    words = ["--algorithm", "cubic", "--rate-mbit", 5]
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    assert measure(plain, *words).returncode == 0
    done = measure(marked, *words, "--left-out", "tbf burst 5000b (3028)")
    assert "warning: the measured path lacks: tbf burst 5000b (3028)" in done.stderr
    assert kit.contents(plain) == kit.contents(marked)
    assert json.loads((marked / HOST_FILE).read_text())["left_out"] == ["tbf burst 5000b (3028)"]
    assert "left_out" not in json.loads((plain / HOST_FILE).read_text())
    assert Replicate(marked).checked().left_out
