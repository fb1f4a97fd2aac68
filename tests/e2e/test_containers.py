"""The containernet backend: in a guest, byte by byte; on this machine's engine, without netem."""

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

from bench import host_state
from losslab import preflight
from losslab.build import image, kernel

ROOT = Path(__file__).resolve().parents[2]
HOST_FILE = "host.json"
CONTAINERS = 5
WAIT_S = 60


def python(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        capture_output=True, text=True, check=False, cwd=ROOT, **options,
    )  # fmt: skip


def measure(out, *words, **options):
    common = ["--duration-s", 2, "--warmup-s", 0.5, "--seed", 7, "--loss-percent", 1]
    return python("losslab.cli", "measure", "--out", out, *common, *words, **options)


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).iterdir()) if p.name != HOST_FILE}


needs_images = pytest.mark.skipif(
    image.existing(image.ENGINE) is None, reason="the engine image: run `make containernet`"
)
needs_guest = pytest.mark.skipif(
    image.existing(image.ENGINE) is None or kernel.existing(kernel.CONTAINERS) is None,
    reason="the engine image and the kernel that runs containers: run `make containernet`",
)


@needs_guest
def test_containers_in_a_guest_give_the_same_bytes_twice(tmp_path):
    words = ["--algorithm", "bbr", "--path", "asymmetric", "--backend", "containernet"]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda n: measure(tmp_path / n, *words), ("a", "b")))
    assert [d.returncode for d in done] == [0, 0], done[0].stderr + done[1].stderr
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert first.keys() == second.keys()
    assert [n for n in first if first[n] != second[n]] == []
    manifest = json.loads(first["manifest.json"])
    assert manifest["backend"] == "containernet"
    assert manifest["summary"]["rtt_ms"] == pytest.approx(0.44, abs=0.003)
    assert manifest["machine"]["docker"]
    assert len(manifest["instrument"]["engine"]["containernet"]) == 40


@needs_guest
@pytest.mark.parametrize(
    "words",
    [
        ["--app", "ffmpeg", "--algorithm", "cubic"],
        ["--algorithm", "cubic", "--trace", "cellular", "--rtt-ms", 40],
        ["--algorithm", "bbr", "--competitor", "cubic"],
    ],
    ids=["video", "trace", "competitor"],
)
def test_every_kind_of_program_runs_in_containers(tmp_path, words):
    done = measure(tmp_path / "out", *words, "--backend", "containernet")
    assert done.returncode == 0, done.stderr


def test_a_kernel_without_netem_is_refused_at_once(tmp_path):
    root = os.geteuid() == 0
    folder = image.existing(image.ENGINE)
    if not root or folder is None or preflight.kernel_qdisc("netem", root, folder / "root").good:
        pytest.skip("needs root, the engine image, and a kernel without sch_netem")
    before, begin = host_state.state(), time.monotonic()
    words = ["--algorithm", "cubic", "--backend", "containernet", "--where", "host"]
    done = measure(tmp_path / "out", *words)
    assert time.monotonic() - begin < 2 + 2  # another test may run beside this one
    assert done.returncode == 1
    assert "MISSING  sch_netem" in done.stderr
    assert "modprobe sch_netem" in done.stderr
    assert not (tmp_path / "out").exists()
    assert host_state.differences(before, host_state.state()) == []


def test_cells_in_real_time_run_one_at_a_time(tmp_path):
    """Whatever the number of cores; an engine that is not there ends each job at once."""
    campaign = tmp_path / "campaign.yaml"
    run = "{ replicates: 1, duration_s: 4, warmup_s: 1, backend: containernet, where: host }"
    campaign.write_text(f"studies: {{ backends: {{ host: {run} }} }}\n")
    command = ["snakemake", "--configfile", campaign, "--directory", tmp_path, "--cores", "8"]
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"DOCKER_HOST": f"unix://{tmp_path}/none"},
    )  # fmt: skip
    starts = [line for line in done.stderr.splitlines() if line.startswith("Execute ")]
    assert starts == ["Execute 1 jobs..."] * 8, done.stderr


@pytest.fixture(scope="module")
def engine():
    """A Docker engine of the tests' own; its client's environment."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("needs root and dockerd: apt-get install docker.io")
    # A short path: that of a socket must fit into 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="losslab-engine-", dir="/tmp"))
    address = f"unix://{folder}/docker.sock"
    command = [
        "dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
        "--ip-masq=false", "--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--host={address}", f"--data-root={folder}/data", f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + WAIT_S
        while not (folder / "docker.sock").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.1)
        environment = os.environ | {"DOCKER_HOST": address}
        warm = python("bench.rehearsal", "--duration-s", 1, env=environment)
        assert warm.returncode == 0, warm.stderr
        yield environment
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=WAIT_S)
        shutil.rmtree(folder, ignore_errors=True)


def containers(environment):
    command = ["docker", "ps", "--all", "--format", "{{.Names}}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def wait_for(condition):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def started(environment):
    """Start a rehearsal and wait until its containers are there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.rehearsal", "--duration-s", "60"],
        cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(lambda: len(containers(environment)) == CONTAINERS)
    time.sleep(1)
    return process


@needs_images
def test_real_containers_are_shaped_and_leave_nothing(engine):
    before = host_state.state()
    done = python("bench.rehearsal", "--duration-s", 2, env=engine)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["differences"] == []
    assert {word for host in result["offloads"].values() for f in host.values()
            for word in f.values()} == {"off"}  # fmt: skip
    assert 40 < result["goodput_mbit"] < 50
    # Without netem there is no delay but the machine's own.
    assert 0 < result["rtt_ms"] < 20
    assert host_state.differences(before, host_state.state()) == []


@needs_images
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_takes_its_containers_along(engine, number):
    before = host_state.state()
    process = started(engine)
    process.send_signal(number)
    process.wait(timeout=WAIT_S)
    wait_for(lambda: containers(engine) == [])
    wait_for(lambda: host_state.differences(before, host_state.state()) == [])


@needs_images
def test_what_a_killed_job_left_goes_at_the_next_start(engine):
    before = host_state.state()
    process = started(engine)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    # Both at once: the job could clean up after its parent.
    process.send_signal(signal.SIGSTOP)
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=WAIT_S)
    assert len(containers(engine)) == CONTAINERS
    done = python("bench.rehearsal", "--duration-s", 1, env=engine)
    assert done.returncode == 0, done.stderr
    assert containers(engine) == []
    assert host_state.differences(before, host_state.state()) == []


@needs_images
def test_another_ones_containers_stay(engine):
    name = "mn.sender"  # as Containernet would call it
    run = ["docker", "run", "--detach", "--name", name, "--network", "none"]
    tag = image.provenance(image.target())["hash"]
    command = [*run, "--label", "com.containernet", f"losslab-host:{tag}", "sleep", "300"]
    subprocess.run(command, env=engine, check=True, capture_output=True)
    try:
        done = python("bench.rehearsal", "--duration-s", 1, env=engine)
        assert done.returncode == 0, done.stderr
        assert containers(engine) == [name]
    finally:
        subprocess.run(
            ["docker", "rm", "--force", name], env=engine, check=True, capture_output=True
        )


@needs_images
def test_several_at_once_wait_for_each_other(engine):
    begin = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        words = ("bench.rehearsal", "--duration-s", 2)
        done = list(pool.map(lambda _: python(*words, env=engine), range(3)))
    assert [d.returncode for d in done] == [0, 0, 0]
    assert sum("waiting for its end" in d.stderr for d in done) == 2
    assert all(40 < json.loads(d.stdout)["goodput_mbit"] < 50 for d in done)
    # Each transfers for 2 s; side by side all three would have taken little more.
    assert time.monotonic() - begin > 3 * 2
