"""Faults: losslab keeps no wrong result, loses no right one, and says what to do."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from losslab.backends import resources
from losslab.instrument.cache import cache_folder
from tests import sources
from tests.faults import kit
from tests.faults.kit import LOSSLAB, QUICK, ROOT, SNAKEMAKE, WAIT_S

MEASURE = [*LOSSLAB, "measure", *QUICK, "--out"]
PTRACE = 101  # system call number (asm/unistd_64.h)


def started(command, **more):
    """Start a command whose output is one text."""
    return subprocess.Popen(
        list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, **more,
    )  # fmt: skip


def explained(words, *having):
    """Check an error message: it has these words, and no traceback."""
    assert [word for word in having if word not in words] == [], words
    assert "Traceback (most" not in words, words


@contextlib.contextmanager
def running_cell(results):
    """Start a cell's job; yield it, its guest and the cell's folder during the second replicate."""
    job = started(kit.cell_command(results, 5))
    folder = kit.cell_folder(results)
    kit.wait_for((folder / "0" / "manifest.json").exists, "the first replicate")
    kit.wait_for(lambda: kit.guest_of(job.pid), "the second guest")
    guest, first = kit.guest_of(job.pid), kit.contents(folder / "0")
    yield job, guest, folder
    kit.wait_for(lambda: not Path(f"/proc/{guest}").exists(), "the guest's end")
    assert kit.contents(folder / "0") == first
    again = kit.run(*kit.cell_command(results, 2))
    assert again.returncode == 0, again.stderr
    assert "0: kept" in again.stdout
    assert kit.contents(folder / "0") == first
    assert list(folder.glob(".*")) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ended_cell_ends_its_guest_and_keeps_finished_replicates(number, tmp_path):
    with running_cell(tmp_path) as (job, _, cell):
        job.send_signal(number)
        words, _ = job.communicate(timeout=WAIT_S)
        assert job.returncode != 0
        if number == signal.SIGINT:
            assert job.returncode == 130
            explained(words, "interrupted", "are kept")
        assert number == signal.SIGKILL or list(cell.glob(".*")) == []


def test_disk_that_fills_up_stops_a_cell_and_keeps_finished_replicates(tmp_path):
    """Runs itself again in a namespace where the folder is a small file system."""
    small = tmp_path / "small"
    code = f"from tests.faults.test_faults import full_disk as it; it({str(small)!r})"
    done = kit.after_mounts(
        f"mkdir {small}; mount -t tmpfs -o size=40m tmpfs {small}", sys.executable, "-c", code
    )
    assert done.returncode == 0, done.stderr


def full_disk(name):
    with running_cell(Path(name)) as (job, _, folder), kit.filled(folder):
        words, _ = job.communicate(timeout=WAIT_S)
        assert job.returncode == 1, words
        explained(words, "free disk space")
        assert not (folder / "cell.json").exists()


def test_next_start_removes_what_a_killed_measurement_left(tmp_path):
    job = started([*MEASURE, tmp_path / "killed"])
    kit.wait_for(lambda: list(tmp_path.glob(".losslab-*/*/started")), "the guest's start")
    opened = set()
    for descriptor in Path(f"/proc/{job.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            opened.add(Path(os.readlink(descriptor)))
    memory = opened & set(resources.scratch_folder().glob("losslab-guest-*/*"))
    left = [*tmp_path.glob(".losslab-*"), *memory]
    job.kill()
    job.communicate()
    done = kit.run(*MEASURE, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(left) >= 3
    assert [path for path in left if path.exists()] == []


def stopped_guest(out, *words):
    """Start a measurement and stop its guest; return both."""
    job = started([*MEASURE, out, *words])
    kit.wait_for(lambda: list(out.parent.glob(".losslab-*/*/started")), "the guest's start")
    guest = kit.guest_of(job.pid, generations=1)
    os.kill(guest, signal.SIGSTOP)
    return job, guest


@pytest.mark.nightly
def test_guest_that_stops_responding_is_ended_and_invalid(tmp_path):
    job, guest = stopped_guest(tmp_path / "out", "--timeout-s", "4")
    words, _ = job.communicate(timeout=WAIT_S)
    assert job.returncode == 1
    explained(words, "must end within")
    assert not json.loads((tmp_path / "out" / "manifest.json").read_text())["valid"]
    assert not Path(f"/proc/{guest}").exists()


@pytest.mark.nightly
def test_guest_that_is_paused_measures_the_same_bytes(tmp_path):
    """A host that is slow, or sleeps, does not reach the guest's clock."""
    job, guest = stopped_guest(tmp_path / "paused")
    time.sleep(2)
    os.kill(guest, signal.SIGCONT)
    words, _ = job.communicate(timeout=WAIT_S)
    assert job.returncode == 0, words
    assert kit.run(*MEASURE, tmp_path / "plain").returncode == 0
    assert kit.contents(tmp_path / "paused") == kit.contents(tmp_path / "plain")


def test_guest_that_panics_at_boot_stops_the_cell_without_a_result(tmp_path):
    code = (
        "import sys; from losslab.backends import virtual; from losslab.cli import main; "
        "virtual.VIRTUAL_TIME.append('init=/no/such'); sys.exit(main(sys.argv[1:]))"
    )
    words = kit.cell_command(tmp_path / "cell", 5)[len(LOSSLAB) :]
    done = kit.run(sys.executable, "-c", code, *words)
    assert done.returncode == 1
    explained(done.stderr, "Kernel panic", "make setup")
    assert done.stderr.count("Kernel panic") == 1
    assert list(kit.cell_folder(tmp_path / "cell").iterdir()) == []


def test_lost_replicate_is_invalid_and_measured_at_the_next_start(tmp_path):
    """The guest panics twice during a replicate, while the smoke test passes."""
    package = tmp_path / "src" / "losslab"
    shutil.copytree(ROOT / "src" / "losslab", package)
    with (package / "emulation" / "traffic.py").open("a") as file:
        file.write(
            "\nimport os\n_run = run\n"
            "def run(plan, hosts, folder, *more):\n"
            "    if plan.path_spec.loss_percent == 5: os._exit(3)\n"
            "    return _run(plan, hosts, folder, *more)\n"
        )
    code = (
        "import sys; from pathlib import Path; from losslab.backends import payload; "
        f"from losslab.cli import main; payload.PACKAGE = Path({str(package)!r}); "
        "sys.exit(main(sys.argv[1:]))"
    )
    words = kit.cell_command(tmp_path / "cell", 3)
    out = kit.cell_folder(tmp_path / "cell") / "cell.json"
    done = kit.run(sys.executable, "-c", code, *words[len(LOSSLAB) :])
    assert done.returncode == 0, done.stderr
    explained(done.stderr, "was lost")
    (row, *more) = json.loads(out.read_text())["replicates"]
    assert (row["valid"], row["lost"], row["attempt"], more) == (False, True, 2, [])
    assert "exitcode=0x00000300" in row["reasons"][0]
    again = kit.run(*words)
    assert again.returncode == 0, again.stderr
    assert [row["valid"] for row in json.loads(out.read_text())["replicates"]] == [True] * 3


def test_forbidden_ptrace_is_named(tmp_path):
    done = subprocess.run(
        [*LOSSLAB, "doctor", "--self-test"], cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: kit.forbid(PTRACE),
    )  # fmt: skip
    assert done.returncode == 1
    explained(done.stderr, "trace its processes", "SYS_PTRACE")


AT_NIGHT = pytest.mark.nightly


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        pytest.param("mount -t tmpfs -o size=64m tmpfs /dev/shm", 0, "MiB free", marks=AT_NIGHT),
        pytest.param("mount -t tmpfs -o noexec tmpfs /dev/shm", 0, "noexec", marks=AT_NIGHT),
        ("mount -t tmpfs -o noexec tmpfs /dev/shm; mount -t tmpfs -o noexec tmpfs /tmp; "
         "mkdir -p {0}; unset TMPDIR LOSSLAB_SCRATCH", 1, "set LOSSLAB_SCRATCH"),
        ("mkdir {0}/out; mount -t tmpfs -o size=100k tmpfs {0}/out", 2, "free disk space"),
        ("mkdir {0}/out; mount -t tmpfs -o ro tmpfs {0}/out", 2, "Read-only file system"),
        ("mount --bind '{1}' '{1}'; mount -o remount,ro,bind '{1}'", 0, ""),
    ],
    ids=["small shm", "noexec shm", "no scratch", "full disk", "read-only folder",
         "read-only cache"],
)  # fmt: skip
def test_mounts_without_space_or_permission_are_avoided_or_named(script, status, words, tmp_path):
    if "/tmp" in script and ROOT.is_relative_to("/tmp"):
        pytest.skip("the project lies in /tmp, which this fault hides")
    done = kit.after_mounts(
        script.format(tmp_path, cache_folder()), *MEASURE, tmp_path / "out" / "run"
    )
    assert done.returncode == status, done.stderr
    explained(done.stderr, words)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("nofile", 40),
        pytest.param("as", 2 * 10**9, marks=AT_NIGHT),
        pytest.param("fsize", 10**9, marks=AT_NIGHT),
    ],
)
def test_low_hard_limit_is_named_with_the_one_to_set(name, limit, tmp_path):
    done = kit.run("prlimit", f"--{name}={limit}:{limit}", "--", *MEASURE, tmp_path / "out")
    what, shell, need, _ = resources.NEEDED[name]
    assert done.returncode == 1
    explained(done.stderr, what, f"`{shell} {need}`")


@pytest.mark.nightly
def test_empty_cache_is_named(tmp_path):
    environment = os.environ | {"LOSSLAB_CACHE": str(tmp_path / "empty")}
    done = kit.run(*MEASURE, tmp_path / "out", env=environment)
    assert done.returncode == 1
    explained(done.stderr, "make setup")


def test_second_job_of_a_cell_waits_and_measures_nothing(tmp_path):
    both = [started(kit.cell_command(tmp_path, 2)) for _ in range(2)]
    words = [process.communicate(timeout=WAIT_S)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], words
    assert sorted(text.count("kept") for text in words) == [0, 2]


CLAIM = ("statistic: max\n", "statistic: maximum\n", "'maximum' is not one of")
KEY = ("warmup_s", "warm_up", "warm_up")


@pytest.mark.parametrize("wrong", [pytest.param(CLAIM, marks=AT_NIGHT), KEY], ids=["claim", "key"])
def test_misspelt_word_stops_a_campaign_before_it_measures(wrong, tmp_path):
    before, after, word = wrong
    clone, config = ROOT, tmp_path / "small.yaml"
    content = "studies: {calibration: {rtt: {replicates: 2, duration_s: 1, warmup_s: 0}}}\n"
    config.write_text(content.replace(before, after))
    if wrong is CLAIM:
        clone = sources.copy(tmp_path / "clone")
        claims = clone / "studies" / "calibration" / "claims.yaml"
        assert before in claims.read_text()
        claims.write_text(claims.read_text().replace(before, after, 1))
    done = kit.run(
        *SNAKEMAKE, "--cores", "1", "--snakefile", clone / "Snakefile", "--directory", tmp_path,
        "--configfile", config, env=os.environ | {"PYTHONPATH": str(clone / "src")},
    )  # fmt: skip
    assert done.returncode != 0
    explained(done.stdout + done.stderr, word)
    assert not (tmp_path / "results").exists()


# Faults of whole campaigns, which take minutes.


@pytest.mark.nightly
def test_second_workflow_in_a_folder_is_refused(tmp_path):
    command = kit.campaign(tmp_path)
    first = started(command)
    kit.wait_for(lambda: list((tmp_path / "results").rglob(".losslab-*")), "the first guest")
    # Otherwise it would finish while the second one starts.
    first.send_signal(signal.SIGSTOP)
    try:
        second = kit.run(*command)
    finally:
        first.send_signal(signal.SIGCONT)
    words, _ = first.communicate(timeout=WAIT_S)
    assert first.returncode == 0, words
    assert second.returncode != 0
    explained(second.stdout + second.stderr, "another")
    assert len(kit.finished_replicates(tmp_path)) == kit.REPLICATES


def killed(process, folder):
    process.kill()


def interrupted(process, folder):
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it


@contextlib.contextmanager
def replaced(path, by):
    aside = path.with_name("aside")
    path.rename(aside)
    if by is not None:
        shutil.copy2(aside, path)
        with path.open("ab") as file:
            file.write(by)
    yield
    path.unlink(missing_ok=True)
    aside.rename(path)


BROKEN = {
    "killed": (killed, None, ""),
    "interrupted": (interrupted, None, ""),
    "no kernel": (None, lambda cache: replaced(cache.kernel / "linux", None), "  -> "),
    "other kernel": (None, lambda cache: replaced(cache.kernel / "linux", b"x"), "found another"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", BROKEN)
def test_broken_campaign_continues_with_the_same_bytes(name, tmp_path):
    end, breaking, word = BROKEN[name]
    cache = kit.own_cache(tmp_path)
    command, environment = kit.campaign(tmp_path), os.environ | cache.environment
    first = started(command, env=environment, start_new_session=True)
    kit.wait_for(lambda: kit.finished_replicates(tmp_path) or first.poll(), "the first replicate")
    with breaking(cache) if breaking else contextlib.nullcontext():
        if end:
            end(first, tmp_path)
        words, _ = first.communicate(timeout=WAIT_S)
        words += "".join(path.read_text() for path in (tmp_path / "logs").rglob("*.log"))
    assert first.returncode != 0, words
    explained(words, word)
    before = kit.finished_replicates(tmp_path)
    again = kit.run(*command, env=environment)
    assert again.returncode == 0, again.stdout + again.stderr
    after = kit.finished_replicates(tmp_path)
    assert {path: after[path] for path in before} == before
    # A lost SYN is sent again after a second, when these runs have ended.
    manifests = [json.loads(files["manifest.json"]) for files in after.values()]
    assert len(manifests) == kit.REPLICATES
    reasons = [reason for manifest in manifests for reason in manifest["reasons"]]
    assert all("the connection opened too late" in reason for reason in reasons)


KILLS = 10


def replicates_of(results):
    """Read a cell's two replicates."""
    found = {path.name: kit.contents(path) for path in kit.cell_folder(results).glob("[0-9]")}
    assert len(found) == 2
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    done = kit.run(*kit.cell_command(folder, 2))
    assert done.returncode == 0, done.stderr
    return replicates_of(folder)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(KILLS))
def test_randomly_killed_process_leaves_no_wrong_replicate(seed, undisturbed, tmp_path):
    """Kills the job, a kernel or a program of its guests; the next start gives the same bytes."""
    draw = random.Random(seed)
    out = tmp_path / "cell"
    job = started(kit.cell_command(out, 2))
    time.sleep(draw.uniform(0.3, 3))
    below = [pid for pid in kit.descendants(job.pid) if Path(f"/proc/{pid}").exists()]
    with contextlib.suppress(ProcessLookupError):
        os.kill(draw.choice([job.pid, *below]), draw.choice([signal.SIGKILL, signal.SIGTERM]))
    words, _ = job.communicate(timeout=WAIT_S)
    explained(words)
    again = kit.run(*kit.cell_command(out, 2))
    assert again.returncode == 0, again.stderr
    assert replicates_of(out) == undisturbed
