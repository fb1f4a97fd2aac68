"""Programs that losslab starts, and signals to losslab itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from losslab import processes
from losslab.errors import LosslabError

# Jobs that get a signal at any time from before their start to after it. `logging` takes
# locks around every fork that runs Python code in the child.
JOBS = """
import logging, random, signal, sys
from contextlib import contextmanager
from pathlib import Path
from losslab import interrupts, processes
from losslab.backends import base, runner

class Sleeper:
    @contextmanager
    def start(self, tools, job):
        command = ["sleep", sys.argv[2]]
        yield base.Start(lambda console: processes.spawn(command, console=console))

    def result(self, job, end, console):
        return {}

heard = 0
sys.unraisablehook = lambda _: None
job = base.Job({"kind": "command"}, Path(sys.argv[1]), 1, 5.0)
draw = random.Random(1)
for _ in range(int(sys.argv[3])):
    interrupts.unwind_on_signals()
    signal.signal(signal.SIGALRM, interrupts.note_and_raise)
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0001, 0.006))
        runner.run(Sleeper(), None, job)
    except SystemExit as end:
        heard += end.code == 128 + signal.SIGALRM
print(heard)
"""


def running(word, program=""):
    """Return the processes, or those of one program, that have a word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            if word.encode() in words and program.encode() in (b"", words[0]):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def gone(word):
    deadline = time.monotonic() + 60
    while running(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    return running(word) == []


def test_signal_during_the_start_of_a_job_ends_it(tmp_path):
    length, times = f"6100.{os.getpid()}", 300
    done = subprocess.run(
        [sys.executable, "-c", JOBS, str(tmp_path), length, str(times)],
        capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip
    assert done.stdout.split() == [str(times)], done.stderr
    assert gone(length)


SWALLOWED = """
import signal, sys, weakref
from losslab import interrupts, processes

class Thing: pass

def callback(_):
    signal.raise_signal(signal.SIGTERM)
    pass

sys.unraisablehook = lambda _: None
interrupts.unwind_on_signals()
thing = Thing()
reference = weakref.ref(thing, callback)
del thing
print("went on", flush=True)
interrupts.heed()
print("never", flush=True)
"""


def test_signal_ignored_in_a_callback_is_raised_again():
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stdout == "went on\n"
    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_program_ends_with_its_parent(number):
    length = f"6200.{os.getpid()}{int(number)}"
    script = (
        "import time; from losslab import processes; "
        f"processes.spawn(['sleep', '{length}']); print('started', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        deadline = time.monotonic() + 60
        # Before, setpriv sets up how it ends.
        while not running(length, "sleep") and time.monotonic() < deadline:
            time.sleep(0.01)
        parent.send_signal(number)
    assert gone(length)


def test_program_runs_on_one_cpu_with_all_file_descriptors(tmp_path):
    cpu = min(os.sched_getaffinity(0))
    console = tmp_path / "console"
    with console.open("wb") as out:
        process = processes.spawn(
            ["sh", "-c", "grep Cpus_allowed_list /proc/self/status; ulimit -n; ulimit -H -n"],
            cpu=cpu, raise_limits=["nofile"], console=out,
        )  # fmt: skip
        assert processes.wait(process, 60) == 0
    allowed, soft, hard = console.read_text().splitlines()
    assert allowed.split() == ["Cpus_allowed_list:", str(cpu)]
    assert soft == hard


@pytest.mark.parametrize("log", [None, Path("log")])
def test_failed_program_is_quoted_with_its_status(tmp_path, log):
    with pytest.raises(LosslabError, match=r"found status 3:\n(.*\n)?no rule") as error:
        processes.run(["sh", "-c", "echo no rule >&2; exit 3"], log=log and tmp_path / log)
    assert "sh -c" in error.value.message


def test_program_that_exceeds_its_time_is_ended():
    length = f"6300.{os.getpid()}"
    done = processes.attempt(["sleep", length], limit_s=0.2)
    assert (done.status, done.err) == (None, "no end in 0.2 s")
    assert running(length) == []
    with pytest.raises(LosslabError, match=r"found: no end in 0\.2 s"):
        processes.run(["sleep", length], limit_s=0.2)


def test_missing_program_is_an_error_with_a_fix():
    done = processes.attempt(["no-such-program"])
    assert done.status == processes.NOT_RUN
    assert "no-such-program must be installed" in done.last_line
    with pytest.raises(LosslabError) as error:
        processes.run(["no-such-program"])
    assert error.value.hint == "run `make setup`"
