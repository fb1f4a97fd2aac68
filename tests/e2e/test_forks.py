"""Forks of a snapshot: their bytes, and retries of lost ones."""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from losslab.backends import payload, snapshot_server, virtual
from losslab.backends.base import JOB_FILE, Job
from losslab.backends.snapshot import Snapshots
from losslab.campaign import replicate
from losslab.campaign.instrument import instrument, video
from losslab.errors import HostError
from losslab.instrument import image
from losslab.study.condition import Condition
from tests.faults import kit

HOST_FILE = "host.json"
COMMON = {
    "algorithm": "cubic", "loss_percent": 1, "path": "symmetric", "app": "iperf3", "rtt_ms": 20,
    "rate_mbit": 20, "buffer_packets": 60, "duration_s": 2, "warmup_s": 0.5,
}  # fmt: skip
# Conditions that cover all activities of a guest.
CONDITIONS = {
    "bbr": {"algorithm": "bbr"},
    "1 Gbit/s": {"rate_mbit": 1000, "rtt_ms": 0.44, "buffer_packets": 1000, "path": "asymmetric"},
    "competitor": {"competitor": "bbr", "queue": "fq_codel"},
    "video": {"app": "ffmpeg", "rate_mbit": 100, "warmup_s": 0},
    "web": {"app": "web", "loss_percent": 0, "duration_s": 20, "rate_mbit": 2, "warmup_s": 0},
    "datagram": {
        "app": "datagram", "scheme": "aimd", "trace": "cellular", "loss_percent": 0, "rtt_ms": 40,
        "buffer_packets": 1000,
    },
    "flows": {"flows": "same+reno,rtt_ms=30,count=2+bbr,size_kb=300"},
    "kernel over a trace": {
        "trace": "cellular", "loss_percent": 0, "rtt_ms": 40, "buffer_packets": 1000,
        "queue": "codel",
    },
}  # fmt: skip
NEEDS_CONTAINERS = pytest.mark.skipif(
    image.part(image.ENGINE).existing() is None, reason="the engine image: run `make containernet`"
)
CASES = [
    *(("virtual", name) for name in CONDITIONS),
    *(
        pytest.param("containernet", name, marks=NEEDS_CONTAINERS)
        for name in ("bbr", "video", "kernel over a trace")
    ),
]


def condition(name):
    return Condition.from_json(COMMON | CONDITIONS[name])


def measured(what, seed, out, tools, **how):
    """Return the files of a valid replicate."""
    film = video(what, tools)
    manifest = replicate.run(what, seed, out, tools, film, attempts=1, **how)
    assert manifest["reasons"] == []
    return kit.contents(out)


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    """Return a function that measures a condition in a fork, one boot per backend."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def snapshots(backend):
            return stack.enter_context(Snapshots())

        @functools.cache
        def fork(backend, name, seed=7):
            out, what = tmp_path_factory.mktemp("fork") / "out", condition(name)
            tools = instrument(backend, condition=what)
            return measured(what, seed, out, tools, snapshots=snapshots(backend))

        yield fork


@pytest.fixture(scope="module")
def boot(tmp_path_factory):
    """Return a function that measures a condition in a guest that is booted for it."""

    @functools.cache
    def boot(backend, name):
        out = tmp_path_factory.mktemp("boot") / "out"
        tools = instrument(backend, condition=condition(name))
        return measured(condition(name), 7, out, tools, alone=True)

    return boot


@pytest.mark.parametrize(("backend", "name"), CASES)
def test_fork_gives_the_bytes_of_a_freshly_booted_guest(backend, name, fork, boot):
    copy, booted = fork(backend, name), boot(backend, name)
    assert copy.keys() == booted.keys()
    assert [n for n in copy if copy[n] != booted[n]] == []
    if name == "bbr":  # another seed gives other bytes
        other = fork(backend, name, 8)
        assert copy["manifest.json"] != other["manifest.json"]
        assert copy["ping.csv"] != other["ping.csv"]


@pytest.mark.parametrize(
    ("backend", "names"),
    [
        ("virtual", ["bbr", "web", "kernel over a trace", "flows"]),
        pytest.param("containernet", ["bbr", "kernel over a trace"], marks=NEEDS_CONTAINERS),
    ],
)
def test_one_boot_gives_cells_in_any_order_the_bytes_of_guests_of_their_own(
    backend, names, fork, tmp_path
):
    forward = {name: fork(backend, name) for name in names}
    before, bases = kit.descendants(os.getpid()), set()
    with Snapshots() as snapshots:
        for name in names[::-1]:
            tools, out = instrument(backend), tmp_path / name
            assert measured(condition(name), 7, out, tools, snapshots=snapshots) == forward[name]
            bases.add(base_since(before))
    assert len(bases) == 1


@NEEDS_CONTAINERS
@pytest.mark.parametrize("name", ["bbr", "video", "web", "kernel over a trace"])
def test_containers_leave_the_raw_files_of_plain_hosts(name, fork):
    plain, inside = fork("virtual", name), fork("containernet", name)
    assert plain.keys() == inside.keys()
    assert [file for file in plain if plain[file] != inside[file]] == ["manifest.json"]


def test_processes_share_a_base_snapshot_and_get_the_same_bytes(tmp_path):
    before = kit.descendants(os.getpid())
    names = ("bbr", "competitor")
    with snapshot_server.serving() as shared:
        for name in names:
            command = kit.cell_command(tmp_path / name, 2, condition(name).to_json())
            subprocess.run(command, check=True, env=os.environ | shared)
        leaders = [pid for pid in kit.descendants(os.getpid()) if pid not in before and leads(pid)]
        assert len(leaders) == 1  # the base snapshot
    for name in names:
        first = kit.cell_folder(tmp_path / name) / "0"
        seed = json.loads((first / "manifest.json").read_text())["seed"]
        own = measured(condition(name), seed, tmp_path / "own" / name, instrument(), alone=True)
        assert kit.contents(first) == own


def test_forks_in_parallel_and_in_any_order_give_the_same_bytes(tmp_path):
    what, tools = condition("bbr"), instrument()

    def job(seed, name, snapshots):
        folder = tmp_path / name
        folder.mkdir()
        words = {
            "kind": "replicate", "condition": what.to_json(), "seed": seed, "video": False,
            "trace": False,
        }  # fmt: skip
        (folder / JOB_FILE).write_text(json.dumps(words))
        return Job(words, folder, seed, 120, snapshots=snapshots)

    seeds = {"a": 7, "b": 8, "c": 7, "d": 9, "e": 8, "f": 7, "g": 9, "h": 7}
    with Snapshots() as snapshots, contextlib.ExitStack() as stack:
        running = {}
        for name, seed in seeds.items():
            start = virtual.Guest().start(tools, job(seed, name, snapshots))
            running[name] = stack.enter_context(start).begin(None)
        assert {name: copy.wait(120) for name, copy in running.items()} == dict.fromkeys(seeds, 0)
    found = {
        name: {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in [*(tmp_path / name / "raw").iterdir(), tmp_path / name / "result.json"]
        }
        for name in seeds
    }
    assert found["a"] == found["c"] == found["f"] == found["h"]
    assert found["b"] == found["e"] != found["a"]
    assert found["d"] == found["g"] != found["a"]


def test_panicking_fork_is_retried_in_a_freshly_booted_guest(boot, tmp_path, monkeypatch):
    """The bytes equal those of an undisturbed fork."""
    what, tools, sound = condition("bbr"), instrument(), boot("virtual", "bbr")
    pack, packed = payload.pack, []

    def spoilt_at_first(folder):
        pack(folder)
        if not packed:
            with (folder / "losslab/emulation/traffic.py").open("a") as file:
                file.write("\nimport os\ndef run(*words): os._exit(3)\n")
        packed.append(folder)

    monkeypatch.setattr(payload, "pack", spoilt_at_first)
    with Snapshots() as snapshots:
        manifest = replicate.run(what, 7, tmp_path / "out", tools, snapshots=snapshots)
    assert len(packed) == 2
    assert manifest["valid"]
    host = json.loads((tmp_path / "out" / HOST_FILE).read_text())
    assert host["attempt"] == 2
    assert "exitcode=0x00000300" in host["earlier_reasons"][0]
    assert kit.contents(tmp_path / "out") == sound


def test_hanging_fork_is_killed_with_its_processes(tmp_path):
    tools, before = instrument(), kit.descendants(os.getpid())
    what = Condition.from_json(COMMON | {"duration_s": 3600, "rate_mbit": 1000})
    with Snapshots() as snapshots:
        manifest = replicate.run(
            what, 7, tmp_path / "hung", tools, timeout_s=5, attempts=1, snapshots=snapshots
        )
        assert "must end within 5 s" in manifest["reasons"][0]
        assert set(kit.descendants(os.getpid())) <= set(before)
        measured(condition("bbr"), 7, tmp_path / "next", tools, snapshots=snapshots)


@pytest.mark.parametrize("which", ["base snapshot", "cell's snapshot"])
def test_killed_snapshot_is_booted_again(which, tmp_path):
    what, tools, before = condition("bbr"), instrument(), kit.descendants(os.getpid())
    with Snapshots() as snapshots:
        first = measured(what, 7, tmp_path / "first", tools, snapshots=snapshots)
        base = base_since(before)
        waiting = kit.descendants(base)
        leader = next(pid for pid in waiting if os.getpgid(pid) == pid)
        killed = base if which == "base snapshot" else leader
        ending = [killed, *kit.descendants(killed)]
        os.kill(killed, signal.SIGKILL)
        gone(ending)
        assert measured(what, 7, tmp_path / "next", tools, snapshots=snapshots) == first


def test_full_scratch_folder_is_a_host_error(tmp_path, monkeypatch):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=500m", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        monkeypatch.setenv("LOSSLAB_SCRATCH", str(small))
        what, tools = condition("bbr"), instrument()
        with Snapshots() as snapshots:
            first = measured(what, 7, tmp_path / "first", tools, snapshots=snapshots)
            room = shutil.disk_usage(small).free - 20 * 2**20
            with (small / "filler").open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, room)
            with pytest.raises(HostError, match="must have room for the guest's memory") as error:
                replicate.run(what, 8, tmp_path / "full", tools, snapshots=snapshots)
            assert "LOSSLAB_SCRATCH" in error.value.hint
            (small / "filler").unlink()
            assert measured(what, 7, tmp_path / "again", tools, snapshots=snapshots) == first
        assert list(small.iterdir()) == []
    finally:
        # Poll: killed processes may take a moment to end.
        subprocess.run(["umount", "--lazy", str(small)], check=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_job_leaves_no_process_behind(number, tmp_path):
    command = kit.cell_command(tmp_path, 3, COMMON | {"duration_s": 600, "rate_mbit": 1000})
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # The active fork has its job's raw folder.
        cell = kit.cell_folder(tmp_path)
        kit.wait_for(lambda: list(cell.glob(".losslab-*/*/raw/sender.log")), "traffic")
        guests = kit.descendants(job.pid)
        leaders = [pid for pid in guests if leads(pid)]
        assert len(leaders) == 3  # the base snapshot, the cell's, and its fork
    finally:
        job.send_signal(number)
        job.wait(60)
    gone(guests)


def leads(pid):
    """Return whether a process leads its group; a short-lived one may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid) == pid
    return False


def base_since(before):
    """Return the base snapshot, the first of the descendants that have appeared."""
    return next(pid for pid in kit.descendants(os.getpid()) if pid not in before)


def gone(pids):
    kit.wait_for(lambda: not any(map(alive, pids)), f"the end of {pids}")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
