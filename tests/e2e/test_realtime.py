"""Measurements in real time on this machine's kernel, as root: plain hosts and containers.

A bare path needs neither netem nor fq: all but delay and loss is tested on any kernel. Other load
on the machine can invalidate results; these tests do not depend on it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from losslab.emulation.shaping import path_qdiscs
from losslab.instrument import image
from losslab.study.condition import Condition
from losslab.tools.realtime import onhost, preflight
from tests import host_state

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60
HOSTS = 5
ALLOWED = preflight.ALGORITHMS_ALLOWED.read_text().split()
BARE = [
    "--algorithm", ALLOWED[0], "--rtt-ms", 0, "--rate-mbit", 20, "--buffer-packets", 100,
    "--path", "asymmetric", "--where", "host", "--shaper", "tbf",
]  # fmt: skip
# Violations that other load on the machine can cause.
OF_LOAD = ("CPU time of other programs", "steal time", "utilisation of a CPU", "soft interrupts",
           "RTT of the idle path", "the RTT beyond", "the lateness of timers", "the bottleneck must"
           )  # fmt: skip

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        os.geteuid() != 0 or image.part().existing() is None,
        reason="root, and the host image: `make setup`",
    ),
]


def command(backend, out, *words, seconds=2):
    common = ["--duration-s", seconds, "--warmup-s", 0.5, "--seed", 7, "--out", out]
    command = [sys.executable, "-m", "losslab.cli", "measure", "--backend", backend]
    return [*command, *map(str, (*BARE, *common, *words))]


def measure(backend, out, *words, env=None, seconds=2):
    return subprocess.run(
        command(backend, out, *words, seconds=seconds),
        capture_output=True, text=True, check=False, cwd=ROOT, env=env,
    )  # fmt: skip


def manifest(out):
    return json.loads((out / "manifest.json").read_text())


def trouble(out):
    """Return the violations that other load cannot cause."""
    return [reason for reason in manifest(out)["reasons"] if not reason.startswith(OF_LOAD)]


def wait_for(condition):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


@contextlib.contextmanager
def nothing_left():
    """Check that the block leaves the machine unchanged, within a short time."""
    before = host_state.state()
    yield
    wait_for(lambda: host_state.differences(before, host_state.state()) == [])
    assert list(onhost.FOLDER.glob("job-*")) == []


@pytest.fixture(scope="module")
def engine():
    """Start a Docker engine for the tests; yield the environment of its client."""
    if shutil.which("dockerd") is None or image.part(image.ENGINE).existing() is None:
        pytest.skip("needs dockerd and the engine image: make containernet WHERE=host")
    # The path must be short: a socket's path has at most 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="losslab-engine-", dir="/tmp"))
    address = f"unix://{folder}/docker.sock"
    words = [
        "dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
        "--ip-masq=false", "--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--host={address}", f"--data-root={folder}/data", f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + WAIT_S
        while not (folder / "docker.sock").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.1)
        environment = os.environ | {"DOCKER_HOST": address}
        # The first job imports the image into the engine.
        out = folder / "warm"
        done = measure("containernet", out, env=environment, seconds=1)
        assert trouble(out) == [], done.stderr
        yield environment
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=WAIT_S)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["virtual", "containernet"])
def place(request, monkeypatch):
    """Return a backend and the environment that it needs."""
    environment = os.environ
    if request.param == "containernet":
        environment = request.getfixturevalue("engine")
        monkeypatch.setenv("DOCKER_HOST", environment["DOCKER_HOST"])
    return request.param, environment


def test_bare_path_in_real_time_is_valid_and_leaves_nothing(place, tmp_path):
    backend, environment = place
    out = tmp_path / "out"
    with nothing_left():
        done = measure(backend, out, env=environment)
    assert trouble(out) == [], done.stderr
    found = manifest(out)
    assert found["instrument"]["where"] == "host"
    assert found["machine"]["kernel"] == os.uname().release
    assert found["observed"]["without"] == ["netem", "fq"]
    assert 10 < found["summary"]["goodput_mbit"] < 20
    assert found["summary"]["unexplained_packets"] == 0
    assert found["summary"]["machine_busy"] > 0


@pytest.mark.parametrize(
    "words",
    [
        ["--app", "ffmpeg", "--video", "128x64", "--duration-s", 4],
        pytest.param(
            ["--app", "web", "--competitor", ALLOWED[0], "--duration-s", 26, "--path", "symmetric"],
            marks=pytest.mark.nightly,
        ),
        ["--app", "datagram", "--scheme", "fixed", "--duration-s", 4],
    ],
    ids=["video", "web", "datagram"],
)
def test_every_app_has_the_capabilities_that_it_needs(tmp_path, words):
    done = measure("virtual", tmp_path / "out", *words)
    assert trouble(tmp_path / "out") == [], done.stderr


def test_programs_have_no_capabilities_beyond_network_setup(place, tmp_path):
    """Reads the capabilities of running programs; linux/capability.h has the bits."""
    net_bind_service, net_admin = 1 << 10, 1 << 12
    backend, environment = place
    process = subprocess.Popen(
        command(backend, tmp_path / "out", seconds=30), cwd=ROOT, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: len(programs()) == 2)
        for status in programs():
            for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                rights = int(status[kind], 16)
                assert rights & ~(net_bind_service | net_admin) == 0, (kind, status)
            assert status["NoNewPrivs"] == "1"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=WAIT_S)


def programs():
    """Return the states of iperf3 processes in other namespaces of this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            lines = (entry / "status").read_text().splitlines() if entry.name.isdigit() else []
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if status.get("Name") == "iperf3":
                found.append(status)
    return found


def started(backend, environment, out):
    """Start a long run and wait until its traffic flows."""
    process = subprocess.Popen(
        command(backend, out, seconds=60), cwd=ROOT, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: len(programs()) == 2)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_run_removes_its_hosts(place, tmp_path, number):
    backend, environment = place
    before = host_state.state()
    process = started(backend, environment, tmp_path / "out")
    process.send_signal(number)
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode != 0
    assert "Traceback" not in errors
    wait_for(lambda: host_state.differences(before, host_state.state()) == [])
    assert programs() == []
    assert not (tmp_path / "out").exists()


def test_next_start_removes_leftovers_of_a_killed_job(place, tmp_path):
    backend, environment = place
    before = host_state.state()
    process = started(backend, environment, tmp_path / "out")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    # Both are killed at once: otherwise the job could clean up after its parent.
    process.send_signal(signal.SIGSTOP)
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    assert len(host_state.containers()) == (HOSTS if backend == "containernet" else 0)
    assert len(list(onhost.FOLDER.glob("job-*"))) == 1
    measure(backend, tmp_path / "next", env=environment, seconds=1)
    assert trouble(tmp_path / "next") == []
    wait_for(lambda: host_state.differences(before, host_state.state()) == [])
    assert list(onhost.FOLDER.glob("job-*")) == []


def test_containers_of_others_are_kept(engine, tmp_path):
    name = "mn.sender"  # Containernet's name
    run = ["docker", "run", "--detach", "--name", name, "--network", "none"]
    tag = image.provenance(image.part().target())["hash"]
    words = [*run, "--label", "com.containernet", f"losslab-host:{tag}", "sleep", "300"]
    subprocess.run(words, env=engine, check=True, capture_output=True)
    try:
        measure("containernet", tmp_path / "out", env=engine, seconds=1)
        assert trouble(tmp_path / "out") == []
        listing = ["docker", "ps", "--all", "--format", "{{.Names}}"]
        done = subprocess.run(listing, env=engine, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [name]
    finally:
        words = ["docker", "rm", "--force", name]
        subprocess.run(words, env=engine, check=True, capture_output=True)


def test_parallel_runs_in_real_time_wait_for_each_other(place, tmp_path):
    backend, environment = place
    begin = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        outs = [tmp_path / str(n) for n in range(2)]
        done = list(pool.map(lambda out: measure(backend, out, env=environment), outs))
    assert sum("waiting for its end" in d.stderr for d in done) == 1
    assert [trouble(out) for out in outs] == [[], []]
    # Each transfers for 2 s; in parallel, both would have taken little more.
    assert time.monotonic() - begin > 2 * 2


def test_exact_link_is_refused_at_once(tmp_path):
    before = host_state.state()
    done = measure("virtual", tmp_path / "out", "--shaper", "link")
    assert done.returncode == 2
    assert "set it to tbf (`--shaper tbf`)" in done.stderr
    assert not (tmp_path / "out").exists()
    assert host_state.differences(before, host_state.state()) == []


def test_kernel_without_netem_is_refused_at_once(tmp_path):
    lossy = Condition("reno", 1, "symmetric", "iperf3", 40, 10, 100, shaper="tbf")
    netem = next(s for s in path_qdiscs(lossy, 1) if s.kind == "netem")
    if preflight.kernel_qdisc(netem, True).good:
        pytest.skip("needs a kernel without sch_netem")
    before = host_state.state()
    done = measure("virtual", tmp_path / "out", "--rtt-ms", 40, "--loss-percent", 1)
    assert done.returncode == 1
    assert "MISSING  sch_netem" in done.stderr
    assert "modprobe sch_netem" in done.stderr
    assert not (tmp_path / "out").exists()
    assert host_state.differences(before, host_state.state()) == []
